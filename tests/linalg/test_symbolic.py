from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bvsi.linalg import nested_dissection

from .matrices import STRUCTURES, pattern_of
from .test_ordering import fill

pytest.importorskip("numba")
from bvsi.linalg.symbolic import analyse_pattern


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("order", ["natural", "dissection"])
def test_structure_of_the_factor(name, order):
    pattern = pattern_of(name)
    n = pattern.shape[0]
    permutation = np.arange(n) if order == "natural" else nested_dissection(pattern, np.arange(n))
    symbolic = analyse_pattern(pattern, permutation)
    assert_array_equal(np.sort(symbolic.permutation), np.arange(n))
    assert fill(pattern, symbolic.permutation) == fill(pattern, permutation)  # a postorder does not change the fill

    stored = np.zeros((n, n), dtype=bool)
    for J in range(len(symbolic.first) - 1):
        columns = np.arange(symbolic.first[J], symbolic.first[J + 1])
        rows = symbolic.rows[symbolic.row_start[J] : symbolic.row_start[J + 1]]
        assert_array_equal(rows[: len(columns)], columns)
        assert np.all(np.diff(rows) > 0)
        assert symbolic.value_start[J + 1] - symbolic.value_start[J] == len(rows) * len(columns)
        stored[np.ix_(rows, columns)] = True
    permuted = pattern.matrix(np.ones(pattern.nnz)).toarray()[np.ix_(symbolic.permutation, symbolic.permutation)]
    assert stored[np.tril(permuted > 0)].all()
    # Every entry of A has a place, the mirrored pair the same one, and the places differ otherwise.
    _, mirror = pattern.transpose
    assert_array_equal(symbolic.slots, symbolic.slots[mirror])
    assert len(np.unique(symbolic.slots[symbolic.lower])) == len(symbolic.lower) == (pattern.nnz + n) // 2
    assert_array_equal(symbolic.slots[pattern.locate(symbolic.permutation, symbolic.permutation)], symbolic.diagonal)
