"""Σ_kl(θ) against Monte Carlo through the operators themselves, and against dense algebra."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.likelihood import plan_covariance, sensitivities
from bvsi.likelihood.stacked_covariance import StackedCovariance
from bvsi.noise import IID, Covariance, Diagonal, Noise, PerField, PerTime, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, Stencil, assemble, discretise_library, state_of
from bvsi.residual.discrete import State, evaluate
from bvsi.spaces import Galerkin, Interpolation, LocalL2Projection
from inference.cases import UNEQUAL, UNIFORM, dense_covariance, smooth_1d

DRAWS = 20_000
STENCILS = [BackwardEuler(), CrankNicolson(), BDF2()]

LINEAR = Library({"u": ["laplacian(u)", "dx(u)", "u"]}, boundary=NoFlux())
COUPLED = Library({"u": ["laplacian(u)", "v"], "v": ["laplacian(v)", "u", "x*v"]}, boundary=NoFlux())
NONLINEAR = Library({"u": ["laplacian(u)", "u*dx(u)", "u**3"]}, boundary=NoFlux())
INTERIOR = Library({"u": ["laplacian(u)", "dx(u)", "u"]})

COARSE = Galerkin(on=Grid(x=np.array([0.0, 0.3, 0.65, 1.0])))


@dataclass(frozen=True)
class Setting:
    """A problem with its noise twice: as the model under test, and as plain matrices at the measured nodes.

    covariances: Σ_j, (T, fields·nodes, fields·nodes).
    """

    data: Data
    library: Library
    theta: np.ndarray
    noise: Noise
    covariances: np.ndarray
    discretisation: Galerkin = Galerkin()  # noqa: RUF009


def tridiagonal(n: int, seed: int) -> np.ndarray:
    """A covariance with neighbours correlated and variances that differ."""
    sd = np.random.default_rng(seed).uniform(0.5, 1.5, n)
    correlation = np.eye(n) + 0.4 * (np.eye(n, k=1) + np.eye(n, k=-1))
    return sd[:, None] * correlation * sd


def same(matrix: np.ndarray, times: int = len(UNEQUAL)) -> np.ndarray:
    return np.broadcast_to(matrix, (times, *matrix.shape))


def diagonals(sigma: np.ndarray) -> np.ndarray:
    """Standard deviations (T, n) → matrices."""
    return np.stack([np.diag(row**2) for row in sigma])


def settings() -> dict[str, Setting]:
    rng = np.random.default_rng(7)
    one, two = smooth_1d(), smooth_1d(fields=("u", "v"))
    n, T = one.n_nodes, one.n_times
    theta, coupled = np.array([0.02, -0.5, 0.8]), np.array([0.02, -0.7, 0.01, 0.9, -0.5])
    per_time, per_node = rng.uniform(0.5, 2, T), rng.uniform(0.5, 2, n)
    per_both = rng.uniform(0.5, 2, (T, n))
    band = tridiagonal(n, 0)
    cross = np.kron([[1.0, 0.5], [0.5, 2.0]], band)
    blocks = {"u": tridiagonal(n, 1), "v": 3 * tridiagonal(n, 2)}
    both = np.block([[blocks["u"], np.zeros((n, n))], [np.zeros((n, n)), blocks["v"]]])
    fine = smooth_1d(21)
    fine_node = rng.uniform(0.5, 2, 21)
    mixed = np.concatenate([np.repeat(per_node[None], T, axis=0), per_both], axis=1)
    project = replace(COARSE, transfer=LocalL2Projection())
    interpolate = replace(COARSE, transfer=Interpolation())
    unit = diagonals(np.full((T, n), 0.3))
    return {
        "iid": Setting(one, LINEAR, theta, IID(0.3), unit),
        "iid, boundary unknown": Setting(one, INTERIOR, theta, IID(0.3), unit),
        "iid, uniform": Setting(smooth_1d(times=UNIFORM), LINEAR, theta, IID(0.3), unit),
        "unknown scale": Setting(one, LINEAR, theta, UnknownScale(), same(np.eye(n))),
        "unknown scale, shape": Setting(
            one, LINEAR, theta, UnknownScale(PerTime(per_time)), diagonals(np.repeat(per_time[:, None], n, 1))
        ),
        "per field": Setting(
            two,
            COUPLED,
            coupled,
            PerField({"v": 2.0, "u": 0.5}),
            same(np.diag(np.repeat([0.25, 4.0], n))),
        ),
        "per time": Setting(one, LINEAR, theta, PerTime(per_time), diagonals(np.repeat(per_time[:, None], n, 1))),
        "per node": Setting(one, LINEAR, theta, Diagonal({"u": per_node}), diagonals(np.repeat(per_node[None], T, 0))),
        "per time and node": Setting(one, LINEAR, theta, Diagonal({"u": per_both}), diagonals(per_both)),
        "one per node, one per both": Setting(
            two, COUPLED, coupled, Diagonal({"u": per_node, "v": per_both}), diagonals(mixed)
        ),
        "covariance": Setting(one, LINEAR, theta, Covariance(sparse.csr_array(band)), same(band)),
        "covariance of two fields": Setting(two, COUPLED, coupled, Covariance(sparse.coo_array(cross)), same(cross)),
        "covariance by field": Setting(
            two, COUPLED, coupled, Covariance({f: sparse.csc_array(m) for f, m in blocks.items()}), same(both)
        ),
        "projected iid": Setting(fine, LINEAR, theta, IID(0.3), same(0.09 * np.eye(21)), project),
        "projected covariance": Setting(
            fine, LINEAR, theta, Covariance(sparse.csr_array(tridiagonal(21, 4))), same(tridiagonal(21, 4)), project
        ),
        "interpolated per node": Setting(
            fine, LINEAR, theta, Diagonal({"u": fine_node}), same(np.diag(fine_node**2)), interpolate
        ),
        "interpolated per time": Setting(
            one, LINEAR, theta, PerTime(per_time), diagonals(np.repeat(per_time[:, None], n, 1)), interpolate
        ),
        "nonlinear": Setting(one, NONLINEAR, theta, IID(1e-3), same(1e-6 * np.eye(n))),
        "nonlinear, covariance": Setting(
            one, NONLINEAR, theta, Covariance(sparse.csr_array(1e-6 * band)), same(1e-6 * band)
        ),
        "nonlinear, projected": Setting(fine, NONLINEAR, theta, IID(1e-3), same(1e-6 * np.eye(21)), project),
    }


SETTINGS = settings()


@pytest.fixture(params=STENCILS, ids=lambda s: type(s).__name__)
def stencil(request) -> Stencil:
    return request.param


@pytest.fixture(params=SETTINGS)
def setting(request) -> Setting:
    return SETTINGS[request.param]


def blocks_under_test(setting: Setting, stencil: Stencil) -> np.ndarray:
    """Σ_kl of bvsi for all k and l, dense, (K, K, N, N)."""
    system = assemble(setting.data, setting.library, discretisation=setting.discretisation, stencil=stencil)
    (residuals,) = system.experiments
    plan = plan_covariance(residuals.structure, setting.noise)
    K, N = residuals.structure.n_blocks, residuals.structure.n_rows
    whole = StackedCovariance.of(plan)
    dense = whole.pattern.matrix(whole.values(residuals, setting.theta)).toarray()
    found = dense.reshape(K, N, K, N).transpose(0, 2, 1, 3).copy()
    for k in range(K):
        alone = plan.diagonal_block(k, *sensitivities(residuals, setting.theta, k))
        assert_allclose(
            plan.pattern.matrix(alone).toarray(), found[k, k], rtol=0, atol=1e-12 * np.abs(found[k, k]).max()
        )
    return found


def residual_draws(setting: Setting, stencil: Stencil, seed: int) -> np.ndarray:
    """r_k for many draws of the noise, (K, N, draws): the weak forms themselves on perturbed data."""
    rng = np.random.default_rng(seed)
    data = setting.data
    operators, space = discretise_library(data, setting.library, setting.discretisation)
    a, b = (m.toarray() for m in stencil.matrices(data.times))
    equations = list(setting.library.equations)
    tests = np.arange(space.n_tests)
    if setting.library.condition("u").tests_vanish:
        tests = np.setdiff1d(tests, space.boundary_tests)
    rows = {e: slice(i * len(tests), (i + 1) * len(tests)) for i, e in enumerate(equations)}
    M = space.pattern.matrix(space.mass)
    r = np.zeros((len(a), len(equations) * len(tests), DRAWS))
    n = data.n_nodes
    for j, covariance in enumerate(setting.covariances):
        noise = np.linalg.cholesky(covariance) @ rng.standard_normal((len(covariance), DRAWS))
        many = {f: data.fields[f][j][:, None] + noise[i * n : (i + 1) * n] for i, f in enumerate(data.names)}
        carried = {f: v if space.transfer is None else space.transfer @ v for f, v in many.items()}
        state = State(np.arange(DRAWS, dtype=float), carried, {})  # every draw stands as a time of its own
        inertia = np.concatenate([(M @ carried[e])[tests] for e in equations])
        forcing = np.zeros_like(inertia)
        for theta, operator in zip(setting.theta, operators, strict=True):
            forcing[rows[operator.equation]] += theta * evaluate(operator, space, state)[tests]
        for k in range(len(a)):
            if a[k, j] or b[k, j]:
                r[k] += a[k, j] * inertia - b[k, j] * forcing
    return r


def z_scores(draws: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Error of every sample covariance over its standard deviation, √((Σ_aa Σ_bb + Σ_ab²)/n)."""
    K, N, n = draws.shape
    flat = draws.reshape(K * N, n)
    sample = np.cov(flat)
    full = expected.transpose(0, 2, 1, 3).reshape(K * N, K * N)
    variance = np.diag(full)
    return (sample - full) / np.sqrt((np.outer(variance, variance) + full**2) / n)


