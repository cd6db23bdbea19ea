"""Hamiltonian Monte Carlo by the no-U-turn sampler of nutpie, an optional dependency.

Chains run in coordinates w in which the approximate posterior is N(0, I) and constraints cannot be violated; they get
the exact log-density and gradient of the target.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bvsi.common.arrays import Array, Mask, Rng
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.infer.constraints import AnyConstraints
from bvsi.infer.fit import Fit, Reason, Status
from bvsi.infer.lagged import AnyPrior
from bvsi.infer.objective import Objective, ProfileDensity, check_objective, settled
from bvsi.infer.posteriors import ChainPosterior
from bvsi.infer.priors import InverseGammaPrior
from bvsi.infer.sampling import SamplingProblem, prepare, sampled_fit, started
from bvsi.likelihood import ResidualLikelihood

# Largest R̂ of chains that have mixed: the bound that Vehtari et al. (2021) recommend.
_R_HAT = 1.01
# Effective draws below which means and quantiles are not to be trusted: one tenth of a standard deviation of error.
_LEAST_ESS = 100.0
# Share of steps that may diverge: next to a wall a few do, without harm.
_DIVERGING = 0.01


@dataclass(frozen=True)
class NUTS:
    """Markov chains for any prior and objective; the reference for other methods.

    Parameters
    ----------
    draws
        Draws per chain, after ``tune`` more that adapt the step.
    chains
        How many.
    objective
        ℓ; by default the calibrated profile, the paper's is ``ResidualDensity()``.
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
        rng: Rng | None = None,
        progress: Progress = silent,
    ) -> Fit:
        """Sample the target; arguments as for :meth:`SVGD.fit`."""
        with _quiet():
            _nutpie()  # refuses before anything is computed
        rng = np.random.default_rng(0) if rng is None else rng
        objective = settled(self.objective, likelihood)
        target, begin = started(likelihood, objective, prior, constraints, noise_prior, start, progress)
        problem = prepare(target, begin, rng)
        chain = _Chain(self, objective, noise_prior or InverseGammaPrior(), problem, progress)
        posterior = self._sampled(chain, likelihood, rng)
        r_hat, ess = np.nanmax(posterior.r_hat), np.nanmin(posterior.ess_bulk)
        agree = f"chains agree: R̂ ≤ {r_hat:.3f}, at least {ess:.0f} effective draws."
        if posterior.divergences:
            agree += f" {posterior.divergences} steps diverged, which is few."
        notes = posterior.warnings
        reasons = frozenset({Reason.SAMPLING}) if notes else frozenset()
        status = Status(not notes, self.chains * (self.draws + self.tune), " ".join(notes) or agree, reasons)
        return sampled_fit(likelihood, posterior, status, f"NUTS, {self.chains} × {self.draws} draws")

    def sample(
        self, problem: SamplingProblem, names: Sequence[str], *, rng: Rng, progress: Progress = silent
    ) -> ChainPosterior:
        """Chains of any target, one after the other: of the first of its unknowns, one for each name.

        Parameters
        ----------
        problem
            Its target has a value and a gradient by all unknowns.
        """
        chain = _Chain(self, self.objective, InverseGammaPrior(), problem, progress)
        with _quiet():
            _nutpie()
            found = [chain.drawn(problem, seed) for seed in self._seeds(rng)]
        return _gathered(found, problem, tuple(names))

    def _seeds(self, rng: Rng) -> list[int]:
        return [int(seed) for seed in rng.integers(2**31, size=self.chains)]

    def _sampled(self, chain: _Chain, likelihood: ResidualLikelihood, rng: Rng) -> ChainPosterior:
        """Chains side by side, each with a seed of its own."""
        with _quiet():  # here and not in the threads, since filters of warnings belong to all of them
            found = list(likelihood.each(chain, self._seeds(rng), threads=True))
        return _gathered(found, chain.problem, likelihood.names)


def _gathered(
    found: Sequence[tuple[Array, Array, Mask]], problem: SamplingProblem, names: tuple[str, ...]
) -> ChainPosterior:
    """Draws of all chains, with what speaks against trusting them."""
    w, log_density, diverging = (np.stack(arrays) for arrays in zip(*found, strict=True))
    chains = ChainPosterior(names, problem.coordinates.theta(w)[..., : len(names)], log_density, diverging)
    return replace(chains, warnings=_doubts(chains))


@dataclass(frozen=True, eq=False)
class _Chain:
    """One chain for a seed; the likelihood that the target is bound to may be on another machine.

    Attributes
    ----------
    objective
        One that is settled.
    progress
        Stays behind when a chain travels.
    """

    settings: NUTS
    objective: Objective
    noise_prior: InverseGammaPrior
    problem: SamplingProblem
    progress: Progress

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "progress": silent}

    def __call__(self, likelihood: ResidualLikelihood, seed: int) -> tuple[Array, Array, Mask]:
        """Draws w (draws, n), their log-density (draws,), and where steps diverged (draws,)."""
        bound = self.objective.bind(likelihood, self.noise_prior)
        return self.drawn(replace(self.problem, target=replace(self.problem.target, log_likelihood=bound)), seed)

    def drawn(self, problem: SamplingProblem, seed: int) -> tuple[Array, Array, Mask]:
        """The same of a target that is bound to its data."""
        trace = self._trace(problem, seed)
        w = np.asarray(trace.posterior["w"].values, dtype=np.float64)
        log_density = np.asarray(trace.sample_stats["logp"].values, dtype=np.float64)
        diverging = np.asarray(trace.sample_stats["diverging"].values, dtype=bool)
        return w[0], log_density[0], diverging[0]

    def _trace(self, problem: SamplingProblem, seed: int) -> Any:
        nutpie = _nutpie()
        model = _model(nutpie, problem, self.progress)
        try:
            return nutpie.sample(
                model,
                draws=self.settings.draws,
                tune=self.settings.tune,
                chains=1,
                cores=1,
                seed=seed,
                progress_bar=False,
                save_warmup=False,
            )
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise BvsiError(
                f"NUTS: the sampler could not start or continue ({reason}); is there room between the constraints?"
            ) from None


def _model(nutpie: Any, problem: SamplingProblem, progress: Progress) -> Any:
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
    notes = []
    if not np.nanmax(chains.r_hat) < _R_HAT:
        notes.append(f"The chains have not mixed: R̂ is up to {np.nanmax(chains.r_hat):.3f}; raise tune and draws.")
    least = np.nanmin([chains.ess_bulk, chains.ess_tail])
    if not least >= _LEAST_ESS:
        notes.append(f"Only {least:.0f} effective draws; raise draws.")
    if chains.divergences > _DIVERGING * chains.draws.shape[0] * chains.draws.shape[1]:
        notes.append(
            f"{chains.divergences} steps diverged: the density has walls or corners that the sampler cannot follow, so "
            "that parts of the posterior may be missing; raise tune, use smoother priors, or have fewer constraints "
            "than coefficients."
        )
    return tuple(notes)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of nutpie's own dependencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sampler_available() -> bool:
    """Whether nutpie is installed."""
    return importlib.util.find_spec("nutpie") is not None


def _nutpie() -> Any:
    try:
        importlib.import_module("nutpie.compiled_pyfunc")
        return importlib.import_module("nutpie")
    except ImportError:
        raise MissingDependencyError("NUTS() needs the sampler nutpie: pip install 'bvsi[mcmc]'.") from None
