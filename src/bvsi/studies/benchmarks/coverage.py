"""Coverage of 95% intervals on Fokker–Planck data simulated with the identification's own discretisation."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import write_whole
from bvsi.common.progress import progress_bar
from bvsi.infer import Fit, Lagged, Profile
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, add_noise
from bvsi.studies.problems import fokker_planck

Array = NDArray[np.float64]


def main(arguments: list[str] | None = None) -> int:
    """Fit the true five operators for many noise seeds with the profile and the lagged estimator."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.coverage", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--nx", type=int, default=25, help="cells per side (default 25)")
    parser.add_argument("--seeds", type=int, default=100, help="noise seeds per level (default 100)")
    parser.add_argument("--sigmas", type=float, nargs="+", default=[1e-3, 1e-2], help="noise levels")
    options = parser.parse_args(arguments)
    results = []
    with progress_bar() as progress:
        for sigma in options.sigmas:
            z: dict[str, list[Array]] = {"profile": [], "lagged": []}
            for seed in range(options.seeds):
                for method, fit in fits(options.nx, sigma, seed).items():
                    z[method].append(scores(fit))
                progress(seed + 1, options.seeds, f"coverage at σ = {sigma:g}")
            results += [_summary(sigma, method, np.array(values)) for method, values in z.items()]
    write_whole(options.out / "coverage.json", json.dumps(results, indent=1))
    sys.stdout.write(_table(results))
    return 0


def fits(nx: int, sigma: float, seed: int) -> dict[str, Fit]:
    """Both estimators on one data set without discretisation error."""
    clean = fokker_planck.forward_solve(nx, accurate_time=False)
    system = fokker_planck.residual_system(add_noise(clean, sigma, np.random.default_rng(seed)))
    likelihood = residual_likelihood(system, IID(sigma))
    return {"profile": Profile().fit(likelihood), "lagged": Lagged(tol=1e-4).fit(likelihood)}


def scores(fit: Fit) -> Array:
    """(θ − truth)/sd."""
    assert fit.posterior is not None
    truth = np.array([fokker_planck.TRUTH[name] for name in fit.names])
    return np.asarray((fit.theta - truth) / np.sqrt(fit.posterior.variance))


def _summary(sigma: float, method: str, z: Array) -> dict[str, object]:
    return {
        "sigma": sigma,
        "method": method,
        "seeds": len(z),
        "coverage": np.mean(np.abs(z) < 1.96, axis=0).tolist(),
        "bias": z.mean(axis=0).tolist(),
        "spread": z.std(axis=0).tolist(),
    }


def _table(results: list[dict[str, object]]) -> str:
    lines = [f"order of coefficients: {', '.join(fokker_planck.TRUTH)}"]
    for row in results:
        lines.append(f"σ = {row['sigma']:g}, {row['method']}, {row['seeds']} seeds")
        for key, words in (("coverage", "95% intervals cover"), ("bias", "mean z"), ("spread", "sd of z")):
            values = row[key]
            assert isinstance(values, list)
            lines.append(f"  {words:<20}" + " ".join(f"{value:8.2f}" for value in values))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
