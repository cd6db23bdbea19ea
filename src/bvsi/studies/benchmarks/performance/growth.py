"""Growth of the lagged fit with nodes, times and operators, on the paper's Fokker–Planck data.

seconds ∝ size^p,    p by least squares on the logarithms
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.infer import LeastSquares
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, add_noise
from bvsi.studies.benchmarks.performance.bare import bare, lagged
from bvsi.studies.benchmarks.performance.ours import assembled
from bvsi.studies.benchmarks.performance.timing import best_of, in_own_process, peak_memory_gb
from bvsi.studies.problems import fokker_planck

Array = NDArray[np.float64]
Row = dict[str, Any]

_TRUE = len(fokker_planck.TRUTH)
TIMINGS = ("iteration", "fit", "total")
"""What an exponent is given for: one iteration; the whole fit; assembly, plan, start and fit."""


@dataclass(frozen=True)
class Sweeps:
    """Sizes to measure: cells per side, with all times; frames and operators, with ``nx`` cells per side."""

    cells: tuple[int, ...] = (50, 100, 200)
    frames: tuple[int, ...] = (11, 26, 51, 101)
    operators: tuple[int, ...] = (2, 4, 6, 8, 10)
    nx: int = 100

    def settings(self) -> dict[str, list[dict[str, int]]]:
        """Arguments of :func:`measure` by what is changed."""
        return {
            "nodes": [{"nx": nx} for nx in self.cells],
            "times": [{"nx": self.nx, "frames": frames} for frames in self.frames],
            "operators": [{"nx": self.nx, "operators": d} for d in self.operators],
        }


def growth(sweeps: Sweeps, progress: Progress = silent) -> dict[str, dict[str, Any]]:
    """Rows and exponents by what is changed: nodes, times, operators; every size in a process of its own."""
    plan = sweeps.settings()
    total, done = sum(map(len, plan.values())), 0
    result: dict[str, dict[str, Any]] = {}
    for what, settings in plan.items():
        rows, failed = [], []
        for one in settings:
            progress(done, total, f"growth, {what}, {', '.join(f'{k} {v}' for k, v in one.items())}")
            try:
                rows.append(in_own_process("lagged", one))
            except BvsiError as error:  # the largest may lack memory; the others count all the same
                failed.append(str(error))
            done += 1
        result[what] = {"rows": rows, "failed": failed, "exponents": exponents(rows, what)}
    progress(total, total, "growth, done")
    return result


def exponents(rows: Sequence[Mapping[str, Any]], what: str) -> dict[str, float]:
    """Exponent of every timing in ``what``."""
    return {name: exponent([row[what] for row in rows], [row[name] for row in rows]) for name in TIMINGS}


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log(seconds) over log(size), by least squares; NaN for a single size."""
    if len(set(sizes)) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def measure(nx: int, frames: int | None = None, operators: int = _TRUE, repeats: int = 3) -> Row:
    """Assemble and fit one size; seconds are those of the quickest repeat, memory in GB.

    Parameters
    ----------
    frames
        Frames at even times, by default those of the forward solve.
    operators
        How many candidates, the true ones first.
    """
    if not 1 <= operators <= len(fokker_planck.CANDIDATES):
        raise BvsiError(f"operators: there are {len(fokker_planck.CANDIDATES)}; got {operators}.")
    case = fokker_planck.Case(nx=nx)
    data = fokker_planck.observed(case) if frames is None else with_frames(case, frames)
    library = fokker_planck.library(fokker_planck.CANDIDATES[:operators])
    assembly, system = best_of(repeats, lambda: assembled(data, library))
    planning, likelihood = best_of(repeats, lambda: residual_likelihood(system, IID(case.sigma)))
    start, vsi = best_of(repeats, lambda: LeastSquares().fit(system))
    fits = [lagged(likelihood, vsi.theta) for _ in range(repeats)]
    fitting, iteration = min(one[0] for one in fits), min(one[1] for one in fits)
    fit = fits[0][2]
    peak = peak_memory_gb()
    least = bare(likelihood, fit.theta, repeats)
    return {
        "nx": nx,
        "nodes": data.n_nodes,
        "times": len(data.times),
        "operators": operators,
        "assembly": assembly,
        "planning": planning,
        "start": start,
        "fit": fitting,
        "iterations": fit.status.iterations,
        "iteration": iteration,
        "bare_factor": least.factoring,
        "bare_solve": least.solving,
        "bare_half": least.half_solving,
        "ratio": iteration / least.seconds,
        "ratio_half": iteration / least.half,
        "total": assembly + planning + start + fitting,
        "peak_gb": peak,
    }


def with_frames(case: fokker_planck.Case, frames: int) -> Data:
    """The data of a case at so many even times; those that the forward solve lacks are interpolated before noise."""
    step = fokker_planck.N_FINE // case.nx
    solved = fokker_planck.forward_solve(fokker_planck.N_FINE, case.accurate_time).subsample(step)
    times = np.linspace(solved.times[0], solved.times[-1], frames)
    p: Array = CubicSpline(solved.times, solved.fields["p"], axis=0)(times)
    clean = Data(times=times, fields={"p": p}, geometry=solved.geometry, auxiliary={})
    return add_noise(clean, case.sigma, np.random.default_rng(case.seed))
