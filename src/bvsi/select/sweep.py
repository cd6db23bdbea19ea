"""Elimination on the quadratic model of the misfit, with a refit and a check of the result.

    Q(θ) ≈ Q(θ_e) − 2 gᵀ(θ−θ_e) + (θ−θ_e)ᵀ A (θ−θ_e)

gives every sub-model of the library from one evaluation. The model selected on it is refitted, the quadratic model made
anew there (it holds the test of adding each operator as well as that of dropping it), and the elimination repeated,
until it selects the model that it was made at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.infer import Fit
from bvsi.likelihood import ResidualLikelihood
from bvsi.select.criterion import QuadraticCriterion, Wald
from bvsi.select.elimination import Protection, check_criterion, eliminate
from bvsi.select.path import SelectionPath, Visited
from bvsi.select.quadratic import Expansion, QuadraticModel
from bvsi.select.rivals import SWAMPED, doubts, noise_share

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sweep:
    """Backward elimination with a fit of the whole library and of what is selected, and none in between.

    criterion: what to minimise, Wald or ProfileBIC; by default Wald.
    rounds: refits at most, where the check selects another model.
    patience: steps to go on after the criterion has begun to rise (the lowest model met is selected).
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
        progress: Progress = silent,
    ) -> SelectionPath:
        """Eliminate operators from the model with all of them.

        keep: operators that stay; groups: sets of operators of which one must stay.
        """
        search = _Search(self, likelihood, Protection.of(likelihood.names, keep, groups))
        fitted = [search.whole()]
        while True:
            current = fitted[-1]
            progress(len(fitted), self.rounds + 1, f"selecting, {len(current.fit.names)} operators")
            sweep = search.sweep(current.expansion)
            if sweep.best.names == current.fit.names:
                return search.settled(fitted, sweep)
            if len(fitted) > self.rounds:
                return search.unsettled(fitted, f"after {len(fitted) - 1} refits")
            if any(sweep.best.names == other.fit.names for other in fitted):
                return search.unsettled(fitted, "and came back to an earlier model")
            fitted.append(search.refit(sweep, fitted[0]))


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A model that was fitted, its score, the expansion of all operators there, and the sweep that proposed it."""

    fit: Fit
    score: float
    expansion: Expansion
    sweep: SelectionPath | None


@dataclass(frozen=True, eq=False)
class _Search:
    settings: Sweep
    likelihood: ResidualLikelihood
    protection: Protection

    def whole(self) -> _Fitted:
        """All operators."""
        criterion, likelihood = self.settings.criterion, self.likelihood
        fit = criterion.fit(likelihood, None)
        return _Fitted(fit, criterion.score(likelihood, fit), Expansion.of(likelihood, fit), None)

    def refit(self, sweep: SelectionPath, whole: _Fitted) -> _Fitted:
        """The model that a sweep selects, with its own covariance."""
        criterion, model = self.settings.criterion, self.likelihood.restrict(sweep.best.names)
        fit = criterion.fit(model, sweep.best.theta)
        expansion = Expansion.around(self.likelihood, fit, whole.expansion.curvature)
        return _Fitted(fit, criterion.score(model, fit), expansion, sweep)

    def sweep(self, expansion: Expansion) -> SelectionPath:
        """Eliminate on the quadratic model alone; scores count from zero."""
        names, criterion = self.likelihood.names, self.settings.criterion
        first = _predicted(names, expansion.submodel(names), 0.0, None, {})

        def step(current: Visited, free: list[str]) -> Visited:
            change = dict(zip(current.names, criterion.change(expansion.submodel(current.names)), strict=True))
            scores = {name: current.score + float(change[name]) for name in free}
            removed = min(scores, key=lambda name: scores[name])
            left = tuple(name for name in current.names if name != removed)
            return _predicted(left, expansion.submodel(left), scores[removed], removed, scores)

        return SelectionPath(*self._named(*eliminate(first, step, self.protection, self.settings.patience)))

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
        dropping = dict(zip(names, change(fitted.expansion.submodel(names)), strict=True))
        gain = sum(max(0.0, -dropping[name]) for name in self.protection.removable(names))
        for added in set(everything) - set(names):
            larger = tuple(name for name in everything if name in names or name == added)
            gain += max(0.0, change(fitted.expansion.submodel(larger))[larger.index(added)])
        return float(gain)

    def _path(self, whole: _Fitted, chosen: _Fitted, stopped: str) -> SelectionPath:
        """All operators, then the models of the sweep that selects the chosen one, their scores tied to its own."""
        for what, fit in {"the whole library": whole.fit, "the selected model": chosen.fit}.items():
            if not fit.status.converged:
                stopped += f" The estimate of {what}: {fit.status.message}"
        first = Visited.of(whole.fit, whole.score, None, {}, frozenset())
        if chosen.sweep is None:
            return SelectionPath(*self._named((first,), stopped), self._doubts(whole, chosen))
        best = chosen.sweep.best
        offset = chosen.score - best.score if self.settings.criterion.absolute else 0.0
        visited = [first]
        for v in chosen.sweep.visited[1:]:
            shifted = replace(
                v, score=v.score + offset, candidates={name: s + offset for name, s in v.candidates.items()}
            )
            if v is best:
                refitted = frozenset(name for name in (v.changed,) if name is not None)
                shifted = Visited.of(chosen.fit, shifted.score, v.changed, shifted.candidates, refitted)
            visited.append(shifted)
        path = SelectionPath(*self._named(tuple(visited), stopped))
        return replace(path, doubts=self._doubts(whole, chosen))

    def _doubts(self, whole: _Fitted, chosen: _Fitted) -> str:
        """Doubts from the expansion at the selected model, or because one at all operators is not to be trusted."""
        expansion = whole.expansion if noise_share(whole.expansion) > SWAMPED else chosen.expansion
        return doubts(expansion, chosen.fit.names, self.protection)

    def _named(self, visited: tuple[Visited, ...], stopped: str) -> tuple[tuple[Visited, ...], str, str]:
        return visited, self.settings.criterion.name, stopped


def _predicted(
    names: tuple[str, ...], model: QuadraticModel, score: float, changed: str | None, candidates: dict[str, float]
) -> Visited:
    """Record of a model that was not fitted."""
    chi2 = model.q / model.n if model.scale_known else 1.0
    return Visited(names, score, model.theta, chi2, changed, candidates, frozenset())
