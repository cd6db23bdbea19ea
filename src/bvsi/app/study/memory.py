"""Peak memory of a discovery, estimated from sizes alone before it is run.

    n = N K residuals, d operators, s numbers of the data at the unknowns, E entries of one covariance
    peak ≈ 1.25 [objects + check · (copies · s + sides · n (1 + d) + entry · E + factors · L)]
    L = min(m², ½ E log₂ m)

E counts pairs of test functions that overlap; L is what nested dissection leaves of a factor of m rows: m is n for
stacked weights and N for those of one block, of which every thread has a factor. Nothing is assembled or factorised.
:mod:`bvsi.studies.benchmarks.memory` compares the estimate with measured peaks, see ``docs/performance.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bvsi.data import Data, as_experiments
from bvsi.discovery.functions import with_columns
from bvsi.discovery.method import Choice, Method, choose_method
from bvsi.infer import NUTS, SVGD, Maximum
from bvsi.likelihood import Stacked
from bvsi.linalg.machine import usable_cores
from bvsi.noise import Noise
from bvsi.noise.measurement import measure_all
from bvsi.operators import Library
from bvsi.operators.experiments import by_experiment
from bvsi.residual.assembly import discretise_library
from bvsi.setup import Setup
from bvsi.spaces import SplineTests

# CPU seconds of a discovery with its check: at least, per value and operator, and per cubed residual. Five runs set
# them: Burgers 256 × 101, the demo, a thermal movie 96 × 80 × 45, a mesh of 1,449 nodes × 31, a series of 600 times.
_BEGIN, _PER_VALUE, _PER_CUBE, _PART = 3.0, 2e-6, 1.3e-9, 1500
NUMBER = 8  # bytes of a number in double precision
# Files of control groups (containers, batch systems), version 2 and 1: limit in bytes, and bytes in use.
_CONTROL_GROUPS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


@dataclass(frozen=True)
class Costs:
    """How many arrays of each kind exist side by side; the eight cases of ``bench memory`` set the values.

    Parameters
    ----------
    program
        Bytes of Python with NumPy, SciPy, SymPy and Numba.
    objects
        Objects of expressions and compiled kernels.
    copies
        Arrays as large as the data (smoothed states, noise filters).
    sides
        Arrays as large as [y, X].
    draws
        The same for stacked weights, whose moment equations take draws of noise through the solver.
    gradients
        The same for conjugate gradients.
    entry, banded
        Bytes per entry of a covariance (pattern, analysis, values); on a line there are values only, in bands.
    check
        What refits of the check add, as a factor.
    inverse
        Factors that a gradient of a log-determinant adds.
    margin
        Freed memory that allocators keep, and small arrays that are not counted.
    """

    program: float = 3e8
    objects: float = 2.5e7
    copies: float = 12.0
    sides: float = 4.0
    draws: float = 30.0
    gradients: float = 60.0
    entry: float = 100.0
    banded: float = 24.0
    check: float = 1.5
    inverse: float = 2.0
    margin: float = 1.25


COSTS = Costs()


@dataclass(frozen=True)
class Memory:
    """Estimated peak of a discovery in bytes, without the program: by part, with the sizes that it follows from.

    Attributes
    ----------
    rows, blocks
        N and K of every experiment.
    free
        Bytes that the machine has left, None where it does not report it.
    """

    choice: Choice
    operators: int
    rows: tuple[int, ...]
    blocks: tuple[int, ...]
    parts: dict[str, float]
    free: float | None

    @property
    def peak(self) -> float:
        """Bytes, margin included."""
        return COSTS.margin * sum(self.parts.values())

    def seconds(self, values: int) -> float:
        """CPU seconds of the discovery of so many values, good to a factor of three where the candidates fit.

        c_0 + c_1 · values · operators + c_2 · Σ n_s³ over the parts of the residuals whose covariance is factored at
        once: all of them with stacked weights, else parts of at most 1,500.
        """
        sizes = [K * N for K, N in zip(self.blocks, self.rows, strict=True)]
        whole = isinstance(self.choice.method.weighting, Stacked)
        factors = sum(n * min(n, n if whole else _PART) ** 2 for n in sizes)
        return _BEGIN + _PER_VALUE * values * self.operators + _PER_CUBE * factors

    @property
    def warning(self) -> str:
        """What to do where more is needed than is free; empty where memory suffices."""
        if self.free is None or self.peak + COSTS.program <= self.free:
            return ""
        smaller = (
            "elements instead of splines (Galerkin())"
            if isinstance(self.choice.method.tests, SplineTests)
            else "coarser elements (Q1)"
        )
        return (
            f"about {_size(self.peak + COSTS.program)} of memory will be needed and {_size(self.free)} are free; use "
            f"fewer operators, a part of the data (fewer frames, every second node), {smaller}, no check "
            "(check = false), or a larger machine or a cluster."
        )

    def record(self) -> dict[str, Any]:
        """The estimate as JSON values."""
        machine = {"program": COSTS.program, "free": self.free, "warning": self.warning}
        return {"peak": self.peak, "parts": self.parts, **machine}

    def __str__(self) -> str:
        largest = sorted(self.parts, key=self.parts.__getitem__)[:-3:-1]
        most = " and ".join(f"{_size(self.parts[name])} for {name}" for name in largest)
        text = f"peak memory about {_size(self.peak)}, a margin of a quarter included, of which {most}; "
        text += f"the program itself takes {_size(COSTS.program)}"
        text += "." if self.free is None else f"; {_size(self.free)} are free."
        return "\n".join([text, *([f"warning: {self.warning}"] if self.warning else [])])


def estimate_memory(
    data: Data | Sequence[Data],
    library: Library,
    *,
    noise: Noise | Sequence[Noise] | None = None,
    robust: bool | None = None,
    method: Method | None = None,
    check: bool = True,
) -> Memory:
    """What :func:`bvsi.discover` with the same arguments will take; errors are those that it would raise."""
    library, experiments = by_experiment(library, as_experiments(data))
    measured = measure_all(experiments, noise, robust=robust)
    if library.unknown:
        _, library = with_columns(library, measured)
    chosen = choose_method(measured, library, method)
    estimator, setup = chosen.method.estimator, chosen.setup
    chains = 0 if not isinstance(estimator, Maximum | SVGD | NUTS) else usable_cores() ** isinstance(estimator, NUTS)
    more, d = COSTS.check if check else 1.0, len(library.names)
    sizes = [_Sizes.of(m.data, setup) for m in measured]
    factors = [one.factor for one in sizes]  # those of all experiments are kept with stacked weights
    factor = sum(factors) if hasattr(setup.weighting, "max_memory") else max(factors)
    parts = {
        "expressions and kernels": COSTS.objects,
        "the data and smoothed states": more * COSTS.copies * NUMBER * sum(one.states for one in sizes),
        "residuals and right-hand sides": more * NUMBER * (1 + d) * sum(s.sides * s.rows * s.blocks for s in sizes),
        "covariances": more * sum(one.entry * one.entries for one in sizes),
        "Cholesky factors": (more + COSTS.inverse * chains) * NUMBER * factor,
    }
    return Memory(chosen, d, tuple(s.rows for s in sizes), tuple(s.blocks for s in sizes), parts, free_memory())


@dataclass(frozen=True)
class _Sizes:
    """N, K and s of one experiment; numbers in its factors, entries of its covariance, arrays as large as [y, X].

    The bytes of an entry come last.
    """

    rows: int
    blocks: int
    states: float
    entries: float
    factor: float
    sides: float
    entry: float = COSTS.entry

    @staticmethod
    def of(data: Data, setup: Setup) -> _Sizes:
        """From the space, the stencil and the overlap of test functions."""
        operators, space = discretise_library(data, setup.library, setup.tests)
        a, b = setup.stencil.matrices(data.times, setup.library.time_order)
        a = abs(a) + abs(b)
        equations, K = len({o.equation for o in operators}), a.shape[0]
        N, dim = equations * space.n_tests, len(data.geometry.names)
        tests = setup.tests  # the method states the degree of splines, and elements reach two cells far
        reach = tests.degree or 0 if isinstance(tests, SplineTests) else 2 * tests.element_for(data.geometry).degree
        entries = equations**2 * _pairs(space.n_tests ** (1 / dim), reach) ** dim
        states = float(space.n_dofs * len(data.names) * len(data.times))
        if not setup.weighting.uses_noise:
            return _Sizes(N, K, states, 0.0, 0.0, COSTS.sides)
        limit = getattr(setup.weighting, "max_memory", None)  # of the one factor of stacked weights
        if limit is None:
            threads = min(K, usable_cores())
            return _Sizes(N, K, states, entries, threads * _filled(N, entries), COSTS.sides)
        entries *= (a @ a.T).nnz
        m = min(N * K, getattr(setup.weighting, "rows", math.inf))  # of the largest tile
        factor = _filled(m, entries * m / (N * K))
        if max(NUMBER * factor, 0.4 * COSTS.entry * entries) > limit:
            return _Sizes(N, K, states, 0.0, 0.0, COSTS.gradients)
        line = dim == 1 and isinstance(tests, SplineTests)
        return _Sizes(N, K, states, entries, factor, COSTS.draws, COSTS.banded if line else COSTS.entry)


def _pairs(m: float, reach: float) -> float:
    """Pairs of m functions in a row that are at most ``reach`` apart."""
    return m**2 if reach >= m else m * (2 * reach + 1) - reach * (reach + 1)


def _filled(m: float, entries: float) -> float:
    """L: numbers in a Cholesky factor of m rows."""
    return min(m**2, 0.5 * entries * math.log2(max(2.0, m)))


def _size(amount: float) -> str:
    return f"{amount / 1e9:.3g} GB" if amount >= 1e9 else f"{max(1.0, amount / 1e6):.0f} MB"


def free_memory() -> float | None:
    """Bytes that Linux can give without swapping, and that the control group allows; None where neither is known."""
    try:
        rows = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(1024.0 * float(row.split()[1]) for row in rows if row.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
    for limit, used in _CONTROL_GROUPS:
        try:
            bound, taken = (float(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")) for name in (limit, used))
            free = min(free, bound - taken)
        except (OSError, ValueError):  # no such group, or its limit reads "max"
            continue
    return free
