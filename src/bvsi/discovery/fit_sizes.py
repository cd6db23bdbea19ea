"""Bytes that the residuals of all experiments and a fit to them take.

Parts are in :mod:`bvsi.discovery.assembly_sizes` and :mod:`bvsi.discovery.weight_sizes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bvsi.data import Data, Grid
from bvsi.discovery.assembly_sizes import AssemblySizes, Shape, assembly_sizes
from bvsi.discovery.weight_sizes import MOST_ANALYSED, WeightSizes, weight_sizes
from bvsi.likelihood import Stacked, Weighting
from bvsi.linalg import Kronecker, Pattern
from bvsi.noise import Noise
from bvsi.operators import Library, Vocabulary, WeakOperator
from bvsi.residual import Scaled, Sensitivity, Stencil, Structure, discretise_library
from bvsi.residual.assembly import Discretisation, on_tests, structure_of
from bvsi.residual.layout import Layout
from bvsi.residual.sensitivity import NodalTests
from bvsi.spaces import Space, SplineTests
from bvsi.spaces.spline_tests import SplineElement


@dataclass(frozen=True)
class Experiment:
    """One experiment: sizes of its arrays, and bytes."""

    shape: Shape
    assembly: AssemblySizes
    weights: WeightSizes


@dataclass(frozen=True)
class FitSizes:
    """All experiments with d operators: what is kept adds up, what comes and goes is that of the largest."""

    experiments: tuple[Experiment, ...]
    operators: int
    stacked: bool

    @property
    def residuals(self) -> int:
        """Residuals of all experiments, Σ N K."""
        return sum(one.shape.residuals for one in self.experiments)

    @property
    def exact(self) -> bool:
        """Whether all factors were analysed."""
        return all(one.weights.exact for one in self.experiments)

    @property
    def streamed(self) -> bool:
        """Whether fields and basis functions stay, for Jacobians that are worked out again and again."""
        return any(one.assembly.streamed for one in self.experiments)

    def total(self, part: Callable[[Experiment], float]) -> float:
        """Bytes of a part, summed over experiments."""
        return float(sum(part(one) for one in self.experiments))

    def largest(self, part: Callable[[Experiment], float]) -> float:
        """Bytes of a part, of the experiment with most of it."""
        return float(max(part(one) for one in self.experiments))

    @property
    def at_points(self) -> float:
        """Fields at the unknowns and basis functions at the points."""
        return self.total(lambda one: one.assembly.states + one.assembly.points)

    @property
    def assembled(self) -> float:
        """What an assembly leaves."""
        kept = self.total(lambda one: one.assembly.Z + one.assembly.jacobians + one.assembly.pattern)
        return kept + (self.at_points if self.streamed else 0.0)

    @property
    def assembling(self) -> float:
        """What comes and goes with an assembly, without fields and basis functions."""
        return self.total(lambda one: one.assembly.columns) + self.largest(lambda one: one.assembly.work)

    @property
    def patterns(self) -> float:
        """Patterns of all covariances."""
        return self.total(lambda one: one.weights.pattern)

    @property
    def making(self) -> float:
        """What the making of the largest of them takes on top."""
        return self.largest(lambda one: one.weights.making)

    @property
    def factors(self) -> float:
        """Cholesky factors that exist at a time; stacked ones are kept for the next time."""
        if self.stacked:
            return self.total(lambda one: one.weights.factor)
        return self.largest(lambda one: one.weights.factor * one.weights.threads)

    @property
    def fitting(self) -> float:
        """What comes and goes with a fit, factors left out."""
        return self.largest(lambda one: one.weights.values + one.weights.solves + one.weights.smoothed)

    @property
    def peak(self) -> float:
        """The most that assembly, plan and fit take, one after the other."""
        gone = self.assembling + (0.0 if self.streamed else self.at_points)
        return self.assembled + max(gone, self.patterns + max(self.making, self.factors + self.fitting))


def fit_sizes(
    experiments: Sequence[Data],
    library: Library,
    noise: Sequence[Noise],
    *,
    discretisation: Discretisation,
    stencil: Stencil,
    weighting: Weighting,
) -> FitSizes:
    """Sizes of a fit of all operators; errors are those of the assembly."""
    found = []
    for data, model in zip(experiments, noise, strict=True):
        large = isinstance(discretisation, SplineTests) and _entries(data, discretisation) > MOST_ANALYSED
        if large and isinstance(weighting, Stacked):
            assert isinstance(discretisation, SplineTests)
            found.append(_axis_by_axis(data, library, model, discretisation, stencil, weighting))
        else:
            found.append(_from_patterns(data, library, model, discretisation, stencil, weighting))
    return FitSizes(tuple(found), len(library.names), isinstance(weighting, Stacked))


def _from_patterns(
    data: Data,
    library: Library,
    noise: Noise,
    discretisation: Discretisation,
    stencil: Stencil,
    weighting: Weighting,
) -> Experiment:
    """With the patterns that the fit itself would make."""
    operators, space = discretise_library(data, library, discretisation)
    layout = Layout(library, operators, space)
    a, b = stencil.matrices(data.times, library.time_order)
    structure = structure_of(layout, data, a, b, M=np.zeros(0))  # values are not needed; all residuals count as used
    shape = Shape(
        structure.n_rows, structure.n_blocks, structure.n_times, structure.n_state, space.n_tests, space.n_dofs,
        float(layout.pattern.nnz),
    )  # fmt: skip
    assembly = assembly_sizes(shape, data, operators, None if space.nodal else space)
    weights = weight_sizes(weighting.plan(structure, noise), structure, shape, assembly, len(operators))
    return Experiment(shape, assembly, weights)


def _entries(data: Data, tests: SplineTests) -> float:
    """Entries of the pattern of one field: every node meets degree + 1 functions along every axis."""
    degree = tests.degree or SplineElement().degree
    return float(data.n_nodes * (degree + 1) ** len(data.geometry.names))


def _axis_by_axis(
    data: Data, library: Library, noise: Noise, tests: SplineTests, stencil: Stencil, weighting: Stacked
) -> Experiment:
    """Of spline tests that are many: without the pattern of their values at the nodes, which is a product of axes."""
    words = Vocabulary(data.geometry.names, data.names, tuple(data.auxiliary))
    element = SplineElement()
    operators = library.weak(words, trial_order=element.trial_order, test_order=element.test_order)
    lines = _lines(data, tests, on_tests(operators))
    structure = _structure_of_axes(data, library, operators, lines, stencil)
    coupled = len({(o.equation, f) for o in operators for f in (*o.reads, o.equation)})
    shape = Shape(
        structure.n_rows, structure.n_blocks, structure.n_times, structure.n_state,
        structure.n_rows // len(structure.equations), data.n_nodes,
        coupled * float(np.prod([line.pattern.nnz for line in lines])),
    )  # fmt: skip
    assembly = assembly_sizes(shape, data, operators, None)
    plan = weighting.plan(structure, noise)
    return Experiment(shape, assembly, weight_sizes(plan, structure, shape, assembly, len(operators), analysed=False))


def _lines(data: Data, tests: SplineTests, derivatives: int) -> list[Space]:
    """The splines of every axis on their own."""
    grid, found = data.geometry, []
    assert isinstance(grid, Grid)
    for name, axis in grid.axes.items():
        periods = {name: grid.periods[name]} if name in grid.periods else {}
        alone = SplineTests(tests.gap_of(name), tests.degree)
        found.append(alone.build(Grid(periodic=periods, **{name: axis}), 0, derivatives))
    return found


def _structure_of_axes(
    data: Data, library: Library, operators: tuple[WeakOperator, ...], lines: list[Space], stencil: Stencil
) -> Structure:
    """A structure with its mass matrix as a Kronecker product, and without entries."""
    product = Kronecker(tuple(line.tests_at_nodes((0,)).factors[0] for line in lines))
    functions, n = product.shape
    equations = tuple(e for e in library.equations if e in {o.equation for o in operators})
    read = {f for o in operators for f in o.reads}
    fields = tuple(f for f in data.names if f in read or f in equations)
    N, none = functions * len(equations), np.zeros(0, dtype=np.int64)
    empty = Pattern((N, n * len(fields)), np.zeros(N + 1, dtype=np.int64), none)
    blocks = [
        (none, Scaled(NodalTests(product, empty, i * functions), np.ones((1, n)), fields.index(e) * n))
        for i, e in enumerate(equations)
    ]
    a, b = stencil.matrices(data.times, library.time_order)
    return Structure(
        pattern=empty,
        M=np.zeros(0),
        a=a,
        b=b,
        coordinates=np.zeros((N, len(lines))),
        equations=equations,
        equation_of_row=np.repeat(np.arange(len(equations)), functions),
        fields=fields,
        n_dofs=n,
        times=data.times,
        transfer=None,
        mass_at_nodes=Sensitivity(empty, tuple(blocks)),
    )