def monte_carlo_pairs() -> list:
    """Every setting with one stencil, taken in turn; those that matter most with all."""
    everywhere = ("iid", "nonlinear", "projected iid")
    return [
        pytest.param(setting, stencil, id=f"{name}-{type(stencil).__name__}")
        for i, (name, setting) in enumerate(SETTINGS.items())
        for m, stencil in enumerate(STENCILS)
        if name in everywhere or m == i % 3
    ]


@pytest.mark.parametrize("setting, stencil", monte_carlo_pairs())
def test_covariance_is_that_of_monte_carlo(setting, stencil):
    z = z_scores(residual_draws(setting, stencil, seed=11), blocks_under_test(setting, stencil))
    assert np.abs(z).max() < 5
    assert 0.6 < np.mean(z**2) < 1.5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: replace(s, noise=IID(0.3 * 1.04)),
        lambda s: replace(s, theta=s.theta + np.array([0.002, 0, 0])),
        lambda s: replace(s, data=replace(s.data, times=s.data.times * 1.04)),
    ],
    ids=["noise 4% larger", "another coefficient", "times 4% longer"],
)
def test_the_monte_carlo_bound_notices_small_errors(wrong):
    setting = SETTINGS["iid"]
    draws = residual_draws(setting, BackwardEuler(), seed=11)
    assert np.abs(z_scores(draws, blocks_under_test(wrong(setting), BackwardEuler()))).max() > 5


