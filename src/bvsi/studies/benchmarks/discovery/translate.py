"""Operator texts in PySINDy's names of features.

    "u*dx(u)" → "x0x0_1"     "dx(dx(dx(u)))" → "x0_111"     "u**2*v" → "x0^2 x1"     "laplacian(u)" → "x0_11", "x0_22"

Fields are x0, x1, … in their order, axes 1, 2, … . A feature of PySINDy is a monomial of the fields times at most one
derivative of one field; what is not a sum of such features with equal coefficients is refused.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bvsi.errors import OperatorError
from bvsi.operators.syntax import read_or_none

_AXES = {"dx": "x", "dy": "y", "dz": "z"}


@dataclass(frozen=True)
class Feature:
    """Π_f f^powers[f] · ∂^derivative(field); ``derivative`` holds axis numbers, sorted: "112" is ∂_x∂_x∂_y."""

    powers: tuple[int, ...]
    field: int = 0
    derivative: str = ""

    @property
    def name(self) -> str:
        """PySINDy's name."""
        factors = [f"x{i}" if p == 1 else f"x{i}^{p}" for i, p in enumerate(self.powers) if p]
        return " ".join(factors) + (f"x{self.field}_{self.derivative}" if self.derivative else "")


def features(text: str, fields: Sequence[str], axes: Sequence[str]) -> tuple[Feature, ...]:
    """The features whose sum the operator is.

    Parameters
    ----------
    fields, axes
        Names in PySINDy's order.
    """
    syntax = read_or_none(text)
    if syntax is None:
        raise _refused(text)
    powers: Counter[str] = Counter()
    derivatives: list[ast.Call] = []
    if not _collect(syntax.tree, fields, powers, derivatives) or len(derivatives) > 1:
        raise _refused(text)
    exponents = tuple(powers[field] for field in fields)
    if not derivatives:
        return (Feature(exponents),)
    field, parts = _derivative(derivatives[0], text, fields, axes)
    return tuple(Feature(exponents, field, part) for part in parts)


def translated(
    truth: Mapping[str, float], fields: Sequence[str], axes: Sequence[str]
) -> dict[str, dict[Feature, float]]:
    """Truth by equation and feature; names of operators carry their equation where there are several."""
    result: dict[str, dict[Feature, float]] = {field: {} for field in fields}
    for name, value in truth.items():
        equation, _, text = name.rpartition(":")
        terms = result[equation.strip() or fields[0]]
        for feature in features(text, fields, axes):
            terms[feature] = terms.get(feature, 0.0) + value
    return result


def _collect(node: ast.expr, fields: Sequence[str], powers: Counter[str], derivatives: list[ast.Call]) -> bool:
    """Gather the factors of a product; whether all are powers of fields or derivatives."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return all(_collect(side, fields, powers, derivatives) for side in (left, right))
        case ast.BinOp(left=ast.Name(id=name), op=ast.Pow(), right=ast.Constant(value=int(power))) if name in fields:
            powers[name] += power
            return power > 0
        case ast.Name(id=name) if name in fields:
            powers[name] += 1
            return True
        case ast.Call():
            derivatives.append(node)
            return True
    return False


def _derivative(node: ast.expr, text: str, fields: Sequence[str], axes: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Number of the field under nested derivatives, and the derivatives whose sum they are."""
    match node:
        case ast.Name(id=name) if name in fields:
            return fields.index(name), ("",)
        case ast.Call(func=ast.Name(id=function), args=[inner], keywords=[]):
            field, parts = _derivative(inner, text, fields, axes)
            if function == "laplacian":
                added = [2 * str(i + 1) for i in range(len(axes))]
            elif _AXES.get(function) in axes:
                added = [str(axes.index(_AXES[function]) + 1)]
            else:
                raise _refused(text)
            return field, tuple("".join(sorted(part + more)) for part in parts for more in added)
    raise _refused(text)


def _refused(text: str) -> OperatorError:
    return OperatorError(f"operator {text!r} is not a sum of PySINDy's features; leave the case out of the comparison.")
