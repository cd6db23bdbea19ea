"""Closed-form elimination against refitting every leave-one-out model, side by side in one run."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from bvsi.app.files import write_whole
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.residual import assemble
from bvsi.select import Backward, Criterion, ProfileBIC, ResidualBIC, Wald
from bvsi.spaces import Q2, Galerkin
from bvsi.studies.problems import fokker_planck

_LINE = (
    "{criterion}: {closed:.1f} s with {closed_fits} fits; every candidate refitted {refit:.1f} s with {refit_fits} "
    "fits; ratio {ratio:.1f}; same path: {same}\n"
)


def main(arguments: list[str] | None = None) -> int:
    """Eliminate from the ten operators of the paper's case both ways, for each criterion."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.elimination", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--sigma", type=float, default=1e-3, help="noise level (default 1e-3)")
    options = parser.parse_args(arguments)
    rows = []
    for criterion in (Wald(), ProfileBIC(), ResidualBIC()):
        rows.append(measure(criterion, options.sigma))
        sys.stdout.write(_LINE.format(**rows[-1]))
    write_whole(options.out / "elimination.json", json.dumps(rows, indent=1))
    return 0


def measure(criterion: Criterion, sigma: float) -> dict[str, object]:
    """Seconds and numbers of fits of both ways, and whether they took the same path."""
    library = fokker_planck.library(fokker_planck.CANDIDATES)
    data = fokker_planck.observed(fokker_planck.Case(sigma=sigma))
    likelihood = residual_likelihood(assemble(data, library, discretisation=Galerkin(Q2)), IID(sigma))
    likelihood.normal_equations([0.0] * len(library))  # compile and load before the clock starts
    begin = time.perf_counter()
    closed = Backward(criterion).select(likelihood, keep=library.keep)
    middle = time.perf_counter()
    refit = Backward(criterion, refit_all=True).select(likelihood, keep=library.keep)
    end = time.perf_counter()
    return {
        "criterion": criterion.name,
        "closed": middle - begin,
        "closed_fits": closed.fits,
        "refit": end - middle,
        "refit_fits": refit.fits,
        "ratio": (end - middle) / (middle - begin),
        "same": [v.changed for v in closed.visited] == [v.changed for v in refit.visited],
    }


if __name__ == "__main__":
    raise SystemExit(main())
