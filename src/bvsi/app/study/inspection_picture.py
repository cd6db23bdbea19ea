"""The picture of an inspection: every field with its spectrum."""

from __future__ import annotations

from pathlib import Path

from bvsi.app.files import png_bytes, write_whole
from bvsi.app.plot.inspection import field_view, spectrum
from bvsi.app.study.inspection import Inspection
from bvsi.data import Grid

_MOST_FIELDS = 4


def write_picture(seen: Inspection, path: Path) -> None:
    """One row per field, as PNG."""
    from matplotlib.figure import Figure

    data, measured = seen.data, seen.measurement
    assert data is not None
    assert measured is not None
    names = data.names[:_MOST_FIELDS]
    columns = 2 if isinstance(data.geometry, Grid) else 1
    figure = Figure(figsize=(5 * columns, 3.8 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), columns, squeeze=False)
    for row, name in zip(axes, names, strict=True):
        field_view(row[0], data, name, seen.units)
        if columns == 2:
            spectrum(row[1], data, name, measured.filtered.get(name), seen.units)
    write_whole(path, png_bytes(figure, dpi=110))
