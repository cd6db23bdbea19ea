"""What was measured: checked masks, and values where nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.data._arrays import Floats
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.errors import DataError

Mask = NDArray[np.bool_]


def check_missing(missing: object) -> None:
    """Refuse anything but ``None`` and ``"nan"``."""
    if missing is not None and missing != "nan":
        raise DataError(f"missing is {missing!r}; pass 'nan' where NaN means not measured, or leave it out")


def checked_masks(measured: object, names: tuple[str, ...], shape: tuple[int, int]) -> dict[str, Mask] | None:
    """Masks of all fields, True where measured; None where everything is.

    measured: masks by name, each ``shape``; fields left out are measured everywhere.
    names: the fields.
    shape: times and nodes.
    """
    if measured is None:
        return None
    if not isinstance(measured, Mapping):
        raise DataError(f"measured is a {type(measured).__name__}; pass masks by name, such as {{'u': mask}}")
    unknown = [name for name in measured if name not in names]
    if unknown:
        raise DataError(f"measured: {unknown[0]!r} is not a field; the fields are {', '.join(names)}")
    masks = {n: _mask(measured[n], n, shape) if n in measured else np.ones(shape, dtype=bool) for n in names}
    empty = [name for name, mask in masks.items() if not mask.any()]
    if empty:
        raise DataError(f"field {empty[0]!r} has no measured value; leave the field out")
    return None if all(mask.all() for mask in masks.values()) else masks


def _mask(value: Any, name: str, shape: tuple[int, int]) -> Mask:
    mask = np.asarray(value)
    if mask.dtype != np.bool_:
        raise DataError(
            f"measured: the mask of field {name!r} has dtype {mask.dtype}; pass True where measured, such as "
            "numpy.isfinite(array)"
        )
    if mask.shape != shape:
        raise DataError(f"measured: the mask of field {name!r} has shape {mask.shape}, expected {shape} (times, nodes)")
    return mask


def frames_kept(masks: Mapping[str, Mask]) -> Mask:
    """Frames in which some value of some field was measured, (T,); at least two have to be."""
    kept = np.any([mask.any(axis=1) for mask in masks.values()], axis=0)
    if kept.sum() < 2:
        raise DataError(
            f"only {kept.sum()} of the {kept.size} frames has measured values, at least 2 are needed for a time "
            "derivative; give more frames"
        )
    return np.asarray(kept)


def complete(values: Floats, mask: Mask, geometry: Grid | Mesh, times: Floats) -> Floats:
    """Values (T, n_nodes) that are not finite and not measured replaced by interpolation of those measured.

    They stay within the range of the measured ones, so that operators that are finite there are finite everywhere.
    """
    gaps = ~mask & ~np.isfinite(values)
    if not gaps.any():
        return values
    from bvsi.data.outliers import filled  # it makes data itself, from those that are complete

    known = values[mask]
    interpolated = filled(np.where(mask, values, np.nan), geometry, times)
    return np.where(gaps, np.clip(interpolated, known.min(), known.max()), values)
