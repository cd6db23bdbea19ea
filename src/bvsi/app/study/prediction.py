"""A quantity that is asked for by text: ``bvsi predict``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

from bvsi.app.files import netcdf_bytes, write_whole
from bvsi.app.study.complaints import complaints
from bvsi.app.study.posterior_checks import axes_faults
from bvsi.app.study.quantities import Quantity
from bvsi.app.study.settings import QuantitySettings
from bvsi.discovery import Discovery
from bvsi.errors import BvsiError

if TYPE_CHECKING:
    import xarray as xr

_COLUMNS = ["mean", "variance", "lower", "upper"]


def predict_text(
    found: Discovery,
    expression: str | None,
    axes: Mapping[str, Sequence[float]],
    *,
    level: float,
    size: int = 1000,
    rng: np.random.Generator,
    averaged: bool = False,
) -> xr.Dataset:
    """Mean, variance and band of an expression; without one, of the potential of the drift.

    Parameters
    ----------
    axes
        Variables: first value, last value, number.
    size, rng
        Draws of the posterior, where the expression is not linear.
    averaged
        Over all structures.
    """
    given = {
        "name": "quantity",
        "kind": "potential" if expression is None else "expression",
        "expression": expression,
        "axes": {name: list(numbers) for name, numbers in axes.items()},
        "level": level,
        "draws": size,
    }
    try:
        settings = QuantitySettings.model_validate(given)
    except ValidationError as error:
        raise BvsiError(f"predict: {complaints(error, given)[0]}") from None
    for problem in axes_faults(settings):
        raise BvsiError(f"predict: {problem}")
    return Quantity(settings, found.candidates)(found, rng, averaged=averaged)


def written(quantity: xr.Dataset, path: Path) -> None:
    """As NetCDF or CSV, by the ending of the name."""
    if path.suffix not in (".nc", ".csv"):
        raise BvsiError(f"--out {path}: the name has to end with .nc or .csv.")
    write_whole(path, netcdf_bytes(quantity) if path.suffix == ".nc" else _csv(quantity))


def _csv(quantity: xr.Dataset) -> str:
    """One row per point."""
    axes = list(quantity["mean"].dims)
    points = np.meshgrid(*(quantity[str(axis)].values for axis in axes), indexing="ij") if axes else []
    kinds = [*_COLUMNS, *(str(name) for name in quantity if name not in _COLUMNS)]
    columns = [*(p.ravel() for p in points), *(np.atleast_1d(quantity[name].values).ravel() for name in kinds)]
    rows = [",".join(map(repr, map(float, row))) for row in np.stack(columns, axis=1)]
    return "\n".join([",".join([*map(str, axes), *kinds]), *rows, ""])


def axis_of(text: str) -> tuple[str, list[float]]:
    """A variable of a quantity from ``x=-1:1:41``."""
    name, _, numbers = text.partition("=")
    try:
        first, last, number = numbers.split(":")
        return name.strip(), [float(first), float(last), int(number)]
    except ValueError:
        raise BvsiError(f"--axis {text}: write it as x=-1:1:41, first value, last value, number.") from None
