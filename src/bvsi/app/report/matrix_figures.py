"""Figures with a cell per pair of coefficients: correlations, and the posterior seen two by two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bvsi.app.plot.covariance import correlations
from bvsi.app.plot.pairs import RADII, ellipse, least_certain
from bvsi.app.report.equation import measured, operator_label
from bvsi.app.report.markup import Markup, details, download, element, table
from bvsi.app.report.svg import clipped, dots_data, figure, label_width, path_data, short_number, svg, text
from bvsi.app.report.typeset import plain
from bvsi.infer.posteriors import Posterior

Array = NDArray[np.float64]

_WIDTH = 400.0
_MOST_LABEL = 120.0
_DRAWS = 200
_MOST_NUMBERS = 12


def correlation_figure(posterior: Posterior, fields: tuple[str, ...]) -> Markup:
    """Correlations as colours, with covariances as numbers below."""
    labels = [operator_label(name, fields) for name in posterior.names]
    covariance = posterior.covariance
    correlation = correlations(covariance)
    left, cell = _layout(labels)
    parts = []
    for i, row in enumerate(correlation.tolist()):
        for j, value in enumerate(row):
            words = f"{labels[i]} and {labels[j]}: correlation {value:.2f}, covariance {covariance[i, j]:.3g}"
            parts.append(_cell(left + j * cell, i * cell, cell, value, words))
    names = _labels(labels, left, cell, rows=range(len(labels)), columns=range(len(labels)))
    height = cell * len(labels) + _below(labels)
    drawing = svg(_WIDTH, height, *parts, names, label="Correlations between the coefficients")
    caption = "Posterior correlations: blue positive, orange negative, the stronger the nearer to ±1."
    rows = [[name, *values] for name, values in zip(posterior.names, correlation.tolist(), strict=True)]
    data = download("correlations.csv", ["", *posterior.names], rows)
    return figure(element("div", drawing, data, _covariance_table(labels, covariance)), caption)


def pairs_figure(posterior: Posterior, fields: tuple[str, ...], rng: np.random.Generator) -> Markup:
    """Draws and ellipses of the posterior, two coefficients at a time; the least certain ones where there are many."""
    chosen = least_certain(posterior)
    labels = [operator_label(posterior.names[i], fields) for i in chosen]
    sd = np.sqrt(posterior.variance)[chosen]
    draws = posterior.sample(_DRAWS, rng)[:, chosen]
    centred = (draws - posterior.mean[chosen]) / np.where(sd > 0, sd, 1.0)
    correlation = correlations(posterior.covariance)[np.ix_(chosen, chosen)]
    left, cell = _layout(labels)
    parts = []
    for i in range(len(chosen)):
        for j in range(i):
            words = f"{labels[j]} (across) and {labels[i]} (up): correlation {correlation[i, j]:.2f}"
            corner = (left + j * cell, i * cell)
            parts.append(_pair(corner, cell, centred[:, [j, i]], float(correlation[i, j]), words))
        value = plain(measured(float(posterior.mean[chosen[i]]), float(sd[i]))).replace("-", "−")
        parts.append(_marginal((left + i * cell, i * cell), cell, centred[:, i], f"{labels[i]}: {value}"))
    indices = range(len(chosen))
    names = _labels(labels, left, cell, rows=indices, columns=indices)
    height = cell * len(chosen) + _below(labels)
    drawing = svg(_WIDTH, height, *parts, names, label="Posterior of the coefficients, two at a time")
    left_out = len(posterior.names) - len(chosen)
    some = f" The {len(chosen)} least certain of {len(posterior.names)} coefficients." if left_out else ""
    words = f"{_DRAWS} draws, ellipses with 68% and 95%, ±3.5 standard deviations across; marginals on the diagonal."
    data = download("draws.csv", [posterior.names[i] for i in chosen], draws.tolist())
    return figure(element("div", drawing, data), words + some)


def _layout(labels: Sequence[str]) -> tuple[float, float]:
    """Room for labels at the left, and the side of a cell."""
    left = label_width(labels, _MOST_LABEL)
    return left, min((_WIDTH - left - 2) / len(labels), 110.0)


def _below(labels: Sequence[str]) -> float:
    """Room for slanting labels below."""
    return 16 + 0.7 * label_width(labels, _MOST_LABEL)


def _labels(labels: Sequence[str], left: float, cell: float, *, rows: Sequence[int], columns: Sequence[int]) -> Markup:
    """Names at the left of the rows and slanting below the columns."""
    size = max(5.0, min(11.0, 0.95 * cell))
    parts = []
    for i in rows:
        name = clipped(labels[i], _MOST_LABEL)
        parts.append(text(name, left - 6, (i + 0.5) * cell + 0.35 * size, text_anchor="end", font_size=size))
    bottom = cell * len(labels) + 12
    for j in columns:
        x = left + (j + 0.5) * cell + 0.35 * size
        name, turn = clipped(labels[j], _MOST_LABEL), f"rotate(-45 {x:.1f} {bottom:.1f})"
        parts.append(text(name, x, bottom, text_anchor="end", font_size=size, transform=turn))
    return element("g", *parts, aria_hidden="true")


def _cell(x: float, y: float, cell: float, value: float, words: str) -> Markup:
    sign = "positive" if value >= 0 else "negative"
    gap = 1.0 if cell > 12 else 0.3
    square = element(
        "rect", x=x, y=y, width=cell - gap, height=cell - gap, class_=sign, fill_opacity=f"{max(abs(value), 0.03):.2f}"
    )
    size = min(11.0, cell / 3)
    number = text(
        f"{value:.2f}".replace("-", "−"),
        x + 0.5 * (cell - gap),
        y + 0.5 * cell + 0.35 * size,
        text_anchor="middle",
        font_size=size,
        class_="strong" if abs(value) > 0.6 else None,
    )
    return element("g", element("title", words), square, number if cell > 18 else "")


def _pair(corner: tuple[float, float], cell: float, draws: Array, correlation: float, words: str) -> Markup:
    """Draws (m, 2) in standard deviations, with ellipses of the normal law that has their correlation."""
    ring = ellipse(np.array([[1.0, correlation], [correlation, 1.0]])).T
    inside = draws[np.all(np.abs(draws) < 3.5, axis=1)]
    parts = [
        element("rect", x=corner[0], y=corner[1], width=cell - 2, height=cell - 2, class_="panel"),
        element("path", d=dots_data(*_placed(inside.T, corner, cell)), class_="dots"),
        *(element("path", d=path_data(*_placed(r * ring, corner, cell)) + "Z", class_="ellipse") for r in RADII),
    ]
    return element("g", element("title", words), *parts)


def _placed(points: Array, corner: tuple[float, float], cell: float) -> tuple[Array, Array]:
    """Places of points (2, m) in standard deviations."""
    half = 0.5 * (cell - 2)
    return corner[0] + half * (1 + points[0] / 3.5), corner[1] + half * (1 - points[1] / 3.5)


def _marginal(corner: tuple[float, float], cell: float, draws: Array, words: str) -> Markup:
    """The density of the draws (m,), in standard deviations, smoothed by a Gaussian kernel."""
    at = np.linspace(-3.5, 3.5, 41)
    width = 0.35
    density = np.exp(-0.5 * ((at[:, None] - draws) / width) ** 2).mean(axis=1)
    height = density / max(float(density.max()), 1e-300)
    x, y = _placed(np.stack([at, -3.5 + 6.3 * height]), corner, cell)
    parts = [
        element("rect", x=corner[0], y=corner[1], width=cell - 2, height=cell - 2, class_="panel"),
        element("path", d=path_data(x, y), class_="curve a"),
    ]
    return element("g", element("title", words), *parts)


def _covariance_table(labels: Sequence[str], covariance: Array) -> Markup:
    """The numbers, where they are not too many."""
    if len(labels) > _MOST_NUMBERS:
        return Markup("")
    rows = [[label, *(short_number(v) for v in row)] for label, row in zip(labels, covariance.tolist(), strict=True)]
    return details("Covariances as numbers", table(["", *labels], rows, caption="Posterior covariance"))
