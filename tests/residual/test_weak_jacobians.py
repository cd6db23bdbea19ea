"""Streamed Jacobians: products and inner products against the matrices, and those against differences of F."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from residual_cases import box, simplices

from bvsi.data import Data
from bvsi.operators import Library, NoFlux, Unknown, ZeroNeumann
from bvsi.residual import CrankNicolson, TemporalTests, assemble, discrete
from bvsi.residual.jacobians import combined_sensitivity
from bvsi.residual.streamed import Streamed
from bvsi.spaces import P2, Q1, Q2, Galerkin

TEXTS = {
    "u": ["laplacian(u)", "laplacian(u**3)", "u*v", "div(u*grad(v))", "-2*u*v", "u**2"],
    "v": ["laplacian(v)", "u*v", "div(exp(u)*grad(v))"],
}
CASES = {
    "Q1, no flux": (box(5, 2), Q1, NoFlux()),
    "Q2, unknown": (box(6, 2), Q2, Unknown()),
    "P2, Neumann": (simplices(3, 2, 2, seed=1), P2, ZeroNeumann()),
    "Q1, 3D": (box(3, 3), Q1, NoFlux()),
}


def residuals_of(name, seed=0, shift=None):
    geometry, element, boundary = CASES[name]
    rng = np.random.default_rng(seed)
    times = np.array([0.0, 0.2, 0.5])
    fields = {f: rng.uniform(0.5, 1.5, (3, len(geometry.points))) for f in ("u", "v")}
    if shift is not None:
        fields = {f: values + shift[f] for f, values in fields.items()}
    data = Data(times, fields, geometry, {})
    library = Library(TEXTS, boundary=boundary)
    return assemble(data, library, discretisation=Galerkin(element), stencil=CrankNicolson()).experiments[0]


@pytest.fixture(scope="module", autouse=True)
def nothing_is_kept():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discrete, "KEEP_BYTES", 0.0)
        yield


@pytest.fixture(scope="module", params=CASES)
def residuals(request):
    return request.param, residuals_of(request.param)


def dense(residuals, i, time):
    return residuals.structure.pattern.matrix(residuals.J[i].values(time)).toarray()


def test_nonlinear_operators_are_streamed_and_the_others_kept(residuals):
    _, r = residuals
    streamed = [J.streamed() is not None for J in r.J]
    assert streamed == [False, True, True, True, True, True, False, True, True]


def test_products_are_those_of_the_matrices(residuals):
    _, r = residuals
    rng = np.random.default_rng(1)
    V = rng.standard_normal((r.structure.n_state, 4))
    G = rng.standard_normal(r.structure.pattern.nnz)
    for time in range(3):
        applied, inner = r.operators_on(time, V), r.operators_inner(G, time)
        for i, J in enumerate(r.J):
            matrix = dense(r, i, time)
            assert_allclose(applied[:, :, i], matrix @ V, atol=1e-11)
            assert_allclose(J.apply(time, V), matrix @ V, atol=1e-11)
            assert_allclose(inner[i], G @ J.values(time), atol=1e-11)
            assert_allclose(J.inner(G, time), inner[i], atol=1e-12)


def test_products_at_all_times_and_their_adjoint(residuals):
    _, r = residuals
    rng = np.random.default_rng(2)
    V, W = rng.standard_normal((r.structure.n_state, 3)), rng.standard_normal((r.structure.n_rows, 3))
    for i, J in enumerate(r.J):
        expected = np.stack([dense(r, i, j) @ V[:, j] for j in range(3)], axis=1)
        assert_allclose(J.everywhere(V), expected, atol=1e-11)
        assert_allclose(np.vdot(W, J.everywhere(V)), np.vdot(J.transposed_everywhere(W), V), rtol=1e-10)


def test_a_combination_is_made_in_one_pass_and_is_the_sum(residuals):
    _, r = residuals
    theta = np.random.default_rng(3).standard_normal(len(r.J))
    whole = combined_sensitivity(r.J, theta)
    assert sum(isinstance(e, Streamed) for e in whole.terms) == 1
    for time in range(3):
        expected = sum(t * J.values(time) for t, J in zip(theta, r.J, strict=True))
        assert_allclose(r.jacobian(theta, time), expected, atol=1e-12)
        assert_allclose(whole.values(time), expected, atol=1e-12)


def test_jacobians_are_derivatives_of_the_operators(residuals):
    name, r = residuals
    rng, step = np.random.default_rng(4), 1e-5
    n = r.structure.n_dofs
    direction = {f: rng.standard_normal(n) for f in ("u", "v")}
    if r.structure.transfer is not None or list(r.structure.fields) != ["u", "v"]:
        pytest.skip("unknowns are not the nodes")
    ahead, back = (residuals_of(name, shift={f: s * step * d for f, d in direction.items()}) for s in (1, -1))
    slope = (ahead.X - back.X) / (2 * step)
    moved = np.concatenate([direction["u"], direction["v"]])
    at_times = np.stack([r.operators_on(j, moved[:, None])[:, 0] for j in range(3)], axis=1)
    expected = np.einsum("kj,nji->nki", r.structure.b.toarray(), at_times)
    assert_allclose(slope, expected, atol=1e-7 * np.abs(expected).max())


def test_equal_forms_have_one_number_and_differ_by_a_factor(residuals):
    _, r = residuals
    (one,), (other,) = r.J[2].terms, r.J[4].terms
    assert one.weights == other.weights
    assert r.J[4].scale == -2 * r.J[2].scale


def test_overflow_on_the_way_to_a_finite_derivative_is_no_warning():
    """(1 + exp(500 u))² is infinite and the derivative zero; warnings are errors here."""
    geometry = box(5, 1)
    data = Data(np.array([0.0, 0.1, 0.2]), {"u": np.full((3, len(geometry.points)), 0.9)}, geometry, {})
    (residuals,) = assemble(data, Library({"u": ["u/(1+exp(500*u))"]})).experiments
    assert np.isfinite(residuals.jacobian(np.ones(1), 1)).all()
    assert np.isfinite(residuals.operators_on(1, np.ones((len(geometry.points), 1)))).all()


@pytest.mark.parametrize("step", [1e-15, 1e9])
def test_operators_are_not_taken_for_rounding_in_another_unit_of_time(step):
    """b of temporal tests is as small as a step; a constant field still has no Laplacian."""
    geometry, times = box(6, 1), np.linspace(0, 1, 16)
    u = np.exp(-times[:, None]) * (1 + np.cos(np.pi * geometry.points[:, 0]))
    library = Library({"u": ["laplacian(u)", "u", "u**2"]})

    def X(fields, unit):
        data = Data(unit * times, {"u": fields}, geometry, {})
        return assemble(data, library, stencil=TemporalTests(3, 1.5)).experiments[0].X / unit

    assert_allclose(X(u, step), X(u, 1.0), rtol=1e-6, atol=1e-9)
    assert not X(np.ones_like(u), step)[:, :, 0].any()


@pytest.mark.parametrize("name", CASES)
def test_small_ones_are_kept_and_are_the_same(name, monkeypatch):
    streamed = residuals_of(name)
    monkeypatch.setattr(discrete, "KEEP_BYTES", 1e9)
    kept = residuals_of(name)
    assert not any(J.streamed() for J in kept.J)
    assert_allclose(kept.Z, streamed.Z, atol=1e-12 * np.abs(kept.Z).max())
    for one, other in zip(kept.J, streamed.J, strict=True):
        assert_allclose(one.values(1), other.values(1), atol=1e-11)
