"""Nodal values on a fixed mesh in time: VTU, VTK, Gmsh and XDMF series, through meshio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import check_reference
from bvsi.app.readers.gmsh_steps import gmsh_steps
from bvsi.app.readers.mesh_file import NodeMesh, check_xdmf, meshio_read, node_mesh, quiet
from bvsi.app.readers.points import Lattice, lattice_of_mesh
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, in_memory, needed, readable
from bvsi.data import COORDINATE_NAMES
from bvsi.errors import DataError

Values = Mapping[str, NDArray[Any]]
_FORMAT_OWN = "gmsh:"
"""How names of values begin that describe the mesh, such as gmsh:dim_tags."""
_TIME_NAMES = ("TimeValue", "TIME", "time")


@dataclass(frozen=True)
class _Frames:
    """A series: mesh, times (None where the files do not state them), and the nodal values of frame k, by name."""

    mesh: NodeMesh
    times: NDArray[np.float64] | None
    count: int
    values: Callable[[int], Values]
    notes: tuple[str, ...] = ()


@contextmanager
def open_series(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """Arrays over time and nodes; over time and x, y, z where the cells are those of a tensor grid."""
    if len(paths) == 1 and paths[0].suffix.lower() == ".pvd":
        files, times = _collection(paths[0], allow_outside=reading.allow_outside)
        yield _source(paths[0], _of_files(files, times))
    elif len(paths) == 1 and paths[0].suffix.lower() in (".xdmf", ".xmf"):
        check_xdmf(paths[0], allow_outside=reading.allow_outside)
        with _xdmf(paths[0]) as frames:
            yield _source(paths[0], frames)
    elif len(paths) == 1 and paths[0].suffix.lower() == ".msh":
        yield _source(paths[0], _gmsh(paths[0]))
    else:
        yield _source(paths[0], _of_files(paths, None))


def _collection(path: Path, *, allow_outside: bool) -> tuple[tuple[Path, ...], NDArray[np.float64]]:
    """Files and times of a .pvd collection, in the order of time."""
    entries = [item.attrib for item in ElementTree.parse(path).getroot().iter("DataSet")]
    if not entries:
        raise DataError(f"{path}: the collection names no files")
    if any(int(entry.get("part", "0") or 0) > 0 for entry in entries):
        raise DataError(f"{path}: a time has several parts; merge the parts of the mesh into one file first")
    for entry in entries:
        check_reference(path, entry["file"], allow_outside=allow_outside)
    times = np.array([float(entry["timestep"]) for entry in entries])
    order = np.argsort(times, kind="stable")
    return tuple(path.parent / entries[i]["file"] for i in order), times[order]


def _of_files(paths: tuple[Path, ...], times: NDArray[np.float64] | None) -> _Frames:
    """One file per time, all with the same mesh."""
    first = _read(paths[0])
    mesh = node_mesh(first.points, first.cells)
    if times is None:
        times = _told_times(paths)
    on_cells = [name for name in first.cell_data if not name.startswith(_FORMAT_OWN)]
    notes = ("values on cells are not read, only those on nodes",) if on_cells else ()

    @lru_cache(maxsize=1)
    def values(k: int) -> Values:
        found = _read(paths[k])
        if found.points.shape != first.points.shape or not np.array_equal(found.points, first.points):
            raise DataError(f"{paths[k]}: its nodes are not those of {paths[0]}; the mesh must not move or change")
        return _components(found.point_data, mesh)

    return _Frames(mesh, times, len(paths), values, notes)


def _gmsh(path: Path) -> _Frames:
    """One Gmsh file, with a section of values for every time."""
    steps = gmsh_steps(path)
    if steps is None or len(steps.times) < 2:
        return _of_files((path,), None)
    first = _read(path)
    mesh = node_mesh(first.points, first.cells)
    return _Frames(mesh, steps.times, len(steps.times), lambda k: _components(steps.values[k], mesh))


def _read(path: Path) -> Any:
    if not path.is_file():
        raise DataError(f"there is no file {path}, which the series names; check the path")
    with readable(path, path.suffix.lstrip(".").upper()):
        return meshio_read(path)


def _told_times(paths: tuple[Path, ...]) -> NDArray[np.float64] | None:
    """Times stated in the files, where the first and the last have one."""
    if any(_stamp(path) is None for path in {paths[0], paths[-1]}):
        return None
    times = np.array([_stamp(path) for path in paths], dtype=np.float64)
    if paths[0].suffix.lower() == ".msh" and len(times) > 1 and not np.all(np.diff(times) > 0):
        return None  # writers without times write zeros
    return times


def _stamp(path: Path) -> float | None:
    """Time stated in a file."""
    if path.suffix.lower() == ".msh":
        with readable(path, "MSH"):
            steps = gmsh_steps(path)
        return None if steps is None else float(steps.times[0])
    found = _read(path)
    for name in _TIME_NAMES:
        if name in found.field_data and np.size(found.field_data[name]) == 1:
            return float(np.ravel(found.field_data[name])[0])
    return None


@contextmanager
def _xdmf(path: Path) -> Iterator[_Frames]:
    """The steps of an XDMF file with a temporal collection."""
    with quiet(), needed("meshio").xdmf.TimeSeriesReader(path) as reader:
        points, cells = reader.read_points_cells()
        mesh = node_mesh(points, cells)

        @lru_cache(maxsize=1)
        def step(k: int) -> tuple[float, Values]:
            time, point_data, _ = reader.read_data(k)
            return time, _components(point_data, mesh)

        times = np.array([float(grid.find("Time").attrib["Value"]) for grid in reader.collection])
        yield _Frames(mesh, times, reader.num_steps, lambda k: step(k)[1])


def _components(point_data: Mapping[str, Any], mesh: NodeMesh) -> Values:
    """Values on the nodes of the mesh by name, each (n_nodes,); vectors are split into name_x, name_y, name_z."""
    found: dict[str, NDArray[Any]] = {}
    for name, given in point_data.items():
        if name.startswith(_FORMAT_OWN):
            continue
        values = np.asarray(given)[mesh.kept] if len(given) == mesh.n_points else None
        if values is None:
            raise DataError(f"values {name!r} have {len(given)} entries, the mesh has {mesh.n_points} points")
        if values.ndim == 1 or values.shape[1:] == (1,):
            found[name] = values.reshape(-1)
        elif values.ndim == 2 and values.shape[1] in (2, 3):
            for i, axis in enumerate(COORDINATE_NAMES[: mesh.mesh.dim]):
                if i < values.shape[1]:
                    found[f"{name}_{axis}"] = values[:, i]
    return found


def _source(path: Path, frames: _Frames) -> DataSource:
    grid = lattice_of_mesh(frames.mesh.mesh)
    mesh = frames.mesh.mesh
    names = COORDINATE_NAMES[: mesh.dim]
    space = {"node": mesh.n_nodes} if grid is None else dict(zip(names, grid.shape, strict=True))
    dims, shape = ("time", *space), (frames.count, *space.values())
    arrays = {
        name: Array(name, dims, shape, values.dtype, partial(_load, frames, grid, name))
        for name, values in frames.values(0).items()
    }
    if frames.times is not None:
        arrays["time"] = in_memory("time", ("time",), frames.times)
    notes = frames.notes
    if grid is not None:
        arrays |= {n: in_memory(n, (n,), axis) for n, axis in zip(names, grid.axes, strict=True)}
        notes += ("the cells are those of a tensor grid, which is used in place of the mesh",)
    name = {".msh": "Gmsh", ".xdmf": "XDMF", ".xmf": "XDMF", ".vtk": "VTK"}.get(path.suffix.lower(), "VTU")
    return DataSource(path, name, arrays, {}, notes, mesh if grid is None else None, frames=1)


def _load(frames: _Frames, grid: Lattice | None, name: str, key: Key) -> NDArray[Any]:
    """Values of the frames asked for, (times, nodes) or (times, *shape of the grid)."""
    rows = []
    for k in range(*key[0].indices(frames.count)):
        with quiet():
            found = frames.values(k)
        if name not in found:
            raise DataError(f"frame {k} lacks the values {name!r} that the first frame has; give complete frames")
        values = found[name]
        rows.append((values if grid is None else values[grid.order].reshape(grid.shape))[key[1:]])
    return np.stack(rows)
