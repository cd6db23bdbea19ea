"""Convergence of Markov chains: rank-normalised split R-hat and effective sample sizes.

After Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization, folding, and localization: an improved R-hat
for assessing convergence of MCMC", Bayesian Analysis 16 (2021). All functions take draws (chains, draws, d) and return
(d,); NaN where there are fewer than four draws per chain, or all draws of a coefficient are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.fft
import scipy.special
from numpy.typing import NDArray

Array = NDArray[np.float64]

TAILS = (0.05, 0.95)
"""Quantiles whose effective sample sizes make up that of the tails."""
LEAST_DRAWS = 4
"""Draws per chain below which half a chain has no variance."""


def rank_normalised_r_hat(draws: Array) -> Array:
    """max(R̂(z), R̂(z of |θ − median|)): the first sees chains that differ in place, the second in spread."""

    def both(halves: Array) -> Array:
        folded = np.abs(halves - np.median(halves, axis=(0, 1)))
        return np.fmax(_r_hat(_normal_scores(halves)), _r_hat(_normal_scores(folded)))

    return _on_halves(both, draws)


def bulk_ess(draws: Array) -> Array:
    """Effective sample size of the normal scores z: how well the middle of the law is known."""
    return _on_halves(lambda halves: _ess(_normal_scores(halves)), draws)


def tail_ess(draws: Array) -> Array:
    """The smaller effective sample size of 1[θ ≤ q], q the 5% and 95% quantiles."""
    low, high = (
        _on_halves(_ess, (draws <= quantile).astype(np.float64)) for quantile in np.quantile(draws, TAILS, axis=(0, 1))
    )
    return np.minimum(low, high)


def _on_halves(diagnostic: Callable[[Array], Array], draws: Array) -> Array:
    """A diagnostic of the half chains (2 chains, draws/2, d); a middle draw is left out."""
    n = draws.shape[1]
    if n < LEAST_DRAWS:
        return np.full(draws.shape[2], np.nan)
    halves = np.concatenate([draws[:, : n // 2], draws[:, n - n // 2 :]])
    moving = np.ptp(halves, axis=(0, 1)) > 0
    result = np.full(draws.shape[2], np.nan)
    if moving.any():
        result[moving] = diagnostic(halves[:, :, moving])
    return result


def _normal_scores(draws: Array) -> Array:
    """Φ⁻¹((rank − 3/8)/(n + 1/4)), ranks over all chains together, ties averaged (Blom)."""
    import scipy.stats  # takes half a second, which posteriors without chains need not wait for

    flat = draws.reshape(-1, draws.shape[2])
    ranks = scipy.stats.rankdata(flat, axis=0)
    return np.asarray(scipy.special.ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(draws.shape))


def _r_hat(draws: Array) -> Array:
    """R̂ = √((B/W + n − 1)/n), B = n Var(chain means), W = mean of the chains' variances; infinite where W is 0."""
    n = draws.shape[1]
    between = n * draws.mean(axis=1).var(axis=0, ddof=1)
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    ratio = np.divide(between, within, out=np.full_like(within, np.inf), where=within > 0)
    # all draws equally far from the median: there is no spread in which chains could differ
    ratio[(within == 0) & (between == 0)] = 0.0
    return np.asarray(np.sqrt((ratio + n - 1) / n))


def _ess(draws: Array) -> Array:
    """Chains · draws / τ, τ = −1 + 2 Σ_k (ρ_2k + ρ_2k+1) over Geyer's initial monotone sequence.

    ρ_t = 1 − (W − mean autocovariance at lag t)/V, V = (n − 1)/n W + Var(chain means). The sum ends before the first
    pair that is not positive, whose even part is added once where it is positive; τ ≥ 1/log10(chains · draws).
    """
    chains, n, d = draws.shape
    autocovariance = _autocovariance(draws).mean(axis=0)
    within = autocovariance[0] * n / (n - 1)
    total = autocovariance[0] + draws.mean(axis=1).var(axis=0, ddof=1)
    rho = 1 - (within - autocovariance) / total
    rho[0] = 1.0
    last = max((n - 3) // 2, 0)
    pairs = rho[: 2 * last + 2].reshape(last + 1, 2, d).sum(axis=1)
    ended = pairs <= 0
    ended[last] = True
    end = np.argmax(ended, axis=0)
    kept = np.arange(last + 1)[:, None] < end
    monotone = np.minimum.accumulate(np.where(kept, pairs, np.inf), axis=0)
    even = np.take_along_axis(rho, 2 * end[None], axis=0)[0]
    tau = -1 + 2 * np.where(kept, monotone, 0.0).sum(axis=0) + np.maximum(even, 0.0)
    return np.asarray(chains * n / np.maximum(tau, 1 / math.log10(chains * n)))


def _autocovariance(draws: Array) -> Array:
    """(1/n) Σ_s (θ_s − mean)(θ_s+t − mean) for all lags t, by FFT of the padded chains."""
    n = draws.shape[1]
    length = scipy.fft.next_fast_len(2 * n, real=True)
    spectrum = scipy.fft.rfft(draws - draws.mean(axis=1, keepdims=True), length, axis=1)
    return np.asarray(scipy.fft.irfft(np.abs(spectrum) ** 2, length, axis=1)[:, :n] / n)
