"""Data: grids, meshes and the fields on them."""

from bvsi.data.cells import CELL_TYPES, CellType
from bvsi.data.data import Data
from bvsi.data.experiments import as_experiments
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.data.names import COORDINATE_NAMES, RESERVED_NAMES, check_field_name

__all__ = [
    "CELL_TYPES",
    "COORDINATE_NAMES",
    "RESERVED_NAMES",
    "CellType",
    "Data",
    "Grid",
    "Mesh",
    "as_experiments",
    "check_field_name",
]
