"""A first look at data: a field, and its spectrum along every axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bvsi.app.plot.style import SERIES
from bvsi.app.units import NO_UNITS, labelled
from bvsi.data import Data, Grid
from bvsi.residual.widths import power_spectrum


def field_view(ax: Any, data: Data, name: str, units: Mapping[str, str] = NO_UNITS) -> None:
    """A field: over time, in 1D over space and time, else its middle frame (in 3D the middle slice along z).

    Parameters
    ----------
    units
        Of fields, coordinates and ``t``, for the labels.
    """
    shown, time = labelled(name, units), labelled("t", units)
    if not data.geometry.dim:
        ax.plot(data.times, data.observed(name)[:, 0], ".", color=SERIES[0], markersize=2)
        ax.set(title=name, xlabel=time, ylabel=shown)
        return
    if not isinstance(data.geometry, Grid):
        frame = data.n_times // 2
        points, values = data.geometry.points, data.observed(name)[frame]
        drawn = ax.scatter(points[:, 0], points[:, 1], c=values, s=6, cmap="cividis")
        ax.figure.colorbar(drawn, ax=ax, label=shown)
        x, y = (labelled(axis, units) for axis in ("x", "y"))
        ax.set(title=_at(name, data, frame, units), xlabel=x, ylabel=y, aspect="equal")
        return
    cube = data.observed(name).reshape(data.n_times, *data.geometry.shape)
    names = data.geometry.names
    if len(names) == 1:
        across, up, image, title = data.geometry.axes[names[0]], data.times, cube, name
        labels = (labelled(names[0], units), time)
    else:
        frame = data.n_times // 2
        image = cube[frame] if len(names) == 2 else cube[frame, ..., cube.shape[-1] // 2]
        across, up, image = data.geometry.axes[names[0]], data.geometry.axes[names[1]], image.T
        labels = (labelled(names[0], units), labelled(names[1], units))
        title = _at(name, data, frame, units)
    drawn = ax.pcolormesh(across, up, image, shading="nearest", cmap="cividis", rasterized=True)
    ax.figure.colorbar(drawn, ax=ax, label=shown)
    ax.set(xlabel=labels[0], ylabel=labels[1], title=title)


def _at(name: str, data: Data, frame: int, units: Mapping[str, str]) -> str:
    return f"{name} at t = {data.times[frame]:.3g} {units.get('t', '')}".rstrip()


def spectrum(ax: Any, data: Data, name: str, sigma: float | None = None, units: Mapping[str, str] = NO_UNITS) -> None:
    """Power of a field along every axis, averaged over the others, and the level of the noise."""
    assert isinstance(data.geometry, Grid)
    cube = np.asarray(data.fields[name]).reshape(data.n_times, *data.geometry.shape)
    for axis, (label, colour) in enumerate(zip(("time", *data.geometry.names), SERIES, strict=False)):
        power = power_spectrum(cube, axis, periodic=False)  # one window for all axes, so that they can be compared
        ax.plot(np.fft.rfftfreq(cube.shape[axis])[1:], power[1:], color=colour, label=label)
    if np.ptp(cube) > 0:  # a constant field has no power, and logarithms none either
        ax.set_yscale("log")
    if sigma:
        ax.axhline(sigma**2, color="0.5", linestyle="--", label="noise")
    shown = f"power (({units[name]})²)" if units.get(name) else "power"
    ax.set(xlabel="cycles per step", ylabel=shown, title=f"spectrum of {name}")
    ax.legend()
