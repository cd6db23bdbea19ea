"""Data, fit and whitened residual, frame by frame: a slider moves through the times."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bvsi.app.plot.frames import RESIDUAL_RANGE
from bvsi.app.plot.rasters import MOST_PIXELS, extent, field_images, residual_images, space_time, value_range
from bvsi.app.plot.style import FIELD_MAP, RESIDUAL_MAP
from bvsi.app.report.formula import name_formula
from bvsi.app.report.frame_images import colour_bar, film, picture
from bvsi.app.report.markup import Markup, details, element
from bvsi.app.report.svg import Scale, axes, dots_data, padded, path_data, short_number, svg
from bvsi.app.report.typeset import plain
from bvsi.app.units import NO_UNITS, labelled
from bvsi.discovery.frames import ExperimentFrames, Frames

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_PIXELS = 1_200_000  # in all images of moving frames together: about 1.5 MB in the page
_MOST_FRAMES = 24
_MOST_OPEN = 1
_WIDE = 1.4  # width over height of a space–time image
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 400.0, 230.0, 50.0, 26.0, 40.0


def frames_section(frames: Frames, units: Mapping[str, str] = NO_UNITS) -> Markup:
    """All experiments; the first one open.

    Parameters
    ----------
    units
        Of fields, coordinates and ``t``.
    """
    budget = _PIXELS // max(1, len(frames.experiments))
    blocks = []
    for number, part in enumerate(frames.experiments):
        body = _experiment(part, number, budget, units)
        name = f"Experiment {number + 1}"
        blocks.append(body if len(frames.experiments) == 1 else details(name, body, open_=number < _MOST_OPEN))
    words = (
        "Data as measured, the same less the noise that the equation can separate from it, and the residual of the "
        "equation in standard deviations, which looks like plain noise where equation and noise model are right."
    )
    return element("section", element("h2", "Data, fit and residual"), element("p", words), *blocks, id="frames")


def _experiment(part: ExperimentFrames, number: int, budget: int, units: Mapping[str, str]) -> Markup:
    """One slider for all fields of an experiment."""
    fields = [field for field in part.data if np.isfinite(part.data[field]).any()]
    if not part.points.shape[1]:
        return element("div", *(_series(part, field, units) for field in fields))
    chosen = _chosen(part, budget // max(1, len(fields)))
    rows = [_field(part, field, chosen, units) for field in fields]
    return element("div", _controls(part.times[chosen], f"frame-{number}", units.get("t", "")), *rows, class_="movie")


def _chosen(part: ExperimentFrames, budget: int) -> Indices:
    """Frames that are shown: all, or as many as the budget of pixels allows, evenly over time."""
    count = min(len(part.times), _MOST_FRAMES)
    if part.points.shape[1] > 1:
        pixels = 3 * min(len(part.points), MOST_PIXELS**2)
        count = max(2, min(count, budget // pixels))
    return np.unique(np.round(np.linspace(0, len(part.times) - 1, count)).astype(np.intp))


def _controls(times: Array, key: str, unit: str) -> Markup:
    """A slider with the time beside it, and a button that plays the frames."""
    told = [f"t = {short_number(t)} {unit}".rstrip() for t in times.tolist()]
    span = max(float(times[-1] - times[0]), np.finfo(float).tiny)
    moments = " ".join(f"{share:.4f}" for share in ((times - times[0]) / span).tolist())
    slider = element(
        "input",
        type="range",
        id=key,
        min="0",
        max=str(len(times) - 1),
        value="0",
        step="1",
        aria_valuetext=told[0],
        data_times="|".join(told),
        data_moments=moments,
    )
    button = element("button", "Play", type="button", class_="play", aria_label="Play the frames")
    label = element("label", "Frame", for_=key)
    return element("div", label, slider, element("output", told[0], for_=key), button, class_="controls")


def _field(part: ExperimentFrames, field: str, chosen: Indices, units: Mapping[str, str]) -> Markup:
    """A row of three pictures, and in one dimension the curves as well."""
    name = _name(field, units)
    if part.points.shape[1] == 1:
        curves = _curves(part, field, name, chosen, units)
        return element("div", _pictures_1d(part, field, name, units), curves, class_="field")
    return element("div", _pictures_2d(part, field, name, chosen, units), class_="field")


def _name(field: str, units: Mapping[str, str]) -> str:
    """A field with its unit."""
    name = plain(name_formula(field))
    return labelled(name, {name: units.get(field, "")})


def _ends(way: str, axis: str, low: float, high: float, units: Mapping[str, str]) -> str:
    """``across: x from 0 to 5 mm``."""
    return f"{way}: {axis} from {short_number(low)} to {short_number(high)} {units.get(axis, '')}".rstrip()


def _pictures_1d(part: ExperimentFrames, field: str, name: str, units: Mapping[str, str]) -> Markup:
    """Space–time images: place across, time upwards, with a line at the frame's time."""
    made = {key: space_time(values[field], part.points)[0] for key, values in _kinds(part, field).items()}
    low, high = value_range(made)
    now = element("span", class_="now", aria_hidden="true")
    panels = [
        _panel(f"{name}: {key}", _upwards(values, part.times), 1, _WIDE, low, high, FIELD_MAP, now)
        for key, values in made.items()
    ]
    if field in part.residual and len(part.residual_times):
        residual, _ = space_time(part.residual[field], part.residual_points[field])
        panels.append(_residual_panel(field, _upwards(residual, part.residual_times), _WIDE))
    left, right, *_ = extent(part.points)
    across = _ends("across", _axis_names(part)[0], left, right, units)
    upwards = _ends("upwards", "t", float(part.times[0]), float(part.times[-1]), units)
    note = element("p", f"{across}; {upwards}", class_="note")
    return element("div", element("div", *panels, class_="pictures"), note)


