"""Elements by name: P1, P2 on simplices, Q1, Q2 on intervals, quadrilaterals and hexahedra, H3 (C1) on grids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bvsi.errors import SpaceError


@dataclass(frozen=True)
class Lagrange:
    """Continuous piecewise polynomials of a degree: total degree on simplices (P), per axis on boxes (Q)."""

    family: Literal["P", "Q"]
    degree: Literal[1, 2]

    def __post_init__(self) -> None:
        if self.family not in ("P", "Q") or self.degree not in (1, 2):
            raise SpaceError(f"element {self.family}{self.degree}: available are P1, P2, Q1, Q2.")

    @property
    def name(self) -> str:
        """Short name, such as Q2."""
        return f"{self.family}{self.degree}"

    @property
    def trial_order(self) -> int:
        """Derivatives of the field that the element carries: C0 elements carry one."""
        return 1

    @property
    def test_order(self) -> int:
        """Derivatives of the test function that the element carries."""
        return 1

    @property
    def lumpable(self) -> bool:
        """Whether all functions have a positive mean, so that the mass matrix can be lumped: not so on P2."""
        return (self.family, self.degree) != ("P", 2)

    def trace_constant(self, dim: int) -> float:
        """C in ‖w‖²_E ≤ C |E|/|K| ‖w‖²_K for second derivatives w: one where they are constant, else (1 + 1)²."""
        return 1.0 if self.family == "P" or dim == 1 else 4.0


@dataclass(frozen=True)
class Hermite:
    """C1 piecewise cubics per axis through the nodal values, their slopes being differences of these.

        u(x_i) = u_i,  u′(x_i) = slope at x_i of the quadratic through x_{i−1}, x_i, x_{i+1}

    At the ends of an axis that is not periodic the quadratic goes through the three outermost nodes. Quadratics are
    reproduced; the degrees of freedom are the nodes of the grid; a basis function reaches up to three cells far.
    """

    @property
    def name(self) -> str:
        """Short name, H3."""
        return f"{self.family}{self.degree}"

    @property
    def family(self) -> Literal["H"]:
        """H for Hermite."""
        return "H"

    @property
    def degree(self) -> Literal[3]:
        """Polynomial degree per axis."""
        return 3

    @property
    def trial_order(self) -> int:
        """Derivatives of the field that the element carries: C1 elements carry two."""
        return 2

    @property
    def test_order(self) -> int:
        """Derivatives of the test function that the element carries."""
        return 2

    @property
    def lumpable(self) -> bool:
        """Whether all functions have a positive mean."""
        return True

    def trace_constant(self, dim: int) -> float:  # noqa: ARG002 - as Lagrange's
        """C in ‖w‖²_E ≤ C |E|/|K| ‖w‖²_K for second normal derivatives w, linear along the normal: (1 + 1)²."""
        return 4.0


Element = Lagrange | Hermite

P1 = Lagrange("P", 1)
P2 = Lagrange("P", 2)
Q1 = Lagrange("Q", 1)
Q2 = Lagrange("Q", 2)
H3 = Hermite()
