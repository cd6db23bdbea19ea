"""Operators of data without noise that are no larger than what other discretisations move them by.

Rounding, quadrature and sampling leave residuals with a structure of their own, and some operator always fits it: of
clean data their coefficients are zero within the error bars that the check gives them. They are dropped one after the
other, the weakest first, while z² < log n with these error bars, which is what BIC asks of an operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bvsi.infer import Fit, Profile
from bvsi.infer.posteriors import Posterior
from bvsi.likelihood import ResidualLikelihood
from bvsi.select import SelectionPath
from bvsi.select.path import Visited


def without_weakest(
    path: SelectionPath, posterior: Posterior, whole: ResidualLikelihood, keep: Iterable[str]
) -> SelectionPath | None:
    """The path to the model without its weakest operator, fitted; None where all are larger than their error bars.

    Parameters
    ----------
    posterior
        Of the selected model, with what the check adds to its covariance.
    whole
        Likelihood of all candidates.
    keep
        Operators that stay.
    """
    best, z2 = path.best, np.square(posterior.mean) / posterior.variance
    kept = set(keep)
    free = [(float(one), name) for one, name in zip(z2, posterior.names, strict=True) if name not in kept]
    if best.fit is None or best.fit.quadratic is None or len(best.names) == 1 or not free:
        return None
    weakest, name = min(free)
    if weakest >= math.log(whole.n):
        return None
    left = tuple(other for other in best.names if other != name)
    fit = Profile().fit(whole.restrict(left), start=best.fit.quadratic.minimum(left).theta)
    return _shortened(path, fit, name)


def _shortened(path: SelectionPath, fit: Fit, dropped: str) -> SelectionPath:
    """The path with a smaller model at its end; what was said of rivals stays said."""
    fewer = [v for v in path.visited if len(v.names) < len(fit.names) and dropped not in v.names]
    score = min(path.best.score, *(v.score for v in fewer)) if fewer else path.best.score
    ended = Visited.of(fit, score, f"without {dropped}", {}, frozenset())
    stopped = f"{path.stopped} {dropped} is dropped: other discretisations move it by as much as it is."
    return replace(path, visited=(*fewer, ended), stopped=stopped, margins={}, seen=None)
