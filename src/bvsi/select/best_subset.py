"""Best-subset selection from below: candidates come from quadratic misfits, and fits of their own decide among them.

1. Moment equations, unbiased for any weights, with the weights of the roughest operators; the best model of each size.
2. Profile estimates of those that may be it. Around the best of them, the quadratic model of the profile misfit and
   moment equations with its weights, and the best models of each size on both; those that promise to be better are
   fitted. Until none is.

The whole library is never fitted, so that candidates in which noise rules do no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.infer import Dominant, Fit, Profile
from bvsi.infer.profile import curvature
from bvsi.likelihood import ResidualLikelihood
from bvsi.select.elimination import Protection
from bvsi.select.path import SelectionPath, Visited
from bvsi.select.quadratic import Expansion
from bvsi.select.rivals import ODDS, ODDS_OF_MORE, Rival, rivals_text
from bvsi.select.subsets import Ladder, Model, QuadraticMisfit, best_models, neighbours, swamped

Array = NDArray[np.float64]


CRITERION = "extended BIC"

# Models of a ladder that are fitted with success, and tried, and how far above its lowest (in parts of n) they may lie.
_FITTED = 3
_LOOKED_AT = 5
_NEAR = 0.5
# Standard deviations of χ²/n above one that noise does not explain.
_MISFIT = 2.0
# A predicted gain that is worth a fit.
_GAIN = 0.5


@dataclass(frozen=True)
class BestSubset:
    """Selection for stacked weighting.

    rounds: times that the search goes on from a better model, at most; draws: of noise, for the moment equations.
    """

    rounds: int = 6
    draws: int = 4
    estimator: Profile = field(default_factory=lambda: Profile(tol=1e-3, max_iterations=15))

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.draws < 1:
            raise BvsiError(f"rounds and draws: at least 1 each; got {self.rounds} and {self.draws}.")

    def select(
        self,
        likelihood: ResidualLikelihood,
        *,
        keep: Iterable[str] = (),
        groups: Sequence[Iterable[str]] = (),
        progress: Progress = silent,
    ) -> SelectionPath:
        """The operators that the data support.

        keep: operators that stay; groups: sets of operators of which one must stay.
        """
        search = _Search(self, likelihood, Protection.of(likelihood.names, keep, groups), progress)
        return search.run()


@dataclass(frozen=True, eq=False)
class _Around:
    """The quadratic model of all operators around a fit, and the best models on it."""

    expansion: Expansion
    misfit: QuadraticMisfit
    ladder: Ladder


@dataclass(frozen=True, eq=False)
class _Search:
    settings: BestSubset
    likelihood: ResidualLikelihood
    protection: Protection
    progress: Progress
    fits: dict[Model, tuple[float, Fit]] = field(default_factory=dict)
    """Models fitted, with their score."""

    def run(self) -> SelectionPath:
        """Candidates, fits, and again from the best of them."""
        misfit = self._moments(Dominant(1.0).balance(self.likelihood))
        self._try(misfit, self._ladder(misfit), np.inf)
        if not self.fits:
            raise BvsiError(
                "selection: noise makes up more than half of every operator, or no model could be fitted; use fewer "
                "candidates, wider test functions, or more data."
            )
        for number in range(self.settings.rounds):
            best = self.best
            around = self._around(best)
            self.progress(number + 1, self.settings.rounds, f"selecting, {len(best)} operators")
            self._try(around.misfit, around.ladder, self.fits[best][0] - _GAIN)
            if self.best == best and number == 0 and self._misfits(best):  # other candidates, seen from good weights
                moments = self._moments(around.expansion.theta)
                self._try(moments, self._ladder(moments), np.inf)
            if self.best == best:
                return self._path(best, around, "no model near it is better.")
        return self._path(
            self.best, self._around(self.best), "the search was cut off; more rounds may find a better one."
        )

    @property
    def best(self) -> Model:
        """The fitted model with the lowest score."""
        return min(self.fits, key=lambda model: self.fits[model][0])

    def _misfits(self, model: Model) -> bool:
        """Whether noise does not explain the misfit of a model, so that it may be far from the truth."""
        equations = self.fits[model][1].equations
        return not self.likelihood.scale_known or equations.q > equations.n * (1 + _MISFIT * np.sqrt(2 / equations.n))

    def _ladder(self, misfit: QuadraticMisfit) -> Ladder:
        return best_models(misfit, self.likelihood.names, self.protection)

    def _moments(self, weights: Array) -> QuadraticMisfit:
        """The misfit of noise-free data with the weights at given coefficients."""
        moments = self.likelihood.moment_equations(weights, rng=np.random.default_rng(0), draws=self.settings.draws)
        clean, q = moments.gram - moments.noise, float(moments.gram[0, 0])
        return QuadraticMisfit(
            clean[1:, 1:], moments.gram[1:, 1:], clean[1:, 0], q, moments.n, self.likelihood.scale_known
        )

    def _try(self, misfit: QuadraticMisfit, ladder: Ladder, bound: float) -> None:
        """Fit the best models of a ladder that have not been, if they promise a score below the bound."""
        if not ladder.best:
            return
        lowest = min(ladder.best.values())[0]
        near = [(score, m) for score, m in ladder.best.values() if score < min(bound, lowest + _NEAR * misfit.n)]
        if not near:
            return
        small = min(near, key=lambda one: len(one[1]))  # with poor weights the lowest has too many operators
        models, left = [model for _, model in dict.fromkeys([small, *sorted(near)[:_LOOKED_AT]])], _FITTED
        while models and left:
            batch, models = models[:left], models[left:]
            self._fit([model for model in batch if model not in self.fits], misfit)
            left -= sum(model in self.fits for model in batch)

    def _fit(self, models: Sequence[Model], misfit: QuadraticMisfit) -> None:
        """Fit models from their estimates on the quadratic misfit, each on its own; those that fail are left out."""
        names = [tuple(self.likelihood.names[i] for i in model) for model in models]
        starts = [misfit.solve([model])[1][0] for model in models]
        found = self.likelihood.each(_Candidate(self.settings.estimator), list(zip(names, starts, strict=True)))
        for model, fit in zip(models, found, strict=True):
            if fit is not None:
                score = float(misfit.misfit(np.array(fit.equations.q))) + len(model) * misfit.price
                self.fits[model] = (score, fit)

    def _around(self, model: Model) -> _Around:
        """All operators around the fit of some of them."""
        theta = np.zeros(self.likelihood.system.d)
        theta[list(model)] = self.fits[model][1].theta
        profile = self.likelihood.profile_equations(theta, rng=np.random.default_rng(0))  # the draw of every fit
        expansion = Expansion(self.likelihood, theta, profile.equations, curvature(self.likelihood, profile))
        misfit = _quadratic(expansion)
        return _Around(expansion, misfit, self._ladder(misfit))

    def _path(self, best: Model, around: _Around, why: str) -> SelectionPath:
        """The best models by size around the chosen one; scores of those that were not fitted are predicted."""
        score, fit = self.fits[best]
        ladder = {size: entry for size, entry in around.ladder.best.items() if size <= len(best) + 3}
        ladder[len(best)] = (score, best)
        visited, before = [], set[str]()
        for _, (predicted, model) in sorted(ladder.items()):
            J = self.fits[model][0] if model in self.fits else predicted
            if score > J:
                continue  # promised more than a fit could hold, as those that noise swamps do
            names = tuple(self.likelihood.names[i] for i in model)
            changed = " + ".join(name for name in names if name not in before) or None
            before = set(names)
            if model == best:
                refitted = frozenset(() if changed is None else (changed,))
                visited.append(Visited.of(fit, score, changed, {}, refitted))
            else:
                theta = around.misfit.solve([model])[1][0]
                visited.append(Visited(names, J, theta, around.misfit.chi2(model), changed, {}, frozenset()))
        status = "" if fit.status.converged else f" The estimate: {fit.status.message}"
        told = " ".join(text for text in (self._doubts(best, around), self._static(best, around.misfit)) if text)
        return SelectionPath(tuple(visited), CRITERION, f"stopped: {why}{status}", told)

    def _static(self, best: Model, misfit: QuadraticMisfit) -> str:
        """Whether one operator explains the data no better than none."""
        if len(best) > 1 or self.protection.keep:
            return ""
        still = self.likelihood.profile_equations(np.zeros(self.likelihood.system.d)).equations.q
        if float(misfit.misfit(np.array(still))) > self.fits[best][0]:
            return ""
        return "No operator at all explains the data as well: perhaps nothing moves in them."

    def _doubts(self, best: Model, around: _Around) -> str:
        """Models one operator away, or with one exchanged, that are nearly as good."""
        names, score = self.likelihood.names, self.fits[best][0]
        rivals = []
        for models in neighbours(best, names, self.protection):
            for J, model in zip(around.misfit.scores(models) if models else (), models, strict=True):
                change = (self.fits[model][0] if model in self.fits else float(J)) - score
                lacks = tuple(names[i] for i in best if i not in model)
                adds = tuple(names[i] for i in model if i not in best)
                if change < 2 * np.log(ODDS if lacks else ODDS_OF_MORE):
                    rivals.append(Rival(lacks, adds, float(np.exp(min(0.5 * change, 50.0)))))
        return rivals_text(tuple(sorted(rivals, key=lambda rival: rival.odds)))


@dataclass(frozen=True)
class _Candidate:
    """Fits a model: names of its operators, and a start. A task of its own, so that it may run anywhere."""

    estimator: Profile

    def __call__(self, likelihood: ResidualLikelihood, item: tuple[tuple[str, ...], Array]) -> Fit | None:
        """The fit; None where there is none, or where noise swamps the model."""
        names, start = item
        try:
            fit = self.estimator.fit(likelihood.restrict(names), start=start)
        except (RankError, NotPositiveDefiniteError):
            return None
        assert fit.curvature is not None
        return None if swamped(fit.equations.H, fit.curvature.A) else fit


def _quadratic(expansion: Expansion) -> QuadraticMisfit:
    """Q around θ_e as a quadratic of θ itself."""
    A, H, g, at = expansion.curvature.A, expansion.equations.H, expansion.equations.g, expansion.theta
    q = float(expansion.equations.q + 2 * g @ at + at @ A @ at)
    return QuadraticMisfit(A, H, g + A @ at, q, expansion.equations.n, expansion.likelihood.scale_known)
