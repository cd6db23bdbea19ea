"""θ-schemes in time with Newton's method and adaptive sub-steps.

M (w − u)/h = ϑ F(w, t + h) + (1 − ϑ) F(u, t)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError, DataError, OperatorError
from bvsi.forward.ensemble import simulator
from bvsi.forward.rosenbrock import Rosenbrock
from bvsi.forward.semidiscrete import (
    MAX_HALVINGS,
    SINGULAR,
    Past,
    SemiDiscrete,
    StepFactor,
    StepFactors,
    StepFailedError,
    StepStructure,
    evolve,
    history,
    semidiscrete,
)
from bvsi.forward.series import SeriesSimulator
from bvsi.operators import Library
from bvsi.residual.discrete import NotFiniteError
from bvsi.spaces import Galerkin

# Iterations of the damped Newton method, and halvings of its update, before what was reached is taken (not measured).
_DAMPED_ITERATIONS = 100
_LINE_HALVINGS = 12  # see above


@dataclass(frozen=True)
class ThetaScheme:
    """How to step in time.

    Parameters
    ----------
    implicitness
        ϑ; 1 is backward Euler, ½ is Crank–Nicolson.
    substeps
        Steps between two output times.
    tol
        Where given, sub-steps are halved or doubled so that the local errors, from step doubling, add up to no more
        than tol · max|u| per output interval; ``substeps`` is then only where to begin.
    newton_tol, max_newton
        Newton's method ends when an update is below newton_tol · max|u|.
    damped
        Take steps of the size given even where their equation may have no solution: Newton's method with a line search,
        from what halved steps give, ending where no step lowers the residual. Without, such steps are halved.
    """

    implicitness: float = 1.0
    substeps: int = 1
    tol: float | None = None
    newton_tol: float = 1e-10
    max_newton: int = 12
    damped: bool = False

    def __post_init__(self) -> None:
        if not 0.5 <= self.implicitness <= 1:
            raise BvsiError(
                f"implicitness: between 1/2 (Crank-Nicolson) and 1 (backward Euler), not {self.implicitness}."
            )
        for name in ("substeps", "max_newton"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise BvsiError(f"{name}: a whole number of at least 1, not {value!r}.")
        for name in ("tol", "newton_tol"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise BvsiError(f"{name}: a positive number, not {value!r}.")

    @property
    def order(self) -> int:
        """Order p of the scheme: 2 for Crank–Nicolson, else 1."""
        return 2 if self.implicitness == 0.5 else 1


class Stepper:
    """Advances a semi-discrete system; keeps the factorisations that can be used again."""

    def __init__(self, system: SemiDiscrete, scheme: ThetaScheme) -> None:
        self.system = system
        self.scheme = scheme
        self._factors = StepFactors(StepStructure(system.equation.layout, system.equation.free), system.linear)
        self._level = 0  # sub-steps of an output interval are halved this many times
        self._allowed = scheme.tol or np.inf  # local error ε of one step

    def advance(self, u: Array, t: float, interval: float) -> Array:
        """State at t + interval.

        Where the local errors, each at most ε, add up to S > tol, the interval is done again. For order p they are
        proportional to h^(p+1) and their sum to h^p, so that ε (tol/S)^(1+1/p) would have met the tolerance.
        """
        if self.scheme.damped:
            halved = Stepper(self.system, replace(self.scheme, damped=False))
            return self._damped(u, halved.advance(u, t, interval), t, interval)
        tol, p = self.scheme.tol, self.scheme.order
        while True:
            w, S = self._cross(u, t, interval)
            if tol is None:
                return w
            change = min(2.0, 0.9 * (tol / S) ** (1 + 1 / p)) if S > 0 else 2.0
            self._allowed = min(tol, self._allowed * change)
            if tol >= S:
                return w

    def _cross(self, u: Array, t: float, interval: float) -> tuple[Array, float]:
        """State at t + interval, and the sum of the local errors."""
        begin = min(interval / self.scheme.substeps, self.system.longest_step)
        done = total = 0.0
        self.system.made(t, u)  # and none of the steps beyond it, where the interval is done again
        while done < interval * (1 - 1e-12):
            h = min(begin / 2**self._level, interval - done)
            try:
                u, error = self._attempt(u, t + done, h)
            except (StepFailedError, NotFiniteError) as failure:
                self._level += 1
                if self._level > MAX_HALVINGS:
                    raise BvsiError(
                        f"simulate: no solution at t = {t + done:g} even with a step of {h:.1e}; is the model stable? "
                        f"The last step failed because of this: {failure}"
                    ) from failure
                continue
            done, total = done + h, total + error
            self.system.made(t + done, u)
        return u, total

    def _attempt(self, u: Array, t: float, h: float) -> tuple[Array, float]:
        """One step, and its local error relative to max|u|; zero where no tolerance asks for it."""
        coarse = self._newton(u, t, h)
        if self.scheme.tol is None:
            return coarse, 0.0
        middle = self._newton(u, t, h / 2)
        fine = self._newton(middle, t + h / 2, h / 2)
        p = self.scheme.order
        error = float(np.abs(fine - coarse).max()) / (2**p - 1) / (float(np.abs(fine).max()) or 1.0)
        if error > self._allowed:
            raise StepFailedError(f"its error is {error:.1e}, tol allows {self._allowed:.1e}; a larger tol may do.")
        if error < self._allowed / 2 ** (p + 2) and self._level > 0:
            self._level -= 1
        return fine, error

    @np.errstate(over="ignore", invalid="ignore")  # such updates are not finite, and so a failed step
    def _newton(self, u: Array, t: float, h: float) -> Array:
        """Solve for w by Newton's method."""
        s, residual = self.system, self._residual(u, t, h)
        w = u.copy()
        for _ in range(self.scheme.max_newton):
            G = residual(w)
            factor = self._factor(w, t + h, h)
            update = factor.solve(-G)
            if not np.all(np.isfinite(update)):
                raise StepFailedError("Newton's method runs away to infinity.")
            w[s.equation.free] += update
            negligible = np.abs(update).max() <= self.scheme.newton_tol * (np.abs(w).max() or 1.0)
            if not negligible and factor.is_rounding(G, update):
                raise StepFailedError(SINGULAR)
            if s.linear or negligible:
                return w
        raise StepFailedError(f"Newton's method does not converge in {self.scheme.max_newton} iterations.")

    def _damped(self, u: Array, w: Array, t: float, h: float) -> Array:
        """One step from u by Newton's method from w, with a line search on ‖G‖; ends where no step lowers ‖G‖."""
        residual = self._residual(u, t, h)
        G = residual(w)
        for _ in range(_DAMPED_ITERATIONS):
            update = self._factor(w, t + h, h).solve(-G)
            for halving in range(_LINE_HALVINGS):
                tried = w.copy()
                tried[self.system.equation.free] += update / 2**halving
                lower = residual(tried)
                if np.linalg.norm(lower) < np.linalg.norm(G):
                    break
            else:
                return w
            small = np.abs(tried - w).max() <= self.scheme.newton_tol * (np.abs(w).max() or 1.0)
            w, G = tried, lower
            if small:
                return w
        return w

    def _residual(self, u: Array, t: float, h: float) -> Callable[[Array], Array]:
        """G(w) = M (w − u)/h − ϑ F(w, t + h) − (1 − ϑ) F(u, t) of a step from u."""
        s, M, theta = self.system, self.system.equation.M, self.scheme.implicitness
        known = M @ u / h + ((1 - theta) * s.F(u, t) if theta < 1 else 0.0)
        return lambda w: np.asarray(M @ w / h - theta * s.F(w, t + h) - known)

    def _factor(self, w: Array, t: float, h: float) -> StepFactor:
        """Factors of M/h − ϑJ(w); kept by step size where the system is linear."""
        s, theta = self.system, self.scheme.implicitness
        return self._factors.at(h, lambda: (s.equation.M.data / h, theta * s.J(w, t)))


