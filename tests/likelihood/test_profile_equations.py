"""The profile equations against finite differences, dense algebra and Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError, OperatorError
from bvsi.likelihood import Block, Isotropic, residual_likelihood
from bvsi.noise import IID, PerTime, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, Residuals, assemble, discretise_library
from inference.cases import (
    UNEQUAL,
    dense_jacobian,
    dense_sensitivities,
    reaction_diffusion,
    reaction_system,
    smooth_1d,
)
from likelihood.test_residual_covariance import SETTINGS, STENCILS, Setting

SEEDS = 200


@pytest.fixture(params=STENCILS, ids=lambda s: type(s).__name__)
def stencil(request):
    return request.param


def pairs(everywhere: tuple[str, ...] = ("iid", "nonlinear")) -> list:
    """Every setting with one stencil, taken in turn; those that matter most with all."""
    return [
        pytest.param(name, stencil, id=f"{name}-{type(stencil).__name__}")
        for i, name in enumerate(SETTINGS)
        for m, stencil in enumerate(STENCILS)
        if name in everywhere or m == i % 3
    ]


@cache
def likelihood_of(name: str, stencil):
    setting = SETTINGS[name]
    system = assemble(setting.data, setting.library, discretisation=setting.discretisation, stencil=stencil)
    return residual_likelihood(system, setting.noise)


def state_covariances(setting: Setting) -> np.ndarray:
    """Σ_u by time at the unknowns, (T, n_u, n_u)."""
    space = discretise_library(setting.data, setting.library, setting.discretisation)[1]
    P = np.eye(setting.data.n_nodes) if space.transfer is None else space.transfer.toarray()
    P = np.kron(np.eye(len(setting.data.names)), P)
    return np.stack([P @ S @ P.T for S in setting.covariances])


@dataclass(frozen=True)
class Dense:
    """The profile equations of one experiment, written out.

    C: (K, T, N, n_u); W: (K, N, N); B: b_kj J_i(û_j), (K, T, d, N, n_u); G: ε ↦ ε − ε̂ of block k, (K, T, n_u, T, n_u);
    r: (K, N); X: smoothed regressors (K, N, d); covariance: Cov(r_k, r_l) = (K, K, N, N); state: Σ_u.
    """

    C: np.ndarray
    W: np.ndarray
    B: np.ndarray
    G: np.ndarray
    r: np.ndarray
    X: np.ndarray
    covariance: np.ndarray
    state: np.ndarray

    @staticmethod
    def of(residuals: Residuals, theta: np.ndarray, state: np.ndarray, smoothing: float = 1.0) -> Dense:
        s = residuals.structure
        K, T, n_u, d = s.n_blocks, s.n_times, s.n_state, residuals.d
        C = dense_sensitivities(residuals, theta)
        covariance = np.einsum("kjnu,juv,ljmv->klnm", C, state, C, optimize=True)
        W = np.stack([np.linalg.inv(covariance[k, k]) for k in range(K)])
        J = np.stack([[dense_jacobian(residuals, i, j) for i in range(d)] for j in range(T)])
        B = s.b.toarray()[:, :, None, None, None] * J
        r = residuals.residual(theta).T
        hat = np.einsum("juv,kjnv->kjun", state, C)  # Σ_u Cᵀ
        epsilon = np.einsum("kjun,knm,km->kju", hat, W, r, optimize=True)
        X = residuals.X.transpose(1, 0, 2) - smoothing * np.einsum("kjinu,kju->kni", B, epsilon)
        identity = np.einsum("jl,uv->julv", np.eye(T), np.eye(n_u))
        G = identity - np.einsum("kjun,knm,klmv->kjulv", hat, W, C, optimize=True)
        return Dense(C, W, B, G, r, X, covariance, state)

    @property
    def H(self) -> np.ndarray:
        return np.einsum("kni,knm,kmj->ij", self.X, self.W, self.X, optimize=True)

    @property
    def scores(self) -> np.ndarray:
        return np.einsum("kni,knm,km->ki", self.X, self.W, self.r, optimize=True)

    @property
    def q(self) -> np.ndarray:
        return np.einsum("kn,knm,km->k", self.r, self.W, self.r, optimize=True)

    @property
    def S(self) -> np.ndarray:
        """Σ_kl X̃_kᵀ W_k Cov(r_k, r_l) W_l X̃_l."""
        WX = np.einsum("knm,kmi->kni", self.W, self.X)
        return np.einsum("kni,klnm,lmj->ij", WX, self.covariance, WX, optimize=True)

    @property
    def N(self) -> np.ndarray:
        """E[ξᵀWξ] = Σ_k tr(W_k A_ki Σ_u A_kjᵀ), ξ_ki = A_ki ε."""
        A = np.einsum("kjinu,kjulv->kinlv", self.B, self.G, optimize=True)
        return np.einsum("knm,kimlu,luv,kjnlv->ij", self.W, A, self.state, A, optimize=True)


@cache
def dense_of(name: str, stencil, smoothing: float = 1.0) -> Dense:
    setting = SETTINGS[name]
    (residuals,) = likelihood_of(name, stencil).system.experiments
    return Dense.of(residuals, setting.theta, state_covariances(setting), smoothing)


def gradient(function, theta: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Central differences of fourth order; steps relative to each coefficient."""
    result = []
    for i, size in enumerate(np.abs(theta)):
        e = step * size * np.eye(len(theta))[i]
        near, far = (function(theta + m * e) - function(theta - m * e) for m in (1, 2))
        result.append((8 * near - far) / (12 * step * size))
    return np.array(result)


