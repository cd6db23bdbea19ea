"""Meshes from files, through meshio."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import check_hdf5, check_reference
from bvsi.app.readers.source import needed, readable
from bvsi.data import CELL_TYPES, Mesh
from bvsi.errors import DataError

Integers = NDArray[np.int64]

MESHIO_SUFFIXES = (".vtu", ".vtk", ".msh", ".xdmf", ".xmf")
"""Files that meshio reads here, one mesh each."""


@dataclass(frozen=True)
class NodeMesh:
    """A mesh from a file.

    Attributes
    ----------
    mesh
        The cells of highest dimension, and the points that they use.
    kept
        Number in the file of each node of the mesh, (n_nodes,).
    n_points
        Points in the file.
    """

    mesh: Mesh
    kept: Integers
    n_points: int


def read_mesh(given: Path | str, *, allow_outside: bool = False) -> NodeMesh:
    """The mesh in a file."""
    path = Path(given)
    if not path.is_file():
        raise DataError(f"mesh: there is no file {path}; check the path")
    with readable(path, "mesh"):
        if path.suffix.lower() in (".xdmf", ".xmf"):
            check_xdmf(path, allow_outside=allow_outside)
        found = meshio_read(path)
        return node_mesh(found.points, found.cells)


def check_xdmf(path: Path, *, allow_outside: bool) -> None:
    """Refuse an XDMF file that takes values from files outside its folder, or from pipes."""
    for item in ElementTree.parse(path).getroot().iter():
        if item.tag.rpartition("}")[2] == "include" and item.get("href"):
            raise DataError(f"{path}: it includes another file, which is not read; write all into one")
        form = item.get("Format") or item.get("DataFormat") or "XML"
        if item.tag == "DataItem" and form.upper() != "XML":
            name = (item.text or "").strip().split(":")[0]
            check_reference(path, name, allow_outside=allow_outside)
            check_hdf5(path.parent / name, allow_outside=allow_outside)


def meshio_read(path: Path) -> Any:
    """Mesh and data as meshio's record."""
    # The readers themselves, since meshio.read ends the program where a file is damaged.
    suffix = path.suffix.lower()
    modules = {".vtu": "meshio.vtu", ".vtk": "meshio.vtk", ".msh": "meshio.gmsh"}
    modules |= {".xdmf": "meshio.xdmf", ".xmf": "meshio.xdmf"}
    if suffix not in modules:
        raise DataError(f"{path}: meshes are read from {', '.join(MESHIO_SUFFIXES)}; convert it with meshio")
    read: Callable[[str], Any] = needed(modules[suffix]).read
    with quiet():
        return read(str(path))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep meshio from writing to the terminal."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


def node_mesh(points: Any, blocks: Any) -> NodeMesh:
    """Mesh of the cells of highest dimension; boundary cells and points that no cell uses are left out.

    Parameters
    ----------
    points
        (n, 2) or (n, 3).
    blocks
        Meshio's cell blocks, each with ``type`` and ``data``.
    """
    known = [block for block in blocks if block.type in CELL_TYPES and len(block.data)]
    if not known:
        kinds = ", ".join(sorted({block.type for block in blocks})) or "none"
        raise DataError(f"the mesh has no cells that are supported (it has {kinds}); use {', '.join(CELL_TYPES)}")
    dim = max(CELL_TYPES[block.type].dim for block in known)
    kinds_used = sorted({block.type for block in known if CELL_TYPES[block.type].dim == dim})
    if len(kinds_used) > 1:
        raise DataError(f"the mesh has cells of several types ({', '.join(kinds_used)}); mesh it with one type")
    cells = np.concatenate([np.asarray(block.data) for block in known if block.type == kinds_used[0]])
    if cells.size and (cells.min() < 0 or cells.max() >= len(points)):
        raise DataError(f"the cells name point {cells.max()}, the mesh has {len(points)} points; the file is damaged")
    kept, renumbered = np.unique(cells, return_inverse=True)
    places = np.asarray(points, dtype=np.float64)[kept]
    flat = places.shape[1] > dim and not np.any(places[:, dim:])
    mesh = Mesh(places[:, :dim] if flat else places, renumbered.reshape(cells.shape), kinds_used[0])
    return NodeMesh(mesh, kept.astype(np.int64), len(points))
