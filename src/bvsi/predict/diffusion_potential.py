"""What stands under the Laplacian: ζ(u) = Σ_i θ_i f_i(u) for operators ``laplacian(f_i(u))`` of one equation.

For a free energy Σ η_φ φ the f_φ are ∂φ/∂c, so that ζ = m ∂g/∂c (eq:CH_effective_derivatives). Only ∇ζ enters the
equation, so ζ is known up to a constant. Convention: its mean over the given points is zero.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from bvsi.errors import BvsiError
from bvsi.operators.syntax import Syntax, read
from bvsi.operators.vocabulary import Vocabulary
from bvsi.predict.grid import evaluate, labelled_map, points_of

if TYPE_CHECKING:
    import xarray as xr


def diffusion_potential_map(names: tuple[str, ...], equation: str, axes: Mapping[str, ArrayLike]) -> xr.DataArray:
    """Φ with Φ_i = f_i − mean(f_i) on the grid of ``axes``; zero for other operators and other equations.

    names: operators of the model; equation: field whose equation is meant; axes: values of the fields by name,
    ``{"c1": c1, "c2": c2}``.
    """
    points = points_of(axes)
    words = Vocabulary(("x",), tuple(points))
    columns = []
    for name in names:
        owner, _, text = name.rpartition(": ")
        inner = _under_laplacian(read(text)) if owner in ("", equation) else None
        known = inner is not None and inner.names <= set(points)
        columns.append(evaluate(inner, points, words) if inner is not None and known else None)
    if not any(column is not None for column in columns):
        raise BvsiError(
            f"names: no operator of {equation!r} has the form laplacian(f) with f a function of {', '.join(points)}."
        )
    return labelled_map(names, axes, columns)


def _under_laplacian(operator: Syntax) -> Syntax | None:
    match operator.tree:
        case ast.Call(func=ast.Name(id="laplacian"), args=[inner]):
            return operator.part(inner)
    return None
