"""Simulated scratch assays: few frames of counted cells, fitted by forward solves beside the weak form.

``python -m bvsi.studies.assay --seed 0``: Fisher's equation u_t = D Δu + r u (1 − u/K) on 38 positions and 5 times,
solved on a grid four times finer, three replicates of overdispersed counts for each of six seeding densities. How often
95% intervals of D, r and K hold the truth. With ``--twins`` the growth is r u (1 − u/K) or r u (1 − u²/K²), each in
half of the draws, and the probabilities that are stated of both are compared with how often they are right. With
``--data ../shared/data/jin2016`` the real assays are fitted, one by one and together, and their last frame forecast.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from bvsi.common.arrays import Array, Rng
from bvsi.data import Data, Grid
from bvsi.discovery import Discovery, discover
from bvsi.discovery.refining import Refined, refine
from bvsi.errors import BvsiError
from bvsi.forward.ensemble import simulator
from bvsi.noise import SignalNoise, from_counts
from bvsi.operators import Library, NoFlux

POSITIONS = np.arange(25.0, 1900.0, 50.0)
"""Middles of the columns in which cells are counted, µm."""
TIMES = np.array([0.0, 12.0, 24.0, 36.0, 48.0])
"""Hours."""
SEEDINGS = (16.0, 20.0, 24.0, 28.0, 32.0, 40.0)
"""Cells in a column far from the scratch, at first: about those of the assays of Jin et al. (2016)."""
REPLICATES = 3
"""Wells that are counted."""
_OVERDISPERSED = (1.5, 4.0)  # variance over mean of the counts, between these
_FINER = 4  # cells of the solution between two columns
FISHER = ("laplacian(u)", "u", "u**2")
"""Operators of the equation."""
TWINS = (FISHER, ("laplacian(u)", "u", "u**3"))
"""Structures that are nearly equal as long as cells are few."""
DELAY = "exp(-t/12)*u"
"""Growth that begins late: r u (1 − a exp(−t/12 h))."""
POROUS = ("laplacian(u**2)", "u", "u**2")
"""The same with diffusion in proportion to the density."""
STRUCTURES = (
    FISHER,
    POROUS,
    (*FISHER, DELAY),
    (*POROUS, DELAY),
    ("laplacian(u)", *POROUS),
    POROUS[:2],
    *((D, "u", "u**3") for D in ("laplacian(u)", "laplacian(u**2)")),
    *((D, "u", "u**2", "u**3") for D in ("laplacian(u)", "laplacian(u**2)")),
)
"""Those that are compared of the real assays: linear and degenerate diffusion, three laws of growth, and a delay."""
_COVERED = 1.96
QUANTITIES = ("D", "r", "K")
"""What intervals are made of."""


@dataclass(frozen=True, eq=False)
class Assay:
    """One seeding density: replicates of counts, and the truth."""

    wells: tuple[Data, ...]
    truth: Mapping[str, float]


def assay(seeding: float, rng: Rng, operators: Sequence[str] = FISHER) -> Assay:
    """Draw coefficients, the state after scratching, and counts."""
    D, r, K = rng.uniform(100, 900), rng.uniform(0.035, 0.08), rng.uniform(90, 140)
    x = np.linspace(POSITIONS[0], POSITIONS[-1], _FINER * (len(POSITIONS) - 1) + 1)
    left, right, width = rng.uniform(550, 750), rng.uniform(1350, 1550), rng.uniform(40, 100)
    seeded = seeding * np.exp(_waves(x, rng))
    u0 = seeded * (0.03 + 0.97 * 0.5 * (2 - np.tanh((x - left) / width) + np.tanh((x - right) / width)))
    at_first = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=x))
    slowed = -r / K if operators == FISHER else -r / K**2
    solved, _ = simulator(at_first, library(operators)).run(np.array([D, r, slowed]), {"u": u0}, TIMES)
    mean, phi = np.maximum(solved["u"][:, ::_FINER], 1e-3), rng.uniform(*_OVERDISPERSED)
    counts = [rng.negative_binomial(mean / (phi - 1), 1 / phi).astype(float) for _ in range(REPLICATES)]
    wells = tuple(Data(TIMES, {"u": count}, Grid(x=POSITIONS)) for count in counts)
    return Assay(wells, {"D": D, "r": r, "K": K})


def _waves(x: Array, rng: Rng) -> Array:
    """Smooth differences of the seeding, about 10%."""
    k = np.arange(1, 7)[:, None]
    return np.asarray(0.1 * rng.standard_normal(6) / np.sqrt(3) @ np.cos(np.pi * k * (x - x[0]) / np.ptp(x)))


def library(names: Sequence[str], keep: Sequence[str] = ()) -> Library:
    """Operators; no cell leaves the well."""
    return Library({"u": list(names)}, keep=list(keep), boundary=NoFlux())


def intervals(draws: Array) -> dict[str, tuple[float, float]]:
    """95% intervals of D, r and K from draws (size, 3) of Fisher's coefficients."""
    with np.errstate(divide="ignore"):
        values = {"D": draws[:, 0], "r": draws[:, 1], "K": -draws[:, 1] / draws[:, 2]}
    return {name: (float(np.quantile(v, 0.025)), float(np.quantile(v, 0.975))) for name, v in values.items()}


