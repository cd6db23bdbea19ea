"""Left sides of equations: what the operators make up, instead of a time derivative alone.

    ∂_t^m(ρ u) + F_0 = Σ_i θ_i F_i     "dt(rho*u) + u*dx(u)"   known ρ(x), and known terms F_0 with fixed coefficients
                 F_0 = Σ_i θ_i F_i     "f", "laplacian(u)"     steady: a known source, or what sets the scale

F_0 stands in y, and its derivative by the fields in C, so that the noise of the left side counts as well; ρ is in M.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bvsi.common.naming import squeeze
from bvsi.errors import OperatorError
from bvsi.operators.syntax import Operator, read

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
