"""How near estimates come to the Cramér–Rao bound: Fokker–Planck data without discretisation error.

    bound_i = ([(X_0ᵀ W X_0)⁻¹]_ii)^½,   W = Σ(θ*)⁻¹ with all blocks,   X_0 without noise

which is the information on θ after the unknown initial state is eliminated. Spread of the profile estimate about the
truth over noise seeds, with Stacked() and with Block() weighting. Jacobians are constant, so that Σ(θ*) is the same for
all seeds: one factor gives the Gauss–Newton step from the truth for all of them,

    θ* + H⁻¹ X̃ᵀWr(θ*)

and a few seeds run the estimator itself, which shows that the step is as good.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import write_whole
from bvsi.common.progress import Progress, progress_bar, silent
from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.infer import Profile
from bvsi.infer.quadratic import sandwich
from bvsi.likelihood import residual_likelihood
from bvsi.likelihood.products import Whole
from bvsi.likelihood.stacked import Stacked, StackedPlan
from bvsi.noise import IID, add_noise
from bvsi.residual import ResidualSystem
from bvsi.studies.problems import fokker_planck

Array = NDArray[np.float64]

TRUTH = np.array(list(fokker_planck.TRUTH.values()))
# One factor serves all seeds, so that it may be large.
_MAX_MEMORY = 8e9


@dataclass(frozen=True, eq=False)
class Efficiency:
    """Estimates of m seeds, (m, d) each.

    Attributes
    ----------
    bound
        Standard deviations (d,).
    step
        Gauss–Newton from the truth, stacked.
    block
        Profile estimates, block.
    fits
        Profile estimates, stacked, of the first seeds.
    seconds
        Seconds of the parts of the study.
    sandwich, inverse
        Standard deviations (d,) that block weighting states at the truth, by A⁻¹SA⁻¹ and by H⁻¹, which leaves out the
        correlation between blocks.
    """

    bound: Array
    sandwich: Array
    inverse: Array
    step: Array
    block: Array
    fits: Array
    seconds: dict[str, float]

    def ratio(self, estimates: Array) -> Array:
        """Root mean square distance from the truth, in units of the bound, (d,)."""
        return np.asarray(spread(estimates) / self.bound)

    @property
    def apart(self) -> float:
        """Largest distance between step and estimator, in units of the bound."""
        return float(np.abs((self.fits - self.step[: len(self.fits)]) / self.bound).max(initial=0.0))


def main(arguments: list[str] | None = None) -> int:
    """Spread of stacked and block profile estimates of the true five operators, against the Cramér–Rao bound."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.efficiency", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--nx", type=int, default=50, help="cells per side (default 50)")
    parser.add_argument("--sigma", type=float, default=1e-3, help="standard deviation of the noise (default 1e-3)")
    parser.add_argument("--seeds", type=int, default=20, help="noise seeds (default 20)")
    parser.add_argument("--fits", type=int, default=3, help="seeds on which the stacked estimator runs (default 3)")
    options = parser.parse_args(arguments)
    try:
        with progress_bar() as progress:
            found = study(options.nx, options.sigma, options.seeds, options.fits, progress)
    except BvsiError as problem:
        parser.error(str(problem))
    write_whole(options.out / "efficiency.json", json.dumps(summary(found, options.nx, options.sigma), indent=1))
    sys.stdout.write(table(found, options.nx, options.sigma))
    return 0


def study(nx: int, sigma: float, seeds: int, fits: int, progress: Progress = silent) -> Efficiency:
    """All estimates; ``fits`` of the seeds also with the stacked estimator itself."""
    if seeds < 1 or not 0 <= fits <= seeds:
        raise BvsiError(f"seeds: at least 1 is needed, and at most as many fits; got {seeds} and {fits}.")
    if nx < 2 or not (np.isfinite(sigma) and sigma > 0):
        raise BvsiError(f"nx: at least 2 is needed, and sigma positive; got {nx} and {sigma}.")
    clean = fokker_planck.forward_solve(nx, accurate_time=False, progress=progress)
    clock = _Clock()
    whole = factorised(clean, sigma)
    bound = np.sqrt(np.diag(np.linalg.inv(whole.profile_equations().equations.H)))
    sandwich_sd, inverse = stated_by_blocks(clean, sigma)
    clock.lap("factor and bound")
    step, block, full = [], [], []
    for seed in range(seeds):
        system = noisy(clean, sigma, seed)
        step.append(one_step(whole, system))
        clock.lap("steps")
        block.append(Profile().fit(residual_likelihood(system, IID(sigma))).theta)
        clock.lap("block fits")
        if seed < fits:
            full.append(Profile().fit(residual_likelihood(system, IID(sigma), Stacked()), start=block[-1]).theta)
            clock.lap("stacked fits")
        progress(seed + 1, seeds, "efficiency")
    full_array = np.array(full).reshape(-1, len(TRUTH))
    return Efficiency(bound, sandwich_sd, inverse, np.array(step), np.array(block), full_array, clock.seconds)


