"""Operators of vectors: identities of vector analysis, invariance, one coefficient for all components."""

import numpy as np
import pytest

from bvsi import Data, Grid, Library, SplineTests
from bvsi.errors import OperatorError
from bvsi.operators.vectors import isotropic
from bvsi.residual import EachFrame, assemble

PLANE, SPACE = {"u": ("ux", "uy")}, {"u": ("ux", "uy", "uz")}


def columns(texts, u, points, vectors, p=None):
    """X of vector operators, (components, tests, texts), for u (dim, n) on a periodic box."""
    dim, n = len(u), round(u[0].size ** (1 / len(u)))
    axes = dict.fromkeys("xyz"[:dim], 2 * np.pi * np.arange(n) / n)
    fields = {name: values[None] for name, values in zip(vectors["u"], u, strict=True)}
    known = {"p": np.zeros(u[0].shape) if p is None else p}
    data = Data(np.zeros(1), fields, Grid(periodic=tuple(axes), **axes), known)
    system = assemble(
        data,
        Library({"u": texts}, vectors=vectors, left="u*p"),
        discretisation=SplineTests(gap=2, reach=4),
        stencil=EachFrame(),
    )
    X = system.experiments[0].X[:, 0]
    return X.reshape(dim, -1, dim, len(texts))[range(dim), :, range(dim)]


def waves(dim, n, seed=0):
    rng = np.random.default_rng(seed)
    points = np.stack(np.meshgrid(*[2 * np.pi * np.arange(n) / n] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    phase = [points @ rng.integers(-2, 3, dim) + rng.uniform(0, 6) for _ in range(dim)]
    return np.sin(phase), points


@pytest.mark.parametrize(
    ("dim", "one", "other"),
    [
        (2, "curl(curl(u))", "grad(div(u)) - laplacian(u)"),
        (3, "curl(curl(u))", "grad(div(u)) - laplacian(u)"),
        (2, "2*div(symgrad(u))", "laplacian(u) + grad(div(u))"),
        (3, "2*div(symgrad(u))", "laplacian(u) + grad(div(u))"),
        (2, "div(outer(u, u))", "advect(u, u) + u*div(u)"),
    ],
)
def test_identities_of_vector_analysis(dim, one, other):
    u, points = waves(dim, 12 if dim == 3 else 20)
    X = columns([one, other], u, points, PLANE if dim == 2 else SPACE)
    assert np.abs(X[..., 0]).max() > 1e-3
    np.testing.assert_allclose(X[..., 0], X[..., 1], atol=2e-3 * np.abs(X[..., 0]).max())


def test_isotropic_operators_turn_with_the_field():
    """F(R u(R⁻¹x)) = R F(u)(R⁻¹x) for the quarter turn and the mirror."""
    n = 16
    u, points = waves(2, n)
    p = np.cos(points[:, 0] + 2 * points[:, 1])
    texts = isotropic("u", ["p"], order=4)
    assert len(texts) >= 12
    X = columns(texts, u, points, PLANE, p)
    tests = round(np.sqrt(X.shape[1]))

    def mirrored(values, m):  # x → y, y → x
        return values.reshape(m, m, -1).transpose(1, 0, 2).reshape(m * m, -1)

    turned = np.stack([mirrored(u[1][:, None], n)[:, 0], mirrored(u[0][:, None], n)[:, 0]])
    Y = columns(texts, turned, points, PLANE, mirrored(p[:, None], n)[:, 0])
    for i in range(2):
        np.testing.assert_allclose(Y[i], mirrored(X[1 - i], tests), atol=1e-10 * np.abs(X).max())


def test_galilean_operators_are_the_same_to_one_who_moves():
    """F(u + c) = F(u); of the other invariant operators none is."""
    u, points = waves(2, 16)
    p = np.cos(points[:, 0] + 2 * points[:, 1])
    texts, same = isotropic("u", ["p"], order=4), isotropic("u", ["p"], order=4, galilean=True)
    assert set(same) < set(texts)
    X, Y = (columns(texts, v, points, PLANE, p) for v in (u, u + np.array([[0.7], [-0.4]])))
    moved = np.abs(X - Y).max(axis=(0, 1)) / np.abs(X).max(axis=(0, 1))
    assert {text for text, change in zip(texts, moved, strict=True) if change < 1e-3} == set(same)


def test_components_share_their_coefficients():
    library = Library({"u": ["laplacian(u)", "grad(p)"]}, vectors=PLANE, keep=["grad(p)"])
    assert library.names == ("ux: laplacian(u)", "ux: grad(p)", "uy: laplacian(u)", "uy: grad(p)")
    assert library.ties == ("[ux: laplacian(u)] == [uy: laplacian(u)]", "[ux: grad(p)] == [uy: grad(p)]")
    assert library.keep == ("ux: grad(p)", "uy: grad(p)")
    assert library.subset(["ux: grad(p)", "uy: grad(p)"]).ties == ("[ux: grad(p)] == [uy: grad(p)]",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("div(u)", "is a scalar, and its equation a vector"),
        ("u*u", "dot\\(a, b\\) or outer"),
        ("u + div(u)", "cannot be added"),
        ("grad(u)", "grad does not take"),
        ("sin(u)", "takes no vector"),
        ("binary(u)", "takes no vector"),
        ("slope(u)", "takes no vector"),
        ("dot(u)", "dot does not take"),
    ],
)
def test_what_is_no_vector_is_refused(text, why):
    with pytest.raises(OperatorError, match=why):
        Library({"u": [text]}, vectors=PLANE)


def test_scalar_equations_may_read_vectors():
    library = Library({"c": ["advect(u, c)", "c*div(u)"]}, vectors=PLANE)
    assert library.names == ("advect(u, c)", "c*div(u)")
    assert library.equations["c"][0] == "ux*dx(c) + uy*dy(c)"
