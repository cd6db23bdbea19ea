"""Solutions with exact derivatives by coefficients and initial state: a stiffly accurate implicit scheme, order three.

    M (U_i − u) = h Σ_{j≤i} a_ij F(U_j),     u(t + h) = U_3
    (M − hγ J(U_i)) U_i′ = M u′ + h Σ_{j<i} a_ij F_j′ + hγ ∂F/∂θ(U_i),     hγ F_i′ = M (U_i′ − u′) − h Σ_{j<i} a_ij F_j′

′ are derivatives by all parameters at once, with factors of J at the last Newton iterate for U_i. Where J(U_i) changes
by less than the Newton tolerance, they are the derivatives of the numbers computed. Newton's iterations share their
factors, over steps as well, as long as they converge fast. The scheme is L-stable: R. Alexander, SIAM J. Numer. Anal.
14 (1977).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from bvsi.common.arrays import Array
from bvsi.forward.ensemble import Simulator
from bvsi.forward.semidiscrete import Discretised, StepFactor, StepFactors, StepFailedError
from bvsi.residual.discrete import State, evaluate

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
    u = _mapped(simulator, initial[None], "coefficients")[0]
    du = np.zeros((len(u), 0 if basis is None else d + basis.shape[1]))
    if basis is not None and basis.shape[1]:
        du[:, d:] = _mapped(simulator, basis.T, "coefficients").T
    stepper = _TangentStepper(simulator, theta)
    for start, interval in zip(times, np.append(np.diff(times), 0.0), strict=True):
        yield _mapped(simulator, u[None], "nodal")[0], _mapped(simulator, du.T, "nodal").T
        h = float(f"{interval / steps:.12g}")  # so that equal intervals share their factors
        for k in range(steps if interval else 0):
            u, du = stepper.step(u, du, float(start) + k * h, h)


def propagator(simulator: Simulator, theta: Array, interval: float, steps: int) -> Array:
    """Φ (s, s) of a linear equation: nodal values after an interval by those before it.

    Parameters
    ----------
    steps
        Within the interval, a power of two.
    """
    n = len(simulator.fields) * simulator.equation.space.n_dofs
    n = n if simulator.unknowns is None else _mapped(simulator, np.zeros((1, n)), "nodal").shape[1]
    *_, (_, G) = solve_with_tangents(
        simulator, theta, np.zeros(n), np.eye(n), np.array([0.0, interval / steps]), steps=1
    )
    Phi = G[:, len(theta) :]
    for _ in range(steps.bit_length() - 1):
        Phi = Phi @ Phi
    return Phi


def weak_terms(simulator: Simulator, states: Array, times: Array) -> tuple[Array, Array]:
    """M u (T, free) and F_i(u, t) (T, free, d) of nodal values (T, s)."""
    degrees = _mapped(simulator, states, "coefficients")
    stepper = _TangentStepper(simulator, np.zeros(len(simulator.equation.operators)))
    columns = np.stack([stepper.columns(u, float(t)) for u, t in zip(degrees, times, strict=True)])
    return np.asarray((simulator.equation.M @ degrees.T).T), columns


def _mapped(simulator: Simulator, values: Array, way: str) -> Array:
    """Nodal values to degrees of freedom (``coefficients``) or back (``nodal``), (m, s), field by field."""
    if simulator.unknowns is None:
        return values
    parts = np.split(values, len(simulator.fields), axis=-1)
    return np.concatenate([getattr(simulator.unknowns, way)(np.ascontiguousarray(p)) for p in parts], axis=-1)


class _TangentStepper:
    """Advances a state and its derivatives; keeps the factors that can be used again."""

    def __init__(self, simulator: Simulator, theta: Array) -> None:
        self._equation: Discretised = simulator.equation
        self._system = self._equation.system(theta)
        self._merged = self._system.merged()
        self._fixed = simulator.fixed
        self._before: Array | None = None  # the state one step ago
        self._interval = 1.0
        self._factors = StepFactors(simulator.structure, self._system.linear)
        self._kept: tuple[float, StepFactor] | None = None  # the step, and factors that Newton's method goes on with
        self._constant = [
            None if known is None else (self._equation.layout.pattern.matrix(known[0]), known[1])
            for known in self._equation.constant
        ]

    def columns(self, u: Array, t: float) -> Array:
        """F_i(u, t), (free, d)."""
        eq = self._equation
        found = np.zeros((eq.layout.pattern.shape[0], len(eq.operators)))
        fields = {f: u[start : start + eq.space.n_dofs, None] for f, start in eq.layout.column_start.items()}
        state = State(np.array([t]), fields, eq.auxiliary, positive=eq.positive)
        for i, (operator, known) in enumerate(zip(eq.operators, self._constant, strict=True)):
            if known is not None:
                found[:, i] = known[0] @ u + known[1]
            else:
                rows, tests = eq.layout.rows(operator.equation), eq.layout.tests[operator.equation]
                found[rows, i] = evaluate(operator, eq.space, state)[tests, 0]
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
        factor = self._factors.at(h, partial(_pair, self._merged.M.data / (h * _GAMMA), J))
        self._kept = h, factor
        return factor

    def _newton(self, U: Array, known: Array, t: float, h: float) -> Array:
        """U with M U − hγ F(U) = known."""
        s, free, g = self._merged, self._equation.free, h * _GAMMA
        U, before = U.copy(), np.inf
        for _ in range(_MAX_NEWTON):
            kept = self._kept
            factor = kept[1] if kept is not None and kept[0] == h else self._factor(s.J(U, t), h)
            update = factor.solve((known - s.M @ U) / g + s.F(U, t))
            if not np.all(np.isfinite(update)):
                raise StepFailedError("The solution runs away to infinity.")
            U[free] += update
            size = np.abs(update).max()
            if s.linear or size <= _NEWTON * (np.abs(U).max() or 1.0):
                return U
            if size > _SLOW * before:
                self._kept = None
            before = size
        raise StepFailedError(f"Newton's method does not converge in {_MAX_NEWTON} iterations.")


def _pair(B: Array, C: Array) -> tuple[Array, Array]:
    return B, C
