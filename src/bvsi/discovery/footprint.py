"""Peak memory of a discovery, predicted before it is run.

    peak = margin · max over stages of Σ bytes of what is alive then

Noise is measured and the method chosen as :func:`bvsi.discover` does; after that only patterns and symbolic
factorisations are worked out. Refits of the check are counted with all candidates, since it is not known how many will
be selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bvsi.check import variations
from bvsi.data import Data, as_experiments
from bvsi.discovery.assembly_sizes import NUMBER
from bvsi.discovery.fit_sizes import FitSizes, fit_sizes
from bvsi.discovery.machine_memory import MachineMemory
from bvsi.discovery.method import Asked, Method, Selection, choose_method
from bvsi.discovery.treatment import treatments
from bvsi.errors import BvsiError
from bvsi.infer import NUTS, SVGD, Maximum
from bvsi.likelihood import Weighting
from bvsi.linalg import usable_cores
from bvsi.noise import IID, Noise
from bvsi.noise.measurement import Measurement, measure_all
from bvsi.operators import Library
from bvsi.residual import Stencil
from bvsi.residual.assembly import Discretisation
from bvsi.spaces import Galerkin

STAGES = ("measuring", "treatment", "assembling", "planning", "selecting", "posterior", "checking")
"""What a discovery does, one after the other; ``treatment`` only where ∇⁴ on elements leaves a choice."""

MARGIN = 1.25
"""What the prediction is multiplied with: allocators keep what was freed, and small arrays are not counted."""

PROGRAM = 3e8
"""Bytes of the program itself: Python with NumPy, SciPy, SymPy and Numba."""

# Bytes of SymPy expressions, compiled kernels and other small things.
_OBJECTS = 2.5e7
# Arrays as large as the data that the measurement of noise makes.
_FILTERS = 8.0
# Draws of residuals that the check weighs, at most so many numbers at a time, and arrays of them side by side.
_DRAWN, _AT_ONCE, _SIDE_BY_SIDE = 40, 1_000_000, 6
_FROM_ASSEMBLY = STAGES[2:]
_FITS = ("selecting", "posterior")


@dataclass(frozen=True)
class Part:
    """Something that takes memory: bytes, and the stages in which it is there."""

    name: str
    bytes: float
    stages: tuple[str, ...]


@dataclass(frozen=True)
class Footprint:
    """Memory that a discovery will take, in bytes, without that of the program.

    parts: what takes it; method: how and why; sizes: of the main fit; machine: the memory that there is.
    """

    parts: tuple[Part, ...]
    method: Method
    sizes: FitSizes
    machine: MachineMemory

    def at(self, stage: str) -> float:
        """Bytes that are alive in a stage."""
        return sum(part.bytes for part in self.parts if stage in part.stages)

    @property
    def stage(self) -> str:
        """The stage that takes most."""
        return max(STAGES, key=self.at)

    @property
    def peak(self) -> float:
        """Predicted peak, with its margin."""
        return MARGIN * self.at(self.stage)

    @property
    def exceeds(self) -> bool:
        """Whether it is more than what is free now."""
        return self.machine.free is not None and self.peak + PROGRAM > self.machine.free

    @property
    def warning(self) -> str:
        """What to do where memory will not do; empty where it will."""
        if not self.exceeds:
            return ""
        assert self.machine.free is not None
        ways = ["fewer operators", "a part of the data (fewer frames, every second node)"]
        ways += ["elements instead of splines (Galerkin())"] if self.method.splines else ["coarser elements (Q1)"]
        ways += ["no check (check = false)"] if self.stage == "checking" else []
        return (
            f"about {_size(self.peak + PROGRAM)} of memory will be needed and {_size(self.machine.free)} are free; use "
            + ", ".join([*ways, "or a larger machine or a cluster."])
        )

    @property
    def told(self) -> str:
        """Peak and machine in a sentence each."""
        largest = sorted((p for p in self.parts if self.stage in p.stages), key=lambda p: -p.bytes)[:2]
        most = " and ".join(f"{_size(p.bytes)} for {p.name}" for p in largest)
        words = (
            f"peak memory about {_size(self.peak)} while {self.stage}, a margin of a quarter included, of which {most}"
        )
        words += f"; the program itself takes {_size(PROGRAM)}"
        if not self.sizes.exact:
            words += "; the Cholesky factor is too large to be analysed for this, its size is a rough estimate"
        if self.machine.total is not None:
            free = "" if self.machine.free is None else f" ({_size(self.machine.free)} free)"
            words += f"; this machine has {_size(self.machine.total)}{free}"
        return f"{words}."

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "peak": self.peak,
            "stage": self.stage,
            "program": PROGRAM,
            "stages": {stage: self.at(stage) for stage in STAGES},
            "parts": [{"name": p.name, "bytes": p.bytes, "stages": list(p.stages)} for p in self.parts],
            "exact": self.sizes.exact,
            "total": self.machine.total,
            "free": self.machine.free,
            "warning": self.warning,
        }

    def __str__(self) -> str:
        shown = [p for p in self.parts if p.bytes >= 0.01 * self.at(self.stage)]
        width = max(len(p.name) for p in shown)
        rows = [f"{p.name:<{width}}  {p.bytes / 1e6:9.1f} MB  {_while(p.stages)}" for p in shown]
        return "\n".join([*rows, self.told, *([f"warning: {self.warning}"] if self.warning else [])])


def predict_footprint(
    data: Data | Sequence[Data],
    library: Library,
    *,
    noise: Noise | Sequence[Noise] | None = None,
    robust: bool | None = None,
    discretisation: Discretisation | None = None,
    stencil: Stencil | None = None,
    weighting: Weighting | None = None,
    selection: Selection | None = None,
    estimator: object = None,
    check: bool = True,
) -> Footprint:
    """What :func:`bvsi.discover` with the same arguments will take; errors are those that it would raise."""
    experiments = as_experiments(data)
    measured = measure_all(experiments, noise, robust=robust)
    method = choose_method(measured, library, Asked(discretisation, stencil, weighting, selection))
    return footprint_of(measured, library, method, estimator=estimator, check=check)


def footprint_of(
    measured: Sequence[Measurement], library: Library, method: Method, *, estimator: object = None, check: bool = True
) -> Footprint:
    """The same for data whose noise was measured."""
    experiments, noise = [m.data for m in measured], [m.noise for m in measured]
    sizes = _sizes(experiments, library, noise, method)
    parts = [
        Part("data", sum(_bytes(data) for data in experiments), STAGES),
        Part("expressions and kernels", _OBJECTS, STAGES),
        Part("variances of the noise", sum(_variances(m) for m in measured), STAGES),
        Part("filters of the noise", _FILTERS * max(_bytes(data) for data in experiments), ("measuring",)),
        Part("the other treatment of ∇⁴", _treated(experiments, library, noise, method), ("treatment",)),
        *_fit_parts(sizes),
        Part("gradients", _gradients(sizes, estimator), ("posterior",)),
    ]
    if check:
        parts += _check_parts(experiments, library, method, sizes)
    return Footprint(tuple(p for p in parts if p.bytes), method, sizes, MachineMemory.here())


def _fit_parts(sizes: FitSizes) -> list[Part]:
    """What the main fit takes."""
    points = _FROM_ASSEMBLY if sizes.streamed else ("assembling",)
    Z = sizes.total(lambda one: one.assembly.Z)
    return [
        Part("residuals [y, X]", Z, _FROM_ASSEMBLY),
        Part("Jacobians", sizes.total(lambda one: one.assembly.jacobians), _FROM_ASSEMBLY),
        Part("pattern of the Jacobians", sizes.total(lambda one: one.assembly.pattern), _FROM_ASSEMBLY),
        Part("fields and basis at the points", sizes.at_points, points),
        Part("columns and kernels", sizes.assembling, ("assembling",)),
        Part("pattern of the covariance", sizes.patterns, _FROM_ASSEMBLY[1:]),
        Part("making of the patterns", sizes.making, ("planning",)),
        Part("Cholesky factors", sizes.factors, (*_FITS, "checking") if sizes.stacked else _FITS),
        Part("values of the covariance", sizes.largest(lambda one: one.weights.values), _FITS),
        Part("right-hand sides", sizes.largest(lambda one: one.weights.solves), _FITS),
        Part("smoothed regressors and scores", sizes.largest(lambda one: one.weights.smoothed), _FITS),
        Part("residuals of selected operators", Z, (*_FITS, "checking")),
    ]


def _check_parts(experiments: Sequence[Data], library: Library, method: Method, sizes: FitSizes) -> list[Part]:
    """What is there on top while the answer is checked: pictures, tests and refits come one after the other."""
    columns = sizes.largest(lambda one: NUMBER * one.shape.residuals)
    drawn = _SIDE_BY_SIDE * min(_DRAWN * columns, max(columns, NUMBER * _AT_ONCE))
    drawn += 3 * sizes.operators * columns + (0.0 if sizes.stacked else sizes.factors)
    refits = 0.0
    for one in variations(experiments, method.discretisation, method.stencil):
        changed = Method(one.discretisation, one.stencil, method.weighting, method.selection, method.reason)
        try:  # the kind of the noise does not matter for the sizes
            again = _sizes(one.data, library, [IID(1.0)] * len(one.data), changed)
        except BvsiError:
            continue
        refits = max(refits, again.peak + sum(_bytes(data) for data in one.data))
    most = "refits" if refits > drawn else "draws"
    return [Part(f"check: {most}", max(refits, drawn), ("checking",))]


def _sizes(experiments: Sequence[Data], library: Library, noise: Sequence[Noise], method: Method) -> FitSizes:
    return fit_sizes(
        experiments,
        library,
        noise,
        discretisation=method.discretisation,
        stencil=method.stencil,
        weighting=method.weighting,
    )


def _treated(experiments: Sequence[Data], library: Library, noise: Sequence[Noise], method: Method) -> float:
    """The most that a fit with one treatment of ∇⁴ takes, where there is a choice."""
    if not isinstance(method.discretisation, Galerkin):
        return 0.0
    options = treatments(library, method.discretisation.element_for(experiments[0].geometry))
    if len(options) < 2 or not method.weighting.uses_noise:
        return 0.0
    return max(_sizes(experiments, library.with_biharmonic(one), noise, method).peak for one in options)


def _gradients(sizes: FitSizes, estimator: object) -> float:
    """Selected inverses, one for every factor, where the posterior takes gradients; chains have one each."""
    if not isinstance(estimator, Maximum | SVGD | NUTS):
        return 0.0
    chains = usable_cores() if isinstance(estimator, NUTS) else 1
    return chains * (2 * sizes.factors + sizes.largest(lambda one: one.weights.values))


def _bytes(data: Data) -> float:
    arrays = [*data.fields.values(), *data.auxiliary.values(), *(data.measured or {}).values()]
    return float(sum(np.asarray(array).nbytes for array in arrays))


def _variances(measured: Measurement) -> float:
    """Variances (T, nodes) where noise is not the same everywhere: as they are, as sd, and by unknown."""
    return 3.0 * sum(v.nbytes for v in measured.variance.values() if v.ndim)


def _while(stages: tuple[str, ...]) -> str:
    if stages == STAGES:
        return "always"
    return stages[0] if len(stages) == 1 else f"{stages[0]} … {stages[-1]}"


def _size(amount: float) -> str:
    return f"{amount / 1e9:.3g} GB" if amount >= 1e9 else f"{max(1.0, amount / 1e6):.0f} MB"
