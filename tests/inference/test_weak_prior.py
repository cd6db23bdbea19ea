"""The weak prior that follows the columns: units do not matter, and it hardly counts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer import Lagged, Profile
from bvsi.infer.lagged import column_prior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from inference.cases import reaction_diffusion

SIGMA = 1e-3
START = np.array([0.1, -0.8])


def likelihood_of(operators=("laplacian(u)", "u"), noise=None):
    data, _ = reaction_diffusion(n=11, steps=10, sigma=SIGMA)
    system = assemble(data, Library({"u": list(operators)}, boundary=NoFlux()))
    return residual_likelihood(system, noise or IID(SIGMA))


@pytest.mark.parametrize("noise", [IID(SIGMA), UnknownScale()], ids=["known", "unknown"])
@pytest.mark.parametrize("weight", [1e-10, 0.1], ids=["weak", "strong"])
@pytest.mark.parametrize("estimator", [Lagged(), Profile()], ids=["lagged", "profile"])
def test_rescaling_an_operator_leaves_the_posterior_as_it_is(noise, weight, estimator):
    """θ ∇²u = (θ/1000) ∇²(1000 u)."""
    plain, scaled = (likelihood_of((f, "u"), noise) for f in ("laplacian(u)", "laplacian(1000*u)"))
    unit = np.array([1000.0, 1.0])
    one = estimator.fit(plain, prior=column_prior(plain, START, weight), start=START)
    other = estimator.fit(scaled, prior=column_prior(scaled, START / unit, weight), start=START / unit)
    sd = np.sqrt(one.posterior.variance)
    assert_allclose(other.theta * unit, one.theta, atol=1e-5 * sd.min())
    assert_allclose(other.posterior.covariance * np.outer(unit, unit), one.posterior.covariance, rtol=1e-5)


@pytest.mark.parametrize("weight", [1e-10, 1e-3, 2.0])
def test_its_variances_are_the_information_of_the_data_on_each_operator_alone(weight):
    likelihood = likelihood_of()
    prior = column_prior(likelihood, START, weight)
    H = likelihood.normal_equations(START).H
    for i, name in enumerate(likelihood.names):
        mean, variance = prior.terms[name]
        assert mean == 0
        assert variance == pytest.approx(1 / (weight * H[i, i]))


def test_the_default_hardly_counts():
    likelihood = likelihood_of()
    flat, weak = Profile().fit(likelihood), Profile().fit(likelihood, prior=column_prior(likelihood, START))
    assert_allclose(weak.theta, flat.theta, rtol=1e-6)
    assert_allclose(weak.posterior.covariance, flat.posterior.covariance, rtol=1e-5)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_not_positive_is_refused(weight):
    with pytest.raises(BvsiError, match="weight"):
        column_prior(likelihood_of(), START, weight)
