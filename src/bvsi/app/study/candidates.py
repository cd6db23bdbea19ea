"""Operators to begin with: what equations of physics are mostly made of, few enough to be distinguished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, combinations_with_replacement

import numpy as np

from bvsi.common.naming import COORDINATE_NAMES
from bvsi.data import Data, Grid
from bvsi.operators import polynomials

MAX_CANDIDATES = 14
"""Operators of one equation."""

# Series up to which monomials of degree three are suggested: twenty of three; not measured.
_CUBIC = 3

# A field is taken for a density where its sum over the nodes is positive, by this part of that of its absolute values,
# changes by less than this part of its mean, and is that small a part of its largest value at the edge of the grid.
# Of the classic equations Fokker–Planck and porous medium are taken for one, up to noise of 20% (seeds 0 to 2), and no
# other; none of the situations of ``bvsi.datasets`` is (seeds 0 to 3).
_POSITIVE, _CONSERVED, _EDGE = 0.3, 0.1, 0.05

_THIRD_AND_FOURTH = ("dx(dx(dx({u})))", "biharmonic({u})")


def suggested_operators(
    fields: Sequence[str],
    axes: Sequence[str],
    *,
    splines: bool = True,
    densities: Sequence[str] = (),
    limit: int = MAX_CANDIDATES,
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
    densities
        Fields that may drift in a potential, see :func:`densities_of`.
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
        ranked = [*_drift(field, axes), *ranked] if field in densities else ranked
        suggested[field] = list(dict.fromkeys(ranked))[:limit]
    return suggested


def densities_of(data: Data) -> tuple[str, ...]:
    """Fields that look like a density of something that is conserved: on a bounded grid, positive, zero at its edge."""
    grid = data.geometry
    if not isinstance(grid, Grid) or not grid.dim or grid.periods or not set(grid.names) <= set(COORDINATE_NAMES):
        return ()
    return tuple(name for name in data.names if data.n_times > 1 and _is_density(data, name))


def _is_density(data: Data, name: str) -> bool:
    assert isinstance(data.geometry, Grid)
    u = np.nan_to_num(data.observed(name).reshape(data.n_times, *data.geometry.shape))
    space = tuple(range(1, u.ndim))
    total, size = u.sum(axis=space), np.abs(u).sum(axis=space)
    ends = [np.abs(u.take([0, -1], axis=axis).mean(axis=0)).max() for axis in space]
    return bool(
        np.all(total > _POSITIVE * size)
        and np.ptp(total) < _CONSERVED * total.mean()
        and max(ends) < _EDGE * u.mean(axis=0).max()
    )


def steady_sides(operators: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Candidates of one frame, in which nothing moves, and left sides: the Laplacian sets the scale."""
    left = {field: f"laplacian({field})" for field in operators}
    return {field: [text for text in texts if text != left[field]] for field, texts in operators.items()}, left


def _drift(u: str, axes: Sequence[str]) -> list[str]:
    """Diffusion and drift in a potential that is a polynomial of second degree; the gradient of x makes ``dx``."""
    squares = [f"{a}**2" if a == b else f"{a}*{b}" for a, b in combinations_with_replacement(axes, 2)]
    return [f"laplacian({u})", *(f"d{axis}({u})" for axis in axes), *(f"div({u}*grad({text}))" for text in squares)]


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
