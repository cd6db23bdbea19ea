"""What to take from a file, and what a file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Names = Mapping[str, str] | Sequence[str]
Range = tuple[float | None, float | None]


@dataclass(frozen=True)
class Reading:
    """What to take from a file. Every item may be left out where the file states it.

    Parameters
    ----------
    time
        Name of the time dimension, column or array.
    fields
        Names, or name in bvsi to name in the file; all variables over time when left out. A part of a complex array is
        named ``real(name)`` or ``imag(name)``.
    auxiliary
        Known fields, the same way.
    dims
        Names of the axes of the arrays, in order, for files that do not name them (npz, mat, h5, tiff).
    axes
        Dimension to x, y, z, r, phi or theta, for dimensions with other names.
    coordinates
        Dimension to the array in the file that holds its coordinate; without it, the array of the same name.
    system
        What the axes are, as in :class:`bvsi.Grid`, where neither their names nor the file say it.
    spacing
        Dimension to step, where the file has no coordinate; the first value is then 0.
    periodic
        Periodic axes as in :class:`bvsi.Grid`.
    missing
        "nan" where NaN in a field means that the value was not measured.
    mesh
        Mesh file (Gmsh, VTU, …) for nodal values that are kept in another file. Where its nodes are not the sensors of
        a table it is the domain that they are in.
    domain
        Corners (x, y) of a polygon in which scattered sensors lie; without it, and without a mesh, it is found.
    select
        Dimension to lowest and highest coordinate taken, None for no limit.
    max_memory
        Bytes of float64 fields held in memory; larger sets on grids are coarsened.
    coarsen
        False where these are kept whole instead, in a temporary file that is mapped into memory.
    allow_outside
        Whether the file may take values from files outside its folder.
    guarded
        Whether the memory of the whole process is limited while the file is opened or a part of it is unpacked.
    keep_ends
        Whether bounded axes must keep their ends, since a boundary condition holds there; coarsening loses some points
        at both.
    """

    time: str | None = None
    fields: Names | None = None
    auxiliary: Names | None = None
    dims: Sequence[str] | None = None
    axes: Mapping[str, str] = field(default_factory=dict)
    coordinates: Mapping[str, str] = field(default_factory=dict)
    system: str | None = None
    spacing: Mapping[str, float] = field(default_factory=dict)
    periodic: Mapping[str, float] | Sequence[str] | None = None
    missing: Literal["nan"] | None = None
    mesh: Path | None = None
    domain: Sequence[tuple[float, float]] | None = None
    select: Mapping[str, Range] = field(default_factory=dict)
    max_memory: float = 1e9
    coarsen: bool = True
    allow_outside: bool = False
    guarded: bool = False
    keep_ends: bool = False

    @property
    def largest_piece(self) -> float:
        """Bytes that a part which is unpacked at once may take; fields that are coarsened are stored in larger ones."""
        return max(self.max_memory, 1e9)


@dataclass(frozen=True)
class Variable:
    """An array in a file.

    Attributes
    ----------
    dims
        None where the file does not name its axes.
    unit
        Of its values as they are read, where the file states it: seconds for dates.
    """

    name: str
    dims: tuple[str, ...] | None
    shape: tuple[int, ...]
    dtype: str
    unit: str = ""


@dataclass(frozen=True)
class Contents:
    """What a file holds, without the values.

    Attributes
    ----------
    path
        The file, folder or pattern.
    format
        Name of the format.
    variables
        Its arrays or columns.
    attributes
        What it says about itself.
    notes
        What was left out, and why.
    """

    path: Path
    format: str
    variables: tuple[Variable, ...]
    attributes: Mapping[str, str]
    notes: tuple[str, ...]
