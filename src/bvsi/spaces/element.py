"""Elements by name: P1, P2 on simplices, Q1, Q2 on intervals, quadrilaterals and hexahedra, H3 (C1) on grids.

Elements of low smoothness carry fourth-order operators by an interior penalty, the weight α/h_E of the jumps of normal
derivatives:

    α = 2 C max_K ½ Σ_{E ⊂ ∂K} h_E |E|/|K|          h_E = |E|^(1/(dim − 1))

C is the constant of the trace inequality ‖w‖²_E ≤ C |E|/|K| ‖w‖²_K for second derivatives w. Then
Σ_E h_E ‖{w}‖²_E ≤ (α/2) Σ_K ‖w‖²_K over interior facets, which makes the form coercive with a safety of two; facets
of the boundary, where nothing is averaged, use up at most that. In one dimension h_E is the mean length of the
adjoining elements. One α per mesh: 8 on right isosceles triangles, 16 on squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bvsi.common.arrays import Array
from bvsi.errors import SpaceError

# Places nearer to each other than this part of the extent are the same: far above rounding, far below a cell. Not
# measured.
SAME_PLACE = 1e-9
# α is twice what coercivity needs, so that the form stays positive with rounding and boundary facets.
_SAFETY = 2.0


@dataclass(frozen=True)
class Lagrange:
    """Continuous piecewise polynomials of a degree: total degree on simplices (P), per axis on boxes (Q).

    Attributes
    ----------
    trial_order, test_order
        Derivatives of the field and of the test function that the element carries; C0 carries one.
    """

    family: Literal["P", "Q"]
    degree: Literal[1, 2]
    trial_order: ClassVar[int] = 1
    test_order: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.family not in ("P", "Q") or self.degree not in (1, 2):
            raise SpaceError(f"element {self.family}{self.degree}: available are P1, P2, Q1, Q2.")

    @property
    def name(self) -> str:
        """Short name, such as Q2."""
        return f"{self.family}{self.degree}"

    @property
    def lumpable(self) -> bool:
        """Whether all functions have a positive mean, so that the mass matrix can be lumped: not so on P2."""
        return (self.family, self.degree) != ("P", 2)

    def trace_constant(self, dim: int) -> float:
        """C in ‖w‖²_E ≤ C |E|/|K| ‖w‖²_K for second derivatives w: one where they are constant, else (1 + 1)²."""
        return 1.0 if self.family == "P" or dim == 1 else 4.0


@dataclass(frozen=True)
class Hermite:
    """C1 piecewise cubics per axis through the nodal values, their slopes being differences of these. ::

        u(x_i) = u_i,  u′(x_i) = slope at x_i of the quadratic through x_{i−1}, x_i, x_{i+1}

    At the ends of an axis that is not periodic the quadratic goes through the three outermost nodes. Quadratics are
    reproduced; the degrees of freedom are the nodes of the grid; a basis function reaches up to three cells far.
    """

    name: ClassVar[str] = "H3"
    family: ClassVar[Literal["H"]] = "H"
    degree: ClassVar[Literal[3]] = 3
    trial_order: ClassVar[int] = 2
    test_order: ClassVar[int] = 2
    lumpable: ClassVar[bool] = True

    def trace_constant(self, dim: int) -> float:  # noqa: ARG002 - as Lagrange's
        """C in ‖w‖²_E ≤ C |E|/|K| ‖w‖²_K for second normal derivatives w, linear along the normal: (1 + 1)²."""
        return 4.0


Element = Lagrange | Hermite

P1 = Lagrange("P", 1)
P2 = Lagrange("P", 2)
Q1 = Lagrange("Q", 1)
Q2 = Lagrange("Q", 2)
H3 = Hermite()


def facet_size(area: Array, dim: int) -> Array:
    """h_E = |E|^(1/(dim − 1)), dim ≥ 2."""
    return np.asarray(area ** (1 / (dim - 1)))


def penalty_constant(element: Element, dim: int, around: Array) -> float:
    """α = 2 C max_K ½ s_K with s_K = Σ_{E ⊂ ∂K} h_E |E|/|K| given for every element, ``around`` (n_el,)."""
    return float(_SAFETY * element.trace_constant(dim) * 0.5 * around.max())
