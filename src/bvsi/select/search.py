"""Search over the models of a library: what may change, steps in one direction, the best models by size, and rivals.

A direction is forward (an operator more), backward (one less), exhaustive (all models of a size) or broad (all of a
size, then an operator more for many of them). :func:`walk` takes
steps in one direction for any way to score models, by fits or on a quadratic misfit. :func:`best_models` looks for the
best model of every size on a quadratic misfit, in all directions. :func:`find_rivals` says whether a selection is
decided:

    c_u(X) = θ_Xᵀ [(D P D)_XX]⁻¹ θ_X − |X| log n,          D_ii² = max(1, V_ii/P_ii)
    J(s − R + N) − J(s) = c_u(R) − c_u(N),   u = s + N

c_u(X) is what the criterion grows by when the operators X go from model u, whose θ, P = A⁻¹ and V come from the
quadratic misfit. D inflates the variance of a coefficient to the block-score variance where that is larger, which
lowers its z. exp(½ΔJ) are the odds of the selected model s over one with up to two operators R less and N more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bvsi.common.arrays import Array
from bvsi.common.naming import resolve
from bvsi.common.progress import Progress, silent
from bvsi.errors import RankError
from bvsi.infer.quadratic import Model, Quadratic
from bvsi.select.criterion import SubsetCriterion
from bvsi.select.path import Compared, Visited

Direction = Literal["exhaustive", "forward", "backward", "broad"]
Ladder = dict[int, tuple[float, Model]]
"""The best model of each size, with its score."""

#: Odds below which a rival is worth a fit, and a name where nothing else judges the selection: the usual 1 in 20.
ODDS = 20.0
#: The same for models that only have operators more: useless ones have odds of up to n^½, the price of an operator.
ODDS_OF_MORE = 3.0
#: Odds up to which models beside the selected one count where probabilities are made of scores; and how many.
BESIDE = 1000.0
_COMPARED = 60  # models, see above
# Larger models that are looked at for rivals; with more, rivals have one operator more or less instead of two. A bound
# on time, not measured.
_MAX_ENLARGED = 300
# Rivals that are named; the others are counted.
_NAMED = 3
# Largest ½ΔJ whose odds are given as a number; exp would overflow far beyond.
_LONGEST_ODDS = 50.0
# Gain by an exchange that is more than rounding of a score.
_GAIN = 1e-9
# 1 − ρ² of two columns of X that are multiples of one another up to quadrature: u and u_xxxx of one wave on 64 nodes
# have 5e-7.
_ALIKE = 1e-5
# The same of such columns with noise in them, without it, and the second over the first, at most. One wave with 1 and
# 10% noise, six pairs of derivatives: 2e-6 to 1e-1, up to 2e-3, and up to 0.6. With a second wave of 3% of the
# first the third is 0.9 and more at 1% noise; with one of 30% the second is 0.06.
_NOISY, _NEARLY, _OF_NOISE = 0.1, 3e-3, 0.75
# z² by which an operator that is left out would show, if it explained as much as all others; with less not even AIC
# would take it. Of 75 runs of ``bvsi bench honesty`` with strong noise or few frames (seeds 4719, 4720, 4723) where
# nothing else was open, those below 1.5 were right in 4 of 15, those from there to 4 in 16 of 17, to 10 in 37 of 39.
_SHOWN = 2.0
# Models with the lowest predicted misfits that are computed at once: few are refused then. Not measured.
_AT_ONCE = 16


@dataclass(frozen=True)
class Effort:
    """How far :func:`best_models` looks; bounds on time, not measured beyond the cases of the trust study.

    Parameters
    ----------
    exhaustive
        Models of one size that are all looked at.
    starts
        Best models from which operators are added one by one.
    patience
        Further operators to add after the score has begun to rise.
    by_equation
        Models of one size and one equation that are all looked at, the other equations held; 0 for none.
    neighbours
        With ``by_equation``, models that are as good with one operator exchanged, from which operators are dropped: on
        Hindmarsh–Rose z**3 stood for z in one equation at the price of two operators in another.
    """

    exhaustive: int = 600
    starts: int = 3
    patience: int = 3
    by_equation: int = 0
    neighbours: int = 20


@dataclass(frozen=True)
class Protection:
    """Operators that stay: each of ``keep``, and one of every group."""

    keep: frozenset[str]
    groups: tuple[frozenset[str], ...]

    @staticmethod
    def of(names: tuple[str, ...], keep: Iterable[str], groups: Sequence[Iterable[str]]) -> Protection:
        """From names as people write them."""
        return Protection(frozenset(resolve(keep, names)), tuple(frozenset(resolve(group, names)) for group in groups))

    def removable(self, names: tuple[str, ...]) -> list[str]:
        """Operators of a model that may go; the last one may not."""
        if len(names) == 1:
            return []
        last = {name for group in self.groups for name in names if group & set(names) == {name}}
        return [name for name in names if name not in self.keep and name not in last]


class Models:
    """Models that have what is protected, as sorted indices.

    Parameters
    ----------
    lacks
        An operator that they do not have; none by default.
    most
        Operators that they have at most; by default all.
    """

    def __init__(
        self, names: tuple[str, ...], protection: Protection, lacks: int = -1, most: int | None = None
    ) -> None:
        self.d, self.lacks = len(names), lacks
        self.most = self.d if most is None else most
        self.kept: Model = tuple(i for i, name in enumerate(names) if name in protection.keep)
        groups = (frozenset(i for i, name in enumerate(names) if name in group) for group in protection.groups)
        self.groups = [group for group in groups if group]

    @property
    def least(self) -> Model:
        """What is kept, and one of every group."""
        model = set(self.kept)
        for group in self.groups:
            model |= set() if group & model else {min(group)}
        return tuple(sorted(model))

    def number(self, size: int) -> int:
        """How many models of a size there are, whatever the groups."""
        return math.comb(self.d - len(self.kept), size - len(self.kept))

    def of_size(self, size: int) -> list[Model]:
        """All models of a size."""
        rest = [i for i in range(self.d) if i not in self.kept]
        chosen = itertools.combinations(rest, size - len(self.kept))
        return self.fine(tuple(sorted((*self.kept, *c))) for c in chosen)

    def free(self, model: Model) -> list[int]:
        """Operators of a model that are not kept."""
        return [i for i in model if i not in self.kept]

    def fine(self, models: Iterable[Model]) -> list[Model]:
        """Those that have one of every group, any operator at all, and not the one that they lack."""
        some = (model for model in models if model and self.lacks not in model)
        return [model for model in some if all(group & set(model) for group in self.groups)]


def walk(
    first: Visited,
    options: Callable[[tuple[str, ...]], list[str]],
    step: Callable[[Visited, list[str]], Visited | None],
    patience: int,
    *,
    ended: str,
    change: str = "removing {} from the selected model",
    progress: Progress = silent,
) -> tuple[tuple[Visited, ...], str]:
    """Models in one direction until the score has risen, and why it stopped there.

    Parameters
    ----------
    options
        Operators that may change next.
    step
        The next model, None where none can be fitted.
    patience
        Further steps after the score has begun to rise.
    ended
        What is said where no options are left.
    change
        A step in words.
    """
    visited, rises = [first], 0
    while rises <= patience:
        current = visited[-1]
        progress(len(visited), None, f"selecting, {len(current.names)} operators")
        free = options(current.names)
        following = step(current, free) if free else None
        if following is None:
            return tuple(visited), f"stopped: {'no further model can be fitted' if free else ended}."
        rises = rises + 1 if following.score > min(v.score for v in visited) else 0
        visited.append(following)
    best = min(visited, key=lambda v: v.score)
    following = visited[visited.index(best) + 1]
    rise = f"raises the criterion by {following.score - best.score:.4g}"
    return tuple(visited), f"stopped: {change.format(following.changed)} {rise}."


def best_models(
    quadratic: Quadratic,
    criterion: SubsetCriterion,
    protection: Protection,
    directions: Sequence[Direction] = ("exhaustive", "forward", "backward"),
    effort: Effort = Effort(),
) -> Ladder:
    """The best models of every size on a quadratic misfit; models in which noise rules are not looked at.

    exhaustive: all models of a size where they are few; forward: add the best operator, exchange while that helps, and
    continue from the best so far; backward: drop the operator that costs least, from the model with all of them; broad:
    exhaustive, then add every operator to the best models of a size, as many as that allows.
    """
    search = _Search(quadratic, criterion, Models(quadratic.names, protection), effort)
    if effort.by_equation:
        search.lowest([_by_equation(quadratic, criterion, protection, effort)])
    for direction in directions:
        getattr(search, direction)()
    if effort.by_equation:
        search.polish()
    for size in sorted(search.best, reverse=True):  # exchanges may have led past smaller models
        search.reduced(search.best[size][1])
    return search.best


def best_without(
    i: int, model: Model, quadratic: Quadratic, criterion: SubsetCriterion, protection: Protection, more: int
) -> Ladder:
    """The best models without operator i of a model, in whose place others may come.

    Parameters
    ----------
    more
        Operators that they have more at most. Misfits of much larger models are predicted far too low where operators
        carry noise: on Rössler data 23 operators, 16 of them false, were to have odds of e^370, and their fit e^−447.
    """
    models = Models(quadratic.names, protection, lacks=i, most=len(model) + more)
    search = _Search(quadratic, criterion, models, Effort())
    left = tuple(k for k in model if k != i)
    search.lowest(search.models.fine([left]))
    search.exhaustive()
    search.climb(left)
    search.forward()
    for size in sorted(search.best, reverse=True):
        search.reduced(search.best[size][1])
    return search.best


@dataclass(frozen=True, eq=False)
class OneStep:
    """Models one step away from a model, and their misfits by closed formulas.

    Attributes
    ----------
    gone, added
        Operators that leave, (m,), and that come, (j,); −1 for none.
    Q
        Misfits (m, j), infinite where the quadratic misfit refuses a model; it may refuse more.
    """

    model: Model
    gone: Sequence[int]
    added: Sequence[int]
    Q: Array

    @staticmethod
    def reduced(model: Model, models: Models, quadratic: Quadratic) -> OneStep:
        """With one operator less."""
        without, free = dict(zip(model, quadratic.without_each(model), strict=True)), models.free(model)
        return OneStep(model, free, (-1,), np.array([[without[i]] for i in free]).reshape(-1, 1))

    @staticmethod
    def enlarged(model: Model, gone: Sequence[int], quadratic: Quadratic) -> OneStep:
        """With one operator more, or in place of one of those that leave."""
        every = range(len(quadratic.names))
        left = [tuple(j for j in model if j != i) for i in gone]
        return OneStep(model, gone, every, quadratic.with_each(left) if left else np.zeros((0, len(every))))

    def at(self, places: Iterable[int]) -> list[Model]:
        """The models at some places of ``Q``, counted row by row."""
        steps = ((self.gone[i // len(self.added)], self.added[i % len(self.added)]) for i in places)
        return [tuple(sorted((set(self.model) - {gone} | {i}) - {-1})) for gone, i in steps]


def near_models(
    model: Model, models: Models, quadratic: Quadratic, wanted: Callable[[Array, int], NDArray[np.bool_]]
) -> dict[Model, float]:
    """Models with one operator less, more or exchanged, and their misfits.

    Parameters
    ----------
    wanted
        Whether a misfit is, for misfits of models of a size.
    """
    found: dict[Model, float] = {}
    for near, size in (
        (OneStep.reduced(model, models, quadratic), len(model) - 1),
        (OneStep.enlarged(model, [-1], quadratic), len(model) + 1),
        (OneStep.enlarged(model, models.free(model), quadratic), len(model)),
    ):
        some = [one for one in models.fine(near.at(np.flatnonzero(wanted(near.Q, size)))) if one != model]
        found |= dict(zip(some, quadratic.solve(some)[1], strict=True)) if some else {}
    return found


def compared_models(best: Model, rises: Mapping[Model, float], quadratic: Quadratic) -> tuple[Compared, ...]:
    """The selected model and those beside it, the most probable first.

    Parameters
    ----------
    rises
        By how much scores are above that of the selected model.
    """
    found = []
    for model in sorted({**rises, best: 0.0}, key=lambda model: (model != best, rises.get(model, 0.0)))[:_COMPARED]:
        if model == best or rises[model] < 2 * math.log(BESIDE):
            names = tuple(quadratic.names[i] for i in model)
            try:
                at = quadratic.minimum(names)
            except RankError:
                continue
            covariance = quadratic.scale(at.q) * at.inverse
            found.append(Compared(names, 0.0 if model == best else float(rises[model]), at.theta, covariance))
    return tuple(found)


def equation_of(name: str) -> str:
    """The equation in the name of an operator; empty where there is only one."""
    return name.partition(": ")[0] if ": " in name else ""


def _by_equation(quadratic: Quadratic, criterion: SubsetCriterion, protection: Protection, effort: Effort) -> Model:
    """The best models of the equations, each looked for alone with the others held as they are at the expansion.

    Where the weights do not couple equations, and the expansion is at zero, that is the best model of all.
    """
    of = [equation_of(name) for name in quadratic.names]
    alone, found = replace(effort, exhaustive=effort.by_equation, by_equation=0), list[int]()
    for equation in dict.fromkeys(of):
        own = [i for i, other in enumerate(of) if other == equation]
        ladder = best_models(quadratic.of(own), criterion, protection, ("exhaustive", "forward"), alone)
        if ladder:
            found += [own[i] for i in min(ladder.values())[1]]
    return tuple(sorted(found)) or Models(quadratic.names, protection).least


class _Search:
    """The best model met of each size."""

    def __init__(self, quadratic: Quadratic, criterion: SubsetCriterion, models: Models, effort: Effort) -> None:
        self.quadratic, self.criterion, self.models, self.effort = quadratic, criterion, models, effort
        self.best: Ladder = {}
        self._reduced: dict[Model, tuple[float, Model]] = {}

    def lowest(self, models: list[Model]) -> tuple[float, Model]:
        """The best of models of one size, and its score, which is infinite where there is none."""
        if not models:
            return np.inf, ()
        return self._met(models, self.quadratic.solve(models)[1])

    def _met(self, models: list[Model], Q: Array) -> tuple[float, Model]:
        """The best of models of one size with these misfits."""
        J = self.criterion.values(Q, len(models[0]), self.quadratic)
        i = int(np.argmin(J))
        size, score = len(models[i]), float(J[i])
        if np.isfinite(score) and (size not in self.best or score < self.best[size][0]):
            self.best[size] = (score, models[i])
        return score, models[i]

    def reduced(self, model: Model) -> tuple[float, Model]:
        """The best of the models with one operator less than a usable one; eigenvalues interlace: they are usable."""
        if model not in self._reduced:
            self._reduced[model] = self._one_less(model)
        return self._reduced[model]

    def _one_less(self, model: Model) -> tuple[float, Model]:
        near = OneStep.reduced(model, self.models, self.quadratic)
        if not np.isfinite(near.Q).all():
            return self.lowest(self.models.fine(near.at(range(near.Q.size))))
        for i in np.argsort(near.Q[:, 0], kind="stable"):
            found = self.models.fine(near.at([i]))
            if found:
                return self._met(found, near.Q[i])
        return np.inf, ()

    def enlarged(self, model: Model, gone: Sequence[int] = (-1,)) -> tuple[float, Model]:
        """The best of the models with one operator more, or in place of one of those that leave."""
        return self._lowest_near(OneStep.enlarged(model, gone, self.quadratic))

    def _lowest_near(self, near: OneStep) -> tuple[float, Model]:
        """The best of the neighbours, and its score, which is infinite where there is none.

        Those with the lowest misfits are computed, some at a time, until no other can be lower.
        """
        order = np.argsort(near.Q, axis=None, kind="stable")
        left = order[near.Q.ravel()[order] < np.inf]
        found: tuple[float, Model] = (np.inf, ())
        while len(left):
            some, left = self.models.fine(near.at(left[:_AT_ONCE])), left[_AT_ONCE:]
            found = min(found, self.lowest(some))
            if np.isfinite(found[0]) and len(left):
                following = np.maximum(near.Q.ravel()[left[0]], 0.0)  # the lowest of those that are left
                if found[0] <= self.criterion.values(following, len(found[1]), self.quadratic):
                    break
        return found

    def exhaustive(self) -> None:
        size = len(self.models.kept)
        while size <= self.models.most and self.models.number(size) <= self.effort.exhaustive:
            self.lowest(self.models.of_size(size))
            size += 1

    def broad(self) -> None:
        """All models of a size while they are few, then those that have one of the best of the size before.

        Where an operator of higher order stands for a true one, the best pair need not be part of the best triple: of
        the nonlinear Schrödinger equation at 50% noise, among 189 operators, it is the third to eighth pair that is.
        """
        size, lowest, rises = max(len(self.models.kept), 1), np.inf, 0
        models = self.models.of_size(size)
        while models and rises < self.effort.patience:
            Q = self.quadratic.solve(models)[1]
            score = self._met(models, Q)[0]
            rises, lowest, size = 0 if score < lowest else rises + 1, min(lowest, score), size + 1
            if size > self.models.most:
                return
            if self.models.number(size) <= self.effort.exhaustive:
                models = self.models.of_size(size)
            else:
                order = np.argsort(Q, kind="stable")[: max(1, self.effort.exhaustive // self.models.d)]
                best = [models[i] for i in order if np.isfinite(Q[i])]
                more = (tuple(sorted((*model, i))) for model in best for i in range(self.models.d) if i not in model)
                models = self.models.fine(dict.fromkeys(more))

    def forward(self) -> None:
        for _, model in sorted(self.best.values())[: self.effort.starts] or [(np.inf, self.models.least)]:
            self.climb(model)

    def climb(self, model: Model) -> None:
        """Add the best operator and exchange while that helps, until the score has risen some times."""
        lowest, rises = np.inf, 0
        while rises < self.effort.patience and len(model) < self.models.most:
            score, model = self.enlarged(model)
            while np.isfinite(score):
                other, candidate = self.enlarged(model, self.models.free(model))
                if other >= score - _GAIN:
                    break
                score, model = other, candidate
            if not np.isfinite(score):
                return
            rises = 0 if score < lowest else rises + 1
            lowest = min(lowest, score)

    def polish(self) -> None:
        """Exchange an operator of the best model, whatever that gains, and drop others, while there is a better one."""
        while self.best:
            score, model = min(self.best.values())
            near = OneStep.enlarged(model, self.models.free(model), self.quadratic)
            order = np.argsort(near.Q, axis=None, kind="stable")
            finite = near.at(order[np.isfinite(near.Q.ravel()[order])])
            others = [one for one in self.models.fine(finite) if len(one) == len(model) and one != model]
            for other in others[: self.effort.neighbours]:
                own = self.lowest([other])[0]
                while len(other) > 1 and (lower := self.reduced(other))[0] < own:
                    own, other = lower
            if min(self.best.values())[0] >= score - _GAIN:
                return

    def backward(self) -> None:
        score, model = self.lowest([tuple(range(self.models.d))])
        while np.isfinite(score) and len(model) > 1:
            score, model = self.reduced(model)


@dataclass(frozen=True)
class Rival:
    """Another model: operators it lacks and has beyond the selected one, and the odds of the selected one over it."""

    lacks: tuple[str, ...]
    adds: tuple[str, ...]
    odds: float

    def __str__(self) -> str:
        change = [*(f"without {name}" for name in self.lacks), *(f"with {name}" for name in self.adds)]
        return f"{', '.join(change)} ({self.odds:.2g} : 1)"


def rival(lacks: tuple[str, ...], adds: tuple[str, ...], change: float) -> Rival | None:
    """A model whose score is higher by ``change``; None where it is not a rival."""
    if not (lacks or adds) or change >= 2 * math.log(ODDS if lacks else ODDS_OF_MORE):
        return None
    return Rival(lacks, adds, math.exp(min(0.5 * change, _LONGEST_ODDS)))


def find_rivals(quadratic: Quadratic, selected: tuple[str, ...], protection: Protection) -> tuple[Rival, ...]:
    """Rivals of the selected model with odds below ``ODDS``, the strongest first."""
    names = quadratic.names
    absent = [name for name in names if name not in selected]
    free = [name for name in selected if name not in protection.keep]
    reach = 2 if math.comb(len(absent) + 1, 2) <= _MAX_ENLARGED else 1
    found = []
    for added in (n for size in range(reach + 1) for n in itertools.combinations(absent, size)):
        union = tuple(name for name in names if name in selected or name in added)
        cost = _removal_cost(quadratic, union)
        back = cost(added)
        for gone in (r for size in range(reach + 1) for r in itertools.combinations(free, size)):
            kept = set(union) - set(gone)
            other = rival(gone, added, cost(gone) - back)
            if other is not None and kept and all(group & kept for group in protection.groups):
                found.append(other)
    return tuple(sorted(found, key=lambda rival: rival.odds))


def _removal_cost(quadratic: Quadratic, names: tuple[str, ...]) -> Callable[[tuple[str, ...]], float]:
    """c_u(X) of one model u, for up to two operators X."""
    model, log_n = quadratic.minimum(names), math.log(quadratic.n)
    P = quadratic.scale(model.q) * model.inverse
    inflation = np.sqrt(np.maximum(1.0, model.variance / np.diag(P)))
    covariance = inflation[:, None] * P * inflation

    def cost(gone: tuple[str, ...]) -> float:
        x = [names.index(name) for name in gone]
        theta, V = model.theta[x], covariance[np.ix_(x, x)]
        if len(x) == 1:
            return float(theta[0] ** 2 / V[0, 0]) - log_n
        if len(x) == 2:
            top = V[1, 1] * theta[0] ** 2 - 2 * V[0, 1] * theta[0] * theta[1] + V[0, 0] * theta[1] ** 2
            return float(top / (V[0, 0] * V[1, 1] - V[0, 1] ** 2)) - 2 * log_n
        return 0.0

    return cost


def left_out(best: Model, quadratic: Quadratic, protection: Protection, more: Mapping[str, float]) -> dict[str, float]:
    """Margins of operators that a model leaves out, by operator. ::

        margin_j = log(1 + Z_j) − z_j² Z_j/(1 + Z_j) + 2 log d,      Z_j = power_j (Σ_i w_ij E_i + (1 − Σ_i w_ij) E)
        w_ij = ρ_ij²/max(1, Σ_i ρ_ij²),   ρ_ij² = A_ij²/(A_ii A_jj),   E_i = min(θ_i² A_ii, E),   E = θᵀAθ

    Z is the z² of an operator with an effect of usual size: it explains as much as those of its equation that it
    resembles, as u² does u, and as all together as far as it resembles none. The score of one with an effect drawn from
    a Gaussian of that size has the variance 1 + Z, of one that is not there the variance one. Where data tell little Z
    is far below n, the price of the criterion is too high, and operators that are there are left out. Those that would
    not show if they explained as much as all together have the margin zero.

    Parameters
    ----------
    more
        How much higher the score with an operator more is; the margin in equations without operators.
    """
    names, theta, A, found = quadratic.names, quadratic.theta, quadratic.A, dict[str, float]()
    squares, power = quadratic.score_tests(best, tuple(i for i in best if names[i] in protection.keep))
    power = power / quadratic.scale(quadratic.q)
    for j in (j for j in range(len(names)) if j not in best):
        own = [i for i in best if equation_of(names[i]) == equation_of(names[j])]
        if not own:
            found[names[j]] = more[names[j]]
            continue
        size, whole = np.diag(A)[own], float(theta[own] @ A[np.ix_(own, own)] @ theta[own])
        if power[j] * whole < _SHOWN:
            found[names[j]] = 0.0
            continue
        w = A[j, own] ** 2 / (size * A[j, j])
        w = w / max(1.0, w.sum())
        Z = power[j] * float(w @ np.minimum(theta[own] ** 2 * size, whole) + (1 - w.sum()) * whole)
        found[names[j]] = float(math.log1p(Z) - squares[j] * Z / (1 + Z) + 2 * math.log(len(names)))
    return found


def doubts(quadratic: Quadratic, selected: tuple[str, ...], protection: Protection) -> str:
    """Why the selection is not decided; empty where it is."""
    share = quadratic.noise_share
    if share > quadratic.most_noise:
        return (
            f"Not decided: noise makes up {min(share, 1.0):.0%} of a combination of the operators, so that the data "
            "cannot tell them apart. Use fewer candidates, less noise or more data."
        )
    return rivals_text(find_rivals(quadratic, selected, protection))


def rivals_text(rivals: tuple[Rival, ...]) -> str:
    """What is said about models that are nearly as good; empty where there are none."""
    if not rivals:
        return ""
    named = "; ".join(str(rival) for rival in rivals[:_NAMED])
    more = f"; and {len(rivals) - _NAMED} more" if len(rivals) > _NAMED else ""
    return f"Nearly as good, or better, by the odds given: {named}{more}."


def multiples(quadratic: Quadratic) -> NDArray[np.bool_]:
    """Which operators are multiples of one another in the data, (d, d): up to quadrature, or as far as noise shows. ::

    1 − ρ²,  ρ the cosine of two columns of X, with noise in them (H) and without (A)
    """

    def apart(gram: Array) -> Array:
        size = np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), np.inf))  # noise alone is no multiple of anything
        return np.asarray(1 - np.square(gram / np.outer(size, size)))

    seen, clean = apart(quadratic.H), apart(quadratic.A)
    return (seen < _ALIKE) | (seen < _NOISY) & (clean < _NEARLY) & (clean < _OF_NOISE * seen)


def alike_text(alike: Mapping[str, str]) -> str:
    """What is said about operators, each with the selected one that it is a multiple of; empty without any."""
    if not alike:
        return ""
    told = []
    for selected in dict.fromkeys(alike.values()):
        others = [name for name, own in alike.items() if own == selected]
        told.append(f"{' and '.join(others)} {'is a multiple' if len(others) == 1 else 'are multiples'} of {selected}")
    return f"Not decided: in these data {'; '.join(told)}, as in all data with one wave only; give data with more."
