"""Aᵀ diag(c) B for many c against dense algebra, and its adjoint."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.linalg import Congruence, Pattern


def random_pattern(rng, shape):
    return Pattern.from_coo(*np.nonzero(rng.random(shape) < 0.4), shape)[0]


def case(seed=0):
    rng = np.random.default_rng(seed)
    left, right = random_pattern(rng, (9, 5)), random_pattern(rng, (9, 6))
    return Congruence.plan(left, right), rng.standard_normal(left.nnz), rng.standard_normal(right.nnz), rng


def test_values_are_those_of_dense_products():
    plan, A, B, rng = case()
    c = rng.standard_normal((9, 4))
    found = plan.values(A, B, c)
    for values, one in zip(found, c.T, strict=True):
        dense = plan.left.matrix(A).toarray().T @ np.diag(one) @ plan.right.matrix(B).toarray()
        assert_allclose(plan.out.matrix(values).toarray(), dense, atol=1e-13)


def test_the_adjoint_is_the_adjoint():
    plan, A, B, rng = case(1)
    c, G = rng.standard_normal((9, 1)), rng.standard_normal(plan.out.nnz)
    assert_allclose(plan.adjoint(A, B, G) @ c[:, 0], G @ plan.values(A, B, c)[0], rtol=1e-12)


def test_matrices_that_do_not_fit_are_refused():
    rng = np.random.default_rng(2)
    with pytest.raises(BvsiError, match="as many rows"):
        Congruence.plan(random_pattern(rng, (4, 3)), random_pattern(rng, (5, 3)))