def _series(part: ExperimentFrames, field: str, units: Mapping[str, str]) -> Markup:
    """A series over time, data as dots and fit as a line, and beside it the residual of its equation."""
    name, time = _name(field, units), labelled("t", units)
    data = part.data[field][:, 0]
    fit = part.fit[field][:, 0] if field in part.fit else np.full_like(data, np.nan)
    x = Scale(*padded(part.times, 0.0), _LEFT, _WIDTH - 12)
    y = Scale(*padded(np.concatenate([data, fit])), _HEIGHT - _BOTTOM, _TOP)
    at = x(part.times)
    curves = (
        element("path", d=dots_data(at, y(data)), class_="dots"),
        element("path", d=path_data(at, y(fit)), class_="curve b"),
    )
    drawing = svg(_WIDTH, _HEIGHT, axes(x, y, time, name), *curves, label=f"{name}: data and fit over t")
    figures = [element("figure", drawing, element("figcaption", f"{name}: data (dots) and fit (line)"))]
    if field in part.residual and len(part.residual_times):
        z = Scale(-RESIDUAL_RANGE, RESIDUAL_RANGE, _HEIGHT - _BOTTOM, _TOP)
        held = np.clip(part.residual[field][:, 0], -RESIDUAL_RANGE, RESIDUAL_RANGE)
        dots = element("path", d=dots_data(x(part.residual_times), z(held)), class_="dots")
        words = f"{plain(name_formula(field))}: whitened residual"
        drawing = svg(_WIDTH, _HEIGHT, axes(x, z, time, "sd"), dots, label=words)
        figures.append(element("figure", drawing, element("figcaption", words)))
    return element("div", element("div", *figures, class_="pictures"), class_="field")


def _kinds(part: ExperimentFrames, field: str) -> dict[str, Mapping[str, Array]]:
    """Data and, where there is one, fit."""
    return {key: values for key, values in (("data", part.data), ("fit", part.fit)) if field in values}


def _upwards(values: Array, times: Array) -> Array:
    """Rows (1, m, n) on even times, the last on top."""
    even = np.linspace(times[0], times[-1], min(max(len(times), 2), 2 * MOST_PIXELS))
    nearest = np.abs(even[:, None] - times).argmin(axis=1)
    return np.asarray(values[nearest][None, ::-1])


def _pictures_2d(part: ExperimentFrames, field: str, name: str, chosen: Indices, units: Mapping[str, str]) -> Markup:
    """Films of data, fit and residual."""
    made = {key: field_images(values[field][chosen], part) for key, values in _kinds(part, field).items()}
    low, high = value_range(made)
    left, right, bottom, top = extent(part.points)
    proportion = (right - left) / max(top - bottom, np.finfo(float).tiny)
    panels = [
        _panel(f"{name}: {key}", images, len(chosen), proportion, low, high, FIELD_MAP) for key, images in made.items()
    ]
    if field in part.residual and len(part.residual_times):
        nearest = np.abs(part.times[chosen][:, None] - part.residual_times).argmin(axis=1)
        residual = residual_images(part, field, nearest)
        panels += [] if residual is None else [_residual_panel(field, residual, proportion)]
    first, second, *_ = _axis_names(part)
    across, upwards = _ends("across", first, left, right, units), _ends("upwards", second, bottom, top, units)
    note = element("p", f"{across}; {upwards}", class_="note")
    return element("div", element("div", *panels, class_="pictures"), note)


def _axis_names(part: ExperimentFrames) -> tuple[str, ...]:
    return ("x", "y") if part.axes is None else tuple(part.axes)


def _residual_panel(field: str, images: Array, proportion: float) -> Markup:
    words = f"{plain(name_formula(field))}: whitened residual (sd)"
    return _panel(words, images, len(images), proportion, -RESIDUAL_RANGE, RESIDUAL_RANGE, RESIDUAL_MAP)


def _panel(
    words: str, images: Array, count: int, proportion: float, low: float, high: float, colours: str, *extra: Markup
) -> Markup:
    shown = picture(film(images, low, high, colours), count, proportion, words, *extra)
    return element("figure", shown, element("figcaption", words, " ", colour_bar(low, high, colours)))


def _curves(part: ExperimentFrames, field: str, name: str, chosen: Indices, units: Mapping[str, str]) -> Markup:
    """Data as dots and fit as a line at every frame; the page shows one of them."""
    data, places = space_time(part.data[field][chosen], part.points)
    fit, _ = space_time(part.fit[field][chosen] if field in part.fit else np.full_like(data, np.nan), part.points)
    x = Scale(*padded(places, 0.0), _LEFT, _WIDTH - 12)
    y = Scale(*padded(np.concatenate([data.ravel(), fit.ravel()])), _HEIGHT - _BOTTOM, _TOP)
    at = x(places)
    steps = [
        element(
            "g",
            element("path", d=dots_data(at, y(measured)), class_="dots"),
            element("path", d=path_data(at, y(smooth)), class_="curve b"),
            class_="step on" if number == 0 else "step",
        )
        for number, (measured, smooth) in enumerate(zip(data, fit, strict=True))
    ]
    axis = _axis_names(part)[0]
    drawing = svg(
        _WIDTH, _HEIGHT, axes(x, y, labelled(axis, units), name), *steps, label=f"{name}: data and fit over {axis}"
    )
    return element("figure", drawing, element("figcaption", f"{name} at this frame: data (dots) and fit (line)"))
