"""Operators that the data cannot tell apart are named, exactly these; a prior settles what the data leave open."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError, RankError
from bvsi.infer import Lagged, LeastSquares
from bvsi.infer.priors import GaussianPrior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.operators import Library, NoFlux
from bvsi.residual import ResidualSystem, assemble
from inference.cases import dense_weights, smooth_1d, stacked


def system_of(*operators: str, data: Data | None = None) -> ResidualSystem:
    return assemble(data or smooth_1d(), Library({"u": list(operators)}, boundary=NoFlux()))


def constant_in_y(noise: float = 0.0) -> Data:
    grid = Grid(x=np.linspace(0, 1, 7), y=np.linspace(0, 1.5, 6))
    line = smooth_1d(7).fields["u"]
    values = np.repeat(line, 6, axis=1)
    values = values + noise * np.random.default_rng(0).standard_normal(values.shape)
    return Data(times=smooth_1d(7).times, fields={"u": values}, geometry=grid)


def groups(system: ResidualSystem) -> set[frozenset[str]]:
    with pytest.raises(RankError) as caught:
        LeastSquares().fit(system)
    for group in caught.value.operators:
        assert all(name in str(caught.value) for name in group)
    return {frozenset(group) for group in caught.value.operators}


@pytest.mark.parametrize(
    "pair, others",
    [
        (("u", "2*u"), ("laplacian(u)", "u**2")),
        (("laplacian(u)", "dx(dx(u))"), ("u", "dx(u)")),
        (("u", "1e-12*u"), ("laplacian(u)",)),
        (("u", "-1e9*u"), ("laplacian(u)",)),
    ],
)
def test_two_equal_operators_are_named_and_no_other(pair, others):
    assert groups(system_of(others[0], *pair, *others[1:])) == {frozenset(pair)}


@pytest.mark.parametrize("pair", [("u*dx(u)", "dx(u**2)"), ("div(u*grad(x))", "dx(u)")])
def test_operators_that_differ_by_a_boundary_term_only_are_equal_inside(pair):
    system = assemble(smooth_1d(), Library({"u": ["laplacian(u)", *pair, "u"]}))
    assert groups(system) == {frozenset(pair)}


def test_a_sum_of_operators_is_named_with_its_parts():
    data = constant_in_y(noise=0.1)
    system = system_of("laplacian(u)", "dx(dx(u))", "dy(dy(u))", "u", data=data)
    assert groups(system) == {frozenset({"laplacian(u)", "dx(dx(u))", "dy(dy(u))"})}


def test_two_separate_pairs_are_two_groups():
    system = system_of("u", "laplacian(u)", "2*u", "dx(dx(u))", "u**2")
    assert groups(system) == {frozenset({"u", "2*u"}), frozenset({"laplacian(u)", "dx(dx(u))"})}


def test_three_multiples_are_two_groups_of_these_three():
    found = groups(system_of("u", "2*u", "3*u", "laplacian(u)"))
    assert set.union(*map(set, found)) == {"u", "2*u", "3*u"}


def test_the_message_states_the_combination():
    with pytest.raises(RankError, match=r"1·\[u\] \+ -0.5·\[2\*u\] ≈ 0") as caught:
        LeastSquares().fit(system_of("u", "2*u", "laplacian(u)"))
    assert "prior" in str(caught.value)


def test_an_operator_that_vanishes_on_the_data_is_named():
    """∂u/∂y of data constant in y is zero up to rounding, about 1e-17 of the other columns."""
    system = system_of("laplacian(u)", "u", "dy(u)", data=constant_in_y())
    with pytest.raises(RankError, match=r"dy\(u\)") as caught:
        LeastSquares().fit(system)
    assert caught.value.operators == (("dy(u)",),)


def test_an_operator_that_vanishes_is_named_by_the_lagged_fit_as_well():
    system = system_of("laplacian(u)", "u", "dy(u)", data=constant_in_y())
    with pytest.raises(RankError, match=r"dy\(u\)"):
        Lagged().fit(residual_likelihood(system, IID(0.01)))


def test_small_operators_that_do_not_vanish_are_kept():
    """Units may make a column 1e-12 of the others: that is no rank loss."""
    fit = LeastSquares().fit(system_of("laplacian(u)", "1e-12*u"))
    plain = LeastSquares().fit(system_of("laplacian(u)", "u"))
    assert_allclose(fit.theta, plain.theta * [1, 1e12], rtol=1e-9)


@pytest.mark.parametrize("start", [None, [0.1, -0.5, 0.2]])
def test_the_lagged_fit_names_equal_operators_too(start):
    likelihood = residual_likelihood(system_of("laplacian(u)", "u", "2*u"), IID(0.01))
    with pytest.raises(RankError) as caught:
        Lagged().fit(likelihood, start=start)
    assert {frozenset(g) for g in caught.value.operators} == {frozenset({"u", "2*u"})}


def test_more_experiments_of_the_same_kind_do_not_help_but_others_do():
    library = Library({"u": ["laplacian(u)", "dy(u)", "u"]}, boundary=NoFlux())
    LeastSquares().fit(assemble([constant_in_y(), constant_in_y(noise=0.1)], library))
    with pytest.raises(RankError, match=r"dy\(u\)"):
        LeastSquares().fit(assemble([constant_in_y(), constant_in_y()], library))


def test_with_a_prior_equal_operators_go_through():
    """μ = Σ_θ(Σ_0⁻¹μ_0 + XᵀWy), Σ_θ = (Σ_0⁻¹ + XᵀWX)⁻¹, although XᵀWX is singular."""
    system = system_of("laplacian(u)", "u", "2*u")
    (residuals,) = system.experiments
    prior = GaussianPrior({"u": (0.3, 0.5)}, default=(0.1, 2.0))
    fit = Lagged(tol=1e-12).fit(residual_likelihood(system, IID(0.05)), prior=prior)
    assert fit.status.converged
    W, (y, X) = dense_weights(residuals, fit.theta, 0.05**2), stacked(residuals)
    precision, mean = np.diag([0.5, 2.0, 0.5]), np.array([0.1, 0.3, 0.1])
    covariance = np.linalg.inv(precision + X.T @ W @ X)
    assert_allclose(fit.posterior.covariance, covariance, rtol=1e-6, atol=1e-9)
    assert_allclose(fit.theta, covariance @ (precision @ mean + X.T @ W @ y), rtol=1e-6)


def test_the_prior_stays_where_the_data_say_nothing():
    system = system_of("laplacian(u)", "u", "dy(u)", data=constant_in_y())
    prior = GaussianPrior({"dy(u)": (0.7, 0.04)})
    fit = Lagged().fit(residual_likelihood(system, IID(0.01)), prior=prior)
    assert fit.status.converged
    assert_allclose(fit.coefficient("dy(u)"), 0.7, rtol=1e-3)
    assert 0 < fit.posterior.variance[2] <= 0.04 * (1 + 1e-9)


def test_a_prior_on_another_operator_does_not_help():
    likelihood = residual_likelihood(system_of("laplacian(u)", "u", "2*u"), IID(0.01))
    with pytest.raises(RankError) as caught:
        Lagged().fit(likelihood, prior=GaussianPrior({"laplacian(u)": (0.0, 1.0)}))
    assert {frozenset(g) for g in caught.value.operators} == {frozenset({"u", "2*u"})}


@pytest.mark.parametrize("fit", [LeastSquares().fit, lambda s: Lagged().fit(residual_likelihood(s, IID(0.1)))])
def test_a_model_without_operators_is_refused(fit):
    with pytest.raises(BvsiError, match="operator"):
        fit(system_of("u", "laplacian(u)").subset([]))
