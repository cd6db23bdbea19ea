"""A discovery as a NetCDF file: labelled arrays, and texts as JSON attributes. No pickle."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi._version import __version__
from bvsi.check import Check, Comparison, FailedComparison, ResidualTest, Verdict
from bvsi.common.files import netcdf_bytes, write_whole
from bvsi.discovery.frame_storage import frame_variables, frames_from
from bvsi.discovery.result import Discovery
from bvsi.infer import Status
from bvsi.infer.posteriors.storage import (
    operator_labels,
    posterior_from_dataset,
    posterior_variables,
    read_file,
    to_datatree,
)
from bvsi.predict.forecast import Forecast
from bvsi.select import SelectionPath, Visited

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "bvsi discovery 1"


def save(found: Discovery, path: Path) -> None:
    """Write aside, then rename."""
    write_whole(path, to_bytes(found))


def to_bytes(found: Discovery) -> bytes:
    """The bytes of the file. The groups ``posterior`` and so on are those that ArviZ reads."""
    groups = {name: group.to_dataset() for name, group in to_datatree(found.posterior).children.items()}
    return netcdf_bytes(to_dataset(found), groups)


def load(path: Path) -> Discovery:
    """Read and check."""
    return read_file(path, FORMAT, "discovery", from_dataset)


def to_dataset(found: Discovery) -> xr.Dataset:
    """Everything as one dataset."""
    import xarray as xr

    path = found.path
    variables, attributes = posterior_variables(found.posterior)
    variables |= {
        "score_sd": ("operator", found.score_sd),
        "path_score": ("model", np.array([v.score for v in path.visited])),
        "path_chi2": ("model", np.array([v.chi2 for v in path.visited])),
        "path_theta": (("model", "candidate"), np.stack([_spread(v, found.candidates) for v in path.visited])),
    }
    variables |= frame_variables(found.frames)
    for number, blocks in enumerate(found.chi2_blocks):
        variables[f"chi2_blocks_{number}"] = (f"block_{number}", blocks)
    coordinates = {**operator_labels(found.names), "candidate": list(found.candidates)}
    steps = [
        {"names": v.names, "changed": v.changed, "candidates": dict(v.candidates), "refitted": sorted(v.refitted)}
        for v in path.visited
    ]
    attributes |= {
        "format": FORMAT,
        "version": __version__,
        "fields": json.dumps(found.fields),
        "chi2": found.chi2,
        "block_rows": json.dumps(found.block_rows),
        "seconds": found.seconds,
        "time_order": found.time_order,
        "settings": json.dumps(dict(found.settings)),
        "status": json.dumps(found.status.to_record()),
        "criterion": path.criterion,
        "stopped": path.stopped,
        "doubts": path.doubts,
        "steps": json.dumps(steps),
        "forecast": json.dumps(None if found.forecast is None else _plain(found.forecast.to_arrays())),
        "check": json.dumps(None if found.check is None else _check_record(found.check)),
    }
    return xr.Dataset(variables, coords=coordinates, attrs=attributes)


def from_dataset(dataset: xr.Dataset) -> Discovery:
    """The discovery again; fits of the path are not kept."""
    attributes = dataset.attrs
    candidates = tuple(str(name) for name in dataset["candidate"].values)
    experiments = sorted(int(str(key).rsplit("_", 1)[1]) for key in dataset if str(key).startswith("chi2_blocks_"))
    return Discovery(
        fields=tuple(json.loads(attributes["fields"])),
        candidates=candidates,
        posterior=posterior_from_dataset(dataset),
        chi2=float(attributes["chi2"]),
        chi2_blocks=tuple(dataset[f"chi2_blocks_{number}"].values for number in experiments),
        block_rows=tuple(json.loads(attributes["block_rows"])),
        score_sd=dataset["score_sd"].values,
        status=Status.from_record(json.loads(attributes["status"])),
        path=_path(dataset, candidates),
        settings=json.loads(attributes["settings"]),
        seconds=float(attributes["seconds"]),
        check=_check(json.loads(attributes.get("check", "null"))),
        time_order=int(attributes.get("time_order", 1)),
        frames=frames_from(dataset),
        forecast=_forecast(json.loads(attributes.get("forecast", "null"))),
    )


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as lists."""
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in record.items()}


def _forecast(record: dict[str, Any] | None) -> Forecast | None:
    return None if record is None else Forecast.from_arrays(record)


def _check_record(check: Check) -> dict[str, Any]:
    """A check as JSON values."""
    return {
        "verdict": str(check.verdict),
        "advice": check.advice,
        "reasons": check.reasons,
        "chi2": check.chi2,
        "tests": [dataclasses.asdict(test) for test in check.tests],
        "comparisons": [_plain(vars(one)) for one in check.comparisons],
        "bias": check.bias.tolist(),
        "covariance_added": check.covariance_added.tolist(),
        "failed": [dataclasses.asdict(one) for one in check.failed],
    }


def _with_arrays(record: dict[str, Any]) -> dict[str, Any]:
    """Fields of a comparison that are arrays, and those that are tuples, as they were."""
    kinds: dict[str, Any] = {"better": tuple, **dict.fromkeys(("theta", "difference", "z", "bias"), np.array)}
    return {key: kinds[key](v) if key in kinds else v for key, v in record.items()}


def _check(record: dict[str, Any] | None) -> Check | None:
    """The check again."""
    if record is None:
        return None
    return Check(
        verdict=Verdict(record["verdict"]),
        advice=record["advice"],
        reasons=tuple(record["reasons"]),
        chi2=record["chi2"],
        tests=tuple(ResidualTest(**test) for test in record["tests"]),
        comparisons=tuple(Comparison(**_with_arrays(one)) for one in record["comparisons"]),
        bias=np.array(record["bias"]),
        covariance_added=np.array(record["covariance_added"]),
        failed=tuple(FailedComparison(**one) for one in record.get("failed", ())),
    )


def _spread(visited: Visited, candidates: tuple[str, ...]) -> np.ndarray:
    """Coefficients of a model on all candidates, NaN where an operator is not in it."""
    values = dict(zip(visited.names, visited.theta, strict=True))
    return np.array([values.get(name, np.nan) for name in candidates])


def _path(dataset: xr.Dataset, candidates: tuple[str, ...]) -> SelectionPath:
    visited = []
    for row, step in enumerate(json.loads(dataset.attrs["steps"])):
        theta = dict(zip(candidates, dataset["path_theta"].values[row], strict=True))
        names = tuple(step["names"])
        visited.append(
            Visited(
                names,
                float(dataset["path_score"].values[row]),
                np.array([theta[name] for name in names]),
                float(dataset["path_chi2"].values[row]),
                step["changed"],
                step["candidates"],
                frozenset(step["refitted"]),
            )
        )
    attrs = dataset.attrs
    return SelectionPath(tuple(visited), attrs["criterion"], attrs["stopped"], attrs.get("doubts", ""))
