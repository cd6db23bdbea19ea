"""A Bᵀ at the entries of a pattern, against dense products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.linalg import Pattern, sampled_product


def random_pattern(n: int, p: int, density: float) -> Pattern:
    return Pattern.from_matrix(sparse.random_array((n, p), density=density, rng=np.random.default_rng(0)))


def factors(pattern: Pattern, m: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((pattern.shape[0], m)), rng.standard_normal((pattern.shape[1], m))


@pytest.mark.parametrize("n, p, density", [(7, 5, 0.3), (30, 40, 0.1), (1, 1, 1.0), (6, 4, 0.0), (5, 8, 1.0)])
@pytest.mark.parametrize("m", [1, 2, 64])
def test_against_dense(n, p, density, m):
    pattern = random_pattern(n, p, density)
    A, B = factors(pattern, m)
    assert_allclose(sampled_product(pattern, A, B), (A @ B.T)[pattern.rows, pattern.indices], atol=1e-13)


def test_no_columns_give_zero():
    pattern = random_pattern(7, 5, 0.5)
    assert pattern.nnz
    assert_allclose(sampled_product(pattern, *factors(pattern, 0)), np.zeros(pattern.nnz), atol=0)


def test_views_and_columns_in_fortran_order():
    """As solves return them."""
    pattern = random_pattern(12, 9, 0.4)
    A, B = factors(pattern, 6)
    expected = sampled_product(pattern, A[:, ::2].copy(), B[:, 1::2].copy())
    assert_allclose(sampled_product(pattern, np.asfortranarray(A[:, ::2]), B[:, 1::2]), expected, atol=1e-14)


def test_rows_that_do_not_fit_are_named():
    pattern = random_pattern(7, 5, 0.5)
    A, B = factors(pattern, 3)
    with pytest.raises(BvsiError, match=r"\(7, 5\) rows"):
        sampled_product(pattern, B, A)
    with pytest.raises(BvsiError, match="rows"):
        sampled_product(pattern, A[:, 0], B[:, 0])


def test_unequal_numbers_of_columns_are_refused():
    pattern = random_pattern(7, 5, 0.5)
    A, B = factors(pattern, 3)
    with pytest.raises(BvsiError, match="columns"):
        sampled_product(pattern, A, B[:, :2])