# Error of a step of a series with delays, below that of cubics through its samples; not measured.
_OF_DELAYS = Rosenbrock(1e-7)
# Times closer than this fraction of the simulated time are the same.
_SAME_TIME = 1e-9


def simulate(
    library: Library,
    theta: ArrayLike | Mapping[str, float],
    initial: Data,
    times: ArrayLike,
    *,
    discretisation: Galerkin | None = None,
    scheme: ThetaScheme | None = None,
    progress: Progress = silent,
) -> Data:
    """Solve u_t = Σ_i θ_i F_i(u) from the first frame of ``initial``.

    Parameters
    ----------
    library
        Operators and boundary conditions.
    theta
        Coefficients in the order of the library, or by name (operators left out get zero).
    initial
        Its first time is the initial state; its geometry is that of the simulation. With ``lag(...)`` it is the record
        before the simulation, which begins at one of its frames, the longest delay after the first or later.
    times
        Output times, increasing; the first is that of the initial state.
    discretisation
        Element.
    scheme
        Time stepping, by default one backward-Euler step per output time; LSODA for a system without space, a
        Rosenbrock method for one with delays.
    """
    coefficients = _coefficients(library, theta)
    t = _times(times, initial, anywhere=bool(library.longest_lag))
    if not initial.geometry.names and scheme is None and not library.longest_lag:
        return SeriesSimulator.of(initial, library).simulated(coefficients, t)
    if not initial.geometry.names and scheme is None:
        return _delayed(initial, library, coefficients, t, progress)
    system = semidiscrete(initial, library, coefficients, discretisation or Galerkin())
    equation = system.equation
    fields = equation.layout.fields
    frames = history(initial, t[0], equation.longest_lag) if equation.lags else slice(0, 1)
    states = np.concatenate([initial.fields[f][frames] for f in fields], axis=1)
    if equation.lags:
        system = replace(system, past=Past(initial.times[frames], states))
    stepper = Stepper(system, scheme or ThetaScheme())
    stacked = evolve(stepper, states[-1], t, progress)
    n = initial.n_nodes
    values = {f: stacked[:, i * n : (i + 1) * n] for i, f in enumerate(fields)}
    return Data(times=t, fields=values, geometry=initial.geometry, auxiliary=initial.auxiliary)


