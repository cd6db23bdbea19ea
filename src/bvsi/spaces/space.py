"""A discrete space: degrees of freedom, test functions, measures, and the matrices they make."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.common.arrays import Array
from bvsi.common.naming import Jet, MultiIndex, Sided, Where
from bvsi.errors import SpaceError
from bvsi.linalg import Kronecker, Pattern, Product
from bvsi.spaces.measure import Bilinear, Measure

Reach: TypeAlias = Literal["cells", "facets", "recovered"]
"""How far an operator couples: within a cell, across a facet, or through a field recovered at the nodes."""

# Means of functions below this part of the largest count as zero: exactly zero on P2, up to rounding. Not measured.
_NO_MEAN = 1e-10
# Spaces that are kept after they were pickled, so that parts of one system share them. Not measured.
_KEPT = 8


@dataclass(frozen=True, eq=False)
class Space:
    """What the residual needs of a discretisation; nothing downstream knows of elements or meshes.

    Attributes
    ----------
    name
        For people, such as ``Q1 on a grid of 51 × 51 nodes``.
    dof_points
        (n, dim).
    test_points
        (n_test, dim), where the test functions sit.
    boundary_tests
        Test functions that do not vanish on the boundary.
    cells
        Quadrature over the cells.
    make_boundary, make_facets
        Build those over the boundary and over the facets between cells when they are needed.
    transfer
        Sparse map P (n × nodes) from measured nodes to degrees of freedom; None where they are the same.
    nodal_tests
        Nodal tests of a nodal space, where the quadrature points of the cells are the degrees of freedom, so that
        fields enter as they are: w_n ∂^α v(x_n) as a Kronecker product (n_test × n) by α. None for all others.
    nodal_derivatives
        D_β (n × n) by β of a nodal space: derivatives of the data at the nodes, ∂^β u ≈ D_β û; D_0 is the identity.
    composes
        Whether ``nodal_tests`` also knows (α, γ), V_α D_γ with D_0 a fit that smooths: where nodes are uneven, noise
        enters integrals of its derivatives through V_α D_γ, and not through the smooth test function's derivative.
    made_by
        Makes the same space again; where it is given, the space can be pickled.
    noise_kernels
        Of noise that is blurred, k along each axis, sparse (n, n).
    """

    name: str
    dof_points: Array
    test_points: Array
    boundary_tests: NDArray[np.int64]
    cells: Measure
    make_boundary: Callable[[], Measure]
    make_facets: Callable[[], Measure]
    transfer: Any | None = None
    nodal_tests: Callable[[MultiIndex], Kronecker] | None = None
    nodal_derivatives: Callable[[MultiIndex], Kronecker] | None = None
    composes: bool = False
    made_by: Callable[[], Space] | None = None
    noise_kernels: tuple[Any, ...] = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Measures are made when asked for, by functions that cannot travel: the space is made again where it arrives.
        if self.made_by is None:
            return super().__reduce__()
        return _made_anew, (pickle.dumps((self.made_by, self.noise_kernels)),)

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

    @property
    def nodal(self) -> bool:
        """Whether the quadrature points of the cells are the degrees of freedom."""
        return self.nodal_tests is not None

    def measure(self, where: Where) -> Measure:
        """Quadrature over the cells, the facets between them, or the boundary; made when first asked for."""
        return self._measures[where]()

    @cached_property
    def _measures(self) -> Mapping[Where, Callable[[], Measure]]:
        cells = self.cells  # a function that held ``self`` would keep the space alive until cycles are collected
        return {"cells": lambda: cells, "facets": cache(self.make_facets), "boundary": cache(self.make_boundary)}

    @cached_property
    def _forms(self) -> Callable[[Where], Bilinear]:
        """Matrices over a measure, planned when first asked for."""
        measures = self._measures  # not ``self``, for the same reason
        return cache(lambda where: Bilinear(measures[where]()))

    @property
    def pattern(self) -> Pattern:
        """Pattern (n_test × n) of every matrix ∫ ∂^α v c ∂^β u over the cells."""
        return self._nodal_pattern if self.nodal else self._forms("cells").pattern

    @cached_property
    def _nodal_pattern(self) -> Pattern:
        of_points = self.cells.test.pattern
        return Pattern.deferred((self.n_tests, self.n_dofs), lambda: of_points.transpose[0])

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

        Parameters
        ----------
        g
            (n_q, T) or anything that broadcasts to it.

        Returns
        -------
        Array
            (n_test, T).
        """
        at_points = np.broadcast_to(g, (len(measure.weights), g.shape[1]))
        if self.nodal and measure is self.cells:
            return self.tests_at_nodes(test) @ at_points
        return np.asarray(measure.test.transposed(test) @ (at_points * measure.weights[:, None]))

    def bilinear(self, where: Where, test: Jet, trial: Jet, c: Array, reach: Reach = "cells") -> Array:
        """∫ ∂^test v · c · ∂^trial u on a pattern of the space: E_testᵀ diag(w ∘ c) E_trial.

        Parameters
        ----------
        c
            (n_q, T) or anything that broadcasts to it.

        Returns
        -------
        Array
            (T, nnz).
        """
        form = self._forms(where)
        values = form.values(test, trial, c)
        if where == "cells" and reach == "cells":
            return values
        return self._placed(where, reach, form.pattern, values)

    def bilinear_sum(self, where: Where, test: Jet, trials: Mapping[Jet, Array], reach: Reach = "cells") -> Array:
        """Σ_β ∫ ∂^test v · c_β · ∂^β u on a pattern of the space, for c_β (n_q,) by derivative β, (nnz,)."""
        form = self._forms(where)
        values = form.summed(test, trials)
        return values if where == reach == "cells" else self._placed(where, reach, form.pattern, values[None])[0]

    def bilinear_adjoint(self, where: Where, test: Jet, trial: Jet, G: Array, reach: Reach = "cells") -> Array:
        """w_q (E_α G E_βᵀ)_qq at the points (n_q,) for values G (nnz,) on a pattern of the space."""
        form = self._forms(where)
        if not where == reach == "cells":
            G = G[self._slots_in(where, reach, form.pattern)]
        return form.adjoint(test, trial, G)

    def _slots_in(self, where: Where, reach: Reach, pattern: Pattern) -> NDArray[np.int64]:
        """Slots of ``pattern`` in the wider one of ``reach``."""
        if (where, reach) not in self._slots:
            self._slots[where, reach] = self.reach(reach).locate(pattern.rows, pattern.indices)
        return self._slots[where, reach]

    def _placed(self, where: Where, reach: Reach, pattern: Pattern, values: Array) -> Array:
        """Values (T, nnz of ``pattern``) on the wider pattern of ``reach``."""
        placed = np.zeros((len(values), self.reach(reach).nnz))
        placed[:, self._slots_in(where, reach, pattern)] = values
        return placed

    def widened(self, values: Array) -> Array:
        """Values (T, nnz) on the pattern of the cells, on that of recovered fields."""
        return self._placed("cells", "recovered", self.pattern, values)

    def chained(self, outer: Array, inner: Array) -> Array:
        """Derivative through a recovered field w = M_lumped⁻¹ R(u): J_w M_lumped⁻¹ J_R, both on the pattern, (nnz,)."""
        scaled = outer / self.lumped_mass[self.pattern.indices]
        return self._chain.values(scaled, inner[self.pattern.transpose[1]])

    def tests_at_nodes(self, test: Jet) -> Kronecker:
        """w_n ∂^test v(x_n) of a nodal space, (n_test × n)."""
        assert self.nodal_tests is not None
        assert not isinstance(test, Sided)
        return self.nodal_tests(test)

    def derivative_at_nodes(self, index: MultiIndex) -> Kronecker:
        """D_index (n × n) of a nodal space."""
        assert self.nodal_derivatives is not None
        return self.nodal_derivatives(index)

    def by_parts(self, test: MultiIndex, moved: MultiIndex) -> tuple[MultiIndex, int]:
        """Tests and sign s of ∫ ∂^test v ∂^moved f = s Σ_n (tests)_n f_n on a nodal space, f with the data's noise."""
        if self.composes:
            return (*test, *moved), 1
        return tuple(a + m for a, m in zip(test, moved, strict=True)), (-1) ** sum(moved)

    def _of_noise(self, index: MultiIndex) -> Kronecker:
        """D_index k, for ε = k ξ with white noise ξ."""
        D = self.derivative_at_nodes(index)
        if not self.noise_kernels:
            return D
        pairs = zip(D.factors, self.noise_kernels, strict=True)
        return Kronecker(tuple(sparse.csr_array(sparse.csr_array(A) @ k) for A, k in pairs), D.rows)

    def derivative_covariance(self, a: MultiIndex, b: MultiIndex, variance: Array) -> Array:
        """Cov(D_a ε, D_b ε) at the nodes, diag(D_a diag(s) D_bᵀ) = (D_a ∘ D_b) s, for s (n or 1, T), (n, T).

        Of blurred noise with D k in the place of D, k a kernel per axis.
        """
        both = self._of_noise(a).entrywise(self._of_noise(b))
        return both @ np.broadcast_to(variance, (self.n_dofs, variance.shape[1]))

    @cached_property
    def mass(self) -> Array:
        """Mass matrix M on the pattern, ∫ v u."""
        zero = (0,) * self.dim
        if self.nodal:
            return self.tests_at_nodes(zero).entries(self.pattern.rows, self.pattern.indices)
        return np.asarray(self.bilinear("cells", zero, zero, np.ones((1, 1)))[0])

    def mass_times(self, values: Array) -> Array:
        """M u for u (n, m)."""
        if self.nodal:
            return self.tests_at_nodes((0,) * self.dim) @ values
        return np.asarray(self.pattern.matrix(self.mass) @ values)

    @cached_property
    def lumped_mass(self) -> Array:
        """∫ v for every test function: the row sums of M, Simpson's rule on Q2."""
        weights = self.functional(self.cells, (0,) * self.dim, np.ones((1, 1)))[:, 0]
        if weights.min() <= _NO_MEAN * weights.max():
            raise SpaceError(
                f"{self.name}: its mass matrix cannot be lumped, since not all of its functions have a positive mean; "
                "use InteriorPenalty() for biharmonic(...), an element P1 or Q1, or Q2 on evenly spaced nodes."
            )
        return weights


@lru_cache(maxsize=_KEPT)
def _made_anew(made_by: bytes) -> Space:
    """A space that was pickled; parts of one system that arrive one by one share it."""
    make, kernels = pickle.loads(made_by)
    space: Space = replace(make(), noise_kernels=kernels)
    return space
