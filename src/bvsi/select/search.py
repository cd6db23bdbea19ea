"""Forward selection and exhaustive search, for small libraries and criteria that score a model by itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bvsi.common.naming import resolve
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.likelihood import ResidualLikelihood
from bvsi.select.criterion import Criterion, ProfileBIC
from bvsi.select.path import SelectionPath, Visited

MAX_MODELS = 5000


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
        chosen = resolve(keep, names)
        visited: list[Visited] = []
        if chosen:
            visited.append(_visit(self.criterion, likelihood, chosen))
        while len(chosen) < len(names):
            tried = [n for n in names if n not in chosen]
            fitted = {n: _try(self.criterion, likelihood, [*chosen, n]) for n in tried}
            options = {n: v for n, v in fitted.items() if v is not None}
            scores = {n: v.score for n, v in options.items()}
            progress(len(visited), None, f"selecting, {len(chosen)} operators")
            if not scores:
                return SelectionPath(tuple(visited), self.criterion.name, "stopped: no further model can be fitted.")
            added = min(scores, key=lambda n: scores[n])
            if visited and scores[added] >= visited[-1].score:
                rise = scores[added] - visited[-1].score
                reason = f"stopped: adding {added} raises the criterion by {rise:.4g}."
                return SelectionPath(tuple(visited), self.criterion.name, reason)
            chosen.append(added)
            visited.append(replace(options[added], changed=added, candidates=scores, refitted=frozenset(scores)))
        return SelectionPath(tuple(visited), self.criterion.name, "stopped: all operators are in.")


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
        kept = resolve(keep, names)
        free = [n for n in names if n not in kept]
        if 2 ** len(free) > MAX_MODELS:
            raise BvsiError(f"exhaustive search of 2^{len(free)} models is beyond {MAX_MODELS}; use Backward().")
        visited = []
        subsets = [s for size in range(len(free) + 1) for s in itertools.combinations(free, size) if s or kept]
        for done, subset in enumerate(subsets):
            found = _try(self.criterion, likelihood, [n for n in names if n in kept or n in subset])
            if found is not None:
                visited.append(found)
            progress(done + 1, len(subsets), "selecting, all models")
        reason = f"stopped: all {len(subsets)} models tried, {len(visited)} could be fitted."
        return SelectionPath(tuple(visited), self.criterion.name, reason)


def _need_absolute(criterion: Criterion) -> None:
    if not criterion.absolute:
        raise BvsiError(f"criterion: {criterion.name} compares neighbours only; use ProfileBIC() here.")


def _visit(criterion: Criterion, likelihood: ResidualLikelihood, names: list[str]) -> Visited:
    model = likelihood.restrict(names)
    fit = criterion.fit(model, None)
    return Visited.of(fit, criterion.score(model, fit), None, {}, frozenset())


def _try(criterion: Criterion, likelihood: ResidualLikelihood, names: list[str]) -> Visited | None:
    try:
        return _visit(criterion, likelihood, names)
    except (RankError, NotPositiveDefiniteError):
        return None
