"""Fits by forward solves: beside the weak form, structures with their probabilities, and predictions beside data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bvsi.app.report.charts import Chart, Curve, Level, chart
from bvsi.app.report.formula import name_formula
from bvsi.app.report.markup import Markup, details, element, table
from bvsi.app.report.svg import Scale, axes, dots_data, figure, line, padded, path_data, short_number, svg
from bvsi.app.report.typeset import plain
from bvsi.common.arrays import Array
from bvsi.discovery import with_uncertainty
from bvsi.discovery.refined import PredictedExperiment, Refined
from bvsi.discovery.result import INFLUENCE

_SHOWN = 0.01  # probability of operators and structures in tables
_PANELS = 6  # frames of one field that are drawn
_HALF_WIDTH = 1.96  # of a 95% band
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 400.0, 230.0, 50.0, 26.0, 40.0
_RESIDUALS = 5.0  # standard deviations at the ends of the axis of residuals


def refined_section(refined: Refined, weak: Mapping[str, tuple[float, float]]) -> Markup:
    """Coefficients beside those of the weak form, probabilities of structures, and predictions beside data.

    Parameters
    ----------
    weak
        Coefficients of the weak form and their standard deviations, by operator.
    """
    what = "sensors" if refined.few_sensors else "frames" if refined.few_frames else ""
    few = f"The {what} are too few for the weak form below: trust this section. " if what else ""
    words = (
        f"{few}{_count(len(refined.models) - 1)} solved from an initial state that is inferred "
        f"with the coefficients, and compared with {refined.best.count} values as they were measured."
    )
    agreement = refined.agreement  # a disagreement is among the doubts
    return element(
        "section",
        element("h2", "Forward solves"),
        element("p", words),
        element("p", element("code", refined.equation)),
        *(element("p", doubt, class_="note") for doubt in refined.doubts),
        _coefficients(refined, weak),
        element("p", refined.identified),
        _structures(refined),
        *([element("p", str(agreement))] if agreement is not None and not agreement.doubted else []),
        *_experiments(refined),
        id="refined",
    )


def _count(others: int) -> str:
    if not others:
        return "The equation was"
    return f"The equation and {'another one' if others == 1 else f'{others} others'} were"


def _coefficients(refined: Refined, weak: Mapping[str, tuple[float, float]]) -> Markup:
    mixture = refined.mixture()
    inclusion = refined.inclusion()
    rows = []
    for name in refined.candidates:
        if inclusion[name] > _SHOWN or name in weak:
            own = [short_number(value) for value in mixture.moments(name)] if inclusion[name] > 0 else ["–"] * 3
            other = with_uncertainty(*weak[name]) if name in weak else "–"
            rows.append([name, other, *own, f"{inclusion[name]:.3f}"])
    headings = ["operator", "weak form", "forward solves", "sd (statistics)", "sd (structure)", "P(in)"]
    return table(headings, rows, caption="Coefficients, over the structures that have them")


def _structures(refined: Refined) -> Markup:
    chances = [refined.probabilities(factor) for factor in (1.0, *INFLUENCE)]
    rows = [
        [" + ".join(fit.names), *(f"{p[i]:.3f}" for p in chances), f"{fit.chi2:.2f}"]
        for i, fit in enumerate(refined.models)
        if max(p[i] for p in chances) > _SHOWN
    ]
    rows += [[" + ".join(names), "–", "–", "–", reason] for names, reason in refined.refused]
    head = ["structure", "P", *(f"P, prior × {factor:g}" for factor in INFLUENCE), "χ² per degree of freedom"]
    return table(head, rows, caption="Structures, all as probable beforehand, also with narrower and wider priors")


def _experiments(refined: Refined) -> list[Markup]:
    """All experiments, the first one open."""
    blocks = []
    for number, one in enumerate(refined.experiments):
        body = element("div", *(part for f in refined.fields for part in _field(one, f)), class_="figures")
        name = f"Experiment {number + 1}"
        blocks.append(body if len(refined.experiments) == 1 else details(name, body, open_=number == 0))
    return blocks


def _field(one: PredictedExperiment, field: str) -> list[Markup]:
    """Data and band at some times, or over time, and residuals in units of the noise."""
    name = plain(name_formula(field))
    if one.points.shape[1] == 0:
        return [_panel(one.times, one, field, "t", f"{name} over time", np.s_[:, 0])]
    if one.points.shape[1] == 1:
        frames = np.unique(np.linspace(0, len(one.times) - 1, min(_PANELS, len(one.times))).round().astype(int))
        x = one.points[:, 0]
        panels = [_panel(x, one, field, "x", f"{name} at t = {short_number(one.times[k])}", np.s_[k]) for k in frames]
        return [*panels, _residuals(one, field, name, frames)]
    return [_against(one, field, name), _by_time(one, field, name)]


def _panel(x: Array, one: PredictedExperiment, field: str, axis: str, words: str, at: Any) -> Markup:
    """Data as dots, the prediction as a line, and the band within which a measurement lies in 95%."""
    order = np.argsort(x, kind="stable")
    data, mean, half = (
        np.asarray(v[at])[order] for v in (one.values[field], one.mean[field], _HALF_WIDTH * one.sd(field))
    )
    across = Scale(*padded(x, 0.0), _LEFT, _WIDTH - 12)
    upwards = Scale(*padded(np.concatenate([data, mean - half, mean + half])), _HEIGHT - _BOTTOM, _TOP)
    places = across(x[order])
    outline = path_data(
        np.concatenate([places, places[::-1]]), np.concatenate([upwards(mean + half), upwards(mean - half)[::-1]])
    )
    drawing = svg(
        _WIDTH,
        _HEIGHT,
        axes(across, upwards, axis, ""),
        element("path", d=outline + "Z", class_="band a"),
        element("path", d=path_data(places, upwards(mean)), class_="curve a"),
        element("path", d=dots_data(places, upwards(data)), class_="dots seen"),
        label=words,
    )
    inside = np.abs(data - mean) <= half
    known = np.isfinite(data)
    told = f"; {np.mean(inside[known]):.0%} of the measurements within" if known.any() else ": forecast"
    return figure(drawing, f"{words}: data (dots), prediction of all structures with its 95% band{told}.")


def _residuals(one: PredictedExperiment, field: str, name: str, frames: Array) -> Markup:
    """Residuals over the place, all frames in one."""
    x = one.points[:, 0]
    across = Scale(*padded(x, 0.0), _LEFT, _WIDTH - 12)
    upwards = Scale(-_RESIDUALS, _RESIDUALS, _HEIGHT - _BOTTOM, _TOP)
    z = one.residual(field)[frames]
    places, held = np.tile(across(x), len(z)), np.clip(z, -_RESIDUALS, _RESIDUALS).ravel()
    words = f"{name}: residuals in units of the noise, {len(z)} frames"
    drawing = svg(
        _WIDTH,
        _HEIGHT,
        axes(across, upwards, "x", "standard deviations"),
        *(
            line(across.start, upwards.at(v), across.end, upwards.at(v), class_="level")
            for v in (-_HALF_WIDTH, _HALF_WIDTH)
        ),
        element("path", d=dots_data(places, upwards(held)), class_="dots"),
        label=words,
    )
    return figure(drawing, f"{words}; of replicates, their scatter. Between the dashed lines lie 95% if all is right.")


def _by_time(one: PredictedExperiment, field: str, name: str) -> Markup:
    """Root mean square of the residuals over time."""
    z = one.residual(field)
    known = np.isfinite(z).any(axis=1)
    rms = np.sqrt(np.nanmean(z[known] ** 2, axis=1))
    words = f"{name}: residuals in units of the noise, root mean square over time"
    spec = Chart(one.times[known], (Curve("rms", rms, "a"),), "t", "rms", words, (Level("noise", 1.0),), bottom=0.0)
    return figure(chart(spec), f"{words}; about one where all is right.")


def _against(one: PredictedExperiment, field: str, name: str) -> Markup:
    """Measurements over predictions."""
    seen, mean = one.values[field], one.mean[field]
    known = np.isfinite(seen)
    thin = max(1, int(known.sum()) // 2000)
    x, y = mean[known][::thin], seen[known][::thin]
    ends = padded(np.concatenate([x, y]))
    across, upwards = Scale(*ends, _LEFT, _WIDTH - 12), Scale(*ends, _HEIGHT - _BOTTOM, _TOP)
    words = f"{name}: measured over predicted"
    drawing = svg(
        _WIDTH,
        _HEIGHT,
        axes(across, upwards, "predicted", "measured"),
        line(across.start, upwards.start, across.end, upwards.end, class_="level"),
        element("path", d=dots_data(across(x), upwards(y)), class_="dots"),
        label=words,
    )
    return figure(drawing, f"{words}.")
