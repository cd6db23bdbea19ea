"""Simulated scratch assays: few frames of counted cells, fitted by forward solves beside the weak form.

``python -m bvsi.studies.assay --seed 0``: Fisher's equation u_t = D Δu + r u (1 − u/K) on 38 positions and 5 times,
solved on a grid four times finer, three replicates of overdispersed counts for each of six seeding densities. How often
95% intervals of D, r and K hold the truth, and with ``--structures`` how probable structures are called that are right.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bvsi.common.arrays import Array, Rng
from bvsi.data import Data, Grid
from bvsi.discovery import Discovery, discover
from bvsi.discovery.refining import Refined, refine
from bvsi.errors import BvsiError
from bvsi.forward.ensemble import simulator
from bvsi.noise import from_counts
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
CANDIDATES = ("laplacian(u)", "laplacian(u**2)", "u", "u**2", "u**3")
"""Those that are compared."""
QUANTITIES = ("D", "r", "K")
"""What intervals are made of."""


@dataclass(frozen=True, eq=False)
class Assay:
    """One seeding density: replicates of counts, and the truth."""

    wells: tuple[Data, ...]
    truth: Mapping[str, float]


def assay(seeding: float, rng: Rng) -> Assay:
    """Draw coefficients, the state after scratching, and counts."""
    D, r, K = rng.uniform(100, 900), rng.uniform(0.035, 0.08), rng.uniform(90, 140)
    x = np.linspace(POSITIONS[0], POSITIONS[-1], _FINER * (len(POSITIONS) - 1) + 1)
    left, right, width = rng.uniform(550, 750), rng.uniform(1350, 1550), rng.uniform(40, 100)
    seeded = seeding * np.exp(_waves(x, rng))
    u0 = seeded * (0.03 + 0.97 * 0.5 * (2 - np.tanh((x - left) / width) + np.tanh((x - right) / width)))
    at_first = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=x))
    solved, _ = simulator(at_first, library(FISHER)).run(np.array([D, r, -r / K]), {"u": u0}, TIMES)
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
    structures: Refined | None = None


def trial(one: Assay, rng: Rng, *, structures: bool = False) -> AssayFit:
    """Fit Fisher's equation in both spaces; with ``structures`` all of the candidates."""
    data, noise = from_counts(one.wells)
    found: Discovery | None
    try:
        found = discover(data, library(FISHER, FISHER), noise=noise, check=False)
    except BvsiError:
        found = None
    begin = time.process_time()
    made = refine(data, library(FISHER, FISHER), found, noise=noise)
    seconds = time.process_time() - begin
    compared = refine(data, library(CANDIDATES), noise=noise) if structures else None
    weak = {} if found is None else intervals(found.posterior.sample(20_000, rng)[:, _order(found.names)])
    forward = intervals(made.best.posterior.sample(20_000, rng)[:, _order(made.best.names)])
    return AssayFit(one.truth, forward, weak, made.best.chi2, made.best.status.converged, seconds, compared)


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


def reliability(trials: Sequence[AssayFit]) -> list[tuple[float, float, int]]:
    """Stated probability of structures, how often they are right, and their number, in bins of the probability."""
    every = [
        (p, set(fit.names) == set(FISHER))
        for one in trials
        if one.structures is not None
        for fit, p in zip(one.structures.models, one.structures.probabilities(), strict=True)
    ]
    p, right = np.array([p for p, _ in every]), np.array([r for _, r in every])
    edges = [0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0 + 1e-9]
    inside = [(p >= low) & (p < high) for low, high in pairwise(edges)]
    return [(float(p[b].mean()), float(right[b].mean()), int(b.sum())) for b in inside if b.any()]


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
    parser.add_argument("--structures", action="store_true", help="compare structures of five candidates too")
    chosen = parser.parse_args(arguments)
    trials = []
    for run in range(chosen.runs):
        for number, seeding in enumerate(SEEDINGS):
            rng = np.random.default_rng([chosen.seed, run, number])
            trials.append(trial(assay(seeding, rng), rng, structures=chosen.structures))
    sys.stdout.write(table(trials))
    for stated, right, count in reliability(trials) if chosen.structures else ():
        sys.stdout.write(f"stated {stated:.3f}: right {right:.3f} of {count}\n")


if __name__ == "__main__":
    main()
