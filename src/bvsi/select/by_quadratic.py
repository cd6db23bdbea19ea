"""Selection on a quadratic misfit: models are proposed on it, fitted, and the misfit is expanded again at the fit.

    Q(θ) ≈ q − 2 gᵀ(θ−θ_0) + (θ−θ_0)ᵀ A (θ−θ_0)

gives every sub-model of the library from one evaluation of all operators. Both searches continue until the models that
it proposes are no better than the one at which it was expanded.

:class:`Sweep` comes from above: it fits the whole library and eliminates operators on its quadratic misfit.

:class:`BestSubset` comes from below. Its first candidates come from moment equations, which are unbiased for any
weights, with the weights of the roughest operators. It then expands the misfit around the best of the models fitted,
where it uses moment equations once more if noise does not explain the misfit. The whole library is never fitted, so
that candidates in which noise rules do no harm.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.common.arrays import Array, Rng
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.infer import Fit, Profile
from bvsi.infer.fit import CHI2_FACTOR, OPEN, SEEN, around, misfit_excess
from bvsi.infer.quadratic import Minimum, Model, NoiseRatio, Quadratic, carried_over
from bvsi.infer.starts import balance
from bvsi.likelihood import ResidualLikelihood
from bvsi.select.by_fits import all_gone
from bvsi.select.criterion import ExtendedBIC, ProfileBIC, QuadraticCriterion, SubsetCriterion, Wald, check_criterion
from bvsi.select.path import SelectionPath, Visited
from bvsi.select.search import (
    BESIDE,
    ODDS,
    Effort,
    Ladder,
    Models,
    Protection,
    Rival,
    alike_text,
    best_models,
    best_without,
    compared_models,
    doubts,
    left_out,
    multiples,
    near_models,
    rival,
    rivals_text,
    walk,
)

#: Estimator, names and start of a fit, and the generator of its draws.
Task = tuple[Profile, list[str], Array | None, Rng]

# A difference of scores beyond any doubt: odds of e^100, and a probability that is one in double precision.
_SETTLED = 200.0
# Moments with weights of their own before a fit, at most: two bring Hindmarsh–Rose with 20% of noise from χ²/n = 40 to
# 2, from where the fit converges; without them 2 of 8 trajectories ended on a plateau with χ²/n = 11.
_REWEIGHTED = 4
# Factors on the coefficients of the first weights. With one, the roughest operator has as much noise as the time terms;
# where the true one has more, noise seems to hide it. Of five frames of diffusion between walls (one draw) the share of
# noise in ∂²u was 1.1, 0.08 and 0.01; of 12 draws with five and six frames 3 were right with the first one alone, all
# with the others.
_STRONGER = (1.0, 10.0, 100.0)
# Models of one size that a lost search looks at, equation by equation: all pairs of 200 operators. Of 378 candidates of
# the nonlinear Schrödinger equation at 50% noise (seed 331912) the three true ones of each equation were found so; with
# 600 models, which are fewer than the pairs, not.
_PAIRS = 20_000
# Standard deviations to which a pilot fits its models: their misfits are then known to a hundredth, and all residuals
# move the estimate by far more.
_PILOT = 0.1


@dataclass(frozen=True)
class Sweep:
    """Backward elimination with a fit of the whole library and of what is selected, and none in between.

    Parameters
    ----------
    criterion
        What to minimise, Wald or ProfileBIC; by default Wald.
    rounds
        Refits at most, where the check selects another model.
    patience
        Further steps after the criterion has begun to rise (the lowest model met is selected).
    """

    criterion: QuadraticCriterion = Wald()  # noqa: RUF009 (frozen)
    rounds: int = 4
    patience: int = 1

    def __post_init__(self) -> None:
        check_criterion(self.criterion, self.patience)
        if not hasattr(self.criterion, "change"):
            raise BvsiError(
                f"criterion: {self.criterion.name} does not follow from the quadratic model of the misfit; use "
                f"Backward({type(self.criterion).__name__}()), or Sweep with Wald() or ProfileBIC()."
            )
        if self.rounds < 1:
            raise BvsiError(f"rounds: at least 1 is needed; got {self.rounds}.")

    def select(
        self,
        likelihood: ResidualLikelihood,
        *,
        keep: Iterable[str] = (),
        groups: Sequence[Iterable[str]] = (),
        rng: Rng | None = None,
        progress: Progress = silent,
    ) -> SelectionPath:
        """Eliminate operators from the model with all of them.

        Parameters
        ----------
        keep
            Operators that stay.
        groups
            Sets of operators of which one must stay.
        rng
            For the draw of noise that each expansion takes (default: seed 0, as in every fit).
        """
        search = _Sweeping(self, likelihood, Protection.of(likelihood.names, keep, groups), _given(rng))
        fitted = [search.whole()]
        while True:
            current = fitted[-1]
            progress(len(fitted), self.rounds + 1, f"selecting, {len(current.fit.names)} operators")
            sweep = search.sweep(current.quadratic)
            if sweep.best.names == current.fit.names:
                return search.settled(fitted, sweep)
            if len(fitted) > self.rounds:
                return search.unsettled(fitted, f"after {len(fitted) - 1} refits")
            if any(sweep.best.names == other.fit.names for other in fitted):
                return search.unsettled(fitted, "and came back to an earlier model")
            fitted.append(search.refit(sweep, fitted[0]))


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A model that was fitted, its score, the misfit of all operators there, and the sweep that proposed it."""

    fit: Fit
    score: float
    quadratic: Quadratic
    sweep: SelectionPath | None


