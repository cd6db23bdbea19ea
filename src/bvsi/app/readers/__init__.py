"""Files in (NetCDF, Zarr, HDF5, NPZ, MATLAB, CSV, VTU, VTK, XDMF, Gmsh, TIFF), and fields out as VTU."""

from bvsi.app.readers.read import contents, read, read_with_notes, suggest
from bvsi.app.readers.reading import Contents, Reading, Variable
from bvsi.app.readers.vtu_out import write_vtu

__all__ = ["Contents", "Reading", "Variable", "contents", "read", "read_with_notes", "suggest", "write_vtu"]
