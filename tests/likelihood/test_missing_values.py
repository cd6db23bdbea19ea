"""Missing values: every number is that of the dense computation without the residuals that depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.data import Data, Grid, Mesh
from bvsi.errors import BvsiError, DataError
from bvsi.infer import LeastSquares, Profile
from bvsi.likelihood import Block, Isotropic, Stacked, residual_likelihood
from bvsi.likelihood.equations import instrument_shift
from bvsi.noise import IID, Covariance, Diagonal, PerField
from bvsi.operators import Library, NoFlux
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, TemporalTests, assemble
from bvsi.spaces import Galerkin, LocalL2Projection, SplineTests
from inference.cases import UNEQUAL, UNIFORM, dense_jacobian, dense_sensitivities, smooth_1d

LINEAR = Library({"u": ["laplacian(u)", "dx(u)", "u"]}, boundary=NoFlux())
NONLINEAR = Library({"u": ["laplacian(u)", "u*dx(u)", "u**3"]}, boundary=NoFlux())
COUPLED = Library({"u": ["laplacian(u)", "v"], "v": ["laplacian(v)", "u*v", "v"]}, boundary=NoFlux())
THETA = np.array([0.3, -0.7, 0.5])
COUPLED_THETA = np.array([0.3, -0.7, 0.2, 0.5, -0.4])
LONG = np.linspace(0, 1, 11)
WEIGHTED = [Block(), Stacked()]


def gaps(data: Data, *places: tuple[str, object, object]) -> Data:
    """The same values, some of which are said not to have been measured: (field, times, nodes)."""
    masks = {name: np.ones((data.n_times, data.n_nodes), dtype=bool) for name in data.names}
    for name, times, nodes in places:
        masks[name][times, nodes] = False
    return Data(data.times, data.fields, data.geometry, data.auxiliary, masks)


@dataclass(frozen=True)
class Case:
    data: Data
    library: Library
    theta: np.ndarray
    noise: object
    stencil: object
    discretisation: object = None

    @property
    def whole(self) -> Data:
        return Data(self.data.times, self.data.fields, self.data.geometry, self.data.auxiliary)

    def system(self, data: Data | None = None):
        return assemble(data or self.data, self.library, discretisation=self.discretisation, stencil=self.stencil)


def band(n: int) -> sparse.csr_array:
    return sparse.csr_array(sparse.diags_array([0.3, 1.0, 0.3], offsets=[-1, 0, 1], shape=(n, n)) * 1e-2)


U, V = "u", "v"
CASES = {
    "one value, equal steps": Case(gaps(smooth_1d(times=UNIFORM), (U, 2, 4)), LINEAR, THETA, IID(0.1), BackwardEuler()),
    "values here and there": Case(
        gaps(smooth_1d(n=13, times=UNEQUAL), (U, 1, 3), (U, 4, 9), (U, 4, 10), (U, 5, 0)),
        NONLINEAR,
        THETA,
        IID(0.1),
        CrankNicolson(),
    ),
    "a node": Case(gaps(smooth_1d(n=11), (U, slice(None), 5)), NONLINEAR, THETA, IID(0.1), BDF2()),
    "two fields": Case(
        gaps(smooth_1d(n=11, fields=("u", "v")), (U, 3, 2), (V, 1, 7), (V, slice(None), 10)),
        COUPLED,
        COUPLED_THETA,
        PerField({"u": 0.1, "v": 0.3}),
        BackwardEuler(),
    ),
    "correlated noise": Case(
        gaps(smooth_1d(n=11), (U, 3, 2), (U, 4, 8)), LINEAR, THETA, Covariance(band(11)), CrankNicolson()
    ),
    "projected": Case(
        gaps(smooth_1d(n=31), (U, 2, 10), (U, 3, 24)),
        LINEAR,
        THETA,
        IID(0.1),
        BackwardEuler(),
        Galerkin(on=Grid(x=np.linspace(0, 1, 9)), transfer=LocalL2Projection()),
    ),
    "splines in time": Case(
        gaps(smooth_1d(n=11, times=LONG), (U, 1, 4), (U, 9, 8)), NONLINEAR, THETA, IID(0.1), TemporalTests(3, 1.0)
    ),
}


@pytest.fixture(params=CASES)
def name(request):
    return request.param


@cache
def systems(name: str):
    case = CASES[name]
    return case.system().experiments[0], case.system(case.whole).experiments[0]


@cache
def dependence(name: str) -> np.ndarray:
    """Residuals (N, K) of the whole data that no missing value moves, by moving each of them."""
    case, (_, full) = CASES[name], systems(name)
    free = np.ones(full.y.shape, dtype=bool)
    for field, mask in case.data.measured.items():
        for j, n in zip(*np.nonzero(~mask), strict=True):
            fields = {f: np.array(v) for f, v in case.data.fields.items()}
            fields[field][j, n] += 0.37
            moved = case.system(case.whole.with_fields(fields)).experiments[0].Z
            free &= (np.abs(moved - full.Z) < 1e-12 * np.abs(full.Z).max()).all(axis=2)
    return free


def test_a_residual_is_used_where_nothing_missing_moves_it(name):
    masked, full = systems(name)
    free = dependence(name)
    tests, blocks = free.any(axis=1), free.any(axis=0)
    active = masked.structure.active
    active = np.ones(masked.y.shape, dtype=bool) if active is None else active
    assert_array_equal(active, free[tests][:, blocks])
    assert 0 < masked.n == free.sum() < full.n
    expected = np.where(free[:, :, None], full.Z, 0.0)[tests][:, blocks]
    assert_allclose(masked.Z, expected, atol=1e-13 * np.abs(full.Z).max())
    assert_array_equal(masked.structure.block_rows, free[:, blocks].sum(axis=0))


@dataclass(frozen=True)
class Dense:
    """Rows (k, i) that are used, block by block: r (n,), X (n, d), C (n, T n_u), B (n, d, T n_u), block of each row."""

    r: np.ndarray
    y: np.ndarray
    X: np.ndarray
    C: np.ndarray
    A: np.ndarray
    B: np.ndarray
    block: np.ndarray
    equation: np.ndarray
    row: np.ndarray
    noise: np.ndarray

    @property
    def sigma(self) -> np.ndarray:
        return self.C @ self.noise @ self.C.T

    def weights(self, stacked: bool) -> np.ndarray:
        kept = self.sigma if stacked else self.sigma * (self.block[:, None] == self.block)
        return np.linalg.inv(kept)


@cache
def dense(name: str) -> Dense:
    """The full system without the rows that depend on missing values."""
    case, (_, full), free = CASES[name], systems(name), dependence(name)
    s = full.structure
    i, k = np.nonzero(free)
    order = np.lexsort((i, k))
    i, k = i[order], k[order]
    C = dense_sensitivities(full, case.theta).transpose(0, 2, 1, 3)
    J = np.stack([[dense_jacobian(full, o, j) for o in range(full.d)] for j in range(s.n_times)])
    B = np.einsum("kj,jonu->knoju", s.b.toarray(), J)
    M = s.pattern.matrix(s.M).toarray()
    A = np.einsum("kj,nu->knju", s.a.toarray(), M)
    state = case.noise.covariance(s)
    noise = np.zeros((s.n_times, s.n_state, s.n_times, s.n_state))
    for j in range(s.n_times):
        one = state.distinct[state.label[j]]
        noise[j, :, j] = one.toarray() if sparse.issparse(one) else np.diag(one)
    m = s.n_times * s.n_state
    blocks = np.unique(k, return_inverse=True)[1]
    return Dense(
        r=full.residual(case.theta)[i, k],
        y=full.y[i, k],
        X=full.X[i, k],
        C=C[k, i].reshape(len(k), m),
        A=A[k, i].reshape(len(k), m),
        B=B[k, i].reshape(len(k), full.d, m),
        block=blocks,
        equation=s.equation_of_row[i],
        row=i,
        noise=noise.reshape(m, m),
    )


def likelihood_of(name: str, weighting=None, data: Data | None = None):
    case = CASES[name]
    return residual_likelihood(case.system(data), case.noise, weighting or Block())


def close(found, expected, rtol=1e-8):
    assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("weighting", [Isotropic(), *WEIGHTED], ids=lambda w: type(w).__name__)
def test_normal_equations(name, weighting):
    d, theta = dense(name), CASES[name].theta
    W = np.eye(len(d.r)) if isinstance(weighting, Isotropic) else d.weights(isinstance(weighting, Stacked))
    found = likelihood_of(name, weighting).normal_equations(theta)
    close(found.H, d.X.T @ W @ d.X)
    close(found.g, d.X.T @ W @ d.r)
    assert_allclose(found.q, d.r @ W @ d.r, rtol=1e-8)
    assert found.n == len(d.r)
    if not isinstance(weighting, Isotropic):
        assert_allclose(found.logdet, -np.linalg.slogdet(W)[1], rtol=1e-8)
    if isinstance(weighting, Block):
        by_block = np.bincount(d.block, weights=d.r * (W @ d.r))
        assert_allclose(found.q_blocks[0], by_block, rtol=1e-8)


@pytest.mark.parametrize("weighting", WEIGHTED, ids=lambda w: type(w).__name__)
def test_profile_equations(name, weighting):
    """H, g, q, S, and N of the same draw."""
    d, theta, stacked = dense(name), CASES[name].theta, isinstance(weighting, Stacked)
    likelihood = likelihood_of(name, weighting)
    found = likelihood.profile_equations(theta, rng=np.random.default_rng(3))
    (rng,), plan = np.random.default_rng(3).spawn(1), likelihood.plans[0]  # the generator of the one experiment
    draw = np.concatenate(plan.noise.draws(rng))
    W = d.weights(stacked)
    same = np.ones((len(d.r), len(d.r)), dtype=bool) if stacked else d.block[:, None] == d.block
    # what a block sees of the noise is estimated from that block alone
    spread = np.einsum("nom,mp,qp->noq", d.B, d.noise, d.C, optimize=True) * same[:, None]
    X = d.X - np.einsum("noq,q->no", spread, W @ d.r)
    xi = d.B @ draw - np.einsum("noq,q->no", spread, W @ (d.C @ draw))
    close(found.equations.H, X.T @ W @ X)
    close(found.equations.g, X.T @ W @ d.r)
    assert_allclose(found.equations.q, d.r @ W @ d.r, rtol=1e-8)
    assert found.equations.n == len(d.r)
    close(found.S, X.T @ W @ d.sigma @ W @ X)
    close(found.N, xi.T @ W @ xi)


def test_conjugate_gradients_leave_out_the_same_residuals():
    theta = CASES["values here and there"].theta
    one, other = (
        likelihood_of("values here and there", w).profile_equations(theta, rng=np.random.default_rng(3))
        for w in (Stacked(), Stacked(max_memory=0))
    )
    close(other.equations.H, one.equations.H)
    close(other.equations.g, one.equations.g)
    close(other.N, one.N)
    assert other.equations.n == one.equations.n


def test_noise_share(name):
    d, likelihood = dense(name), likelihood_of(name)
    found = likelihood.noise_share(np.random.default_rng(4))
    (rng,), plan = np.random.default_rng(4).spawn(1), likelihood.plans[0]  # the generator of the one experiment
    draw = np.concatenate(plan.noise.draws(rng))
    by_equation = np.eye(len(plan.structure.equations))[d.equation].T
    close(found.y, by_equation @ (d.A @ draw) ** 2)
    close(found.X, by_equation @ (d.B @ draw) ** 2)
    close(found.size, by_equation @ d.X**2)


def test_instruments(name):
    d, likelihood = dense(name), likelihood_of(name)
    shift = instrument_shift(likelihood.plans[0].structure.a, likelihood.plans[0].structure.b)
    Z = np.zeros_like(d.X)
    for n, (i, k) in enumerate(zip(d.row, d.block, strict=True)):
        Z[n] = d.X[(d.row == i) & (np.abs(d.block - k) == shift)].sum(axis=0)
    W = d.weights(stacked=False)
    found = likelihood.instrumental_equations(CASES[name].theta)
    scale = np.abs(d.X.T @ W @ d.X).max()
    assert_allclose(found.A, Z.T @ W @ d.X, rtol=0, atol=1e-8 * scale)
    assert_allclose(found.c, Z.T @ W @ d.y, rtol=0, atol=1e-8 * scale)


def test_moment_equations(name):
    d, likelihood = dense(name), likelihood_of(name, Stacked())
    found = likelihood.moment_equations(CASES[name].theta, rng=np.random.default_rng(5), draws=1)
    (rng,), plan = np.random.default_rng(5).spawn(1), likelihood.plans[0]  # the generator of the one experiment
    draw = np.concatenate(plan.noise.draws(rng))
    W = d.weights(stacked=True)
    Z, zeta = (np.column_stack(pair) for pair in ((d.y, d.X), (d.A @ draw, d.B @ draw)))
    close(found.gram, Z.T @ W @ Z)
    close(found.noise, zeta.T @ W @ zeta)
    assert found.n == len(d.r)


def test_density_and_its_gradient(name):
    case, likelihood = CASES[name], likelihood_of(name)
    found = likelihood.density(case.theta, gradient=True)
    assert found.n == len(dense(name).r)
    step = 1e-5
    for term in ("q", "logdet"):
        moved = [
            [getattr(likelihood.density(case.theta + s * e), term).value for s in (step, -step)]
            for e in np.eye(len(case.theta))
        ]
        expected = np.array([(up - down) / (2 * step) for up, down in moved])
        close(getattr(found, term).gradient, expected, 1e-6)


def refilled(data: Data, seed: int) -> Data:
    """Other values, and of another size, where nothing was measured."""
    rng = np.random.default_rng(seed)
    fields = {n: np.where(data.measured[n], v, rng.uniform(1, 50, v.shape)) for n, v in data.fields.items()}
    return data.with_fields(fields)


@pytest.mark.parametrize("weighting", [Isotropic(), *WEIGHTED], ids=lambda w: type(w).__name__)
def test_what_stands_in_the_gaps_does_not_matter(name, weighting):
    case = CASES[name]
    one = likelihood_of(name, weighting).normal_equations(case.theta)
    other = likelihood_of(name, weighting, refilled(case.data, 1)).normal_equations(case.theta)
    close(other.H, one.H, 1e-11)
    close(other.g, one.g, 1e-11)
    assert_allclose(other.q, one.q, rtol=1e-11)
    if not isinstance(weighting, Isotropic):
        profile = [
            likelihood_of(name, weighting, data).profile_equations(case.theta, rng=np.random.default_rng(0))
            for data in (case.data, refilled(case.data, 2))
        ]
        close(profile[1].equations.H, profile[0].equations.H, 1e-11)
        close(profile[1].S, profile[0].S, 1e-11)
        close(profile[1].N, profile[0].N, 1e-11)


@pytest.mark.parametrize("weighting", WEIGHTED, ids=lambda w: type(w).__name__)
def test_the_noise_of_missing_values_does_not_matter(weighting):
    case = CASES["values here and there"]
    sigma = np.full((case.data.n_times, case.data.n_nodes), 0.1)
    large = np.where(case.data.measured["u"], sigma, 1e3)
    one, other = (
        residual_likelihood(case.system(), Diagonal({"u": s}), weighting).profile_equations(
            case.theta, rng=np.random.default_rng(0)
        )
        for s in (sigma, large)
    )
    close(other.equations.H, one.equations.H, 1e-10)
    close(other.equations.g, one.equations.g, 1e-10)
    assert_allclose(other.equations.q, one.equations.q, rtol=1e-10)
    assert_allclose(other.equations.logdet, one.equations.logdet, rtol=1e-10)
    close(other.S, one.S, 1e-10)
    close(other.N, one.N, 1e-10)


def test_blocks_with_other_gaps_do_not_share_a_factor():
    case = CASES["one value, equal steps"]
    likelihood = likelihood_of("one value, equal steps")
    groups = likelihood.plans[0].groups(likelihood.system.experiments[0])
    assert [blocks.tolist() for blocks in groups] == [[0, 3, 4], [1, 2]]
    (whole,) = residual_likelihood(case.system(case.whole), case.noise).plans
    assert len(whole.groups(case.system(case.whole).experiments[0])) == 1


def test_fewer_operators_use_the_same_residuals():
    system = CASES["two fields"].system()
    fewer = system.subset(system.names[:2])
    assert fewer.n == system.n
    assert fewer.experiments[0].structure is system.experiments[0].structure


def test_chi2_counts_used_residuals():
    case = CASES["values here and there"]
    fit = LeastSquares().fit(case.system())
    rows = systems("values here and there")[0].structure.block_rows
    assert_allclose(np.sum(fit.chi2_blocks[0] * rows) / rows.sum(), fit.chi2, rtol=1e-12)


def test_the_change_of_variables_is_refused():
    case = CASES["one value, equal steps"]
    with pytest.raises(BvsiError, match="values that were not measured"):
        residual_likelihood(case.system(), case.noise).density(case.theta, change=True)


def test_nothing_left_is_told():
    data = smooth_1d(n=11)
    every_other = gaps(data, ("u", slice(None), slice(1, None, 2)))
    with pytest.raises(
        DataError, match=r"every residual of the equation of 'u'.*narrower test functions.*fill the gaps"
    ):
        assemble(every_other, LINEAR)


@pytest.mark.parametrize("estimator", [LeastSquares(), Profile()], ids=lambda e: type(e).__name__)
def test_missing_frames_give_the_answer_of_data_without_them(estimator):
    data = smooth_1d(n=15, times=LONG)
    u = np.array(data.fields["u"])
    u[[3, 7]] = np.nan
    gone = Data.from_arrays({"u": u}, times=LONG, geometry=data.geometry, missing="nan")
    cut = data.select_times(np.isfinite(u).all(axis=1))

    def fit(experiment):
        system = assemble(experiment, LINEAR, stencil=CrankNicolson())
        return estimator.fit(system if isinstance(estimator, LeastSquares) else residual_likelihood(system, IID(0.01)))

    assert_allclose(fit(gone).theta, fit(cut).theta, rtol=1e-12)


def triangles(n: int, seed: int | None = None) -> tuple[Mesh, np.ndarray]:
    """Triangles of the unit square, n × n nodes, and the number of each node; numbered at random with a seed."""
    x = np.linspace(0, 1, n)
    points = np.stack([c.ravel() for c in np.meshgrid(x, x**1.1, indexing="ij")], axis=1)
    corner = np.arange(n * n).reshape(n, n)[:-1, :-1].ravel()
    cells = np.concatenate([corner[:, None] + [0, n, n + 1], corner[:, None] + [0, n + 1, 1]])
    number = np.arange(n * n) if seed is None else np.random.default_rng(seed).permutation(n * n)
    return Mesh(points[np.argsort(number)], number[cells], "triangle"), number


@pytest.mark.parametrize("weighting", WEIGHTED, ids=lambda w: type(w).__name__)
def test_the_order_of_the_nodes_does_not_matter(weighting):
    rng = np.random.default_rng(0)
    u, mask = rng.uniform(1, 2, (4, 36)), rng.uniform(size=(4, 36)) > 0.06
    library = Library({"u": ["laplacian(u)", "u", "u**3"]}, boundary=NoFlux())
    found = []
    for mesh, number in (triangles(6), triangles(6, seed=1)):
        order = np.argsort(number)
        data = Data(LONG[:4], {"u": u[:, order]}, mesh, measured={"u": mask[:, order]})
        system = assemble(data, library)
        assert system.experiments[0].structure.active is not None
        found.append(residual_likelihood(system, IID(0.1), weighting).profile_equations(THETA).equations)
    one, other = found
    close(other.H, one.H, 1e-9)
    close(other.g, one.g, 1e-9)
    assert_allclose(other.q, one.q, rtol=1e-9)
    assert_allclose(other.logdet, one.logdet, rtol=1e-9)


def heat_around_a_hole(n: int, times: np.ndarray) -> Data:
    """u = 2 + Σ A e^(−ν|k|²t) cos k₁x cos k₂y: u_t = ν ∇²u with ν = 0.1 and zero fluxes, not measured in a disc."""
    x = np.linspace(0, 1, n)
    X, Y = np.meshgrid(x, x, indexing="ij")
    u = [
        2
        + np.exp(-0.1 * np.pi**2 * t) * np.cos(np.pi * X)
        + 0.7 * np.exp(-0.1 * 5 * np.pi**2 * t) * np.cos(np.pi * X) * np.cos(2 * np.pi * Y)
        for t in times
    ]
    values = np.array(u)
    values[:, (X - 0.55) ** 2 + (Y - 0.45) ** 2 < 0.1**2] = np.nan
    return Data.from_arrays({"u": values}, times=times, geometry=Grid(x=x, y=x), missing="nan")


@pytest.mark.parametrize(
    ("discretisation", "stencil", "condition", "rtol"),
    [
        (Galerkin(), CrankNicolson(), NoFlux(), 5e-3),
        (SplineTests(gap=2), TemporalTests(), None, 1e-6),
    ],
    ids=["Galerkin", "splines"],
)
def test_a_hole_in_the_domain(discretisation, stencil, condition, rtol):
    """The diffusivity of an exact solution, measured around a hole only."""
    data = heat_around_a_hole(41, np.linspace(0, 0.4, 21))
    library = Library({"u": ["laplacian(u)", "u"]}, **({} if condition is None else {"boundary": condition}))
    system = assemble(data, library, discretisation=discretisation, stencil=stencil)
    assert system.experiments[0].structure.active is None  # its test functions are gone altogether
    whole = Data(data.times, data.fields, data.geometry)
    assert system.n < assemble(whole, library, discretisation=discretisation, stencil=stencil).n
    fit = LeastSquares().fit(system)
    assert_allclose(fit.theta, [0.1, 0.0], atol=0.1 * rtol)
    profile = Profile().fit(residual_likelihood(system, IID(1e-4)))
    assert_allclose(profile.theta, [0.1, 0.0], atol=0.1 * rtol)
