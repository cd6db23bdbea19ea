"""Boundary conditions, and the treatments of ∇⁴ that depend on them.

A boundary term is dropped only where the declared condition proves it zero; otherwise it is assembled from the
data, or refused. Periodic directions have no boundary and need no condition.

Operators with more than two derivatives have boundary terms with ∂v/∂n as well, which no data on the boundary give
well. Unless ``ZeroNeumann`` is declared for all fields that such an operator reads, its equation is tested only with
functions away from the boundary, which share no cell with a function that does not vanish there.

Treatments of ∇⁴ are texts of the operator language:

    interior penalty  ∫ ∇²v ∇²c + Σ_E ∫ (α/h_E) [∇v][∇c] − ⟨∇²c⟩[∇v] − [∇c]⟨∇²v⟩      (eq:cahn_hilliard_biharmonic_term)
    conforming        the same on C1 elements, on which [∇v] = [∇c] = 0 inside: E are the facets of the boundary only
    mixed             −∫ ∇v · ∇w,   w = M_lumped⁻¹ ∫ v ∇²c,   that is K M_lumped⁻¹ K c

The first suits solutions of its own; on samples of smooth fields the last is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from bvsi.errors import OperatorError


@dataclass(frozen=True)
class BoundaryCondition:
    """What is known about a field (and its equation) on the boundary."""

    #: Whether the equation is tested only with functions that are zero on the boundary.
    tests_vanish: bool = False


@dataclass(frozen=True)
class NoFlux(BoundaryCondition):
    """The total normal flux of the equation is zero: the boundary terms of its operators cancel in the sum.

    With four derivatives this is one condition of the two that are needed: tested away from the boundary only.
    """


@dataclass(frozen=True)
class ZeroNeumann(BoundaryCondition):
    """∇u·n = 0, and ∇(∇²u)·n = 0 where an operator has four derivatives: the field continues as its mirror image.

    Terms that do not vanish by this alone are assembled from the data.
    """


@dataclass(frozen=True)
class Dirichlet(BoundaryCondition):
    """u is prescribed on the boundary: test functions vanish there, and so do all boundary terms.

    With four derivatives test functions stay away from the boundary, so that their slopes vanish on it too.
    """

    tests_vanish: bool = True


@dataclass(frozen=True)
class Unknown(BoundaryCondition):
    """Nothing is known (the default): only test functions that vanish on the boundary are used, always valid.

    With four derivatives test functions stay away from the boundary, so that their slopes vanish on it too.
    """

    tests_vanish: bool = True


@dataclass(frozen=True)
class Assembled(BoundaryCondition):
    """No condition is used: every boundary term is assembled from the data."""


class Biharmonic(Protocol):
    """A treatment of ∇⁴."""

    @property
    def name(self) -> str:
        """For people."""

    def text(self, argument: str, condition: BoundaryCondition) -> str:
        """∇⁴ of the argument, an operator text, in terms that the element carries."""


@dataclass(frozen=True)
class InteriorPenalty:
    """C0 interior penalty on second-order elements.

    Parameters
    ----------
    alpha
        α of the penalty α/h_E, h_E the length of the facet; by default twice what the mesh needs for a positive form (8
        on right isosceles triangles, 16 on squares).
    boundary
        Whether boundary facets take part. The paper's form has interior facets only and so leaves ∇c·n free, even
        where it is declared zero; ``boundary=False`` reproduces that.
    """

    alpha: float | None = None
    boundary: bool = True

    def __post_init__(self) -> None:
        if self.alpha is not None and not 0 < self.alpha < np.inf:
            raise OperatorError(f"alpha: a positive penalty is needed, such as 8 on triangles; got {self.alpha!r}.")

    @property
    def name(self) -> str:
        """For people."""
        penalty = "automatic penalty" if self.alpha is None else f"α = {self.alpha:g}"
        return f"interior penalty ({penalty}{'' if self.boundary else ', interior facets only'})"

    def text(self, argument: str, condition: BoundaryCondition) -> str:
        """Cells and facets; on the boundary what the condition calls for."""
        a = f"({argument})"
        facet = _facet(a, "penalty" if self.alpha is None else f"{float(self.alpha)!r}/h")
        inside = f"{_cells(a)} + facets({facet})"
        if not self.boundary:
            return inside
        if isinstance(condition, Assembled):
            raise OperatorError(
                "biharmonic: its flux through the boundary has three derivatives, which no available element carries; "
                "declare ZeroNeumann(), NoFlux(), or leave the condition unknown."
            )
        if isinstance(condition, ZeroNeumann):
            return f"{inside} + boundary({facet})"
        return f"{inside} - boundary(laplacian({a})*jump(grad(test)))"


@dataclass(frozen=True)
class Conforming:
    """∇⁴ on elements that carry four derivatives (C1): no facets inside, ∇c·n = 0 by penalty where it is declared."""

    name: ClassVar[str] = "conforming"

    def text(self, argument: str, condition: BoundaryCondition) -> str:
        """Cells and boundary facets; without ZeroNeumann integration by parts says it all."""
        a = f"({argument})"
        if isinstance(condition, ZeroNeumann):
            return f"{_cells(a)} + boundary({_facet(a, 'penalty')})"
        return f"laplacian(laplacian({a}))"


@dataclass(frozen=True)
class Mixed:
    """The Laplacian of the recovered Laplacian, K M_lumped⁻¹ K: for P1, Q1 and Q2 (Simpson lumping), not for P2."""

    name: ClassVar[str] = "mixed (K M_lumped⁻¹ K)"

    def text(self, argument: str, condition: BoundaryCondition) -> str:
        """laplacian(recover(laplacian(c)))."""
        del condition
        return f"laplacian(recover(laplacian({argument})))"


def _cells(a: str) -> str:
    """∫ ∇²v ∇²a."""
    return f"cells(laplacian(test)*laplacian({a}))"


def _facet(a: str, penalty: str) -> str:
    """(α/h_E) [∇v][∇a] − ⟨∇²a⟩[∇v] − [∇a]⟨∇²v⟩."""
    return (
        f"{penalty}*jump(grad(test))*jump(grad({a})) - avg(laplacian({a}))*jump(grad(test))"
        f" - jump(grad({a}))*avg(laplacian(test))"
    )
