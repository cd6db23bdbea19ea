"""A discovery as a NetCDF file: labelled arrays, and texts as JSON attributes. No pickle."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvsi._version import __version__
from bvsi.app.files import netcdf_bytes, write_whole
from bvsi.app.posterior_storage import (
    operator_labels,
    posterior_from_dataset,
    posterior_variables,
    read_file,
    to_datatree,
)
from bvsi.check import Check, Comparison, FailedComparison, ResidualTest, Verdict
from bvsi.common.naming import COORDINATES
from bvsi.discovery.frames import ExperimentFrames, Frames
from bvsi.discovery.functions import FoundFunction
from bvsi.discovery.method import Method
from bvsi.discovery.refined import PredictedExperiment, Refined, SpacesCompared
from bvsi.discovery.result import Discovery
from bvsi.errors import BvsiError
from bvsi.infer import Reason, Status
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.posteriors import ChainPosterior, GaussianPosterior, TruncatedPosterior
from bvsi.operators import Vocabulary
from bvsi.operators.functions import UnknownFunction
from bvsi.predict.push import Forecast
from bvsi.refine import ForwardFit
from bvsi.select import SelectionPath, Visited
from bvsi.select.path import Compared

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "bvsi discovery 1"
# What a forward fit has of each experiment.
_BY_EXPERIMENT = ("initial", "predictions", "spreads", "initial_sd", "prior_part", "smoothness")
# Predicted values of all structures up to which they are kept, so that other structures can be added.
_WHOLE = 200_000
# Pictures of a fit are variables called frames_0_times, frames_0_data_u, … by experiment.
_FRAMES = "frames"


def save(found: Discovery, path: Path) -> None:
    """Write aside, then rename."""
    write_whole(path, to_bytes(found))


def to_bytes(found: Discovery) -> bytes:
    """The bytes of the file. The groups ``posterior`` and so on are those that ArviZ reads."""
    groups = {name: group.to_dataset() for name, group in to_datatree(found.posterior).children.items()}
    return netcdf_bytes(to_dataset(found), groups)


def load(path: Path) -> Discovery:
    """Read and check."""
    return read_file(path, FORMAT, "discovery", _printable)


def _printable(dataset: xr.Dataset) -> Discovery:
    """The discovery of a file, refused where what it holds cannot be shown: attributes may be of any kind."""
    found = from_dataset(dataset)
    told = (
        *found.fields,
        *found.settings,
        *found.settings.values(),
        *found.texts.values(),
        *found.left.values(),
        *found.parameters,
        *found.open_parameters,
        *found.units,
        *found.units.values(),
        *found.data_units,
        *found.data_units.values(),
    )
    if not all(isinstance(text, str) for text in told):
        raise TypeError("texts are needed")
    for shown in (found, found.table, found.path):
        str(shown)
    return found


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
        "left": json.dumps(dict(found.left)),
        "parameters": json.dumps(found.parameters),
        "open_parameters": json.dumps(found.open_parameters),
        "functions": json.dumps([dataclasses.asdict(one) for one in found.functions]),
        "words": json.dumps(None if found.words is None else dataclasses.asdict(found.words)),
        "texts": json.dumps(dict(found.texts)),
        "units": json.dumps(dict(found.units)),
        "data_units": json.dumps(dict(found.data_units)),
        "settings": json.dumps(dict(found.settings)),
        "status": json.dumps(status_record(found.status)),
        "no_simulation": found.no_simulation,
        "criterion": path.criterion,
        "stopped": path.stopped,
        "doubts": path.doubts,
        "margins": json.dumps(dict(path.margins)),
        "compared": json.dumps([plain(vars(one)) for one in path.compared]),
        "price": json.dumps(path.price),
        "steps": json.dumps(steps),
        "forecast": json.dumps(None if found.forecast is None else plain(vars(found.forecast))),
        "check": json.dumps(None if found.check is None else _check_record(found.check)),
        "refined": json.dumps(None if found.refined is None else _refined_record(found.refined)),
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
        status=status_of(json.loads(attributes["status"])),
        path=_path(dataset, candidates),
        settings=json.loads(attributes["settings"]),
        seconds=float(attributes["seconds"]),
        check=_check(json.loads(attributes.get("check", "null"))),
        time_order=int(attributes.get("time_order", 1)),
        left=json.loads(attributes.get("left", "{}")),
        parameters=tuple(json.loads(attributes.get("parameters", "[]"))),
        open_parameters=tuple(json.loads(attributes.get("open_parameters", "[]"))),
        functions=tuple(map(_function, json.loads(attributes.get("functions", "[]")))),
        words=_words(json.loads(attributes.get("words", "null"))),
        texts=json.loads(attributes.get("texts", "{}")),
        units=json.loads(attributes.get("units", "{}")),
        data_units=json.loads(attributes.get("data_units", "{}")),
        frames=frames_from(dataset),
        forecast=forecast_of(json.loads(attributes.get("forecast", "null"))),
        no_simulation=str(attributes.get("no_simulation", "")),
        refined=_refined(json.loads(attributes.get("refined", "null"))),
        method=_method(json.loads(attributes["settings"]).get("method", "")),
    )


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as lists."""
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in record.items()}


