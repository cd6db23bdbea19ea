"""Rough estimates on some of the blocks, and steps with the matrix of a point nearby: the same minimum for less."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.infer import Profile, Starts
from bvsi.likelihood import ResidualLikelihood, Stacked, residual_likelihood
from bvsi.noise import IID
from bvsi.residual import assemble
from bvsi.spaces import Q1, Galerkin
from bvsi.studies.problems import fokker_planck


@pytest.fixture(scope="module")
def likelihood():
    data = fokker_planck.observed(fokker_planck.Case(nx=20))
    system = assemble(data, fokker_planck.library(), discretisation=Galerkin(Q1))
    return residual_likelihood(system, IID(1e-3))


def test_a_pilot_has_the_blocks_themselves(likelihood):
    few = likelihood.pilot(10)
    (whole,), (part,) = likelihood.system.experiments, few.system.experiments
    chosen = np.arange(2, 50, 5)
    assert_allclose(part.Z, whole.Z[:, chosen])
    theta = np.array(list(fokker_planck.TRUTH.values()))
    (q,) = likelihood.normal_equations(theta).q_blocks
    assert_allclose(few.normal_equations(theta).q_blocks[0], q[chosen], rtol=1e-10)
    assert few.n == 10 * whole.structure.n_rows
    assert few.plans[0].analysis is likelihood.plans[0].analysis  # the symbolic factorisation is made once


def test_no_pilot_where_it_saves_little_or_blocks_couple(likelihood):
    assert likelihood.pilot(20) is None
    noise = likelihood.noise[0]
    assert residual_likelihood(likelihood.system, noise, Stacked()).pilot(Starts().pilot) is None


def test_the_minimum_is_that_of_the_search_without_a_pilot(likelihood, monkeypatch):
    found = Profile().fit(likelihood)
    monkeypatch.setattr(ResidualLikelihood, "pilot", lambda self, blocks: None)
    plain = Profile().fit(likelihood)
    sd = np.sqrt(plain.posterior.variance)
    assert found.status.converged
    assert np.abs((found.theta - plain.theta) / sd).max() < 1e-4
    assert_allclose(found.posterior.variance, plain.posterior.variance, rtol=1e-4)


def test_the_gradient_without_the_matrix_is_that_with_it(likelihood):
    theta = 0.9 * np.array(list(fokker_planck.TRUTH.values()))
    whole = likelihood.profile_equations(theta).equations
    light = likelihood.density(theta, gradient=True, logdet=False).q
    assert_allclose(light.value, whole.q, rtol=1e-10)
    assert_allclose(-0.5 * light.gradient, whole.g, rtol=1e-8, atol=1e-8 * np.abs(whole.g).max())
