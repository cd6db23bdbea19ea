"""Systems without space solved in time, by LSODA, without a matrix:

u_t = Σ_i θ_i g_i(u, k(t), t)        known series k(t) by monotone cubics between their times
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Mask
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError, OperatorError
from bvsi.forward.rosenbrock import Rosenbrock
from bvsi.operators import Library, Vocabulary
from bvsi.operators.operator import Kernel, WeakOperator, compile_kernel
from bvsi.operators.vocabulary import TIME

Fields = Mapping[str, Array]
# Work of one evaluation in steps with a small matrix: 20 µs against 10 ms.
_COST = 2e-3
# Tolerance of a solution that is asked for by itself: one of Lorenz to t = 10 takes 0.1 s.
_ACCURATE = 1e-8
# Part of the tolerance of one step that LSODA is given: its steps are long, and their errors add up.
_STRICTER = 0.1
# Evaluations apart at which the time has to have moved: near a singularity LSODA takes steps that rounding swallows.
_STALLED = 1000


@dataclass(frozen=True, eq=False)
class SeriesSimulator:
    """Solves u_t = Σ_i θ_i g_i(u) of a system without space, as :class:`bvsi.forward.ensemble.Simulator` does in space.

    Attributes
    ----------
    data
        Known series, and the size of the fields.
    fields
        Fields that are simulated.
    operators
        Those of the library, in its order.
    """

    data: Data
    fields: tuple[str, ...]
    operators: tuple[WeakOperator, ...]
    needs_boundary: bool = False
    longest_lag: float = 0.0
    step_cost: float = _COST

    @staticmethod
    def of(data: Data, library: Library) -> SeriesSimulator:
        """The equations at the one point of the data."""
        operators = library.weak(Vocabulary.of(data), trial_order=0, test_order=0)
        fields = tuple(dict.fromkeys(o.equation for o in operators))
        lacking = [f for o in operators for f in o.reads if f not in fields]
        if lacking:
            raise OperatorError(
                f"simulate: field {lacking[0]!r} is read but has no equation; give it one, or make it an auxiliary "
                "field."
            )
        return SeriesSimulator(data, fields, operators)

    @property
    def moving(self) -> Mapping[str, Mask]:
        """All of them."""
        return {f: np.ones(1, dtype=bool) for f in self.fields}

    @cached_property
    def _kernel(self) -> Kernel:
        return compile_kernel(tuple(sum(term.integrand for term in o.terms) for o in self.operators))

    @cached_property
    def _known(self) -> dict[str, Callable[[ArrayLike], Array]]:
        """Known series by name."""
        from scipy.interpolate import PchipInterpolator  # imports most of SciPy

        return {
            name: PchipInterpolator(self.data.times, values[:, 0]) if values.ndim > 1 else _constant(values)
            for name, values in self.data.auxiliary.items()
        }

    def _slope(self, theta: Array, most: int, progress: Progress) -> tuple[Callable[[float, Array], Array], list[int]]:
        """u_t at t and u (fields,), and how often it was asked for."""
        words, kernel, known, calls = self.operators[0].words, self._kernel, self._known, [0]
        rows = np.array([self.fields.index(o.equation) for o in self.operators])
        jets = [words.decode(symbol) for symbol in kernel.symbols]
        names = [symbol.name if jet is None else jet[0] for symbol, jet in zip(kernel.symbols, jets, strict=True)]

        before = np.nan

        def slope(t: float, u: Array) -> Array:
            nonlocal before
            calls[0] += 1
            progress(calls[0], None, f"simulating, t = {t:.4g}")
            stalled = calls[0] % _STALLED == 0 and t == before
            if calls[0] > most or stalled:
                raise OperatorError(
                    f"simulate: {calls[0]} evaluations do not reach beyond t = {t:g}; is the model stable?"
                )
            before = t if calls[0] % _STALLED == 0 else before
            values = {TIME: t, **dict(zip(self.fields, u, strict=True))}
            g = kernel.function(*(values[name] if name in values else known[name](t) for name in names))
            return np.asarray(np.bincount(rows, theta * np.array(g, dtype=float), len(self.fields)), dtype=float)

        return slope, calls

    def run(
        self,
        theta: Array,
        initial: Fields,
        times: Array,
        *,
        scheme: Rosenbrock | None = None,
        boundary: tuple[Array, Fields] | None = None,
        before: tuple[Array, Fields] | None = None,
        progress: Progress = silent,
    ) -> tuple[dict[str, Array], int]:
        """Values (T, 1) by field at the times, and the number of evaluations; arguments as in space.

        LSODA gets a tenth of the tolerance of the scheme, relative to the value and to the rms of the field.
        """
        from scipy.integrate import solve_ivp  # imports most of SciPy

        del boundary, before
        moving = [name for name, values in self.data.auxiliary.items() if values.ndim > 1]
        if moving and times[-1] - self.data.times[-1] > 1e-9 * np.ptp(times):
            raise OperatorError(
                f"simulate: auxiliary series {moving[0]!r} is known until t = {self.data.times[-1]:g} only; end there."
            )
        rules = scheme or Rosenbrock()
        tol = _STRICTER * rules.tol
        slope, calls = self._slope(theta, 10 * rules.max_steps, progress)
        size = np.array([np.sqrt(np.mean(np.square(self.data.fields[f]))) or 1.0 for f in self.fields])
        start = np.array([float(initial[f][0]) for f in self.fields])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # LSODA's own words; what they mean is in the result
            solved = solve_ivp(slope, (times[0], times[-1]), start, "LSODA", times, rtol=tol, atol=tol * size)
        if not solved.success or not np.all(np.isfinite(solved.y)):
            reached = solved.t[-1] if len(solved.t) else times[0]
            raise BvsiError(f"simulate: no solution beyond t = {reached:g}; is the model stable?")
        return {f: u[:, None] for f, u in zip(self.fields, solved.y, strict=True)}, calls[0]

    def simulated(self, theta: Array, times: Array) -> Data:
        """The solution from the first frame of the data, with known series at the times asked for."""
        initial = {f: self.data.fields[f][0] for f in self.fields}
        found, _ = self.run(theta, initial, times, scheme=Rosenbrock(_ACCURATE))
        known = {
            name: values if values.ndim == 1 else np.asarray(self._known[name](times))[:, None]
            for name, values in self.data.auxiliary.items()
        }
        return replace(self.data, times=times, fields=found, auxiliary=known, measured=None)


def _constant(values: Array) -> Callable[[ArrayLike], Array]:
    """A known number at all times."""
    return lambda _: values[0]
