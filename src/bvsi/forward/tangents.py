"""Solutions with exact derivatives by coefficients and initial state: stiffly accurate implicit schemes.

Order three:

    M (U_i − u) = h Σ_{j≤i} a_ij F(U_j),     u(t + h) = U_3
    (M − hγ J(U_i)) U_i′ = M u′ + h Σ_{j<i} a_ij F_j′ + hγ ∂F/∂θ(U_i),     hγ F_i′ = M (U_i′ − u′) − h Σ_{j<i} a_ij F_j′

′ are derivatives by all parameters at once, with factors of J at the last Newton iterate for U_i. Where J(U_i) changes
by less than the Newton tolerance, they are the derivatives of the numbers computed. Newton's iterations share their
factors, over steps as well, as long as they converge fast. The scheme is L-stable: R. Alexander, SIAM J. Numer. Anal.
14 (1977).

Order nine, where F = A u + f is linear and constant: the stability function of Radau IIA, in partial fractions

    r(z) = Σ_j c_j/(z − p_j),     (hA − p_j M) x_j = M u + h f/p_j,     u(t + h) = Σ_j c_j x_j
    (hA − p_j M) x_j′ = M u′ + h f′/p_j − h A′ x_j

All A_i are one matrix, which multiplies all x_j at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sparse

from bvsi.common.arrays import Array
from bvsi.forward.ensemble import Simulator
from bvsi.forward.semidiscrete import StepFactor, StepFailedError, add_value

# Coefficients of the scheme: γ is the root of γ³ − 3γ² + 3γ/2 − 1/6 for which it is L-stable.
_GAMMA = 0.4358665215084590
_B1 = -(6 * _GAMMA**2 - 16 * _GAMMA + 1) / 4  # see above
_B2 = (6 * _GAMMA**2 - 20 * _GAMMA + 5) / 4  # see above
_A = ((), ((1 - _GAMMA) / 2,), (_B1, _B2))  # see above: a_ij below the diagonal
_C = (_GAMMA, (1 + _GAMMA) / 2, 1.0)  # see above: where the stages are in time
# Newton's method ends when an update is below this part of max|u|; derivatives are then exact to about the same.
_NEWTON = 1e-7
_MAX_NEWTON = 16  # it takes two to five; more mean that the step is too long
_SLOW = 0.1  # part of the update before, above which factors are made anew
# Stages of Radau IIA, of order 2s − 1. With five and one step between frames as far apart as a density moves by its
# width the error is below 10⁻⁴ of it; three factors, one of them real.
_STAGES = 5


_NORM = 64.0  # of matrices whose exponential is taken in single precision: powers of larger ones overflow


def _fractions(s: int) -> list[tuple[complex, complex]]:
    """p_j and c_j of the Padé approximant [s − 1/s] of e^z; one of each conjugate pair, with twice the weight."""
    k, n = s - 1, 2 * s - 1
    above = [math.comb(k, j) * math.factorial(n - j) / math.factorial(n) for j in range(k + 1)]
    below = [math.comb(s, j) * math.factorial(n - j) / math.factorial(n) * (-1.0) ** j for j in range(s + 1)]
    P, Q = np.polynomial.Polynomial(above), np.polynomial.Polynomial(below)
    pairs = [(p, P(p) / Q.deriv()(p)) for p in Q.roots().astype(complex).tolist()]
    real = [(p.real, c.real) for p, c in pairs if p.imag == 0]  # exactly so, of a real matrix
    return [*real, *((p, 2 * c) for p, c in pairs if p.imag > 0)]


_FRACTIONS = _fractions(_STAGES)


def solve_with_tangents(
    simulator: Simulator, theta: Array, initial: Array, basis: Array | None, times: Array, steps: int
) -> Iterator[tuple[Array, Array]]:
    """Solve u_t = Σ_i θ_i F_i(u): for each time nodal values (s,) and their derivatives (s, d + m) by θ and z.

    Parameters
    ----------
    simulator
        The discretised equation; its boundary values are settled by a condition, or stay what they are at first.
    theta
        Coefficients (d,).
    initial
        Nodal values (s,) at times[0], fields one after the other.
    basis
        Their derivatives by further parameters z, (s, m); None where no derivatives are wanted, which are (s, 0) then.
    times
        Output times (T,).
    steps
        Steps of equal length between two of them.
    """
    d = len(theta)
    u = simulator.degrees(initial[None])[0]
    du = np.zeros((len(u), 0 if basis is None else d + basis.shape[1]))
    if basis is not None and basis.shape[1]:
        du[:, d:] = simulator.degrees(basis.T).T
    stepper = (_LinearStepper if simulator.equation.linear else _TangentStepper)(simulator, theta)
    for start, interval in zip(times, np.append(np.diff(times), 0.0), strict=True):
        yield simulator.nodal(u[None])[0], simulator.nodal(du.T).T
        h = float(f"{interval / steps:.12g}")  # so that equal intervals share their factors
        for k in range(steps if interval else 0):
            u, du = stepper.step(u, du, float(start) + k * h, h)


def propagator(simulator: Simulator, theta: Array, interval: float) -> Array:
    """Φ (s, s) of a linear equation: nodal values after an interval by those before it, in single precision."""
    M, free, system = simulator.equation.M, simulator.equation.free, simulator.equation.system(theta)
    n = M.shape[1]
    nodes = simulator.nodal(np.zeros((1, n))).shape[1]
    K = simulator.degrees(np.eye(nodes)).T
    L = np.zeros((n, n))
    L[free] = scipy.linalg.solve(M[:, free].toarray(), system.A.toarray(), assume_a="pos")
    doublings = max(0, math.frexp(interval * float(np.abs(L).sum(axis=0).max()) / _NORM)[1])
    Phi = scipy.linalg.expm((interval / 2**doublings * L).astype(np.float32))
    for _ in range(doublings):
        Phi = Phi @ Phi
    return simulator.nodal((Phi @ K.astype(np.float32)).T).T.astype(np.float32)


def weak_terms(simulator: Simulator, states: Array, times: Array) -> tuple[Array, Array]:
    """M u (T, free) and F_i(u, t) (T, free, d) of nodal values (T, s)."""
    degrees = simulator.degrees(states)
    stepper = _TangentStepper(simulator, np.zeros(len(simulator.equation.operators)))
    columns = np.stack([stepper.columns(u, float(t)) for u, t in zip(degrees, times, strict=True)])
    return np.asarray((simulator.equation.M @ degrees.T).T), columns


class _LinearStepper:
    """Advances a state and its derivatives where the equation is linear with constant coefficients."""

    def __init__(self, simulator: Simulator, theta: Array) -> None:
        self._equation = eq = simulator.equation
        self._system, self._structure, self._fixed = eq.system(theta), simulator.structure, simulator.fixed
        self._factors: dict[float, list[StepFactor]] = {}

    @cached_property
    def _operators(self) -> tuple[Any, Array]:
        """A_i, one below the other (d · free, n), and f_i (d, free)."""
        known = [one for one in self._equation.constant if one is not None]
        blocks = [self._equation.layout.pattern.matrix(A) for A, _ in known]
        return sparse.vstack(blocks, format="csr"), np.stack([f for _, f in known])

    def step(self, u: Array, du: Array, _: float, h: float) -> tuple[Array, Array]:
        """State and derivatives after h."""
        s, M, factor = self._system, self._equation.M, self._structure.factor
        if h not in self._factors:
            self._factors = {h: [factor(p * M.data, h * s.A.data) for p, _ in _FRACTIONS]}
        pairs, Mu = list(zip(_FRACTIONS, self._factors[h], strict=True)), M @ u
        X = [self._solved(own, p, h, Mu + h / p * s.source, u) for (p, _), own in pairs]
        U, dU = np.zeros_like(u), np.zeros_like(du)
        for (_p, c), x in zip(_FRACTIONS, X, strict=True):
            U += (c * x).real
        if du.shape[1]:
            Mdu, (A, f) = M @ du, self._operators
            for ((p, c), own), AX in zip(pairs, _applied(A, X), strict=True):
                b = Mdu.astype(AX.dtype)
                b[:, : len(f)] += h / p * f.T - h * AX.reshape(f.shape).T
                dU += (c * self._solved(own, p, h, b, du)).real
        return U, dU

    def _solved(self, factor: StepFactor, p: complex, h: float, b: Array, u: Array) -> Array:
        """x with (hA − pM) x = b in the unknowns that move; in the others, which stay what they are, −u/p."""
        eq, fixed = self._equation, self._fixed
        x = np.zeros(u.shape, dtype=b.dtype)
        if len(fixed):
            x[fixed] = -u[fixed] / p
            b = b - (h * self._system.A[:, fixed] - p * eq.M[:, fixed]) @ x[fixed]
        x[eq.free] = -factor.solve(b)
        return x


def _applied(A: Any, X: Sequence[Array]) -> list[Array]:
    """A x of each x, by real columns at once: SciPy makes A complex for each x that is, and multiplies one by one."""
    columns = np.stack([part for x in X for part in (x.real, x.imag)], axis=1)
    real, imaginary = np.split((A @ columns).reshape(-1, len(X), 2), 2, axis=2)
    parts = zip(X, real[..., 0].T, imaginary[..., 0].T, strict=True)
    return [re + 1j * im if np.iscomplexobj(x) else re for x, re, im in parts]


class _TangentStepper:
    """Advances a state and its derivatives; keeps the factors that can be used again."""

    def __init__(self, simulator: Simulator, theta: Array) -> None:
        self._equation, self._fixed = simulator.equation, simulator.fixed
        self._merged = self._equation.system(theta).merged()
        self._before: Array | None = None  # the state one step ago
        self._interval = 1.0
        self._structure = simulator.structure
        self._kept: tuple[float, StepFactor] | None = None  # the step, and factors that Newton's method goes on with
        self._constant = [
            None if known is None else (self._equation.layout.pattern.matrix(known[0]), known[1])
            for known in self._equation.constant
        ]

    def columns(self, u: Array, t: float) -> Array:
        """F_i(u, t), (free, d)."""
        eq = self._equation
        found, state = np.zeros((eq.layout.pattern.shape[0], len(eq.operators))), eq.state(u, t)
        for i, (operator, known) in enumerate(zip(eq.operators, self._constant, strict=True)):
            if known is not None:
                found[:, i] = known[0] @ u + known[1]
            else:
                add_value(found[:, i], operator, eq.layout, state, 1.0)
        return found

    @np.errstate(over="ignore", invalid="ignore")  # such updates are not finite, and so a failed step
    def step(self, u: Array, du: Array, t: float, h: float) -> tuple[Array, Array]:
        """State and derivatives at t + h."""
        if self._before is None:
            self._before = u
        M, free = self._equation.M, self._equation.free
        Mu, Mdu = M @ u, M @ du
        F: list[Array] = []
        dF: list[Array] = []
        U, last = u + _GAMMA * (u - self._before) / self._interval * h, 0.0
        for a, c in zip(_A, _C, strict=True):
            U = U if last == 0 else u + (U - u) * (c / last)  # on a line, for Newton's method to begin with
            last = c
            known = Mu + h * sum((x * f for x, f in zip(a, F, strict=True)), np.zeros(len(free)))
            U = self._newton(U, known, t + c * h, h)
            F.append((M @ U - known) / (h * _GAMMA))
            if not du.shape[1]:
                continue
            J = self._merged.J(U, t + c * h)
            factor = self._factor(J, h)
            dknown = Mdu + h * sum((x * f for x, f in zip(a, dF, strict=True)), np.zeros((len(free), 1)))
            columns = self.columns(U, t + c * h)
            b = dknown.copy()
            b[:, : columns.shape[1]] += h * _GAMMA * columns
            if len(self._fixed):  # values that stay what they are move the others
                held = self._equation.layout.pattern.matrix(J)[:, self._fixed]
                b += h * _GAMMA * (held @ du[self._fixed]) - M[:, self._fixed] @ du[self._fixed]
            dU = du.copy()
            dU[free] = factor.solve(b / (h * _GAMMA))
            dF.append((M @ dU - dknown) / (h * _GAMMA))
        self._before, self._interval = u, h
        return U, dU if du.shape[1] else du

    def _factor(self, J: Array, h: float) -> StepFactor:
        """Factors of M/(hγ) − J."""
        factor = self._structure.factor(self._equation.M.data / (h * _GAMMA), J)
        self._kept = h, factor
        return factor

    def _newton(self, U: Array, known: Array, t: float, h: float) -> Array:
        """U with M U − hγ F(U) = known."""
        s, M, free, g = self._merged, self._equation.M, self._equation.free, h * _GAMMA
        U, before = U.copy(), np.inf
        for _ in range(_MAX_NEWTON):
            kept = self._kept
            factor = kept[1] if kept is not None and kept[0] == h else self._factor(s.J(U, t), h)
            update = factor.solve((known - M @ U) / g + s.F(U, t))
            if not np.all(np.isfinite(update)):
                raise StepFailedError("The solution runs away to infinity.")
            U[free] += update
            size = np.abs(update).max()
            if size <= _NEWTON * (np.abs(U).max() or 1.0):
                return U
            if size > _SLOW * before:
                self._kept = None
            before = size
        raise StepFailedError(f"Newton's method does not converge in {_MAX_NEWTON} iterations.")