@dataclass(frozen=True, eq=False)
class _Sweeping:
    settings: Sweep
    likelihood: ResidualLikelihood
    protection: Protection
    rng: Rng

    def whole(self) -> _Fitted:
        """All operators."""
        criterion, likelihood = self.settings.criterion, self.likelihood
        fit = criterion.fit(likelihood, None)
        return _Fitted(fit, criterion.score(likelihood, fit), quadratic_of(fit), None)

    def refit(self, sweep: SelectionPath, whole: _Fitted) -> _Fitted:
        """The model that a sweep selects, with its own covariance."""
        criterion, model = self.settings.criterion, self.likelihood.restrict(sweep.best.names)
        fit = criterion.fit(model, sweep.best.theta)
        quadratic = carried_over(whole.quadratic, around(self.likelihood, fit, self.rng, spread=True))
        return _Fitted(fit, criterion.score(model, fit), quadratic, sweep)

    def sweep(self, quadratic: Quadratic) -> SelectionPath:
        """Eliminate on the quadratic misfit alone; scores count from zero."""
        names, criterion, protection = self.likelihood.names, self.settings.criterion, self.protection
        first = _predicted(names, quadratic.minimum(names), 0.0, None, {})

        def step(current: Visited, free: list[str]) -> Visited:
            change = dict(zip(current.names, criterion.change(quadratic.minimum(current.names)), strict=True))
            scores = {name: current.score + float(change[name]) for name in free}
            removed = min(scores, key=lambda name: scores[name])
            left = tuple(name for name in current.names if name != removed)
            return _predicted(left, quadratic.minimum(left), scores[removed], removed, scores)

        ended = all_gone(protection)
        visited, stopped = walk(first, protection.removable, step, self.settings.patience, ended=ended)
        return SelectionPath(visited, criterion.name, stopped)

    def settled(self, fitted: list[_Fitted], sweep: SelectionPath) -> SelectionPath:
        """The last model fitted, which the sweep made there selects again; unless one before it has a lower score."""
        last = fitted[-1]
        if any(other.score < last.score for other in fitted):
            return self.unsettled(fitted, "on the model with the lowest criterion")
        refits = len(fitted) - 1
        checked = f"The check settled after {refits} refit{'' if refits == 1 else 's'}."
        return self._path(fitted[0], replace(last, sweep=sweep), f"{sweep.stopped} {checked}")

    def unsettled(self, fitted: list[_Fitted], how: str) -> SelectionPath:
        """The fitted model with the lowest score, or the least to gain by one operator more or less."""
        if self.settings.criterion.absolute:
            chosen, why = min(fitted, key=lambda f: f.score), "it has the lowest criterion of those fitted"
        else:
            gains = [self._gain(f) for f in fitted]
            at = min(range(len(fitted)), key=lambda i: gains[i])
            chosen = fitted[at]
            why = f"it has the least to gain from adding or dropping operators ({gains[at]:.4g}) of those fitted"
        return self._path(fitted[0], chosen, f"stopped: the check did not settle {how}; this model is kept: {why}.")

    def _gain(self, fitted: _Fitted) -> float:
        """Σ_i max(0, −Δ_i) over operators that may go, plus Σ_j max(0, Δ_j) over those added one by one.

        Δ: change of the criterion by a removal. Zero for a model from which no single operator should go or is missing;
        the size counts, not only the number, since an operator that is needed outweighs some that are not.
        """
        names, everything, change = fitted.fit.names, self.likelihood.names, self.settings.criterion.change
        dropping = dict(zip(names, change(fitted.quadratic.minimum(names)), strict=True))
        gain = sum(max(0.0, -dropping[name]) for name in self.protection.removable(names))
        for added in set(everything) - set(names):
            larger = tuple(name for name in everything if name in names or name == added)
            gain += max(0.0, change(fitted.quadratic.minimum(larger))[larger.index(added)])
        return float(gain)

    def _path(self, whole: _Fitted, chosen: _Fitted, stopped: str) -> SelectionPath:
        """All operators, then the models of the sweep that selects the chosen one, their scores tied to its own."""
        for what, fit in {"the whole library": whole.fit, "the selected model": chosen.fit}.items():
            if not fit.status.converged:
                stopped += f" The estimate of {what}: {fit.status.message}"
        visited = [Visited.of(whole.fit, whole.score, None, {}, frozenset())]
        if chosen.sweep is not None:
            best = chosen.sweep.best
            offset = chosen.score - best.score if self.settings.criterion.absolute else 0.0
            for v in chosen.sweep.visited[1:]:
                candidates = {name: score + offset for name, score in v.candidates.items()}
                if v is best:
                    refitted = frozenset(name for name in (v.changed,) if name is not None)
                    visited.append(Visited.of(chosen.fit, v.score + offset, v.changed, candidates, refitted))
                else:
                    visited.append(replace(v, score=v.score + offset, candidates=candidates))
        # the misfit at the selected model, unless that at all operators says that neither is to be trusted
        trusted = chosen.quadratic if not whole.quadratic.swamped else whole.quadratic
        notes = doubts(trusted, chosen.fit.names, self.protection)
        price, rises = math.log(chosen.quadratic.n), self._rises(chosen)
        model = tuple(self.likelihood.names.index(name) for name in chosen.fit.names)
        compared = compared_models(model, rises, chosen.quadratic)
        name = self.settings.criterion.name
        return SelectionPath(tuple(visited), name, stopped, notes, compared=compared, price=price)

    def _rises(self, chosen: _Fitted) -> dict[Model, float]:
        """By how much profile BIC of models near a fitted one is above its own, all on the same misfit."""
        quadratic, names = chosen.quadratic, self.likelihood.names
        best = tuple(names.index(name) for name in chosen.fit.names)
        (Q,) = quadratic.solve([best], most_noise=1.0)[1]
        score = ProfileBIC().values(Q, len(best), quadratic)

        def rise(Q: Array, size: int) -> Array:
            return np.asarray(ProfileBIC().values(Q, size, quadratic) - score)

        far = 2 * math.log(BESIDE)
        near = near_models(best, Models(names, self.protection), quadratic, lambda Q, size: rise(Q, size) < far)
        return {model: float(rise(np.array(Q), len(model))) for model, Q in near.items()}


