"""Curves and bands over one coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.app.report.markup import Markup, download, element
from bvsi.app.report.svg import Scale, axes, line, padded, path_data, short_number, svg, text
from bvsi.common.naming import plain_name

Array = NDArray[np.float64]

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 400.0, 250.0, 50.0, 40.0, 40.0


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve (n,) with a name, a style of the page (``a``, ``b`` …) and, where there is one, a band around it."""

    name: str
    values: Array
    style: str = "a"
    band: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class Level:
    """A value to compare with, as a dashed line across."""

    name: str
    value: float


@dataclass(frozen=True, eq=False)
class Chart:
    """What a chart shows: curves over x (n,), levels, and a share of the x axis that is shaded.

    Parameters
    ----------
    bottom, top
        Bottom and top of the y axis, where they are fixed.
    logarithmic
        The y axis.
    """

    x: Array
    curves: tuple[Curve, ...]
    x_label: str
    y_label: str
    label: str
    levels: tuple[Level, ...] = ()
    shaded: tuple[float, float] | None = None
    shaded_name: str = ""
    bottom: float | None = None
    top: float | None = None
    logarithmic: bool = False


def chart(spec: Chart) -> Markup:
    """The chart as a figure."""
    x, y = _scales(spec)
    parts: list[Markup] = []
    if spec.shaded is not None:
        left, right = (x.at(v) for v in spec.shaded)
        parts.append(
            element("rect", x=left, y=y.end, width=max(right - left, 1.0), height=y.start - y.end, class_="held")
        )
    parts.append(axes(x, y, spec.x_label, spec.y_label))
    for curve in spec.curves:
        parts += _drawn(curve, spec.x, x, y)
    for level in spec.levels:
        place = y.at(level.value)
        parts.append(line(x.start, place, x.end, place, class_="level"))
    parts.append(_legend(spec))
    drawing = svg(_WIDTH, _HEIGHT, *parts, label=spec.label)
    return element("div", drawing, download(f"{plain_name(spec.label)}.csv", *_numbers(spec)))


def _numbers(spec: Chart) -> tuple[list[str], list[list[float]]]:
    """Names and columns of all that a chart shows."""
    columns: dict[str, Array] = {spec.x_label: spec.x}
    for curve in spec.curves:
        columns[curve.name or spec.y_label] = curve.values
        if curve.band is not None:
            columns |= {f"{curve.name} lower": curve.band[0], f"{curve.name} upper": curve.band[1]}
    return [*columns], np.column_stack([np.ravel(values) for values in columns.values()]).tolist()


def _scales(spec: Chart) -> tuple[Scale, Scale]:
    values = [c.values for c in spec.curves] + [side for c in spec.curves for side in c.band or ()]
    every = np.concatenate([np.ravel(v) for v in values] + [np.array([level.value for level in spec.levels])])
    if spec.logarithmic:
        positive = every[np.isfinite(every) & (every > 0)]
        low, high = (float(positive.min()) / 1.5, float(positive.max()) * 1.5) if positive.size else (0.1, 1.0)
    else:
        low, high = padded(every)
    low, high = low if spec.bottom is None else spec.bottom, high if spec.top is None else spec.top
    x_low, x_high = padded(spec.x, 0.0)
    return (
        Scale(x_low, x_high, _LEFT, _WIDTH - 12),
        Scale(low, max(high, low + 1e-300), _HEIGHT - _BOTTOM, _TOP, "log" if spec.logarithmic else "linear"),
    )


def _drawn(curve: Curve, values: Array, x: Scale, y: Scale) -> list[Markup]:
    """Band and line; a legible title for each."""
    at, parts = x(values), []
    if curve.band is not None:
        lower, upper = (np.clip(y(side), y.end, y.start) for side in curve.band)
        outline = path_data(np.concatenate([at, at[::-1]]), np.concatenate([upper, lower[::-1]]))
        parts.append(element("path", d=outline + "Z", class_=f"band {curve.style}"))
    last = curve.values[np.isfinite(curve.values)]
    told = f"{curve.name}: {short_number(float(last[-1]))} at the end" if last.size else curve.name
    parts.append(
        element("path", element("title", told), d=path_data(at, y(curve.values)), class_=f"curve {curve.style}")
    )
    return parts


def _legend(spec: Chart) -> Markup:
    """Names in one row above the drawing."""
    entries: Sequence[tuple[str, str]] = [(c.name, f"curve {c.style}") for c in spec.curves if c.name]
    entries = [*entries, *((level.name, "level") for level in spec.levels if level.name)]
    parts, place = [], _LEFT
    for name, style in entries:
        parts.append(line(place, 12, place + 16, 12, class_=style))
        parts.append(text(name, place + 20, 16, font_size=11))
        place += 32 + 6.0 * len(name)
    if spec.shaded is not None and spec.shaded_name:
        parts.append(element("rect", x=place, y=6, width=16, height=12, class_="held"))
        parts.append(text(spec.shaded_name, place + 20, 16, font_size=11))
    return element("g", *parts, class_="legend")
