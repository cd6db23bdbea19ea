"""Published weak-form columns of a Schnakenberg solution (mechanoChemML) give the published coefficients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose

from bvsi.infer import LeastSquares
from bvsi.linalg import Pattern
from bvsi.residual import Residuals, ResidualSystem, Sensitivity, Structure

FILE = Path(__file__).parents[3] / "shared" / "data" / "schnakenberg_weak_basis.dat"
OPERATORS = ("laplacian(C1)", "laplacian(C2)", "1", "C1", "C2", "C1**2*C2")

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not FILE.exists(), reason="needs ../shared/data/schnakenberg_weak_basis.dat"),
]


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return np.loadtxt(FILE)


def system_from_columns(y: np.ndarray, X: np.ndarray) -> ResidualSystem:
    """One block of residuals; least squares asks nothing of mass matrix and sensitivities."""
    n = len(y)
    structure = Structure(
        pattern=Pattern.from_matrix(sparse.eye_array(n, format="csr")),
        given=np.ones(n),
        a=sparse.csr_array(np.array([[-1.0, 1.0]])),
        b=sparse.csr_array(np.array([[0.0, 1.0]])),
        coordinates=np.zeros((n, 2)),
        equations=("C",),
        equation_of_row=np.zeros(n, dtype=np.int64),
        fields=("C",),
        n_dofs=n,
        times=np.array([0.0, 1.0]),
        transfer=None,
    )
    Z = np.column_stack([y, X])[:, None, :]
    return ResidualSystem(OPERATORS, (Residuals(structure, Z, (Sensitivity(structure.pattern, ()),) * X.shape[1]),))


@pytest.mark.parametrize(
    "first, target, published",
    [(0, 12, [0.05, 0, 0.1, -1, 0, 1]), (6, 13, [0, 2, 0.9, 0, 0, -1])],
    ids=["C1", "C2"],
)
def test_the_published_coefficients_are_found(table, first, target, published):
    assert table.shape == (5202, 14)
    system = system_from_columns(table[:, target], table[:, first : first + 6])
    fit = LeastSquares().fit(system)
    assert_allclose(fit.theta, published, atol=1e-6)
    assert fit.chi2 < 1e-12 * np.mean(table[:, target] ** 2)
