"""Which discretisation, weighting and selection are used, and the reason that is given."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.data import Data, Grid, Mesh
from bvsi.discovery.method import _NODES, _TIMES, Asked, choose_method
from bvsi.errors import BvsiError
from bvsi.likelihood import Block, Stacked
from bvsi.noise import IID
from bvsi.noise.measurement import measure
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, CrankNicolson, TemporalTests
from bvsi.select import Backward, BestSubset, Sweep
from bvsi.spaces import Q1, Q2, Galerkin, SplineTests
from discovery.exact_cases import BURGERS, burgers, noisy


def method(data: Data, library: Library = BURGERS, **asked: object):
    return choose_method([measure(data, IID(0.01))], library, Asked(**asked))


@pytest.fixture(scope="module")
def data() -> Data:
    return noisy(burgers(), 0.01)


def uneven() -> Data:
    return Data(np.linspace(0, 1, 20), {"u": np.ones((20, 31))}, Grid(x=np.linspace(0, 1, 31) ** 1.5))


def on_mesh() -> Data:
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), np.array([[0, 1, 2], [1, 3, 2]]), "triangle")
    return Data(np.linspace(0, 1, 20), {"u": np.ones((20, 4))}, mesh)


def test_grids_get_splines_stacked_weights_and_best_subsets(data):
    chosen = method(data)
    assert chosen.splines
    assert isinstance(chosen.discretisation, SplineTests)
    assert chosen.discretisation.degree == 3 + 4  # of dx(dx(dx(u)))
    assert isinstance(chosen.stencil, TemporalTests)
    assert chosen.weighting == Stacked()
    assert chosen.selection == BestSubset()
    assert chosen.reason == "spline tests: a uniform grid, and all derivatives go onto them"


@pytest.mark.parametrize(
    "made, library, reason",
    [
        (on_mesh, Library({"u": ["u"]}), "on a mesh"),
        (uneven, Library({"u": ["u"]}), "axis 'x' are not"),
        (lambda: burgers(48, _TIMES - 1), BURGERS, f"need {_TIMES} frames, and there are {_TIMES - 1}"),
        (lambda: burgers(_NODES - 1), BURGERS, f"need {_NODES} nodes along every axis, and one has {_NODES - 1}"),
        (burgers, Library({"u": ["u*laplacian(u)"]}), "no derivative of the data"),
        (burgers, Library({"u": ["laplacian(u)", "dx(u)**2"]}), "no derivative of the data"),
        (burgers, Library({"u": ["laplacian(recover(laplacian(u)))"]}), "recover"),
    ],
    ids=["mesh", "uneven", "frames", "nodes", "u laplacian", "dx²", "recover"],
)
def test_elements_are_taken_where_splines_cannot_be_and_the_reason_is_told(made, library, reason):
    chosen = method(made(), library)
    assert not chosen.splines
    assert isinstance(chosen.discretisation, Galerkin)
    assert chosen.stencil == CrankNicolson()
    assert chosen.weighting == Block()
    assert chosen.selection == Sweep()
    assert chosen.reason.startswith("elements: ")
    assert reason in chosen.reason


def test_just_enough_data_for_splines():
    assert method(burgers(_NODES, _TIMES)).splines


def test_what_is_asked_for_is_taken(data):
    elements = method(data, discretisation=Galerkin(Q1), stencil=BackwardEuler(), selection=Backward())
    assert (elements.discretisation, elements.stencil) == (Galerkin(Q1), BackwardEuler())
    assert elements.selection == Backward()
    assert elements.reason == "elements, as asked for"
    splines = method(data, discretisation=SplineTests(gap={"x": 2.0}, degree=9), stencil=TemporalTests(4, 1.5))
    assert splines.discretisation == SplineTests({"x": 2.0}, 9)
    assert splines.stencil == TemporalTests(4, 1.5)
    assert splines.reason == "spline tests, as asked for"


def test_what_is_left_open_of_splines_is_filled_in(data):
    chosen = method(data, discretisation=SplineTests(degree=9)).discretisation
    assert chosen.degree == 9
    assert chosen.gap == method(data).discretisation.gap


@pytest.mark.parametrize("asked", [{"stencil": CrankNicolson()}, {"weighting": Block()}], ids=["stencil", "weighting"])
def test_a_stencil_or_weighting_of_elements_brings_elements(data, asked):
    chosen = method(data, **asked)
    assert chosen.discretisation == Galerkin(Q2)
    assert "to go with" in chosen.reason


def test_best_subsets_need_stacked_weights(data):
    with pytest.raises(BvsiError, match=r"needs Stacked\(\) weighting; use Sweep"):
        method(data, discretisation=SplineTests(), weighting=Block(), selection=BestSubset())
    assert method(data, discretisation=SplineTests(), weighting=Block()).selection == Sweep()
    assert method(data, selection=Sweep()).selection == Sweep()
