"""The potential behind drift operators: ψ(x) = Σ_i θ_i φ_i(x) for operators ``div(p*grad(φ_i))``.

Only ∇ψ enters the equation, so ψ is known up to a constant. Convention: its mean over the given points is zero.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import BvsiError
from bvsi.operators.parse import strong_form
from bvsi.operators.syntax import Syntax, read
from bvsi.operators.vocabulary import Vocabulary
from bvsi.predict.grid import evaluate, labelled_map, points_of

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]


def potential_map(names: tuple[str, ...], axes: Mapping[str, ArrayLike]) -> xr.DataArray:
    """Φ with Φ_i = φ_i − mean(φ_i) on the grid of ``axes``; zero for operators that are no drift.

    names: operators of the model; axes: coordinates by name, ``{"x": x, "y": y}``.
    """
    points = points_of(axes)
    columns: list[Array | None] = []
    for name in names:
        phi = _drift_potential(read(name.split(": ", 1)[-1]), tuple(points))
        columns.append(None if phi is None else evaluate(phi, points, Vocabulary(tuple(points), ())))
    if not any(column is not None and np.ptp(column) > 0 for column in columns):
        raise BvsiError("names: none of the operators has the form div(p*grad(φ)) that comes from a potential.")
    return labelled_map(names, axes, columns)


def _drift_potential(operator: Syntax, coordinates: tuple[str, ...]) -> Syntax | None:
    """φ of ``div(field*grad(φ))`` with φ a function of the coordinates; None for other operators."""
    fields = operator.names - set(coordinates) - {"t"}
    strong_form(operator, Vocabulary(coordinates, tuple(sorted(fields))))  # what is no operator is refused
    match operator.tree:
        case ast.Call(func=ast.Name(id="div"), args=[ast.BinOp(left=left, op=ast.Mult(), right=right)]):
            for field, gradient in ((left, right), (right, left)):
                match field, gradient:
                    case ast.Name(), ast.Call(func=ast.Name(id="grad"), args=[phi]):
                        inner = operator.part(phi)
                        return inner if inner.names <= set(coordinates) else None
    return None
