"""The check of a discovery: the same operators on coarser samplings and with other test functions, then the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bvsi.check import Check, Variation, Verdict, check, variations, without_noise
from bvsi.common.progress import Progress
from bvsi.data import Grid
from bvsi.discovery.method import Method
from bvsi.discovery.submodel import assembled
from bvsi.errors import BvsiError, DataError, NotPositiveDefiniteError, OperatorError, RankError, SpaceError
from bvsi.infer import Fit, Profile
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.posteriors import Posterior, TruncatedPosterior, widened
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise.measurement import Measurement
from bvsi.noise.models import values_at
from bvsi.operators import Library
from bvsi.residual.widths import widest_band

Array = NDArray[np.float64]

_ROUGHLY = Profile(tol=1e-2, max_iterations=10)
"""A hundredth of a standard deviation is near enough to compare estimates."""

_POSSIBLE = (RankError, NotPositiveDefiniteError, DataError, SpaceError, OperatorError)
"""What fewer data or another element can honestly fail with. Any other error is a fault of ours and is not caught."""

_MEASURED = (
    "Do not trust the error bars: the noise is not what filters take it for, independent and Gaussian. State it: "
    "Diagonal() where it varies, Covariance() where it is correlated; for data without noise, how far they can be "
    "trusted, such as IID(1e-6)."
)
"""What to do about noise that was measured, not stated."""


def check_discovery(
    fit: Fit | None,
    likelihood: ResidualLikelihood,
    theta: Array,
    measured: Sequence[Measurement],
    library: Library,
    method: Method,
    progress: Progress,
    rng: np.random.Generator,
    *,
    held: bool = False,
) -> Check | None:
    """Refit with every variation that the data allow, and judge.

    fit, likelihood: of the selected operators, without constraints: these would hide what moves. Where there is no such
        fit it is made, from theta (d,); None where the data do not determine it.
    rng: for draws of the noise.
    held: whether constraints hold the fit after all; refits, which are free, are then not compared with it.
    """
    try:
        fit = Profile().fit(likelihood, start=theta) if fit is None else fit
    except (RankError, NotPositiveDefiniteError):
        return None
    tried = () if held else variations([m.data for m in measured], method.discretisation, method.stencil)
    refits = []
    for number, variation in enumerate(tried):
        progress(number + 1, len(tried), f"checking with {variation.name}")
        refits.append((variation, _refit(variation, fit, likelihood, measured, library, method)))
    judged = check(
        fit,
        likelihood,
        refits,
        noise_error=max(m.error for m in measured),
        rng=rng,
        data=[m.data for m in measured if not m.bridged],  # interpolated values are no white noise
        filter_sigma=measured[0].filtered if len(measured) == 1 else None,
        cycles=_cycles(measured),
    )
    if all(m.noise_free for m in measured):
        return without_noise(judged, likelihood, fit.theta)
    if judged.verdict is Verdict.NOISE and all(m.error for m in measured):
        return replace(judged, advice=_MEASURED)
    return judged


def with_bias(posterior: Posterior, judged: Check, constraints: LinearConstraints) -> Posterior:
    """The posterior with T diag(bias_η²) Tᵀ on top of its covariance, where equalities make θ = c + T η.

    What equalities tie together moves together, and what they fix does not move.
    """
    ties = constraints.affine()
    added = ties.T @ judged.covariance_added[np.ix_(ties.free, ties.free)] @ ties.T.T
    if isinstance(posterior, TruncatedPosterior):
        return replace(posterior, base=widened(posterior.base, added))
    law: Posterior = widened(posterior, added)
    return law


def _refit(
    variation: Variation,
    fit: Fit,
    likelihood: ResidualLikelihood,
    measured: Sequence[Measurement],
    library: Library,
    method: Method,
) -> Fit | BvsiError:
    """The same operators on other data or test functions; the error where that cannot be fitted."""
    parts = list(zip(measured, variation.frames, variation.nodes, likelihood.noise, strict=True))
    try:
        system = assembled(
            variation.data,
            library,
            likelihood.names,
            discretisation=variation.discretisation,
            stencil=variation.stencil,
            variance=[{f: values_at(v, frames, nodes) for f, v in m.variance.items()} for m, frames, nodes, _ in parts],
        )
        noise = [model.at(frames, nodes) for _, frames, nodes, model in parts]
        again = residual_likelihood(system, noise, method.weighting)
        return _ROUGHLY.fit(again, start=fit.theta)
    except _POSSIBLE as error:
        return error


def _cycles(measured: Sequence[Measurement]) -> dict[str, float] | None:
    """Bandwidth of the data where they are on grids."""
    if not all(isinstance(m.data.geometry, Grid) for m in measured):
        return None
    return widest_band([m.data for m in measured], [m.sigma for m in measured])
