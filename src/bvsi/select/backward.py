"""Sequential operator elimination (sec:sequential_operator_elimination), over any criterion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress, silent
from bvsi.infer import Fit
from bvsi.likelihood import ResidualLikelihood
from bvsi.select.criterion import Criterion, Wald
from bvsi.select.elimination import Protection, check_criterion, eliminate
from bvsi.select.path import SelectionPath, Visited
from bvsi.select.quadratic import QuadraticModel

Array = NDArray[np.float64]

# Predicted scores this close to the best are refitted: the closed form is a quadratic model of the misfit.
_MARGIN = 10.0
_RELATIVE_MARGIN = 0.5


@dataclass(frozen=True)
class Backward:
    """Remove one operator at a time, the one whose removal lowers the criterion most.

    criterion: what to minimise; by default Wald.
    refit_all: fit every leave-one-out model anew instead of the contenders of the closed form only.
    patience: steps to go on after the criterion has begun to rise (the lowest model met is selected).
    """

    criterion: Criterion = Wald()  # noqa: RUF009 (frozen)
    refit_all: bool = False
    patience: int = 1

    def __post_init__(self) -> None:
        check_criterion(self.criterion, self.patience)

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
        protection = Protection.of(likelihood.names, keep, groups)
        fit = self.criterion.fit(likelihood, None)
        first = Visited.of(fit, self.criterion.score(likelihood, fit), None, {}, frozenset())

        def step(current: Visited, free: list[str]) -> Visited:
            return self._step(likelihood.restrict(current.names), current, free)

        visited, reason = eliminate(first, step, protection, self.patience, progress)
        return SelectionPath(visited, self.criterion.name, reason)

    def _step(self, likelihood: ResidualLikelihood, current: Visited, free: list[str]) -> Visited:
        """The best model with one operator less."""
        assert current.fit is not None
        change = dict(zip(current.names, self.criterion.removal(likelihood, current.fit), strict=True))
        scores = {name: current.score + float(change[name]) for name in free}
        lowest = min(change[name] for name in free)
        margin = _MARGIN + _RELATIVE_MARGIN * abs(lowest) if self.criterion.absolute else 0.0
        contenders = free if self.refit_all else [name for name in free if change[name] <= lowest + margin]
        found = dict(zip(contenders, likelihood.each(_Without(self.criterion, current.fit), contenders), strict=True))
        if self.criterion.absolute:
            scores.update({name: score for name, (_, score) in found.items()})
        removed = min(found, key=lambda name: scores[name])
        return Visited.of(found[removed][0], scores[removed], removed, scores, frozenset(found))


@dataclass(frozen=True, eq=False)
class _Without:
    """Fits of models with one operator less than that of a fit, and their scores; each stands for itself."""

    criterion: Criterion
    parent: Fit

    def __call__(self, likelihood: ResidualLikelihood, name: str) -> tuple[Fit, float]:
        """The model without an operator, from the start that the quadratic model predicts."""
        i = self.parent.names.index(name)
        start = np.delete(self.parent.theta + QuadraticModel.of(likelihood, self.parent).removal_step(i), i)
        model = likelihood.restrict([n for n in self.parent.names if n != name])
        fit = self.criterion.fit(model, start)
        return fit, self.criterion.score(model, fit)
