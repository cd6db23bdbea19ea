"""RODAS, a Rosenbrock scheme of order four with an error estimate: one factorisation and six solves per step.

    (M/(γh) − J) U_i = G(u + Σ_j a_ij U_j, t + c_i h) + M Σ_j (g_ij/h) U_j + h d_i ∂G/∂t,    u(t + h) = u + Σ_j m_j U_j

It is L-stable, U_6 estimates the error, and no Newton iteration can fail. Coefficients: Hairer and Wanner, Solving
Ordinary Differential Equations II, section IV.7. Unknowns that are prescribed, u_b = b(t), enter as
G = F(u, b(t), t) − M_b b′(t).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bvsi.common.arrays import Array, Integers
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.forward.semidiscrete import (
    MAX_HALVINGS,
    SemiDiscrete,
    StepFactors,
    StepFailedError,
    StepStructure,
)
from bvsi.residual.discrete import NotFiniteError

# Coefficients γ, a, g, c and d of RODAS, from the book above.
_GAMMA = 0.25
# a_ij.
_A = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0),
)
# g_ij.
_G = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
# Where each stage is evaluated in time, and the weight of ∂G/∂t in it.
_C = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
_D = (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0)  # see above
# Doubling a step multiplies its error by up to 2⁵; the rest is room.
_DOUBLE_BELOW = 1 / 40
# Part of the step over which ∂G/∂t is differenced: the root of the rounding error, a little more.
_DIFFERENCE = 1e-6


@dataclass(frozen=True)
class Rosenbrock:
    """How to step in time.

    Parameters
    ----------
    tol
        Error of one step, root mean square relative to that of its field. Steps are the output intervals, halved as
        often as this asks for.
    max_steps
        Steps of one simulation, beyond which it is given up: a bound of the time that it takes.
    """

    tol: float = 1e-5
    max_steps: int = 100_000

    def __post_init__(self) -> None:
        if not 0 < self.tol < np.inf:
            raise BvsiError(f"tol: a positive number, not {self.tol!r}.")
        if self.max_steps < 1:
            raise BvsiError(f"max_steps: at least 1, not {self.max_steps!r}.")


@dataclass(frozen=True, eq=False)
class Prescribed:
    """Unknowns whose values are given: columns of the state, and their values in time."""

    columns: Integers
    values: Callable[..., Array]

    @staticmethod
    def of(columns: Integers, times: Array, states: Array) -> Prescribed:
        """Cubic splines through states (T, n) at the times."""
        from scipy.interpolate import CubicSpline  # imports most of SciPy

        return Prescribed(columns, CubicSpline(times, states[:, columns]))


class RosenbrockStepper:
    """Advances a semi-discrete system; counts its steps, and keeps the factors that can be used again."""

    def __init__(
        self,
        system: SemiDiscrete,
        scheme: Rosenbrock,
        structure: StepStructure,
        prescribed: Prescribed | None = None,
        progress: Progress = silent,
    ) -> None:
        self.system = system
        self.progress = progress  # called at every step, so that whoever waits can give up
        self.scheme = scheme
        self.steps = 0
        self._prescribed = prescribed
        timed = any(o.uses(o.terms, frozenset({"t"})) for o, _ in system.changing)
        self._moving = prescribed is not None or timed or bool(system.equation.lags)
        self._factors = StepFactors(structure, system.linear)
        self._step = system.longest_step  # the last one that was good enough

    def advance(self, u: Array, t: float, interval: float) -> Array:
        """State at t + interval."""
        level = max(0, int(np.ceil(np.log2(interval / self._step) - 1e-9))) if np.isfinite(self._step) else 0
        position = 0  # in steps of interval / 2**level
        while position < 2**level:
            h = float(f"{interval / 2**level:.12g}")  # so that equal intervals share their factors
            self._count(t + position * h)
            try:
                u, error = self._attempt(u, t + position * h, h)
                failure: BvsiError | None = None
            except (StepFailedError, NotFiniteError) as reason:
                error, failure = np.inf, reason
            if error > self.scheme.tol:
                level, position = level + 1, 2 * position
                self._check_level(level, t + position * h / 2, h, failure)
                continue
            position += 1
            self._step = h
            self.system.made(t + position * h, u)
            within = 2 * h <= self.system.longest_step
            if error < _DOUBLE_BELOW * self.scheme.tol and level > 0 and position % 2 == 0 and within:
                level, position = level - 1, position // 2
                self._step = 2 * h
        return u

    def _count(self, t: float) -> None:
        self.steps += 1
        self.progress(self.steps, None, f"simulating, t = {t:.4g}")
        if self.steps > self.scheme.max_steps:
            raise BvsiError(
                f"simulate: {self.scheme.max_steps} steps do not reach beyond t = {t:g}; is the model stable?"
            )

    @staticmethod
    def _check_level(level: int, t: float, h: float, failure: BvsiError | None) -> None:
        if level > MAX_HALVINGS:
            reason = f" {failure}" if failure else ""
            raise BvsiError(
                f"simulate: no solution at t = {t:g} even with a step of {h:.1e}; is the model stable?{reason}"
            )

    @np.errstate(over="ignore", invalid="ignore")  # such stages are not finite, and so a failed step
    def _attempt(self, u: Array, t: float, h: float) -> tuple[Array, float]:
        """State at t + h, or u where the error, which is returned as well, is too large."""
        M, free = self.system.equation.M, self.system.equation.free
        G = self._right_side()
        start = self._with_prescribed(u, t)
        factor = self._factors.at(h, lambda: (M.data / (_GAMMA * h), self.system.J(start, t)))
        drift = (G(start, t + _DIFFERENCE * h) - G(start, t)) / _DIFFERENCE if self._moving else None
        U: list[Array] = []
        for a, g, c, d in zip(_A, _G, _C, _D, strict=True):
            stage = u.copy()
            stage[free] += sum((x * V for x, V in zip(a, U, strict=True)), np.zeros(len(free)))
            b = G(stage, t + c * h)
            if g:
                lifted = np.zeros(len(u))
                lifted[free] = sum((x * V for x, V in zip(g, U, strict=True)), np.zeros(len(free)))
                b = b + M @ lifted / h
            if drift is not None:
                b = b + d * drift
            U.append(factor.solve(b))
            if not np.all(np.isfinite(U[-1])):
                raise StepFailedError("The solution runs away to infinity.")
        stage[free] += U[-1]
        error = self._size(U[-1], stage)
        return (self._with_prescribed(stage, t + h), error) if error <= self.scheme.tol else (u, error)

    def _right_side(self) -> Callable[[Array, float], Array]:
        """G(u, t) of a state whose prescribed unknowns may be out of date."""
        known = self._prescribed
        if known is None:
            return self.system.F

        def G(u: Array, t: float) -> Array:
            rate = np.zeros(len(u))
            rate[known.columns] = known.values(t, 1)
            return np.asarray(self.system.F(self._with_prescribed(u, t), t) - self.system.equation.M @ rate)

        return G

    def _with_prescribed(self, u: Array, t: float) -> Array:
        if self._prescribed is None:
            return u
        u = u.copy()
        u[self._prescribed.columns] = self._prescribed.values(t)
        return u

    def _size(self, update: Array, u: Array) -> float:
        """Largest root mean square over the fields, relative to that of the field."""
        n = self.system.equation.layout.space.n_dofs
        full = np.zeros_like(u)
        full[self.system.equation.free] = update
        of_field = np.sqrt(np.mean(np.square(full.reshape(-1, n)), axis=1))
        scale = np.sqrt(np.mean(np.square(u.reshape(-1, n)), axis=1))
        return float(np.max(of_field / np.where(scale > 0, scale, 1.0)))
