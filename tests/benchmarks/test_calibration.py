"""Simulation-based calibration: it passes right posteriors and rejects wrong ones."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from bvsi.app.plot import rank_histogram
from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.likelihood import sensitivities
from bvsi.studies.benchmarks import calibration
from bvsi.studies.benchmarks.calibration import (
    BINS,
    DRAWS,
    SIGMA,
    calibrated,
    fit,
    models,
    relative_ranks,
    replicate,
    uniformity,
)

REPLICATIONS = 200


@pytest.fixture(scope="module", params=[0, 1], ids=["known", "unknown"])
def replications(request):
    """Truths and posteriors of one model."""
    model, rng = models()[request.param], np.random.default_rng(3)
    pairs = [replicate(model, rng) for _ in range(REPLICATIONS)]
    return [(truth, fit(model, likelihood)) for truth, likelihood in pairs]


def p_values(replications, change=lambda posterior: posterior) -> list[float]:
    rng = np.random.default_rng(4)
    ranks = np.array([relative_ranks(change(posterior), truth, rng) for truth, posterior in replications])
    return [uniformity(column) for column in ranks.T]


def rescaled(posterior, factor: float):
    """The same posterior with other variances of θ."""
    if isinstance(posterior, GaussianPosterior):
        return replace(posterior, covariance=factor * posterior.covariance)
    return replace(posterior, shape=factor * posterior.shape)


def test_right_posteriors_pass(replications):
    assert calibrated(p_values(replications))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_wrong_variances_are_rejected(replications, factor):
    assert not calibrated(p_values(replications, lambda posterior: rescaled(posterior, factor)))


def test_a_shifted_mean_is_rejected(replications):
    def shifted(posterior):
        return replace(posterior, mean=posterior.mean + 0.6 * np.sqrt(posterior.variance))

    assert not calibrated(p_values(replications, shifted))


@pytest.mark.parametrize("replications", [1], ids=["unknown"], indirect=True)
def test_a_wrong_noise_variance_is_rejected(replications):
    *_, right = p_values(replications)
    *_, wrong = p_values(replications, lambda posterior: replace(posterior, beta=0.7 * posterior.beta))
    assert wrong < 1e-4 < right


@pytest.mark.parametrize("which", [0, 1], ids=["known", "unknown"])
def test_the_misfit_at_the_truth_is_chi_squared(which):
    """rᵀΣ⁻¹r ~ χ²_n with the covariance of the package: the data are made without it."""
    model, rng = models()[which], np.random.default_rng(5)
    q = []
    for _ in range(300):
        truth, likelihood = replicate(model, rng)
        scale = 1.0 if model.noise_prior is None else truth[-1]
        q.append(likelihood.normal_equations(truth[:3]).q / scale)
    assert scipy.stats.kstest(q, scipy.stats.chi2(model.likelihood.system.n).cdf).pvalue > 0.01


def test_truths_have_the_moments_of_the_prior():
    known, unknown = models()
    rng = np.random.default_rng(6)
    draws = np.array([replicate(known, rng)[0] for _ in range(2000)])
    bound = known.prior.bind(known.likelihood.names)
    sd = np.diag(bound.precision) ** -0.5
    assert_allclose((draws.mean(axis=0) - bound.mean) / sd, 0, atol=4 / np.sqrt(2000))
    assert_allclose(draws.std(axis=0) / sd, 1, atol=4 / np.sqrt(4000))
    variances = np.array([replicate(unknown, rng)[0][-1] for _ in range(1000)])
    given = unknown.noise_prior
    assert scipy.stats.kstest(variances, scipy.stats.invgamma(given.alpha, scale=given.beta).cdf).pvalue > 0.01
    assert_allclose(given.beta / (given.alpha - 1), SIGMA**2)


def test_the_covariance_does_not_depend_on_the_coefficients():
    for model in models():
        (residuals,) = model.likelihood.system.experiments
        assert np.abs(residuals.X).max() > 0.1
        assert_allclose(sensitivities(residuals, np.ones(3), 2)[1], sensitivities(residuals, np.zeros(3), 2)[1], atol=0)
        assert_allclose(model.likelihood.density([1.0, 2.0, 3.0], gradient=True).logdet.gradient, 0, atol=0)


def test_ranks_count_the_draws_below():
    """A point mass has all of its draws on one side."""
    law = GaussianPosterior(("a", "b"), np.array([1.0, -1.0]), 1e-12 * np.eye(2))
    ranks = relative_ranks(law, np.zeros(2), np.random.default_rng(0))
    assert_allclose(ranks * (DRAWS + 1), [0.5, DRAWS + 0.5])


def test_every_rank_has_its_bin():
    """Each of the L + 1 ranks once: exactly uniform."""
    every = (np.arange(DRAWS + 1) + 0.5) / (DRAWS + 1)
    assert uniformity(every) == 1.0
    assert uniformity(np.repeat(every[: (DRAWS + 1) // 2], 2)) < 1e-10


def test_the_level_is_shared_out():
    assert calibrated([0.0015] + [0.5] * 6)
    assert not calibrated([0.0014] + [0.5] * 6)
    assert not calibrated([0.0099])


def test_too_few_ranks_are_refused():
    with pytest.raises(BvsiError, match="100 ranks"):
        uniformity(np.linspace(0, 1, 99))


def test_the_command_writes_its_results(tmp_path, capsys):
    assert calibration.main(["--out", str(tmp_path), "--replications", "100"]) == 0
    result = json.loads((tmp_path / "calibration.json").read_text())
    assert result["calibrated"] is True
    assert [len(row["ranks"]) for row in result["rows"]] == [100] * 7
    assert [row["quantity"] for row in result["rows"] if row["model"] == "unknown noise"][-1] == "σ²"
    assert (tmp_path / "calibration.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.endswith("\ncalibrated\n")


def test_the_command_fails_where_ranks_are_not_uniform(tmp_path, capsys, monkeypatch):
    def narrow(model, likelihood):
        return rescaled(fit(model, likelihood), 0.1)

    monkeypatch.setattr(calibration, "models", lambda: models()[:1])
    monkeypatch.setattr(calibration, "fit", narrow)
    assert calibration.main(["--out", str(tmp_path), "--replications", "100"]) == 1
    assert json.loads((tmp_path / "calibration.json").read_text())["calibrated"] is False
    assert "NOT calibrated" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--replications", "99"], ["--seed", "-1"]], ids=str)
def test_arguments_that_make_no_sense_are_refused(wrong, tmp_path, capsys):
    with pytest.raises(SystemExit):
        calibration.main(["--out", str(tmp_path), *wrong])
    assert "--replications must be at least 100" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_rank_histogram_has_the_counts_and_the_band():
    ax = Figure().subplots()
    rank_histogram(ax, (np.arange(200) % 100 + 0.5) / 100, BINS, "a title")
    band, *bars = ax.patches
    assert [bar.get_height() for bar in bars] == [10] * BINS
    assert [band.get_y(), band.get_y() + band.get_height()] == list(scipy.stats.binom.interval(0.99, 200, 1 / BINS))
    assert ax.get_title() == "a title"


@pytest.mark.parametrize("ranks", [[], [0.2, 1.5], [-0.1], [np.nan], [[0.1, 0.2]]], ids=str)
def test_ranks_that_cannot_be_drawn_are_refused(ranks):
    with pytest.raises(BvsiError, match="ranks"):
        rank_histogram(Figure().subplots(), ranks, 20, "")


def test_one_bin_is_refused():
    with pytest.raises(BvsiError, match="bins"):
        rank_histogram(Figure().subplots(), [0.5], 1, "")
