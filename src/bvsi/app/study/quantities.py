"""Quantities of interest: expressions of coefficients and potentials, with their uncertainty."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bvsi.app.study.expression import Expression, parse_expression
from bvsi.app.study.settings import QuantitySettings
from bvsi.common.naming import position
from bvsi.errors import BvsiError
from bvsi.predict import diffusion_potential_map, potential_map
from bvsi.predict.push import points_of

if TYPE_CHECKING:
    import xarray as xr

    from bvsi.discovery import Discovery

    Predictable = xr.DataArray | Callable[[dict[str, float]], xr.DataArray]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Quantity:
    """A quantity that follows from the coefficients.

    Attributes
    ----------
    settings
        Of it.
    candidates
        All operators of the library. Those that were not selected have the coefficient zero.
    """

    settings: QuantitySettings
    candidates: tuple[str, ...]

    def __call__(self, found: Discovery, rng: np.random.Generator) -> xr.Dataset:
        """Mean, variance and credible band; ``rng`` draws from the posterior where it is not linear."""
        wanted = self.settings
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # what is not a number is reported below
            made = found.predict(self.of(found.names), level=wanted.level, size=wanted.draws, rng=rng)
        if not np.isfinite(made["mean"]).any():
            raise BvsiError("the quantity is not a number anywhere; look for divisions by zero, logarithms and roots.")
        return made[["mean", "variance", "lower", "upper"]]

    def of(self, names: tuple[str, ...]) -> Predictable:
        """What :meth:`bvsi.Discovery.predict` takes, for selected operators: a linear map or a function."""
        wanted = self.settings
        axes = {name: np.linspace(first, last, number) for name, (first, last, number) in wanted.axes.items()}
        if wanted.kind == "potential":
            return _restricted(potential_map(self.candidates, axes), names)
        if wanted.kind == "diffusion-potential":
            return _restricted(diffusion_potential_map(self.candidates, str(wanted.equation), axes), names)
        expression = parse_expression(wanted.expression or "", tuple(axes))
        operators = tuple(self.candidates[position(name, self.candidates)] for name in expression.operators)
        return _map(expression, operators, axes, names)


def _restricted(Phi: xr.DataArray, names: tuple[str, ...]) -> xr.DataArray:
    """The map for selected operators; zero where none of them has a potential."""
    return Phi.sel(operator=list(names))


def _map(
    expression: Expression, operators: tuple[str, ...], axes: Mapping[str, Array], names: tuple[str, ...]
) -> Predictable:
    import xarray as xr

    points = points_of(axes) if axes else {}
    shape = tuple(len(axis) for axis in axes.values())

    def values(coefficients: Mapping[str, float]) -> Array:
        found = expression([coefficients.get(name, 0.0) for name in operators], points)
        return np.broadcast_to(found, shape)

    def function(coefficients: dict[str, float]) -> xr.DataArray:
        return xr.DataArray(values(coefficients), dims=tuple(axes), coords=axes)

    if not expression.linear:
        return function
    columns = [values({name: 1.0}) for name in names]
    return xr.DataArray(np.array(columns), dims=("operator", *axes), coords={"operator": list(names), **axes})
