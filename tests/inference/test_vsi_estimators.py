"""Least squares, ridge and lasso against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError, RankError
from bvsi.infer import Lasso, LeastSquares, Ridge
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from inference.cases import reaction_diffusion, reaction_system, smooth_1d, stacked

LIBRARY = Library({"u": ["laplacian(u)", "u*dx(u)", "u", "u**2", "dx(u)"]}, boundary=NoFlux())


@pytest.fixture(scope="module")
def system():
    return assemble(smooth_1d(21, np.linspace(0, 1, 12)), LIBRARY)


@pytest.fixture(scope="module")
def columns(system):
    return stacked(system.experiments[0])


def objective(y, X, theta, alpha):
    """½‖y − Xθ‖² + alpha ‖y‖ Σ ‖X_i‖ |θ_i|."""
    penalty = alpha * np.linalg.norm(y) * np.linalg.norm(X, axis=0) @ np.abs(theta)
    return 0.5 * np.sum((y - X @ theta) ** 2) + penalty


def test_least_squares_is_that_of_numpy(system, columns):
    y, X = columns
    fit = LeastSquares().fit(system)
    assert_allclose(fit.theta, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-10)
    assert fit.names == system.names
    assert fit.posterior is None
    assert fit.status.converged
    assert_allclose(fit.chi2, np.mean((y - X @ fit.theta) ** 2), rtol=1e-10)
    assert_allclose(np.mean(fit.chi2_blocks[0]), fit.chi2, rtol=1e-12)


def test_least_squares_over_several_experiments():
    system = assemble([smooth_1d(9, seed=0), smooth_1d(13, np.linspace(0, 1, 4), seed=1)], LIBRARY)
    parts = [stacked(e) for e in system.experiments]
    y, X = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    fit = LeastSquares().fit(system)
    assert_allclose(fit.theta, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-8)
    assert [len(b) for b in fit.chi2_blocks] == [5, 3]


def test_least_squares_keeps_digits_of_nearly_equal_columns():
    """Condition 1e5 of X is 1e10 of XᵀX; the refinement wins the digits back."""
    data, _ = reaction_diffusion(sigma=0.0)
    library = Library({"u": ["u", "u + 0.00003*x*u", "laplacian(u)"]}, boundary=NoFlux())
    system = assemble(data, library)
    _, X = stacked(system.experiments[0])
    condition = np.linalg.cond(X / np.linalg.norm(X, axis=0))
    assert condition > 3e4
    assert_allclose(LeastSquares().fit(system).theta, [-0.8, 0, 0.1], atol=100 * condition * np.finfo(float).eps)


def test_least_squares_recovers_the_truth_from_clean_data():
    fit = LeastSquares().fit(reaction_system(sigma=0.0))
    assert_allclose(fit.theta, [0.1, -0.8], rtol=1e-9)
    assert fit.coefficient("laplacian(u)") == fit.theta[0]


def test_an_unknown_coefficient_name_is_refused():
    fit = LeastSquares().fit(reaction_system())
    with pytest.raises(BvsiError, match="laplacian"):
        fit.coefficient("laplacian(v)")


def test_coefficient_names_are_found_whatever_the_spaces():
    fit = LeastSquares().fit(reaction_system())
    assert fit.coefficient("laplacian( u )") == fit.theta[0]


def test_the_text_of_a_fit_names_all_operators(system):
    text = str(LeastSquares().fit(system))
    assert all(name in text for name in system.names)
    assert "Lagged()" in text


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.3, 10.0])
def test_ridge_is_its_definition(system, columns, alpha):
    """The minimum of ‖y − Xθ‖² + alpha Σ (‖X_i‖ θ_i)² is least squares on stacked columns."""
    y, X = columns
    size = np.linalg.norm(X, axis=0)
    tall = np.concatenate([X, np.sqrt(alpha) * np.diag(size)])
    expected = np.linalg.lstsq(tall / size, np.concatenate([y, np.zeros(5)]), rcond=None)[0] / size
    assert_allclose(Ridge(alpha).fit(system).theta, expected, rtol=1e-7)


def test_ridge_shrinks_a_single_coefficient_by_one_over_one_plus_alpha(system):
    single = system.subset(["u"])
    assert_allclose(Ridge(0.25).fit(single).theta, LeastSquares().fit(single).theta / 1.25, rtol=1e-12)


def test_ridge_without_penalty_is_least_squares(system):
    assert_allclose(Ridge(0.0).fit(system).theta, LeastSquares().fit(system).theta, rtol=1e-6)


def test_ridge_splits_equal_operators_evenly():
    system = assemble(smooth_1d(), Library({"u": ["u", "2*u"]}, boundary=NoFlux()))
    theta = Ridge(1e-3).fit(system).theta
    assert_allclose(theta[0], 2 * theta[1], rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.2])
def test_lasso_satisfies_the_kkt_conditions(system, columns, alpha):
    """X_iᵀr = alpha ‖y‖ ‖X_i‖ sign θ_i where θ_i ≠ 0, and no larger elsewhere."""
    y, X = columns
    fit = Lasso(alpha, tol=1e-13).fit(system)
    pull = X.T @ (y - X @ fit.theta) / (np.linalg.norm(y) * np.linalg.norm(X, axis=0))
    active = fit.theta != 0
    assert fit.status.converged
    assert_allclose(pull[active], alpha * np.sign(fit.theta[active]), rtol=1e-7)
    assert np.all(np.abs(pull[~active]) <= alpha * (1 + 1e-9))


@pytest.mark.parametrize("alpha", [0.005, 0.1])
def test_no_change_improves_the_lasso(system, columns, alpha):
    y, X = columns
    theta = Lasso(alpha).fit(system).theta
    best = objective(y, X, theta, alpha)
    rng = np.random.default_rng(0)
    for size in (1e-6, 1e-3, 0.1):
        for _ in range(50):
            step = size * rng.standard_normal(5) * np.linalg.norm(y) / np.linalg.norm(X, axis=0)
            assert objective(y, X, theta + step, alpha) >= best * (1 - 1e-12)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_lasso_with_alpha_one_gives_zeros(system, alpha):
    fit = Lasso(alpha).fit(system)
    assert np.all(fit.theta == 0)
    assert fit.status.converged


def test_lasso_with_vanishing_alpha_is_least_squares(system):
    expected = LeastSquares().fit(system).theta
    errors = [
        np.abs(Lasso(a, tol=1e-14, max_sweeps=200_000).fit(system).theta / expected - 1).max() for a in (1e-4, 1e-6)
    ]
    assert errors[1] < 1e-3
    assert errors[1] < 0.1 * errors[0]


def test_lasso_picks_the_true_operators_from_clean_data():
    data, _ = reaction_diffusion(sigma=0.0)
    library = Library({"u": ["laplacian(u)", "u", "dx(u)", "u**2"]}, boundary=NoFlux())
    y, X = stacked(assemble(data, library).experiments[0])
    theta = Lasso(1e-4, max_sweeps=100_000).fit(assemble(data, library)).theta
    size = np.abs(theta) * np.linalg.norm(X, axis=0) / np.linalg.norm(y)
    assert size[:2].min() > 10 * size[2:].max()


def test_lasso_out_of_sweeps_says_so(system):
    fit = Lasso(1e-6, max_sweeps=3).fit(system)
    assert not fit.status.converged
    assert fit.status.iterations == 3
    assert "max_sweeps" in fit.status.message


def test_lasso_goes_through_with_equal_operators():
    system = assemble(smooth_1d(), Library({"u": ["u", "2*u"]}, boundary=NoFlux()))
    fit = Lasso(0.1).fit(system)
    single = Lasso(0.1).fit(system.subset(["u"])).theta[0]
    assert_allclose(fit.theta @ [1, 2], single, rtol=1e-9)


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("method", [Ridge, Lasso])
def test_bad_penalties_are_refused(method, alpha):
    with pytest.raises(BvsiError, match="alpha"):
        method(alpha)


@pytest.mark.parametrize("choice", [{"max_sweeps": 0}, {"tol": -1.0}, {"tol": np.nan}])
def test_bad_settings_of_lasso_are_refused(system, choice):
    with pytest.raises(BvsiError, match=next(iter(choice))):
        Lasso(0.1, **choice).fit(system)


@pytest.mark.parametrize("method", [LeastSquares(), Ridge(0.1), Lasso(0.1)], ids=lambda m: type(m).__name__)
def test_an_operator_that_is_exactly_zero_is_named(method):
    data = smooth_1d()
    one = data.with_fields({"u": np.ones_like(data.fields["u"])})
    system = assemble(one, Library({"u": ["u", "u - u**2"]}, boundary=NoFlux()))
    with pytest.raises(RankError, match=r"'u - u\*\*2'") as caught:
        method.fit(system)
    assert caught.value.operators == (("u - u**2",),)


@pytest.mark.parametrize("method", [LeastSquares(), Ridge(0.1), Lasso(0.1)], ids=lambda m: type(m).__name__)
def test_data_at_rest_give_zero(method):
    """y = 0: no division by ‖y‖."""
    data = smooth_1d()
    rest = data.with_fields({"u": np.repeat(data.fields["u"][:1], 6, axis=0)})
    system = assemble(rest, Library({"u": ["u", "dx(u)"]}, boundary=NoFlux()))
    assert_allclose(method.fit(system).theta, 0, atol=1e-12)
