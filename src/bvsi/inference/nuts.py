"""Hamiltonian Monte Carlo by the no-U-turn sampler of nutpie, an optional dependency.

Chains run in coordinates w in which the approximate posterior is N(0, I) and constraints cannot be violated; they get
the exact log-density and gradient of the target.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.constraints import AnyConstraints
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.inference.fit import Fit, Status
from bvsi.inference.gaussian_prior import AnyPrior
from bvsi.inference.objective import Objective, ProfileDensity, check_objective
from bvsi.inference.sampling import Problem, prepare, sampled_fit
from bvsi.likelihood import ResidualLikelihood
from bvsi.linalg import single_threaded_blas, usable_cores
from bvsi.posteriors import ChainPosterior
from bvsi.priors import InverseGammaPrior
from bvsi.progress import Progress, silent

Array = NDArray[np.float64]

_R_HAT = 1.01
_LEAST_ESS = 100.0
# Share of steps that may diverge: next to a wall a few do, without harm.
_DIVERGING = 0.01


@dataclass(frozen=True)
class NUTS:
    """Markov chains for any prior and objective; the reference for other methods.

    draws: per chain, after ``tune`` more that adapt the step; chains: how many. objective: ℓ; by default the
    calibrated profile, the paper's is ``ResidualDensity()``.
    """

    draws: int = 500
    tune: int = 300
    chains: int = 4
    objective: Objective = field(default_factory=ProfileDensity)

    def __post_init__(self) -> None:
        for name in ("draws", "tune", "chains"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < (4 if name == "draws" else 1):
                usual = type(self).__dataclass_fields__[name].default
                raise BvsiError(f"{name}: a whole number is needed, such as {usual}; got {value!r}.")
        check_objective(self.objective)

    def fit(
        self,
        likelihood: ResidualLikelihood,
        *,
        prior: AnyPrior = None,
        constraints: AnyConstraints = None,
        noise_prior: InverseGammaPrior | None = None,
        start: Fit | None = None,
        rng: np.random.Generator | None = None,
        progress: Progress = silent,
    ) -> Fit:
        """Sample the target; arguments as for :meth:`SVGD.fit`."""
        nutpie = _nutpie()
        rng = np.random.default_rng(0) if rng is None else rng
        problem = prepare(
            likelihood,
            self.objective,
            prior=prior,
            constraints=constraints,
            noise_prior=noise_prior,
            start=start,
            rng=rng,
            progress=progress,
        )
        posterior = self._sampled(nutpie, problem, rng, progress)
        r_hat, ess = np.nanmax(posterior.r_hat), np.nanmin(posterior.ess_bulk)
        agree = f"chains agree: R̂ ≤ {r_hat:.3f}, at least {ess:.0f} effective draws."
        if posterior.divergences:
            agree += f" {posterior.divergences} steps diverged, which is few."
        told = posterior.warnings
        status = Status(not told, self.chains * (self.draws + self.tune), " ".join(told) or agree)
        return sampled_fit(problem, posterior, status, f"NUTS, {self.chains} × {self.draws} draws")

    def _sampled(self, nutpie: Any, problem: Problem, rng: np.random.Generator, progress: Progress) -> ChainPosterior:
        model = _model(nutpie, problem, progress)
        with single_threaded_blas(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nutpie's own dependencies
            try:
                trace = nutpie.sample(
                    model,
                    draws=self.draws,
                    tune=self.tune,
                    chains=self.chains,
                    cores=usable_cores(),
                    seed=int(rng.integers(2**31)),
                    progress_bar=False,
                    save_warmup=False,
                )
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                raise BvsiError(
                    f"NUTS: the sampler could not start or go on ({reason}); is there room between the constraints?"
                ) from None
        w = np.asarray(trace.posterior["w"].values, dtype=np.float64)
        stats = trace.sample_stats
        draws = problem.coordinates.theta(w)
        log_density = np.asarray(stats["logp"].values, dtype=np.float64)
        diverging = np.asarray(stats["diverging"].values, dtype=bool)
        chains = ChainPosterior(problem.likelihood.names, draws, log_density, diverging)
        return replace(chains, warnings=_doubts(chains))


def _model(nutpie: Any, problem: Problem, progress: Progress) -> Any:
    """The target in the form that nutpie wants: functions that make functions, one for every chain."""
    n, evaluations = problem.coordinates.n, itertools.count(1)

    def make_log_density() -> Callable[[Array], tuple[float, Array]]:
        def log_density(w: Array) -> tuple[float, Array]:
            term = problem.density(w)
            progress(next(evaluations), None, "NUTS, gradients")
            return term.value, term.gradient

        return log_density

    def make_expand(*_: object) -> Callable[[Array], dict[str, Array]]:
        return lambda w: {"w": w}

    return nutpie.compiled_pyfunc.from_pyfunc(
        ndim=n,
        make_logp_fn=make_log_density,
        make_expand_fn=make_expand,
        expanded_dtypes=[np.dtype(np.float64)],
        expanded_shapes=[(n,)],
        expanded_names=["w"],
        make_initial_point_fn=lambda seed: problem.start(1, np.random.default_rng(seed))[0],
    )


def _doubts(chains: ChainPosterior) -> tuple[str, ...]:
    """What speaks against trusting the chains."""
    told = []
    if not np.nanmax(chains.r_hat) < _R_HAT:
        told.append(f"The chains have not mixed: R̂ is up to {np.nanmax(chains.r_hat):.3f}; raise tune and draws.")
    least = np.nanmin([chains.ess_bulk, chains.ess_tail])
    if not least >= _LEAST_ESS:
        told.append(f"Only {least:.0f} effective draws; raise draws.")
    if chains.divergences > _DIVERGING * chains.draws.shape[0] * chains.draws.shape[1]:
        told.append(
            f"{chains.divergences} steps diverged: the density has walls or corners that the sampler cannot follow, so "
            "that parts of the posterior may be missing; raise tune, use smoother priors, or have fewer constraints "
            "than coefficients."
        )
    return tuple(told)


def sampler_available() -> bool:
    """Whether nutpie is installed."""
    return importlib.util.find_spec("nutpie") is not None


def _nutpie() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nutpie's own dependencies
            importlib.import_module("nutpie.compiled_pyfunc")
            return importlib.import_module("nutpie")
    except ImportError:
        raise MissingDependencyError("NUTS() needs the sampler nutpie: pip install 'bvsi[mcmc]'.") from None