@dataclass(frozen=True, eq=False)
class AssayFit:
    """One assay: intervals by forward solves and by the weak form, empty where that failed; CPU seconds of each."""

    truth: Mapping[str, float]
    forward: Mapping[str, tuple[float, float]]
    weak: Mapping[str, tuple[float, float]]
    chi2: float
    converged: bool
    seconds: float


def trial(one: Assay, rng: Rng) -> AssayFit:
    """Fit Fisher's equation in both spaces."""
    data, noise = from_counts(one.wells)
    found: Discovery | None
    try:
        found = discover(data, library(FISHER, FISHER), noise=noise, check=False)
    except BvsiError:
        found = None
    begin = time.process_time()
    made = refine(data, library(FISHER, FISHER), found, noise=noise)
    seconds = time.process_time() - begin
    weak = {} if found is None else intervals(found.posterior.sample(20_000, rng)[:, _order(found.names)])
    forward = intervals(made.best.posterior.sample(20_000, rng)[:, _order(made.best.names)])
    return AssayFit(one.truth, forward, weak, made.best.chi2, made.best.status.converged, seconds)


def _order(names: Sequence[str]) -> list[int]:
    return [list(names).index(name) for name in FISHER]


def covered(trials: Sequence[AssayFit], quantity: str, way: str) -> float:
    """Share of the intervals that hold the truth."""
    pairs = [(getattr(one, way)[quantity], one.truth[quantity]) for one in trials if getattr(one, way)]
    return float(np.mean([low <= true <= high for (low, high), true in pairs])) if pairs else float("nan")


def width(trials: Sequence[AssayFit], quantity: str, way: str) -> float:
    """Median width of the intervals as a part of the truth."""
    pairs = [(getattr(one, way)[quantity], one.truth[quantity]) for one in trials if getattr(one, way)]
    return float(np.median([(high - low) / true for (low, high), true in pairs])) if pairs else float("nan")


def twin(seed: int, run: int) -> tuple[float, bool]:
    """Probability that is stated of Fisher's equation, and whether it was drawn, at a seeding that is drawn too."""
    rng = np.random.default_rng([seed, run])
    right = bool(rng.integers(2))
    data, noise = from_counts(assay(rng.uniform(SEEDINGS[0], SEEDINGS[-1]), rng, TWINS[0 if right else 1]).wells)
    every = tuple(dict.fromkeys(name for names in TWINS for name in names))
    made = refine(data, library(every), noise=noise, structures=TWINS)
    pairs = zip(made.models, made.probabilities(), strict=True)
    return next((float(p) for fit, p in pairs if set(fit.names) == set(FISHER)), 0.0), right


def reliability(stated: Sequence[tuple[float, bool]]) -> str:
    """How often structures are right by their stated probability, both structures of each draw, and the log score.

    The log score of probabilities that are calibrated is their entropy, on average.
    """
    p, right = np.array([p for p, _ in stated]), np.array([r for _, r in stated])
    p, right = np.concatenate([p, 1 - p]), np.concatenate([right, ~right])
    lines = ["| stated | right | number |", "|---:|---:|---:|"]
    for low, high in pairwise([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0 + 1e-9]):
        inside = (p >= low) & (p < high)
        if inside.any():
            lines.append(f"| {p[inside].mean():.3f} | {right[inside].mean():.3f} | {inside.sum()} |")
    safe = np.clip(p, 1e-12, 1 - 1e-12)
    score, entropy = -np.mean(np.log(safe[right])), -2 * np.mean(safe * np.log(safe))
    return "\n".join(lines) + f"\n\n{len(stated)} draws; log score {score:.3f}, entropy {entropy:.3f}\n"


