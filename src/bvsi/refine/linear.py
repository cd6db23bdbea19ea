"""Sums over the data of an equation that is linear, at equal times: all modes of the initial state at once.

    u_j = Φ^j u_0 + …,     N_T = Σ_{j<T} Φ^jᵀ W Φ^j,     N_2a = N_a + Φ^aᵀ N_a Φ^a,     N_{a+1} = N_a + Φ^aᵀ W Φ^a
    GᵀWx = Vᵀ Σ_j Φ^jᵀ W x_j    from the last time to the first

Φ (S, S) takes a state from one time to the next. N of 50 times takes 15 products of such matrices, where 50 times as
many modes as states would have to be solved for. All of it holds as long as the coefficients stay where they are;
within some standard deviations of them it serves as well, with the derivatives by θ, since it only multiplies what the
solution leaves of the data. That makes single precision enough; solutions have double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bvsi.common.arrays import Array
from bvsi.forward.ensemble import Simulator
from bvsi.forward.tangents import propagator, solve_with_tangents
from bvsi.refine.measurements import Measurements

_EQUAL = 1e-6  # part of a time step by which others may differ


@dataclass(frozen=True, eq=False)
class Propagated:
    """What belongs to some coefficients θ (d,).

    Attributes
    ----------
    Phi
        (S, S).
    G
        Derivatives (T, S, d) by θ.
    H
        GᵀWG (d + m, d + m) by θ and z.
    """

    theta: Array
    Phi: Array
    G: Array
    H: Array

    @staticmethod
    def of(one: Measurements, made: Simulator, theta: Array, G: Array, known: Propagated | None = None) -> Propagated:
        """At θ, with G there.

        Parameters
        ----------
        known
            At coefficients nearby, with Φ and N to go on with.
        """
        d, times, W = len(theta), one.data.times, 1 / one.floor[0]
        if known is None:
            Phi, V = propagator(made, theta, float(np.mean(np.diff(times)))), one.V.astype(np.float32)
            N = V.T @ _summed(Phi, W.astype(np.float32), len(times)) @ V
            at = theta
        else:
            Phi, N, at = known.Phi, known.H[d:, d:], known.theta
        WG = W[:, None] * G
        B = one.V.T @ _backwards(Phi, WG)
        return Propagated(at, Phi, G, np.block([[np.einsum("tsd,tse->de", G, WG), B.T], [B, N]]))

    def slope(self, one: Measurements, change: Array) -> Array:
        """GᵀWx (d + m,) of a change x (T, S) of the predictions."""
        x = change / one.floor[0]
        return np.concatenate([np.einsum("tsd,ts->d", self.G, x), one.V.T @ _backwards(self.Phi, x[:, :, None])[:, 0]])

    def frames(
        self, one: Measurements, made: Simulator, theta: Array, states: Array, steps: int, later: Array, drawn: Array
    ) -> Iterator[tuple[Array, Array]]:
        """States (S,) and their derivatives (S, d + k) by θ and along changes (m, k) of z, at all times.

        Parameters
        ----------
        states
            Those at the times of the data, (T, S).
        """
        d = len(theta)
        y = (one.V @ drawn).astype(self.Phi.dtype)
        for k, (u, G) in enumerate(zip(states, self.G, strict=True)):
            y = self.Phi @ y if k else y
            yield u, np.column_stack([G, y])
        ends = np.append(one.data.times[-1], later)
        further = solve_with_tangents(made, theta, u, np.column_stack([G, y]), ends, steps)
        for k, (u, X) in enumerate(further):
            if k:
                yield u, np.column_stack([X[:, :d] + X[:, d : 2 * d], X[:, 2 * d :]])


def _backwards(Phi: Array, x: Array) -> Array:
    """Σ_j Φ^jᵀ x_j (S, k) of x (T, S, k)."""
    total = np.zeros(x.shape[1:], dtype=Phi.dtype)
    for own in x[::-1]:
        total = Phi.T @ total + own.astype(Phi.dtype)
    return total.astype(float)


def propagates(one: Measurements, made: Simulator) -> bool:
    """Whether the equation is linear with constant coefficients, all nodes are measured, at equal times and weights."""
    steps = np.diff(one.data.times)
    return bool(
        one.P is None
        and all(known is not None for known in made.equation.constant)
        and np.ptp(steps) <= _EQUAL * steps.mean()
        and one.known.all()
        and not (one.counted.any() or one.relative.any() or one.bend.any())
        and one.correlated is None
        and len(one.offsets) == 1
        and np.all(one.floor == one.floor[0])
    )


def _summed(Phi: Array, weights: Array, count: int) -> Array:
    """N of so many times, from the weights (S,): doubled for every binary digit, and one time more where that is one.

    One time more is XᵀX, with X = W^½Φ^j, which takes half a product.
    """

    def once() -> Array:
        X = np.sqrt(weights)[:, None] * power
        return np.asarray(X.T @ X)

    N, power, reached = np.diag(weights), Phi, 1
    for digit in bin(count)[3:]:
        N = N + (once() if reached == 1 else power.T @ (N @ power))
        reached *= 2
        if reached < count:
            power = power @ power
        if digit == "1":
            N, reached = N + once(), reached + 1
            if reached < count:
                power = Phi @ power
    return N
