"""The dense factor does what sparse ones do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import NotPositiveDefiniteError
from bvsi.linalg import Pattern, analyse
from bvsi.linalg.factor import DenseFactor

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
        analyse(pattern).factor(matrix[pattern.rows, pattern.indices]),
    )
    B = np.random.default_rng(1).standard_normal((N, 3))
    assert_allclose(factor.logdet(), np.linalg.slogdet(matrix)[1], rtol=1e-13)
    assert_allclose(factor.solve(B), np.linalg.solve(matrix, B), rtol=1e-11)
    assert_allclose(factor.solve(B[:, 0]), sparse.solve(B[:, 0]), rtol=1e-11)
    assert_allclose(factor.gram(B), B.T @ np.linalg.solve(matrix, B), rtol=1e-11)
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
