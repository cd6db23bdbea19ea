"""Lagrange elements by name: P1, P2 on simplices, Q1, Q2 on intervals, quadrilaterals and hexahedra."""

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


P1 = Lagrange("P", 1)
P2 = Lagrange("P", 2)
Q1 = Lagrange("Q", 1)
Q2 = Lagrange("Q", 2)