def stated_by_blocks(clean: Data, sigma: float) -> tuple[Array, Array]:
    """Standard deviations (d,) of block weighting at the truth, noise-free data: by the sandwich, and by H⁻¹."""
    likelihood = residual_likelihood(fokker_planck.residual_system(clean), IID(sigma))
    profile = likelihood.profile_equations(TRUTH, rng=np.random.default_rng(0))
    assert profile.S is not None
    inverse = np.asarray(np.linalg.inv(profile.equations.H), dtype=np.float64)
    return np.sqrt(np.diag(sandwich(inverse, profile.S))), np.sqrt(np.diag(inverse))


def noisy(clean: Data, sigma: float, seed: int) -> ResidualSystem:
    """Residuals of one noisy data set."""
    return fokker_planck.residual_system(add_noise(clean, sigma, np.random.default_rng(seed)))


def factorised(clean: Data, sigma: float) -> Whole:
    """Σ(θ*) of all residuals, with those of the noise-free data."""
    likelihood = residual_likelihood(fokker_planck.residual_system(clean), IID(sigma), Stacked(max_memory=_MAX_MEMORY))
    plan = likelihood.parts[0].covariance
    assert isinstance(plan, StackedPlan)
    return plan.whole(likelihood.parts[0], TRUTH)


def one_step(whole: Whole, system: ResidualSystem) -> Array:
    """θ* + H⁻¹g, (d,)."""
    equations = replace(whole, Z=system.experiments[0].Z).profile_equations().equations
    return np.asarray(TRUTH + np.linalg.solve(equations.H, equations.g))


def spread(estimates: Array) -> Array:
    """Root mean square distance of estimates (m, d) from the truth, (d,)."""
    return np.asarray(np.sqrt(np.mean((estimates - TRUTH) ** 2, axis=0)))


def summary(found: Efficiency, nx: int, sigma: float) -> dict[str, object]:
    """The study as JSON values."""
    return {
        "nx": nx,
        "sigma": sigma,
        "seeds": len(found.step),
        "fits": len(found.fits),
        "names": list(fokker_planck.TRUTH),
        "bound": found.bound.tolist(),
        "stacked": spread(found.step).tolist(),
        "block": spread(found.block).tolist(),
        "stacked_ratio": found.ratio(found.step).tolist(),
        "block_ratio": found.ratio(found.block).tolist(),
        "block_sandwich": found.sandwich.tolist(),
        "block_inverse": found.inverse.tolist(),
        "estimator_ratio": found.ratio(found.fits).tolist() if len(found.fits) else [],
        "estimator_from_step": found.apart,
        "seconds": found.seconds,
    }


def table(found: Efficiency, nx: int, sigma: float) -> str:
    """The study for people."""
    m = len(found.step)
    lines = [
        f"Fokker–Planck, {nx} × {nx} cells, σ = {sigma:g}, {m} seeds; spread about the truth, known to "
        f"{100 / np.sqrt(2 * m):.0f}%",
        "stacked: one Gauss–Newton step from the truth; block: the estimator itself",
        f"{'':<20}{'bound':>10}{'stacked':>10}{'ratio':>7}{'block':>10}{'ratio':>7}",
    ]
    columns = (found.bound, spread(found.step), found.ratio(found.step), spread(found.block), found.ratio(found.block))
    for name, bound, stacked, near, block, far in zip(fokker_planck.TRUTH, *columns, strict=True):
        lines.append(f"{name:<20}{bound:>10.2e}{stacked:>10.2e}{near:>7.2f}{block:>10.2e}{far:>7.2f}")
    stacked, block = (np.sqrt(np.mean(found.ratio(e) ** 2)) for e in (found.step, found.block))
    lines.append(f"{'all':<20}{'':>20}{stacked:>7.2f}{'':>10}{block:>7.2f}")
    for words, stated in (("sandwich", found.sandwich), ("H⁻¹ alone", found.inverse)):
        ratios = " ".join(f"{ratio:.2f}" for ratio in stated / found.bound)
        lines.append(f"sd that block weighting states, in units of the bound, {words}: {ratios}")
    if len(found.fits):
        ratios = " ".join(f"{ratio:.2f}" for ratio in found.ratio(found.fits))
        lines.append(
            f"the stacked estimator itself, {len(found.fits)} seeds: {ratios}, within {found.apart:.2g} sd of the step"
        )
    lines.append("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in found.seconds.items()))
    return "\n".join(lines) + "\n"


class _Clock:
    """Seconds by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """Count the time since the last lap to a part."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now


if __name__ == "__main__":
    raise SystemExit(main())
