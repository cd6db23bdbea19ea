"""Time and memory of the five-term lagged fit on the paper's Fokker–Planck data, n_x = 50 … 400.

Each size runs in a process of its own, so that its peak memory is its own. The ratio compares one lagged iteration
(covariance, factorisation, weighted normal equations, update) with the bare linear algebra on the same matrix in the
same process: one factorisation and one solve with as many right-hand sides as the iteration has columns, K (d + 1).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bvsi.inference import Lagged, LeastSquares
from bvsi.likelihood import IID, ResidualLikelihood, residual_likelihood
from bvsi.problems import fokker_planck

SIZES = (50, 100, 200, 400)
Row = dict[str, float]
T = TypeVar("T")


def main(arguments: list[str] | None = None) -> int:
    """Run all sizes, print the table, write JSON and a figure."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.benchmarks.lagged_scaling", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="cells per side")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        sys.stdout.write(json.dumps(measure(options.one)) + "\n")
        return 0
    fokker_planck.forward_solve(fokker_planck.N_FINE, accurate_time=False)  # once, outside the measured processes
    rows = []
    for nx in options.sizes:
        sys.stderr.write(f"n_x = {nx} …\n")
        rows.append(_in_own_process(nx))
    exponent = growth_exponent(rows)
    result = {"rows": rows, "exponent": exponent}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "lagged_scaling.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    _draw(rows, options.out / "lagged_scaling.png")
    sys.stdout.write(_table(rows, exponent))
    return 0


def measure(nx: int) -> Row:
    """Assemble and fit one size; times in seconds, memory in GB."""
    _warm_up()
    case = fokker_planck.Case(nx=nx)
    data = fokker_planck.observed(case)
    assembly, system = _timed(lambda: fokker_planck.residual_system(data))
    planning, likelihood = _timed(lambda: residual_likelihood(system, IID(case.sigma)))
    start, vsi = _timed(lambda: LeastSquares().fit(system))
    fitting, fit = _timed(lambda: Lagged().fit(likelihood, start=vsi.theta))
    peak = peak_memory_gb()
    factoring, solving = _bare(likelihood, fit.theta)
    iteration = fitting / fit.status.iterations
    return {
        "nx": nx,
        "nodes": system.experiments[0].structure.n_rows,
        "assembly": assembly,
        "planning": planning,
        "start": start,
        "fit": fitting,
        "iterations": fit.status.iterations,
        "iteration": iteration,
        "bare_factor": factoring,
        "bare_solve": solving,
        "ratio": iteration / (factoring + solving),
        "total": assembly + planning + start + fitting,
        "peak_gb": peak,
    }


def peak_memory_gb() -> float:
    """Peak memory of this process; Linux's VmHWM where there is one, since ru_maxrss may be that of the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return float(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def growth_exponent(rows: list[Row]) -> float:
    """Slope of log(total time) over log(nodes), by least squares."""
    nodes = np.log([row["nodes"] for row in rows])
    total = np.log([row["total"] for row in rows])
    return float(np.polyfit(nodes, total, 1)[0]) if len(rows) > 1 else float("nan")


def _bare(likelihood: ResidualLikelihood, theta: NDArray[np.float64]) -> tuple[float, float]:
    plan, residuals = likelihood.plans[0], likelihood.system.experiments[0]
    assert plan is not None
    values = plan.block(residuals, theta, 0)
    factoring = min(_timed(lambda: plan.analysis.factor(values))[0] for _ in range(3))
    factor = plan.analysis.factor(values)
    columns = residuals.Z.reshape(len(residuals.Z), -1)
    return factoring, min(_timed(lambda: factor.solve(columns))[0] for _ in range(2))


def _warm_up() -> None:
    """Compile and load everything once on a small case."""
    data = fokker_planck.observed(fokker_planck.Case(nx=20))
    likelihood = residual_likelihood(fokker_planck.residual_system(data), IID(1e-3))
    _bare(likelihood, Lagged(max_iterations=2).fit(likelihood).theta)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def _in_own_process(nx: int) -> Row:
    command = [sys.executable, "-m", "bvsi.benchmarks.lagged_scaling", "--one", str(nx)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    row: Row = json.loads(done.stdout)
    return row


def _table(rows: list[Row], exponent: float) -> str:
    columns = {
        "nx": ".0f",
        "nodes": ".0f",
        "assembly": ".3f",
        "planning": ".3f",
        "fit": ".3f",
        "iterations": ".0f",
        "iteration": ".3f",
        "bare_factor": ".3f",
        "bare_solve": ".3f",
        "ratio": ".2f",
        "peak_gb": ".2f",
    }
    head = "".join(f"{name:>12}" for name in columns)
    body = "".join("".join(f"{row[name]:>12{spec}}" for name, spec in columns.items()) + "\n" for row in rows)
    return f"{head}\n{body}growth exponent of the total time in the number of nodes: {exponent:.2f}\n"


def _draw(rows: list[Row], path: Path) -> None:
    from matplotlib.figure import Figure

    from bvsi.plot.style import BLUE, ORANGE

    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    nodes = [row["nodes"] for row in rows]
    ax.loglog(nodes, [row["iteration"] for row in rows], "o-", color=BLUE, label="one lagged iteration")
    bare = [row["bare_factor"] + row["bare_solve"] for row in rows]
    ax.loglog(nodes, bare, "s--", color=ORANGE, label="bare factorisation and solve")
    ax.set(xlabel="nodes", ylabel="seconds")
    ax.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    raise SystemExit(main())