def _delayed(initial: Data, library: Library, theta: Array, times: Array, progress: Progress) -> Data:
    """A series with delays, from its record."""
    made = simulator(initial, library)
    frames = history(initial, times[0], made.longest_lag)
    record = {f: initial.fields[f][frames] for f in made.fields}
    start, before = {f: u[-1] for f, u in record.items()}, (initial.times[frames], record)
    found, _ = made.run(theta, start, times, scheme=_OF_DELAYS, before=before, progress=progress)
    return replace(initial, times=times, fields=found, measured=None)


def _coefficients(library: Library, theta: ArrayLike | Mapping[str, float]) -> Array:
    """Coefficients in the order of the library, (d,)."""
    d = len(library)
    positions = [library.index(name) for name in theta] if isinstance(theta, Mapping) else list(range(d))
    values = _finite_numbers(list(theta.values()) if isinstance(theta, Mapping) else theta)
    if values is None or values.shape != (len(positions),):
        raise OperatorError(f"theta: needs {d} finite numbers, one per operator of the library, or numbers by name.")
    vector = np.zeros(d)
    vector[positions] = values
    return vector


def _times(times: ArrayLike, initial: Data, *, anywhere: bool) -> Array:
    """Output times, (T,); where they begin is checked elsewhere if that may be ``anywhere``."""
    t = _finite_numbers(times)
    if t is None or t.ndim != 1 or len(t) < 2 or not np.all(np.diff(t) > 0):
        raise DataError(
            "times: at least two increasing finite output times are needed, the first that of the initial state."
        )
    start = float(initial.times[0])
    if not anywhere and abs(t[0] - start) > _SAME_TIME * (t[-1] - t[0]) + 4 * np.spacing(abs(start)):
        raise DataError(
            f"times: begin at {t[0]:g}, the initial state is at {start:g}; begin there, or give the initial state "
            "another time."
        )
    return t


def _finite_numbers(values: object) -> Array | None:
    """The values as an array of finite numbers, or None."""
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        return None
    return numbers if np.all(np.isfinite(numbers)) else None
