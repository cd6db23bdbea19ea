"""Convergence of Markov chains: rank-normalised split R-hat and effective sample sizes, by arviz-stats.

All functions take draws (chains, draws, d) and return (d,); NaN where there are fewer than four draws per chain, or all
draws of a coefficient are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Quantiles whose effective sample sizes make up that of the tails: those of arviz and Stan.
TAILS = (0.05, 0.95)
# Draws per chain below which half a chain has no variance.
LEAST_DRAWS = 4


def rank_normalised_r_hat(draws: Array) -> Array:
    """The larger R̂ of draws and folded draws: the first sees chains that differ in place, the second in spread.

    arviz-stats wants two chains at least; a lone one is judged by its halves.
    """
    n = draws.shape[1]
    if len(draws) == 1:
        draws = np.concatenate([draws[:, : n // 2], draws[:, n - n // 2 :]])
    return _moving(lambda arviz, moving: arviz.rhat(moving, chain_axis=0, draw_axis=1, method="rank"), draws)


def bulk_ess(draws: Array) -> Array:
    """Effective sample size of the normal scores: how well the middle of the law is known."""
    return _moving(lambda arviz, moving: arviz.ess(moving, chain_axis=0, draw_axis=1, method="bulk"), draws)


def tail_ess(draws: Array) -> Array:
    """The smaller effective sample size of 1[θ ≤ q], q the 5% and 95% quantiles."""
    return _moving(lambda arviz, moving: arviz.ess(moving, chain_axis=0, draw_axis=1, method="tail", prob=TAILS), draws)


def _moving(diagnostic: Callable[[Any, Array], Any], draws: Array) -> Array:
    """A diagnostic of the coefficients whose draws are not all equal."""
    from arviz_stats.base import array_stats  # imports most of SciPy, which posteriors without chains do not need

    result = np.full(draws.shape[2], np.nan)
    moving = np.ptp(draws, axis=(0, 1)) > 0
    if draws.shape[1] >= LEAST_DRAWS and moving.any():
        with np.errstate(divide="ignore", invalid="ignore"):  # chains that stand still have no variance within
            result[moving] = diagnostic(array_stats, draws[:, :, moving])
    return result
