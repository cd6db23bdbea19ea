"""Posteriors of the coefficients: in closed form, truncated by constraints, or as draws; and their hand-over."""

from bvsi.infer.posteriors.closed_form import (
    GaussianPosterior,
    Level,
    NormalInverseGammaPosterior,
    Posterior,
    check_level,
    moved,
    student_of_level,
    widened,
)
from bvsi.infer.posteriors.draws import ChainPosterior, ParticlePosterior
from bvsi.infer.posteriors.truncated import TruncatedPosterior
