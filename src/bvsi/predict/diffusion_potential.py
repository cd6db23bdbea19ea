"""What stands under the Laplacian: ζ(u) = Σ_i θ_i f_i(u) for operators ``laplacian(f_i(u))`` of one equation.

For a free energy Σ η_φ φ the f_φ are ∂φ/∂c, so that ζ = m ∂g/∂c (eq:CH_effective_derivatives). Only ∇ζ enters the
equation, so ζ is known up to a constant. Convention: its mean over the given points is zero.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import BvsiError
from bvsi.operators.kernel import compile_kernel
from bvsi.operators.parse import names_in, parse, syntax_tree
from bvsi.operators.strong import StrongAlgebra
from bvsi.operators.vocabulary import Vocabulary
from bvsi.predict.grid import labelled_map, points_of

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]


def diffusion_potential_map(names: tuple[str, ...], equation: str, axes: Mapping[str, ArrayLike]) -> xr.DataArray:
    """Φ with Φ_i = f_i − mean(f_i) on the grid of ``axes``; zero for other operators and other equations.

    names: operators of the model; equation: field whose equation is meant; axes: values of the fields by name,
    ``{"c1": c1, "c2": c2}``.
    """
    points = points_of(axes)
    columns = []
    for name in names:
        owner, _, text = name.rpartition(": ")
        inner = _under_laplacian(text) if owner in ("", equation) else None
        known = inner is not None and names_in(inner) <= set(points)
        columns.append(_evaluate(inner, points) if inner is not None and known else None)
    if not any(column is not None for column in columns):
        raise BvsiError(
            f"names: no operator of {equation!r} has the form laplacian(f) with f a function of {', '.join(points)}."
        )
    return labelled_map(names, axes, columns)


def _under_laplacian(text: str) -> str | None:
    match syntax_tree(text):
        case ast.Call(func=ast.Name(id="laplacian"), args=[inner]):
            return ast.unparse(inner)
    return None


def _evaluate(text: str, points: Mapping[str, Array]) -> Array | None:
    """f at the points; None where it has derivatives in space."""
    words = Vocabulary(("x",), tuple(points))
    expression = StrongAlgebra(words).evaluate(parse(text, words).form)
    plain = {words.jet(name): values for name, values in points.items()}
    if not set(expression.free_symbols) <= set(plain):
        return None
    value = compile_kernel((expression,))(plain)[0]
    return np.broadcast_to(value, next(iter(points.values())).shape).astype(float)