def close(found: np.ndarray, expected: np.ndarray, rtol: float) -> None:
    """Equal to rtol of the size of rows and columns (d, d)."""
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert_allclose(found / size, expected / size, rtol=0, atol=rtol)


@pytest.mark.parametrize("name, stencil", pairs())
def test_the_gradient_of_the_misfit_is_that_of_finite_differences(name, stencil):
    """∇Q = −2g, Q = rᵀW(θ)r; Jacobians stay at the data, so that it holds for nonlinear operators too."""
    setting, likelihood = SETTINGS[name], likelihood_of(name, stencil)
    found = -2 * likelihood.profile_equations(setting.theta).equations.g
    expected = gradient(lambda t: likelihood.normal_equations(t).q, setting.theta)
    scale = np.abs(setting.theta)
    assert_allclose(scale * found, scale * expected, rtol=0, atol=1e-7 * np.abs(scale * expected).max())


def test_it_is_not_the_gradient_of_the_lagged_equations():
    """The test above can tell the two apart."""
    setting, likelihood = SETTINGS["iid"], likelihood_of("iid", BackwardEuler())
    lagged = -2 * likelihood.normal_equations(setting.theta).g
    expected = gradient(lambda t: likelihood.normal_equations(t).q, setting.theta)
    assert np.abs(lagged / expected - 1).max() > 0.01


@pytest.mark.parametrize("name, stencil", pairs())
def test_the_equations_are_those_of_dense_algebra(name, stencil):
    """S has the correlation between blocks that the weights leave out: Σ_kl X̃_kᵀ W_k Cov(r_k, r_l) W_l X̃_l."""
    theta, likelihood, dense = SETTINGS[name].theta, likelihood_of(name, stencil), dense_of(name, stencil)
    found = likelihood.profile_equations(theta, rng=np.random.default_rng(0))
    close(found.equations.H, dense.H, 1e-9)
    close(found.S, dense.S, 1e-9)
    scale = np.sqrt(np.diag(dense.H) * dense.q.sum())
    assert_allclose(found.equations.g / scale, dense.scores.sum(axis=0) / scale, atol=1e-10)
    assert_allclose(found.scores[0] / scale, dense.scores / scale, atol=1e-10)
    assert_allclose(found.equations.q_blocks[0], dense.q, rtol=1e-9)
    same = likelihood.normal_equations(theta)
    assert_allclose(found.equations.q, same.q, rtol=1e-10)
    assert_allclose(found.equations.logdet, same.logdet, rtol=1e-10)
    assert found.equations.n == same.n


