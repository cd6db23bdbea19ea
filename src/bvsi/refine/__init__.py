"""One equation fitted to the measurements by forward solves."""

from bvsi.refine.expansion import sampled
from bvsi.refine.fitting import fit_forward
from bvsi.refine.instrument import RefineError, check_instrument
from bvsi.refine.measurements import Measurements
from bvsi.refine.model import ForwardFit, ForwardModel, check_equation
from bvsi.refine.prior import stated_laws
