"""Sensitivities to the state: constant, varying and scaled terms against dense matrices, and their sums."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose

from bvsi.linalg import Kronecker, Pattern
from bvsi.residual.jacobians import Matrix, NodalTests, Scaled, Sensitivity, Slots, combined_sensitivity

N, STATE, TIMES = 7, 10, 4
FIRST, WIDE = 5, 5
"""The factor of scaled entries belongs to the second of two fields of five nodes."""


@pytest.fixture(scope="module")
def pattern():
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(rng.random((N, STATE)) < 0.5)
    return Pattern.from_coo(rows, columns, (N, STATE))[0]


def scaled(pattern, seed, tests=None, slots=None, times=TIMES):
    """V diag(c_j) on the columns of the second field."""
    rng = np.random.default_rng(seed)
    slots = Slots(pattern, np.flatnonzero(pattern.indices >= FIRST)) if slots is None else slots
    tests = nodal_tests(pattern, slots.index, rng) if tests is None else tests
    return Scaled(slots, tests, rng.standard_normal((times, WIDE)), FIRST)


def nodal_tests(pattern, slots, rng):
    """V with entries on slots of the second field."""
    own, _ = Pattern.from_coo(pattern.rows[slots], pattern.indices[slots] - FIRST, (N, WIDE))
    return NodalTests(Kronecker.of([own.matrix(rng.standard_normal(own.nnz))]), own, slice(0, N))


def constant(pattern, seed):
    slots = Slots(pattern, np.flatnonzero(pattern.indices < 8))
    return Matrix(slots, np.random.default_rng(seed).standard_normal((1, len(slots.index))))


def varying(pattern, seed):
    slots = Slots(pattern, np.arange(0, pattern.nnz, 2))
    return Matrix(slots, np.random.default_rng(seed).standard_normal((TIMES, len(slots.index))))


def still(pattern, seed):
    """V diag(c) with the same c at all times."""
    return scaled(pattern, seed, times=1)


def dense(J, time):
    return J.pattern.matrix(J.values(time)).toarray()


@pytest.fixture(scope="module", params=["constant", "varying", "scaled", "still", "all"])
def J(request, pattern):
    kinds = {"constant": [constant], "varying": [varying], "scaled": [scaled], "still": [still, scaled]}
    kinds["all"] = [constant, varying, scaled, still]
    terms = tuple(make(pattern, 3 + i) for i, make in enumerate(kinds[request.param]))
    return Sensitivity(pattern, terms, scale=-1.5)


def test_scaled_terms_are_a_matrix_times_a_diagonal_one(pattern):
    term = scaled(pattern, 1)
    V = np.zeros((N, STATE))
    V[pattern.rows[term.slots.index], pattern.indices[term.slots.index]] = term.tests.values
    for time in range(TIMES):
        c = np.concatenate([np.zeros(FIRST), term.factor[time]])
        J = Sensitivity(pattern, (term,), scale=2.0)
        assert_allclose(dense(J, time), 2 * V @ np.diag(c), rtol=1e-14)
        assert_allclose(dense(Sensitivity(pattern, (term.times(3.0),)), time), 3 * V @ np.diag(c), rtol=1e-14)


def test_products_are_those_of_the_dense_matrix(J):
    rng = np.random.default_rng(1)
    V, G = rng.standard_normal((STATE, 3)), rng.standard_normal(J.pattern.nnz)
    for time in range(TIMES):
        assert_allclose(J.apply(time, V), dense(J, time) @ V, rtol=1e-12, atol=1e-13)
        assert_allclose(J.inner(G, time), G @ J.values(time), rtol=1e-12)


def test_everywhere_is_apply_at_every_time(J):
    V = np.random.default_rng(2).standard_normal((STATE, TIMES))
    expected = np.column_stack([J.apply(j, V[:, j : j + 1]) for j in range(TIMES)])
    assert_allclose(J.everywhere(V), expected, rtol=1e-12, atol=1e-13)


def test_transposed_everywhere_is_the_adjoint(J):
    rng = np.random.default_rng(3)
    V, W = rng.standard_normal((STATE, TIMES)), rng.standard_normal((N, TIMES))
    expected = np.column_stack([dense(J, j).T @ W[:, j] for j in range(TIMES)])
    assert_allclose(J.transposed_everywhere(W), expected, rtol=1e-12, atol=1e-13)
    assert_allclose(np.sum(W * J.everywhere(V)), np.sum(V * J.transposed_everywhere(W)), rtol=1e-12)


def test_sums_over_times_are_those_of_the_stencil(J):
    rng = np.random.default_rng(4)
    b = sparse.csr_array(np.where(rng.random((3, TIMES)) < 0.6, rng.standard_normal((3, TIMES)), 0.0))
    V, W = rng.standard_normal((STATE, TIMES)), rng.standard_normal((N, 3))
    assert_allclose(J.summed(b, V), J.everywhere(V) @ b.toarray().T, rtol=1e-12, atol=1e-13)
    assert_allclose(J.summed_transposed(b, W), J.transposed_everywhere(W @ b), rtol=1e-12, atol=1e-13)


def test_only_entries_without_time_are_constant(pattern):
    for make, expected in ((constant, True), (varying, False), (scaled, False), (still, True)):
        assert Sensitivity(pattern, (make(pattern, 0),)).constant == expected


def several(pattern):
    """Five operators: two share the matrix V, two the slots of a constant matrix, two a matrix that varies."""
    first = scaled(pattern, 1)
    second = scaled(pattern, 2, tests=first.tests, slots=first.slots)
    shared, moving = constant(pattern, 5), varying(pattern, 6)
    return (
        Sensitivity(pattern, (first, shared)),
        Sensitivity(pattern, (second,), scale=0.5),
        Sensitivity(pattern, (replace(shared, entries=shared.entries + 1.0),), scale=-2.0),
        Sensitivity(pattern, (moving,)),
        Sensitivity(pattern, (moving,), scale=0.3),
    )


@pytest.mark.parametrize(
    "weights",
    [[1.0, -2.0, 3.0, 0.7, 2.0], [0, 2.0, 0, 0, 0], [0, 0, 0, 0.0, 0], [1.0, 0, -1.0, 0, 0], [0, 0, 0, 1.0, 1.0]],
    ids=str,
)
def test_combinations_are_weighted_sums(pattern, weights):
    J = several(pattern)
    total = combined_sensitivity(J, np.array(weights))
    for time in range(TIMES):
        expected = sum(w * dense(one, time) for w, one in zip(weights, J, strict=True))
        assert_allclose(dense(total, time), expected, rtol=1e-12, atol=1e-13)


def test_what_is_shared_stands_in_a_combination_once(pattern):
    J = several(pattern)
    before = [dense(one, 1) for one in J]
    total = combined_sensitivity(J, np.array([1.0, -2.0, 3.0, 0.7, 2.0]))
    matrix, still, moving = total.terms
    assert matrix.at_nodes().tests is J[0].terms[0].tests
    assert still.constant
    assert moving.entries is J[3].terms[0].entries
    with pytest.raises(TypeError, match="nodes"):
        still.at_nodes()
    for one, values in zip(J, before, strict=True):
        assert_allclose(dense(one, 1), values, rtol=0)
