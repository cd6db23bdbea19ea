"""From tests and comparisons to a verdict.

First the noise by itself: where the data show that it is correlated or grows with the signal, no other test can be
trusted. Then whether anything is wrong with the fit: its misfit, neighbours that are correlated among its residuals,
or a better discretisation, such as wider test functions, that leads elsewhere. Only then why: an estimate that moves
when frames or nodes are left out has too few of them; a misfit that is gone with the noise level that filters measure
comes from the level; a misfit without structure is noise of another kind; what is left is a missing operator.

An estimate that moves when frames or nodes are left out, or with a lower element, is trouble, unless another comparison
speaks for the fit: test functions and Q2 converge so fast that twice the step, or Q1, can be hopeless where the fit is
fine. A "consistent" beside such a rejection names both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bvsi.check.comparison import Comparison
from bvsi.check.noise_tests import SIGNAL, WHITE
from bvsi.check.residual_tests import MISFIT, STRUCTURE, ResidualTest, misfit_test
from bvsi.check.variations import Kind
from bvsi.check.verdict import Verdict

# Levels of the tests: those that start an alarm (about ten of them), and those that tell why once there is one.
_ALARM = 1e-3
_ALONE = 1e-4  # correlation of residuals without any other sign
_WHY = 1e-2
# Noise tests see what signal is left in the data as well, so that they need strong evidence.
_NOISE = 1e-5
# Estimates that move surely with fewer data or a lower element, perhaps with what is better than the fit. Of 90 right
# answers on classic equations, coarse and fine, 2 had a comparison below the first, and both were spoken for.
_SURELY, _PERHAPS = 1e-6, 2e-2
# Frequencies, in cycles per step, beyond which data cannot be, or may not be, resolved.
_UNRESOLVED, _SUSPECT = 0.4, 0.25
# Below this frequency data are resolved, whatever else is wrong.
_FAST = 0.15
# Misfit below which the noise is overstated, whatever else there is.
_FAR_BELOW = 0.5
# Relative error of levels that filters measure, at least.
_FILTER_ERROR = 0.03

_LEFT_OUT: Mapping[Kind, str] = {"time": "frames", "space": "nodes"}

Finding = tuple[Verdict, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that a verdict rests on.

    scale: max(1, χ²/n), by which statistics of comparisons are too large where the model does not fit.
    level_ratio: noise variance by filters relative to that stated; freedom: of the misfit, drawn: whether from draws.
    cycles: highest frequency by axis, cycles per step.
    """

    tests: tuple[ResidualTest, ...]
    comparisons: tuple[Comparison, ...]
    scale: float
    level_ratio: float | None
    freedom: float
    drawn: bool
    noise_error: float
    cycles: Mapping[str, float]

    def named(self, *names: str) -> list[ResidualTest]:
        """Tests whose names begin so."""
        return [test for test in self.tests if test.name.startswith(names)]

    @property
    def untried(self) -> tuple[str, ...]:
        """In which of time and space no other discretisation could be tried."""
        tried = {kind for c in self.comparisons for kind in (c.kind, *c.better)}
        return tuple(kind for kind in ("time", "space") if kind not in tried)

    def of_kind(self, kind: Kind) -> list[Comparison]:
        """Comparisons of a kind."""
        return [one for one in self.comparisons if one.kind == kind]

    def speaks_for(self, one: Comparison) -> Comparison | None:
        """A comparison by which the fit is fine although one with a poorer discretisation moves it.

        What is better than the fit has to agree with it; where an element is the poorer one, the fit's own may agree
        with itself on every second node. Richardson's bias does not count here: test functions converge so fast that
        half of the nodes may be hopeless (Fokker–Planck on 40² nodes: 34 sd, and right).
        """
        better = [c for c in self.comparisons if one.kind in c.better]
        found = self.of_kind("space") if one.kind == "width" else better
        return found[0] if found and all(c.p > _PERHAPS for c in found) else None

    @property
    def rejecting(self) -> list[Comparison]:
        """Comparisons with a poorer discretisation that surely move the estimate."""
        return [one for one in self.comparisons if one.poorer and one.p < _SURELY]


def judge(evidence: Evidence) -> Finding:
    """The verdict and its reasons."""
    noise = [f"{t.name} (p = {t.p:.1g})" for t in evidence.named(WHITE, SIGNAL) if t.p < _NOISE]
    if far := [t for t in evidence.named(MISFIT) if t.statistic < _FAR_BELOW and t.p < _ALARM]:
        return Verdict.NOISE, (f"χ²/n = {far[0].statistic:.3g}", "the noise is much smaller than stated")
    alarms = _alarms(evidence)
    found = _resolution(evidence) if alarms else _rejected(evidence)
    # signal that is not resolved looks like correlated noise, and noise that is correlated moves estimates
    if noise and not (found is not None and _may_be_unresolved(evidence, found[0])):
        return Verdict.NOISE, tuple(noise)
    if not alarms:
        return found or _quiet(evidence)
    if found is not None:
        return found[0], (*alarms, *found[1])
    level = _level(evidence)
    if level is not None:
        return Verdict.NOISE, (*alarms, level)
    structure = [f"{t.name} (p = {t.p:.1g})" for t in evidence.named(*STRUCTURE) if t.p < _WHY]
    better = [c for c in evidence.comparisons if c.better and c.scaled(evidence.scale).p < _ALARM]
    if structure or better:
        left_out = " and ".join(name for kind, name in _LEFT_OUT.items() if evidence.of_kind(kind))
        told = (f"leaving out {left_out} moves the estimate no more than the misfit explains",) if left_out else ()
        return Verdict.OPERATOR, tuple(dict.fromkeys((*alarms, *structure, *told)))
    return Verdict.NOISE, (
        *alarms,
        "the misfit has no structure in space and time, as a missing operator would give it",
    )