@pytest.mark.parametrize("name", ["iid", "covariance of two fields", "nonlinear, projected", "per time and node"])
def test_neighbouring_blocks_matter_to_the_covariance_of_the_score(name):
    dense = dense_of(name, BackwardEuler())
    assert np.abs(np.diag(dense.S) / np.diag(dense.H) - 1).max() > 0.05


@pytest.mark.parametrize(
    "name, stencil",
    [
        ("iid", BackwardEuler()),
        ("nonlinear", CrankNicolson()),
        ("nonlinear", BDF2()),
        ("covariance of two fields", CrankNicolson()),
        ("one per node, one per both", BDF2()),
        ("projected iid", BackwardEuler()),
        ("projected covariance", CrankNicolson()),
        ("unknown scale, shape", CrankNicolson()),
    ],
)
def test_what_noise_adds_to_the_curvature_is_the_expected_trace(name, stencil):
    """The mean of N over draws is Σ_k tr(W_k A_ki Σ_u A_kjᵀ), within its Monte Carlo error."""
    draws = 60
    likelihood, rng = likelihood_of(name, stencil), np.random.default_rng(1)
    N = np.stack([likelihood.profile_equations(SETTINGS[name].theta, rng=rng).N for _ in range(draws)])
    expected = dense_of(name, stencil).N
    error = N.std(axis=0, ddof=1) / np.sqrt(draws)
    assert np.all(np.linalg.eigvalsh(expected) > 0)
    assert np.abs((N.mean(axis=0) - expected) / error).max() < 4.5


def test_one_draw_is_enough_where_residuals_are_many():
    system = reaction_system(n=17, steps=80, sigma=1e-3)
    likelihood = residual_likelihood(system, IID(1e-3))
    theta = np.array([0.1, -0.8])
    N = np.stack([likelihood.profile_equations(theta, rng=np.random.default_rng(s)).N for s in range(8)])
    diagonal = np.diagonal(N, axis1=1, axis2=2)
    assert np.all(diagonal.std(axis=0) / diagonal.mean(axis=0) < 0.12)


@pytest.mark.parametrize("name", ["iid", "nonlinear", "covariance by field", "projected covariance"])
def test_without_smoothing_the_equations_are_the_lagged_ones(name, stencil):
    setting, likelihood = SETTINGS[name], likelihood_of(name, stencil)
    found = likelihood.profile_equations(setting.theta, smoothing=0.0).equations
    lagged = likelihood.normal_equations(setting.theta)
    close(found.H, lagged.H, 1e-10)
    assert_allclose(found.g, lagged.g, rtol=1e-8)
    assert_allclose(found.q_blocks[0], lagged.q_blocks[0], rtol=1e-9)


@pytest.mark.parametrize("smoothing", [0.25, 0.9])
def test_smoothing_between_is_a_straight_path_of_regressors(smoothing, stencil):
    name = "nonlinear, covariance"
    likelihood, dense = likelihood_of(name, stencil), dense_of(name, stencil, smoothing)
    found = likelihood.profile_equations(SETTINGS[name].theta, smoothing=smoothing, rng=np.random.default_rng(0))
    close(found.equations.H, dense.H, 1e-9)
    close(found.S, dense.S, 1e-9)
    assert_allclose(found.equations.g, dense.scores.sum(axis=0), rtol=1e-7)


