"""Coverage of 95% intervals where weights are those of tiles, and the covariance is summed over some nodes and times.

    python -m bvsi.studies.tiles --seeds 50 --seed 0

Every case is cut into about four tiles, with the operators of the true equation and the noise as it is measured. With
``--thin`` covariances are thinned as those of large data are, however few the values.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import write_whole
from bvsi.common.progress import progress_bar
from bvsi.data import Data
from bvsi.discovery.method import choose_method
from bvsi.infer import Profile
from bvsi.likelihood import Tiles, residual_likelihood
from bvsi.noise import add_noise
from bvsi.noise.measurement import measure_all
from bvsi.operators import Library
from bvsi.residual import assemble
from bvsi.residual.thinning import THINNING
from bvsi.studies.problems.classics import burgers, fokker_planck_2d, kuramoto_sivashinsky, reaction_diffusion_2d

Array = NDArray[np.float64]

# Tiles of a case, about.
_TILES = 4


@dataclass(frozen=True, eq=False)
class TilesCase:
    """Noise-free data, the true coefficients by equation and operator, and the share of noise."""

    data: Callable[[], Data]
    truth: Mapping[str, float]
    level: float = 0.05

    @property
    def library(self) -> Library:
        """The true operators."""
        equations: dict[str, list[str]] = {}
        for name in self.truth:
            field, _, text = name.rpartition(": ")
            equations.setdefault(field or self.data().names[0], []).append(text)
        return Library(equations)


CASES: Mapping[str, TilesCase] = {
    "burgers": TilesCase(burgers.CASE.data, burgers.CASE.truth),
    "ks": TilesCase(lambda: kuramoto_sivashinsky.simulate(256, 101, 40.0), kuramoto_sivashinsky.CASE.truth),
    "fokker-planck": TilesCase(fokker_planck_2d.CASE.data, fokker_planck_2d.CASE.truth),
    "lambda-omega": TilesCase(reaction_diffusion_2d.CASE.data, reaction_diffusion_2d.CASE.truth),
}


def main(arguments: list[str] | None = None) -> int:
    """Fit the true operators with tiles for many seeds of the noise."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.tiles", description=main.__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], help="cases (default: all)")
    parser.add_argument("--seeds", type=int, default=50, help="seeds of the noise (default 50)")
    parser.add_argument("--seed", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument(
        "--shared", type=float, default=None, help="part that tiles share (default: 1/3 on lines, else 0)"
    )
    parser.add_argument("--thin", action="store_true", help="sum covariances over some of the nodes and times")
    parser.add_argument("--out", type=Path, default=None, help="file for the results")
    options = parser.parse_args(arguments)
    results = []
    with progress_bar() as progress:
        for name in options.cases or CASES:
            z = []
            for number in range(options.seeds):
                z.append(scores(CASES[name], options.seed + number, shared=options.shared, thin=options.thin))
                progress(number + 1, options.seeds, name)
            results.append({"case": name, "seed": options.seed, "thin": options.thin, **summary(np.array(z))})
            sys.stdout.write(_row(results[-1]))
    if options.out is not None:
        write_whole(options.out, json.dumps(results, indent=1))
    return 0


def scores(case: TilesCase, seed: int, *, shared: float | None = None, thin: bool = False) -> Array:
    """(θ − truth)/sd of one data set, and χ²/n at the end."""
    clean = case.data()
    sigma = {field: case.level * float(np.sqrt(np.mean(u**2))) for field, u in clean.fields.items()}
    measured = measure_all([add_noise(clean, sigma, np.random.default_rng(seed))], None, robust=None)
    setup = choose_method(measured, case.library).setup
    system = assemble(
        setup.data,
        setup.library,
        discretisation=setup.tests,
        stencil=setup.stencil,
        variance=setup.variance,
        thin=replace(THINNING, values=0) if thin else None,
    )
    part = (1 / 3 if clean.geometry.dim == 1 else 0.0) if shared is None else shared
    likelihood = residual_likelihood(system, setup.noise, Tiles(system.n / _TILES, part))
    fit = Profile().fit(likelihood)
    assert fit.posterior is not None
    truth = np.array([case.truth[name] for name in fit.names])
    z = (fit.theta - truth) / np.sqrt(fit.posterior.variance)
    return np.append(z, fit.equations.q / fit.equations.n)


def summary(z: Array) -> dict[str, object]:
    """Of scores with χ²/n in the last column, (seeds, d + 1)."""
    own = z[:, :-1]
    return {
        "seeds": len(z),
        "coverage": float(np.mean(np.abs(own) < 1.96)),
        "by coefficient": np.mean(np.abs(own) < 1.96, axis=0).tolist(),
        "bias": own.mean(axis=0).tolist(),
        "spread": own.std(axis=0).tolist(),
        "chi2": float(z[:, -1].mean()),
    }


def _row(result: Mapping[str, object]) -> str:
    bias, spread = (np.asarray(result[key]) for key in ("bias", "spread"))
    return (
        f"{result['case']}, {result['seeds']} seeds: 95% intervals cover {result['coverage']:.3f}, "
        f"mean z {np.round(bias, 2).tolist()}, sd of z {np.round(spread, 2).tolist()}, χ²/n {result['chi2']:.4f}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
