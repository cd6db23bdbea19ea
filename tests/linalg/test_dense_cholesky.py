"""Dense factors, and those of dense blocks near the diagonal, do what sparse ones do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import NotPositiveDefiniteError
from bvsi.linalg import Pattern, analyse
from bvsi.linalg.factor import BandedFactor, Bands, DenseFactor

N = 12


@pytest.fixture
def pattern():
    rows, columns = np.nonzero(np.abs(np.subtract.outer(np.arange(N), np.arange(N))) < 9)
    return Pattern.from_coo(rows, columns, (N, N))[0]


@pytest.fixture
def matrix(pattern):
    half = np.tril(pattern.matrix(np.random.default_rng(0).standard_normal(pattern.nnz)).toarray(), -1)
    return half + half.T + 20 * np.eye(N)


def test_it_agrees_with_the_sparse_factor_and_reads_the_lower_triangle(pattern, matrix):
    lower = np.tril(matrix) + np.triu(np.full((N, N), np.nan), 1)
    factor, sparse = (
        DenseFactor.of(lower, lambda: pattern),
        analyse(pattern, np.arange(pattern.shape[0])).factor(matrix[pattern.rows, pattern.indices]),
    )
    B = np.random.default_rng(1).standard_normal((N, 3))
    assert_allclose(factor.logdet(), np.linalg.slogdet(matrix)[1], rtol=1e-13)
    assert_allclose(factor.solve(B), np.linalg.solve(matrix, B), rtol=1e-11)
    assert_allclose(factor.solve(B[:, 0]), sparse.solve(B[:, 0]), rtol=1e-11)
    assert_allclose(factor.whiten_transposed(factor.whiten(B)), factor.solve(B), rtol=1e-11)
    assert_allclose(factor.selected_inverse(), np.linalg.inv(matrix)[pattern.rows, pattern.indices], rtol=1e-10)


def test_what_cannot_be_factorised_is_named(pattern, matrix):
    indefinite = matrix - 40 * np.outer(np.arange(N) == 4, np.arange(N) == 4)
    singular = matrix.copy()
    singular[:, -1] = singular[:, 0]
    singular[-1] = singular[0]
    broken = matrix.copy()
    broken[3, 3] = np.nan
    for A, row in ((indefinite, 4), (singular, N - 1), (broken, 3)):
        with pytest.raises(NotPositiveDefiniteError, match=f"some matrix.*row {row}") as error:
            DenseFactor.of(A, lambda: pattern, label="some matrix")
        assert error.value.row == row


def banded(N, K, below, monkeypatch, panel=6):
    """A matrix of blocks near the diagonal, its pattern, and its lower triangle in panels of about six columns."""
    monkeypatch.setattr("bvsi.linalg.factor._PANEL", panel)
    block = np.arange(N * K) // N
    near = np.abs(np.subtract.outer(block, block)) <= below
    root = np.where(np.tril(near), np.random.default_rng(2).standard_normal(near.shape), 0.0) + 4 * np.eye(N * K)
    matrix, bands = root @ root.T, Bands(N, K, below)
    rows, columns = np.nonzero(np.tril(near))
    values = np.zeros(bands.size)
    values[bands.places(rows, columns)] = matrix[rows, columns]
    panels = [values[place : place + c * (c + m)] for _, c, m, place in bands.panels]
    return matrix, Pattern.from_coo(*np.nonzero(near), near.shape)[0], bands, panels


@pytest.mark.parametrize("shape", [(3, 9, 2), (6, 7, 3), (2, 8, 1), (5, 1, 0), (3, 5, 4), (4, 6, 0)])
def test_panels_give_the_factor_of_the_whole_matrix(shape, monkeypatch):
    matrix, pattern, bands, values = banded(*shape, monkeypatch)
    factor = BandedFactor.of(bands, values, lambda: pattern)
    B = np.random.default_rng(1).standard_normal((len(matrix), 3))
    assert_allclose(factor.logdet(), np.linalg.slogdet(matrix)[1], rtol=1e-12)
    assert_allclose(factor.solve(B), np.linalg.solve(matrix, B), rtol=1e-9, atol=1e-12)
    assert_allclose(factor.solve(B[:, 0]), np.linalg.solve(matrix, B[:, 0]), rtol=1e-9, atol=1e-12)
    expected = np.linalg.inv(matrix)[pattern.rows, pattern.indices]
    assert_allclose(factor.selected_inverse(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "banded"])
def test_draws_have_the_covariance_of_the_matrix(kind, monkeypatch):
    matrix, pattern, bands, values = banded(3, 9, 2, monkeypatch)
    factor = BandedFactor.of(bands, values, lambda: pattern)
    if kind == "dense":
        factor = DenseFactor.of(matrix.copy(), lambda: pattern)
    drawn, solved = factor.draws(5, np.random.default_rng(3))
    assert_allclose(matrix @ solved, drawn, rtol=1e-9, atol=1e-12)
    white = np.random.default_rng(3).standard_normal(drawn.shape)
    assert_allclose(np.sum(drawn * solved, axis=0), np.sum(white**2, axis=0), rtol=1e-9)


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_panels_that_cannot_be_factorised_are_named(value, monkeypatch):
    _, pattern, bands, values = banded(3, 9, 2, monkeypatch)
    bands.panel(values, 13 // 6)[2][1, 1] = value
    with pytest.raises(NotPositiveDefiniteError, match="some matrix") as error:
        BandedFactor.of(bands, values, lambda: pattern, label="some matrix")
    assert error.value.row == 13
