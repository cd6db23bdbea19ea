"""Coefficients with their intervals."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from bvsi.app.plot.style import BLUE, GREY, SERIES
from bvsi.app.units import NO_UNITS
from bvsi.discovery.result import undetermined, with_uncertainty
from bvsi.infer import Fit
from bvsi.infer.posteriors import Posterior


def coefficient_errors(ax: Any, fits: Mapping[str, Fit], truth: Mapping[str, float], *, level: float = 0.95) -> None:
    """Relative error ``(θ − truth)/|truth|`` of each coefficient, one row per true operator; one not found counts as
    0.
    """
    names = list(truth)
    rows = np.arange(len(names))[::-1]
    scale = np.abs(np.array([truth[name] for name in names]))
    ax.axvline(0.0, color=GREY, linewidth=1)
    offsets = np.linspace(0.12, -0.12, len(fits)) if len(fits) > 1 else [0.0]
    for offset, (label, fit), colour in zip(offsets, fits.items(), itertools.cycle(SERIES), strict=False):
        found = dict(zip(fit.names, fit.theta, strict=True))
        value = np.array([found.get(name, 0.0) - truth[name] for name in names]) / scale
        sides = np.zeros((2, len(names)))
        if fit.posterior is not None:
            distance = np.abs(fit.posterior.interval(level) - fit.theta[:, None])
            widths = dict(zip(fit.names, distance, strict=True))
            sides = np.array([widths.get(name, np.zeros(2)) for name in names]).T / scale
        ax.errorbar(100 * value, rows + offset, xerr=100 * sides, fmt="o", color=colour, capsize=3, label=label)
    ax.set_yticks(rows, names)
    ax.set(xlabel="error of the coefficient, % of the truth", ylim=(-0.6, len(names) + 0.4))
    ax.legend(loc="upper center", ncols=len(fits), fontsize="small")


def coefficient_intervals(
    ax: Any, posterior: Posterior, *, level: float = 0.95, units: Mapping[str, str] = NO_UNITS
) -> None:
    """Every coefficient with its interval, each in units of its mean, so that all can be read; zero is marked.

    Parameters
    ----------
    units
        Of the coefficients by name, for the numbers at the right.
    """
    rows = np.arange(len(posterior.names))[::-1]
    mean, interval = posterior.mean, posterior.interval(level)
    unit = np.where(mean != 0, np.abs(mean), np.sqrt(posterior.variance))
    unit = np.where(unit > 0, unit, 1.0)
    ends = np.abs(interval - mean[:, None]).T / unit
    ax.axvline(0.0, color=GREY, linewidth=1)
    ax.errorbar(mean / unit, rows, xerr=ends, fmt="o", color=BLUE, capsize=3)
    sds = np.sqrt(posterior.variance)
    for row, name, value, sd, sides in zip(rows, posterior.names, mean, sds, interval, strict=True):
        words = "undetermined" if undetermined(*sides) else with_uncertainty(float(value), float(sd))
        words = f"{words.replace('-', '−')} {units.get(name, '')}".rstrip()
        ax.text(1.02, row, words, transform=ax.get_yaxis_transform(), va="center", fontsize="small")
    ax.set_yticks(rows, posterior.names)
    ax.set(xlabel=f"coefficient / |mean|, {100 * level:g}% intervals", ylim=(-0.6, len(rows) - 0.4))