@dataclass(frozen=True)
class BestSubset:
    """Selection from below; it works where noise swamps the full library.

    Parameters
    ----------
    rounds
        Times that the search continues from a better model, at most.
    draws
        Draws of noise, for the moment equations.
    estimator
        Fits the candidates.
    criterion
        What to minimise, ExtendedBIC or ProfileBIC.
    fitted, tried
        Models of one proposal that are fitted with success, and tried, at most.
    near
        How far above the lowest score of a proposal these may lie, in parts of n.
    gain
        A predicted gain that is worth a fit.
    misfit
        Standard deviations of χ²/n above one that noise does not explain.
    by_equation
        Models of one size and equation that are all looked at, the other equations held. It finds operators that stand
        in for one another only together, as monomials on a short trajectory do; 0 leaves it out.
    larger
        Sizes beyond the selected one on the path. The last six bound the effort; they are not measured one by one.
    compared
        Whether the best model is compared with its rivals; if not, the path has nothing else.
    """

    rounds: int = 6
    draws: int = 4
    estimator: Profile = Profile(tol=1e-3, max_iterations=15)  # noqa: RUF009 (frozen, as the next)
    criterion: SubsetCriterion = ExtendedBIC()  # noqa: RUF009
    fitted: int = field(default=3, repr=False)
    tried: int = field(default=5, repr=False)
    near: float = field(default=0.5, repr=False)
    gain: float = field(default=0.5, repr=False)
    misfit: float = field(default=2.0, repr=False)
    larger: int = field(default=3, repr=False)
    by_equation: int = 0
    compared: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.draws < 1:
            raise BvsiError(f"rounds and draws: at least 1 each; got {self.rounds} and {self.draws}.")
        if isinstance(self.criterion, type) or not hasattr(self.criterion, "values"):
            raise BvsiError(f"criterion: BestSubset takes ExtendedBIC() or ProfileBIC(), not {self.criterion!r}.")

    def select(
        self,
        likelihood: ResidualLikelihood,
        *,
        keep: Iterable[str] = (),
        groups: Sequence[Iterable[str]] = (),
        rng: Rng | None = None,
        progress: Progress = silent,
    ) -> SelectionPath:
        """The operators that the data support.

        Parameters
        ----------
        keep
            Operators that stay.
        groups
            Sets of operators of which one must stay.
        rng
            For the draws of noise that moments and expansions take (default: seed 0, as in every fit).
        """
        search = _Subsets(self, likelihood, Protection.of(likelihood.names, keep, groups), _given(rng))
        best, quadratic, ladder, why = search.found(progress)
        if self.compared:
            return search.path(best, quadratic, ladder, why)
        score, fit = search.fits[best]
        return SelectionPath((Visited.of(fit, score, None, {}, frozenset()),), self.criterion.name, why)


