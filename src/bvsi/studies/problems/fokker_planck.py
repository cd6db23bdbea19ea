"""The paper's Fokker–Planck case (sec:example_FP).

    p_t = β⁻¹ ∇²p + ∇·(p∇ψ)   on [−5, 5]²,   ψ = (x−c)ᵀ W (x−c),   no flux through the boundary

Data (sec:FP_data_generation): a 400 × 400 Q1 forward solve with 50 backward-Euler steps on [0, 1], sampled to
n_x × n_x cells, Gaussian noise. ``python -m bvsi.studies.problems.fokker_planck --help`` runs the fixed-model fit.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress, progress_bar, silent
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.forward import ThetaScheme, simulate
from bvsi.infer import Fit, Lagged, LeastSquares, Profile
from bvsi.infer.priors import GaussianPrior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, add_noise
from bvsi.operators import Library, NoFlux
from bvsi.residual import ResidualSystem, assemble
from bvsi.spaces import Q1, Q2, Galerkin, Lagrange
from bvsi.studies.problems.cache import cached

Array = NDArray[np.float64]

TRUTH: dict[str, float] = {
    "laplacian(p)": 1.0,
    "div(p*grad(x))": -5.0,
    "div(p*grad(y))": -25.0,
    "div(p*grad(x**2))": 1.0,
    "div(p*grad(y**2))": 5.0,
}
"""The coefficients that generate the data (eq:FP_true_coefficients)."""

CANDIDATES: tuple[str, ...] = (
    *TRUTH,
    *(f"div(p*grad({phi}))" for phi in ("x*y", "x**3", "y**3", "x**2*y", "x*y**2")),
)
"""The ten operators of eq:FP_candidate_dictionary."""

PRIOR = GaussianPrior({"laplacian(p)": (3.08, 2.69)}, default=(0.0, 2.0))
"""The Gaussian priors of eq:FP_EM_priors."""

N_FINE = 400
N_STEPS = 50
ACCURATE_SUBSTEPS = 20
_CACHE_VERSION = 1


@dataclass(frozen=True)
class Case:
    """One data set of the study: n_x cells per side, noise level, seed, and how the time stepping was done."""

    nx: int = 50
    sigma: float = 1e-3
    seed: int = 0
    accurate_time: bool = False

    def __post_init__(self) -> None:
        if self.seed < 0 or not (np.isfinite(self.sigma) and self.sigma > 0):
            raise BvsiError(f"sigma must be positive and seed not negative; got {self.sigma} and {self.seed}.")
        if self.nx < 2 or N_FINE % self.nx:
            raise BvsiError(
                f"nx: {self.nx} does not divide the {N_FINE} cells of the forward solve; use 25, 50, 100, 200."
            )


def library(names: tuple[str, ...] = tuple(TRUTH)) -> Library:
    """Fokker–Planck operators with the Laplacian protected and no flux through the boundary."""
    return Library({"p": list(names)}, keep=["laplacian(p)"], boundary=NoFlux())


def initial_density(points: Array) -> Array:
    """N(x; (−2, −2), [[0.2, −0.3], [−0.3, 0.5]]) at points (n, 2) (eq:FP_initial_condition)."""
    covariance = np.array([[0.2, -0.3], [-0.3, 0.5]])
    offset = points - np.array([-2.0, -2.0])
    exponent = np.einsum("ni,ij,nj->n", offset, np.linalg.inv(covariance), offset)
    density: Array = np.exp(-0.5 * exponent) / (2 * np.pi * np.sqrt(np.linalg.det(covariance)))
    return density


def forward_solve(n: int, accurate_time: bool, progress: Progress = silent) -> Data:
    """Noise-free density on n × n cells at 51 times, kept on disk after the first run.

    Parameters
    ----------
    accurate_time
        Crank–Nicolson with many sub-steps per sample instead of one backward-Euler step.
    """
    axis = np.linspace(-5, 5, n + 1)
    grid = Grid(x=axis, y=axis)
    times = np.linspace(0, 1, N_STEPS + 1)

    def make() -> dict[str, Array]:
        start = np.repeat(initial_density(grid.points)[None], 2, axis=0)
        initial = Data(times=times[:2], fields={"p": start}, geometry=grid, auxiliary={})
        scheme = ThetaScheme(0.5, ACCURATE_SUBSTEPS) if accurate_time else ThetaScheme()
        return {"p": simulate(library(), TRUTH, initial, times, scheme=scheme, progress=progress).fields["p"]}

    settings = {
        "version": _CACHE_VERSION,
        "n": n,
        "accurate_time": accurate_time,
        "substeps": ACCURATE_SUBSTEPS,
        "steps": N_STEPS,
    }
    p = cached("fokker-planck", settings, make, keys=["p"])["p"]
    return Data(times=times, fields={"p": p}, geometry=grid, auxiliary={})


def observed(case: Case, progress: Progress = silent) -> Data:
    """The data of a case: forward solve, sampled, with noise."""
    clean = forward_solve(N_FINE, case.accurate_time, progress).subsample(N_FINE // case.nx)
    return add_noise(clean, case.sigma, np.random.default_rng(case.seed))


def error(fit: Fit) -> float:
    """‖θ − θ_GT‖ over the union of true and fitted operators."""
    found = dict(zip(fit.names, fit.theta, strict=True))
    return float(np.linalg.norm([found.get(name, 0.0) - TRUTH.get(name, 0.0) for name in {*found, *TRUTH}]))


def residual_system(data: Data, element: Lagrange | None = None) -> ResidualSystem:
    """Residuals of the true five operators."""
    return assemble(data, library(), discretisation=Galerkin(element))


def fit_true_model(case: Case, element: Lagrange | None = None, progress: Progress = silent) -> dict[str, Fit]:
    """VSI, lagged-covariance and profile fits of the true five operators; the lagged one with the paper's prior."""
    system = residual_system(observed(case, progress), element)
    likelihood = residual_likelihood(system, IID(case.sigma))
    return {
        "vsi": LeastSquares().fit(system),
        "lagged": Lagged().fit(likelihood, prior=PRIOR, progress=progress),
        "profile": Profile().fit(likelihood, progress=progress),
    }


