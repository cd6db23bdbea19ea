"""Data, fit and whitened residual of one frame, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.plot.rasters import extent, field_images, residual_images, space_time, value_range
from bvsi.app.plot.style import BLUE, FIELD_MAP, GREY, ORANGE, RESIDUAL_MAP
from bvsi.app.units import NO_UNITS, labelled
from bvsi.discovery.frames import ExperimentFrames
from bvsi.errors import BvsiError

Array = NDArray[np.float64]

RESIDUAL_RANGE = 4.0
"""Whitened residuals are drawn from minus to plus this many standard deviations."""


def frame_pictures(
    ax: Any, part: ExperimentFrames, field: str, *, frame: int = -1, units: Mapping[str, str] = NO_UNITS
) -> None:
    """Three insets of the Axes: the field as measured, as fitted, and the residual of its equation.

    In one dimension they are space–time images of all frames; else images of one ``frame``, the residual at the block
    of test functions nearest in time. Of a series they are two curves over time.

    Parameters
    ----------
    units
        Of fields, coordinates and ``t``, for the labels.
    """
    if field not in part.data:
        raise BvsiError(f"field: {field!r} is not among the fields {', '.join(part.data)}.")
    if not -len(part.times) <= frame < len(part.times):
        raise BvsiError(f"frame: there are {len(part.times)}; got {frame}.")
    if not part.points.shape[1]:
        _series(ax, part, field, units)
        return
    one_dimensional = part.points.shape[1] == 1
    images = _space_time(part, field) if one_dimensional else _at_frame(part, field, frame)
    low, high = value_range([image for key, image in images.items() if key != _RESIDUAL])
    ax.set_axis_off()
    for place, (key, image) in enumerate(images.items()):
        panel = ax.inset_axes((place / 3 + 0.03, 0.24, 0.28, 0.68))
        limits = (-RESIDUAL_RANGE, RESIDUAL_RANGE) if key == _RESIDUAL else (low, high)
        colours = RESIDUAL_MAP if key == _RESIDUAL else FIELD_MAP
        left, right, bottom, top = extent(part.points)
        if one_dimensional:
            bottom, top = float(part.times[0]), float(part.times[-1])
        drawn = panel.imshow(
            image, extent=(left, right, bottom, top), aspect="auto" if one_dimensional else "equal",
            vmin=limits[0], vmax=limits[1], cmap=colours, interpolation="nearest",
        )  # fmt: skip
        moment = "" if one_dimensional else f", t = {part.times[frame]:.3g} {units.get('t', '')}".rstrip()
        panel.set_title(f"{field}: {key}{moment}", fontsize="small")
        panel.tick_params(labelsize="x-small")
        names = [*(part.axes or ("x", "y"))]
        panel.set_xlabel(labelled(names[0], units), fontsize="x-small", labelpad=0)
        panel.set_ylabel(labelled("t" if one_dimensional else names[1], units), fontsize="x-small", labelpad=0)
        bar = ax.figure.colorbar(
            drawn, cax=ax.inset_axes((place / 3 + 0.06, 0.08, 0.22, 0.04)), orientation="horizontal"
        )
        bar.ax.tick_params(labelsize="x-small")
        bar.set_label("sd" if key == _RESIDUAL else labelled(field, units), fontsize="x-small", labelpad=0)


def _series(ax: Any, part: ExperimentFrames, field: str, units: Mapping[str, str]) -> None:
    """Data as dots and fit as a line, and below the residual, all over time."""
    ax.set_axis_off()
    above = ax.inset_axes((0.08, 0.5, 0.9, 0.45))
    above.plot(part.times, part.data[field][:, 0], ".", color=GREY, markersize=2, label="data")
    if field in part.fit:
        above.plot(part.times, part.fit[field][:, 0], color=BLUE, linewidth=1, label="fit")
    above.set_ylabel(labelled(field, units))
    above.legend(fontsize="x-small")
    if field in part.residual:
        below = ax.inset_axes((0.08, 0.1, 0.9, 0.3), sharex=above)
        below.plot(part.residual_times, part.residual[field][:, 0], ".", color=ORANGE, markersize=2)
        below.set(xlabel=labelled("t", units), ylabel=f"{_RESIDUAL} (sd)", ylim=(-RESIDUAL_RANGE, RESIDUAL_RANGE))


_RESIDUAL = "whitened residual"


def _space_time(part: ExperimentFrames, field: str) -> dict[str, Array]:
    """Images with time upwards, the last on top."""
    made = {key: values for key, values in (("data", part.data), ("fit", part.fit)) if field in values}
    images = {key: space_time(values[field], part.points)[0][::-1] for key, values in made.items()}
    if field in part.residual:
        images[_RESIDUAL] = space_time(part.residual[field], part.residual_points[field])[0][::-1]
    return images


def _at_frame(part: ExperimentFrames, field: str, frame: int) -> dict[str, Array]:
    made = {key: values for key, values in (("data", part.data), ("fit", part.fit)) if field in values}
    images = {key: field_images(values[field][[frame]], part)[0] for key, values in made.items()}
    if field in part.residual and len(part.residual_times):
        nearest = np.abs(part.residual_times - part.times[frame]).argmin()
        residual = residual_images(part, field, np.array([nearest]))
        images |= {} if residual is None else {_RESIDUAL: residual[0]}
    return images
