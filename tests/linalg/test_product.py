from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError
from bvsi.linalg import Pattern, Product


def random_pattern(shape: tuple[int, int], density: float, seed: int) -> Pattern:
    return Pattern.from_matrix(sparse.random_array(shape, density=density, rng=np.random.default_rng(seed)))


@pytest.mark.parametrize("n, p, k, density", [(7, 5, 9, 0.3), (30, 40, 20, 0.1), (1, 1, 1, 1.0), (6, 4, 5, 0.0)])
@pytest.mark.parametrize("sets", [1, 3])
def test_against_dense(n, p, k, density, sets):
    left, right = random_pattern((n, k), density, 0), random_pattern((p, k), density, 1)
    product = Product.plan(left, right)
    rng = np.random.default_rng(2)
    A, B = rng.standard_normal((sets, left.nnz)), rng.standard_normal((sets, right.nnz))
    expected = sum(left.matrix(a).toarray() @ right.matrix(b).toarray().T for a, b in zip(A, B, strict=True))
    assert product.out.shape == (n, p)
    assert_allclose(product.out.matrix(product.values(A, B)).toarray(), expected, atol=1e-14)


def test_one_value_set_may_be_flat():
    pattern = random_pattern((6, 8), 0.4, 0)
    product = Product.plan(pattern, pattern)
    a = np.random.default_rng(0).standard_normal(pattern.nnz)
    assert_array_equal(product.values(a, a), product.values(a[None], a[None]))


def test_cancelling_sums_stay_on_the_pattern():
    left = Pattern.from_matrix(sparse.csr_array(np.ones((2, 2))))
    product = Product.plan(left, left)
    values = product.values([1.0, 1.0, 2.0, 3.0], [1.0, -1.0, 1.0, 0.0])
    assert product.out.nnz == 4
    assert_array_equal(values, [0.0, 1.0, -1.0, 2.0])
    assert_array_equal(product.values(np.zeros((2, 4)), np.ones((2, 4))), np.zeros(4))


def test_mismatches_are_named():
    left, right = random_pattern((3, 4), 0.5, 0), random_pattern((3, 5), 0.5, 0)
    with pytest.raises(BvsiError, match="as many columns"):
        Product.plan(left, right)
    product = Product.plan(left, left)
    with pytest.raises(BvsiError, match="right_values must have shape"):
        product.values(np.ones(left.nnz), np.ones(left.nnz + 1))
    with pytest.raises(BvsiError, match="2 value sets"):
        product.values(np.ones((2, left.nnz)), np.ones((3, left.nnz)))


@pytest.mark.parametrize("n, k, density", [(7, 9, 0.3), (30, 20, 0.1), (1, 1, 1.0), (5, 6, 0.0)])
@pytest.mark.parametrize("sets", [1, 3])
def test_a_symmetric_product_is_the_product_and_exactly_symmetric(n, k, density, sets):
    pattern = random_pattern((n, k), density, 0)
    product = Product.plan(pattern, pattern)
    rng = np.random.default_rng(2)
    A, scale = rng.standard_normal((sets, pattern.nnz)), rng.uniform(1, 2, k)
    A[:, ::3] = 0.0
    found = product.values(A * scale[pattern.indices], A, symmetric=True)
    assert_allclose(found, product.values(A * scale[pattern.indices], A), atol=1e-14)
    dense = product.out.matrix(found).toarray()
    assert_array_equal(dense, dense.T)


@pytest.mark.parametrize("n, p, k, density", [(7, 5, 9, 0.3), (30, 40, 20, 0.1), (1, 1, 1, 1.0), (6, 4, 5, 0.0)])
@pytest.mark.parametrize("sets", [1, 3])
def test_the_gradient_is_that_of_dense_algebra(n, p, k, density, sets):
    """⟨W, A Bᵀ⟩ is linear in B, with the slope Wᵀ A on its pattern."""
    left, right = random_pattern((n, k), density, 0), random_pattern((p, k), density, 1)
    product = Product.plan(left, right)
    rng = np.random.default_rng(2)
    A, B = rng.standard_normal((sets, left.nnz)), rng.standard_normal((sets, right.nnz))
    W = rng.standard_normal(product.out.nnz)
    found = product.gradient(W, A)
    dense = np.stack([product.out.matrix(W).toarray().T @ left.matrix(a).toarray() for a in A])
    assert_allclose(found, dense[:, right.rows, right.indices], atol=1e-13)
    assert_allclose((found * B).sum(), W @ product.values(A, B), atol=1e-12)


def test_a_gradient_names_what_does_not_fit():
    pattern = random_pattern((3, 4), 0.5, 0)
    product = Product.plan(pattern, pattern)
    with pytest.raises(BvsiError, match="weights must have shape"):
        product.gradient(np.ones(product.out.nnz + 1), np.ones(pattern.nnz))
