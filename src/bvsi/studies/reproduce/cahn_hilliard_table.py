"""The study beside tab:CH_parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bvsi.infer import Fit
from bvsi.infer.posteriors import NormalInverseGammaPosterior
from bvsi.operators import energy_operator
from bvsi.studies.problems.cahn_hilliard import TRUTH, error
from bvsi.studies.problems.free_energy import FIELDS
from bvsi.studies.reproduce.summary import by_name

_ORDER: tuple[tuple[str, tuple[int, int] | None], ...] = (
    ("c1", None),
    *(("c1", a) for a in ((4, 0), (2, 2), (3, 0), (2, 1), (1, 2), (2, 0), (1, 1))),
    ("c2", None),
    *(("c2", a) for a in ((2, 2), (0, 4), (2, 1), (1, 2), (0, 3), (1, 1), (0, 2))),
)

NAMES: tuple[str, ...] = tuple(
    f"{f}: biharmonic({f})" if a is None else f"{f}: {energy_operator(a, FIELDS, f)}" for f, a in _ORDER
)
"""The sixteen true operators in the order of the table."""


def _column(values: str) -> dict[str, float]:
    return dict(zip(NAMES, (float(v) for v in values.split()), strict=True))


PAPER: dict[str, dict[str, Any]] = {
    "vsi": {
        "theta": _column(
            "-0.006 0.039 0.077 -0.080 -0.077 -0.060 0.071 0.068 -0.007 0.148 0.052 -0.165 -0.141 -0.098 0.154 0.087"
        ),
        "error": 31.048,
        "mse": (1.117, 0.971),
    },
    "lagged": {
        "theta": _column(
            "-0.971 3.899 7.796 -7.797 -10.519 -7.794 8.680 10.517 "
            "-0.971 7.781 3.915 -10.510 -7.781 -6.916 10.510 5.968"
        ),
        "variance": _column(
            "1.501e-6 3.013e-5 4.173e-4 1.212e-4 5.179e-4 4.177e-4 1.286e-4 5.194e-4 "
            "1.735e-6 4.195e-4 3.800e-5 6.227e-4 4.228e-4 1.118e-4 6.250e-4 6.535e-5"
        ),
        "error": 0.802,
        "mse": (0.001, 0.001),
    },
    "unknown_table": {
        "theta": _column(
            "-0.935 3.809 6.754 -7.617 -9.309 -6.748 8.215 9.302 -0.939 6.835 3.878 -9.346 -6.828 -6.832 9.338 5.673"
        ),
        "variance": _column(
            "1.412e0 2.904e1 3.488e2 1.168e2 4.322e2 3.492e2 1.181e2 4.335e2 "
            "1.652e0 3.563e2 3.667e1 5.296e2 3.589e2 1.080e2 5.314e2 6.037e1"
        ),
        "noise_variance": 6.215e-5,
        "error": 3.926,
        "mse": (0.011, 0.007),
    },
}
"""tab:CH_parameters."""

_SHOWN = ("vsi", "lagged", "profile", "unknown", "unknown_table", "unknown_literal")
_HEADS = {"vsi": "VSI", "unknown": "unknown σ", "unknown_table": "as table", "unknown_literal": "literal"}


def comparison(fits: Mapping[str, Fit], mse: Mapping[str, Mapping[str, float]]) -> str:
    """Coefficients by method, those of the paper beside its own methods; variance ratios of the paper's estimator."""
    width = max(len(name) for name in (*NAMES, *fits["profile"].names))
    shown = [m for m in _SHOWN if m in fits]
    head = f"{'':<{width}} {'truth':>9}"
    for method in shown:
        head += f" {_HEADS.get(method, method):>10}" + (f" {'paper':>9}" if method in PAPER else "")
    rows = [f"{head} {'sd':>8} {'var/paper':>10}"]
    found = {m: by_name(fits[m]) for m in shown}
    sd, ratio = _sd(fits["profile"]), variance_ratios(fits["lagged"])
    for name in dict.fromkeys((*NAMES, *fits["profile"].names)):
        row = f"{name:<{width}} {TRUTH.get(name, 0.0):>9.3f}"
        for method in shown:
            row += f" {found[method].get(name, 0.0):>10.4f}"
            row += f" {PAPER[method]['theta'].get(name, math.nan):>9.3f}" if method in PAPER else ""
        rows.append(f"{row} {sd.get(name, math.nan):>8.1e} {ratio.get(name, math.nan):>10.2f}")
    rows += _totals(fits, mse, shown, width)
    return "\n".join(rows)


def variance_ratios(lagged: Fit) -> dict[str, float]:
    """Posterior variance over that of the table, for the paper's estimator with known noise."""
    assert lagged.posterior is not None
    own = dict(zip(lagged.names, lagged.posterior.variance.tolist(), strict=True))
    return {name: own[name] / value for name, value in PAPER["lagged"]["variance"].items() if name in own}


def _sd(fit: Fit) -> dict[str, float]:
    assert fit.posterior is not None
    return dict(zip(fit.names, np.sqrt(fit.posterior.variance).tolist(), strict=True))


def _totals(fits: Mapping[str, Fit], mse: Mapping[str, Mapping[str, float]], shown: list[str], width: int) -> list[str]:
    def row(label: str, own: Mapping[str, float], paper: Mapping[str, float], digits: str) -> str:
        text = f"{label:<{width}} {'':>9}"
        for method in shown:
            text += f" {format(own[method], digits):>10}" if method in own else f" {'':>10}"
            text += f" {format(paper[method], digits):>9}" if method in paper else " " * 10 * (method in PAPER)
        return text

    sizes = {m: error(by_name(fits[m])) for m in shown}
    noise = {
        m: fits[m].posterior.noise_variance  # type: ignore[union-attr]
        for m in shown
        if isinstance(fits[m].posterior, NormalInverseGammaPosterior)
    }
    rows = [
        row("‖θ − truth‖", sizes, {m: p["error"] for m, p in PAPER.items()}, ".4g"),
        row("σ_u²", noise, {m: p["noise_variance"] for m, p in PAPER.items() if "noise_variance" in p}, ".3g"),
    ]
    for i, f in enumerate(FIELDS):
        own = {m: mse[m][f] for m in shown}
        rows.append(row(f"MSE(∂g_{i + 1}/∂{f}), times m", own, {m: p["mse"][i] for m, p in PAPER.items()}, ".3g"))
    return rows
