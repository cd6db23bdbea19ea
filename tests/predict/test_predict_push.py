"""Posterior predictive: linear maps against their formula and Monte Carlo, functions against linear maps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import xarray as xr
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.predict import predict_function, predict_linear

NAMES = ("a", "b: laplacian(b)", "c")
MEAN = np.array([1.0, -2.0, 0.5])


def covariance() -> np.ndarray:
    root = np.random.default_rng(0).normal(size=(3, 3))
    return root @ root.T + 0.1 * np.eye(3)


def gaussian() -> GaussianPosterior:
    return GaussianPosterior(NAMES, MEAN, covariance())


def student(alpha: float = 3.0) -> NormalInverseGammaPosterior:
    """The same mean and covariance as the Gaussian, with heavier tails."""
    beta = 2.0
    return NormalInverseGammaPosterior(NAMES, MEAN, covariance() * (alpha - 1) / beta, alpha, beta)


def basis(order: tuple[str, ...] = NAMES) -> xr.DataArray:
    """Φ over (x, operator, y), operators in any order, and one more than needed."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(4, 4, 5))
    full = xr.DataArray(
        values,
        dims=("x", "operator", "y"),
        coords={"operator": [*NAMES, "unused"], "x": np.arange(4.0), "y": np.arange(5.0)},
    )
    return full.sel(operator=[*order, "unused"])


def flat(Phi: xr.DataArray) -> np.ndarray:
    return Phi.sel(operator=list(NAMES)).transpose("x", "y", "operator").values.reshape(-1, 3)


def test_mean_and_variance_are_the_dense_formula():
    """Φμ and diag(ΦΣΦᵀ), eq:posterior_predictive_gaussian."""
    found = predict_linear(gaussian(), basis())
    Phi = flat(basis())
    assert_allclose(found["mean"].transpose("x", "y").values.ravel(), Phi @ MEAN, rtol=1e-12)
    assert_allclose(
        found["variance"].transpose("x", "y").values.ravel(), np.diag(Phi @ covariance() @ Phi.T), rtol=1e-10
    )


@pytest.mark.parametrize("posterior", [gaussian(), student(), student(1.5)], ids=["gaussian", "t", "heavy t"])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_bands_are_those_of_the_exact_law(posterior, level):
    found = predict_linear(posterior, basis(), level=level)
    Phi = flat(basis())
    sd = np.sqrt(np.diag(Phi @ covariance() @ Phi.T))
    if isinstance(posterior, NormalInverseGammaPosterior):
        alpha = posterior.alpha
        law = scipy.stats.t(2 * alpha, loc=Phi @ MEAN, scale=sd * np.sqrt((alpha - 1) / alpha))
    else:
        law = scipy.stats.norm(Phi @ MEAN, sd)
    low, high = law.interval(level)
    assert_allclose(found["lower"].transpose("x", "y").values.ravel(), low, rtol=1e-9)
    assert_allclose(found["upper"].transpose("x", "y").values.ravel(), high, rtol=1e-9)
    assert found.attrs["level"] == level


@pytest.mark.parametrize("posterior", [gaussian(), student(4.0)], ids=["gaussian", "t"])
def test_the_push_forward_is_that_of_draws(posterior):
    n = 40_000
    draws = posterior.sample(n, np.random.default_rng(2)) @ flat(basis()).T
    found = predict_linear(posterior, basis())
    mean, variance, low, high = (
        found[key].transpose("x", "y").values.ravel() for key in ("mean", "variance", "lower", "upper")
    )
    assert np.abs((draws.mean(axis=0) - mean) / np.sqrt(variance / n)).max() < 4.5
    assert_allclose(draws.var(axis=0), variance, rtol=0.1)
    inside = np.mean((draws > low) & (draws < high), axis=0)
    assert_allclose(inside, 0.95, atol=4.5 * np.sqrt(0.95 * 0.05 / n))


def test_student_bands_are_wider_far_out():
    """With the same variance: wider at 99.9%, as the tails are heavier."""
    narrow, wide = (predict_linear(p, basis(), level=0.999) for p in (gaussian(), student()))
    assert_allclose(wide["variance"], narrow["variance"], rtol=1e-12)
    assert bool((wide["upper"] > narrow["upper"]).all())
    assert bool((wide["lower"] < narrow["lower"]).all())


