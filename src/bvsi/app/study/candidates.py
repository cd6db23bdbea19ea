"""Operators to begin with: what equations of physics are mostly made of, few enough to be distinguished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from bvsi.operators import polynomials

MAX_CANDIDATES = 14
"""Operators of one equation."""

# Series up to which monomials of degree three are suggested: twenty of three; not measured.
_CUBIC = 3

_THIRD_AND_FOURTH = ("dx(dx(dx({u})))", "biharmonic({u})")


def suggested_operators(
    fields: Sequence[str], axes: Sequence[str], *, splines: bool = True, limit: int = MAX_CANDIDATES
) -> dict[str, list[str]]:
    """Candidates by field, the likeliest first; of series all monomials.

    Parameters
    ----------
    fields
        Measured fields.
    axes
        Names of the coordinates, ``("x", "y")``.
    splines
        Whether the data allow spline tests for third and fourth derivatives; without them there are none.
    limit
        Operators of one equation.
    """
    if not axes:
        degree = 3 if len(fields) <= _CUBIC else 2
        return {field: polynomials(fields, degree) for field in fields}
    suggested = {}
    for field in fields:
        others = [other for other in fields if other != field]
        ranked = _system(field, others, axes, splines) if others else _own(field, axes, splines)
        suggested[field] = list(dict.fromkeys(ranked))[:limit]
    return suggested


def steady_sides(operators: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Candidates of one frame, in which nothing moves, and left sides: the Laplacian sets the scale."""
    left = {field: f"laplacian({field})" for field in operators}
    return {field: [text for text in texts if text != left[field]] for field, texts in operators.items()}, left


def _own(u: str, axes: Sequence[str], splines: bool) -> list[str]:
    """Reaction, transport and diffusion of one field."""
    transport = [f"d{axis}({u})" for axis in axes]
    steepening = [f"{u}*d{axis}({u})" for axis in axes]
    high = [text.format(u=u) for text in _THIRD_AND_FOURTH] if splines else []
    if tuple(axes) != ("x",):
        high = [text for text in high if "dx" not in text]
    diffusion = [f"laplacian({u})", *transport, *steepening, *high, f"laplacian({u}**2)", f"laplacian({u}**3)"]
    return [u, f"{u}**2", f"{u}**3", *diffusion, "1"]


def _system(u: str, others: Sequence[str], axes: Sequence[str], splines: bool) -> list[str]:
    """Reactions with other fields before everything that one field may do alone."""
    products = [f"{a}*{b}" for a, b in combinations((u, *others), 2) if u in (a, b)]
    cubic = [text for v in others for text in (f"{u}**2*{v}", f"{u}*{v}**2")]
    diffusion = [f"laplacian({u})", *(f"laplacian({v})" for v in others[:2])]
    front = [u, *others, "1", diffusion[0], f"{u}**2", *products, *cubic, f"{u}**3", *diffusion[1:]]
    powers = [f"{v}**{n}" for n in (2, 3) for v in others]
    return [*front, *powers, *_own(u, axes, splines)]
