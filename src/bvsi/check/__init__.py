"""Whether a fit can be trusted: the resolution of the data, the noise model, the library."""

from bvsi.check.assessment import Check, check, check_discovery, with_bias
from bvsi.check.comparison import CheckLevels, Comparison, FailedComparison
from bvsi.check.residual_tests import ResidualTest
from bvsi.check.variations import Variation, variations
from bvsi.check.verdict import ADVICE, Verdict
