"""Which discretisation, weighting and selection are used, and the reason that is given."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info, threadpool_limits

import bvsi
from bvsi.data import Data, Grid, Mesh
from bvsi.discovery.method import _LINE, _NODES, _TILE, Method, Paper, choose_method, thresholds
from bvsi.errors import BvsiError, DataError
from bvsi.infer import NUTS, SVGD, Lagged, Maximum, Profile, ResidualDensity
from bvsi.infer.starts import Starts
from bvsi.likelihood import Block, Stacked, Tiles, residual_likelihood
from bvsi.noise import IID, Covariance, UnknownScale, add_noise
from bvsi.noise.measurement import measure
from bvsi.operators import Library, ZeroNeumann
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, TemporalTests, assemble
from bvsi.residual.background_widths import BackgroundWidths
from bvsi.residual.widths import FEWEST_FRAMES, bandwidth
from bvsi.select import Backward, BestSubset, FStatistic, ProfileBIC, ResidualBIC, Sweep
from bvsi.spaces import H3, Q1, Q2, Galerkin, SplineTests
from bvsi.studies.problems import fokker_planck
from discovery.exact_cases import BURGERS, burgers, noisy


def choice(data: Data, library: Library = BURGERS, **asked: object):
    return choose_method([measure(data, IID(0.01))], library, Method(**asked))


def method(data: Data, library: Library = BURGERS, **asked: object):
    return choice(data, library, **asked).method


def reason(data: Data, library: Library = BURGERS, **asked: object):
    return choice(data, library, **asked).reason


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
    assert isinstance(chosen.tests, SplineTests)
    assert chosen.tests.degree == 3 + 4  # of dx(dx(dx(u)))
    assert isinstance(chosen.stencil, TemporalTests)
    assert chosen.weighting == Stacked()
    assert chosen.selection == BestSubset()
    told = re.fullmatch(
        r"spline tests: all derivatives go onto them; (\d+) nodes per shortest wave of the data", reason(data)
    )
    assert told is not None
    assert float(told[1]) == pytest.approx(1 / bandwidth(data, {"u": 0.01})["x"], rel=0.05)


def test_long_lines_get_tiles_and_the_number_of_residuals_is_told():
    t, x = np.linspace(0, 200, 800)[:, None], np.linspace(0, 2 * np.pi, 240, endpoint=False)
    long = Data(t[:, 0], {"u": np.sin(30 * x) * np.sin(2 * np.pi * 0.5 * t)}, Grid(x=x, periodic={"x": 2 * np.pi}))
    measured = [measure(long, IID(0.01))]
    chosen = choose_method(measured, BURGERS, Method())
    assert chosen.method.weighting.rows > 13 * _LINE  # one tile, whose factor has bands along time
    wide = np.linspace(0, 2 * np.pi, 800, endpoint=False)
    waves = np.sin(100 * wide) * np.sin(2 * np.pi * 0.5 * t[:240])
    assert method(Data(t[:240, 0], {"u": waves}, Grid(x=wide, periodic={"x": 2 * np.pi}))).weighting == Tiles(_LINE)
    assert choose_method(measured, BURGERS, Method(weighting=Stacked())).method.weighting == Stacked()
    told = r"the spectrum asks for \d+ residuals; test functions are wider, and \d+ are used"
    assert re.search(told, chosen.reason)


def test_large_planes_get_tiles_that_share_nothing():
    t, x = np.linspace(0, 10, 100)[:, None, None], np.linspace(0, 2 * np.pi, 180, endpoint=False)
    u = np.sin(12 * x[:, None]) * np.sin(12 * x) * np.sin(2 * np.pi * 0.4 * t)
    plane = Data(t.ravel(), {"u": u.reshape(100, -1)}, Grid(x=x, y=x, periodic=dict.fromkeys("xy", 2 * np.pi)))
    chosen = choice(plane)
    assert chosen.method.weighting == Tiles(_TILE, shared=0.0)
    assert "in tiles, with error bars" in chosen.reason


@pytest.mark.parametrize(
    "made, library, why",
    [
        (on_mesh, Library({"u": ["u"]}, boundary=ZeroNeumann()), "boundary conditions: data: 4 nodes are too few"),
        (
            lambda: burgers(48, FEWEST_FRAMES - 1),
            BURGERS,
            f"need {FEWEST_FRAMES} frames, and there are {FEWEST_FRAMES - 1}",
        ),
        (lambda: burgers(_NODES - 1), BURGERS, f"need {_NODES} nodes along every axis, and one has {_NODES - 1}"),
        (burgers, Library({"u": ["laplacian(u)", "dx(dx(dx(u)))**2"]}), "derivatives of order 3"),
        (burgers, Library({"u": ["laplacian(recover(laplacian(u)))"]}), "recover"),
    ],
    ids=["mesh", "frames", "nodes", "dxxx²", "recover"],
)
def test_elements_are_taken_where_splines_cannot_be_and_the_reason_is_told(made, library, why):
    chosen = method(made(), library)
    assert isinstance(chosen.tests, Galerkin)
    assert chosen.stencil == CrankNicolson()
    assert chosen.weighting == Block()
    assert chosen.selection == Sweep()
    assert reason(made(), library).startswith("elements")
    assert why in reason(made(), library)


@pytest.mark.parametrize("text", ["u*laplacian(u)", "dx(u)**2"])
def test_derivatives_of_the_data_are_fitted_over_as_many_nodes_as_the_noise_wants(text):
    library, data = Library({"u": ["laplacian(u)", text]}), burgers()
    why = f"of the data, with derivatives of the data for {text} by polynomials of degree 8 fitted to "
    assert why in reason(data, library)
    noisy_data = ((add_noise(data, s, np.random.default_rng(0)), s) for s in (1e-4, 0.1))
    quiet, loud = (choose_method([measure(made, IID(s))], library).method.tests for made, s in noisy_data)
    assert quiet.reach["x"] < loud.reach["x"]
    assert method(data, library, tests=SplineTests(reach=7.0)).tests.reach == 7.0
    assert method(data).tests.reach is None


def test_correlated_noise_and_derivatives_of_the_data_are_left_to_elements_and_that_is_told():
    data, library = burgers(20, 12), Library({"u": ["laplacian(u)", "dx(u)**2"]})
    n = data.geometry.n_nodes
    stated = UnknownScale(Covariance(0.01**2 * (np.eye(n) + 0.5 * np.eye(n, k=1) + 0.5 * np.eye(n, k=-1))))
    chosen = choose_method([measure(data, stated)], library)
    assert isinstance(chosen.method.tests, Galerkin)
    assert chosen.reason.startswith("elements: dx(u)**2 would need derivatives of the data")
    linear = library.subset(["laplacian(u)"])
    assert isinstance(choose_method([measure(data, stated)], linear).method.tests, SplineTests)


def test_uneven_grids_get_splines_and_few_nodes_are_refused():
    assert isinstance(method(uneven(), Library({"u": ["u"]})).tests, SplineTests)
    with pytest.raises(DataError, match="4 nodes are too few"):
        method(on_mesh(), Library({"u": ["u"]}))


def test_just_enough_data_for_splines():
    assert isinstance(method(burgers(_NODES, FEWEST_FRAMES)).tests, SplineTests)


def test_what_is_asked_for_is_taken(data):
    elements = method(data, tests=Galerkin(Q1), stencil=BackwardEuler(), selection=Backward())
    assert (elements.tests, elements.stencil) == (Galerkin(Q1), BackwardEuler())
    assert elements.selection == Backward()
    assert reason(data, tests=Galerkin(Q1)) == "elements, as asked for"
    splines = method(data, tests=SplineTests(gap={"x": 2.0}, degree=9), stencil=TemporalTests(4, 1.5))
    assert splines.tests == SplineTests({"x": 2.0}, 9)
    assert splines.stencil == TemporalTests(4, 1.5)
    assert reason(data, tests=SplineTests()).startswith("spline tests, as asked for; ")


def test_what_is_left_open_of_splines_is_filled_in(data):
    chosen = method(data, tests=SplineTests(degree=9)).tests
    assert chosen.degree == 9
    assert chosen.gap == method(data).tests.gap


@pytest.mark.parametrize("asked", [{"stencil": CrankNicolson()}, {"weighting": Block()}], ids=["stencil", "weighting"])
def test_a_stencil_or_weighting_of_elements_brings_elements(data, asked):
    chosen = method(data, **asked)
    assert chosen.tests == Galerkin(Q2)
    assert "to go with" in reason(data, **asked)


def test_any_selection_goes_with_any_weighting(data):
    assert method(data, tests=SplineTests(), weighting=Block(), selection=BestSubset()).selection == BestSubset()
    assert method(data, tests=SplineTests(), weighting=Block()).selection == Sweep()
    assert method(data, selection=Sweep()).selection == Sweep()


METHODS = [
    Method(),
    Paper(),
    Method(
        SplineTests({"x": 4.25}, 7), TemporalTests(5, 2.125), Stacked(max_memory=1e9), BestSubset(rounds=2), SVGD(25)
    ),
    Method(SplineTests(), weighting=Tiles(rows=500, shared=0.25)),
    Method(Galerkin(Q2), BDF2(), Block(), Sweep(ProfileBIC()), Maximum(ResidualDensity())),
    Method(Galerkin(H3), estimator=NUTS(draws=50), selection=Backward(FStatistic(0.1))),
]


@pytest.mark.parametrize("one", METHODS, ids=str)
def test_a_method_prints_as_what_makes_it(one):
    assert repr(Method.read(repr(one))) == repr(one)  # objectives of samplers have no equality
    packages = (bvsi.spaces, bvsi.residual, bvsi.likelihood, bvsi.select, bvsi.infer)
    known = {name: value for package in packages for name, value in vars(package).items()}
    known |= {name: getattr(bvsi, name) for name in bvsi.__all__}
    assert repr(eval(repr(one), known)) == repr(one)


def test_what_is_used_can_be_pasted_back(data):
    chosen = method(data)
    assert None not in vars(chosen).values()
    assert method(data, **vars(Method.read(repr(chosen)))) == chosen


@pytest.mark.parametrize(
    "text", ["", "Block()", "Method(", "Method(tests=open('x'))", "Method(3)", "Method(tests=Grid())"]
)
def test_other_texts_are_no_method(text):
    with pytest.raises(BvsiError, match="method: "):
        Method.read(text)


def test_the_papers_algorithm_in_one_line():
    """Against its pieces: backward Euler, Galerkin on Q1, block weights, the residual BIC with lagged fits."""
    clean = fokker_planck.forward_solve(112, False).subsample(4)  # as in the golden case fokker-planck-paper
    data = add_noise(clean, 1e-3, np.random.default_rng(1))
    library = fokker_planck.library(fokker_planck.CANDIDATES)
    found = bvsi.discover(data, library, noise=IID(1e-3), robust=False, method=Paper(), check=False)
    system = assemble(data, library, discretisation=Galerkin(Q1), stencil=BackwardEuler())
    likelihood = residual_likelihood(system, IID(1e-3), Block())
    path = Backward(ResidualBIC(), patience=0).select(likelihood, keep=library.keep)
    assert [v.names for v in found.path.visited] == [v.names for v in path.visited]
    expected = Lagged().fit(likelihood.restrict(path.best.names), start=path.best.theta)
    assert_allclose(found.theta, expected.theta, rtol=1e-12)
    assert_allclose(found.posterior.covariance, expected.posterior.covariance, rtol=1e-12)
    assert found.method == Paper()


def test_a_discovery_keeps_blas_on_one_thread_and_gives_the_others_back():
    """Small products on several threads took four times as long, and twenty times on a busy machine."""
    seen = []

    def threads() -> set[int]:
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    with threadpool_limits(limits=2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this BLAS has one thread only")
        bvsi.discover(noisy(burgers(), 0.02), BURGERS, progress=lambda *_: seen.append(threads()))
        assert seen
        assert all(one == {1} for one in seen)
        assert threads() == {2}


def test_thresholds_are_those_of_the_method_that_was_chosen(data):
    """Elements have no widths, meshes and uneven grids their own, and a given estimator its starts."""
    strict = Profile(starts=Starts(noisy=0.1))
    for one, keys in (
        (choice(data, estimator=strict), {"starts", "widths", "thinning"}),
        (choice(data, tests=Galerkin(Q1)), {"starts"}),
        (choice(uneven()), {"starts", "widths"}),
    ):
        told = thresholds(one)
        assert set(told) == keys
        assert told["starts"] == repr(strict.starts if one.method.estimator == strict else Starts())
    assert told["widths"] == repr(BackgroundWidths())
