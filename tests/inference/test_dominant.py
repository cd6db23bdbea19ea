"""The start with the weights of one operator per equation: where least squares is caught by noise, it is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.forward import simulate
from bvsi.infer import LeastSquares, Profile
from bvsi.infer.constraints import as_linear
from bvsi.infer.priors import GaussianPrior
from bvsi.infer.starts import balance, dominant, on_plateau
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, PerField, UnknownScale, add_noise
from bvsi.operators import InteriorPenalty, Library, Mixed, ZeroNeumann
from bvsi.residual import assemble
from bvsi.spaces import H3, P2, Q1, Q2, Galerkin

SIGMA = 1e-2
TRUTH = -1e-4
LINE = Grid(x=np.linspace(0, 1, 33))
SQUARE = Grid(x=np.linspace(0, 1, 9), y=np.linspace(0, 1, 9))
RING = Grid(x=np.arange(32) / 32, periodic="x")
CASES = {
    "Q2, mixed": (LINE, Q2, Mixed()),
    "Q2, interior penalty": (LINE, Q2, InteriorPenalty()),
    "Q1, mixed": (LINE, Q1, Mixed()),
    "periodic H3": (RING, H3, None),
    "P2 triangles, interior penalty": (SQUARE, P2, InteriorPenalty()),
}
CANDIDATES = ("biharmonic(u)", "laplacian(u)", "u")


def clean(geometry, element, treatment, steps=20):
    """u_t = −ε ∇⁴u from a few cosines, with the discretisation of the identification."""
    rng = np.random.default_rng(5)
    q = (2 if geometry.periods else 1) * np.pi
    waves = [rng.normal() / np.sqrt(k) * np.cos(k * q * geometry.points).prod(axis=1) for k in range(1, 7)]
    start = 1 + np.sum(waves, axis=0)
    times = np.linspace(0, 1, steps + 1)
    initial = Data(times[:2], {"u": np.stack([start, start])}, geometry)
    return simulate(library(treatment, CANDIDATES[:1]), [TRUTH], initial, times, discretisation=Galerkin(element))


def library(treatment, operators=CANDIDATES):
    return Library({"u": list(operators)}, boundary=ZeroNeumann(), biharmonic=treatment)


def likelihood_of(name, operators=CANDIDATES, noise=None, seed=0):
    geometry, element, treatment = CASES[name]
    data = add_noise(clean(geometry, element, treatment), SIGMA, np.random.default_rng(seed))
    system = assemble(data, library(treatment, operators), discretisation=Galerkin(element))
    return residual_likelihood(system, noise or IID(SIGMA))


def estimate(likelihood, **options):
    return dominant(likelihood, GaussianPrior({}).bind(likelihood.names), **options)


@pytest.mark.parametrize("name", CASES)
def test_on_a_plateau_it_finds_the_truth(name):
    """Noise takes least squares to nearly zero; one weighted step, and from there the profile estimate, do not."""
    likelihood = likelihood_of(name)
    assert abs(LeastSquares().fit(likelihood.system).theta[0]) < 0.5 * abs(TRUTH)
    assert estimate(likelihood)[0] == pytest.approx(TRUTH, rel=0.5)
    fit = Profile().fit(likelihood)
    z = (fit.theta - [TRUTH, 0, 0]) / np.sqrt(fit.posterior.variance)
    assert fit.status.converged
    assert abs(fit.chi2 - 1) < 5 * np.sqrt(2 / likelihood.system.n)
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("name", ["Q2, mixed", "Q2, interior penalty"])
@pytest.mark.parametrize("operators", [CANDIDATES, CANDIDATES[:1]], ids=["three operators", "one"])
def test_from_least_squares_the_plateau_is_not_left_and_the_misfit_is_told(name, operators):
    likelihood = likelihood_of(name, operators)
    caught = Profile().fit(likelihood, start=LeastSquares().fit(likelihood.system).theta)
    free = Profile().fit(likelihood)
    assert abs(caught.theta[0]) < 0.2 * abs(TRUTH)
    assert caught.chi2 > 2 * free.chi2
    assert "far from one" in caught.status.message
    assert not caught.status.converged
    assert "plateau" in caught.status.message
    assert "leave the start out" in caught.status.message
    assert free.theta[0] == pytest.approx(TRUTH, rel=0.1)
    assert "far from one" not in free.status.message


def test_with_unknown_noise_the_truth_is_found_as_well():
    fit = Profile().fit(likelihood_of("Q2, mixed", noise=UnknownScale()))
    assert fit.posterior.noise_variance == pytest.approx(SIGMA**2, rel=0.3)
    assert abs(fit.theta[0] - TRUTH) < 4 * np.sqrt(fit.posterior.variance[0])


def test_two_fields_with_noise_of_their_own():
    """∇⁴ is the noisiest operator of each equation and rules it."""
    (geometry, element, treatment), times = CASES["Q2, mixed"], np.linspace(0, 1, 21)
    x = geometry.points[:, 0]
    start = {"u": 1 + np.cos(3 * np.pi * x), "v": np.cos(np.pi * x) - 0.7 * np.cos(4 * np.pi * x)}
    equations = {"u": ["biharmonic(u)", "laplacian(v)"], "v": ["u", "biharmonic(v)"]}
    coupled = Library(equations, boundary=ZeroNeumann(), biharmonic=treatment)
    truth = np.array([-1e-4, 1e-3, 0.1, -5e-5])
    initial = Data(times[:2], {f: np.stack([s, s]) for f, s in start.items()}, geometry)
    solved = simulate(coupled, truth, initial, times, discretisation=Galerkin(element))
    sigma, rng = {"u": 1e-2, "v": 3e-3}, np.random.default_rng(1)
    noisy = {f: values + sigma[f] * rng.standard_normal(values.shape) for f, values in solved.fields.items()}
    system = assemble(replace(solved, fields=noisy), coupled, discretisation=Galerkin(element))
    likelihood = residual_likelihood(system, PerField(sigma))
    assert np.flatnonzero(balance(likelihood)).tolist() == [0, 3]
    fit = Profile().fit(likelihood)
    assert np.abs((fit.theta - truth) / np.sqrt(fit.posterior.variance)).max() < 4
    assert abs(fit.chi2 - 1) < 5 * np.sqrt(2 / system.n)


def test_the_balance_makes_both_noises_equal():
    """θ*² n_X = n_y for the operator with the most derivatives, all others zero."""
    likelihood = likelihood_of("Q2, mixed")
    noise = likelihood.noise_share(np.random.default_rng(0))
    theta = balance(likelihood)
    assert np.flatnonzero(theta).tolist() == [0]
    assert_allclose(theta[0] ** 2 * noise.X[0, 0], noise.y[0])


def test_how_strong_matters_little():
    likelihood = likelihood_of("Q2, mixed", CANDIDATES[:1])
    for factor in (1e2, 1e3, 1e4, 1e5, 1e6):
        assert estimate(likelihood, factor=factor)[0] == pytest.approx(TRUTH, rel=0.2)


def test_a_strength_at_which_nothing_but_noise_is_left_is_no_obstacle(monkeypatch):
    """The covariance is singular there; the fit then begins elsewhere, and ends at the same estimate every time."""
    for seed in range(6):
        likelihood = likelihood_of("Q2, mixed", CANDIDATES[:1], seed=seed)
        usual = Profile().fit(likelihood)
        with monkeypatch.context() as patched:
            patched.setattr("bvsi.infer.profile.KAPPA", 1e12)
            fit = Profile().fit(likelihood)
        assert not fit.status.reasons
        assert fit.chi2 == pytest.approx(usual.chi2, rel=1e-6)


@pytest.mark.parametrize(("length", "time", "unit"), [(100.0, 1.0, 1.0), (1.0, 1e-3, 1.0), (0.3, 50.0, 1e4)])
def test_units_do_not_matter(length, time, unit):
    """x → L x, t → T t, u → U u: θ of ∇⁴u, ∇²u, u, u² in the new units."""
    geometry, element, treatment = CASES["Q2, mixed"]
    data = add_noise(clean(geometry, element, treatment), SIGMA, np.random.default_rng(0))
    operators = library(treatment, (*CANDIDATES, "u**2"))

    def estimated(L, T, U):
        scaled = Data(T * data.times, {"u": U * data.fields["u"]}, Grid(x=L * geometry.axes["x"]))
        system = assemble(scaled, operators, discretisation=Galerkin(element))
        return estimate(residual_likelihood(system, IID(U * SIGMA)))

    factors = np.array([length**4, length**2, 1.0, 1 / unit]) / time
    assert_allclose(estimated(length, time, unit), factors * estimated(1.0, 1.0, 1.0), rtol=1e-6)


def test_the_order_of_operators_does_not_matter():
    order = [2, 0, 1]
    one = estimate(likelihood_of("Q2, mixed"))
    other = estimate(likelihood_of("Q2, mixed", [CANDIDATES[i] for i in order]))
    assert_allclose(other, one[order], rtol=1e-8)


def test_a_prior_counts():
    likelihood = likelihood_of("Q2, mixed")
    tight = GaussianPrior({"u": (0.5, 1e-16)}, default=(0.0, 1e6)).bind(likelihood.names)
    assert dominant(likelihood, tight)[2] == pytest.approx(0.5, rel=1e-4)


def test_known_sources_only_are_plain_least_squares():
    """No operator has noise, so that no weights rule."""
    data = clean(*CASES["Q2, mixed"])
    system = assemble(data, Library({"u": ["x", "1"]}, boundary=ZeroNeumann()), discretisation=Galerkin(Q2))
    likelihood = residual_likelihood(system, IID(SIGMA))
    assert not balance(likelihood).any()
    equations = likelihood.normal_equations([0.0, 0.0])
    assert_allclose(estimate(likelihood), np.linalg.solve(equations.H, equations.g), rtol=1e-6)


def test_a_plateau_is_told_from_misfit_and_from_noise():
    likelihood = likelihood_of("Q2, mixed")
    prior, n = GaussianPrior({}).bind(likelihood.names), likelihood.system.n
    none = as_linear(None, likelihood.names)
    theta = estimate(likelihood)
    reached = likelihood.normal_equations(theta).q
    assert on_plateau(likelihood, prior, theta, 2 * reached, none)
    assert not on_plateau(likelihood, prior, theta, reached, none)
    assert not on_plateau(likelihood, prior, theta, n * (1 + 4 * np.sqrt(2 / n)), none)
    wrong = likelihood_of("Q2, mixed", noise=IID(SIGMA / 10))  # all estimates fit badly
    fit = Profile().fit(wrong)
    assert fit.chi2 > 10
    assert not on_plateau(wrong, prior, fit.theta, fit.equations.q, none)
    assert not on_plateau(likelihood_of("Q2, mixed", noise=UnknownScale()), prior, theta, 1e9, none)


def test_a_good_start_is_no_plateau():
    likelihood = likelihood_of("Q2, mixed")
    fit = Profile().fit(likelihood, start=[TRUTH, 0, 0])
    assert fit.status.converged
    assert "plateau" not in fit.status.message


@pytest.mark.parametrize("seed", [2, 5])
def test_two_minima_that_fit_equally_well_are_told(seed):
    """Noise of a tenth of the field: ∇⁴ at nearly zero fits as well as the truth."""
    geometry, element, treatment = CASES["Q2, mixed"]
    data = add_noise(clean(geometry, element, treatment), 0.1, np.random.default_rng(seed))
    system = assemble(data, library(treatment), discretisation=Galerkin(element))
    fit = Profile().fit(residual_likelihood(system, IID(0.1)))
    assert abs(fit.theta[0] - TRUTH) > 10 * np.sqrt(fit.posterior.variance[0])
    assert not fit.status.converged
    assert "two estimates fit the data about equally well" in fit.status.message
    assert "fewer operators, less noise, or a prior" in fit.status.message
