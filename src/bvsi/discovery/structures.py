"""Probabilities of structures in residual space, from the scores of models that the selection compared.

    P(m) ∝ exp(−½ J_m),    J_m = Q_m + k_m p,    p = log n + 2 log w − 2 log o

Q + k log n is −2 log p(data | m) by Laplace's rule with a prior of the coefficients that says as much as one of the n
residuals; with standard deviations w times as wide it costs 2 log w more by operator. o are the odds of each operator
beforehand: one for BIC, 1/d for extended BIC, which looks among d candidates. A model without the operators R of the
selected one is not worse by more than the posterior says, bias included:

    Q_m − Q ≤ θ_Rᵀ V_RR⁻¹ θ_R

so that probabilities agree with error bars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from bvsi.common.arrays import Array
from bvsi.common.naming import without_equation
from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior, Posterior
from bvsi.operators.syntax import read_or_none
from bvsi.predict.mixture import Mixture

if TYPE_CHECKING:
    from bvsi.discovery.result import Discovery

# 1 − ρ² of coefficients that equalities tie together, which go together.
_TIED = 1e-9
_MOST_PAIRS = 30  # operators of which all pairs are looked at


def structures_of(found: Discovery, wider: float = 1.0, odds: float | None = None) -> Mixture:
    """The selected model, those that were compared with it, and those without one or two of its operators.

    Parameters
    ----------
    wider
        Factor on the standard deviations of the prior of the coefficients.
    odds
        Of each operator beforehand; by default those of the criterion.
    """
    if not (wider > 0 and (odds is None or odds > 0)):
        raise BvsiError(f"wider, odds: positive numbers are needed; got {wider} and {odds}.")
    own, price = _operators(found), price_of(found)
    selected, inside = frozenset(own), inside_of(found)

    def size(names: Iterable[str]) -> int:
        """Operators, and parameters that stand in them."""
        chosen = set(names)
        return len(chosen) + sum(bool(there & chosen) for there in inside.values())

    at = np.array([found.names.index(name) for name in own], dtype=int)
    theta, V = found.theta[at], found.posterior.covariance[np.ix_(at, at)]
    rises, laws = {selected: 0.0}, dict[frozenset[str], Posterior | None]({selected: found.posterior})
    for gone in _removals(V):
        left = selected - {own[i] for i in gone}
        rises[left] = _wald(theta, V, gone) + price * (size(left) - size(own))
        laws[left] = _without(found.posterior, {own[i] for i in gone}) if left else None
    widened = _Widened(found)
    for model in found.path.compared if widened.serves else ():
        key = frozenset(model.names)
        gone = [i for i, name in enumerate(own) if name not in key]
        most = _wald(theta, V, gone) + price * (size(key) - size(own)) if gone else np.inf
        rises[key] = min(max(model.rise, 0.0), most) if key != selected else 0.0
        laws.setdefault(key, widened.of(model.names, model.theta, model.covariance))
    usual = math.exp(-0.5 * (price - math.log(found.residuals)))
    change = 2 * math.log(wider) - 2 * math.log((usual if odds is None else odds) / usual)
    J = np.array([rise + change * (size(key) - size(own)) for key, rise in rises.items()])
    weights = np.exp(-0.5 * (J - J.min()))
    order = np.argsort(-weights, kind="stable")
    keys = [list(rises)[i] for i in order]
    names = tuple(tuple(sorted(key, key=[*found.candidates, *own].index)) for key in keys)
    return Mixture(found.candidates, names, weights[order] / weights.sum(), tuple(laws[key] for key in keys))


def price_of(found: Discovery) -> float:
    """By how much an operator raises the score of a model: that of the criterion, or of BIC."""
    return math.log(found.residuals) if found.path.price is None else found.path.price


def _operators(found: Discovery) -> list[str]:
    """Selected operators with a coefficient."""
    return [found.names[i] for i in found.shown if found.names[i] not in found.parameters]


def inside_of(found: Discovery) -> dict[str, set[str]]:
    """Operators by the parameters that stand in them."""
    texts = {o: read_or_none(found.texts.get(o, without_equation(o))) for o in _operators(found)}
    return {
        name: {o for o, syntax in texts.items() if syntax and without_equation(name) in syntax.names}
        for name in found.parameters
    }


def _removals(V: Array) -> list[list[int]]:
    """One or two operators; not two that are tied."""
    d = len(V)
    pairs = combinations(range(d), 2) if d <= _MOST_PAIRS else ()
    free = [[i, j] for i, j in pairs if V[i, j] ** 2 < (1 - _TIED) * V[i, i] * V[j, j]]
    return [*([i] for i in range(d)), *free]


def _wald(theta: Array, V: Array, gone: list[int]) -> float:
    """θ_Rᵀ V_RR⁻¹ θ_R; infinite for coefficients without any error."""
    sd = np.sqrt(np.diag(V)[gone])
    if not np.all(sd > 0):
        return np.inf
    z = theta[gone] / sd
    return float(z @ np.linalg.lstsq(V[np.ix_(gone, gone)] / np.outer(sd, sd), z, rcond=None)[0])


def _without(posterior: Posterior, gone: set[str]) -> GaussianPosterior:
    """The posterior of all other coefficients where some are zero."""
    out = np.array([name in gone for name in posterior.names])
    V, mean = posterior.covariance, posterior.mean
    onto = V[np.ix_(~out, out)] @ np.linalg.pinv(V[np.ix_(out, out)], hermitian=True)
    names = tuple(name for name in posterior.names if name not in gone)
    return GaussianPosterior(names, mean[~out] - onto @ mean[out], V[np.ix_(~out, ~out)] - onto @ V[np.ix_(out, ~out)])


class _Widened:
    """Covariances on a misfit, made wider as the posterior of the selected model is than its own there."""

    def __init__(self, found: Discovery) -> None:
        own, compared = _operators(found), found.path.compared
        #: Whether the models were compared with the one that was selected in the end.
        self.serves = bool(compared) and set(compared[0].names) == set(own)
        if self.serves:
            there = dict(zip(compared[0].names, np.sqrt(np.diag(compared[0].covariance)), strict=True))
            here = dict(zip(found.names, found.sd, strict=True))
            self._ratios = {name: max(1.0, float(here[name] / there[name])) for name in own if there[name] > 0}

    def of(self, names: tuple[str, ...], theta: Array, covariance: Array) -> GaussianPosterior:
        """The law of a model; operators beside the selected ones are as much wider as these are on average."""
        usual = float(np.mean(list(self._ratios.values()) or [1.0]))
        by = np.array([self._ratios.get(name, usual) for name in names])
        return GaussianPosterior(names, theta, covariance * np.outer(by, by))
