"""Pictures of a fit as variables of a dataset, named ``frames_0_times``, ``frames_0_data_u``, … by experiment.

Values are kept in single precision, which is more than a picture shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvsi.discovery.frames import ExperimentFrames, Frames

if TYPE_CHECKING:
    import xarray as xr

PREFIX = "frames"


def frame_variables(frames: Frames | None) -> dict[str, Any]:
    """Variables of a dataset."""
    found: dict[str, Any] = {}
    for number, one in enumerate(() if frames is None else frames.experiments):
        own = f"{PREFIX}_{number}"
        time, node, block = f"{own}_time", f"{own}_node", f"{own}_block"
        found[f"{own}_times"] = (time, one.times)
        found[f"{own}_points"] = ((node, f"{own}_dim"), one.points)
        found[f"{own}_block_times"] = (block, one.residual_times)
        for axis, values in (one.axes or {}).items():
            found[f"{own}_axis_{axis}"] = (f"{own}_along_{axis}", values)
        if one.cells is not None:
            found[f"{own}_cells"] = ((f"{own}_cell", f"{own}_corner"), one.cells)
        for kind, group in (("data", one.data), ("fit", one.fit)):
            for name, values in group.items():
                found[f"{own}_{kind}_{name}"] = ((time, node), values.astype(np.float32))
        for name, values in one.residual.items():
            test = f"{own}_test_{name}"
            found[f"{own}_places_{name}"] = ((test, f"{own}_dim"), one.residual_points[name])
            found[f"{own}_residual_{name}"] = ((block, test), values.astype(np.float32))
    return found


def frames_from(dataset: xr.Dataset) -> Frames | None:
    """The pictures again; None where there are none."""
    experiments: list[ExperimentFrames] = []
    while f"{PREFIX}_{len(experiments)}_times" in dataset:
        experiments.append(_experiment(dataset, f"{PREFIX}_{len(experiments)}_"))
    return Frames(tuple(experiments)) if experiments else None


def _experiment(dataset: xr.Dataset, own: str) -> ExperimentFrames:
    def array(name: str) -> NDArray[Any]:
        return np.asarray(dataset[own + name].values)

    def group(kind: str) -> Mapping[str, NDArray[Any]]:
        start = f"{own}{kind}_"
        return {str(key)[len(start) :]: dataset[key].values for key in dataset if str(key).startswith(start)}

    return ExperimentFrames(
        times=array("times"),
        points=array("points"),
        axes=group("axis") or None,
        cells=array("cells") if own + "cells" in dataset else None,
        data=group("data"),
        fit=group("fit"),
        residual_times=array("block_times"),
        residual_points=group("places"),
        residual=group("residual"),
    )
