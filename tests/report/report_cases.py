"""Discoveries to report on: one and two fields, one and two dimensions, and a mesh."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from bvsi.discovery import Discovery, discover
from bvsi.discovery.frames import ExperimentFrames, Frames
from bvsi.predict.push import Forecast
from discovery.discovery_cases import made
from discovery.exact_cases import BURGERS, ROTATION, burgers, noisy, rotation


def forecast(times: int = 30) -> Forecast:
    t = np.linspace(0, 2, times)
    error = 0.004 * np.exp(1.5 * t)
    return Forecast(
        times=t,
        held_out=t > 1.5,
        error=error,
        spread=0.8 * error,
        coverage=0.95 - 0.05 * np.sin(5 * t) ** 2,
        noise=0.02,
        draws=20,
        failed=1,
        status="The forecast agrees with the frames that were held out.",
    )


def quantities(found: Discovery) -> dict[str, xr.Dataset]:
    """A number, a curve and a map that follow from the coefficients."""
    x, y = np.linspace(-1, 1, 31), np.linspace(0, 2, 21)
    weights = np.arange(1.0, 1.0 + len(found.names))
    operator = list(found.names)
    curve = xr.DataArray(weights[:, None] * np.cos(x), dims=("operator", "x"), coords={"operator": operator, "x": x})
    surface = xr.DataArray(
        weights[:, None, None] * np.sin(2 * x[:, None] * y), dims=("operator", "x", "y"),
        coords={"operator": operator, "x": x, "y": y},
    )  # fmt: skip
    number = xr.DataArray(weights, dims="operator", coords={"operator": operator})
    return {"sum of the coefficients": found.predict(number), "ψ": found.predict(curve), "g": found.predict(surface)}


def mesh_frames(seed: int = 0) -> Frames:
    """Frames on triangles of scattered points in an L-shaped region."""
    from matplotlib.tri import Triangulation

    points = np.random.default_rng(seed).uniform(0, 1, (200, 2))
    points = points[(points < 0.5).any(axis=1)]
    cells = Triangulation(*points.T).triangles
    times = np.linspace(0, 1, 5)
    values = np.exp(-times[:, None]) * np.sin(3 * points[:, 0]) * points[:, 1]
    part = ExperimentFrames(
        times=times,
        points=points,
        axes=None,
        cells=cells[(points[cells].mean(axis=1) < 0.5).any(axis=1)],
        data={"u": values},
        fit={},
        residual_times=times[1:],
        residual_points={"u": points},
        residual={"u": np.random.default_rng(1).standard_normal((4, len(points)))},
    )
    return Frames((part,))


def grid_frames(nodes: int = 20, times: int = 7) -> Frames:
    """Two fields on a square grid; the second has missing values, and no equation."""
    x, t = np.linspace(0, 1, nodes), np.linspace(0, 1, times)
    X, Y = (a.ravel() for a in np.meshgrid(x, x, indexing="ij"))
    u = np.exp(-t[:, None]) * np.sin(3 * X) * Y
    inner = (X > 0) & (X < 1) & (Y > 0) & (Y < 1)
    part = ExperimentFrames(
        times=t,
        points=np.stack([X, Y], axis=1),
        axes={"x": x, "y": x},
        cells=None,
        data={"u": u, "w": np.where(X > 0.8, np.nan, u**2)},
        fit={"u": u},
        residual_times=t[1:] - 0.05,
        residual_points={"u": np.stack([X, Y], axis=1)[inner]},
        residual={"u": np.random.default_rng(1).standard_normal((times - 1, inner.sum()))},
    )
    return Frames((part, part))


def found_burgers() -> Discovery:
    return replace(discover(noisy(burgers(), 0.01), BURGERS), forecast=forecast())


def found_rotation() -> Discovery:
    return discover(noisy(rotation(), 0.01), ROTATION)


def found_by_hand() -> Discovery:
    """Two equations, names that are no operators, numbers that are tiny and huge, frames on a mesh, no check."""
    return replace(made(), frames=mesh_frames())