def _method(text: str) -> Method | None:
    """The method again; None for one that is not plain text, such as one with a grid of its own."""
    try:
        return Method.read(text)
    except BvsiError:
        return None


def _words(record: dict[str, Any] | None) -> Vocabulary | None:
    """Names of coordinates and fields again."""
    if record is None:
        return None
    kinds = ("coordinates", "fields", "auxiliary", "numbers")
    names = {key: tuple(map(str, record.get(key, ()))) for key in kinds}
    if record["system"] not in COORDINATES:
        raise ValueError(f"coordinates {record['system']!r} are not known")
    return Vocabulary(**names, system=record["system"])


def status_record(status: Status) -> dict[str, object]:
    """A status as JSON values."""
    return {**vars(status), "reasons": sorted(status.reasons)}


def status_of(record: dict[str, Any]) -> Status:
    """The status again."""
    reasons, starts = frozenset(Reason(name) for name in record["reasons"]), tuple(record["starts"])
    return Status(**{**record, "reasons": reasons, "starts": starts})


def forecast_of(record: dict[str, Any] | None) -> Forecast | None:
    """The forecast again."""
    if record is None:
        return None
    kinds: dict[str, Any] = {
        "held_out": lambda values: np.array(values, dtype=bool),
        "noise": float,
        "draws": int,
        "failed": int,
        "status": str,
    }
    kinds |= dict.fromkeys(("times", "error", "spread", "coverage"), lambda values: np.array(values, dtype=float))
    return Forecast(**{key: kind(record[key]) for key, kind in kinds.items()})


def _function(record: dict[str, Any]) -> FoundFunction:
    splines = UnknownFunction(**{key: tuple(value) for key, value in record.pop("function").items()})
    steps = tuple(map(tuple, record.get("steps", ())))
    return FoundFunction(**{**record, "function": splines, "operators": tuple(record["operators"]), "steps": steps})


