"""Priors of coefficients in forward solves: against integration over the one coefficient of a linear problem."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery.refining import refine
from bvsi.infer.fit import Reason
from bvsi.infer.nuts import NUTS
from bvsi.infer.priors import (
    Distribution,
    Flat,
    HalfNormal,
    Horseshoe,
    Laplace,
    LogNormal,
    Normal,
    Prior,
    StudentT,
    Uniform,
)
from bvsi.noise import IID
from bvsi.operators import Library, NoFlux
from bvsi.refine import ForwardFit, ForwardModel, Measurements, RefineError, fit_forward

X, TIMES, SIGMA = np.linspace(0.0, 1.0, 16), np.linspace(0.0, 0.4, 5), 0.02
SOURCE = Library({"u": ["1"]}, boundary=NoFlux())
# û = u₀ + θ t: sd(θ) is that of a slope at 16 nodes
SD = SIGMA / np.sqrt(16 * np.sum((TIMES - TIMES.mean()) ** 2))


def source(theta: float, seed: int = 0) -> Data:
    start = 1 + 0.5 * np.cos(np.pi * X)
    noise = SIGMA * np.random.default_rng(seed).standard_normal((len(TIMES), len(X)))
    return Data(TIMES, {"u": start + theta * TIMES[:, None] + noise}, Grid(x=X))


def law_of(data: Data, law: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """θ on a fine mesh and L(θ) p(θ) there, with log L(θ̂) = 0; initial states integrated out by the flat fit."""
    flat = fitted(data, Flat())
    precision = 1 / flat.posterior.variance[0] - 1 / flat.scale[0] ** 2
    best = flat.posterior.mean[0] / flat.posterior.variance[0] / precision
    theta = best + np.linspace(-12, 12, 200_001) / np.sqrt(precision)
    return theta, np.exp(-0.5 * precision * (theta - best) ** 2 + law.logpdf(theta))


def fitted(data: Data, law: Distribution) -> ForwardFit:
    model = ForwardModel.of([Measurements.of(data, IID(SIGMA), ("u",))], SOURCE, None, Prior({"1": law}))
    return fit_forward(model)


LAWS = [
    Normal(0.97, (2 * SD) ** 2),
    LogNormal(np.log(0.97), (1.5 * SD) ** 2),
    LogNormal(0.0, 1.0),
    StudentT(5, 1.01, 3 * SD),
    HalfNormal(0.5),
    Uniform(0.0, 2.0),
    Laplace(0.0, 0.5),
    Laplace(0.97, 4 * SD),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_posterior_is_that_of_integration(law):
    """Mean and standard deviation; p(û) against that with another law, whose integral is known too."""
    data = source(1.0)
    theta, density = law_of(data, law)
    total = np.trapezoid(density, theta)
    mean = np.trapezoid(density * theta, theta) / total
    sd = np.sqrt(np.trapezoid(density * (theta - mean) ** 2, theta) / total)
    fit = fitted(data, law)
    assert fit.status.converged
    assert abs(fit.posterior.mean[0] - mean) < 0.05 * sd
    assert np.sqrt(fit.posterior.variance[0]) == pytest.approx(sd, rel=0.04)
    other = Normal(1.0, 0.3**2)
    reference = np.trapezoid(law_of(data, other)[1], theta)
    assert fit.log_evidence - fitted(data, other).log_evidence == pytest.approx(np.log(total / reference), abs=0.03)


@pytest.mark.parametrize("law, side", [(Uniform(1.02, 3.0), 1), (HalfNormal(0.5), -1), (LogNormal(0.0, 0.5), -1)])
def test_laws_that_end_are_bounds(law, side):
    """The data want a value beyond the end: no coefficient and no draw is there; Uniform is exactly truncated."""
    data = source(1.0 if side > 0 else -0.5 * SD)
    fit = fitted(data, law)
    assert law.lower <= fit.theta[0] <= law.upper
    assert fit.posterior.sample(1000, np.random.default_rng(0)).min() >= law.lower
    if isinstance(law, Uniform):
        theta, density = law_of(data, law)
        total = np.trapezoid(density, theta)
        mean = np.trapezoid(density * theta, theta) / total
        assert fit.posterior.mean[0] == pytest.approx(mean, abs=0.05 * SD)


@pytest.mark.parametrize("law", [LogNormal(np.log(0.97), (1.5 * SD) ** 2), Uniform(1.0, 1.02)], ids=str)
def test_chains_have_the_law_itself(law):
    pytest.importorskip("nutpie")
    data = source(1.0)
    theta, density = law_of(data, law)
    total = np.trapezoid(density, theta)
    mean = np.trapezoid(density * theta, theta) / total
    sd = np.sqrt(np.trapezoid(density * (theta - mean) ** 2, theta) / total)
    found = refine(
        data, SOURCE, noise=IID(SIGMA), prior=Prior({"1": law}), structures=[["1"]], sample=NUTS(150, 80, 1)
    ).best.posterior
    assert abs(found.mean[0] - mean) < 0.35 * sd
    assert np.sqrt(found.variance[0]) == pytest.approx(sd, rel=0.25)


@pytest.mark.parametrize("scale", [SD, 0.3 * SD])
def test_an_estimate_at_a_corner_is_told_and_chains_have_the_law(scale):
    """The Gaussian is off by up to 0.7 standard deviations there."""
    data, law, prior = source(0.3 * SD), Laplace(0.0, scale), Prior({"1": Laplace(0.0, scale)})
    fit = fitted(data, law)
    assert fit.status.converged
    assert Reason.NOT_PEAKED in fit.status.reasons
    assert fit.used == pytest.approx(fitted(data, Normal(0.0, scale**2)).used, abs=1.0)
    pytest.importorskip("nutpie")
    theta, density = law_of(data, law)
    total = np.trapezoid(density, theta)
    mean = np.trapezoid(density * theta, theta) / total
    sd = np.sqrt(np.trapezoid(density * (theta - mean) ** 2, theta) / total)
    other = Normal(1.0, 0.3**2)
    reference = np.trapezoid(law_of(data, other)[1], theta)
    assert fit.log_evidence - fitted(data, other).log_evidence == pytest.approx(np.log(total / reference), abs=0.25)
    made = refine(data, SOURCE, noise=IID(SIGMA), prior=prior, structures=[["1"]])
    assert any("at the corner of the prior" in doubt for doubt in made.doubts)
    chains = refine(data, SOURCE, noise=IID(SIGMA), prior=prior, structures=[["1"]], sample=NUTS(200, 80, 1))
    assert not any("corner" in doubt for doubt in chains.doubts)
    assert abs(chains.best.posterior.mean[0] - mean) < 0.35 * sd
    assert np.sqrt(chains.best.posterior.variance[0]) == pytest.approx(sd, rel=0.25)


@pytest.mark.parametrize(
    "prior, text",
    [
        (Prior({"u": Horseshoe(1.0)}), r"prior of 'u': .* and Horseshoe\(1, 0.01\) has one; state Laplace or S"),
    ],
)
def test_other_laws_are_refused_with_a_remedy(prior, text):
    with pytest.raises(RefineError, match=text):
        refine(source(1.0), Library({"u": ["laplacian(u)", "u"]}, boundary=NoFlux()), noise=IID(SIGMA), prior=prior)


@pytest.mark.parametrize(
    "law", [Normal(0.1, 0.1**2), Normal(-0.2, 0.1**2), StudentT(5, 0.0, 0.1), Laplace(0.0, 0.1)], ids=repr
)
def test_a_stated_prior_counts_where_the_model_without_an_operator_was_not_fitted(law):
    """Savage and Dickey with the density of that prior at zero, against a fit without the operator."""
    library, prior = Library({"u": ["1", "u"]}, boundary=NoFlux()), Prior({"u": law})
    whole, alone = (
        refine(source(0.5), library, noise=IID(SIGMA), prior=prior, structures=[names]).best
        for names in (library.names, ("1",))
    )
    assert whole.evidence_without("u") == pytest.approx(alone.log_evidence, abs=0.1)


def test_of_a_prior_that_ends_at_zero_nothing_follows_for_the_model_without_the_operator():
    library, prior = Library({"u": ["1", "u"]}, boundary=NoFlux()), Prior({"u": LogNormal(-3.0, 1.0)})
    short = refine(source(0.5), library, noise=IID(SIGMA), prior=prior, budget=0.0)
    assert ("1",) in short.left_out
    assert np.isinf(short.best.evidence_without("u"))
    assert short.inclusion()["u"] == 1
