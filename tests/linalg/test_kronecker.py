"""Kronecker products axis by axis, against the matrices that they stand for."""

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.linalg import Kronecker, kronecker
from bvsi.linalg.kronecker import Pairs, Windows, along_axes

SHAPES = {"one axis": [(5, 9)], "two axes": [(4, 7), (6, 3)], "three axes": [(2, 5), (3, 40), (4, 4)]}


def factors(name):
    """One of them is sparse, since it has few entries for its size."""
    rng = np.random.default_rng(1)
    made = [rng.standard_normal(shape) for shape in SHAPES[name]]
    if name == "three axes":
        made[1] *= rng.random(made[1].shape) < 0.08
    return made


def dense(matrices):
    total = np.ones((1, 1))
    for A in matrices:
        total = np.kron(total, A)
    return total


@pytest.fixture(params=SHAPES)
def case(request):
    matrices = factors(request.param)
    return Kronecker.of(matrices), dense(matrices)


def test_a_factor_with_few_entries_is_kept_sparse():
    kept = Kronecker.of(factors("three axes")).factors
    assert [sparse.issparse(A) for A in kept] == [False, True, False]


@pytest.mark.parametrize("columns", [1, 4])
def test_products_are_those_of_the_large_matrix(case, columns):
    V, full = case
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((full.shape[1], columns)), rng.standard_normal((full.shape[0], columns))
    assert V.shape == full.shape
    assert_allclose(V @ X, full @ X, rtol=1e-12, atol=1e-12)
    assert_allclose(V.transposed_times(Y), full.T @ Y, rtol=1e-12, atol=1e-12)
    assert_allclose(V.magnitude() @ X, np.abs(full) @ X, rtol=1e-12, atol=1e-12)


def test_some_rows(case):
    V, full = case
    rows = np.array([0, full.shape[0] - 1, 2])
    few = V.restricted(rows)
    X, Y = np.random.default_rng(3).standard_normal((2, full.shape[1], 3))
    assert few.shape == (3, full.shape[1])
    assert_allclose(few @ X, full[rows] @ X, rtol=1e-12, atol=1e-12)
    assert_allclose(few.transposed_times(Y[:3]), full[rows].T @ Y[:3], rtol=1e-12, atol=1e-12)
    assert_allclose(few.restricted(np.array([2, 0])) @ X, full[[2, 0]] @ X, rtol=1e-12, atol=1e-12)


def test_single_entries(case):
    V, full = case
    rng = np.random.default_rng(4)
    i, j = rng.integers(full.shape[0], size=30), rng.integers(full.shape[1], size=30)
    assert_allclose(V.entries(i, j), full[i, j], rtol=1e-13)
    rows = np.array([1, 0])
    assert_allclose(V.restricted(rows).entries(np.array([0, 1]), j[:2]), full[rows, j[:2]], rtol=1e-13)


def test_pairs_are_those_that_share_a_point():
    A = np.array([[1.0, 2, 0, 0], [0, 1, 1, 0], [0, 0, 0, 3]])
    pairs = Pairs.of(A)
    assert_array_equal(np.stack([pairs.left, pairs.right], axis=1), [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2]])


@pytest.mark.parametrize("name", SHAPES)
def test_products_with_a_diagonal_between(name):
    """V diag(c) Wᵀ at all pairs of functions, for several c at once."""
    left = factors(name)
    right = [np.sin(A + 1) * (A != 0) for A in left]
    pairs = [Pairs.of(A) for A in left]
    c = np.random.default_rng(5).standard_normal((3, dense(left).shape[1]))
    products = [p.products(A, B) for p, A, B in zip(pairs, left, right, strict=True)]
    found = along_axes(products, c, len(c), 1).reshape(len(c), -1)
    sizes = [len(A) for A in left]
    i, k = (np.meshgrid(*(getattr(p, end) for p in pairs), indexing="ij") for end in ("left", "right"))
    rows, columns = (np.ravel_multi_index([g.ravel() for g in ends], sizes) for ends in (i, k))
    for one, own in zip(c, found, strict=True):
        full = dense(left) @ np.diag(one) @ dense(right).T
        assert_allclose(own, full[rows, columns], rtol=1e-11, atol=1e-11)
        rest = full.copy()
        rest[rows, columns] = 0.0
        assert_array_equal(rest, 0.0)


def test_places_lead_back_from_some_rows_to_all(case):
    V, full = case
    rows = np.array([0, full.shape[0] - 1, 2])
    places = V.restricted(rows).places
    assert_allclose(places[rows], [0, 1, 2])
    assert (np.delete(places, rows) == -1).all()
    assert_allclose(V.places, np.arange(full.shape[0]))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kept", [1, 5_000_000])
def test_in_slabs_and_parts_as_dense(monkeypatch, form, kept):
    monkeypatch.setattr(kronecker, "_KEPT", kept)
    monkeypatch.setattr(kronecker, "_SLAB", 7)
    rng = np.random.default_rng(0)
    x, centres = rng.uniform(size=60), np.linspace(0, 1, 9)
    near = np.abs(x - centres[:, None]) < 0.2
    near[:, 5] = False  # a point that no function meets
    A, B = near * rng.standard_normal((2, 9, 60))
    c = rng.standard_normal((4, 60))
    pairs = Pairs.of(A)
    wanted = np.einsum("ix,tx,kx->tik", A, c, B)[:, pairs.left, pairs.right]
    assert_allclose(pairs.diagonal_products(form(A), form(B), c), wanted, atol=1e-12)


@pytest.mark.parametrize("shift", [0, 7], ids=["a band", "a band whose ends meet"])
def test_windows_are_the_matrix(shift):
    rng = np.random.default_rng(4)
    near = np.abs(np.subtract.outer(np.arange(90) // 2, np.arange(45))) < 4
    A = np.roll(np.where(near, rng.standard_normal(near.shape), 0.0), shift, axis=1)
    windows = Windows.of(A)
    assert len(windows.blocks) > 2
    X = rng.standard_normal((45, 6))
    assert_allclose(windows @ X, A @ X, atol=1e-13)
    assert_allclose(windows.on_lines(X.T), (A @ X).T, atol=1e-13)


def test_a_full_matrix_is_one_window():
    A = np.random.default_rng(5).standard_normal((9, 5))
    assert len(Windows.of(A).blocks) == 1
    assert_allclose(Windows.of(A) @ np.eye(5), A)
