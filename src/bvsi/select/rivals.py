"""Models near the selected one that the data support as well: whether the selection is decided.

    c_u(X) = θ_Xᵀ [(D P D)_XX]⁻¹ θ_X − |X| log n,          D_ii² = max(1, V_ii/P_ii)
    J(s − R + N) − J(s) = c_u(R) − c_u(N),   u = s + N

c_u(X) is what the criterion grows by when the operators X go from model u, whose θ, P = A⁻¹ and V come from the
quadratic model of the misfit; D takes down the support of operators on which the blocks disagree more than the
curvature says. exp(½ΔJ) are the odds of the selected model s over one with up to two operators R less and N more.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import RankError
from bvsi.infer.solve import factorise
from bvsi.select.elimination import Protection
from bvsi.select.quadratic import Expansion

Array = NDArray[np.float64]

ODDS = 20.0
"""Odds below which a rival is worth naming."""

ODDS_OF_MORE = 3.0
"""The same for models that only have operators more: useless ones have odds of up to n^½, the price of an operator."""

SWAMPED = 0.5
"""Share of noise in the best measured combination of operators beyond which no selection is to be trusted."""

_MAX_ENLARGED = 300
_NAMED = 3


@dataclass(frozen=True)
class Rival:
    """Another model: operators it lacks and has beyond the selected one, and the odds of the selected one over it."""

    lacks: tuple[str, ...]
    adds: tuple[str, ...]
    odds: float

    def __str__(self) -> str:
        change = [*(f"without {name}" for name in self.lacks), *(f"with {name}" for name in self.adds)]
        return f"{', '.join(change)} ({self.odds:.2g} : 1)"


def find_rivals(expansion: Expansion, selected: tuple[str, ...], protection: Protection) -> tuple[Rival, ...]:
    """Rivals of the selected model with odds below ``ODDS``, the strongest first."""
    names = expansion.likelihood.names
    absent = [name for name in names if name not in selected]
    free = [name for name in selected if name not in protection.keep]
    reach = 2 if math.comb(len(absent) + 1, 2) <= _MAX_ENLARGED else 1
    found = []
    for added in (n for size in range(reach + 1) for n in itertools.combinations(absent, size)):
        union = tuple(name for name in names if name in selected or name in added)
        cost = _Removal.of(expansion, union)
        back = cost(added)
        for gone in (r for size in range(reach + 1) for r in itertools.combinations(free, size)):
            change = cost(gone) - back
            kept = set(union) - set(gone)
            odds = ODDS if gone else ODDS_OF_MORE
            if change < 2 * math.log(odds) and (gone or added) and kept and all(g & kept for g in protection.groups):
                found.append(Rival(gone, added, math.exp(min(0.5 * change, 50.0))))
    return tuple(sorted(found, key=lambda rival: rival.odds))


@dataclass(frozen=True, eq=False)
class _Removal:
    """c_u(X) of one model u, for up to two operators X.

    theta: (d,); covariance: D P D (d, d).
    """

    at: dict[str, int]
    theta: Array
    covariance: Array
    log_n: float

    @staticmethod
    def of(expansion: Expansion, names: tuple[str, ...]) -> _Removal:
        model = expansion.submodel(names)
        P = expansion.scale(model.q) * model.inverse
        inflation = np.sqrt(np.maximum(1.0, model.variance / np.diag(P)))
        at = {name: i for i, name in enumerate(names)}
        return _Removal(at, model.theta, inflation[:, None] * P * inflation, math.log(model.n))

    def __call__(self, gone: tuple[str, ...]) -> float:
        x = [self.at[name] for name in gone]
        theta, V = self.theta[x], self.covariance[np.ix_(x, x)]
        if len(x) == 1:
            return float(theta[0] ** 2 / V[0, 0]) - self.log_n
        if len(x) == 2:
            top = V[1, 1] * theta[0] ** 2 - 2 * V[0, 1] * theta[0] * theta[1] + V[0, 0] * theta[1] ** 2
            return float(top / (V[0, 0] * V[1, 1] - V[0, 1] ** 2)) - 2 * self.log_n
        return 0.0


def noise_share(expansion: Expansion) -> float:
    """λ_max(H⁻¹ σ²N): how much of the best hidden combination of operators is noise."""
    return noise_part(expansion.equations.H, expansion.curvature.A)


def noise_part(H: Array, A: Array) -> float:
    """λ_max(H⁻¹(H − A)), A being H without what noise adds to it; one where H is singular."""
    try:
        inverse = factorise(H, tuple(map(str, range(len(H))))).inverse()  # no names: the error is not shown
    except (RankError, np.linalg.LinAlgError):
        return 1.0
    return float(np.linalg.eigvals(inverse @ (H - A)).real.max())


def doubts(expansion: Expansion, selected: tuple[str, ...], protection: Protection) -> str:
    """Why the selection is not decided; empty where it is."""
    share = noise_share(expansion)
    if share > SWAMPED:
        return (
            f"Not decided: noise makes up {min(share, 1.0):.0%} of a combination of the operators, so that the data "
            "cannot tell them apart. Use fewer candidates, less noise or more data."
        )
    return rivals_text(find_rivals(expansion, selected, protection))


def rivals_text(rivals: tuple[Rival, ...]) -> str:
    """What is said about models that are nearly as good; empty where there are none."""
    if not rivals:
        return ""
    named = "; ".join(str(rival) for rival in rivals[:_NAMED])
    more = f"; and {len(rivals) - _NAMED} more" if len(rivals) > _NAMED else ""
    return f"Not decided: nearly as good, or better, by the odds given, are the models {named}{more}."
