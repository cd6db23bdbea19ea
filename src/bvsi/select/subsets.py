"""The best models on a quadratic misfit: which operators, how many, for all sizes that can be looked at.

    Q(θ) = q − 2 gᵀθ + θᵀAθ,   A = H − N          Q_s = q − g_sᵀ A_ss⁻¹ g_s       J_s = m(Q_s) + |s| (log n + 2 log d)
    m(Q) = Q for Q ≤ n,   n (1 + log(Q/n)) beyond

m is the misfit of the stated noise, or of a larger one where no model reaches that; the price of an operator is that of
BIC, and what it takes to look for it among d (extended BIC). Models in which noise makes up much of a combination of
operators, λ_max(H_ss⁻¹ N_ss) > 1/2, are not looked at: their Q means nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.select.elimination import Protection
from bvsi.select.rivals import SWAMPED, noise_part

Array = NDArray[np.float64]
Model = tuple[int, ...]

_ALIKE = 1e-11
_EXHAUSTIVE = 600
_STARTS = 3
_PATIENCE = 3


@dataclass(frozen=True, eq=False)
class QuadraticMisfit:
    """Q of all models of d operators.

    A, H: (d, d), without and with what noise adds; g: (d,); q: at θ = 0; n: residuals.
    known: whether Q is in units of the noise; otherwise m(Q) = n log(Q/n).
    """

    A: Array
    H: Array
    g: Array
    q: float
    n: int
    known: bool = True

    @property
    def price(self) -> float:
        """Of one operator, log n + 2 log d."""
        return math.log(self.n) + 2 * math.log(len(self.g))

    def misfit(self, Q: Array) -> Array:
        """m(Q)."""
        tiny = np.finfo(float).tiny
        beyond = self.n * (1 + np.log(np.maximum(Q, tiny) / self.n))
        return np.where(self.n >= Q, Q, beyond) if self.known else beyond

    def chi2(self, model: Model) -> float:
        """Q_s/n of one model."""
        s = list(model)
        return float(self.q - self.g[s] @ self.solve([model])[1][0]) / self.n

    def scores(self, models: Sequence[Model]) -> Array:
        """J of models of one size, (len(models),); infinite where it means nothing."""
        J, _ = self.solve(models)
        return J

    def solve(self, models: Sequence[Model]) -> tuple[Array, Array]:
        """J and θ_s of models of one size k, (m,) and (m, k)."""
        s = np.array(models, dtype=np.int64)
        k = s.shape[1]
        if k == 0:
            return self.misfit(np.full(len(s), self.q)), np.zeros((len(s), 0))
        diagonal = np.diag(self.H)[s]
        scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = [M[s[:, :, None], s[:, None, :]] / scale[:, :, None] / scale[:, None, :] for M in (self.H, self.A)]
        g = self.g[s] / scale
        values, vectors = np.linalg.eigh(scaled[0])
        usable = (values[:, 0] > _ALIKE * values[:, -1]) & (diagonal > 0).all(axis=1)
        root = vectors / np.sqrt(np.maximum(values, _ALIKE))[:, None, :]
        share, basis = np.linalg.eigh(root.transpose(0, 2, 1) @ scaled[1] @ root)
        usable &= share[:, 0] > 1 - SWAMPED
        full = root @ basis
        h = np.einsum("mij,mi->mj", full, g)
        safe = np.where(share > 1 - SWAMPED, share, 1.0)
        theta = np.einsum("mij,mj->mi", full, h / safe) / scale
        Q = self.q - np.sum(h**2 / safe, axis=1)
        # what is left of a misfit of 1 after its model is rounding
        J = self.misfit(np.maximum(Q, 1e-14 * self.q)) + k * self.price
        return np.where(usable & np.isfinite(J), J, np.inf), theta


def swamped(H: Array, A: Array) -> bool:
    """Whether noise makes up much of a combination of the operators of a model: λ_max(H⁻¹(H − A)) > 1/2."""
    return noise_part(H, A) > SWAMPED


@dataclass(frozen=True, eq=False)
class Ladder:
    """The best model met of each size: model → J, and θ of each."""

    best: dict[int, tuple[float, Model]]

    def add(self, J: Iterable[float], models: Sequence[Model]) -> None:
        """Hear of models of one size."""
        for score, model in zip(J, models, strict=True):
            size = len(model)
            if np.isfinite(score) and (size not in self.best or score < self.best[size][0]):
                self.best[size] = (float(score), model)

    @property
    def chosen(self) -> Model:
        """The model with the lowest J."""
        return min(self.best.values())[1]


def best_models(misfit: QuadraticMisfit, names: tuple[str, ...], protection: Protection) -> Ladder:
    """The best models of every size: all of them where they are few, else by adding, exchanging and dropping."""
    allowed = _Allowed(names, protection)
    ladder = Ladder({})
    size = len(allowed.kept)
    while size <= len(names) and math.comb(len(names) - len(allowed.kept), size - len(allowed.kept)) <= _EXHAUSTIVE:
        models = allowed.of_size(size)
        if models:
            ladder.add(misfit.scores(models), models)
        size += 1
    starts = sorted(ladder.best.values())[:_STARTS] or [(np.inf, allowed.least)]
    for _, model in starts:
        _climb(misfit, allowed, ladder, model)
    _descend(misfit, allowed, ladder, tuple(range(len(names))))
    for size in sorted(ladder.best, reverse=True):  # exchanges may have led past smaller models
        smaller = allowed.reduced(ladder.best[size][1])
        if smaller:
            _best(misfit, ladder, smaller)
    return ladder


def _climb(misfit: QuadraticMisfit, allowed: _Allowed, ladder: Ladder, model: Model) -> None:
    """Add the best operator, exchange while that helps, and go on until J has risen for a while."""
    lowest, rises = np.inf, 0
    while rises < _PATIENCE:
        larger = allowed.enlarged(model)
        if not larger:
            return
        score, model = _best(misfit, ladder, larger)
        while True:
            exchanged = allowed.exchanged(model)
            if not exchanged:
                break
            other, candidate = _best(misfit, ladder, exchanged)
            if other >= score - 1e-9:
                break
            score, model = other, candidate
        if not np.isfinite(score):
            return
        rises = 0 if score < lowest else rises + 1
        lowest = min(lowest, score)


def _descend(misfit: QuadraticMisfit, allowed: _Allowed, ladder: Ladder, model: Model) -> None:
    """Drop the operator that costs least, from the model with all of them, where that can be looked at."""
    if not np.isfinite(misfit.scores([model])[0]):
        return
    while True:
        ladder.add(misfit.scores([model]), [model])
        smaller = allowed.reduced(model)
        if not smaller:
            return
        score, model = _best(misfit, ladder, smaller)
        if not np.isfinite(score):
            return


def _best(misfit: QuadraticMisfit, ladder: Ladder, models: list[Model]) -> tuple[float, Model]:
    J = misfit.scores(models)
    ladder.add(J, models)
    i = int(np.argmin(J))
    return float(J[i]), models[i]


def neighbours(model: Model, names: tuple[str, ...], protection: Protection) -> tuple[list[Model], ...]:
    """Models with one operator less, one more, and one exchanged."""
    allowed = _Allowed(names, protection)
    return allowed.reduced(model), allowed.enlarged(model), allowed.exchanged(model)


class _Allowed:
    """Models that have what is protected, as sorted indices."""

    def __init__(self, names: tuple[str, ...], protection: Protection) -> None:
        self.d = len(names)
        self.kept: Model = tuple(i for i, name in enumerate(names) if name in protection.keep)
        self.groups = [frozenset(i for i, name in enumerate(names) if name in group) for group in protection.groups]

    @property
    def least(self) -> Model:
        """What is kept, and one of every group."""
        model = set(self.kept)
        for group in self.groups:
            model |= set() if group & model else {min(group)}
        return tuple(sorted(model))

    def _fine(self, model: Model) -> bool:
        return bool(model) and all(group & set(model) for group in self.groups)

    def of_size(self, size: int) -> list[Model]:
        rest = [i for i in range(self.d) if i not in self.kept]
        chosen = itertools.combinations(rest, size - len(self.kept))
        return [m for m in (tuple(sorted((*self.kept, *c))) for c in chosen) if self._fine(m)]

    def enlarged(self, model: Model) -> list[Model]:
        return [tuple(sorted((*model, i))) for i in range(self.d) if i not in model]

    def reduced(self, model: Model) -> list[Model]:
        smaller = [tuple(j for j in model if j != i) for i in model if i not in self.kept]
        return [m for m in smaller if self._fine(m)]

    def exchanged(self, model: Model) -> list[Model]:
        others = [
            tuple(sorted((*(j for j in model if j != gone), new)))
            for gone in model
            if gone not in self.kept
            for new in range(self.d)
            if new not in model
        ]
        return [m for m in others if self._fine(m)]
