from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError
from bvsi.linalg import Pattern, nested_dissection

from .matrices import STRUCTURES, box, grid, pattern_of, star


def permuted(pattern: Pattern, p: np.ndarray) -> Pattern:
    """Pattern of A[p][:, p]."""
    return Pattern.from_matrix(pattern.matrix(np.ones(pattern.nnz))[p][:, p])


def fill(pattern: Pattern, permutation: np.ndarray) -> int:
    """Entries of L by eliminating vertices of the graph one by one; independent of the package."""
    reordered = permuted(pattern, np.asarray(permutation))
    n = pattern.shape[0]
    below = [set(reordered.indices[a:b]) for a, b in zip(reordered.indptr, reordered.indptr[1:], strict=False)]
    total = n
    for j in range(n):
        rows = {i for i in below[j] if i > j}
        total += len(rows)
        if rows:
            below[min(rows)] |= rows
    return total


def assert_permutation(p: np.ndarray, n: int) -> None:
    assert p.dtype == np.int64
    assert_array_equal(np.sort(p), np.arange(n))


@pytest.mark.parametrize(
    "A, points, share",
    [
        (box(1, 32, 32), grid(32, 32), 0.65),
        (box(2, 32, 32), grid(32, 32), 0.85),
        (star(32), grid(32, 32), 0.6),
        (box(1, 24, 24, periodic=True), grid(24, 24), 0.6),
        (sparse.kron(box(1, 20, 20), np.ones((2, 2))), np.repeat(grid(20, 20), 2, axis=0), 0.8),
        (sparse.kron(np.ones((2, 2)), box(1, 20, 20)), np.tile(grid(20, 20), (2, 1)), 0.2),
        (box(1, 10, 10, 10), grid(10, 10, 10), 0.7),
    ],
    ids=["9-point", "25-point", "5-point", "periodic", "two fields", "two stacked fields", "3d"],
)
def test_nested_dissection_reduces_fill(A, points, share):
    pattern = Pattern.from_matrix(A)
    n = pattern.shape[0]
    p = nested_dissection(pattern, points)
    assert_permutation(p, n)
    assert fill(pattern, p) < share * fill(pattern, np.arange(n))


def test_nested_dissection_does_not_depend_on_units_or_numbering():
    pattern = Pattern.from_matrix(box(1, 40, 12))
    n, points = pattern.shape[0], grid(40, 12)
    reference = fill(pattern, nested_dissection(pattern, points))
    assert fill(pattern, nested_dissection(pattern, points * [1.0, 1e4] + 7.0)) == reference
    shuffle = np.random.default_rng(0).permutation(n)
    renumbered = permuted(pattern, shuffle)
    assert_allclose(fill(renumbered, nested_dissection(renumbered, points[shuffle])), reference, rtol=0.06)


def test_ties_that_differ_by_rounding_stay_together():
    pattern = Pattern.from_matrix(box(1, 30, 30))
    points = grid(30, 30)
    noisy = points + 1e-15 * np.random.default_rng(0).standard_normal(points.shape)
    assert_array_equal(nested_dissection(pattern, noisy), nested_dissection(pattern, points))


@pytest.mark.parametrize("name", STRUCTURES)
def test_nested_dissection_survives_any_coordinates(name):
    pattern = pattern_of(name)
    n = pattern.shape[0]
    rng = np.random.default_rng(0)
    choices = [np.zeros((n, 2)), np.arange(float(n)), rng.random((n, 3)), (np.arange(n) > n // 10)[:, None]]
    for points in choices:
        assert_permutation(nested_dissection(pattern, points, leaf=1), n)


def test_bad_coordinates_are_named():
    pattern = pattern_of("chain")
    with pytest.raises(BvsiError, match=r"coordinates must be finite and of shape \(60, dim\)"):
        nested_dissection(pattern, np.zeros((59, 2)))
    with pytest.raises(BvsiError, match="finite"):
        nested_dissection(pattern, np.full((60, 2), np.nan))
