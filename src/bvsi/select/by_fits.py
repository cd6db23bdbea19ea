"""Selection by fits of single models: the paper's elimination (sec:sequential_operator_elimination), and two others.

A fourth drops operators of data without noise. Rounding, quadrature and sampling leave residuals with a structure of
their own, and some operator always fits it: of clean data their coefficients are zero within the moves that other
discretisations make. They are dropped one after the other, the weakest first, while z² < log n in units of these moves,
which is what BIC asks of an operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bvsi.common.arrays import Array
from bvsi.common.naming import resolve
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.infer import Fit, Profile
from bvsi.likelihood import ResidualLikelihood
from bvsi.select.criterion import Criterion, ProfileBIC, Wald, check_criterion, minimum_of
from bvsi.select.path import SelectionPath, Visited
from bvsi.select.search import Models, Protection, alike_text, multiples, walk

# Predicted scores this close to the best are refitted, as a number and as a part of the best change: the closed form is
# a quadratic model of the misfit. Not measured; fits that are saved against the order in which operators go.
_MARGIN, _RELATIVE_MARGIN = 10.0, 0.5
#: Models that exhaustive search fits at most: about 2^12, minutes for fits of a tenth of a second.
MAX_MODELS = 5000


@dataclass(frozen=True)
class Backward:
    """Remove one operator at a time, the one whose removal lowers the criterion most.

    Parameters
    ----------
    criterion
        What to minimise; by default Wald.
    refit_all
        Fit every leave-one-out model again instead of the contenders of the closed form only.
    patience
        Further steps after the criterion has begun to rise (the lowest model met is selected).
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

        Parameters
        ----------
        keep
            Operators that stay.
        groups
            Sets of operators of which one must stay.
        """
        protection = Protection.of(likelihood.names, keep, groups)
        fit = self.criterion.fit(likelihood, None)
        first = Visited.of(fit, self.criterion.score(likelihood, fit), None, {}, frozenset())

        def step(current: Visited, free: list[str]) -> Visited:
            return self._step(likelihood.restrict(current.names), current, free)

        ended = all_gone(protection)
        visited, reason = walk(first, protection.removable, step, self.patience, ended=ended, progress=progress)
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
        start = np.delete(self.parent.theta + minimum_of(likelihood, self.parent).removal_step(i), i)
        model = likelihood.restrict([n for n in self.parent.names if n != name])
        fit = self.criterion.fit(model, start)
        return fit, self.criterion.score(model, fit)


@dataclass(frozen=True)
class Forward:
    """Add one operator at a time, the one that lowers the criterion most."""

    criterion: Criterion = ProfileBIC()  # noqa: RUF009 (frozen)

    def select(
        self, likelihood: ResidualLikelihood, *, keep: Iterable[str] = (), progress: Progress = silent
    ) -> SelectionPath:
        """Start from the operators in ``keep`` (or the best single one)."""
        _need_absolute(self.criterion)
        names = likelihood.names

        def absent(chosen: tuple[str, ...]) -> list[str]:
            return [name for name in names if name not in chosen]

        def added(chosen: tuple[str, ...], free: list[str]) -> Visited | None:
            fitted = {name: _visit(self.criterion, likelihood, [*chosen, name]) for name in free}
            found = {name: visited for name, visited in fitted.items() if visited is not None}
            scores = {name: visited.score for name, visited in found.items()}
            if not scores:
                return None
            best = min(scores, key=lambda name: scores[name])
            return replace(found[best], changed=best, candidates=scores, refitted=frozenset(scores))

        kept = resolve(keep, names)
        first = _visit(self.criterion, likelihood, kept) if kept else added((), list(names))
        if first is None:
            raise BvsiError("selection: the first model cannot be fitted; keep other operators, or use more data.")
        visited, reason = walk(
            first,
            absent,
            lambda current, free: added(current.names, free),
            0,
            ended="all operators are in",
            change="adding {}",
            progress=progress,
        )
        path = SelectionPath(visited, self.criterion.name, reason)
        return replace(path, visited=visited[: visited.index(path.best) + 1])


@dataclass(frozen=True)
class Exhaustive:
    """Fit every subset that contains the protected operators."""

    criterion: Criterion = ProfileBIC()  # noqa: RUF009 (frozen)

    def select(
        self, likelihood: ResidualLikelihood, *, keep: Iterable[str] = (), progress: Progress = silent
    ) -> SelectionPath:
        """All models, small ones first; ``best`` is the one selected."""
        _need_absolute(self.criterion)
        names = likelihood.names
        models = Models(names, Protection.of(names, keep, ()))
        free = models.d - len(models.kept)
        if 2**free > MAX_MODELS:
            raise BvsiError(f"exhaustive search of 2^{free} models is beyond {MAX_MODELS}; use Backward().")
        subsets = [model for size in range(len(models.kept), models.d + 1) for model in models.of_size(size)]
        visited = []
        for done, model in enumerate(subsets):
            found = _visit(self.criterion, likelihood, [names[i] for i in model])
            visited += [] if found is None else [found]
            progress(done + 1, len(subsets), "selecting, all models")
        reason = f"stopped: all {len(subsets)} models tried, {len(visited)} could be fitted."
        return SelectionPath(tuple(visited), self.criterion.name, reason)


def all_gone(protection: Protection) -> str:
    """What is said where an elimination has nothing left to remove."""
    protected = protection.keep or protection.groups
    return "only protected operators are left" if protected else "one operator is left"


def _need_absolute(criterion: Criterion) -> None:
    if not criterion.absolute:
        raise BvsiError(f"criterion: {criterion.name} compares neighbours only; use ProfileBIC() here.")


def _visit(criterion: Criterion, likelihood: ResidualLikelihood, names: list[str]) -> Visited | None:
    """A model with its score; None where it cannot be fitted."""
    model = likelihood.restrict(names)
    try:
        fit = criterion.fit(model, None)
    except (RankError, NotPositiveDefiniteError):
        return None
    return Visited.of(fit, criterion.score(model, fit), None, {}, frozenset())


def without_weakest(
    path: SelectionPath, fit: Fit, moved: Array, whole: ResidualLikelihood, keep: Iterable[str]
) -> SelectionPath | None:
    """The path to the model without its weakest operator, fitted; None where all are larger than what moves them.

    Parameters
    ----------
    fit
        Of the selected model, with a posterior.
    moved
        (d,) how far other discretisations move its coefficients.
    whole
        Likelihood of all candidates.
    keep
        Operators that stay.
    """
    posterior, best, kept = fit.posterior, path.best, set(keep)
    assert posterior is not None
    z2 = np.square(posterior.mean) / (posterior.variance + np.square(moved))
    free = [(float(one), name) for one, name in zip(z2, posterior.names, strict=True) if name not in kept]
    if best.fit is None or best.fit.quadratic is None or len(best.names) == 1 or not free:
        return None
    weakest, name = min(free)
    if weakest >= math.log(whole.n):
        return None
    left = tuple(other for other in best.names if other != name)
    found = best.fit.quadratic
    alike = multiples(found)[found.names.index(name), [found.names.index(other) for other in left]]
    same = {name: next(other for other, one in zip(left, alike, strict=True) if one)} if any(alike) else {}
    return _shortened(path, Profile().fit(whole.restrict(left), start=found.minimum(left).theta), name, same)


def _shortened(path: SelectionPath, fit: Fit, dropped: str, alike: Mapping[str, str]) -> SelectionPath:
    """The path with a smaller model at its end; what was said of rivals stays said, as do operators that are alike."""
    fewer = [v for v in path.visited if len(v.names) < len(fit.names) and dropped not in v.names]
    score = min(path.best.score, *(v.score for v in fewer)) if fewer else path.best.score
    ended = Visited.of(fit, score, f"without {dropped}", {}, frozenset())
    stopped = f"{path.stopped} {dropped} is dropped: other discretisations move it by as much as its own size."
    margins = {name: m for name, m in path.margins.items() if m == 0 and name not in path.best.names}
    doubts = " ".join(text for text in (path.doubts, alike_text(alike)) if text)
    return replace(
        path,
        visited=(*fewer, ended),
        stopped=stopped,
        doubts=doubts,
        margins=margins | dict.fromkeys(alike, 0.0),
        seen=None,
        compared=(),
    )
