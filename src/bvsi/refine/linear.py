"""Sums over the data of an equation that is linear, at equal times: all modes of the initial state at once.

    u_j = Φ^j u_0 + …,     N_T = Σ_{j<T} Φ^jᵀ PᵀWP Φ^j,     N_{a+b} = N_a + Φ^aᵀ N_b Φ^a
    GᵀWx = Vᵀ Σ_j Φ^jᵀ PᵀW x_j    from the last time to the first

Φ (S, S) takes a state from one time to the next: one step of the scheme for all states, squared until it is as long as
the interval. N of 50 times takes 20 products of such matrices, where 50 times as many modes as states would have to be
solved for. Both hold as long as the coefficients stay where they are; within some standard deviations of them they
serve as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bvsi.common.arrays import Array
from bvsi.forward.ensemble import Simulator
from bvsi.forward.tangents import propagator, solve_with_tangents
from bvsi.refine.measurements import Measurements

_EQUAL = 1e-6  # part of a time step by which others may differ


@dataclass(frozen=True, eq=False)
class Propagated:
    """Φ and VᵀN_T V at some coefficients θ (d,)."""

    theta: Array
    steps: int
    Phi: Array
    N: Array

    @staticmethod
    def of(one: Measurements, made: Simulator, theta: Array, steps: int) -> Propagated:
        """At θ, with so many steps between two times, a power of two."""
        Phi = propagator(made, theta, float(np.mean(np.diff(one.data.times))), steps)
        W = 1 / one.floor[0]
        first = np.diag(W) if one.P is None else np.asarray(one.P.T @ (W[:, None] * one.P.toarray()))
        return Propagated(theta, steps, Phi, one.V.T @ _summed(Phi, first, one.data.n_times)[0] @ one.V)

    def sums(
        self, one: Measurements, made: Simulator, theta: Array, z: Array, states: Array, longer: int
    ) -> tuple[Array, Array]:
        """GᵀWG (d + m, d + m) and GᵀWr (d + m,) of the states (T, s) at θ and z.

        Parameters
        ----------
        longer
            How many times as long as those of the state the steps of its derivatives by θ are.
        """
        d, V = len(theta), one.V
        steps = max(1, self.steps // longer)
        tangents = solve_with_tangents(made, theta, one.initial(z), V[:, :0], one.data.times, steps)
        G = np.stack([own for _, own in one.seen(tangents)])
        W, r = 1 / one.floor[0], one.values - states
        right = np.concatenate([r[:, :, None], G], axis=2) * W[:, None]
        adjoint = np.zeros((len(self.Phi), 1 + d))
        for x in right[::-1]:
            adjoint = self.Phi.T @ adjoint + (x if one.P is None else one.P.T @ x)
        adjoint = V.T @ adjoint
        A, g = np.einsum("tsd,tse->de", G, right[:, :, 1:]), np.einsum("tsd,ts->d", G, right[:, :, 0])
        return np.block([[A, adjoint[:, 1:].T], [adjoint[:, 1:], self.N]]), np.concatenate([g, adjoint[:, 0]])


def propagates(one: Measurements, made: Simulator) -> bool:
    """Whether the equation is linear with constant coefficients, and times and weights are equal."""
    steps = np.diff(one.data.times)
    return bool(
        all(known is not None for known in made.equation.constant)
        and np.ptp(steps) <= _EQUAL * steps.mean()
        and one.known.all()
        and not (one.counted.any() or one.relative.any() or one.bend.any())
        and one.correlated is None
        and len(one.offsets) == 1
        and np.all(one.floor == one.floor[0])
    )


def _summed(Phi: Array, first: Array, count: int) -> tuple[Array, Array]:
    """N and Φ to the power of a count."""
    if count == 1:
        return first, Phi
    N, power = _summed(Phi, first, count // 2)
    N, power = N + power.T @ N @ power, power @ power
    if count % 2:
        N, power = first + Phi.T @ N @ Phi, Phi @ power
    return N, power
