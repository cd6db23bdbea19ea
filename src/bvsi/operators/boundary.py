"""What an equation has beside its candidates: boundary conditions with treatments of ∇⁴, and its left side.

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

A left side is what the operators make up, instead of a time derivative alone:

    ∂_t^m(ρ u) + F_0 = Σ_i θ_i F_i     "dt(rho*u) + u*dx(u)"   known ρ(x), and known terms F_0 with fixed coefficients
                 F_0 = Σ_i θ_i F_i     "f", "laplacian(u)"     steady: a known source, or what sets the scale

F_0 stands in y, and its derivative by the fields in C, so that the noise of the left side counts as well; ρ is in M.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from bvsi.common.naming import squeeze
from bvsi.errors import OperatorError
from bvsi.operators.syntax import Operator, read


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


# What a time derivative is called in the text of a left side.
_RATE = "dt"


@dataclass(frozen=True, eq=False)
class Left:
    """Left side of one equation.

    Attributes
    ----------
    text
        As it was written; empty where it is the time derivative of the field and nothing else.
    evolves
        Whether it has a time derivative.
    known
        F_0; None where it is zero.
    density
        ρ u; None where ρ is one.
    """

    text: str = ""
    evolves: bool = True
    known: Operator | None = None
    density: Operator | None = None

    def written(self, equation: str, time_order: int) -> str:
        """For people: ``u_t``, ``u_tt``, or the text."""
        return self.text or f"{equation}_{'t' * time_order}"


@dataclass(frozen=True)
class _Terms:
    """Terms of a sum with their signs: what stands in dt(...), and all others."""

    rates: list[ast.expr] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def take(self, tree: ast.expr, sign: str) -> None:
        """Sort the terms of a sum."""
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Sub):
            self.take(tree.left, sign)
            self.take(tree.right, sign if isinstance(tree.op, ast.Add) else "+" if sign == "-" else "-")
        elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == _RATE:
            if sign == "-" or len(tree.args) != 1:
                raise OperatorError("dt(...) has one argument and the sign +; turn the signs of the equation round")
            self.rates.append(tree.args[0])
        elif not (isinstance(tree, ast.Constant) and tree.value == 0):
            self.others.append(f"{sign} ({ast.unparse(tree)})")


def read_left(text: object, equation: str) -> Left:
    """The left side of the equation of a field from its text."""
    if not isinstance(text, str):
        raise OperatorError(f"left: {text!r} is not a text; write 'f', 'laplacian(u)' or 'dt(u) + u*dx(u)'.")
    syntax, terms = read(text), _Terms()
    try:
        terms.take(syntax.tree, "+")
    except OperatorError as error:
        raise OperatorError(f"left: {text!r}: {error}.") from None
    rates = [syntax.part(tree) for tree in terms.rates]
    if len(rates) > 1 or (rates and equation not in rates[0].names) or _RATE in _called(terms.others):
        raise OperatorError(
            f"left: {text!r}: the time derivative is written dt({equation}) or dt(rho*{equation}), once and as a term "
            "by itself; divide the equation by what stands before it, and write other time derivatives out."
        )
    others, name = " ".join(terms.others).removeprefix("+ "), f"left side of {equation}"
    known = Operator(name, equation, others, read(others)) if others else None
    whole = not rates or squeeze(rates[0].text) == equation
    density = None if whole else Operator(f"dt of {equation}", equation, rates[0].text, rates[0])
    return Left("" if rates and whole and known is None else text.strip(), bool(rates), known, density)


def _called(texts: Iterable[str]) -> frozenset[str]:
    return frozenset[str]().union(*(read(f"0 {text}").functions for text in texts))


def left_sides(given: object, equations: Mapping[str, Iterable[str]], named: str = "left") -> dict[str, Left]:
    """Left side by equation, of one text, one for every field, or None.

    Parameters
    ----------
    equations
        Texts of the candidates by field.
    """
    if given is None:
        return dict.fromkeys(equations, Left())
    if not isinstance(given, Mapping):
        if len(equations) > 1:
            fields = ", ".join(f"{field!r}: ..." for field in equations)
            raise OperatorError(f"{named}: there are several equations; give one for each, {{{fields}}}.")
        given = dict.fromkeys(equations, given)
    unknown = [field for field in given if field not in equations]
    if unknown:
        raise OperatorError(f"{named}: {unknown[0]!r} has no equation in the library ({', '.join(equations)}).")
    made = {f: given.get(f) or Left() for f in equations}
    sides = {f: one if isinstance(one, Left) else read_left(one, f) for f, one in made.items()}
    _check(sides, equations)
    return sides


def _check(sides: Mapping[str, Left], equations: Mapping[str, Iterable[str]]) -> None:
    """Refuse systems that are steady in part, zero on the left of all equations, and candidates that stand there."""
    if len({side.evolves for side in sides.values()}) > 1:
        missing = next(field for field, side in sides.items() if not side.evolves)
        raise OperatorError(
            f"left: the equation of {missing!r} has no time derivative and others have; discover the steady equations "
            "by themselves, in a library of their own."
        )
    if not any(side.evolves or side.known for side in sides.values()):
        raise OperatorError(
            "left: with zero on the left side all coefficients could be zero; put the operator there that sets the "
            "scale, such as left='laplacian(u)', and leave it out of the candidates."
        )
    for equation, side in sides.items():
        for text in equations[equation]:
            if side.known and squeeze(str(side.known.source)) in (squeeze(text), f"({squeeze(text)})"):
                raise OperatorError(
                    f"left: {text!r} stands on the left side of {equation!r}, where its coefficient is one; leave it "
                    "out of the candidates."
                )