@pytest.mark.parametrize("steps", [45, 7])
def test_more_columns_than_are_handled_at_once(steps):
    """Blocks are worked off in slabs; what a slab is must not show."""
    system = reaction_system(n=7, steps=steps, sigma=1e-2)
    theta = np.array([0.11, -0.7])
    likelihood = residual_likelihood(system, IID(1e-2))
    found = likelihood.profile_equations(theta, rng=np.random.default_rng(0))
    dense = Dense.of(system.experiments[0], theta, np.broadcast_to(1e-4 * np.eye(7), (steps + 1, 7, 7)))
    close(found.equations.H, dense.H, 1e-9)
    close(found.S, dense.S, 1e-9)
    assert_allclose(found.scores[0], dense.scores, atol=1e-8 * np.abs(dense.scores).max())


def test_more_operators_than_columns_handled_at_once():
    operators = [f"x**{m}*u" for m in range(3)] + [f"sin({m}*x)*u" for m in range(1, 66)]
    data = smooth_1d()
    system = assemble(data, Library({"u": operators}, boundary=NoFlux()), stencil=CrankNicolson())
    theta = np.random.default_rng(0).normal(size=system.d)
    likelihood = residual_likelihood(system, IID(0.3))
    found = likelihood.profile_equations(theta)
    dense = Dense.of(system.experiments[0], theta, np.broadcast_to(0.09 * np.eye(9), (6, 9, 9)))
    close(found.equations.H, dense.H, 1e-8)


@pytest.fixture(scope="module")
def two_experiments():
    """Two grids, two sets of times, two noise models, nonlinear operators."""
    library = Library({"u": ["laplacian(u)", "u*dx(u)", "u"]}, boundary=NoFlux())
    one, two = smooth_1d(9, seed=0), smooth_1d(7, UNEQUAL[:4], seed=1)
    noises = [PerTime(np.linspace(0.01, 0.03, 6)), IID(0.02)]
    system = assemble([one, two], library, stencil=CrankNicolson())
    parts = [assemble(data, library, stencil=CrankNicolson()) for data in (one, two)]
    separate = [residual_likelihood(p, n) for p, n in zip(parts, noises, strict=True)]
    return residual_likelihood(system, noises), separate, np.array([0.03, -0.4, 0.6])


def test_experiments_add_up(two_experiments):
    both, separate, theta = two_experiments
    found = both.profile_equations(theta, rng=np.random.default_rng(2))
    rng = np.random.default_rng(2)
    parts = [likelihood.profile_equations(theta, rng=rng) for likelihood in separate]
    assert_allclose(found.equations.H, sum(p.equations.H for p in parts), rtol=1e-10)
    assert_allclose(found.equations.g, sum(p.equations.g for p in parts), rtol=1e-9)
    assert_allclose(found.S, sum(p.S for p in parts), rtol=1e-10)
    assert_allclose(found.N, sum(p.N for p in parts), rtol=1e-10)
    assert len(found.scores) == len(found.equations.q_blocks) == 2
    for a, p in zip(found.scores, parts, strict=True):
        assert_allclose(a, p.scores[0], rtol=1e-10)


def test_the_gradient_over_two_experiments(two_experiments):
    both, _, theta = two_experiments
    found = -2 * both.profile_equations(theta).equations.g
    expected = gradient(lambda t: both.normal_equations(t).q, theta)
    assert_allclose(found, expected, rtol=1e-6)


def test_a_stencil_of_three_times_with_a_covariance():
    setting = SETTINGS["nonlinear, covariance"]
    system = assemble(setting.data, setting.library, stencil=BDF2())
    found = residual_likelihood(system, setting.noise, Block()).profile_equations(
        setting.theta, rng=np.random.default_rng(0)
    )
    dense = dense_of("nonlinear, covariance", BDF2())
    close(found.equations.H, dense.H, 1e-9)
    close(found.S, dense.S, 1e-9)