def real(folder: Path) -> dict[str, tuple[Data, SignalNoise]]:
    """Mean counts of the replicates of each file, and their noise, by seeding density."""
    found = {}
    for file in sorted(folder.glob("CellDensity_*.csv")):
        with file.open(encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
        times, x = (np.unique([float(row[key]) for row in rows]) for key in ("Time", "Position"))
        counts = [
            np.array([float(row[f"Num_Cells{k}"]) for row in rows]).reshape(len(times), len(x)) for k in (1, 2, 3)
        ]
        found[file.stem.split("_")[1]] = from_counts([Data(times, {"u": own}, Grid(x=x)) for own in counts])
    return found


def forecast(data: Data, noise: SignalNoise, structures: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Share of the last frame within 95% of its forecast from the others, and the rms of its z-scores."""
    known = Data(data.times[:-1], {"u": data.fields["u"][:-1]}, data.geometry)
    made = refine(known, _every(structures), noise=noise, structures=structures, later=data.times[-1:])
    mean, *sd = (own[-1] for own in made.predicted())
    variance = sum(own**2 for own in sd) + noise.b * np.maximum(mean, 0.0)
    z = (data.fields["u"][-1] - mean) / np.sqrt(variance)
    return float(np.mean(np.abs(z) < _COVERED)), float(np.sqrt(np.mean(z**2)))


def _every(structures: Sequence[Sequence[str]]) -> Library:
    return library(tuple(dict.fromkeys(name for names in structures for name in names)))


def told(made: Refined, wells: str) -> str:
    """Fisher's D, r and K, and the structures, of one or more real assays."""
    fisher = next((fit for fit in made.models if set(fit.names) == set(FISHER)), None)
    lines = [f"## {wells}"]
    if fisher is not None:
        made_of = intervals(fisher.posterior.sample(20_000, np.random.default_rng(0))[:, _order(fisher.names)])
        lines += [f"Fisher: {', '.join(f'{q} {low:.4g} to {high:.4g}' for q, (low, high) in made_of.items())}"]
    return "\n".join([*lines, str(made), f"{made.seconds:.0f} s"]) + "\n"


def report_real(folder: Path, seedings: Sequence[str], structures: Sequence[Sequence[str]]) -> Iterator[str]:
    """Real assays one by one, with the forecast of their last frame; without ``seedings`` all, then together."""
    wells = real(folder)
    for name in seedings or wells:
        data, noise = wells[name]
        begin = time.process_time()
        made = refine(data, _every(structures), noise=noise, structures=structures, budget=np.inf)
        yield f"{told(made, f'seeding {name}')}{time.process_time() - begin:.0f} CPU s\n"
        for what, some in (("Fisher and porous", [FISHER, POROUS]), ("Fisher alone", [FISHER])):
            share, rms = forecast(data, noise, some)
            yield f"last frame, {what}: {share:.2f} within 95%, rms z {rms:.2f}\n"
    if not seedings:
        every, noises = [data for data, _ in wells.values()], [noise for _, noise in wells.values()]
        made = refine(every, _every(structures), noise=noises, structures=[FISHER, POROUS], budget=np.inf)
        yield told(made, "all seedings")


def table(trials: Sequence[AssayFit]) -> str:
    """Coverage and widths in both spaces."""
    lines = ["| | forward: covered | width/truth | weak form: covered | width/truth |", "|---|---:|---:|---:|---:|"]
    for name in QUANTITIES:
        cells = [f"{f(trials, name, way):.3f}" for way in ("forward", "weak") for f in (covered, width)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    failed = sum(not one.weak for one in trials)
    seconds = np.array([one.seconds for one in trials])
    lines.append(
        f"\n{len(trials)} assays; forward: converged {sum(one.converged for one in trials)}, χ²/ν "
        f"{np.mean([one.chi2 for one in trials]):.3f} on average, CPU s {seconds.mean():.2f}, at most "
        f"{seconds.max():.2f}; weak form: failed {failed}."
    )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulated scratch assays, by forward solves and by the weak form."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.assay", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=0, help="decides assays and noise (default 0)")
    parser.add_argument("--runs", type=int, default=50, help="of six densities each (default 50)")
    parser.add_argument("--twins", action="store_true", help="probabilities of two structures that are nearly equal")
    parser.add_argument("--data", type=Path, help="folder with CellDensity_*.csv, which are fitted instead")
    parser.add_argument(
        "--seedings", nargs="*", default=(), help="of --data, such as 10 12 (default all, and together)"
    )
    parser.add_argument("--structures", type=int, default=len(STRUCTURES), help="of --data, the first of the list")
    chosen = parser.parse_args(arguments)
    if chosen.data is not None:
        for part in report_real(chosen.data, chosen.seedings, STRUCTURES[: chosen.structures]):
            sys.stdout.write(part)
            sys.stdout.flush()
    elif chosen.twins:
        stated = []
        for run in range(chosen.runs):
            stated.append(twin(chosen.seed, run))
            sys.stderr.write(f"{run} {stated[-1][0]:.4f} {stated[-1][1]}\n")
        sys.stdout.write(reliability(stated))
    else:
        _coverage(chosen.seed, chosen.runs)


def _coverage(seed: int, runs: int) -> None:
    trials = []
    for run in range(runs):
        for number, seeding in enumerate(SEEDINGS):
            rng = np.random.default_rng([seed, run, number])
            trials.append(trial(assay(seeding, rng), rng))
        sys.stderr.write(f"{run + 1} runs\n{table(trials)}\n")
    sys.stdout.write(table(trials))


if __name__ == "__main__":
    main()
