"""Covariances summed over some of the nodes and times are those of all of them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse

from bvsi.data import Data, Grid, _arrays
from bvsi.likelihood import Stacked
from bvsi.noise import IID, Covariance, Diagonal, PerField
from bvsi.operators import Library
from bvsi.residual import TemporalTests, thinning
from bvsi.residual.discrete import State
from bvsi.setup import Setup
from bvsi.spaces import SplineTests

SIGMA = 0.01
THETA = np.array([0.1, -1.0, 0.5])
LIBRARY = Library({"u": ["laplacian(u)", "u*dx(u)", "u**3"]})


def waves(dim=1, n=120, T=90, periodic=True, seed=0):
    x = 2 * np.pi * np.arange(n) / n if periodic else np.linspace(0, 2 * np.pi, n)
    t = np.linspace(0, 1, T)
    axes = dict.fromkeys("xy"[:dim], x)
    grid = Grid(periodic=dict.fromkeys(axes, 2 * np.pi) if periodic else {}, **axes)
    place = grid.points.sum(axis=1)
    u = 1.5 + np.sin(place[None] - 2 * t[:, None]) + 0.3 * np.cos(2 * place[None] + t[:, None])
    u += SIGMA * np.random.default_rng(seed).standard_normal(u.shape)
    return Data(t, {"u": u}, grid)


def setup_of(data, noise=None, gap=8.0):
    tests, variance = SplineTests(gap, 6), {"u": np.array(SIGMA**2)}
    noise = noise or PerField({"u": SIGMA})
    return Setup((data,), (noise,), (variance,), LIBRARY, tests, TemporalTests(5, gap), Stacked())


ALWAYS = replace(thinning.THINNING, values=0)


def both(setup):
    """Likelihoods with the covariance of all data, and of some."""
    return setup.likelihood(), setup.likelihood(thin=ALWAYS)


def thinned(likelihood):
    return likelihood.parts[0].residuals.structure.thinned


@pytest.mark.parametrize("case", [{}, {"periodic": False, "n": 121}, {"dim": 2, "n": 64, "T": 60}])
def test_equations_are_those_of_all_nodes(case):
    whole, few = both(setup_of(waves(**case)))
    assert thinned(whole) is None
    assert thinned(few).share <= 1 / 8
    assert str(thinned(few)) in few.system.description
    np.testing.assert_allclose(few.system.experiments[0].Z, whole.system.experiments[0].Z, rtol=1e-9, atol=1e-12)
    ours, theirs = (one.profile_equations(THETA).equations for one in (few, whole))
    sd = np.sqrt(np.diag(np.linalg.inv(theirs.H)))
    # the noise in the Jacobians is another draw, so that they agree to its size
    np.testing.assert_allclose(ours.H * np.outer(sd, sd), theirs.H * np.outer(sd, sd), atol=0.02)
    assert abs(ours.q / theirs.q - 1) < 0.01
    moved, step = np.linalg.solve(ours.H, ours.g), np.linalg.solve(theirs.H, theirs.g)
    assert np.linalg.norm(moved - step) < 0.01 * np.linalg.norm(step)  # these waves solve no such equation


def test_constant_jacobians_agree_to_the_quadrature():
    setup = setup_of(waves()).with_(library=Library({"u": ["laplacian(u)", "u"]}))
    whole, few = both(setup)
    ours, theirs = (one.normal_equations(np.array([0.1, 0.5])).H for one in (few, whole))
    np.testing.assert_allclose(ours, theirs, rtol=2e-3)


def test_estimates_of_the_noise_are_carried_to_all_nodes():
    data = waves()
    whole, few = both(setup_of(data))
    ours, theirs = (one.noise_estimates(THETA)[0]["u"] for one in (few, whole))
    assert ours.shape == data.fields["u"].shape
    assert np.linalg.norm(ours - theirs) < 0.05 * np.linalg.norm(theirs)


def test_states_keep_some_of_the_noise():
    data = waves(n=120, T=90)
    found = thinning.Thinned.of(data, SplineTests(8.0, 6), TemporalTests(5, 8.0), 6, thinning.THINNING)
    assert found is None  # too few values
    axis = thinning.ThinAxis.of(120, 8.0, periodic=True, nodes=1.9)
    made = thinning.Thinned(data.geometry, thinning.ThinAxis.of(90, 8.0, periodic=False, nodes=1.9), (axis,))
    noise = np.random.default_rng(1).standard_normal((120, 90))
    assert np.var(made._averaged(noise)) == pytest.approx(0.5, rel=0.15)
    smooth = np.sin(2 * np.pi * np.arange(120) / 120)[:, None] * np.linspace(0, 1, 90)
    np.testing.assert_allclose(made._averaged(smooth), made._known(smooth), atol=1e-6)
    np.testing.assert_allclose(made.everywhere(made._known(smooth), slice(None)), smooth, atol=2e-3)
    np.testing.assert_allclose(made.everywhere(made._known(smooth), np.array([0, 7])), smooth[:, [0, 7]], atol=2e-3)


def test_noise_by_node_is_that_of_the_nodes():
    data = waves()
    sigma = SIGMA * (1 + 0.2 * np.cos(np.arange(120) * 2 * np.pi / 120))
    _, few = both(setup_of(data, Diagonal({"u": sigma})))
    found = few.parts[0].covariance.noise.distinct[0]
    np.testing.assert_allclose(found, sigma[thinned(few).nodes] ** 2 * thinned(few).share, rtol=0.05)
    wild = np.full((90, 120), SIGMA)
    wild[41, 61] = 30 * SIGMA  # an outlier weighs as one value of many, on a point or not
    few = setup_of(data, Diagonal({"u": wild})).likelihood(thin=ALWAYS)
    found, share = np.stack(few.parts[0].covariance.noise.distinct), thinned(few).share
    assert np.sum(found / (SIGMA**2 * share) - 1) == pytest.approx((30**2 - 1) * share)


def test_what_cannot_be_thinned_is_not():
    data = waves()
    assert thinned(setup_of(data, IID(SIGMA)).likelihood(thin=ALWAYS)) is not None
    assert thinned(setup_of(data, gap=2.0).likelihood(thin=ALWAYS)) is None
    assert (
        thinned(setup_of(data, Covariance(SIGMA**2 * sparse.eye_array(120, format="csr"))).likelihood(thin=ALWAYS))
        is None
    )
    late = data.times + 0.3 * np.where(np.arange(90) > 45, data.times[1], 0.0)
    assert thinned(setup_of(Data(late, data.fields, data.geometry)).likelihood(thin=ALWAYS)) is None
    mask = np.ones((90, 120), dtype=bool)
    mask[40, 60] = False
    assert thinned(setup_of(replace(data, measured={"u": mask})).likelihood(thin=ALWAYS)) is None


@pytest.mark.parametrize("case", [{}, {"dim": 2, "n": 32, "T": 60}])
def test_slabs_and_mapped_files_give_the_same_sums(monkeypatch, tmp_path, case):
    """One pass over the data, some frames after the other, from memory or from a file that stays one."""
    data = waves(**case)
    whole = setup_of(data, gap=4.0).likelihood(thin=ALWAYS).parts[0].residuals
    np.save(tmp_path / "u.npy", data.fields["u"])
    mapped = replace(data, fields={"u": np.load(tmp_path / "u.npy", mmap_mode="r")})
    assert _arrays.mapped(mapped.fields["u"]) is not None
    monkeypatch.setattr(_arrays, "_SLAB", 7 * data.n_nodes)
    monkeypatch.setattr("bvsi.residual.discrete.CHUNK_BYTES", 8 * 11 * data.n_nodes)
    slabs = setup_of(mapped, gap=4.0).likelihood(thin=ALWAYS).parts[0].residuals
    np.testing.assert_allclose(slabs.Z, whole.Z, rtol=1e-12, atol=1e-12 * np.abs(whole.Z).max())
    G, expected = (one.jacobians(THETA).at_nodes()[0].factor for one in (slabs, whole))
    np.testing.assert_allclose(G, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_sums_over_nodes_before_times_are_the_same(monkeypatch):
    setup = setup_of(waves(dim=2, n=24, T=40), gap=3.0)
    found = []
    for few in (0, 10**9):
        monkeypatch.setattr("bvsi.residual.discrete._FEW_SUMS", few)
        found.append(setup.likelihood().parts[0].residuals.X)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-11, atol=1e-13 * np.abs(found[0]).max())


def test_squares_of_counts_have_their_exact_variance():
    """Var(m²) = 4λ³ + 6λ² + λ for m ~ Poisson(λ); without the half count, 4λ³ + 2λ², as for Gaussian noise."""
    rate, times = 5.0, np.arange(80.0)
    counts = np.random.default_rng(0).poisson(rate, (80, 120)).astype(float)
    data = Data(times, {"u": counts}, Grid(x=np.arange(120.0)))
    state = State(times, {"u": counts.T}, {}, variance={"u": np.full((120, 80), rate)})
    exact, gaussian = 4 * rate**3 + 6 * rate**2 + rate, 4 * rate**3 + 2 * rate**2
    for gain, expected in (({"u": 1.0}, exact), ({}, gaussian)):
        slope = 2 * thinning.half_noisy(state, data, gain).fields["u"]
        assert np.mean(rate * slope**2) == pytest.approx(expected, rel=0.02)


def test_half_a_count_is_in_the_covariance_of_some_nodes_as_in_that_of_all():
    data = waves()
    sigma = {"u": np.full(data.n_nodes, SIGMA)}
    counted, plain = (setup_of(data, Diagonal(sigma, gain)) for gain in ({"u": 0.4}, {}))
    whole, few = both(counted)
    assert thinned(few) is not None
    H, expected, without = (
        one.profile_equations(THETA).equations.H for one in (few, whole, plain.likelihood(thin=ALWAYS))
    )
    np.testing.assert_allclose(np.diag(H), np.diag(expected), rtol=0.02)
    assert np.max(np.abs(np.diag(without) / np.diag(expected) - 1)) > 0.1