def test_covariance_is_that_of_dense_algebra(setting, stencil):
    system = assemble(setting.data, setting.library, discretisation=setting.discretisation, stencil=stencil)
    (residuals,) = system.experiments
    space = discretise_library(setting.data, setting.library, setting.discretisation)[1]
    P = np.eye(setting.data.n_nodes) if space.transfer is None else space.transfer.toarray()
    P = np.kron(np.eye(len(setting.data.names)), P)
    state = np.stack([P @ S @ P.T for S in setting.covariances])
    expected = dense_covariance(residuals, setting.theta, state)
    found = blocks_under_test(setting, stencil)
    assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_the_covariance_is_symmetric_and_positive_definite(setting, stencil):
    found = blocks_under_test(setting, stencil)
    assert_allclose(found, found.transpose(1, 0, 3, 2), rtol=0, atol=1e-12 * np.abs(found).max())
    for k in range(len(found)):
        eigenvalues = np.linalg.eigvalsh(found[k, k])
        assert eigenvalues[0] > 0


@pytest.mark.parametrize("stencil, reach", [(BackwardEuler(), 1), (CrankNicolson(), 1), (BDF2(), 2)])
def test_blocks_that_share_no_time_are_uncorrelated(stencil, reach):
    found = blocks_under_test(SETTINGS["covariance"], stencil)
    size = np.abs(found).max(axis=(2, 3))
    k = np.arange(len(size))
    apart = np.abs(k[:, None] - k)
    assert np.all(size[apart > reach] == 0)
    assert np.all(size[apart <= reach] > 0)


