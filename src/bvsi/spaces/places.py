"""Basis functions of a scikit-fem element and their derivatives at points of cells.

    φ = φ̂(ξ)      ∇φ = F⁻ᵀ ∇̂φ̂      ∇²φ = F⁻ᵀ (∇̂²φ̂ − Σ_k ∂_kφ ∇̂²x_k) F⁻¹      F = ∂x/∂ξ

The map x(ξ) is linear on simplices, where ∇̂²x vanishes, and linear per axis on boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.common.jets import MultiIndex

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Places:
    """Points ξ (dim, n_c, n_q) of the reference cell in ``cells`` (n_c,); n_c = 1 in ξ where all cells have the same.

    mesh, element: of scikit-fem; the element has degree at most two per variable.
    """

    mesh: Any
    element: Any
    cells: Integers
    xi: Array

    @property
    def per_cell(self) -> int:
        """Points in every cell, n_q."""
        return int(self.xi.shape[2])

    def derivative(self, index: MultiIndex) -> Array:
        """∂^index of the functions of the cells at the points, (n_c n_q, m)."""
        axes = [axis for axis, order in enumerate(index) for _ in range(order)]
        made = (self._value, self._slope, self._second)[len(axes)](*axes)
        shape = (len(self.cells), self.per_cell)
        functions = range(len(self.element.doflocs))
        return np.stack([np.broadcast_to(made(i), shape).ravel() for i in functions], axis=1)

    @cached_property
    def _inverse(self) -> Array:
        """∂ξ_i/∂x_a at [i, a], (dim, dim, n_c, n_q)."""
        return np.asarray(self.mesh.mapping().invDF(self.xi, tind=self.cells))

    def _value(self) -> Callable[[int], Array]:
        """φ_i by i."""
        return lambda i: np.asarray(self.element.lbasis(self.xi, i)[0])

    def _slope(self, a: int) -> Callable[[int], Array]:
        """∂_a φ_i by i."""

        def slope(i: int) -> Array:
            gradient = reference_gradient(self.element, self.xi, i)
            return np.asarray(sum(self._inverse[k, a] * gradient[k] for k in range(len(self.xi))))

        return slope

    def _second(self, a: int, b: int) -> Callable[[int], Array]:
        """∂_a ∂_b φ_i by i."""
        bend = () if self.mesh.affine else self._bend(a, b)

        def second(i: int) -> Array:
            hessian = self._pulled(reference_hessian(self.element, self.xi, i), a, b)
            return np.asarray(hessian - sum(self._slope(k)(i) * bent for k, bent in enumerate(bend)))

        return second

    def _bend(self, a: int, b: int) -> Array:
        """(F⁻ᵀ ∇̂²x_k F⁻¹)_ab for every k, (dim, n_c, n_q)."""
        vertex_functions = self.mesh.elem()
        bend = np.zeros((len(self.xi), len(self.cells), self.per_cell))
        for v, vertices in enumerate(self.mesh.t):
            pulled = self._pulled(reference_hessian(vertex_functions, self.xi, v), a, b)
            bend += self.mesh.p[:, vertices[self.cells], None] * pulled
        return bend

    def _pulled(self, hessian: Array, a: int, b: int) -> Array:
        """(F⁻ᵀ Ĥ F⁻¹)_ab."""
        pairs = np.ndindex(hessian.shape[:2])
        return np.asarray(sum(self._inverse[i, a] * hessian[i, j] * self._inverse[j, b] for i, j in pairs))


def reference_gradient(element: Any, xi: Array, i: int) -> Array:
    """∇̂φ̂_i, (dim, n_c, n_q)."""
    return np.broadcast_to(np.asarray(element.lbasis(xi, i)[1]), xi.shape)


def reference_hessian(element: Any, xi: Array, i: int) -> Array:
    """∂̂_a ∇̂φ̂_i(ξ) = ∇̂φ̂_i(ξ + e_a/2) − ∇̂φ̂_i(ξ − e_a/2), (dim, dim, n_c, n_q).

    Exact, since gradients of an element of degree two per variable are at most quadratic in it.
    """
    dim = len(xi)
    steps = 0.5 * np.eye(dim)[:, :, None, None]
    differences = [reference_gradient(element, xi + s, i) - reference_gradient(element, xi - s, i) for s in steps]
    return np.stack(differences)