def test_with_unknown_scale_the_equations_are_in_units_of_the_noise():
    """W → W/σ²: H, g, q and S scale, ε̂ does not; N does not depend on σ at all."""
    system = reaction_system(n=9, steps=12, sigma=1e-2)
    theta = np.array([0.1, -0.8])
    known, unknown = (
        residual_likelihood(system, noise).profile_equations(theta, rng=np.random.default_rng(0))
        for noise in (IID(1e-2), UnknownScale())
    )
    assert_allclose(unknown.equations.H, 1e-4 * known.equations.H, rtol=1e-9)
    assert_allclose(unknown.equations.g, 1e-4 * known.equations.g, rtol=1e-7)
    assert_allclose(unknown.S, 1e-4 * known.S, rtol=1e-9)
    assert_allclose(unknown.N, known.N, rtol=1e-9)


def test_without_an_rng_no_spread_is_computed():
    found = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3)).profile_equations([0.1, -0.8])
    assert found.S is None
    assert found.N is None


def test_unweighted_residuals_have_no_profile_equations():
    likelihood = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3), Isotropic())
    with pytest.raises(BvsiError, match="Block"):
        likelihood.profile_equations([0.1, -0.8])


@pytest.mark.parametrize("theta", [[0.1], [0.1, np.nan], [0.1, 0.2, 0.3], "ab"])
def test_coefficients_are_checked(theta):
    likelihood = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3))
    with pytest.raises(OperatorError, match="theta"):
        likelihood.profile_equations(theta)


# Over many data sets with the truth known: u_t = 0.1 u_xx − 0.8 u, own discretisation, large noise.

TRUTH, SIGMA = np.array([0.1, -0.8]), 0.05


def half_slope(likelihood, theta):
    """½∇Q."""
    return 0.5 * likelihood.density(theta, gradient=True, logdet=False).q.gradient


@pytest.fixture(scope="module")
def replicas():
    """Lagged and profile equations at the truth and ½∇²Q there, for many seeds."""
    clean, library = reaction_diffusion(n=7, steps=8, sigma=0.0)
    noise = np.random.default_rng(5)
    rows = []
    for seed in range(SEEDS):
        noisy = clean.with_fields({"u": clean.fields["u"] + SIGMA * noise.standard_normal(clean.fields["u"].shape)})
        likelihood = residual_likelihood(assemble(noisy, library), IID(SIGMA))
        found = likelihood.profile_equations(TRUTH, rng=np.random.default_rng(seed))
        e = 1e-4 * np.abs(TRUTH)
        curvature = np.stack(
            [
                (half_slope(likelihood, TRUTH + s) - half_slope(likelihood, TRUTH - s)) / (2 * s.sum())
                for s in np.diag(e)
            ]
        )
        rows.append((found.equations.g, likelihood.normal_equations(TRUTH).g, curvature, found))
    return rows


def z_of_mean(values: np.ndarray) -> np.ndarray:
    return values.mean(axis=0) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def test_the_profile_equation_is_unbiased_and_the_lagged_one_is_not(replicas):
    profile, lagged = (np.array([row[i] for row in replicas]) for i in (0, 1))
    assert np.abs(z_of_mean(profile)).max() < 4
    assert np.abs(z_of_mean(lagged))[0] > 20
    assert np.abs(z_of_mean(lagged))[1] > 5


def test_the_score_has_the_covariance_that_is_stated(replicas):
    scores = np.array([row[0] for row in replicas])
    stated = np.mean([row[3].S for row in replicas], axis=0)
    L = np.linalg.inv(np.linalg.cholesky(stated))
    assert_allclose(L @ np.cov(scores.T) @ L.T, np.eye(2), atol=5 * np.sqrt(2 / SEEDS))


def test_the_curvature_of_the_misfit_is_that_without_noise(replicas):
    """E[½∇²Q] = E[H − N], while H alone is too large."""
    curvature = np.array([0.5 * (row[2] + row[2].T) for row in replicas])
    with_noise = np.array([row[3].equations.H for row in replicas])
    without = np.array([row[3].equations.H - row[3].N for row in replicas])
    assert np.abs(z_of_mean(curvature - without)).max() < 4
    assert z_of_mean(with_noise - curvature)[0, 0] > 7
