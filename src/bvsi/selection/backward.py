"""Sequential operator elimination (sec:sequential_operator_elimination), over any criterion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.inference import Fit
from bvsi.likelihood import ResidualLikelihood
from bvsi.progress import Progress, silent
from bvsi.selection.criterion import Criterion, Wald
from bvsi.selection.elimination import Protection, check_criterion, eliminate
from bvsi.selection.path import SelectionPath, Visited
from bvsi.selection.quadratic import QuadraticModel

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
        fits: dict[str, Fit] = {}
        for name in contenders:
            fits[name] = self._fit_without(likelihood, current.fit, name)
            if self.criterion.absolute:
                scores[name] = self.criterion.score(likelihood.restrict(fits[name].names), fits[name])
        removed = min(fits, key=lambda name: scores[name])
        return Visited.of(fits[removed], scores[removed], removed, scores, frozenset(fits))

    def _fit_without(self, likelihood: ResidualLikelihood, parent: Fit, name: str) -> Fit:
        i = parent.names.index(name)
        start = np.delete(parent.theta + QuadraticModel.of(likelihood, parent).removal_step(i), i)
        return self.criterion.fit(likelihood.restrict([n for n in parent.names if n != name]), start)
