"""The no-U-turn sampler against known posteriors, and what it says of chains that are not to be trusted."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer import NUTS, FrozenCovariance, Lagged
from bvsi.infer.constraints import as_linear
from bvsi.infer.nuts import _doubts
from bvsi.infer.posteriors import ChainPosterior
from bvsi.infer.priors import Flat, GaussianPrior, LogNormal, Prior
from inference.bayes_cases import four_operators, frozen_posterior, two_operators

needs_nutpie = pytest.mark.skipif(importlib.util.find_spec("nutpie") is None, reason="nutpie is not installed")
MEAN, PRECISION = np.array([0.11, -0.7]), np.diag([1e6, 1e3])
PRIOR = GaussianPrior({"laplacian(u)": (0.11, 1e-6), "u": (-0.7, 1e-3)})


@cache
def likelihood():
    return two_operators()


@cache
def frozen():
    return FrozenCovariance(Lagged().fit(likelihood()).theta)


def rng(seed=1):
    return np.random.default_rng(seed)


@needs_nutpie
def test_chains_have_the_mean_and_variance_of_a_known_posterior():
    mean, covariance = frozen_posterior(likelihood(), frozen().theta, MEAN, PRECISION)
    fit = NUTS(draws=2000, objective=frozen()).fit(likelihood(), prior=PRIOR, rng=rng())
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(fit.theta - mean) < 0.1 * sd)
    assert_allclose(fit.posterior.variance, sd**2, rtol=0.05)
    assert_allclose(fit.posterior.covariance[0, 1] / sd.prod(), covariance[0, 1] / sd.prod(), atol=0.05)
    law = scipy.stats.norm(mean, sd)
    assert_allclose(fit.posterior.interval(0.9), np.stack(law.interval(0.9), axis=1), atol=0.08 * sd.max())
    assert fit.status.converged
    assert "chains agree" in fit.status.message
    assert fit.posterior.draws.shape == (4, 2000, 2)
    target = fit.posterior.log_density - fit.posterior.log_density.max()
    offset = fit.posterior.draws - mean
    expected = -0.5 * np.einsum("cni,ij,cnj->cn", offset, np.linalg.inv(covariance), offset)
    assert_allclose(target - target[0, 0], expected - expected[0, 0], atol=1e-6)


@needs_nutpie
@pytest.mark.parametrize(
    "texts, prior",
    [
        (["u**2 > 0.01"], None),
        (["u**2 > 0", "dx(u) > 0", "u**2 + dx(u) < 0.01"], None),
        (["dx(u) == u**2", "dx(u) < -0.005"], None),
        ([], Prior({"u**2": LogNormal(-5.0, 1.0)}, Flat())),
    ],
    ids=["bound", "triangle", "equality", "LogNormal"],
)
def test_constraints_hold_for_every_draw(texts, prior):
    case = four_operators()
    free = Lagged().fit(case)
    allowed = as_linear(texts, case.names)
    method = NUTS(draws=50, tune=50, chains=2, objective=FrozenCovariance(free.theta))
    fit = method.fit(case, constraints=texts, prior=prior, rng=rng())
    draws = fit.posterior.rows
    assert free.theta[3] < 0 or not allowed.satisfied(free.theta)
    assert np.all(allowed.satisfied(draws))
    value = draws @ allowed.A[allowed.single].T
    assert np.all((value >= allowed.lower[allowed.single]) & (value <= allowed.upper[allowed.single]))
    assert prior is None or np.all(draws[:, 3] > 0)
    assert np.all(draws.std(axis=0) > 0)


@needs_nutpie
def test_draws_at_a_bound_have_the_truncated_law():
    one = likelihood().restrict(["laplacian(u)"])
    start = Lagged().fit(one)
    (mean,), ((variance,),) = frozen_posterior(one, start.theta, np.zeros(1), np.zeros((1, 1)))
    sd = np.sqrt(variance)
    law = scipy.stats.truncnorm(0.5, np.inf, loc=mean, scale=sd)
    text = f"laplacian(u) > {float(mean + 0.5 * sd)!r}"
    fit = NUTS(draws=800, tune=200, objective=FrozenCovariance(start.theta)).fit(one, constraints=text, rng=rng())
    assert_allclose(fit.theta[0], law.mean(), atol=0.1 * law.std())
    assert_allclose(fit.posterior.variance[0], law.var(), rtol=0.12)
    assert scipy.stats.ks_1samp(fit.posterior.rows[::5, 0], law.cdf).pvalue > 1e-3


@needs_nutpie
def test_the_law_on_a_triangle_is_not_heaped_on_its_sides():
    """A bound that depends on two other rows must not collect what the coordinates put beyond it."""
    case = four_operators()
    start = Lagged().fit(case)
    sd = np.sqrt(start.posterior.variance[1])
    texts = ["u**2 > 0", "dx(u) > 0", f"u**2 + dx(u) < {float(sd)!r}"]
    fit = NUTS(draws=80, tune=100, objective=FrozenCovariance(start.theta)).fit(case, constraints=texts, rng=rng())
    draws = fit.posterior.rows
    exact = Lagged().fit(case, constraints=texts).posterior.sample(4000, rng(2))
    assert np.mean(np.isin(draws[:, [1, 3]], [0.0])) == 0
    assert_allclose(draws[:, [1, 3]].mean(axis=0), exact[:, [1, 3]].mean(axis=0), atol=0.3 * exact[:, 1].std())


@needs_nutpie
def test_the_same_seed_gives_the_same_draws():
    method = NUTS(draws=30, tune=30, chains=2, objective=frozen())
    one, two, other = (method.fit(likelihood(), rng=rng(seed)).posterior.draws for seed in (5, 5, 6))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@needs_nutpie
def test_too_few_draws_are_told():
    fit = NUTS(draws=10, tune=20, chains=2, objective=frozen()).fit(likelihood(), rng=rng())
    assert not fit.status.converged
    assert "effective draws; raise draws" in fit.status.message
    assert fit.status.message.startswith(fit.posterior.warnings[0])


@needs_nutpie
def test_a_start_that_does_not_know_of_the_constraints_is_refused():
    with pytest.raises(BvsiError, match=r"start: .*% of its draws violate the constraints"):
        NUTS().fit(likelihood(), constraints="u > -0.7", start=Lagged().fit(likelihood()), rng=rng())


def test_a_missing_sampler_is_told(monkeypatch):
    original = importlib.import_module

    def missing(name, *rest):
        if name.startswith("nutpie"):
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(BvsiError, match=r"nutpie: pip install 'bvsi\[mcmc\]'"):
        NUTS().fit(likelihood(), rng=rng())


def chains(draws, diverging=None):
    return ChainPosterior(("a", "b"), draws, diverging=diverging)


GOOD = np.random.default_rng(0).standard_normal((4, 500, 2))


def test_good_chains_raise_no_doubts():
    assert _doubts(chains(GOOD)) == ()
    fixed = GOOD.copy()
    fixed[..., 1] = 3.0  # a coefficient that a constraint fixes
    assert _doubts(chains(fixed)) == ()


def test_chains_that_disagree_are_told():
    apart = GOOD.copy()
    apart[0, :, 1] += 3.0
    (mixed, *_) = _doubts(chains(apart))
    assert "not mixed" in mixed
    assert "raise tune and draws" in mixed


def test_chains_that_stand_still_are_told():
    stuck = np.broadcast_to(np.arange(4.0)[:, None, None], GOOD.shape).copy()
    stuck[..., 1] = GOOD[..., 1]
    assert any("not mixed" in text for text in _doubts(chains(stuck)))


def test_chains_that_crawl_are_told():
    slow = np.cumsum(0.05 * GOOD, axis=1)
    slow -= slow.mean(axis=1, keepdims=True)
    assert any("effective draws; raise draws" in text for text in _doubts(chains(slow)))


def test_divergences_are_told():
    diverging = np.zeros((4, 500), dtype=bool)
    diverging[2, 7:10] = True
    assert _doubts(chains(GOOD, diverging)) == ()  # next to a wall a few do
    diverging[1, 100:130] = True
    (told,) = _doubts(chains(GOOD, diverging))
    assert told.startswith("33 steps diverged")
    assert "smoother priors" in told


@pytest.mark.parametrize("settings", [{"draws": 3}, {"tune": 0}, {"chains": 0}, {"draws": 50.5}])
def test_settings_are_checked(settings):
    with pytest.raises(BvsiError, match=f"{next(iter(settings))}: a whole number is needed"):
        NUTS(**settings)
