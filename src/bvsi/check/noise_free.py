"""Data without noise to speak of: what counts is how far discretisations differ, and how much of y they explain.

    bias = max over comparisons of |Δ| (a better discretisation) or |Δ|/(ratio² − 1) (a coarser sampling)
    effect of a bias: max_i bias_i ‖X_i‖/‖y‖,        unexplained = Σ r² / Σ y²

What filters take for noise is then rounding and what is left of the signal, and no test against noise means anything.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bvsi.check.assessment import Check
from bvsi.check.verdict import ADVICE, Verdict
from bvsi.likelihood import ResidualLikelihood

Array = NDArray[np.float64]

# Effect of a bias, and share of y, that would be trouble.
_BIAS = 0.01
_UNEXPLAINED = 1e-3
# ratio² − 1 of data with half the resolution
_COARSER = 3.0

_ADVICE = (
    "Nothing to do: the equation explains the data. They have no noise to speak of, so that the error bars are those "
    "of the discretisation."
)


def without_noise(check: Check, likelihood: ResidualLikelihood, theta: Array) -> Check:
    """The check of a fit to data without noise."""
    moved = {c.kind: np.abs(c.difference) / (1.0 if c.better else _COARSER) for c in check.comparisons}
    bias = np.max([check.bias, *moved.values()], axis=0)
    share, size_of = unexplained(likelihood, theta), _sizes(likelihood)
    relative = {kind: float(np.max(size * size_of)) for kind, size in moved.items()}
    worst = max(relative, key=lambda kind: relative[kind]) if relative else "width"
    reasons: tuple[str, ...] = ("filters find no noise",)
    if share > _UNEXPLAINED:
        verdict, advice = Verdict.OPERATOR, ADVICE[Verdict.OPERATOR]
        reasons += (f"{share:.1%} of the time derivative stay unexplained",)
    elif relative and relative[worst] > _BIAS:
        verdict = Verdict.TIME if worst == "time" else Verdict.SPACE
        advice = ADVICE[verdict]
        reasons += (f"other discretisations move the right side by {relative[worst]:.1%}",)
    else:
        verdict, advice = Verdict.CONSISTENT, _ADVICE
    return replace(check, verdict=verdict, advice=advice, reasons=reasons, bias=bias, covariance_added=np.diag(bias**2))


def unexplained(likelihood: ResidualLikelihood, theta: Array) -> float:
    """Σ r² / Σ y²."""
    y = sum(float(np.sum(np.square(part.residuals.y))) for part in likelihood.parts)
    r = sum(float(np.sum(np.square(part.residuals.residual(theta)))) for part in likelihood.parts)
    return r / y if y > 0 else 0.0


def _sizes(likelihood: ResidualLikelihood) -> Array:
    """‖X_i‖/‖y‖, (d,)."""
    Z = np.sum([np.sum(np.square(part.residuals.Z), axis=(0, 1)) for part in likelihood.parts], axis=0)
    return np.sqrt(Z[1:] / Z[0]) if Z[0] > 0 else np.ones(len(Z) - 1)
