"""The covariance axis by axis is that of products of sparse matrices: fields, equations, gaps, kinds of noise."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.likelihood import Stacked, residual_likelihood, sensitivities
from bvsi.likelihood.covariance import Part
from bvsi.likelihood.stacked_covariance import RowsCovariance, StackedCovariance
from bvsi.noise import IID, Covariance, Diagonal, PerField, PerTime
from bvsi.operators import Library
from bvsi.residual import TemporalTests, assemble
from bvsi.spaces import SplineTests

TIMES = np.linspace(0, 1, 13)
LONGER = np.linspace(0, 1, 15)
X, Y = np.linspace(0, 2, 17, endpoint=False), np.linspace(0, 1, 16)
GRID = Grid(x=X, y=Y, periodic={"x": 2.0})
LINES = Grid(x=Y)
COUPLED = Library({"u": ["laplacian(u)", "u*v", "dx(v)", "u"], "v": ["laplacian(v)", "u**2*v", "dx(dx(u*v))"]})
ALONE = Library({"u": ["laplacian(u)", "u*dx(u)", "sin(t)*u", "u"]})
LINEAR = Library({"u": ["laplacian(u)", "dx(u)", "x*dx(u)"]})


def waves(grid, times=TIMES):
    points, t = grid.points, times[:, None]
    along = points @ np.arange(1, 1 + grid.dim)
    return {"u": 1 + np.cos(2 * along + t), "v": 2 + np.sin(along - 3 * t)}


def data_of(grid, fields, *, gaps=False):
    masks = None
    if gaps:
        masks = {f: np.ones((len(TIMES), grid.n_nodes), dtype=bool) for f in fields}
        masks[fields[0]][6, 100] = False
    return Data(TIMES, {f: waves(grid)[f] for f in fields}, grid, {}, masks)


def sigma(grid):
    return 0.1 + np.random.default_rng(5).random((len(TIMES), grid.n_nodes))


CASES = {
    "two fields": (data_of(GRID, ("u", "v")), COUPLED, PerField({"u": 0.1, "v": 0.3})),
    "gaps": (data_of(GRID, ("u", "v"), gaps=True), COUPLED, IID(0.1)),
    "noise by time": (data_of(GRID, ("u",)), ALONE, PerTime(np.where(np.arange(len(TIMES)) % 3, 0.1, 0.2))),
    "noise everywhere other": (data_of(GRID, ("u",)), ALONE, Diagonal({"u": sigma(GRID)})),
    "linear, noise by time": (data_of(LINES, ("u",)), LINEAR, PerTime(np.where(np.arange(len(TIMES)) % 2, 0.1, 0.2))),
    "one axis": (data_of(LINES, ("u",)), ALONE, IID(0.1)),
}


@cache
def part_of(name):
    data, library, noise = CASES[name]
    tests = SplineTests(gap=1.6, degree=6) if data.geometry is GRID else SplineTests(gap=1.2, degree=6)
    system = assemble(data, library, discretisation=tests, stencil=TemporalTests(degree=3, gap=1.5))
    return residual_likelihood(system, noise, Stacked()).parts[0]


def theta_of(part):
    return np.random.default_rng(2).standard_normal(part.residuals.d)


def by_blocks(part, theta):
    """C Σ_u Cᵀ (K N, K N) from all C_kj as dense matrices, with a one where a residual is not used."""
    structure = part.residuals.structure
    C = np.zeros((structure.n_blocks, structure.n_rows, structure.n_state, structure.n_times))
    for k in range(structure.n_blocks):
        for time, own in zip(*sensitivities(part.residuals, theta, k), strict=True):
            C[k, :, :, time] = structure.pattern.matrix(own).toarray()
    rows = C.reshape(-1, structure.n_state * structure.n_times)
    spread = part.covariance.noise_everywhere(rows.T.reshape(structure.n_state, structure.n_times, -1))
    total = rows @ spread.reshape(rows.shape[::-1])
    return total + np.diag(~structure.active.T.ravel()) if structure.active is not None else total


def assert_same(found, expected):
    """To rounding, in units of the standard deviations of both residuals."""
    sd = np.sqrt(np.diag(expected))
    assert_allclose(found / sd / sd[:, None], expected / sd / sd[:, None], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_covariance_of_the_blocks(name):
    part = part_of(name)
    theta = theta_of(part)
    stacked, expected = part.covariance.stacked, by_blocks(part, theta)
    assert stacked.tensor is not None
    found = stacked.pattern.matrix(stacked.values(part.residuals, theta)).toarray()
    assert_same(found, expected)
    assert_same(np.tril(stacked.dense(part.residuals, theta)), np.tril(expected))
    if name == "gaps":
        assert part.residuals.structure.active is not None


def test_one_operator_and_none():
    part = part_of("two fields")
    for theta in (np.zeros(part.residuals.d), np.eye(part.residuals.d)[1]):
        expected = by_blocks(part, theta)
        stacked = part.covariance.stacked
        found = stacked.pattern.matrix(stacked.values(part.residuals, theta)).toarray()
        assert_same(found, expected)


def test_correlated_noise_goes_the_other_way():
    data = data_of(LINES, ("u",))
    noise = Covariance({"u": sparse.csr_array(0.01 * np.exp(-np.abs(np.subtract.outer(Y, Y)) / 0.1))})
    system = assemble(data, LINEAR, discretisation=SplineTests(gap=1.2, degree=6), stencil=TemporalTests(3, 1.5))
    (part,) = residual_likelihood(system, noise, Stacked()).parts
    stacked, theta = part.covariance.stacked, theta_of(part)
    assert stacked.tensor is None
    found = stacked.pattern.matrix(stacked.values(part.residuals, theta)).toarray()
    expected = by_blocks(part, theta)
    assert_same(found, expected)


@pytest.mark.parametrize("name", ["two fields", "gaps", "one axis"])
def test_dense_sparse_and_banded_factors_give_the_same_equations(name, monkeypatch):
    part = part_of(name)
    theta = theta_of(part)
    found = []
    for limit, narrow in ((0.0, False), (1.0, False), (1.0, True)):
        for bound in ("_FULL", "_FULL_OF_FEW"):
            monkeypatch.setattr(f"bvsi.likelihood.stacked.{bound}", limit)
        monkeypatch.setattr(StackedCovariance, "narrow", narrow)
        plan = Stacked().plan(part.residuals.structure, CASES[name][2])
        assert plan.dense == (limit == 0.0)
        whole = plan.whole(type(part)(part.residuals, plan, "test"), theta)
        profile = whole.profile_equations(draw=whole.products.draw(np.random.default_rng(0)))
        found.append((profile.equations.H, profile.equations.g, profile.N, profile.equations.logdet))
        found[-1] += (whole.determinant(gradient=True).gradient,)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert_allclose(one, other, rtol=1e-7, atol=1e-7 * np.abs(other).max())


def band(n):
    return sparse.csr_array(sparse.diags_array([0.3, 1.0, 0.3], offsets=[-1, 0, 1], shape=(n, n)) * 1e-2)


def moving(grid, fields):
    """Data of which a window that moves along x is measured."""
    place = np.repeat(np.arange(grid.shape[0]), grid.shape[1])
    seen = (place[None] - np.arange(len(LONGER))[:, None] // 2) % grid.shape[0] < 11
    return Data(LONGER, {f: waves(grid, LONGER)[f] for f in fields}, grid, {}, {fields[0]: seen})


@pytest.mark.parametrize("noise", [PerField({"u": 0.1, "v": 0.3}), IID(0.1), "correlated"])
def test_some_rows_alone_give_the_same_equations(noise, monkeypatch):
    if noise == "correlated":
        noise = Covariance({"u": band(GRID.n_nodes), "v": band(GRID.n_nodes)})
    data = moving(GRID, ("u", "v"))
    system = assemble(data, COUPLED, discretisation=SplineTests(1.1, 6), stencil=TemporalTests(3, 1.0))
    (residuals,) = system.experiments
    theta, found = np.random.default_rng(2).standard_normal(residuals.d), []
    assert 0 < residuals.n < 0.8 * residuals.y.size
    for price in ((0.0, np.inf), (np.inf, 0.0), (np.inf, np.inf)):
        monkeypatch.setattr("bvsi.likelihood.stacked_covariance._SPARSE", price[0])
        monkeypatch.setattr("bvsi.likelihood.stacked_covariance._TENSOR", price[1])
        plan = Stacked().plan(residuals.structure, noise)
        some = isinstance(plan.stacked, RowsCovariance)
        assert some == (price[0] == 0.0 or (price[1] == 0.0 and not isinstance(noise, Covariance)))
        assert not some or (plan.stacked.whole is None) == (price[0] == 0.0)
        whole = plan.whole(Part(residuals, plan, "test"), theta)
        profile = whole.profile_equations(draw=whole.products.draw(np.random.default_rng(0)))
        found.append((profile.equations.H, profile.equations.g, profile.N, profile.equations.logdet))
        found[-1] += (whole.determinant(gradient=True).gradient, whole.solver.solve(residuals.Z))
    for one, another, other in zip(*found, strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-7 * np.abs(other).max())
        assert_allclose(another, other, rtol=1e-7, atol=1e-7 * np.abs(other).max())


def test_a_factor_that_was_just_made_is_not_made_again(monkeypatch):
    part = part_of("one axis")
    made = []

    def counted(form):
        def noted(self, residuals, theta):
            made.append(theta)
            return form(self, residuals, theta)

        return noted

    for name in ("values", "dense"):
        monkeypatch.setattr(StackedCovariance, name, counted(getattr(StackedCovariance, name)))
    theta = theta_of(part)
    theta[0] = 0.0
    few = type(part)(part.residuals.subset([1, 2, 3]), part.plan, "fewer")
    first, second = part.plan.whole(part, theta), part.plan.whole(few, theta[1:])
    assert len(made) == 1
    assert first.solver.factor is second.solver.factor
    assert part.plan.whole(part, 2 * theta).solver.factor is not first.solver.factor
    assert len(made) == 2


def test_weights_from_neighbouring_ones():
    part = part_of("two fields")
    theta = theta_of(part)
    r = part.residuals.residual(theta)
    others = theta * (1 + 0.02 * np.random.default_rng(1).standard_normal((2, len(theta))))
    exact = np.concatenate([Stacked().weights(part, other)(r[:, :, None]) for other in others], axis=2)
    near = Stacked().reweighted(part, others, Stacked().weights(part, theta), r)
    far = Stacked().weights(part, theta)(r[:, :, None])

    assert_allclose(near, exact, rtol=0, atol=1e-3 * np.abs(exact).max())
    assert np.abs(near - exact).max() < 0.05 * np.abs(far - exact).max()


UNEVEN = Grid(x=np.cumsum(0.1 + 0.05 * np.sin(np.arange(14.0))), y=Y[:12])


@pytest.mark.parametrize(
    "noise", [PerField({"u": 0.1, "v": 0.3}), PerTime(np.where(np.arange(len(TIMES)) % 3, 0.1, 0.2))]
)
def test_terms_that_are_the_same_at_all_times_are_merged(noise, monkeypatch):
    """On nodes that are not a uniform grid, where pairs of functions are too many to be kept: the same covariance."""
    monkeypatch.setattr("bvsi.linalg.kronecker._KEPT", 1_000)
    tests = SplineTests(gap=1.6, degree=4)
    system = assemble(data_of(UNEVEN, ("u", "v")), COUPLED, discretisation=tests, stencil=TemporalTests(3, 1.5))
    (part,) = residual_likelihood(system, noise, Stacked()).parts
    stacked, theta = part.covariance.stacked, theta_of(part)
    found = stacked.pattern.matrix(stacked.values(part.residuals, theta)).toarray()
    assert_same(found, by_blocks(part, theta))
