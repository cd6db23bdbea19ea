"""Whether a fit can be trusted: the resolution of the data, the noise model, the library."""

from bvsi.diagnose.assessment import Check, check
from bvsi.diagnose.comparison import Comparison
from bvsi.diagnose.noise_free import without_noise
from bvsi.diagnose.residual_tests import ResidualTest
from bvsi.diagnose.variations import Variation, variations
from bvsi.diagnose.verdict import ADVICE, Verdict

__all__ = [
    "ADVICE",
    "Check",
    "Comparison",
    "ResidualTest",
    "Variation",
    "Verdict",
    "check",
    "variations",
    "without_noise",
]
