"""Whether a fit can be trusted: the resolution of the data, the noise model, the library."""

from bvsi.check.assessment import Check, check
from bvsi.check.comparison import Comparison, FailedComparison
from bvsi.check.noise_free import without_noise
from bvsi.check.residual_tests import ResidualTest
from bvsi.check.variations import Variation, variations
from bvsi.check.verdict import ADVICE, Verdict

__all__ = [
    "ADVICE",
    "Check",
    "Comparison",
    "FailedComparison",
    "ResidualTest",
    "Variation",
    "Verdict",
    "check",
    "variations",
    "without_noise",
]
