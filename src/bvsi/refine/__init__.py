"""One equation fitted to the measurements by forward solves."""

from bvsi.refine.fitting import fit_forward
from bvsi.refine.measurements import Measurements, RefineError
from bvsi.refine.model import ForwardFit, ForwardModel
