"""Simulated scratch assays: few frames of counted cells, fitted by forward solves beside the weak form.

``python -m bvsi.studies.assay --seed 0``: Fisher's equation u_t = D Δu + r u (1 − u/K) on 38 positions and 5 times,
solved on a grid four times finer, three replicates of overdispersed counts for each of six seeding densities. How often
95% intervals of D, r and K hold the truth. With ``--twins`` growth is slowed by u² or by u³, each in half of the draws,
with coefficients from a prior; the probabilities that are stated of both, with that prior and with the usual one, are
compared with how often they are right: only those with the prior of the draws have to be. With
``--data ../shared/data/jin2016`` the real assays are fitted one by one, and their last frame is forecast from the
others; with ``--together`` as one.
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
from matplotlib.figure import Figure

from bvsi.app.plot.style import BLUE, GREY
from bvsi.common.arrays import Array, Rng
from bvsi.data import Data, Grid
from bvsi.discovery import Discovery, discover
from bvsi.discovery.refined import Refined
from bvsi.discovery.refining import refine
from bvsi.errors import BvsiError
from bvsi.forward.ensemble import simulator
from bvsi.infer.priors import Normal, Prior
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
TWINS_PRIOR = Prior(
    {
        "laplacian(u)": Normal(500.0, 125.0**2),
        "u": Normal(0.0575, 0.013**2),
        "u**2": Normal(-5e-4, 1.3e-4**2),
        "u**3": Normal(-4.5e-6, 1.2e-6**2),
    }
)
"""Of their coefficients: D, r and K are then about as in other draws."""
DELAY = "exp(-t/12)*u"
"""Growth that begins late: r u (1 − a exp(−t/12 h))."""
POROUS = ("laplacian(u**2)", "u", "u**2")
"""The same with diffusion in proportion to the density."""
STRUCTURES = (
    FISHER,
    POROUS,
    (*FISHER, DELAY),
    (*POROUS, DELAY),
    *((D, "u", "u**3", *late) for D in ("laplacian(u)", "laplacian(u**2)") for late in ((), (DELAY,))),
    *((D, "u", *late) for D in ("laplacian(u)", "laplacian(u**2)") for late in ((), (DELAY,))),
    *(("laplacian(u)", *POROUS, *late) for late in ((), (DELAY,))),
)
"""Those that are compared of the real assays: linear and degenerate diffusion, three laws of growth, and a delay."""
_COVERED = 1.96
_RANGES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0 + 1e-9)  # of stated probabilities that are counted together
_PROBABLE = 0.01  # probability of structures whose intervals are shown
QUANTITIES = ("D", "r", "K")
"""What intervals are made of."""


@dataclass(frozen=True, eq=False)
class Assay:
    """One seeding density: replicates of counts, and the truth; empty where a prior was drawn from."""

    wells: tuple[Data, ...]
    truth: Mapping[str, float]


def assay(seeding: float, rng: Rng, operators: Sequence[str] = FISHER, prior: Prior | None = None) -> Assay:
    """Draw coefficients, of Fisher's equation or from a prior, the state after scratching, and counts."""
    D, r, K = rng.uniform(100, 900), rng.uniform(0.035, 0.08), rng.uniform(90, 140)
    theta = np.array([D, r, -r / K])
    if prior is not None:
        theta = prior.bind(tuple(operators)).sample(1, rng)[0]
    x = np.linspace(POSITIONS[0], POSITIONS[-1], _FINER * (len(POSITIONS) - 1) + 1)
    left, right, width = rng.uniform(550, 750), rng.uniform(1350, 1550), rng.uniform(40, 100)
    seeded = seeding * np.exp(_waves(x, rng))
    u0 = seeded * (0.03 + 0.97 * 0.5 * (2 - np.tanh((x - left) / width) + np.tanh((x - right) / width)))
    at_first = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=x))
    solved, _ = simulator(at_first, library(operators)).run(theta, {"u": u0}, TIMES)
    mean, phi = np.maximum(solved["u"][:, ::_FINER], 1e-3), rng.uniform(*_OVERDISPERSED)
    counts = [rng.negative_binomial(mean / (phi - 1), 1 / phi).astype(float) for _ in range(REPLICATES)]
    wells = tuple(Data(TIMES, {"u": count}, Grid(x=POSITIONS)) for count in counts)
    return Assay(wells, dict(zip(QUANTITIES, (D, r, K), strict=True)) if prior is None else {})


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


