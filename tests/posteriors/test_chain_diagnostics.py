"""R-hat and effective sample sizes: against ArviZ, against known autocorrelation, and on chains that fail."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.infer.posteriors import ChainPosterior
from posteriors.posterior_cases import installed_arviz

DIAGNOSTICS = ["r_hat", "ess_bulk", "ess_tail"]


def of(draws: np.ndarray, diagnostic: str) -> np.ndarray:
    return getattr(ChainPosterior(tuple("abcd"[: draws.shape[2]]), draws), diagnostic)


def autoregressive(phi: float, chains: int, draws: int, rng, d: int = 1) -> np.ndarray:
    """x_t = φ x_t−1 + √(1 − φ²) ξ: a unit normal law whose autocorrelation at lag t is φ^t."""
    x = np.empty((chains, draws, d))
    x[:, 0] = rng.standard_normal((chains, d))
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1 - phi**2) * rng.standard_normal((chains, d))
    return x


def cases() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((3, 201, 2)), axis=1)
    return {
        "independent": rng.standard_normal((4, 500, 3)),
        "slow": autoregressive(0.95, 4, 1000, rng, 2),
        "antithetic": autoregressive(-0.7, 4, 1000, rng, 2),
        "odd": autoregressive(0.3, 2, 333, rng, 2),
        "two short chains": rng.standard_normal((2, 24, 4)),
        "shortest": rng.standard_normal((2, 4, 4)),
        "heavy tails": rng.standard_cauchy((4, 400, 2)),
        "random walk": walk,
        "shifted": rng.standard_normal((4, 300, 1)) + np.array([0, 0, 0, 1.0])[:, None, None],
        "scaled": rng.standard_normal((4, 300, 1)) * np.array([1, 1, 1, 3.0])[:, None, None],
        "tied": np.round(rng.standard_normal((4, 300, 2))),
        "tiny and far": 1e6 + 1e-3 * autoregressive(0.5, 4, 300, rng, 2),
    }


@pytest.mark.parametrize("name", cases())
def test_the_numbers_are_those_of_arviz(name):
    arviz = installed_arviz()
    draws = cases()[name]
    theirs = [
        lambda x: arviz.rhat(x),
        lambda x: arviz.ess(x, method="bulk"),
        lambda x: arviz.ess(x, method="tail", prob=(0.05, 0.95)),
    ]
    for ours, reference in zip(DIAGNOSTICS, theirs, strict=True):
        expected = [reference(draws[:, :, i]) for i in range(draws.shape[2])]
        assert_allclose(of(draws, ours), expected, rtol=1e-9, err_msg=ours)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_the_effective_size_is_that_of_the_autocorrelation(phi):
    """Var(mean) = (1 + φ)/(1 − φ)/n for an autoregressive chain."""
    draws = autoregressive(phi, 8, 5000, np.random.default_rng(1), 4)
    assert_allclose(of(draws, "ess_bulk").mean(), 40_000 * (1 - phi) / (1 + phi), rtol=0.1)


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_increasing_maps_change_nothing(diagnostic):
    """Ranks and indicators of quantiles do not see the scale; the folded part of R-hat does, but not here."""
    draws = autoregressive(0.6, 4, 401, np.random.default_rng(2), 2)
    assert_allclose(of(-3e-7 + 1e-9 * draws, diagnostic), of(draws, diagnostic), rtol=1e-9)
    assert_allclose(of(draws[::-1], diagnostic), of(draws, diagnostic), rtol=1e-9)


def test_chains_that_differ_in_place_or_spread_are_seen():
    rng = np.random.default_rng(3)
    draws = rng.standard_normal((4, 500, 3))
    draws[0, :, 1] += 2
    draws[0, :, 2] *= 4
    r_hat = of(draws, "r_hat")
    assert r_hat[0] < 1.01
    assert np.all(r_hat[1:] > 1.05)


def test_one_chain_is_judged_by_its_halves():
    rng = np.random.default_rng(4)
    settled = rng.standard_normal((1, 600, 1))
    assert of(settled, "r_hat")[0] < 1.02
    assert of(settled + np.linspace(0, 3, 600)[:, None], "r_hat")[0] > 1.2


def test_stuck_chains_are_seen():
    draws = np.repeat(np.arange(4.0)[:, None, None], 100, axis=1)
    assert of(draws, "r_hat")[0] > 1e6
    assert of(draws, "ess_bulk")[0] < 10


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_nothing_is_said_of_constants_and_of_very_short_chains(diagnostic):
    draws = np.random.default_rng(5).standard_normal((4, 50, 2))
    draws[:, :, 1] = 3.0
    value = of(draws, diagnostic)
    assert np.isfinite(value[0])
    assert np.isnan(value[1])
    assert np.isnan(of(draws[:, :3], diagnostic)).all()
