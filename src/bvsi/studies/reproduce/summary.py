"""Studies as JSON values: the same layout for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bvsi.infer import Fit
from bvsi.infer.posteriors import NormalInverseGammaPosterior
from bvsi.select import SelectionPath


def by_name(fit: Fit) -> dict[str, float]:
    """Coefficients by operator."""
    return dict(zip(fit.names, fit.theta.tolist(), strict=True))


def methods(
    fits: Mapping[str, Fit], error: Callable[[Fit], float], extra: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Estimates by method; ``extra`` adds entries by method."""
    result: dict[str, dict[str, Any]] = {}
    for method, fit in fits.items():
        entry: dict[str, Any] = {
            "selected": list(fit.names),
            "theta": by_name(fit),
            "error": error(fit),
            **extra.get(method, {}),
            "chi2": fit.chi2 if fit.posterior is not None else None,
        }
        if fit.posterior is not None:
            entry["variance"] = dict(zip(fit.names, fit.posterior.variance.tolist(), strict=True))
            entry["converged"] = fit.status.converged
        if isinstance(fit.posterior, NormalInverseGammaPosterior):
            entry["noise_variance"] = fit.posterior.noise_variance
            entry["noise_variance_sd"] = fit.posterior.noise_variance_sd
        result[method] = entry
    return result


def path_rows(path: SelectionPath) -> list[dict[str, Any]]:
    """The models of a selection path."""
    return [
        {
            "operators": list(v.names),
            "score": v.score,
            "changed": v.changed,
            "chi2": v.chi2,
            "theta": dict(zip(v.names, v.theta.tolist(), strict=True)),
        }
        for v in path.visited
    ]


def criteria(paths: Mapping[str, SelectionPath]) -> dict[str, dict[str, Any]]:
    """What other criteria select."""
    return {name: {"selected": list(p.best.names), "path": path_rows(p)} for name, p in paths.items()}
