"""Fields at nodes as images: rows from the top, columns from the left, on uniform pixels.

Grids are resampled to uniform spacing (nearest node), meshes and scattered points interpolated on triangles; of three
dimensions the middle of the third is shown. Pixels outside the points are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bvsi.discovery.frames import ExperimentFrames

Array = NDArray[np.float64]

MOST_PIXELS = 128
"""Per side of an image."""


def field_images(values: Array, part: ExperimentFrames) -> Array:
    """Images (K, rows, columns) of values (K, n) at the nodes of an experiment in two or three dimensions."""
    if part.axes is not None and part.shape is not None:
        return grid_images(values.reshape(len(values), *part.shape), list(part.axes.values()))
    return point_images(values, part.points, part.cells)


def grid_images(values: Array, axes: list[Array] | None = None) -> Array:
    """Images of values (K, nx, ny) or (K, nx, ny, nz).

    Parameters
    ----------
    axes
        Places of the nodes in x and y, uniform without.
    """
    flat = values if values.ndim == 3 else values[..., values.shape[3] // 2]
    for axis, count in ((1, flat.shape[1]), (2, flat.shape[2])):
        places = np.arange(count, dtype=float) if axes is None else axes[axis - 1]
        flat = np.take(flat, _nearest(places, min(count, MOST_PIXELS)), axis=axis)
    return np.asarray(flat.transpose(0, 2, 1)[:, ::-1])


def _nearest(places: Array, pixels: int) -> NDArray[np.int64]:
    """Nodes nearest to pixels that divide the axis evenly."""
    if len(places) < 2:
        return np.zeros(pixels, dtype=np.int64)
    at = np.linspace(places[0], places[-1], pixels)
    edges = 0.5 * (places[1:] + places[:-1])
    return np.asarray(np.searchsorted(edges, at), dtype=np.int64)


def point_images(values: Array, points: Array, cells: NDArray[np.int64] | None = None) -> Array:
    """Images of values (K, n) at points (n, dim): linear on triangles, those of Delaunay where there are no cells.

    In three dimensions each pixel of the middle plane has the value of the nearest point.
    """
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    size = np.maximum(high - low, np.finfo(float).tiny)
    columns, rows = np.maximum(2, np.ceil(MOST_PIXELS * size / size.max()).astype(int)).tolist()
    X, Y = np.meshgrid(np.linspace(low[0], high[0], columns), np.linspace(high[1], low[1], rows))
    if points.shape[1] == 3:
        from scipy.spatial import cKDTree

        middle = 0.5 * (points[:, 2].min() + points[:, 2].max())
        _, nearest = cKDTree(points).query(np.stack([X, Y, np.full_like(X, middle)], axis=-1).reshape(-1, 3))
        return np.asarray(values[:, nearest].reshape(len(values), rows, columns))
    from matplotlib.tri import LinearTriInterpolator, Triangulation

    triangles = Triangulation(points[:, 0], points[:, 1], _triangles(cells))
    # a missing value (NaN) spoils only the triangles around it
    made = [np.ma.filled(LinearTriInterpolator(triangles, frame)(X, Y), np.nan) for frame in values]
    return np.stack(made)


def _triangles(cells: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """Corners of triangles (m, 3): quadrilaterals are halved, nodes on edges left out; None for Delaunay's."""
    if cells is None or cells.shape[1] not in (3, 4, 6):
        return None
    if cells.shape[1] == 4:
        return np.concatenate([cells[:, [0, 1, 2]], cells[:, [0, 2, 3]]])
    return cells[:, :3]


def space_time(values: Array, points: Array) -> tuple[Array, Array]:
    """Values (K, n) in one dimension with the nodes in order, and their places (n,)."""
    order = np.argsort(points[:, 0], kind="stable")
    return values[:, order], points[order, 0]


def residual_images(part: ExperimentFrames, field: str, blocks: NDArray[np.intp]) -> Array | None:
    """Residuals of an equation at some blocks as images, in two or three dimensions; None where they are too few."""
    values, points = part.residual[field][blocks], part.residual_points[field]
    axes = [np.unique(np.round(column, 9)) for column in points.T]
    if np.prod([len(axis) for axis in axes]) == len(points) and min(len(axis) for axis in axes) > 1:
        order = np.lexsort(np.round(points, 9).T[::-1])
        return grid_images(values[:, order].reshape(len(values), *(len(axis) for axis in axes)), axes)
    if len(points) < 4 or min(len(axis) for axis in axes) < 2:
        return None
    return point_images(values, points, part.cells if np.array_equal(points, part.points) else None)


def extent(points: Array) -> tuple[float, float, float, float]:
    """Left, right, bottom, top of points (n, dim)."""
    low, high = points.min(axis=0), points.max(axis=0)
    second = 1 if points.shape[1] > 1 else 0
    return float(low[0]), float(high[0]), float(low[second]), float(high[second])


def value_range(arrays: Mapping[str, Array] | list[Array]) -> tuple[float, float]:
    """Smallest and largest finite value; never equal."""
    parts = list(arrays.values()) if isinstance(arrays, Mapping) else arrays
    finite = [a[np.isfinite(a)] for a in parts]
    every = np.concatenate([f.ravel() for f in finite]) if finite else np.empty(0)
    if not every.size:
        return 0.0, 1.0
    low, high = float(every.min()), float(every.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)
