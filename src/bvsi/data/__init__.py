"""Data: grids, meshes and the fields on them."""

from bvsi.data.cells import CELL_TYPES, CellType
from bvsi.data.data import Data
from bvsi.data.experiments import as_experiments
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.data.names import COORDINATE_NAMES, RESERVED_NAMES, check_field_name
from bvsi.data.noise import add_noise
from bvsi.data.noise_level import NoiseLevel, estimate_noise
from bvsi.data.outliers import Outliers, filled, find_outliers
from bvsi.data.signal_noise import SignalNoise, estimate_signal_noise, smoothed_signal

__all__ = [
    "CELL_TYPES",
    "COORDINATE_NAMES",
    "RESERVED_NAMES",
    "CellType",
    "Data",
    "Grid",
    "Mesh",
    "NoiseLevel",
    "Outliers",
    "SignalNoise",
    "add_noise",
    "as_experiments",
    "check_field_name",
    "estimate_noise",
    "estimate_signal_noise",
    "filled",
    "find_outliers",
    "smoothed_signal",
]
