"""Which discretisation, weighting and selection: spline tests with all correlations on grids, elements elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.likelihood import Block, Stacked, Weighting
from bvsi.noise.measurement import Measurement
from bvsi.operators import Library, Vocabulary
from bvsi.residual import CrankNicolson, Stencil, TemporalTests
from bvsi.residual.assembly import Discretisation, on_tests
from bvsi.residual.widths import TIME_DEGREE, choose_tests
from bvsi.select import Backward, BestSubset, Sweep
from bvsi.spaces import Q1, Q2, Galerkin, SplineTests, spline_obstacle
from bvsi.spaces.galerkin import fills_q2
from bvsi.spaces.spline_tests import MAX_DERIVATIVES

Selection = Backward | Sweep | BestSubset

# Times, and nodes along an axis, from which on splines have enough to stand on.
_TIMES = TIME_DEGREE + 4
_NODES = 16
# Steps within this part of the typical one are even; the longest step, in typical ones, of frames that mostly are not.
_EVEN, _LONG = 0.01, 2.5


@dataclass(frozen=True)
class Asked:
    """What the user chose; None where it was left open."""

    discretisation: Discretisation | None = None
    stencil: Stencil | None = None
    weighting: Weighting | None = None
    selection: Selection | None = None


@dataclass(frozen=True)
class Method:
    """What is used, and why.

    splines: whether test functions are splines.
    """

    discretisation: Discretisation
    stencil: Stencil
    weighting: Weighting
    selection: Selection
    reason: str

    @property
    def splines(self) -> bool:
        """Whether the test functions are splines."""
        return isinstance(self.discretisation, SplineTests)


def choose_method(measured: Sequence[Measurement], library: Library, asked: Asked) -> Method:
    """Splines where the grid, the number of times and the operators allow them; what was asked for goes first."""
    experiments = [m.data for m in measured]
    if isinstance(asked.selection, BestSubset) and asked.weighting is not None and not asked.weighting.couples_blocks:
        raise BvsiError("selection: BestSubset() needs Stacked() weighting; use Sweep().")
    if isinstance(asked.discretisation, Galerkin):
        return _elements(experiments, library, asked, "elements, as asked for")
    if isinstance(asked.discretisation, SplineTests):
        for data in experiments:
            asked.discretisation.element_for(data.geometry)  # refuses meshes and uneven grids
        return _splines(measured, library, asked, "spline tests, as asked for")
    if asked.stencil is not None and not isinstance(asked.stencil, TemporalTests):
        return _elements(experiments, library, asked, f"elements, to go with {type(asked.stencil).__name__}()")
    if asked.weighting is not None and asked.weighting.uses_noise and not asked.weighting.couples_blocks:
        return _elements(experiments, library, asked, "elements, to go with Block() weighting")
    obstacle = spline_obstacle_of(experiments, library)
    if obstacle:
        return _elements(experiments, library, asked, f"elements: {obstacle}")
    return _splines(measured, library, asked, "spline tests: a uniform grid, and all derivatives go onto them")


def spline_obstacle_of(experiments: Sequence[Data], library: Library) -> str:
    """Why spline tests in space and time cannot be used; empty where they can."""
    for data in experiments:
        if reason := spline_obstacle(data.geometry):
            return reason
        assert isinstance(data.geometry, Grid)
        steps = np.diff(data.times) / np.median(np.diff(data.times))
        if np.mean(np.abs(steps - 1) < _EVEN) < 0.5 and steps.max() > _LONG:
            return "spline tests in time need frames that are more evenly spaced"
        if len(data.times) < _TIMES:
            return f"spline tests in time need {_TIMES} frames, and there are {len(data.times)}"
        if min(data.geometry.shape) < _NODES:
            return f"spline tests need {_NODES} nodes along every axis, and one has {min(data.geometry.shape)}"
    words = _vocabulary(experiments[0])
    reason = library.obstacle(words, trial_order=0, test_order=MAX_DERIVATIVES)
    return f"spline tests take no derivative of the data ({reason})" if reason else ""


def takes_splines(data: Data) -> bool:
    """Whether the data allow spline tests, whatever the operators."""
    return not spline_obstacle_of([data], Library({data.names[0]: [data.names[0]]}))


def _derivatives(data: Data, library: Library) -> int:
    """Highest derivative that the operators put on a spline along one axis."""
    return on_tests(library.weak(_vocabulary(data), trial_order=0, test_order=MAX_DERIVATIVES))


def _vocabulary(data: Data) -> Vocabulary:
    return Vocabulary(data.geometry.names, data.names, tuple(data.auxiliary))


def _splines(measured: Sequence[Measurement], library: Library, asked: Asked, reason: str) -> Method:
    experiments = [m.data for m in measured]
    space, time = choose_tests(experiments, [m.sigma for m in measured], _derivatives(experiments[0], library))
    given = asked.discretisation if isinstance(asked.discretisation, SplineTests) else SplineTests()
    discretisation = SplineTests(given.gap or space.gap, given.degree or space.degree)
    weighting = asked.weighting or Stacked()
    selection = asked.selection or (BestSubset() if weighting.couples_blocks else Sweep())
    return Method(discretisation, asked.stencil or time, weighting, selection, reason)


def _elements(experiments: Sequence[Data], library: Library, asked: Asked, reason: str) -> Method:
    discretisation = asked.discretisation or default_discretisation(experiments)
    weighting = asked.weighting or (Stacked() if isinstance(asked.selection, BestSubset) else Block())
    # difference stencils have first time derivatives only
    stencil = asked.stencil or (CrankNicolson() if library.time_order == 1 else TemporalTests())
    selection = asked.selection or (BestSubset() if weighting.couples_blocks else Sweep())
    return Method(discretisation, stencil, weighting, selection, reason)


def default_discretisation(experiments: Sequence[Data]) -> Galerkin:
    """Q2 on grids whose axes all have whole pairs of cells, else Q1; on meshes the element that the nodes make."""
    grids = [data.geometry for data in experiments if isinstance(data.geometry, Grid)]
    if len(grids) < len(experiments):
        return Galerkin()
    return Galerkin(Q2 if all(map(fills_q2, grids)) else Q1)
