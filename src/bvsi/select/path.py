"""The path of a selection: every model visited, its score, its coefficients, and why it stopped.

Coefficients that equalities tie together are selected together: θ = T η; selection sees the operators of η, with
columns X T, and the path is written in θ again. η are some of the coefficients themselves, which keep their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit

from bvsi.common.arrays import Array
from bvsi.common.naming import position
from bvsi.common.progress import Progress
from bvsi.infer import Fit
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.fit import open_margins
from bvsi.likelihood import ResidualLikelihood


@dataclass(frozen=True, eq=False)
class Visited:
    """One model on the path.

    Attributes
    ----------
    names
        Its operators.
    score
        Score of the criterion.
    theta
        (d,) and chi2 of its estimate.
    changed
        Operator removed (or added) to get here, None for the first.
    candidates
        Score of every model one step from the previous one, by the operator changed; predicted in closed form except
        for those in ``refitted``.
    fit
        The estimate itself; a path read from a file has none, nor has a model that was predicted.
    """

    names: tuple[str, ...]
    score: float
    theta: Array
    chi2: float
    changed: str | None
    candidates: Mapping[str, float]
    refitted: frozenset[str]
    fit: Fit | None = None

    @property
    def predicted(self) -> bool:
        """Whether score and coefficients come from a closed form, without a fit of this model."""
        return self.changed is not None and self.changed not in self.refitted

    @staticmethod
    def of(
        fit: Fit, score: float, changed: str | None, candidates: Mapping[str, float], refitted: frozenset[str]
    ) -> Visited:
        """Record of a fitted model."""
        return Visited(fit.names, score, fit.theta, fit.chi2, changed, candidates, refitted, fit)


@dataclass(frozen=True, eq=False)
class Compared:
    """A model beside the selected one, which is among them itself.

    Attributes
    ----------
    rise
        By how much its score is above that of the selected one; predicted where the model was not fitted.
    theta, covariance
        (k,) and (k, k), from the misfit around the selected model.
    """

    names: tuple[str, ...]
    rise: float
    theta: Array
    covariance: Array


@dataclass(repr=False, frozen=True, eq=False)
class SelectionPath:
    """Models in the order visited; ``best`` is the one with the lowest score.

    Attributes
    ----------
    criterion
        Its name.
    stopped
        Why the path ends.
    doubts
        Why the selection is not decided, empty where it is.
    margins
        By how much the score of the best model that differs in an operator is above that of the selected model, by
        operator: without a selected one, others in its place; or with one more, by the evidence for an effect of usual
        size. exp(½ margin) are the odds that the selection is right about it. Zero for
        operators that could not be tested: the data would not show them if they were as large as all others. Empty
        where none were looked for.
    seen
        How much of the time terms the weights of the selected model distinguish from noise, in parts of what those of
        no operator at all do; None where that was not computed.
    compared
        Models near the selected one, in operators, of which the data say how probable they are.
    price
        By how much one operator raises the score; None where a criterion has no scores of models.
    """

    visited: tuple[Visited, ...]
    criterion: str
    stopped: str
    doubts: str = ""
    margins: Mapping[str, float] = field(default_factory=dict)
    seen: float | None = None
    compared: tuple[Compared, ...] = ()
    price: float | None = None

    def __repr__(self) -> str:
        kept = ", ".join(self.best.names)
        return f"SelectionPath: {len(self.visited)} models by {self.criterion}; selected: {kept}"

    @property
    def decided(self) -> bool:
        """Whether the data single the selected model out."""
        return not self.doubts

    def left_open(self, odds: float) -> dict[str, float]:
        """Margins of the operators about which the selection may be wrong, where its odds over all others are less."""
        return open_margins(self.margins, odds)

    @property
    def best(self) -> Visited:
        """The selected model."""
        return min(self.visited, key=lambda v: v.score)

    @property
    def fits(self) -> int:
        """Models on the path, and next to it, that were fitted with their own covariance."""
        return sum(max(1, len(v.refitted)) for v in self.visited if not v.predicted)

    def probabilities(self) -> Array:
        """Weight of each visited model, ∝ exp(−½ score): with BIC scores its posterior probability among those visited.

        Criteria that compare neighbours only (Wald, F-statistic) have no scores of models; their weights order them.
        """
        scores = np.array([v.score for v in self.visited])
        weights = np.exp(-0.5 * (scores - scores.min()))
        return np.asarray(weights / weights.sum())

    def inclusion(self) -> dict[str, float]:
        """Weight of the models that have an operator, by operator, among those that were compared.

        That is, among those visited (:meth:`probabilities`), or beside the best model without it, if that is less.
        """
        names = dict.fromkeys(name for v in self.visited for name in v.names)
        pairs = list(zip(self.visited, self.probabilities(), strict=True))
        weights = {name: float(sum(p for v, p in pairs if name in v.names)) for name in names}
        return {
            name: min(weight, float(expit(0.5 * self.margins.get(name, np.inf)))) if name in self.best.names else weight
            for name, weight in weights.items()
        }

    def __str__(self) -> str:
        best = self.best
        rows = [f"{'terms':>5}  {self.criterion:>20}  {'χ²/n':>8}  changed"]
        for v in self.visited:
            mark = "  ← selected" if v is best else ""
            rows.append(f"{len(v.names):>5}  {v.score:>20.2f}  {v.chi2:>8.3g}  {v.changed or '(start)'}{mark}")
        rows.append(self.stopped)
        rows += [self.doubts] if self.doubts else []
        return "\n".join(rows)


@dataclass(frozen=True, eq=False)
class Ties:
    """Operators that equalities tie together: θ = T η.

    Attributes
    ----------
    names
        d operators.
    T
        (d, m).
    free
        Names of η.
    """

    names: tuple[str, ...]
    T: Array
    free: tuple[str, ...]

    def selected(
        self,
        select: Callable[..., SelectionPath],
        likelihood: ResidualLikelihood,
        *,
        keep: Iterable[str],
        progress: Progress,
    ) -> SelectionPath:
        """The path of a selection among η, with the models written in θ."""
        path = select(likelihood.combined(self.T, self.free), keep=self.keep(keep), progress=progress)
        visited, compared = tuple(map(self._visited, path.visited)), tuple(map(self._compared, path.compared))
        return replace(path, visited=visited, compared=compared)

    def keep(self, names: Iterable[str]) -> list[str]:
        """Names of η on which the given operators depend."""
        rows = [position(name, self.names) for name in names]
        return [free for free, column in zip(self.free, self.T.T, strict=True) if column[rows].any()]

    def operators(self, free: Iterable[str]) -> tuple[str, ...]:
        """Those of θ that follow from some of η."""
        return self._map(tuple(free))[0]

    def _visited(self, visited: Visited) -> Visited:
        names, T = self._map(visited.names)
        return replace(visited, names=names, theta=T @ visited.theta, fit=None)

    def _compared(self, model: Compared) -> Compared:
        names, T = self._map(model.names)
        return Compared(names, model.rise, T @ model.theta, T @ model.covariance @ T.T)

    def _map(self, free: tuple[str, ...]) -> tuple[tuple[str, ...], Array]:
        """Operators of θ that follow from some of η, and how."""
        T = self.T[:, [self.free.index(name) for name in free]]
        rows = np.flatnonzero(T.any(axis=1))
        return tuple(self.names[i] for i in rows), T[rows]


def ties_of(constraints: LinearConstraints) -> Ties | None:
    """The ties among operators that homogeneous equalities make; None where there are none."""
    affine = constraints.ties()
    return None if affine is None else Ties(constraints.names, affine.T, affine.free_names)


def needed(constraints: LinearConstraints) -> list[str]:
    """Operators that some constraint forces to be non-zero; selection must keep them."""
    rows = constraints.A[(constraints.lower > 0) | (constraints.upper < 0)]
    return [name for name, column in zip(constraints.names, rows.T, strict=True) if column.any()]
