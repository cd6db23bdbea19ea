"""Groups of ArviZ that need the data: the linear model is that of the fit, and loo, compare and plot_ppc take it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.app.predictive import likelihood_of, linear_model, predictive_groups
from bvsi.data import Data, Grid
from bvsi.discovery import Discovery, discover
from bvsi.errors import BvsiError
from bvsi.infer.priors import Normal, Prior
from bvsi.likelihood import Block, Stacked
from bvsi.noise import IID, add_noise
from bvsi.operators import Library
from posteriors.posterior_cases import installed_arviz

LIBRARY = Library({"u": ["dx(dx(u))", "dx(u)", "u"]})
NOISE = IID(0.02)


def advected() -> Data:
    """u_t = 0.3 u_xx − u_x."""
    x, t = np.arange(32) * 2 * np.pi / 32, np.linspace(0, 1, 25)[:, None]
    u = sum(np.exp(-0.3 * k**2 * t) * np.sin(k * (x - t)) / k for k in (1, 2, 3))
    clean = Data.from_arrays({"u": u}, times=t.ravel(), geometry=Grid(x=x, periodic="x"))
    return add_noise(clean, 0.02, np.random.default_rng(3))


DATA = advected()


@pytest.fixture(scope="module")
def found() -> Discovery:
    return discover(DATA, LIBRARY, noise=NOISE, check=False)


def dense(likelihood, part, theta) -> tuple[np.ndarray, np.ndarray]:
    """Σ (n, n) by products with unit vectors, and the residuals (n,)."""
    from bvsi.likelihood.products import SpaceTime

    r = part.residuals.residual(theta)
    unit = np.eye(r.size).reshape(*r.shape, r.size)
    return SpaceTime(part, theta).covariance(unit).reshape(r.size, r.size), r.ravel()


def test_zeta_is_a_residual_given_all_others(found):
    """log p(r_i | r_−i) = log p(r) − log p(r_−i), for Gaussian r with covariance Σ."""
    from scipy.stats import multivariate_normal

    likelihood, _ = likelihood_of(found, DATA, LIBRARY, NOISE, np.random.default_rng(0))
    assert isinstance(likelihood.weighting, Stacked)
    (part,) = likelihood.parts
    model = linear_model(likelihood, part, found.theta)
    Sigma, r = dense(likelihood, part, found.theta)
    whole = multivariate_normal(np.zeros(len(r)), Sigma, allow_singular=True).logpdf(r)
    for i in (0, 7, len(r) - 1):
        others = np.delete(np.arange(len(r)), i)
        rest = multivariate_normal(np.zeros(len(r) - 1), Sigma[np.ix_(others, others)], allow_singular=True)
        W_ii = np.linalg.inv(Sigma)[i, i]
        expected = whole - rest.logpdf(r[others]) - 0.5 * np.log(W_ii)
        assert_allclose(-0.5 * model.zeta[i] ** 2 - 0.5 * np.log(2 * np.pi), expected, rtol=1e-5, atol=1e-5)


def test_the_linear_model_has_the_equations_of_the_profile_estimator(found):
    likelihood, _ = likelihood_of(found, DATA, LIBRARY, NOISE, np.random.default_rng(0))
    (part,) = likelihood.parts
    model = linear_model(likelihood, part, found.theta)
    Sigma, _ = dense(likelihood, part, found.theta)
    equations = likelihood.profile_equations(found.theta).equations
    W = np.linalg.inv(Sigma)
    assert_allclose(model.slope.T @ W @ model.slope, equations.H, rtol=1e-6)
    residual = model.y - model.slope @ found.theta
    assert_allclose(residual @ W @ residual, equations.q, rtol=1e-6)


def test_groups(found):
    groups = predictive_groups(found, DATA, LIBRARY, noise=NOISE, size=400, prior=Prior({"u": Normal(0, 1)}))
    n = groups["observed_data"].sizes["residual"]
    assert groups["log_likelihood"]["left"].shape == groups["posterior_predictive"]["left"].shape == (4, 100, n)
    assert groups["prior"]["theta"].shape == groups["posterior"]["theta"].shape
    observed, drawn = groups["observed_data"]["left"].values, groups["posterior_predictive"]["left"].values
    z = (observed - drawn.mean(axis=(0, 1))) / drawn.std(axis=(0, 1))
    assert 0.7 < np.std(z) < 1.3
    # ζ at the data is standard normal: E log p = −½ − ½ log 2π
    assert_allclose(groups["log_likelihood"]["left"].mean(), -0.5 - 0.5 * np.log(2 * np.pi), atol=0.15)


def test_block_weights_have_groups_too():
    from bvsi.discovery import Method
    from bvsi.residual import CrankNicolson
    from bvsi.spaces import Q2, Galerkin

    method = Method(tests=Galerkin(Q2), stencil=CrankNicolson(), weighting=Block())
    found = discover(DATA, LIBRARY, noise=NOISE, method=method, check=False)
    groups = predictive_groups(found, DATA, LIBRARY, noise=NOISE, size=40)
    assert np.isfinite(groups["log_likelihood"]["left"]).all()


def test_what_does_not_fit_is_refused(found):
    with pytest.raises(BvsiError, match="no operator"):
        predictive_groups(found, DATA, Library({"u": ["u**2"]}), noise=NOISE)


@pytest.mark.filterwarnings("ignore")  # of ArviZ and of Pareto shapes
def test_arviz_takes_them(found):
    az = installed_arviz()
    from dataclasses import replace

    keep = Library(LIBRARY.equations, keep=["dx(u)"])
    short = Library({"u": ["dx(u)"]}, keep=["dx(u)"])
    other = discover(DATA, short, noise=NOISE, method=replace(found.method, selection=None), check=False)
    groups = {"right": found.to_arviz(DATA, keep, noise=NOISE, size=400)}
    groups["without diffusion"] = other.to_arviz(DATA, short, noise=NOISE, size=400)
    assert az.loo(groups["right"]).n_data_points == groups["right"]["observed_data"]["left"].size
    assert next(iter(az.compare(groups).index)) == "right"
    if az.__version__.startswith("0."):
        import matplotlib as mpl

        mpl.use("Agg")
        az.plot_ppc(groups["right"], num_pp_samples=20)