def test_the_papers_two_term_formula_for_backward_euler():
    """Σ_k = K Σ_u Kᵀ + B Σ_u Bᵀ, Cov(r_k, r_{k+1}) = −K Σ_u Bᵀ, B = M/Δt, K = B − Σ θ_i A_i (eq:covariance_linear)."""
    setting = SETTINGS["iid, uniform"]
    (residuals,) = assemble(setting.data, setting.library).experiments
    pattern = residuals.structure.pattern
    B = pattern.matrix(residuals.structure.M).toarray() / (UNIFORM[1] - UNIFORM[0])
    K_theta = B - pattern.matrix(residuals.jacobian(setting.theta, 0)).toarray()
    found = blocks_under_test(setting, BackwardEuler())
    expected = 0.09 * (K_theta @ K_theta.T + B @ B.T)
    assert_allclose(found[2, 2], expected, atol=1e-12 * np.abs(expected).max())
    assert_allclose(found[2, 3], -0.09 * K_theta @ B.T, atol=1e-12 * np.abs(expected).max())


def test_two_dimensions_with_a_transfer_and_two_fields():
    rng = np.random.default_rng(3)
    fine = Grid(x=np.linspace(0, 1, 9), y=np.linspace(0, 2, 7))
    times = UNEQUAL[:4]
    data = Data(times=times, fields={f: rng.standard_normal((4, 63)) for f in "uv"}, geometry=fine)
    library = Library({"u": ["laplacian(u)", "u*v"], "v": ["dy(v)", "u**2"]}, boundary=NoFlux())
    coarse = Grid(x=np.linspace(0, 1, 4), y=np.linspace(0, 2, 3))
    setting = Setting(
        data,
        library,
        np.array([0.05, -0.4, 0.3, 0.2]),
        PerField({"u": 1e-3, "v": 3e-3}),
        same(np.diag(np.repeat([1e-6, 9e-6], 63)), 4),
        Galerkin(on=coarse, transfer=LocalL2Projection()),
    )
    z = z_scores(residual_draws(setting, CrankNicolson(), 5), blocks_under_test(setting, CrankNicolson()))
    assert np.abs(z).max() < 5.2
    assert 0.6 < np.mean(z**2) < 1.5


def test_the_map_of_the_data_is_the_map_of_the_noise():
    setting = SETTINGS["projected iid"]
    space = discretise_library(setting.data, setting.library, setting.discretisation)[1]
    carried = state_of(setting.data, space).fields["u"]
    (residuals,) = assemble(setting.data, setting.library, discretisation=setting.discretisation).experiments
    state = setting.noise.covariance(residuals.structure)
    P = space.transfer.toarray()
    assert_allclose(carried, P @ setting.data.fields["u"].T, atol=1e-14)
    assert_allclose(state.distinct[state.label[0]].toarray(), 0.09 * P @ P.T, atol=1e-14)