def _alarms(evidence: Evidence) -> tuple[str, ...]:
    """Signs that something is wrong with the fit."""
    found = [f"χ²/n = {t.statistic:.3g} (p = {t.p:.1g})" for t in evidence.named(MISFIT) if t.p < _ALARM and t.z > 0]
    found += [f"{t.name} (p = {t.p:.1g})" for t in evidence.named(*STRUCTURE) if t.p < _ALONE]
    moved = [c for c in evidence.comparisons if c.better and c.p < _ALARM]
    return (*found, *(c.told for c in moved))


def _rejected(evidence: Evidence) -> Finding | None:
    """Time or space, where an estimate surely moves with a poorer discretisation and nothing speaks for the fit."""
    alone = [one for one in evidence.rejecting if evidence.speaks_for(one) is None]
    if not alone:
        return None
    worst = max(alone, key=lambda c: c.statistic)
    assert worst.poorer is not None
    against = [c.told for c in evidence.comparisons if worst.poorer in c.better and c.p < _PERHAPS]
    return _verdict(worst.poorer), (worst.told, *(against or ("nothing that was tried speaks for the fit",)))


def _spoken_for(evidence: Evidence) -> tuple[str, ...]:
    """Comparisons that reject a poorer discretisation, each with the one that speaks for the fit."""
    pairs = [(one, evidence.speaks_for(one)) for one in evidence.rejecting]
    return tuple(f"{one.told}, but not with {other.name} (p = {other.p:.1g})" for one, other in pairs if other)


def _quiet(evidence: Evidence) -> Finding:
    """Verdicts that need no alarm: too small a misfit, and data that cannot be resolved."""
    for axis, cycles in evidence.cycles.items():
        kind = _kind(axis)
        if cycles > _UNRESOLVED and not evidence.of_kind(kind):
            return _verdict(kind), (_frequency(axis, cycles), "too few data to try with every second one")
    small = [f"χ²/n = {t.statistic:.3g} (p = {t.p:.1g})" for t in evidence.named(MISFIT) if t.p < _ALARM]
    if small:
        return Verdict.NOISE, (*small, "the noise is smaller than stated")
    return Verdict.CONSISTENT, _spoken_for(evidence)


def _resolution(evidence: Evidence) -> Finding | None:
    """Time or space, whichever moves the estimate more when it is coarser; else one that is at its limit."""
    moved = [(c.poorer, c) for c in evidence.comparisons if c.poorer and c.scaled(evidence.scale).p < _WHY]
    if moved:
        kind, worst = max(moved, key=lambda pair: pair[1].statistic)
        return _verdict(kind), (worst.told,)
    limit = {a: f for a, f in evidence.cycles.items() if f > _SUSPECT and not evidence.of_kind(_kind(a))}
    if limit:
        axis = max(limit, key=lambda a: limit[a])
        return _verdict(_kind(axis)), (_frequency(axis, limit[axis]),)
    return None


def _may_be_unresolved(evidence: Evidence, verdict: Verdict) -> bool:
    """Whether the data vary fast enough along an axis of that kind; so it is taken where that is not known."""
    cycles = [f for axis, f in evidence.cycles.items() if _verdict(_kind(axis)) is verdict]
    return not cycles or max(cycles) > _FAST


def _level(evidence: Evidence) -> str | None:
    """Whether the misfit is that of the noise level which filters measure."""
    (misfit,) = evidence.named(MISFIT) or (None,)
    if misfit is None or evidence.level_ratio is None or not misfit.p < _ALARM:
        return None
    error = max(evidence.noise_error, _FILTER_ERROR)
    again = misfit_test(misfit.statistic / evidence.level_ratio, evidence.freedom, error, drawn=evidence.drawn)
    if again.p < _ALARM:
        return None
    return f"filters measure {evidence.level_ratio**0.5:.3g} times the noise level that is stated"


def _verdict(kind: Kind) -> Verdict:
    return Verdict.TIME if kind == "time" else Verdict.SPACE


def _kind(axis: str) -> Kind:
    return "time" if axis == "time" else "space"


def _frequency(axis: str, cycles: float) -> str:
    return f"along {axis} the data vary with up to {cycles:.2g} cycles per step, and 0.5 is the limit of the sampling"
