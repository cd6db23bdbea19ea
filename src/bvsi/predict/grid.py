"""Linear maps from coefficients to a quantity on a grid of coordinates or concentrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import BvsiError
from bvsi.operators.kernel import compile_kernel
from bvsi.operators.parse import strong_form
from bvsi.operators.strong import StrongAlgebra
from bvsi.operators.syntax import Syntax
from bvsi.operators.vocabulary import Vocabulary

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]


def points_of(axes: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """The tensor grid of ``axes``: for each name its value at every point."""
    checked = {name: _axis(name, values) for name, values in axes.items()}
    if not checked:
        raise BvsiError("axes: at least one coordinate is needed, such as {'x': x}.")
    return dict(zip(checked, np.meshgrid(*checked.values(), indexing="ij"), strict=True))


def evaluate(syntax: Syntax, points: Mapping[str, Array], words: Vocabulary) -> Array | None:
    """An expression of coordinates or fields of ``words`` at the points; None where it has derivatives."""
    expression = StrongAlgebra(words).evaluate(strong_form(syntax, words).form)
    values = {words.symbol(name): array for name, array in points.items()}
    if not set(expression.free_symbols) <= set(values):
        return None
    value = compile_kernel((expression,))(values)[0]
    return np.broadcast_to(value, next(iter(points.values())).shape).astype(float)


def labelled_map(names: Sequence[str], axes: Mapping[str, ArrayLike], columns: Sequence[Array | None]) -> xr.DataArray:
    """Φ (operator, *axes) with the mean over the points taken off each column; None is a column of zeros."""
    import xarray as xr

    coordinates = {name: _axis(name, values) for name, values in axes.items()}
    shape = tuple(len(axis) for axis in coordinates.values())
    centred = [np.zeros(shape) if column is None else column - column.mean() for column in columns]
    return xr.DataArray(
        np.stack(centred), dims=("operator", *coordinates), coords={"operator": list(names), **coordinates}
    )


def _axis(name: str, values: ArrayLike) -> Array:
    try:
        axis = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        axis = np.empty(0)
    if axis.ndim != 1 or not axis.size or not np.all(np.isfinite(axis)):
        raise BvsiError(f"axes: {name!r} needs a list of finite coordinates.")
    return axis
