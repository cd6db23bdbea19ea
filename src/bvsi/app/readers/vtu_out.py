"""Fields out, for ParaView: one VTU file per time and a .pvd collection."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.app.files import write_whole
from bvsi.app.readers.source import needed
from bvsi.data import CELL_TYPES, Data, Grid
from bvsi.errors import DataError

Integers = NDArray[np.int64]

_GRID_CELLS = {1: "line", 2: "quad", 3: "hexahedron"}
_NONE: Mapping[str, ArrayLike] = {}


def write_vtu(data: Data, folder: Path, stem: str, extra: Mapping[str, ArrayLike] = _NONE) -> Path:
    """Write ``stem_0000.vtu`` … and ``stem.pvd`` into a folder; returns the path of the .pvd file.

    Grids become lines, quadrilaterals or hexahedra; values that were not measured are NaN.

    Parameters
    ----------
    extra
        Further values by name, each (T, n_nodes).
    """
    meshio: Any = needed("meshio")
    values = {name: data.observed(name) for name in data.names}
    for name, known in data.auxiliary.items():
        values[name] = np.broadcast_to(known, (data.n_times, data.n_nodes))
    for name, given in extra.items():
        array = np.asarray(given, dtype=np.float64)
        if array.shape != (data.n_times, data.n_nodes) or name in values:
            fault = "is a field already" if name in values else f"has shape {array.shape}"
            raise DataError(f"extra: {name!r} {fault}; give new names and values (times, nodes)")
        values[name] = array
    points, cells = _points(data), _cells(data)
    digits = max(4, len(str(data.n_times - 1)))
    files = []
    for j, time in enumerate(data.times):
        file = f"{stem}_{j:0{digits}d}.vtu"
        frame = {name: np.ascontiguousarray(array[j]) for name, array in values.items()}
        mesh = meshio.Mesh(points, cells, point_data=frame)
        with tempfile.TemporaryDirectory() as aside:
            meshio.vtu.write(f"{aside}/frame.vtu", mesh)  # it writes to paths only
            write_whole(folder / file, Path(aside, "frame.vtu").read_bytes())
        files.append((float(time), file))
    return _collection(folder / f"{stem}.pvd", files)


def _points(data: Data) -> NDArray[np.float64]:
    """Positions in three dimensions, as VTK wants them."""
    points = np.zeros((data.n_nodes, 3))
    columns = ["xyz".index(name) for name in data.geometry.names]
    points[:, columns] = data.geometry.points
    return points


def _cells(data: Data) -> list[tuple[str, Integers]]:
    geometry = data.geometry
    if not isinstance(geometry, Grid):
        return [(geometry.cell_type, geometry.cells)]
    kind = _GRID_CELLS[len(geometry.shape)]
    numbers = np.arange(geometry.n_nodes).reshape(geometry.shape)
    corners = {}
    for vertex in product((0, 1), repeat=len(geometry.shape)):
        corners[vertex] = numbers[tuple(slice(v, n - 1 + v) for v, n in zip(vertex, geometry.shape, strict=True))]
    return [(kind, np.stack([corners[vertex].ravel() for vertex in CELL_TYPES[kind].vertices], axis=1))]


def _collection(path: Path, files: list[tuple[float, str]]) -> Path:
    lines = [f'    <DataSet timestep="{time!r}" part="0" file={quoteattr(file)}/>' for time, file in files]
    head = ['<?xml version="1.0"?>', '<VTKFile type="Collection" version="0.1" byte_order="LittleEndian">']
    text = "\n".join([*head, "  <Collection>", *lines, "  </Collection>", "</VTKFile>", ""])
    write_whole(path, text)
    return path
