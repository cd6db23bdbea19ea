"""A discrete space: degrees of freedom, test functions, measures, and the matrices they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import SpaceError
from bvsi.jets import Jet, Where
from bvsi.linalg import Pattern, Product
from bvsi.spaces.bilinear import Bilinear
from bvsi.spaces.measure import Measure

Array = NDArray[np.float64]

Reach: TypeAlias = Literal["cells", "facets", "recovered"]
"""How far an operator couples: within a cell, across a facet, or through a field recovered at the nodes."""


@dataclass(frozen=True, eq=False)
class Space:
    """What the residual needs of a discretisation; nothing downstream knows of elements or meshes.

    name: for people, such as ``Q1 on a grid of 51 × 51 nodes``.
    dof_points: (n, dim); test_points: (n_test, dim), where the test functions sit.
    boundary_tests: test functions that do not vanish on the boundary.
    cells: quadrature over the cells; make_boundary, make_facets: build those over the boundary and over the facets
        between cells when they are needed.
    transfer: sparse map P (n × nodes) from measured nodes to degrees of freedom; None where they are the same.
    nodal: whether the quadrature points of the cells are the degrees of freedom, so that fields enter as they are.
    """

    name: str
    dof_points: Array
    test_points: Array
    boundary_tests: NDArray[np.int64]
    cells: Measure
    make_boundary: Callable[[], Measure]
    make_facets: Callable[[], Measure]
    transfer: Any | None = None
    nodal: bool = False

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

    def measure(self, where: Where) -> Measure:
        """Quadrature over the cells, the facets between them, or the boundary; made when first asked for."""
        return self._measures[where]()

    @cached_property
    def _measures(self) -> Mapping[Where, Callable[[], Measure]]:
        return {"cells": lambda: self.cells, "facets": cache(self.make_facets), "boundary": cache(self.make_boundary)}

    @cached_property
    def _bilinear(self) -> dict[Where, Bilinear]:
        return {}

    def _forms(self, where: Where) -> Bilinear:
        if where not in self._bilinear:
            self._bilinear[where] = Bilinear(self.measure(where))
        return self._bilinear[where]

    @property
    def pattern(self) -> Pattern:
        """Pattern (n_test × n) of every matrix ∫ ∂^α v c ∂^β u over the cells."""
        return self._forms("cells").pattern

    @cached_property
    def _facet_pattern(self) -> Pattern:
        cells, facets = self.pattern, self._forms("facets").pattern
        rows = np.concatenate([cells.rows, facets.rows])
        return Pattern.from_coo(rows, np.concatenate([cells.indices, facets.indices]), cells.shape)[0]

    @cached_property
    def _chain(self) -> Product:
        return Product.plan(self.pattern, self.pattern.transpose[0])

    def reach(self, reach: Reach) -> Pattern:
        """Pattern of matrices that couple functions of a cell, of neighbouring cells, or through a recovered field."""
        if reach == "cells":
            return self.pattern
        return self._facet_pattern if reach == "facets" else self._chain.out

    @cached_property
    def _slots(self) -> dict[tuple[Where, Reach], NDArray[np.int64]]:
        return {}

    def functional(self, measure: Measure, test: Jet, g: Array) -> Array:
        """∫ ∂^test v · g for every test function v: E_testᵀ (w ∘ g).

        g: (n_q, T) or anything that broadcasts to it. Returns (n_test, T).
        """
        weighted = np.broadcast_to(g, (measure.n_points, g.shape[1])) * measure.weights[:, None]
        result: Array = measure.test.matrix(test).T @ weighted
        return result

    def bilinear(self, where: Where, test: Jet, trial: Jet, c: Array, reach: Reach = "cells") -> Array:
        """∫ ∂^test v · c · ∂^trial u on a pattern of the space: E_testᵀ diag(w ∘ c) E_trial.

        c: (n_q, T) or anything that broadcasts to it. Returns (T, nnz).
        """
        form = self._forms(where)
        values = form.values(test, trial, c)
        if where == "cells" and reach == "cells":
            return values
        return self._placed(where, reach, form.pattern, values)

    def _placed(self, where: Where, reach: Reach, pattern: Pattern, values: Array) -> Array:
        """Values (T, nnz of ``pattern``) on the wider pattern of ``reach``."""
        wide = self.reach(reach)
        if (where, reach) not in self._slots:
            self._slots[where, reach] = wide.locate(pattern.rows, pattern.indices)
        placed = np.zeros((len(values), wide.nnz))
        placed[:, self._slots[where, reach]] = values
        return placed

    def widened(self, values: Array) -> Array:
        """Values (T, nnz) on the pattern of the cells, on that of recovered fields."""
        return self._placed("cells", "recovered", self.pattern, values)

    def chained(self, outer: Array, inner: Array) -> Array:
        """Derivative through a recovered field w = M_lumped⁻¹ R(u): J_w M_lumped⁻¹ J_R, both on the pattern, (nnz,)."""
        scaled = outer / self.lumped_mass[self.pattern.indices]
        return self._chain.values(scaled, inner[self.pattern.transpose[1]])

    @cached_property
    def _tested(self) -> dict[Jet, Array]:
        return {}

    def tested(self, test: Jet) -> Array:
        """w_n ∂^test v(x_n) on the pattern, (nnz,), of a nodal space; one array per derivative, made once."""
        if test not in self._tested:
            self._tested[test] = self.bilinear("cells", test, (0,) * self.dim, np.ones((1, 1)))[0]
        return self._tested[test]

    @cached_property
    def mass(self) -> Array:
        """Mass matrix M on the pattern, ∫ v u."""
        zero = (0,) * self.dim
        values: Array = self.bilinear("cells", zero, zero, np.ones((1, 1)))[0]
        return values

    @cached_property
    def lumped_mass(self) -> Array:
        """∫ v for every test function: the row sums of M, Simpson's rule on Q2."""
        weights = self.functional(self.cells, (0,) * self.dim, np.ones((1, 1)))[:, 0]
        if weights.min() <= 1e-10 * weights.max():
            raise SpaceError(
                f"{self.name}: its mass matrix cannot be lumped, since not all of its functions have a positive mean; "
                "use InteriorPenalty() for biharmonic(...), an element P1 or Q1, or Q2 on evenly spaced nodes."
            )
        return weights