class _Subsets:
    """What the search has met: models fitted, with their scores."""

    def __init__(
        self,
        settings: BestSubset,
        likelihood: ResidualLikelihood,
        protection: Protection,
        rng: Rng,
        *,
        pilot: bool = False,
    ) -> None:
        self.settings, self.likelihood, self.protection, self.rng = settings, likelihood, protection, rng
        self.is_pilot = pilot  # its model is judged again, on all residuals
        self.effort = Effort(by_equation=settings.by_equation)
        self.fits: dict[Model, tuple[float, Fit]] = {}
        self.few = likelihood.pilot(settings.estimator.starts.pilot)
        self.price = 0.0  # of an operator
        self._seen: dict[Model, float] = {}
        self._rises: dict[Model, float] = {}  # of scores of models beside the best one, above its own

    @property
    def best(self) -> Model:
        """The fitted model with the lowest score, of those that see the time terms and have no weak operators."""
        ordered = sorted(self.fits, key=lambda model: self.fits[model][0])
        fine = (m for m in ordered if self._smaller(m) is None and not self._blind(m))
        return next(fine, ordered[0]) if len(ordered) > 1 else ordered[0]

    def _blind(self, model: Model) -> bool:
        """Whether the noise of its own operators hides from a model what it should explain, the time terms.

        The signal that its weights see is compared with that of the weights of no operator at all, on a pilot where
        there is one: a ratio of sums over many residuals is about the same on some of them.
        """
        if not self.likelihood.evolves:
            return False
        if model not in self._seen:
            fit = self.fits[model][1]
            own, scale = (self.few or self.likelihood).restrict(fit.names), self.likelihood.noise_scale(fit.equations)
            self._seen[model] = own.time_signal(fit.theta, copy.deepcopy(self.rng), scale)
            if () not in self._seen:
                self._seen[()] = own.time_signal(np.zeros(own.d), copy.deepcopy(self.rng), scale)
        return self._seen[model] < SEEN * self._seen[()]

    def _smaller(self, model: Model) -> Model | None:
        """The model without its weakest operator, where z² of that is less than its price; None where none is.

        Where noise makes up much of the operators Q(θ) is far from a parabola: one that carries much noise makes Σ
        larger, and Q smaller by far more than z².
        """
        fit, names = self.fits[model][1], self.likelihood.names
        free = self.protection.removable(fit.names)
        if not free or fit.posterior is None:
            return None
        squares = dict(zip(fit.names, fit.theta**2 / fit.posterior.variance, strict=True))
        weakest = min(free, key=lambda name: squares[name])
        return tuple(i for i in model if names[i] != weakest) if squares[weakest] < self.price else None

    def settle(self) -> None:
        """Drop what is not supported, one operator after the other, from the model with the lowest score."""
        if not self.fits:
            return
        model = min(self.fits, key=lambda model: self.fits[model][0])
        while (smaller := self._smaller(model)) is not None:
            if smaller not in self.fits:
                left = [self.likelihood.names[i] for i in smaller]
                start = quadratic_of(self.fits[model][1]).minimum(left).theta
                if self._fit_alone(left, start) is None:
                    return
            model = smaller

    def found(self, progress: Progress = silent) -> tuple[Model, Quadratic, Ladder, str]:
        """The selected model, the misfit around it, the best models by size there, and why the search ended."""
        likelihood, settings = self.likelihood, self.settings
        self.begin()
        if not self.fits:
            for moments in self._first_moments():
                self._fit(self.proposed(moments, np.inf)[1], moments, settings.fitted)
                self.settle()
            if self._lost and not settings.by_equation:
                self._begin_apart(Effort(exhaustive=_PAIRS))
                self.settle()
        if not self.fits and self.protection.keep:
            self.fit_kept()
        if not self.fits:
            raise BvsiError(
                "selection: noise makes up more than half of every operator, or no model could be fitted; use fewer "
                "candidates, wider test functions, or more data."
            )
        for number in range(settings.rounds):
            best = self.best
            quadratic = around(likelihood, self.fits[best][1], self.rng)
            progress(number + 1, settings.rounds, f"selecting, {len(best)} operators")
            ladder, models = self.proposed(quadratic, self.fits[best][0] - settings.gain)
            self._fit(models, quadratic, settings.fitted)
            self.settle()
            if self.best == best and number == 0 and self.misfits(best):  # other candidates, seen from good weights
                moments = self.moments(quadratic.theta)
                self._fit(self.proposed(moments, np.inf)[1], moments, settings.fitted)
                self.settle()
            if self.best == best:  # what a smaller or larger best model hides
                self.refit_rivals(best, quadratic)
            if self.best == best:
                return best, quadratic, ladder, "no model near it is better."
        quadratic = around(likelihood, self.fits[self.best][1], self.rng)
        ladder = best_models(quadratic, settings.criterion, self.protection, effort=self.effort)
        return self.best, quadratic, ladder, "the search was cut off; more rounds may find a better one."

    def _first_moments(self) -> Iterator[Quadratic]:
        """Moments with the first weights, and stronger ones while noise hides operators and no fit explains all."""
        weights = balance(self.likelihood, copy.deepcopy(self.rng))
        for stronger in _STRONGER:
            moments = by_moments(self.likelihood, stronger * weights, self.rng, self.settings.draws)
            yield moments
            explained = self.fits and not (self.likelihood.scale_known and all(map(self.misfits, self.fits)))
            if explained or not moments.swamped:
                return

    def begin(self) -> None:
        """Fit the model that a pilot found, which searched some of the tiles, where there is one.

        Or that of the best models of the equations, each looked for by itself.
        """
        if self.few is None:
            if self.settings.by_equation:
                self._begin_apart(Effort(exhaustive=self.settings.by_equation))
            return
        roughly = replace(self.settings.estimator, tol=max(self.settings.estimator.tol, _PILOT))
        settings = replace(self.settings, estimator=roughly)
        pilot = _Subsets(settings, self.few, self.protection, copy.deepcopy(self.rng), pilot=True)
        try:
            fit = pilot.fits[pilot.found()[0]][1]
        except BvsiError:  # what is wrong with some tiles need not be wrong with all
            return
        self._fit_alone(fit.names, fit.theta)

    @property
    def _lost(self) -> bool:
        """Whether all models so far have misfits so large that what is beside them says little."""
        q = [fit.equations.q for _, fit in self.fits.values()]
        return bool(q) and self.likelihood.scale_known and min(q) > CHI2_FACTOR * self.likelihood.n

    def _begin_apart(self, effort: Effort) -> None:
        """Fit the best models of the equations together, each found among its own residuals by their noise ratio.

        Nothing where noise swamps all models of one of them.
        """
        theta, found = np.zeros(self.likelihood.d), list[int]()
        for own, alone in self.likelihood.apart():
            weights = balance(alone, copy.deepcopy(self.rng))
            quadratic = noise_ratio(alone, weights, self.rng, self.settings.draws)
            ladder = best_models(quadratic, self.settings.criterion, self.protection, ("broad",), effort)
            if not ladder:
                return
            best = min(ladder.values())[1]
            here = [own[i] for i in best]
            theta[here], found = quadratic.solve([best])[0][0], [*found, *here]
        if found:
            self._fit([tuple(sorted(found))], self.moments(theta))

    def fit_kept(self) -> None:
        """Fit the operators that stay from the estimator's own starts: no moments have to distinguish them.

        However much of them is noise: what that leaves is said by error bars and by the verdict.
        """
        model = tuple(i for i, name in enumerate(self.likelihood.names) if name in self.protection.keep)
        try:
            fit = self.settings.estimator.fit(self.likelihood.restrict([self.likelihood.names[i] for i in model]))
        except (RankError, NotPositiveDefiniteError):
            return
        quadratic = around(self.likelihood, fit, self.rng)
        self.fits[model] = (self._score(fit.equations.q, len(fit.names), quadratic), fit)

    def _fit_alone(self, names: Sequence[str], start: Array | None) -> Model | None:
        """Fit a model where no misfit of all operators is available; None where that fails."""
        fit = fit_candidate(self.likelihood, (self.settings.estimator, list(names), start, self.rng))
        if fit is None:
            return None
        model = tuple(self.likelihood.names.index(name) for name in names)
        self._enter({model: fit}, replace(quadratic_of(fit), names=self.likelihood.names))
        return model

    def misfits(self, model: Model) -> bool:
        """Whether noise does not explain the misfit of a model, so that it may be far from the truth."""
        equations = self.fits[model][1].equations
        chi2, sds = equations.q / equations.n, self.settings.misfit
        return not self.likelihood.scale_known or misfit_excess(chi2, equations.n, sds=sds, least=0.0)

    def moments(self, weights: Array) -> Quadratic:
        """The misfit of noise-free data with the weights at given coefficients."""
        return by_moments(self.likelihood, weights, self.rng, self.settings.draws)

    def proposed(self, quadratic: Quadratic, bound: float) -> tuple[Ladder, list[Model]]:
        """The best models on a quadratic misfit, and those that promise a score below the bound, in order."""
        ladder = best_models(quadratic, self.settings.criterion, self.protection, effort=self.effort)
        lowest = min(ladder.values(), default=(np.inf, ()))[0]
        limit = min(bound, lowest + self.settings.near * quadratic.n)
        near = [(score, model) for score, model in ladder.values() if score < limit]
        if not near:
            return ladder, []
        small = min(near, key=lambda one: len(one[1]))  # with poor weights the lowest has too many operators
        return ladder, [model for _, model in dict.fromkeys([small, *sorted(near)[: self.settings.tried]])]

    def _fit(self, models: Sequence[Model], quadratic: Quadratic, enough: int = 1) -> None:
        """Fit models from their minima on a quadratic misfit until enough of them are; those that fail are left out.

        A pilot fits them one by one, up to the first that noise explains: the misfit around that one shows the rest.
        """
        explained = False
        while models and enough > 0 and not explained:
            some = 1 if self.is_pilot else enough
            batch, models = models[:some], models[some:]
            new, fits = [model for model in batch if model not in self.fits], dict[Model, Fit]()
            found = self.likelihood.each(fit_candidate, [self._task(model, quadratic) for model in new])
            for model, fit in zip(new, found, strict=True):
                fits |= {} if fit is None else {model: fit}
            self._enter(fits, quadratic)
            fitted = [model for model in batch if model in self.fits]
            enough, explained = enough - len(fitted), self.is_pilot and not all(map(self.misfits, fitted))

    def _enter(self, fits: Mapping[Model, Fit], quadratic: Quadratic) -> None:
        """Models that were fitted, with their scores."""
        self.price = self._score(quadratic.n, 1, quadratic) - self._score(quadratic.n, 0, quadratic)
        for model, fit in fits.items():
            self.fits[model] = (self._score(fit.equations.q, len(model), quadratic), fit)

    def _task(self, model: Model, quadratic: Quadratic) -> Task:
        start = quadratic.solve([model])[0][0]
        return self.settings.estimator, [self.likelihood.names[i] for i in model], start, self.rng

    def _score(self, q: float, size: int, quadratic: Quadratic) -> float:
        return float(self.settings.criterion.values(np.array(q), size, quadratic))

    def path(self, best: Model, quadratic: Quadratic, ladder: Ladder, why: str) -> SelectionPath:
        """The best models by size around the chosen one; scores of those that were not fitted are predicted."""
        score, fit = self.fits[best]
        level = quadratic.n * quadratic.scale(fit.equations.q)  # of an unknown noise, what the selected model leaves
        shown = {size: entry for size, entry in ladder.items() if size <= len(best) + self.settings.larger}
        shown[len(best)] = (score, best)
        visited, before = [], set[str]()
        for _, (_, model) in sorted(shown.items()):
            theta, Q = (one[0] for one in quadratic.solve([model]))
            J = self.fits[model][0] if model in self.fits else self._score(Q, len(model), quadratic)
            if score > J:
                continue  # promised more than a fit could hold, as those that noise swamps do
            names = tuple(self.likelihood.names[i] for i in model)
            changed = " + ".join(name for name in names if name not in before) or None
            before = set(names)
            if model == best:
                refitted = frozenset(() if changed is None else (changed,))
                visited.append(Visited.of(fit, score, changed, {}, refitted))
            else:
                visited.append(Visited(names, J, theta, float(Q) / level, changed, {}, frozenset()))
        status = "" if fit.status.converged else f" The estimate: {fit.status.message}"
        unsupported = [model for model, (other, _) in self.fits.items() if other < score and model != best]
        if unsupported:
            reason = "operators within their error bars, or noise that explains noise"
            status += f" Models that were fitted and have a lower score: {len(unsupported)}; they have {reason}."
        more = self._one_more(best, quadratic)
        left = left_out(best, quadratic, self.protection, more)
        rivals = self._rivals(best, quadratic, more, left)
        alike = self._alike(best, quadratic)
        texts = (rivals_text(rivals), alike_text(alike), self._static(best, quadratic))
        notes, stopped = " ".join(text for text in texts if text), f"stopped: {why}{status}"
        margins = {**self._margins(best, quadratic), **left}
        margins |= {name: 0.0 for name, own in alike.items() if own not in self.protection.keep}
        self._blind(best)
        seen = self._seen[best] / self._seen[()] if self._seen.get((), 0.0) > 0 else None
        compared = compared_models(best, self._rises, quadratic)
        name = self.settings.criterion.name
        return SelectionPath(tuple(visited), name, stopped, notes, margins, seen, compared, self.price)

    def _margins(self, best: Model, quadratic: Quadratic) -> dict[str, float]:
        """How much higher the score of the best model without an operator is, by operator, all at the same weights.

        No model without it has a lower misfit than the one with all others: where that settles it, none is looked for.
        """
        criterion, protection = self.settings.criterion, self.protection
        score = self._score(quadratic.solve([best])[1][0], len(best), quadratic)
        lowest, margins = np.maximum(quadratic.without_each(tuple(range(len(quadratic.names)))), 0.0), {}
        for i in (i for i in best if quadratic.names[i] not in protection.keep):
            margin = self._score(lowest[i], 1, quadratic) - score
            if margin < _SETTLED:
                without = best_without(i, best, quadratic, criterion, protection, self.settings.larger)
                margin = self._margin(best, sorted(without.values()), score, quadratic)
            margins[quadratic.names[i]] = margin
        return margins

    def _margin(self, best: Model, others: list[tuple[float, Model]], score: float, quadratic: Quadratic) -> float:
        """The lowest margin of other models.

        Some that would leave the choice open are fitted: far from the expansion a predicted score may be much too low.
        Not where the best model itself is poor.
        """
        equations = self.fits[best][1].equations
        hopeless = self.likelihood.scale_known and misfit_excess(equations.q / equations.n, equations.n)
        lowest, left = np.inf, 0 if hopeless else self.settings.fitted
        for predicted, model in others:
            margin = predicted - score
            if margin < 2 * math.log(ODDS) and left:
                left -= 1
                self._fit([model], quadratic)
                known = model in self.fits and self._smaller(model) is None and not self._blind(model)
                margin = self.fits[model][0] - self.fits[best][0] if known else np.inf
            if model in self.fits or len(model) <= len(best) + 1:
                self._rises[model] = margin
            lowest = min(lowest, margin)
        return lowest

    def _static(self, best: Model, quadratic: Quadratic) -> str:
        """Whether one operator explains the data no better than none."""
        if len(best) > 1 or self.protection.keep:
            return ""
        try:
            still = self.likelihood.profile_equations(np.zeros(self.likelihood.d)).equations.q
        except NotPositiveDefiniteError:  # a known source on the left side, which has no noise, is not nothing
            return ""
        if self._score(still, 0, quadratic) > self.fits[best][0]:
            return ""
        return "A model without any operator explains the data as well: perhaps nothing changes in them."

    def _one_more(self, best: Model, quadratic: Quadratic) -> dict[str, float]:
        """How much higher the score of the best model with an operator more is, by its score test, by operator.

        Where noise makes up much of an operator, predictions and fits of Q fall by more than the evidence for it.
        """
        Q, k = float(quadratic.solve([best], most_noise=1.0)[1][0]), len(best)
        squares, own = quadratic.score_tests(best)[0], self._score(Q, k, quadratic)
        others, falls = [i for i in range(len(quadratic.names)) if i not in best], squares * quadratic.scale(Q)
        return {quadratic.names[i]: self._score(max(Q - falls[i], 0.0), k + 1, quadratic) - own for i in others}

    def _rivals(
        self, best: Model, quadratic: Quadratic, more: Mapping[str, float], left: Mapping[str, float]
    ) -> tuple[Rival, ...]:
        """Models next to the best one that are nearly as good; not those with operators within their error bars.

        Parameters
        ----------
        more, left
            Scores with an operator more above that of the best model, and margins of operators that are left out.
        """
        names, score = quadratic.names, self.fits[best][0]
        rivals = [rival((), (name,), margin) for name, margin in left.items()]
        self._rises |= {tuple(sorted((*best, names.index(name)))): margin for name, margin in more.items()}
        for model, J in self._near(best, quadratic).items():
            lacks = tuple(names[i] for i in best if i not in model)
            if not lacks or (model in self.fits and (self._smaller(model) is not None or self._blind(model))):
                continue
            self._rises[model] = J - score
            rivals.append(rival(lacks, tuple(names[i] for i in model if i not in best), J - score))
        close = (one for one in rivals if one is not None and one.odds < OPEN)
        return tuple(sorted(close, key=lambda one: one.odds))

    def _near(self, best: Model, quadratic: Quadratic) -> dict[Model, float]:
        """Scores of models one operator away, or with one exchanged, that are nearly as good; predicted, or of fits."""
        criterion, models = self.settings.criterion, Models(quadratic.names, self.protection)
        bound = self.fits[best][0] + 2 * math.log(BESIDE)

        def wanted(Q: Array, size: int) -> NDArray[np.bool_]:
            return np.asarray(criterion.values(np.maximum(Q, 0.0), size, quadratic) < bound)

        near = near_models(best, models, quadratic, wanted)
        scores = {model: self._score(Q, len(model), quadratic) for model, Q in near.items()}
        return {model: self.fits[model][0] if model in self.fits else J for model, J in scores.items()}

    def _alike(self, best: Model, quadratic: Quadratic) -> dict[str, str]:
        """Operators that are multiples of a selected one in these data, whatever the odds that rounding gives them."""
        names, alike = quadratic.names, multiples(quadratic)
        return {names[j]: names[i] for i in best for j in range(len(names)) if j not in best and alike[i, j]}

    def refit_rivals(self, best: Model, quadratic: Quadratic) -> None:
        """Fit models next to the best that promise more than it has."""
        worth = self.fits[best][0] - self.settings.gain
        near = self._near(best, quadratic)
        for name, rise in self._one_more(best, quadratic).items():  # those too that noise seems to swamp
            near.setdefault(tuple(sorted((*best, quadratic.names.index(name)))), self.fits[best][0] + rise)
        better = (model for model, J in near.items() if model not in self.fits and worth > J)
        if some := sorted(better, key=lambda model: near[model])[: self.settings.fitted]:
            self._fit(some, quadratic, len(some))
            self.settle()


