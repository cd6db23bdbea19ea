from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_array_equal

from bvsi.errors import BvsiError
from bvsi.linalg import Pattern


@pytest.fixture
def coo() -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    rng = np.random.default_rng(3)
    shape = (9, 7)  # 40 entries in 63 places: duplicates, and an empty row
    rows, cols = rng.integers(0, 8, 40), rng.integers(0, 7, 40)
    return rows, cols, shape


def test_structure_is_canonical_and_shared(coo):
    rows, cols, shape = coo
    pattern, _ = Pattern.from_coo(rows, cols, shape)
    values = np.arange(1.0, pattern.nnz + 1)
    A = pattern.matrix(values)
    assert A.has_canonical_format
    other = pattern.matrix(values)  # two matrices of one pattern share their structure
    assert np.shares_memory(A.indices, other.indices)
    assert np.shares_memory(A.indptr, other.indptr)
    assert np.shares_memory(A.data, values)
    fresh = sparse.csr_array(A.toarray())
    assert_array_equal(fresh.indices, pattern.indices)
    assert_array_equal(pattern.rows, sparse.coo_array(fresh).row)
    with pytest.raises(ValueError, match="read-only"):
        A.eliminate_zeros()  # would damage the structure that others share


def test_matrix_round_trip_keeps_stored_zeros():
    A = sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    A.data[1] = 0.0
    pattern = Pattern.from_matrix(A)
    assert pattern.nnz == 3
    assert_array_equal(pattern.gather(A), [1.0, 0.0, 3.0])


def test_from_matrix_accepts_unsorted_duplicates_and_leaves_them_alone():
    A = sparse.csr_array(([1.0, 2.0, 3.0], [1, 0, 1], [0, 3]), shape=(1, 2))
    pattern = Pattern.from_matrix(A)
    assert_array_equal(pattern.indices, [0, 1])
    assert_array_equal(pattern.gather(A), [2.0, 4.0])
    assert_array_equal(A.indices, [1, 0, 1])


def test_gather_fills_zeros_and_refuses_what_lies_outside(coo):
    pattern, _ = Pattern.from_coo(*coo)
    rng = np.random.default_rng(1)
    values = rng.standard_normal(pattern.nnz)
    values[::2] = 0.0
    thinned = sparse.csc_array(pattern.matrix(values).toarray())
    assert thinned.nnz < pattern.nnz
    assert_array_equal(pattern.gather(thinned), values)
    outside = thinned.tolil()
    outside[8, 0] = 1.0
    with pytest.raises(BvsiError, match=r"outside the pattern, the first at \(8, 0\)"):
        pattern.gather(outside.tocsr())
    with pytest.raises(BvsiError, match="shape"):
        pattern.gather(thinned.T)
    with pytest.raises(BvsiError, match="sparse"):
        pattern.gather(values.reshape(1, -1) @ np.zeros((pattern.nnz, 7)) + np.zeros((9, 7)))


def test_locate_says_where_there_is_nothing(coo):
    rows, cols, shape = coo
    pattern, positions = Pattern.from_coo(rows, cols, shape)
    assert_array_equal(pattern.locate(rows, cols), positions)
    i, j = np.indices(shape)
    slots = pattern.locate(i, j)
    present = pattern.matrix(np.ones(pattern.nnz)).toarray() > 0
    assert_array_equal(slots >= 0, present)
    assert_array_equal(slots[present], np.arange(pattern.nnz))
    assert_array_equal(pattern.locate([-1, 9, 0, 1], [0, 0, 7, -1]), [-1] * 4)
    empty, _ = Pattern.from_coo([], [], (2, 2))
    assert_array_equal(empty.locate([0, 1], [1, 1]), [-1, -1])


def test_transpose(coo):
    pattern, _ = Pattern.from_coo(*coo)
    values = np.random.default_rng(2).standard_normal(pattern.nnz)
    transposed, p = pattern.transpose
    assert_array_equal(transposed.matrix(values[p]).toarray(), pattern.matrix(values).toarray().T)
    assert transposed.matrix(values[p]).has_canonical_format
    assert np.all(np.diff(transposed.rows * 100 + transposed.indices) > 0)


@pytest.mark.parametrize("keep", [np.array([5, 0, 0, 8, 3]), np.array([], dtype=np.int64), np.arange(9) % 2 == 0])
def test_restrict_rows(coo, keep):
    pattern, _ = Pattern.from_coo(*coo)
    values = np.random.default_rng(2).standard_normal(pattern.nnz)
    sub, slots = pattern.restrict_rows(keep)
    assert_array_equal(sub.matrix(values[slots]).toarray(), pattern.matrix(values).toarray()[keep])


def test_bad_input_is_named(coo):
    with pytest.raises(BvsiError, match="rows must lie in 0 … 2"):
        Pattern.from_coo([3], [0], (3, 3))
    with pytest.raises(BvsiError, match="one length"):
        Pattern.from_coo([1, 2], [0], (3, 3))
    pattern, _ = Pattern.from_coo(*coo)
    with pytest.raises(BvsiError, match="values must have shape"):
        pattern.matrix(np.ones(pattern.nnz + 1))
    with pytest.raises(BvsiError, match="keep"):
        pattern.restrict_rows(np.array([9]))


def test_a_deferred_pattern_is_made_when_it_is_asked_for():
    made = []

    def make():
        made.append(True)
        return Pattern.from_coo([0, 1, 1], [2, 0, 1], (2, 3))[0]

    deferred = Pattern.deferred((2, 3), make)
    assert deferred.shape == (2, 3)
    assert not made
    np.testing.assert_array_equal(deferred.indices, [2, 0, 1])
    np.testing.assert_array_equal(deferred.transpose[0].indptr, [0, 1, 2, 3])
    sent = pickle.loads(pickle.dumps(deferred))
    np.testing.assert_array_equal(sent.indptr, deferred.indptr)
    assert made == [True]