def _check_record(check: Check) -> dict[str, Any]:
    """A check as JSON values."""
    return {
        "verdict": str(check.verdict),
        "advice": check.advice,
        "reasons": check.reasons,
        "chi2": check.chi2,
        "tests": [dataclasses.asdict(test) for test in check.tests],
        "comparisons": [plain(vars(one)) for one in check.comparisons],
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


def _refined_record(refined: Refined) -> dict[str, Any]:
    """Fits by forward solves as JSON values; states and predictions of the most probable structure only where many."""
    agreement = refined.agreement
    all_whole = sum(own.size for fit in refined.models for own in fit.predictions) < _WHOLE
    fits = [_fit_record(fit, whole=number == 0 or all_whole) for number, fit in enumerate(refined.models)]
    experiments = [
        {key: plain(value) if isinstance(value, dict) else value.tolist() for key, value in vars(one).items()}
        for one in refined.experiments
    ]
    record = {**vars(refined), "models": fits, "experiments": experiments}
    return record | {"agreement": None if agreement is None else plain(vars(agreement))}


def _fit_record(fit: ForwardFit, *, whole: bool) -> dict[str, Any]:
    posterior = fit.posterior
    base, limits, chains = posterior, None, None
    if isinstance(posterior, TruncatedPosterior):
        assert isinstance(posterior.base, GaussianPosterior)
        base, limits = posterior.base, plain({**posterior.constraints.rows._asdict(), "mode": posterior.mode})
    elif isinstance(posterior, ChainPosterior):
        chains = {"draws": posterior.draws.tolist(), "warnings": list(posterior.warnings)}
    arrays = {name: [own.tolist() for own in getattr(fit, name)] if whole else [] for name in _BY_EXPERIMENT}
    law = {"names": fit.names, "mean": base.mean.tolist(), "covariance": base.covariance.tolist()}
    law |= {"limits": limits, "chains": chains}
    return {**plain(vars(fit)), **arrays, "posterior": law, "status": status_record(fit.status)}


def _refined(record: dict[str, Any] | None) -> Refined | None:
    """Fits by forward solves again."""
    if record is None:
        return None
    agreement = record["agreement"]
    if agreement is not None:
        arrays = {key: np.array(agreement[key], dtype=float) for key in ("difference", "sd")}
        agreement = SpacesCompared(**{**agreement, **arrays, "names": tuple(agreement["names"])})
    return Refined(
        fields=tuple(map(str, record["fields"])),
        candidates=tuple(map(str, record["candidates"])),
        models=tuple(_fit_of(fit) for fit in record["models"]),
        refused=tuple((tuple(names), str(reason)) for names, reason in record["refused"]),
        left_out=tuple(tuple(map(str, names)) for names in record["left_out"]),
        agreement=agreement,
        seconds=float(record["seconds"]),
        experiments=tuple(map(_predicted_of, record.get("experiments", ()))),
        parameters=tuple(map(str, record.get("parameters", ()))),
    )


def _predicted_of(record: dict[str, Any]) -> PredictedExperiment:
    """Measurements beside predictions again."""
    read: dict[str, Any] = {key: np.array(record[key], dtype=float) for key in ("times", "points")}
    for key in ("values", "mean", "statistics", "structure", "noise"):
        read[key] = {str(f): np.array(v, dtype=float) for f, v in record[key].items()}
    alike = {str(name): float(score) for name, score in record.get("alike", {}).items()}
    return PredictedExperiment(**read, alike=alike)


def _fit_of(record: dict[str, Any]) -> ForwardFit:
    law, theta = record["posterior"], np.array(record["theta"], dtype=float)
    names = tuple(map(str, law["names"]))
    base = GaussianPosterior(names, np.array(law["mean"], dtype=float), np.array(law["covariance"], dtype=float))
    posterior: GaussianPosterior | TruncatedPosterior | ChainPosterior = base
    if (chains := law.get("chains")) is not None:
        posterior = ChainPosterior(names, np.array(chains["draws"], dtype=float), warnings=tuple(chains["warnings"]))
    if (limits := law["limits"]) is not None:
        rows = {key: np.array(limits[key], dtype=float) for key in ("A", "lower", "upper")}
        bounds = LinearConstraints(
            names, rows["A"].reshape(-1, len(names)), rows["lower"], rows["upper"], tuple(limits["texts"])
        )
        posterior = TruncatedPosterior(base, bounds, np.array(limits.get("mode", theta), dtype=float))
    arrays = {name: tuple(np.array(own, dtype=float) for own in record.get(name, ())) for name in _BY_EXPERIMENT}
    scale = np.array(record["scale"], dtype=float)
    if "without" not in record:  # files from before priors could be stated, with N(0, s²)
        sd = np.sqrt(posterior.variance)
        without = record["log_evidence"] + np.log(scale / sd) - 0.5 * (posterior.mean / sd) ** 2
        usual = {"exponent": float(np.sum((theta / scale) ** 2)), "free": len(theta), "without": without}
        record = {name: value for name, value in (usual | record).items() if name != "at_zero"}
    without = np.array(record["without"], dtype=float)
    read = {"theta": theta, "scale": scale, "without": without, "status": status_of(record["status"])}
    return ForwardFit(**{**record, **arrays, **read, "posterior": posterior})


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
    return SelectionPath(
        tuple(visited),
        attrs["criterion"],
        attrs["stopped"],
        attrs.get("doubts", ""),
        json.loads(attrs.get("margins", "{}")),
        compared=tuple(map(_compared, json.loads(attrs.get("compared", "[]")))),
        price=None if (price := json.loads(attrs.get("price", "null"))) is None else float(price),
    )


def _compared(record: dict[str, Any]) -> Compared:
    theta, covariance = (np.array(record[key], dtype=float) for key in ("theta", "covariance"))
    return Compared(tuple(map(str, record["names"])), float(record["rise"]), theta, covariance)


def frame_variables(frames: Frames | None) -> dict[str, Any]:
    """Pictures of a fit as variables of a dataset, in single precision, which is more than a picture shows."""
    found: dict[str, Any] = {}
    for number, one in enumerate(() if frames is None else frames.experiments):
        own = f"{_FRAMES}_{number}"
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
    while f"{_FRAMES}_{len(experiments)}_times" in dataset:
        experiments.append(_experiment_frames(dataset, f"{_FRAMES}_{len(experiments)}_"))
    return Frames(tuple(experiments)) if experiments else None


def _experiment_frames(dataset: xr.Dataset, own: str) -> ExperimentFrames:
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
