"""How often the default selection finds exactly the true sixteen operators on Cahn–Hilliard data, and how well."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bvsi.app.files import write_whole
from bvsi.common.progress import progress_bar
from bvsi.discovery import Method, discover
from bvsi.noise import IID
from bvsi.spaces import Galerkin
from bvsi.studies.problems import cahn_hilliard
from bvsi.studies.problems.cahn_hilliard import TRUTH, CahnHilliardCase, DataSet
from bvsi.studies.problems.free_energy import FIELDS
from bvsi.studies.reproduce.cahn_hilliard import derivative_errors


def main(arguments: list[str] | None = None) -> int:
    """Discover from thirty operators for many noise seeds and initial states, and count."""
    parser = argparse.ArgumentParser(
        prog="python -m bvsi.studies.benchmarks.cahn_hilliard_study", description=main.__doc__
    )
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--data", choices=list(DataSet), default="neumann", help="data set (default neumann)")
    parser.add_argument("--nx", type=int, nargs="+", default=[20, 25], help="elements per side (default 20 25)")
    parser.add_argument("--sigmas", type=float, nargs="+", default=[1e-3], help="noise levels (default 1e-3)")
    parser.add_argument("--seeds", type=int, default=10, help="noise seeds (default 10)")
    parser.add_argument("--initials", type=int, default=2, help="initial states (default 2)")
    options = parser.parse_args(arguments)
    cases = [
        CahnHilliardCase(DataSet(options.data), nx, sigma, seed, initial)
        for nx in options.nx
        for sigma in options.sigmas
        for initial in range(options.initials)
        for seed in range(options.seeds)
    ]
    rows = []
    with progress_bar() as progress:
        for case in cases:
            rows.append(measure(case))
            progress(len(rows), len(cases), f"study, {case.nx} × {case.nx}, σ = {case.sigma:g}")
    write_whole(options.out / f"cahn_hilliard_{options.data}.json", json.dumps(rows, indent=1))
    for key in dict.fromkeys((row["nx"], row["sigma"], row["initial"]) for row in rows):
        sys.stdout.write(line([row for row in rows if (row["nx"], row["sigma"], row["initial"]) == key]) + "\n")
    return 0


def measure(case: CahnHilliardCase) -> dict[str, Any]:
    """One discovery at default settings, with the element, stencil and treatment of ∇⁴ that suit the data."""
    data = cahn_hilliard.observed(case)
    library = cahn_hilliard.library(case.treatment)
    method = Method(tests=Galerkin(case.element), stencil=case.stencil)
    found = discover(data, library, noise=IID(case.sigma), method=method, check=False)
    theta = dict(zip(found.names, found.theta.tolist(), strict=True))
    return {
        **vars(case),
        "selected": list(found.names),
        "exact": set(found.names) == set(TRUTH),
        "decided": found.path.decided,
        "error": cahn_hilliard.error(theta),
        "lambda": [found.coefficient(f"{f}: biharmonic({f})") for f in FIELDS],
        "mahalanobis": cahn_hilliard.mahalanobis(found.posterior),
        "chi2": found.chi2,
        "mse": list(derivative_errors(theta).values()),
        "seconds": found.seconds,
    }


def line(rows: list[dict[str, Any]]) -> str:
    """One line for the runs of one size, noise level and initial state."""
    first, exact = rows[0], [row for row in rows if row["exact"]]
    head = f"{first['nx']} × {first['nx']}, σ = {first['sigma']:g}, initial {first['initial']}: "
    head += f"exactly 16 in {len(exact)} of {len(rows)}, decided in {sum(row['decided'] for row in rows)}"
    if not exact:
        return head
    worst = max(abs(value + 1) for row in exact for value in row["lambda"])
    distance = np.mean([row["mahalanobis"] for row in exact])
    chi2 = [row["chi2"] for row in exact]
    mse = max(value for row in exact for value in row["mse"])
    return (
        f"{head}; error ≤ {max(row['error'] for row in exact):.4f}, |λ + 1| ≤ {worst:.4f}, Mahalanobis {distance:.2f}, "
        f"χ²/n {min(chi2):.3f}–{max(chi2):.3f}, MSE ≤ {mse:.1e}, {np.mean([row['seconds'] for row in rows]):.0f} s"
    )


if __name__ == "__main__":
    raise SystemExit(main())