def summary(fits: dict[str, Fit]) -> dict[str, dict[str, object]]:
    """The fits as JSON values."""
    result: dict[str, dict[str, object]] = {}
    for method, fit in fits.items():
        entry: dict[str, object] = {
            "theta": dict(zip(fit.names, fit.theta.tolist(), strict=True)),
            "error": error(fit),
        }
        if fit.posterior is not None:
            entry["variance"] = dict(zip(fit.names, fit.posterior.variance.tolist(), strict=True))
            entry["chi2"] = fit.chi2
            entry["converged"] = fit.status.converged
        result[method] = entry
    return result


def main(arguments: list[str] | None = None) -> int:
    """Command line: fit the true five operators and print the result."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.problems.fokker_planck", description=main.__doc__)
    parser.add_argument("--nx", type=int, default=50, help="cells per side: 25, 50, 100, 200 or 400 (default 50)")
    parser.add_argument("--sigma", type=float, default=1e-3, help="standard deviation of the noise (default 1e-3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default 0)")
    parser.add_argument("--element", choices=("Q1", "Q2"), default="Q1", help="element on the given nodes (default Q1)")
    parser.add_argument("--accurate-time", action="store_true", help="data solved accurately in time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        case = Case(options.nx, options.sigma, options.seed, options.accurate_time)
        with progress_bar() as progress:
            fits = fit_true_model(case, {"Q1": Q1, "Q2": Q2}[options.element], progress)
    except BvsiError as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 2
    text = (
        json.dumps(summary(fits))
        if options.json
        else "\n\n".join(f"{f}\n  error {error(f):.4f}" for f in fits.values())
    )
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
