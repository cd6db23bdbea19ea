"""A discrete space: degrees of freedom, test functions, measures, and the matrices they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.linalg import Pattern, Product
from bvsi.spaces.measure import Measure, MultiIndex

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Space:
    """What the residual needs of a discretisation; nothing downstream knows of elements or meshes.

    name: for people, such as ``Q1 on a grid of 51 × 51 nodes``.
    dof_points: (n, dim); test_points: (n_test, dim), where the test functions sit.
    boundary_tests: test functions that do not vanish on the boundary.
    cells: quadrature over the cells; make_boundary: builds the quadrature over the boundary when it is needed.
    transfer: sparse map P (n × nodes) from measured nodes to degrees of freedom; None where they are the same.
    """

    name: str
    dof_points: Array
    test_points: Array
    boundary_tests: NDArray[np.int64]
    cells: Measure
    make_boundary: Callable[[], Measure]
    transfer: Any | None = None

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom of one field."""
        return len(self.dof_points)

    @property
    def n_tests(self) -> int:
        """Number of test functions of one equation."""
        return len(self.test_points)

    @property
    def dim(self) -> int:
        """Spatial dimension."""
        return int(self.dof_points.shape[1])

    @cached_property
    def boundary(self) -> Measure:
        """Quadrature over the boundary facets."""
        return self.make_boundary()

    @cached_property
    def _cell_product(self) -> Product:
        return _product(self.cells)

    @cached_property
    def _boundary_product(self) -> tuple[Product, NDArray[np.int64]]:
        product = _product(self.boundary)
        return product, self.pattern.locate(product.out.rows, product.out.indices)

    @property
    def pattern(self) -> Pattern:
        """Pattern (n_test × n) of every matrix ∫ ∂^α v c ∂^β u."""
        return self._cell_product.out

    def functional(self, measure: Measure, test: MultiIndex, g: Array) -> Array:
        """∫ ∂^test v · g for every test function v: E_testᵀ (w ∘ g).

        g: (n_q, T) or anything that broadcasts to it. Returns (n_test, T).
        """
        weighted = np.broadcast_to(g, (measure.n_points, g.shape[1])) * measure.weights[:, None]
        result: Array = measure.test.matrix(test).T @ weighted
        return result

    def bilinear(self, *, boundary: bool, test: MultiIndex, trial: MultiIndex, c: Array) -> Array:
        """∫ ∂^test v · c · ∂^trial u on the pattern of the space: E_testᵀ diag(w ∘ c) E_trial.

        c: (n_q,) or (1,). Returns (nnz,).
        """
        measure = self.boundary if boundary else self.cells
        weights = measure.weights * c
        pattern, order = measure.test.pattern.transpose
        left = measure.test.entries(test)[order] * weights[pattern.indices]
        right = measure.trial.entries(trial)[measure.trial.pattern.transpose[1]]
        if not boundary:
            return self._cell_product.values(left, right)
        product, slots = self._boundary_product
        values = np.zeros(self.pattern.nnz)
        values[slots] = product.values(left, right)
        return values

    @cached_property
    def mass(self) -> Array:
        """Mass matrix M on the pattern, ∫ v u."""
        zero = (0,) * self.dim
        return self.bilinear(boundary=False, test=zero, trial=zero, c=np.ones(1))


def _product(measure: Measure) -> Product:
    return Product.plan(measure.test.pattern.transpose[0], measure.trial.pattern.transpose[0])
