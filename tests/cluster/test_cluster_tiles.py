"""One experiment with tiles as weights is cut in time: each worker has a stretch, with tiles of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.cluster import cluster_likelihood
from bvsi.infer import Profile
from bvsi.likelihood import Tiles, residual_likelihood, stacked
from bvsi.likelihood.stacked import PILOT, Pilot
from bvsi.noise import IID, Diagonal
from bvsi.residual import TemporalTests, assemble
from bvsi.residual.thinning import THINNING
from bvsi.spaces import SplineTests

from .cluster_cases import LIBRARY, SIGMA, waves

DATA = waves(np.linspace(0, 2, 161), 64)
THIN = replace(THINNING, values=0)
SETTINGS = {"discretisation": SplineTests(gap=4.0), "stencil": TemporalTests(3, 4.0)}
TILES = Tiles(120)


def on(client, thin=None, weighting=TILES, noise=None):
    return cluster_likelihood(client, DATA, LIBRARY, noise or IID(SIGMA), weighting=weighting, thin=thin, **SETTINGS)


def stretches(remote, thin=None):
    """The likelihoods of the same stretches here, and the times of all of them."""
    system = assemble(DATA, LIBRARY, thin=thin, **SETTINGS)
    whole = residual_likelihood(system, IID(SIGMA), TILES)
    return [whole.some_blocks([np.arange(*seat.blocks)]) for seat in remote.seats]


def expected(remote, theta, thin=None):
    """H, g, q and S of the sum: V of all times is added up before it is squared."""
    found, V = [], {}
    for one in stretches(remote, thin):
        (part,) = one.parts
        every = frozenset(range(part.residuals.structure.n_times))
        own = one.weighting.profile_equations(part, theta, smoothing=1.0, rng=np.random.default_rng(0), shared=every)
        found.append(own)
        for j, values in own.V.items():
            V[j] = V.get(j, 0.0) + values
    S = sum(values.T @ part.covariance.noise_times(j, values) for j, values in V.items())
    H, g, q = (sum(getattr(own.equations, name) for own in found) for name in ("H", "g", "q"))
    return H, g, q, S


@pytest.mark.parametrize("thin", [None, THIN], ids=["all", "thinned"])
def test_sums_are_those_of_stretches_with_tiles(client, thin):
    remote = on(client, thin)
    theta = np.array([0.01, 0.02, -0.01, 0.02, 0.03])
    assert len(remote.seats) == 2
    assert remote.costly
    found = remote.profile_equations(theta, rng=np.random.default_rng(1))
    H, g, q, S = expected(remote, theta, thin)
    # states are averaged over neighbours where covariances are thinned, and a stretch has fewer of them at its ends
    rounding = 1e-9 if thin is None else 2e-2
    sd = np.sqrt(np.diag(S))
    assert_allclose(found.equations.g / sd, g / sd, rtol=0, atol=rounding * np.abs(g / sd).max())
    for one, other in ((found.equations.H, H), (found.S, S)):
        assert_allclose(one / np.outer(sd, sd), other / np.outer(sd, sd), rtol=0, atol=rounding)
    assert_allclose(found.equations.q, q, rtol=rounding)
    assert found.N is not None


def test_error_bars_are_hardly_wider_than_those_of_one_machine(client):
    here = residual_likelihood(assemble(DATA, LIBRARY, **SETTINGS), IID(SIGMA), TILES)
    few = ["laplacian(u)", "u"]
    one, other = (Profile().fit(likelihood.restrict(few)) for likelihood in (here, on(client)))
    sd, wider = (np.sqrt(fit.posterior.variance) for fit in (one, other))
    assert_allclose(wider, sd, rtol=0.15)
    assert np.all(np.abs(other.theta - one.theta) < sd)
    assert np.all(np.abs(other.theta - [0.01, 0.0]) < 4 * wider)


def test_slopes_near_a_factor_are_those_of_the_misfit(client):
    remote = on(client, weighting=Tiles(1e5))  # one tile a piece
    near = np.array([0.01, 0.02, -0.01, 0.02, 0.03])
    theta = 1.01 * near
    remote.profile_equations(near)
    g = -0.5 * remote.density(theta, gradient=True, logdet=False).q.gradient
    assert_allclose(remote.slope_near(theta, near), g, rtol=1e-3, atol=1e-4 * np.abs(g).max())
    assert on(client).slope_near(theta, near) is None  # of several tiles none are kept


def small_pilots(pilot):
    """A pilot for few data too, on a worker."""
    stacked.PILOT = pilot


def test_a_pilot_is_some_of_the_tiles_of_all_pieces(client):
    assert on(client).some_tiles() is None  # so few data need none
    client.run(small_pilots, Pilot(work=0.0, rows=200.0))
    try:
        few = on(client).some_tiles()
    finally:
        client.run(small_pilots, PILOT)
    assert len(few.system.experiments) == PILOT.tiles
    assert few.n <= 200
    (whole,) = assemble(DATA, LIBRARY, **SETTINGS).experiments
    every = {tuple(np.round(z, 9)) for z in whole.Z.reshape(-1, whole.Z.shape[2])}
    assert all(tuple(np.round(z, 9)) in every for own in few.system.experiments for z in own.Z.reshape(-1, own.d + 1))


def test_half_a_count_is_in_the_pieces(client):
    sigma = {"u": np.full(DATA.n_nodes, SIGMA)}
    theta = np.array([0.01, 0.02, -0.01, 0.02, 0.03])
    some = [
        on(client, THIN, noise=Diagonal(sigma, gain)).profile_equations(theta).equations.H for gain in ({}, {"u": 1.0})
    ]
    assert not np.allclose(*some, rtol=1e-3)