def test_many_degrees_of_freedom_are_gaussian():
    a, b = (predict_linear(p, basis()) for p in (gaussian(), student(1e7)))
    assert_allclose(a["upper"], b["upper"], rtol=1e-5)


def test_operators_are_matched_by_name_not_by_place():
    turned = predict_linear(gaussian(), basis(("c", "a", "b: laplacian(b)")))
    xr.testing.assert_allclose(turned, predict_linear(gaussian(), basis()))


def test_coordinates_are_kept():
    found = predict_linear(gaussian(), basis())
    assert_allclose(found["x"], np.arange(4.0))
    assert set(found["mean"].dims) == {"x", "y"}
    assert "operator" not in found.coords


def test_a_single_number_can_be_predicted():
    Phi = xr.DataArray([1.0, 1.0, 0.0], dims="operator", coords={"operator": list(NAMES)})
    found = predict_linear(gaussian(), Phi)
    assert found["mean"].shape == ()
    assert_allclose(found["mean"], -1.0)
    assert_allclose(found["variance"], covariance()[:2, :2].sum())


@pytest.mark.parametrize(
    "Phi",
    [
        xr.DataArray(np.ones(3), dims="operator"),
        xr.DataArray(np.ones(3), dims="x", coords={"x": np.arange(3)}),
        xr.DataArray(np.ones((2, 3)), dims=("x", "term"), coords={"term": list(NAMES)}),
    ],
    ids=["no names", "no dimension", "another dimension"],
)
def test_a_map_without_named_operators_is_refused(Phi):
    with pytest.raises(BvsiError, match="operator"):
        predict_linear(gaussian(), Phi)


def test_a_missing_operator_is_named():
    with pytest.raises(BvsiError, match="'c'"):
        predict_linear(gaussian(), basis().sel(operator=["a", "b: laplacian(b)"]))


def test_an_operator_that_stands_twice_is_refused():
    twice = xr.concat([basis(), basis().sel(operator=["a"])], dim="operator")
    with pytest.raises(BvsiError, match="'a'"):
        predict_linear(gaussian(), twice)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, np.nan])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(BvsiError, match="level"):
        predict_linear(gaussian(), basis(), level=level)
    with pytest.raises(BvsiError, match="level"):
        predict_function(gaussian(), linear, size=10, rng=np.random.default_rng(0), level=level)


COLUMNS = flat(basis())


def linear(theta: dict[str, float]) -> xr.DataArray:
    values = COLUMNS @ [theta[name] for name in NAMES]
    return xr.DataArray(values.reshape(4, 5), dims=("x", "y"), coords={"x": np.arange(4.0), "y": np.arange(5.0)})


@pytest.mark.parametrize("posterior", [gaussian(), student(4.0)], ids=["gaussian", "t"])
def test_a_linear_function_agrees_with_the_linear_push_forward(posterior):
    n = 1000
    found = predict_function(posterior, linear, size=n, rng=np.random.default_rng(3))
    exact = predict_linear(posterior, basis())
    sd = np.sqrt(exact["variance"])
    assert float(np.abs((found["mean"] - exact["mean"]) / sd).max()) < 4.5 / np.sqrt(n)
    assert_allclose(found["variance"] / exact["variance"].transpose(*found["variance"].dims), 1, atol=0.4)
    for edge in ("lower", "upper"):
        assert float(np.abs((found[edge] - exact[edge]) / sd).max()) < 0.35


def test_a_function_of_one_draw_is_its_value_there():
    posterior = gaussian()
    draws = posterior.sample(50, np.random.default_rng(9))
    found = predict_function(
        posterior, lambda t: xr.DataArray(t["a"] ** 2 * t["c"]), size=50, rng=np.random.default_rng(9)
    )
    values = draws[:, 0] ** 2 * draws[:, 2]
    assert_allclose(found["samples"], values)
    assert_allclose(found["mean"], values.mean())
    assert_allclose(found["variance"], values.var(ddof=1))
    assert_allclose([found["lower"], found["upper"]], np.quantile(values, [0.025, 0.975]))


def test_draws_are_reproducible():
    a, b, c = (predict_function(gaussian(), linear, size=20, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    xr.testing.assert_identical(a, b)
    assert not a.equals(c)


@pytest.mark.parametrize("size", [1, 0, -5])
def test_too_few_draws_are_refused(size):
    with pytest.raises(BvsiError, match="size"):
        predict_function(gaussian(), linear, size=size, rng=np.random.default_rng(0))
