"""Time stencils: exactness orders and the values of the table."""

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.errors import DataError
from bvsi.operators import Library
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, assemble

UNIFORM = np.linspace(1.0, 3.0, 6)
UNEVEN = np.array([0.0, 0.1, 0.5, 0.6, 1.5, 1.7, 4.0])
STENCILS = [(BackwardEuler(), 1), (CrankNicolson(), 2), (BDF2(), 2)]


def label(value):
    return type(value).__name__ if isinstance(value, (BackwardEuler, CrankNicolson, BDF2)) else None


@pytest.mark.parametrize("times", [UNIFORM, UNEVEN], ids=["uniform", "uneven"])
@pytest.mark.parametrize(("stencil", "order"), STENCILS, ids=label)
def test_exact_for_polynomials_up_to_the_order(stencil, order, times):
    """Σ_j a_kj u(t_j) = Σ_j b_kj u′(t_j) for u = t^p, p ≤ order, and not beyond."""
    a, b = stencil.matrices(times)
    for p in range(order + 1):
        slope = p * times ** max(p - 1, 0)
        assert a @ times**p == pytest.approx(b @ slope, abs=1e-11)
    beyond = order + 1
    assert np.abs(a @ times**beyond - b @ (beyond * times**order)).min() > 1e-3


@pytest.mark.parametrize(("stencil", "order"), STENCILS, ids=label)
def test_rows_of_a_annihilate_constants_and_rows_of_b_average(stencil, order):
    a, b = stencil.matrices(UNEVEN)
    assert a.shape == b.shape == (len(UNEVEN) - (2 if isinstance(stencil, BDF2) else 1), len(UNEVEN))
    assert a.sum(axis=1) == pytest.approx(np.zeros(a.shape[0]), abs=1e-12)
    assert b.sum(axis=1) == pytest.approx(np.ones(b.shape[0]))


@pytest.mark.parametrize(
    ("stencil", "a_row", "b_row"),
    [
        (BackwardEuler(), [-1, 1], [0, 1]),
        (CrankNicolson(), [-1, 1], [0.5, 0.5]),
        (BDF2(), [0.5, -2, 1.5], [0, 0, 1]),
    ],
    ids=label,
)
def test_equal_steps_give_the_table(stencil, a_row, b_row):
    h = 0.25
    times = 2 + h * np.arange(6)
    a, b = (matrix.toarray() for matrix in stencil.matrices(times))
    K, m = a.shape[0], len(a_row)
    assert K + m == 7
    for k in range(K):
        expected = np.zeros((2, 6))
        expected[:, k : k + m] = [np.array(a_row) / h, b_row]
        assert a[k] == pytest.approx(expected[0], abs=1e-12)
        assert b[k] == pytest.approx(expected[1], abs=1e-12)


@pytest.mark.parametrize(("stencil", "order"), STENCILS, ids=label)
def test_no_stored_zeros(stencil, order):
    for matrix in stencil.matrices(UNEVEN):
        assert np.all(matrix.data != 0)


def test_too_few_times_are_refused():
    with pytest.raises(DataError, match="BDF2 needs at least 3 times, the data have 2"):
        BDF2().matrices(np.array([0.0, 1.0]))
    with pytest.raises(DataError, match="BackwardEuler needs at least 2"):
        BackwardEuler().matrices(np.array([0.0]))
    data = Data(np.array([0.0, 1.0]), {"u": np.ones((2, 5))}, Grid(x=np.linspace(0, 1, 5)))
    with pytest.raises(DataError, match="3 times"):
        assemble(data, Library({"u": ["u"]}), stencil=BDF2())