def twin(seed: int, run: int) -> tuple[float, float, bool]:
    """P of Fisher's equation with the prior of the draw and the usual one, and whether it was drawn; any seeding."""
    rng = np.random.default_rng([seed, run])
    right = bool(rng.integers(2))
    seeding, operators = rng.uniform(SEEDINGS[0], SEEDINGS[-1]), TWINS[0 if right else 1]
    data, noise = from_counts(assay(seeding, rng, operators, TWINS_PRIOR).wells)

    def stated(prior: Prior | None) -> float:
        return refine(data, _every(TWINS), noise=noise, prior=prior, structures=TWINS, budget=np.inf).inclusion()[
            "u**2"
        ]

    return stated(TWINS_PRIOR), stated(None), right


def reliability(stated: Sequence[tuple[float, bool]], *, both: bool = True) -> str:
    """How often what has a stated probability is right, and the log score.

    The log score of probabilities that are calibrated is their entropy, on average; beside the probabilities that are
    right stand two standard deviations of how often they are if all is well.

    Parameters
    ----------
    both
        Whether the opposite of each statement counts too, as of two structures, of which one is right.
    """
    p, right = np.array([p for p, _ in stated]), np.array([r for _, r in stated])
    score = -np.mean(np.log(np.clip(np.where(right, p, 1 - p), 1e-12, 1.0)))
    entropy = np.mean([-q * np.log(q) - (1 - q) * np.log(1 - q) for q in np.clip(p, 1e-12, 1 - 1e-12)])
    lines = ["| stated | right | ± | number |", "|---:|---:|---:|---:|"]
    for mean, share, spread, number in _bins(stated, both=both):
        lines.append(f"| {mean:.3f} | {share:.3f} | {spread:.3f} | {number} |")
    return "\n".join(lines) + f"\n\n{len(stated)} statements; log score {score:.3f}, entropy {entropy:.3f}\n"


def _bins(stated: Sequence[tuple[float, bool]], *, both: bool) -> list[tuple[float, float, float, int]]:
    """Stated probability on average, how often it is right, two standard deviations of that, and number, by range."""
    every = [*stated, *((1 - p, not right) for p, right in (stated if both else ()))]
    p, right = np.array([p for p, _ in every]), np.array([r for _, r in every])
    found = []
    for low, high in pairwise(_RANGES):
        inside = (p >= low) & (p < high)
        if inside.any():
            number = int(inside.sum())
            spread = 2 * float(np.sqrt(np.mean(p[inside] * (1 - p[inside])) / number))
            found.append((float(p[inside].mean()), float(right[inside].mean()), spread, number))
    return found


def reliability_figure(stated: Mapping[str, Sequence[tuple[float, bool]]], path: Path, *, both: bool = False) -> None:
    """Draw how often stated probabilities are right, with what chance lets expect around the diagonal."""
    fig = Figure(figsize=(4.2 * len(stated), 4.0), layout="constrained")
    for ax, (title, pairs) in zip(fig.subplots(1, len(stated), squeeze=False)[0], stated.items(), strict=True):
        mean, share, spread, number = (np.array(column) for column in zip(*_bins(pairs, both=both), strict=True))
        ax.plot([0, 1], [0, 1], color=GREY, lw=1)
        ends = [mean - np.maximum(mean - spread, 0), np.minimum(mean + spread, 1) - mean]
        ax.errorbar(mean, mean, ends, fmt="none", ecolor=GREY, capsize=4, label="two standard deviations")
        ax.plot(mean, share, "o", color=BLUE, label="observed")
        for x, y, n in zip(mean, share, number, strict=True):
            ax.annotate(f"{n}", (x, y), textcoords="offset points", xytext=(6, -10), fontsize=8)
        ax.set(xlabel="stated probability", ylabel="share that is right", title=title, xlim=(-0.05, 1.05))
        ax.set(ylim=(-0.05, 1.05), aspect="equal")
    ax.legend(loc="lower right", frameon=False, fontsize=8)
    fig.savefig(path)


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


def forecast(data: Data, noise: SignalNoise, structures: Sequence[Sequence[str]]) -> str:
    """The last frame from the others: share within 95% and rms of z-scores, by all structures and by each alone."""
    known = Data(data.times[:-1], {"u": data.fields["u"][:-1]}, data.geometry)
    made = refine(known, _every(structures), noise=noise, structures=structures, later=data.times[-1:], budget=np.inf)
    lines = [f"last frame, forecast by {len(made.models)} structures: {_held(data, noise, *made.predicted())}"]
    for fit, p in zip(made.models, made.probabilities(), strict=True):
        alone = _held(data, noise, fit.predictions[0], fit.spreads[0])
        lines.append(f"  {alone}; P = {p:.3f}: {' + '.join(fit.names)}")
    return "\n".join(lines) + "\n"


