"""How often the default selection finds exactly the true operators on the paper's Fokker–Planck data."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from bvsi.app.files import write_whole
from bvsi.common.progress import progress_bar
from bvsi.discovery import Discovery, Method, discover
from bvsi.noise import IID
from bvsi.residual import BackwardEuler
from bvsi.studies.problems import fokker_planck


def main(arguments: list[str] | None = None) -> int:
    """Discover from ten operators for many noise seeds, and count."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.selection_study", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--seeds", type=int, default=20, help="noise seeds per level (default 20)")
    parser.add_argument("--sigmas", type=float, nargs="+", default=[1e-3, 1e-4], help="noise levels")
    options = parser.parse_args(arguments)
    rows = []
    total = len(options.sigmas) * options.seeds
    with progress_bar() as progress:
        for sigma in options.sigmas:
            for seed in range(options.seeds):
                rows.append(measure(sigma, seed))
                progress(len(rows), total, f"selection study, σ = {sigma:g}")
    write_whole(options.out / "selection_study.json", json.dumps(rows, indent=1))
    for sigma in options.sigmas:
        here = [row for row in rows if row["sigma"] == sigma]
        exact = sum(bool(row["exact"]) for row in here)
        errors = [float(str(row["error"])) for row in here]
        sys.stdout.write(
            f"σ = {sigma:g}: exactly the true five in {exact} of {len(here)}; "
            f"error {min(errors):.4f} to {max(errors):.4f}, median {np.median(errors):.4f}\n"
        )
    return 0


def measure(sigma: float, seed: int) -> dict[str, object]:
    """One discovery at default settings (the paper's time stencil)."""
    data = fokker_planck.observed(fokker_planck.Case(sigma=sigma, seed=seed))
    library = fokker_planck.library(fokker_planck.CANDIDATES)
    found = discover(data, library, noise=IID(sigma), method=Method(stencil=BackwardEuler()), check=False)
    return {
        "sigma": sigma,
        "seed": seed,
        "selected": list(found.names),
        "exact": set(found.names) == set(fokker_planck.TRUTH),
        "error": _error(found),
        "chi2": found.chi2,
        "seconds": found.seconds,
    }


def _error(found: Discovery) -> float:
    truth = fokker_planck.TRUTH
    return float(np.linalg.norm([found.coefficient(name) - truth.get(name, 0.0) for name in found.candidates]))


if __name__ == "__main__":
    raise SystemExit(main())
