"""Data in which there is nothing to discover, or an end point twice, are called what they are."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery import Method, discover, refining
from bvsi.discovery.method import Paper
from bvsi.discovery.refining import refine
from bvsi.discovery.screening import check_ends
from bvsi.errors import BvsiError, DataError, OperatorError
from bvsi.noise import PerField
from bvsi.operators import Library
from bvsi.select import BestSubset
from bvsi.spaces import Galerkin, SplineTests

OPERATORS = ["u", "u**2", "dx(u)", "u*dx(u)", "laplacian(u)"]
LIBRARY = Library({"u": OPERATORS})
TRUTH = {"dx(u)": -0.5, "laplacian(u)": 0.3}
TIMES = np.linspace(0, 1, 41)
RING = np.arange(64) * 2 * np.pi / 64
MODES = ((1.0, 1, 0.3), (0.6, 2, 1.0), (0.4, 3, 2.0), (0.2, 4, 0.5))


def wave(x=RING, speed=0.5, modes=MODES):
    """u_t = −0.5 u_x + 0.3 u_xx."""
    t = TIMES[:, None]
    return sum(a * np.exp(-0.3 * k * k * t) * np.cos(k * (x - speed * t) + p) for a, k, p in modes)


def ring(u, x=RING):
    return Data(TIMES, {"u": u}, Grid(x=x, periodic="x"))


def noise(seed, size=0.005, shape=(41, 64)):
    return size * np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    "u, words",
    [
        (np.full((41, 64), 3.0), "'u' is constant, 3 everywhere"),
        (np.zeros((41, 64)), "'u' is constant, 0 everywhere"),
        (np.tile(np.sin(RING), (41, 1)), "'u' is the same at all times: nothing changes in time"),
        (1e-300 * wave(), "reaches .*e-300.*change its unit"),
        (1e200 * wave(), "reaches .*e[+]200.*change its unit"),
    ],
    ids=["constant", "zero", "steady", "tiny", "huge"],
)
def test_data_without_change_and_numbers_without_squares_are_refused(u, words):
    with pytest.raises(DataError, match=words):
        discover(ring(u), LIBRARY)


@pytest.mark.parametrize("still", [np.sin(RING), 3 + 0 * RING], ids=["steady", "constant"])
@pytest.mark.parametrize("discretisation, step", [(None, 1), (Galerkin(), 4)], ids=["splines", "elements"])
def test_noise_around_a_steady_state_is_no_discovery(still, discretisation, step):
    """step: of the nodes and frames; elements have a residual at each of them, and take as long."""
    u = still + noise(8, 0.01)
    data = Data(TIMES[::step], {"u": u[::step, ::step]}, Grid(x=RING[::step], periodic={"x": 2 * np.pi}))
    with pytest.raises(DataError, match="nothing changes in time beyond the noise: u_t = 0"):
        discover(data, LIBRARY, method=Method(tests=discretisation))


def test_an_operator_that_is_kept_is_estimated_all_the_same():
    found = discover(ring(np.sin(RING) + noise(8, 0.01)), Library({"u": OPERATORS}, keep=["laplacian(u)"]), check=False)
    assert abs(found.coefficient("laplacian(u)")) < 4 * found.sd[found.names.index("laplacian(u)")]


def test_of_two_fields_the_steady_one_has_an_empty_equation(tmp_path):
    data = Data(TIMES, {"u": wave() + noise(1), "v": np.sin(RING) + noise(2)}, Grid(x=RING, periodic="x"))
    library = Library({"u": ["u", "dx(u)", "laplacian(u)", "v"], "v": ["v", "u", "dx(v)", "laplacian(v)"]})
    found = discover(data, library)
    assert found.equation.endswith("v_t = 0")
    found.save(tmp_path / "a.nc")
    assert type(found).load(tmp_path / "a.nc").equation == found.equation


@pytest.fixture(scope="module")
def clean():
    return discover(ring(wave() + noise(3)), LIBRARY, check=False)


@pytest.mark.parametrize("value", [1e6, -1e12, 0.2], ids=str)
def test_one_wild_value_changes_nothing_whatever_its_size(clean, value):
    spoilt = wave() + noise(3)
    spoilt[20, 30] = value
    found = discover(ring(spoilt), LIBRARY)
    assert found.names == clean.names
    assert np.all(np.abs(found.theta - clean.theta) < clean.sd)
    assert found.verdict == "consistent"


@pytest.mark.parametrize("copied", [False, True])
def test_an_end_point_that_is_kept_twice_is_refused(copied):
    x = np.linspace(0, 2 * np.pi, 64)
    u = wave(x) + noise(4)
    if copied:
        u[:, -1] = u[:, 0]
    with pytest.raises(DataError, match="the last column of field 'u' is the first once more"):
        discover(ring(u, x), LIBRARY)


@pytest.mark.parametrize("sigma", [0.0, 0.005, 0.1])
@pytest.mark.parametrize("nodes", [12, 32, 128])
def test_right_periodic_data_are_taken_however_symmetric(nodes, sigma):
    even = tuple((a, k, 0.0) for a, k, _ in MODES)
    for shift in (0.0, 0.5):
        x = (np.arange(nodes) + shift) * 2 * np.pi / nodes
        for seed in range(5):
            spread = noise(seed, sigma, (41, nodes))
            for u in (wave(x), wave(x, 0.0, even), np.maximum(wave(x) - 1, 0), wave(x) ** 8):
                check_ends(ring(u + spread, x))


def test_what_is_neither_data_nor_library_is_refused_with_what_is_needed():
    data = ring(wave() + noise(0))
    with pytest.raises(BvsiError, match="library: a Library of candidate operators is needed"):
        discover(data, None)
    for wrong in (None, [None], "run.nc"):
        with pytest.raises(BvsiError, match="data: Data is needed"):
            discover(wrong, LIBRARY)


REFUSED = [
    (lambda: Method(tests="splines"), r"tests: SplineTests\(\) or Galerkin\(\) is needed, not 'splines'"),
    (lambda: Method(tests=SplineTests), r"tests: SplineTests\(\) or Galerkin\(\) is needed"),
    (lambda: Method(stencil="bdf2"), r"stencil: TemporalTests\(\)"),
    (lambda: Method(weighting="stacked"), r"weighting: Stacked\(\), Tiles\(\) or Block\(\) is needed"),
    (lambda: Method(weighting="stacked", selection=BestSubset()), r"weighting: Stacked\(\)"),
    (lambda: Method(selection="sweep"), r"selection: BestSubset\(\)"),
    (lambda: Method(estimator="profile"), r"estimator: Profile\(\)"),
    (lambda: found_by(method="paper"), r"method: Method\(\.\.\.\) or Paper\(\) is needed, not 'paper'"),
    (lambda: found_by(method=Paper), r"method: Method\(\.\.\.\) or Paper\(\) is needed"),
    (lambda: found_by(rng=3), r"rng: a generator is needed, such as numpy.random.default_rng\(3\), not 3"),
    (lambda: found_by(check=3), "check: True, False or CheckLevels"),
    (lambda: found_by(noise=PerField({"w": 1})), "noise: the data have no field 'w'; they have u"),
    (lambda: found_by(noise=0.01), r"noise: an instance of a noise model is needed, such as IID\(1e-3\), not 0.01"),
    (lambda: fitted_by(noise=0.01), "noise: an instance of a noise model is needed"),
    (lambda: fitted_by(noise=PerField({"w": 1})), "noise: the data have no field 'w'"),
    (lambda: refine(two_fields(), TWO, noise=PerField({"u": 1.0})), "noise: field 'v' has none; given are u"),
    (lambda: discover(two_fields(), TWO, noise=PerField({"u": 1.0})), "noise: field 'v' has none; given are u"),
    (lambda: fitted_by(sample=3), r"sample: NUTS\(draws=200, tune=100, chains=2\) is needed, not 3"),
    (lambda: fitted_by(budget=-1), "budget: seconds, zero or more, are needed, such as budget=300; got -1"),
    (lambda: fitted_by(budget="long"), "budget: seconds, zero or more"),
    (lambda: fitted_by(rng=3), r"rng: a generator is needed, such as numpy.random.default_rng\(3\)"),
    (lambda: fitted_by(prior=3), "prior: Prior"),
    (lambda: fitted_by(on="domain.msh"), "on: a Grid or a Mesh is needed"),
    (lambda: refine(None, LIBRARY), "data: Data is needed"),
]


TWO = Library({"u": ["dx(u)"], "v": ["dx(v)"]})


def two_fields():
    one = ring(wave() + noise(0))
    return Data(one.times, {"u": one.fields["u"], "v": one.fields["u"] ** 2}, one.geometry)


def found_by(**options):
    return discover(ring(wave() + noise(0)), LIBRARY, **options)


def fitted_by(**options):
    return refine(ring(wave() + noise(0)), LIBRARY, **options)


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_arguments_of_another_kind_are_refused_with_what_is_needed(make, words, monkeypatch):
    monkeypatch.setattr(refining, "fit_forward", None)  # before any fit
    with pytest.raises(BvsiError, match=words):
        make()


@pytest.mark.parametrize("text", ["0", "u-u", "dx(3)", "laplacian(x)"])
def test_operators_that_are_zero_are_refused_by_name(text):
    with pytest.raises(OperatorError, match="is zero whatever the fields are; leave it out") as caught:
        discover(ring(wave() + noise(0)), Library({"u": ["dx(u)", text]}))
    assert repr(text) in str(caught.value)


def test_two_nodes_are_refused_with_the_remedy():
    data = Data(TIMES, {"u": wave()[:, :2]}, Grid(x=RING[:2]))
    with pytest.raises(BvsiError, match="at least 3 nodes along every axis"):
        discover(data, LIBRARY)