def fit_candidate(likelihood: ResidualLikelihood, task: Task) -> Fit | None:
    """A model fitted from a start; None where that fails, or noise swamps the model. It may run on another machine."""
    estimator, names, start, rng = task
    own = likelihood.restrict(names)
    try:
        fit = estimator.fit(own, start=start, nearer=partial(_nearer, own, rng=rng))
    except (RankError, NotPositiveDefiniteError):
        return None
    return None if quadratic_of(fit).swamped else fit


def _nearer(likelihood: ResidualLikelihood, theta: Array, misfit: float, *, rng: Rng) -> Array:
    """A start moved by moments with its own weights, as often as that halves a misfit that noise does not explain.

    Far from the minimum steps of the estimator may end on a plateau of large coefficients, whose noise hides all.
    """
    for _ in range(_REWEIGHTED if likelihood.scale_known else 0):
        if misfit < CHI2_FACTOR * likelihood.n:
            break
        moved = by_moments(likelihood, theta, rng).solve([tuple(range(likelihood.d))])[0][0]
        left = likelihood.density(moved, logdet=False).q.value
        if not left < 0.5 * misfit:
            break
        theta, misfit = moved, left
    return theta


def by_moments(likelihood: ResidualLikelihood, weights: Array, rng: Rng, draws: int = 4) -> Quadratic:
    """The misfit of noise-free data with the weights at given coefficients, from moments without those of the noise."""
    return Quadratic(*_moments(likelihood, weights, rng, draws)[0])


