"""Noise of many kinds: how often the right equation is found, called consistent, and covered by its intervals.

``python -m bvsi.studies.noise_kinds --seed 0``: discovery at its defaults on Burgers data (one dimension) and on a
Fokker–Planck equation (two, linear), with noise that is white, blurred, proportional to the signal, counted, rounded,
or has outliers. Every run has a generator of its own, which the seed and the names of case and kind decide.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from bvsi.check import Verdict
from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.discovery.metrics import standard_scores
from bvsi.studies.problems.classics import CLASSICS, Classic

Array = NDArray[np.float64]
Rng = np.random.Generator
Kind = Callable[[Array, Rng], Array]
"""Exact values (T, *shape) to measured ones."""

LEVEL = 0.1
"""Standard deviation of the noise over the RMS of the field, where the kind has one."""
_OFF = 10.0  # sd of the noise by which outliers are off, up to twice that


def _level(u: Array) -> float:
    return LEVEL * float(np.sqrt(np.mean(u**2)))


def white(u: Array, rng: Rng) -> Array:
    """10% white noise."""
    return u + _level(u) * rng.standard_normal(u.shape)


def blurred(u: Array, rng: Rng, time: float = 0.0, space: float = 0.0) -> Array:
    """10% noise blurred by a Gaussian of so many frames and nodes."""
    noise = rng.standard_normal(u.shape)
    for axis, width in enumerate((time, *(space,) * (u.ndim - 1))):
        noise = gaussian_filter1d(noise, width, axis=axis, mode="wrap") if width else noise
    return np.asarray(u + _level(u) * noise / noise.std())


def proportional(u: Array, rng: Rng, part: float) -> Array:
    """Noise proportional to the signal, and 0.5% of the RMS everywhere."""
    return u * (1 + part * rng.standard_normal(u.shape)) + 0.05 * _level(u) * rng.standard_normal(u.shape)


def counted(u: Array, rng: Rng, mean: float) -> Array:
    """Poisson counts, so many per cell on average, in units of the field."""
    unit = float(np.mean(u)) / mean
    return np.asarray(unit * rng.poisson(np.maximum(u, 0.0) / unit), dtype=np.float64)


def rounded(u: Array, rng: Rng, levels: float) -> Array:
    """10% white noise of so many levels of the digitiser, rounded."""
    step = _level(u) / levels
    return step * np.round(white(u, rng) / step)


def spoilt(u: Array, rng: Rng, part: float) -> Array:
    """10% white noise, and this part of the values off by 10 to 20 standard deviations."""
    values, there = white(u, rng), rng.random(u.shape) < part
    off = _level(u) * _OFF * (1 + rng.random(u.shape)) * np.sign(rng.standard_normal(u.shape))
    return values + np.where(there, off, 0.0)


KINDS: Mapping[str, Kind] = {
    "white": white,
    "blur x 1": partial(blurred, space=1.0),
    "blur x 2": partial(blurred, space=2.0),
    "blur t 1.5": partial(blurred, time=1.5),
    "blur xt 1": partial(blurred, time=1.0, space=1.0),
    "blur xt 2": partial(blurred, time=2.0, space=2.0),
    "proportional 5%": partial(proportional, part=0.05),
    "proportional 10%": partial(proportional, part=0.1),
    "counts 5": partial(counted, mean=5.0),
    "counts 20": partial(counted, mean=20.0),
    "counts 100": partial(counted, mean=100.0),
    "rounded 0.3": partial(rounded, levels=0.3),
    "rounded 1": partial(rounded, levels=1.0),
    "rounded 3": partial(rounded, levels=3.0),
    "outliers 1%": partial(spoilt, part=0.01),
    "outliers 5%": partial(spoilt, part=0.05),
}

CASES: Mapping[str, Classic] = {
    "burgers": CLASSICS["burgers"],
    "fokker_planck_2d": replace(
        CLASSICS["fokker_planck_2d"], make=partial(CLASSICS["fokker_planck_2d"].make, nodes=32, times=31)
    ),
}


@dataclass(frozen=True)
class NoiseTrial:
    """What came of one case, kind and noise.

    Attributes
    ----------
    z
        (found − true)/sd by true operator; empty where others were selected.
    sd
        Standard deviations of the same.
    """

    right: bool
    verdict: str
    z: tuple[float, ...]
    sd: tuple[float, ...]
    seconds: float
    told: str


def measured(case: Classic, kind: Kind, rng: Rng) -> Data:
    """Data of a case with noise of a kind."""
    data = case.data()
    grid = data.geometry
    assert isinstance(grid, Grid)
    fields = {f: kind(u.reshape(-1, *grid.shape), rng).reshape(u.shape) for f, u in data.fields.items()}
    return data.with_fields(fields)


def trial(case: Classic, kind: Kind, rng: Rng) -> NoiseTrial:
    """Discovery at its defaults."""
    data, begin = measured(case, kind, rng), time.process_time()
    try:
        found = discover(data, case.library())
    except BvsiError as error:
        return NoiseTrial(False, "failed", (), (), time.process_time() - begin, str(error))
    seconds, right = time.process_time() - begin, set(found.names) == set(case.truth)
    sd = {name: float(found.sd[found.names.index(name)]) for name in case.truth if right}
    z = tuple(standard_scores(found, case.truth).values()) if right else ()
    told = f"{' + '.join(found.names) if not right else ''} χ²/n {found.chi2:.3f}; {found.settings['noise']}"
    reasons = "" if found.check is None else "; ".join(found.check.reasons)
    return NoiseTrial(right, str(found.verdict), z, tuple(sd.values()), seconds, f"{told}; {reasons}")


def trials(case: str, kind: str, seed: int, runs: int) -> list[NoiseTrial]:
    """Runs of one case and kind."""
    name = zlib.crc32(f"{case}, {kind}".encode())
    return [trial(CASES[case], KINDS[kind], np.random.default_rng([seed, name, run])) for run in range(runs)]


def line(case: str, kind: str, runs: Sequence[NoiseTrial]) -> str:
    """One line of the table."""
    z = np.array([one.z for one in runs if one.right])
    consistent = np.array([one.verdict == str(Verdict.CONSISTENT) for one in runs])
    right = np.array([one.right for one in runs])
    rates = [right & consistent, right & ~consistent, ~right & ~consistent, ~right & consistent]
    cells = [case, kind, str(len(runs)), *(str(int(np.sum(rate))) for rate in rates)]
    if z.size:
        off = ", ".join(f"{m:+.1f}" for m in z.mean(axis=0))
        sd = ", ".join(f"{s:.2g}" for s in np.median([one.sd for one in runs if one.right], axis=0))
        cells += [f"{np.mean(np.abs(z) < 1.96):.2f}", f"{np.abs(z).max():.1f}", off, sd]
    else:
        cells += ["–"] * 4
    return "| " + " | ".join([*cells, f"{np.mean([one.seconds for one in runs]):.1f}"]) + " |\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Discovery from data with noise of many kinds."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.noise_kinds", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=0, help="decides the noise (default 0)")
    parser.add_argument("--runs", type=int, default=10, help="of every case and kind (default 10)")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), help="which (default: all)")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS), help="which (default: all)")
    parser.add_argument("--details", action="store_true", help="a line for every run")
    chosen = parser.parse_args(arguments)
    write = sys.stdout.write
    write("| case | noise | runs | right, consistent | right, alarm | wrong, alarm | wrong, consistent ")
    write("| coverage | largest abs z | mean z | median sd | CPU s |\n|---|---|" + "---:|" * 10 + "\n")
    for case in chosen.cases:
        for kind in chosen.kinds:
            runs = trials(case, kind, chosen.seed, chosen.runs)
            write(line(case, kind, runs))
            for one in runs if chosen.details else ():
                z = ", ".join(f"{value:+.2f}" for value in one.z)
                write(f"  {'right' if one.right else 'WRONG'}, {one.verdict}, z {z}; {one.told}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
