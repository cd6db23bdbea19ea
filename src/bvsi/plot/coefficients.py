"""Coefficients with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bvsi.inference import Fit
from bvsi.plot.style import BLUE, GREY, ORANGE


def coefficient_errors(ax: Any, fits: Mapping[str, Fit], truth: Mapping[str, float], *, level: float = 0.95) -> None:
    """Relative error (θ − truth)/|truth| of each coefficient, one row per operator, with credible intervals."""
    names = list(truth)
    rows = np.arange(len(names))[::-1]
    scale = np.abs(np.array([truth[name] for name in names]))
    ax.axvline(0.0, color=GREY, linewidth=1)
    for offset, (label, fit), colour in zip((0.12, -0.12), fits.items(), (ORANGE, BLUE), strict=False):
        order = [fit.names.index(name) for name in names]
        target = np.array([truth[name] for name in names])
        value = (fit.theta[order] - target) / scale
        half = np.zeros(len(names))
        if fit.posterior is not None:
            interval = fit.posterior.interval(level)[order]
            half = 0.5 * (interval[:, 1] - interval[:, 0]) / scale
        ax.errorbar(100 * value, rows + offset, xerr=100 * half, fmt="o", color=colour, capsize=3, label=label)
    ax.set_yticks(rows, names)
    ax.set(xlabel="error of the coefficient, % of the truth", ylim=(-0.6, len(names) - 0.4))
    ax.legend(loc="best")