def _held(data: Data, noise: SignalNoise, mean: Array, *sd: Array) -> str:
    """How well the last frame lies within a prediction of it, whose errors are those given and noise."""
    variance = sum(own[-1] ** 2 for own in sd) + noise.b * np.maximum(mean[-1], 0.0)
    z = (data.fields["u"][-1] - mean[-1]) / np.sqrt(variance)
    return f"{np.mean(np.abs(z) < _COVERED):.2f} within 95%, rms z {np.sqrt(np.mean(z**2)):.2f}"


def _every(structures: Sequence[Sequence[str]]) -> Library:
    return library(tuple(dict.fromkeys(name for names in structures for name in names)))


def told(made: Refined, wells: str) -> str:
    """Fisher's D, r and K, the structures, and 95% intervals of those that are probable."""
    fisher = next((fit for fit in made.models if set(fit.names) == set(FISHER)), None)
    lines = [f"## {wells}"]
    if fisher is not None:
        made_of = intervals(fisher.posterior.sample(20_000, np.random.default_rng(0))[:, _order(fisher.names)])
        lines += [f"Fisher: {', '.join(f'{q} {low:.4g} to {high:.4g}' for q, (low, high) in made_of.items())}"]
    lines.append(str(made))
    for fit, p in zip(made.models, made.probabilities(), strict=True):
        ends = fit.posterior.interval()
        each = (f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in zip(fit.names, ends, strict=True))
        lines += [f"P = {p:.3f}, converged {fit.status.converged}: {', '.join(each)}"] if p > _PROBABLE else []
    finite = all(np.isfinite(fit.posterior.interval()).all() for fit in made.models)
    return "\n".join([*lines, f"all intervals finite: {finite}; {made.seconds:.0f} s"]) + "\n"


def report_real(
    folder: Path, seedings: Sequence[str], structures: Sequence[Sequence[str]], *, together: bool
) -> Iterator[str]:
    """Real assays one by one, with the forecast of their last frame, or together with the same coefficients."""
    wells = real(folder)
    chosen = {name: wells[name] for name in seedings or wells}
    if together:
        every, noises = zip(*chosen.values(), strict=True)
        begin = time.process_time()
        made = refine(list(every), _every(structures), noise=list(noises), structures=structures, budget=np.inf)
        named = f"seedings {', '.join(chosen)} together"
        yield f"{told(made, named)}{time.process_time() - begin:.0f} CPU s\n"
        return
    for name, (data, noise) in chosen.items():
        begin = time.process_time()
        made = refine(data, _every(structures), noise=noise, structures=structures, budget=np.inf)
        yield f"{told(made, f'seeding {name}')}{time.process_time() - begin:.0f} CPU s\n"
        yield f"{forecast(data, noise, structures)}{time.process_time() - begin:.0f} CPU s\n\n"


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
    parser.add_argument("--figure", type=Path, help="file for the reliability diagram of --twins, such as twins.svg")
    parser.add_argument("--data", type=Path, help="folder with CellDensity_*.csv, which are fitted instead")
    parser.add_argument("--seedings", nargs="*", default=(), help="of --data, such as 10 12 (default all)")
    parser.add_argument("--together", action="store_true", help="--data with the same coefficients for all seedings")
    parser.add_argument("--structures", type=int, default=len(STRUCTURES), help="of --data, the first of the list")
    chosen = parser.parse_args(arguments)
    if chosen.data is not None:
        some = STRUCTURES[: chosen.structures]
        for part in report_real(chosen.data, chosen.seedings, some, together=chosen.together):
            sys.stdout.write(part)
            sys.stdout.flush()
    elif chosen.twins:
        stated = []
        for run in range(chosen.runs):
            stated.append(twin(chosen.seed, run))
            sys.stderr.write("{} {:.4f} {:.4f} {}\n".format(run, *stated[-1]))
        both = {
            "prior of the draws": [(p, right) for p, _, right in stated],
            "usual prior": [(p, right) for _, p, right in stated],
        }
        for what, pairs in both.items():
            sys.stdout.write(f"## {what}\n\n{reliability(pairs)}\n")
        if chosen.figure is not None:
            reliability_figure(both, chosen.figure, both=True)
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