def noise_ratio(likelihood: ResidualLikelihood, weights: Array, rng: Rng, draws: int) -> NoiseRatio:
    """The same moments, as misfits over the noise of each model's own residual."""
    arguments, noise = _moments(likelihood, weights, rng, draws)
    return NoiseRatio(*arguments, noise=noise)


def _moments(likelihood: ResidualLikelihood, weights: Array, rng: Rng, draws: int) -> tuple[tuple[Any, ...], Array]:
    """What a quadratic misfit is made of, and B (1 + d, 1 + d)."""
    moments = likelihood.moment_equations(weights, rng=copy.deepcopy(rng), draws=draws)
    clean, H, names = moments.gram - moments.noise, moments.gram[1:, 1:], likelihood.names
    q, zero = float(moments.gram[0, 0]), np.zeros(len(names))
    return (names, zero, q, clean[1:, 0], clean[1:, 1:], H, moments.n, likelihood.scale_known), moments.noise


def quadratic_of(fit: Fit) -> Quadratic:
    """The misfit around a fit."""
    if fit.quadratic is None:
        raise BvsiError(f"criterion: {fit.method} estimates have no curvature; use Profile(), or Backward().")
    return fit.quadratic


def _given(rng: Rng | None) -> Rng:
    """The generator of a selection, which is copied for every draw, so that all expansions take the same noise."""
    return np.random.default_rng(0) if rng is None else rng


def _predicted(
    names: tuple[str, ...], model: Minimum, score: float, changed: str | None, candidates: dict[str, float]
) -> Visited:
    """Record of a model that was not fitted."""
    chi2 = model.q / model.n if model.scale_known else 1.0
    return Visited(names, score, model.theta, chi2, changed, candidates, frozenset())
