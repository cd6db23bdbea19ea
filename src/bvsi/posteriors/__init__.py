"""Posteriors of the coefficients: in closed form, truncated by constraints, or as draws; and their hand-over."""

from bvsi.posteriors.closed_form import GaussianPosterior, NormalInverseGammaPosterior, widened
from bvsi.posteriors.comparison import Comparison, compare
from bvsi.posteriors.draws import ChainPosterior, ParticlePosterior
from bvsi.posteriors.export import to_arviz, to_dataset, to_datatree
from bvsi.posteriors.posterior import Posterior, check_level
from bvsi.posteriors.storage import load_posterior, save_posterior
from bvsi.posteriors.truncated import TruncatedPosterior

__all__ = [
    "ChainPosterior",
    "Comparison",
    "GaussianPosterior",
    "NormalInverseGammaPosterior",
    "ParticlePosterior",
    "Posterior",
    "TruncatedPosterior",
    "check_level",
    "compare",
    "load_posterior",
    "save_posterior",
    "to_arviz",
    "to_dataset",
    "to_datatree",
    "widened",
]
