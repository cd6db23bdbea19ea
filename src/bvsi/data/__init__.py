"""Data: grids, meshes and the fields on them."""

from bvsi.common.naming import COORDINATE_NAMES
from bvsi.data._arrays import RESERVED_NAMES, check_field_name
from bvsi.data.data import Data, as_experiments
from bvsi.data.grid import Grid
from bvsi.data.mesh import CELL_TYPES, CellType, Mesh
