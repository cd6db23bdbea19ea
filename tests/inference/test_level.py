"""The level of the noise is known from few residuals, and error bars say so: degrees of freedom, with every prior."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.discovery.method import Method
from bvsi.errors import BvsiError
from bvsi.infer import Lagged, Maximum, Profile
from bvsi.infer.posteriors import Level, NormalInverseGammaPosterior, student_of_level
from bvsi.infer.priors import Flat, GaussianPrior, InverseGammaPrior, Normal, Prior
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise import IID, Noise, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from inference.bayes_cases import four_operators

SIGMA = 0.05
OPERATORS = ("1", "x", "x**2")
RATE = np.sqrt(2) * SIGMA
"""Standard deviation of the rate of change at one place."""
DRAWS = 400


def line(n: int, theta: np.ndarray, rng: np.random.Generator, noise: Noise) -> ResidualLikelihood:
    """u(1) − u(0) = Σ_i θ_i x^i at n places with noise: linear regression with n − d degrees of freedom."""
    x, d = np.linspace(-1, 1, n), len(theta)
    change = np.stack([x**i for i in range(d)], axis=1) @ theta
    u = np.stack([0 * x, change]) + SIGMA * rng.standard_normal((2, n))
    library = Library({"u": list(OPERATORS[:d])}, boundary=NoFlux())
    return residual_likelihood(assemble(Data(np.array([0.0, 1.0]), {"u": u}, Grid(x=x)), library), noise)


def coverage(n: int, sds: list[float | None], estimator, level: InverseGammaPrior | None) -> np.ndarray:
    """How often 95% intervals hold coefficients that are drawn from N(0, s²), or are 0.3 where the prior is flat, (d,).

    Parameters
    ----------
    level
        Law of the true variance over the measured one; None where nothing is measured.
    """
    rng, hits = np.random.default_rng(0), np.zeros(len(sds))
    laws = {name: Normal(0, sd**2) for name, sd in zip(OPERATORS, sds, strict=False) if sd is not None}
    prior = Prior(laws, default=Flat()) if laws else None
    for _ in range(DRAWS):
        theta = np.array([0.3 if sd is None else sd * rng.standard_normal() for sd in sds])
        noise = UnknownScale() if level is None else IID(SIGMA * np.sqrt(rng.gamma(level.alpha) / level.beta))
        fit = estimator.fit(line(n, theta, rng, noise), prior=prior, noise_prior=level)
        low, high = fit.posterior.interval(0.95).T
        hits += (low < theta) & (theta < high)
    return hits / DRAWS


@pytest.mark.parametrize(
    "n, sds, estimator, level",
    [
        (8, [None, None, None], Profile(), None),
        (11, [3 * RATE], Profile(), InverseGammaPrior(4.0, 3.0)),
        (7, [0.4 * RATE], Lagged(), InverseGammaPrior(2.5, 1.5)),
        (5, [0.4 * RATE], Maximum(), None),
        (8, [10 * RATE, 0.5 * RATE, None], Maximum(), None),
    ],
    ids=["flat", "measured, weak prior", "measured, strong prior", "unknown", "unknown, three"],
)
def test_intervals_cover_with_four_to_ten_degrees_of_freedom(n, sds, estimator, level):
    found = coverage(n, sds, estimator, level)
    assert np.all((found >= 0.93) & (found <= 0.97)), found


@pytest.mark.parametrize("one", [Lagged(tol=1e-10), Profile(tol=1e-8), Maximum(tol=1e-6)])
@pytest.mark.parametrize("level", [None, InverseGammaPrior(3.0, 2.0)], ids=["reference", "measured"])
def test_with_a_flat_prior_it_is_the_student_t_of_linear_regression(one, level):
    """θ̂ ± t_ν s (XᵀX)^-½ with ν = n − d + 2α_0 and s² = (Q + 2β_0)/ν."""
    theta, n = np.array([0.3, -0.2]), 8
    likelihood = line(n, theta, np.random.default_rng(3), UnknownScale())
    posterior = one.fit(likelihood, noise_prior=level).posterior
    x = np.linspace(-1, 1, n)
    X = np.stack([1 + 0 * x, x], axis=1)
    u = np.random.default_rng(3).standard_normal((2, n)) * SIGMA
    y = X @ theta + u[1] - u[0]
    best, (q,) = np.linalg.lstsq(X, y)[:2]
    a, b = (0.0, 0.0) if level is None else (level.alpha, level.beta)
    nu = n - 2 + 2 * a
    sd = np.sqrt((0.5 * q + 2 * b) / nu * 2 * np.diag(np.linalg.inv(X.T @ X)))  # Σ of the rate is 2σ²
    assert_allclose(2 * posterior.alpha, nu, rtol=1e-6)
    assert_allclose(posterior.mean, best, rtol=1e-6)
    assert_allclose(posterior.interval()[:, 1] - best, scipy.stats.t(nu).ppf(0.975) * sd, rtol=1e-3)


def moments(A: float, g: float, P: float, p: float, level: Level) -> tuple[float, float]:
    """Mean and variance of θ with p(θ, v) ∝ v^−(a+1) exp(−(b − gθ + ½Aθ²)/v + pθ − ½Pθ²), by integration over both."""
    s, theta = np.linspace(-6, 9, 3001), np.linspace(-30, 30, 4001)[:, None]  # s = log v
    log = -level.a * s - (level.b - g * theta + 0.5 * A * theta**2) * np.exp(-s) + p * theta - 0.5 * P * theta**2
    w = np.exp(log - log.max())
    total = w.sum()
    mean = float((w * theta).sum() / total)
    return mean, float((w * (theta - mean) ** 2).sum() / total)


@pytest.mark.parametrize("P, p", [(0.5, 0.0), (2.0, 3.0), (20.0, -10.0)])
def test_mean_and_covariance_are_those_of_the_joint_law(P, p):
    """One coefficient, g = 0.7: against integration over θ and σ², also where data and prior contradict each other."""
    A, g, level = 3.0, 0.7, Level(5.0, 4.0)
    root = np.array([[(A + P) ** -0.5]])
    slopes = np.array([g]), np.array([p])
    found = student_of_level(("u",), np.zeros(1), root, root * P * root, slopes, level, root * A * root)
    mean, variance = moments(A, g, P, p, level)
    assert_allclose(found.mean, mean, rtol=1e-5)
    assert_allclose(found.variance, variance, rtol=1e-4)


@pytest.mark.parametrize("P", [0.0, 0.3, 3.0, 100.0])
def test_the_interval_is_that_of_the_joint_law(P):
    """Half widths of 95%, with 8 degrees of freedom of the level, against the mixture of Gaussians itself."""
    A, level = 3.0, Level(4.5, 4.0)
    root = np.array([[(A + P) ** -0.5]])
    zero = np.zeros(1), np.zeros(1)
    found = student_of_level(("u",), np.zeros(1), root, root * P * root, zero, level, root * A * root)

    def density(v: float) -> float:
        return v ** -(level.a + 1) * (A / v + P) ** -0.5 * np.exp(-level.b / v)

    def tail(v: float) -> float:
        return density(v) * scipy.stats.norm.cdf(-found.interval()[0, 1] * np.sqrt(A / v + P))

    outside, total = (2 * one for one in (scipy.integrate.quad(f, 1e-3, 200, limit=500)[0] for f in (tail, density)))
    assert_allclose(2 * outside / total, 0.05, atol=0.004)


def test_priors_in_units_of_the_noise_keep_all_degrees_of_freedom():
    """ν = n − (d − rank Σ_0⁻¹): of θ | σ² ~ N(μ_0, σ²Σ_0) each coefficient gives one back."""
    likelihood = four_operators(UnknownScale())
    for terms in ({}, {"u": (0.0, 1e4)}, {"u": (0.0, 1e4), ("dx(u)", "u**2"): ([0, 0], [[1e3, 10], [10, 1.0]])}):
        count = sum(1 if isinstance(key, str) else len(key) for key in terms)
        for one in (Profile(), Lagged()):
            assert 2 * one.fit(likelihood, prior=GaussianPrior(terms)).posterior.alpha == likelihood.n - 4 + count
    tied = Profile().fit(likelihood, constraints="dx(u) == 2*u")
    assert 2 * tied.posterior.alpha == likelihood.n - 3


def test_a_level_that_nothing_tells_is_refused():
    likelihood = line(3, np.array([0.3, 0.2]), np.random.default_rng(0), UnknownScale())
    with pytest.raises(BvsiError, match=r"more data or a prior"):
        Maximum().fit(likelihood)


def test_discover_says_it_for_priors_by_name_and_measured_noise():
    """The same degrees of freedom for a prior that says nothing as for none; Gaussian where the noise is stated."""
    rng, x, t = np.random.default_rng(5), np.linspace(0, 1, 12), np.linspace(0, 1, 6)
    u = 1 + np.exp(-0.1 * np.pi**2 * t)[:, None] * np.cos(np.pi * x) + 0.01 * rng.standard_normal((6, 12))
    data, library = Data(t, {"u": u}, Grid(x=x)), Library({"u": ["laplacian(u)"]}, boundary=NoFlux())
    weak, found = Prior({"laplacian(u)": Normal(0.0, 1e6)}), {}
    for estimator in (Profile(), Maximum()):
        for name, prior in (("flat", None), ("weak", weak)):
            made = discover(data, library, prior=prior, method=Method(estimator=estimator), check=False)
            assert isinstance(made.posterior, NormalInverseGammaPosterior)
            found[name] = made.posterior
        assert_allclose(found["weak"].alpha, found["flat"].alpha, rtol=1e-5)
        assert_allclose(found["weak"].interval(), found["flat"].interval(), rtol=0.03)
    stated = discover(data, library, noise=IID(0.01), prior=weak, check=False)
    assert not isinstance(stated.posterior, NormalInverseGammaPosterior)
