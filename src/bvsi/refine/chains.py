"""Markov chains of coefficients and initial states together, with the gradients of the Gauss–Newton steps.

    log p(θ, z | û) = −½ Φ(θ, z),     ∂/∂(θ, z) = (g, h) of :class:`bvsi.refine.expansion.Expansion`

The law of the modes and σ² are those of the fit. Chains run where the Gaussian law of the fit is N(0, I), so that most
steps take a few gradients; z is integrated out by leaving it out of the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg

from bvsi.common.arrays import Array, Rng
from bvsi.common.progress import OutOfTimeError, Progress, silent
from bvsi.errors import BvsiError
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.nuts import NUTS
from bvsi.infer.posteriors import GaussianPosterior, TruncatedPosterior
from bvsi.infer.priors import PriorDensity
from bvsi.infer.sampling import LogPosterior, prepare
from bvsi.likelihood import ValueGradient
from bvsi.refine.expansion import Expansion, Point, sums_at
from bvsi.refine.instrument import RefineError
from bvsi.refine.model import ForwardFit, ForwardModel

_LONGER = 4  # times as long as the steps of the state are those of its derivatives, as in :mod:`bvsi.refine.fitting`


def sampled(model: ForwardModel, fit: ForwardFit, nuts: NUTS, *, rng: Rng, progress: Progress = silent) -> ForwardFit:
    """The fit with a posterior of draws in place of the Gaussian one.

    Parameters
    ----------
    nuts
        Draws, tuning and chains; its objective is not used.
    """
    if model.profiled:
        raise RefineError(
            "sample: where initial states have more modes than the data tell, their priors are weak and they are at "
            "their best, not integrated out; leave `sample` out."
        )
    z = tuple(one.modes(state) for one, state in zip(model.experiments, fit.initial, strict=True))
    point = Point(fit.theta, z, fit.smoothness, fit.level, fit.steps, (None,) * len(z), _LONGER)
    ends = np.cumsum([len(fit.theta), *map(len, z)])
    stopped: list[OutOfTimeError] = []

    def log_posterior(unknowns: Array) -> ValueGradient:
        theta, *own = np.split(unknowns, ends[:-1])
        there = replace(point, theta=theta, z=tuple(own))
        sums = None if stopped else sums_at(model, there)
        if sums is None:
            return ValueGradient(-np.inf, np.zeros(len(unknowns)))
        at = Expansion.of(model, there, sums)
        return ValueGradient(-0.5 * at.phi, np.concatenate([at.g, *at.h]))

    sums = sums_at(model, point)
    if sums is None:
        raise RefineError("sample: the equation cannot be solved again where the fit ended.")
    precision = _whole(Expansion.of(model, point, sums))
    names = (*model.names, *(f"z_{k}" for k in range(ends[-1] - ends[0])))
    A = np.pad(model.bounds.A, ((0, 0), (0, int(ends[-1] - ends[0]))))
    bounds = LinearConstraints(names, A, model.bounds.lower, model.bounds.upper, model.bounds.texts)
    mode = np.concatenate([fit.theta, *z])
    base = GaussianPosterior(names, mode, np.asarray(np.linalg.inv(precision), dtype=float))
    law = TruncatedPosterior(base, bounds, mode) if bounds else base
    target = LogPosterior(names, log_posterior, PriorDensity(names, (), ()), bounds)

    def told(done: float, total: float | None, what: str) -> None:
        """Progress; what ends it is kept, since the sampler has words of its own for it."""
        try:
            progress(done, total, what)
        except OutOfTimeError as error:
            stopped.append(error)
            raise

    try:
        draws = nuts.sample(prepare(target, law, rng), model.names, rng=rng, progress=told)
    except BvsiError as error:
        if stopped:
            raise stopped[0] from error
        raise RefineError(f"sample: {error}") from error
    return replace(fit, posterior=draws)


def _whole(at: Expansion) -> Array:
    """½ Φ″ (d + m, d + m) of coefficients and the modes of all experiments."""
    C = scipy.linalg.block_diag(*at.C)
    B: Sequence[Array] = at.B
    return np.block([[at.A, np.concatenate(B).T], [np.concatenate(B), C]])
