"""``bvsi bench mdbench --data FOLDER``: data sets in the layout of MDBench (arXiv:2509.20529), scored as there.

One NPZ file per data set and noise level, ``NAME/NAME.npz`` and ``NAME/NAME_snr_20.npz`` (dB), with

    t (T,)    u (T, dim) of an ODE, (*nodes, T, dim) of a PDE    du, the shape of u: rates of clean data    x, y, z

An equation is discovered from the first 80% of the times. Their scores are those of the last 20%:

    NMSE = Σ (du − F(u))²/Σ du²,     complexity = nodes of the expression tree,     1/(1 + NMSE) + exp(−complexity/200)

Beside them stand ours: the verdict, and where a file ``truth.json`` lies beside the data, ``{"u0": {"dx(dx(u0))":
0.1}}``, whether the operators are the true ones and how many true coefficients lie in their 95% intervals.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bvsi.app.exports.arrays import operator_values
from bvsi.app.exports.system import system_of
from bvsi.app.files import write_whole
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.registry import opened
from bvsi.app.study.candidates import suggested_operators
from bvsi.common.arrays import Array
from bvsi.common.progress import Progress, silent
from bvsi.data import COORDINATE_NAMES, Data, Grid
from bvsi.data.denoise import smoothers
from bvsi.discovery import Discovery, discover
from bvsi.errors import BvsiError, DataError
from bvsi.operators import Library
from bvsi.studies.benchmarks.performance.report import PerformanceReport, table

NAME = "mdbench"
# Share of the times that is held out, and the weights of the score: those of MDBench.
_TEST = 0.2
_LONGEST = 200
_TRUTH = "truth.json"
# Longest file of truths that is read.
_MOST_BYTES = 100_000


@dataclass(frozen=True, eq=False)
class BenchSet:
    """One data set.

    Attributes
    ----------
    snr
        Noise in dB, infinite for clean data.
    axes
        Coordinates by name; none for an ODE.
    u, du
        States and rates of clean data, (*nodes, T, dim).
    truth
        Coefficients by operator, by field; empty where they are not known.
    """

    name: str
    snr: float
    times: Array
    axes: Mapping[str, Array]
    u: Array
    du: Array
    truth: Mapping[str, Mapping[str, float]]

    @property
    def kind(self) -> str:
        """``ode`` or ``pde``."""
        return "pde" if self.axes else "ode"

    def part(self, times: slice) -> tuple[Array, Array, Array]:
        """t, u and du of some times."""
        return self.times[times], self.u[..., times, :], self.du[..., times, :]


class Estimator:
    """bvsi as a method of MDBench: ``fit(t, u, du)``, ``predict(t, u)``, ``complexity()``, ``to_str()``.

    ``du`` is not used: no derivative of the data is needed. Fields are called u0, u1, …

    Parameters
    ----------
    candidates
        Operators by field; by default those that ``bvsi init`` suggests.
    options
        What the harness gives to all methods is taken and not used: ``n_jobs``, names of symbols and targets.
    """

    def __init__(self, candidates: Mapping[str, Sequence[str]] | None = None, **options: Any) -> None:
        del options
        self.candidates = candidates
        self.grid: dict[str, Array] = {}
        self.found: Discovery | None = None

    def set_spatial_grid(self, s: Sequence[Array]) -> None:
        """Coordinates of the axes, in the order x, y, z."""
        self.grid = {name: np.ravel(axis) for name, axis in zip(COORDINATE_NAMES, s, strict=False)}

    def fit(self, t: Array, u: Array, du: Array | None = None) -> Estimator:
        """Discover the equation."""
        del du
        data = self._data(t, u)
        texts = self.candidates or suggested_operators(data.names, data.geometry.names)
        self.found = discover(data, Library(texts))
        return self

    def predict(self, t: Array, u: Array) -> Array:
        """Rates of states, in their shape; the states are smoothed before, since they may be noisy."""
        found, data = self._fitted, self._data(t, u)
        states = {name: one.smooth(data.fields[name]) for name, one in smoothers(data).items()}
        grid = data.geometry
        assert isinstance(grid, Grid)
        shaped = {name: values.reshape(len(t), *grid.shape) for name, values in states.items()}
        parts = operator_values(system_of(found, range(len(found.names))), grid, shaped, data.times)
        rates = [np.tensordot(found.theta, parts[name], axes=(0, 0)) for name in found.fields]
        return np.moveaxis(np.stack(rates, axis=-1), 0, -2)

    def complexity(self) -> int:
        """Nodes of the expression trees of the right sides; a derivative of a field is a symbol."""
        import sympy as sp

        count = 0
        for equation in self._fitted.to_sympy():
            right = sp.expand(equation.rhs.doit())
            for kind in (sp.Derivative, sp.core.function.AppliedUndef):
                right = right.xreplace({one: sp.Symbol(str(one)) for one in right.atoms(kind)})
            count += sum(1 for _ in sp.preorder_traversal(right))
        return count

    def to_str(self) -> str:
        """The equation with its error bars."""
        return self._fitted.equation

    @property
    def _fitted(self) -> Discovery:
        if self.found is None:
            raise BvsiError("Estimator: nothing is fitted yet; call fit first.")
        return self.found

    def _data(self, t: Array, u: Array) -> Data:
        """The data of (*nodes, T, dim)."""
        values = np.moveaxis(np.asarray(u, dtype=float), -2, 0)
        fields = {f"u{i}": values[..., i] for i in range(values.shape[-1])}
        axes: dict[str, Any] = dict(self.grid)
        grid = Grid(**axes) if axes else None
        return Data.from_arrays(fields, times=np.ravel(t), geometry=grid)


@dataclass(frozen=True)
class Score:
    """Scores of one data set: those of MDBench, then ours.

    Attributes
    ----------
    nmse, complexity, train_time, score
        As MDBench has them.
    right
        Whether the selected operators are the true ones; None where these are not known, as ``coverage``.
    coverage
        Share of the true coefficients in their 95% intervals.
    cpu
        CPU seconds of the discovery.
    """

    dataset: str
    kind: str
    nmse: float | None = None
    complexity: int | None = None
    train_time: float | None = None
    score: float | None = None
    error: str = ""
    equation: str = ""
    verdict: str = ""
    right: bool | None = None
    coverage: float | None = None
    cpu: float | None = None

    @property
    def theirs(self) -> dict[str, Any]:
        """A line of the result file of MDBench."""
        own = asdict(self)
        named = ("dataset", "nmse", "complexity", "train_time", "score", "error", "equation")
        return {**{key: own[key] for key in named}, "hyperparameters": None, "pareto_front": None}


def data_sets(folder: Path, wanted: Sequence[str] = ()) -> Iterator[BenchSet]:
    """The data sets below a folder, by name.

    Parameters
    ----------
    wanted
        Names without noise level; by default all.
    """
    files = sorted(path for path in folder.rglob("*.npz") if path.is_file() and not path.is_symlink())
    if not files:
        raise DataError(f"--data {folder}: there are no NPZ files; the layout is NAME/NAME.npz, NAME/NAME_snr_20.npz.")
    chosen = [path for path in files if not wanted or _named(path)[0] in wanted]
    if not chosen:
        known = ", ".join(sorted({_named(path)[0] for path in files}))
        raise DataError(f"--cases: there is no {', '.join(wanted)}; known are {known}.")
    return map(read_set, chosen)


def _named(path: Path) -> tuple[str, float]:
    """Name without noise level, and that level in dB."""
    match = re.fullmatch(r"(.+)_snr_(\d{1,4})", path.stem)
    return (match[1], float(match[2])) if match else (path.stem, math.inf)


def read_set(path: Path) -> BenchSet:
    """A data set from its file; nothing in it is unpickled."""
    with opened(path, Reading()) as source:
        arrays = {n: np.asarray(a.values()) for n, a in source.arrays.items() if n in ("t", "u", "du", *"xyz")}
    missing = [name for name in ("t", "u", "du") if name not in arrays]
    if missing:
        raise DataError(f"{path}: it has no array {missing[0]!r}; t, u and du are needed, and x, y, z of a PDE.")
    axes = {name: np.ravel(arrays[name]) for name in COORDINATE_NAMES if name in arrays}
    u, times = np.asarray(arrays["u"], dtype=float), np.ravel(arrays["t"])
    u = u[..., None] if u.ndim == len(axes) + 1 else u
    shape = (*map(len, axes.values()), times.size)
    if u.shape[:-1] != shape or arrays["du"].size != u.size:
        raise DataError(f"{path}: u has the shape {u.shape}; {shape} and the fields are needed, and du the same.")
    truth = _truth(path.parent / _TRUTH)
    return BenchSet(path.stem, _named(path)[1], times, axes, u, np.reshape(arrays["du"], u.shape), truth)


def _truth(path: Path) -> dict[str, dict[str, float]]:
    """Coefficients by operator, by field; a file with anything else is refused."""
    if not path.is_file() or path.is_symlink():
        return {}
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path}: {path.stat().st_size} bytes are too many for coefficients.")
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return {str(f): {str(o): float(value) for o, value in own.items()} for f, own in told.items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        told = '{"u0": {"u0": -1}}'
        raise DataError(f"{path}: numbers by operator and field are needed, {told} ({error}).") from None


def scored(one: BenchSet) -> Score:
    """Fit one data set to its first times, and score it on the last."""
    count = int(len(one.times) * (1 - _TEST)), int(len(one.times) * _TEST)
    model = Estimator()
    model.set_spatial_grid(list(one.axes.values()))
    begin, cpu = time.perf_counter(), time.process_time()
    try:
        model.fit(*one.part(slice(0, count[0])))
        seconds, used = time.perf_counter() - begin, time.process_time() - cpu
        t, u, du = one.part(slice(len(one.times) - count[1], None))
        nmse = float(np.sum((du - model.predict(t, u)) ** 2) / (np.sum(du**2) + 1e-10))
        size = model.complexity()
    except BvsiError as error:
        return Score(one.name, one.kind, error=" ".join(str(error).split()), cpu=time.process_time() - cpu)
    found = model._fitted
    right, coverage = judged(found, one.truth)
    score = 1 / (1 + nmse) + math.exp(-size / _LONGEST)
    told = (nmse, size, seconds, score, "", found.equation, found.verdict, right, coverage, used)
    return Score(one.name, one.kind, *told)


def judged(found: Discovery, truth: Mapping[str, Mapping[str, float]]) -> tuple[bool | None, float | None]:
    """Whether the operators are the true ones, and the share of true coefficients in their intervals."""
    if not truth:
        return None, None
    alone = len(found.fields) == 1
    true = {(text if alone else f"{field}: {text}"): v for field, own in truth.items() for text, v in own.items()}
    unknown = [name for name in true if name not in found.candidates]
    if unknown:  # written otherwise, or no candidate: nothing can be compared
        return (False if set(true) - set(unknown) != set(found.names) else None), None
    intervals = dict(zip(found.names, found.posterior.interval(), strict=True))
    inside = [name in intervals and intervals[name][0] <= value <= intervals[name][1] for name, value in true.items()]
    return set(found.names) == set(true), float(np.mean(inside))


def run(folder: Path, out: Path, wanted: Sequence[str] = (), progress: Progress = silent) -> PerformanceReport:
    """Score all data sets, and write the tables; every score is on disk before the next begins."""
    scores: list[Score] = []
    out.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(data_sets(folder, wanted)):
        progress(number, None, one.name)
        scores.append(scored(one))
        write_tables(scores, out)
    return write_tables(scores, out)


def write_tables(scores: Sequence[Score], out: Path) -> PerformanceReport:
    """``bvsi-ode.jsonl`` and ``bvsi-pde.jsonl`` as MDBench writes them, and ``mdbench.json``, ``mdbench.md``."""
    texts = {f"{NAME}.json": json.dumps([asdict(one) for one in scores], indent=1, ensure_ascii=False) + "\n"}
    for kind in ("ode", "pde"):
        rows = [json.dumps(one.theirs, ensure_ascii=False) for one in scores if one.kind == kind]
        texts |= {f"bvsi-{kind}.jsonl": "\n".join(rows) + "\n"} if rows else {}
    texts[f"{NAME}.md"] = markdown(scores)
    for name, text in texts.items():
        write_whole(out / name, text)
    return PerformanceReport(texts[f"{NAME}.md"], tuple(out / name for name in texts))


def markdown(scores: Sequence[Score]) -> str:
    """Their scores and ours, side by side."""
    head = ["data set", "NMSE", "complexity", "score", "time/s", "verdict", "right", "coverage", "CPU s"]
    rows = [
        [
            one.dataset,
            *map(_text, (one.nmse, one.complexity, one.score, one.train_time)),
            one.error or one.verdict,
            "" if one.right is None else str(one.right).lower(),
            *map(_text, (one.coverage, one.cpu)),
        ]
        for one in scores
    ]
    return "\n\n".join(["# Data sets in the layout of MDBench", table(head, rows)]) + "\n"


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def write_examples(folder: Path, levels: Sequence[int] = (40, 20), seed: int = 0) -> None:
    """Small data sets of our own in the same layout, with their truths: growth, an oscillator, heat, transport.

    Noise is that of MDBench, û = u (1 + ε), ε normal with a variance of −SNR dB.
    """
    rng = np.random.default_rng(seed)
    for name, (arrays, truth) in _examples().items():
        place = folder / ("pde" if "x" in arrays else "ode") / name
        place.mkdir(parents=True, exist_ok=True)
        write_whole(place / _TRUTH, json.dumps(truth, indent=1) + "\n")
        stored: dict[str, Any] = dict(arrays)
        np.savez(place / f"{name}.npz", **stored)
        for level in levels:
            noisy = arrays["u"] * (1 + 10 ** (-level / 20) * rng.standard_normal(arrays["u"].shape))
            np.savez(place / f"{name}_snr_{level}.npz", **{**stored, "u": noisy})


def _examples() -> dict[str, tuple[dict[str, Array], dict[str, dict[str, float]]]]:
    """Exact solutions, their rates and coefficients."""
    t = np.linspace(0, 10, 150)
    grown = 1 / (1 + 9 * np.exp(-t))
    turned = np.stack([2 + np.cos(2 * t), -np.sin(2 * t)], axis=1)
    rates = np.stack([2 * turned[:, 1], 4 - 2 * turned[:, 0]], axis=1)
    s, x, y = np.linspace(0, 2, 80), np.linspace(0, 2 * np.pi, 64), np.linspace(0, 3, 20)
    waves = [(k, np.sin(k * x[:, None] + k) * np.exp(-0.2 * k**2 * s)) for k in (1, 2, 3)]
    heat, cooling = 2 + np.sum([w for _, w in waves], axis=0), -0.2 * np.sum([k**2 * w for k, w in waves], axis=0)
    plane = x[::2, None, None], y[:, None], s[::2]
    moving = [_moving(k, m, *plane) for k, m in ((1.0, 0.5), (2.0, 1.5), (1.0, -2.0))]
    return {
        "logistic": ({"t": t, "u": grown[:, None], "du": (grown - grown**2)[:, None]}, {"u0": {"u0": 1, "u0**2": -1}}),
        "oscillator": ({"t": t, "u": turned, "du": rates}, {"u0": {"u1": 2.0}, "u1": {"1": 4.0, "u0": -2.0}}),
        "heat1d": ({"t": s, "x": x, "u": heat[..., None], "du": cooling[..., None]}, {"u0": {"laplacian(u0)": 0.2}}),
        "transport2d": (
            {
                "t": s[::2],
                "x": x[::2],
                "y": y,
                "u": 2 + np.sum([u for u, _ in moving], axis=0),
                "du": np.sum([du for _, du in moving], axis=0),
            },
            {"u0": {"dx(u0)": -0.5, "dy(u0)": -0.25, "laplacian(u0)": 0.1}},
        ),
    }


def _moving(k: float, m: float, x: Array, y: Array, t: Array) -> tuple[Array, Array]:
    """A wave that moves with (0.5, 0.25) and decays with D = 0.1, and its rate, (n_x, n_y, T, 1)."""
    slow, decay = 0.5 * k + 0.25 * m, 0.1 * (k**2 + m**2)
    phase, size = k * x + m * y - slow * t, np.exp(-decay * t)
    return (np.sin(phase) * size)[..., None], (-size * (slow * np.cos(phase) + decay * np.sin(phase)))[..., None]
