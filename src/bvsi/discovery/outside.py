"""What usual operators that the library lacks say of the answer: which is missing, and which may be in its place.

    gain = n (χ²/n − χ²'/n) + price (k − k')

is by how much a model with k' operators, some of them from outside, has a lower score than the selected one with k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bvsi.check import ADVICE, Check, Verdict
from bvsi.check.variations import with_plain_operators
from bvsi.errors import BvsiError
from bvsi.infer.fit import OPEN, misfit_excess, open_margins
from bvsi.infer.posteriors import Posterior
from bvsi.select import SelectionPath
from bvsi.select.path import Visited
from bvsi.setup import Setup

# p-value of an operator outside the library below which the selection is made with the usual ones: duffing oscillators
# without x had x³ and x⁵ in its place, 59 standard deviations off, and p = 0.04.
_DOUBTED = 0.05
# Correlation of two coefficients beyond which others may stand for their operators: that of x³ and x⁵ in duffing
# oscillators without x was 0.9995 or more, of Fisher equations 0.97 to 0.993, of all others less than 0.97.
_ALIKE = 0.995

Search = Callable[[Setup, bool], SelectionPath]
"""The selection with other candidates, and whether rivals of what it finds are wanted."""


@dataclass(frozen=True)
class Outside:
    """What the selection finds where the usual operators are candidates too.

    Attributes
    ----------
    new
        Operators among it that the library lacks.
    gain
        By how much its score is lower than that of the selected model.
    margins
        Of operators that the library lacks, as in :class:`~bvsi.select.SelectionPath`.
    """

    best: Visited
    new: tuple[str, ...]
    gain: float
    margins: Mapping[str, float]

    def __str__(self) -> str:
        model = f"{' + '.join(self.best.names)} (χ²/n = {self.best.chi2:.3g})"
        return f"{model}, of which the library lacks {' and '.join(self.new)}"

    @staticmethod
    def of(setup: Setup, path: SelectionPath, search: Search, *, rivals: bool) -> Outside | None:
        """None where the library has all usual operators, or they are more than test functions carry."""
        try:
            if (more := with_plain_operators(setup, setup.library.names)) is None:
                return None
            found = search(more, rivals)
        except BvsiError:
            return None
        best, own = found.best, path.best
        have = {(o.equation, o.syntax.text) for o in setup.library.operators}
        lacking = {o.name: str(o.source) for o in more.library.operators if (o.equation, o.syntax.text) not in have}
        n = [v.fit.equations.n for v in (best, own) if v.fit is not None]
        gain = 0.0
        if len(n) == 2 and n[0] == n[1] and found.price is not None:
            gain = n[0] * (own.chi2 - best.chi2) + found.price * (len(own.names) - len(best.names))
        margins = {text: found.margins[name] for name, text in lacking.items() if name in found.margins}
        return Outside(best, tuple(text for name, text in lacking.items() if name in best.names), gain, margins)


def with_outside(
    judged: Check,
    setup: Setup,
    path: SelectionPath,
    posterior: Posterior | None,
    search: Search,
    *,
    n: int,
    odds: float = OPEN,
) -> Check:
    """The check with what the usual operators say of its verdict.

    Of a missing operator: which one it is. Of a consistent model for which an operator outside has a low p-value: a
    better one. Where two operators of it are hardly distinguished: others that explain the data as well.

    Parameters
    ----------
    n
        Residuals.
    odds
        Of the selected model over others, below which it is not decided; with one or less nothing is asked of a
        consistent model.
    """
    if judged.verdict is Verdict.OPERATOR:
        found = Outside.of(setup, path, search, rivals=False)
        told = None if found is None else _missing(found, path, n)
        return judged if told is None else replace(judged, reasons=(told, *judged.reasons))
    alike = _alike(posterior)
    doubted = any(test.kind == "missing" and test.p < _DOUBTED for test in judged.tests)
    if judged.verdict is not Verdict.CONSISTENT or not (alike or doubted) or odds <= 1:
        return judged
    found = Outside.of(setup, path, search, rivals=alike)
    if found is None:
        return judged
    own = f"with odds of {math.exp(np.clip(0.5 * found.gain, -99.0, 99.0)):.2g} : 1"
    if found.new and found.gain > 2 * math.log(odds):
        reasons: tuple[str, ...] = (f"{found}, explains the data better, {own}",)
        return replace(judged, verdict=Verdict.OPERATOR, advice=ADVICE[Verdict.OPERATOR], reasons=reasons)
    if not alike:
        return judged
    if found.new:
        reasons = (f"{found}, explains the data as well, {own}",)
    else:
        close = open_margins(found.margins, odds)
        reasons = tuple(f"a model with {name}, which the library lacks, explains the data as well" for name in close)
    undecided = replace(judged, verdict=Verdict.UNDECIDED, advice=ADVICE[Verdict.UNDECIDED], reasons=reasons)
    return undecided if reasons else judged


def _missing(found: Outside, path: SelectionPath, n: int) -> str | None:
    """Which operator is missing, or that no usual one is."""
    if misfit_excess(found.best.chi2, n) and misfit_excess(path.best.chi2, n):
        return (
            f"outside the library's form: with the usual operators that it lacks χ²/n is {found.best.chi2:.3g}; "
            "perhaps the time derivative is another one (time_order=2), a source or a coefficient varies, or a number "
            "inside an operator is unknown"
        )
    return f"noise explains the data with {found}" if found.new else None


def _alike(posterior: Posterior | None) -> bool:
    """Whether the data hardly distinguish two of the operators."""
    if posterior is None or len(posterior.mean) < 2:
        return False
    sd = np.sqrt(np.maximum(np.diag(posterior.covariance), np.finfo(float).tiny))
    correlation = np.abs(posterior.covariance / np.outer(sd, sd))
    return bool(np.max(correlation - np.eye(len(sd))) > _ALIKE)
