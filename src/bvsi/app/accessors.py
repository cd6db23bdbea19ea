"""``import bvsi.app.accessors``: discovery from datasets of xarray and tables of pandas. ::

ds.bvsi.discover({"u": ["laplacian(u)", "u*dx(u)"]}, time="t", periodic="x")
table.bvsi.discover({"x": ["x", "y"], "y": ["x", "y"]}, time="t")             # a series, one row per time
table.bvsi.discover({"u": ["dx(dx(u))"]}, time="t", places=["x"])             # one row per time and place
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from bvsi.data import Data
from bvsi.discovery import Discovery, discover
from bvsi.errors import DataError
from bvsi.operators import Library
from bvsi.operators.vocabulary import TIME

# Arguments of ``Data.from_xarray``; all others are those of ``discover``.
_READING = ("fields", "auxiliary", "periodic", "mesh", "nodes", "axes", "missing")
# Part of the grid of all places and times that has a row, below which the places are scattered; not measured.
_FILLED = 0.5

Candidates = Library | Mapping[str, Sequence[str]]


@xr.register_dataset_accessor("bvsi")  # type: ignore[no-untyped-call]
@xr.register_dataarray_accessor("bvsi")  # type: ignore[no-untyped-call]
class LabelledAccessor:
    """``ds.bvsi`` of a dataset, or of a named array.

    Parameters
    ----------
    source
        The dataset or array.
    """

    def __init__(self, source: xr.Dataset | xr.DataArray) -> None:
        self._source = source

    def data(self, *, time: str, **options: Any) -> Data:
        """The data; arguments as those of :meth:`bvsi.Data.from_xarray`."""
        return Data.from_xarray(self._source, time=time, **options)

    def discover(self, library: Candidates, *, time: str, **options: Any) -> Discovery:
        """What governs the data.

        Parameters
        ----------
        library
            A library, or what :class:`bvsi.Library` takes: operators by field.
        time
            Name of the time dimension.
        options
            Those of :meth:`bvsi.Data.from_xarray` and of :func:`bvsi.discover`; ``units="attrs"`` takes the units from
            the attributes of fields, coordinates and time.
        """
        reading = {name: options.pop(name) for name in _READING if name in options}
        if options.get("units") == "attrs":
            options["units"] = self._units(time, reading.get("axes") or {})
        return discover(self.data(time=time, **reading), _library(library), **options)

    def _units(self, time: str, axes: Mapping[str, str]) -> dict[str, str]:
        """Attributes ``units`` by the names that operators use."""
        source = self._source.to_dataset() if isinstance(self._source, xr.DataArray) else self._source
        called = {**axes, time: TIME}
        found = {called.get(str(name), str(name)): one.attrs.get("units") for name, one in source.variables.items()}
        return {name: str(unit) for name, unit in found.items() if unit is not None}


@pd.api.extensions.register_dataframe_accessor("bvsi")
class TableAccessor:
    """``table.bvsi`` of a table with a column of times, columns of places on a grid, and columns of fields.

    Parameters
    ----------
    table
        The table.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table

    def labelled(self, *, time: str, places: Sequence[str] = ()) -> xr.Dataset:
        """The table as a dataset with the dimensions ``time`` and ``places``; NaN where a grid has no row."""
        keys = [time, *places]
        missing = [key for key in keys if key not in self._table.columns]
        if missing:
            raise DataError(
                f"table: there is no column {missing[0]!r}; its columns are {', '.join(self._table.columns)}."
            )
        if self._table.duplicated(keys).any():
            raise DataError(
                f"table: two rows have the same {', '.join(keys)}; name the columns of places, or drop rows."
            )
        dataset: xr.Dataset = self._table.set_index(keys).to_xarray()
        if dataset.sizes and len(self._table) < _FILLED * float(pd.Series(dataset.sizes).prod()):
            raise DataError(
                "table: the places are no grid; scattered sensors are read from a CSV file, bvsi.app.readers.read."
            )
        return dataset

    def data(self, *, time: str, places: Sequence[str] = (), **options: Any) -> Data:
        """The data; further arguments as those of :meth:`bvsi.Data.from_xarray`."""
        return Data.from_xarray(self.labelled(time=time, places=places), time=time, **options)

    def discover(self, library: Candidates, *, time: str, places: Sequence[str] = (), **options: Any) -> Discovery:
        """What governs the data; arguments as those of :meth:`LabelledAccessor.discover`.

        Parameters
        ----------
        places
            Columns of the places, of a series none.
        """
        labelled = LabelledAccessor(self.labelled(time=time, places=places))
        return labelled.discover(library, time=time, **options)


def _library(given: Candidates) -> Library:
    return given if isinstance(given, Library) else Library(given)
