"""Bytes that the residuals of all experiments and a fit to them take; see assembly_sizes and weight_sizes for parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bvsi.data import Data
from bvsi.discovery.assembly_sizes import AssemblySizes, assembly_sizes
from bvsi.discovery.weight_sizes import WeightSizes, making, weight_sizes
from bvsi.likelihood import Noise, Weighting
from bvsi.operators import Library
from bvsi.residual import Stencil, Structure, discretise_library
from bvsi.residual.assembly import Discretisation
from bvsi.residual.layout import Layout


@dataclass(frozen=True)
class Experiment:
    """One experiment: residuals per block N, blocks K, and its bytes."""

    rows: int
    blocks: int
    assembly: AssemblySizes
    weights: WeightSizes


@dataclass(frozen=True)
class FitSizes:
    """All experiments with d operators; what is kept adds up, what comes and goes is that of the largest."""

    experiments: tuple[Experiment, ...]
    operators: int
    stacked: bool

    @property
    def residuals(self) -> int:
        """Residuals of all experiments, Σ N K."""
        return sum(one.rows * one.blocks for one in self.experiments)

    @property
    def largest(self) -> int:
        """Residuals of the largest experiment."""
        return max(one.rows * one.blocks for one in self.experiments)

    @property
    def exact(self) -> bool:
        """Whether all factors were analysed."""
        return all(one.weights.exact for one in self.experiments)

    @property
    def streamed(self) -> bool:
        """Whether fields and basis functions stay, for Jacobians that are worked out again and again."""
        return any(one.assembly.streamed for one in self.experiments)

    def assembly(self, part: str) -> float:
        """Bytes of a part of the assembly, summed over experiments."""
        return float(sum(getattr(one.assembly, part) for one in self.experiments))

    def weights(self, part: str) -> float:
        """Bytes of a part of the weights, that of the largest experiment."""
        return float(max(getattr(one.weights, part) for one in self.experiments))

    @property
    def patterns(self) -> float:
        """Bytes of the patterns of all covariances."""
        return sum(one.weights.pattern for one in self.experiments)

    @property
    def making(self) -> float:
        """Bytes that the making of the largest of them takes on top."""
        return max(making(one.weights) for one in self.experiments)

    @property
    def factors(self) -> float:
        """Bytes of the Cholesky factors that exist at a time; stacked ones are kept for the next time."""
        if self.stacked:
            return sum(one.weights.factor for one in self.experiments)
        return max(one.weights.factor * one.weights.threads for one in self.experiments)

    @property
    def all_factors(self) -> float:
        """Bytes where a factor of every block that differs is kept: what weighs whole arrays of residuals."""
        return max(one.weights.factor * one.weights.groups for one in self.experiments)

    @property
    def assembled(self) -> float:
        """Bytes of what an assembly leaves."""
        kept = self.assembly("Z") + self.assembly("jacobians") + self.assembly("pattern")
        return kept + (self.assembly("states") + self.assembly("points") if self.streamed else 0.0)

    @property
    def assembling(self) -> float:
        """Bytes that come and go with an assembly."""
        gone = 0.0 if self.streamed else self.assembly("states") + self.assembly("points")
        return gone + self.assembly("columns") + max(one.assembly.work for one in self.experiments)

    @property
    def fitting(self) -> float:
        """Bytes that come and go with a fit, factors left out."""
        return self.weights("values") + self.weights("solves") + self.weights("smoothed")

    @property
    def peak(self) -> float:
        """The most that assembly, plan and fit take, one after the other."""
        planned = self.assembled + self.patterns
        return max(self.assembled + self.assembling, planned + self.making, planned + self.factors + self.fitting)


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
    pairs = zip(experiments, noise, strict=True)
    sizes = tuple(_experiment(data, library, model, discretisation, stencil, weighting) for data, model in pairs)
    return FitSizes(sizes, len(library.names), getattr(weighting, "max_memory", None) is not None)


def _experiment(
    data: Data,
    library: Library,
    noise: Noise,
    discretisation: Discretisation,
    stencil: Stencil,
    weighting: Weighting,
) -> Experiment:
    operators, space = discretise_library(data, library, discretisation)
    layout = Layout(library, operators, space)
    structure = _structure(layout, data, *stencil.matrices(data.times, library.time_order))
    assembly = assembly_sizes(data, operators, space, layout, structure)
    weights = weight_sizes(weighting.plan(structure, noise), structure, assembly, len(operators))
    return Experiment(structure.n_rows, structure.n_blocks, assembly, weights)


def _structure(layout: Layout, data: Data, a: Any, b: Any) -> Structure:
    """The structure of the residuals without values; all of them count as used."""
    space = layout.space
    tests = [layout.tests[e] for e in layout.equations]
    return Structure(
        pattern=layout.pattern,
        M=np.zeros(0),
        a=a,
        b=b,
        coordinates=np.concatenate([space.test_points[t] for t in tests]),
        equations=layout.equations,
        equation_of_row=np.repeat(np.arange(len(tests)), [len(t) for t in tests]),
        fields=layout.fields,
        n_dofs=space.n_dofs,
        times=data.times,
        transfer=space.transfer,
        mass_at_nodes=layout.mass_at_nodes() if space.nodal else None,
    )
