"""The verdict of a check: from tests and comparisons to what is wrong, and what to do about it.

First the noise by itself: where the data show that it is correlated, uneven or grows with the signal, no other test can
be trusted. Then whether anything is wrong with the fit: its misfit, neighbours that are correlated among its residuals,
or a better discretisation, such as wider test functions, that leads elsewhere. Only then why: an estimate that moves
when frames or nodes are left out has too few of them; a misfit that is gone with the noise level that filters measure
comes from the level; a misfit without structure is noise of another kind; what is left is a missing operator.

Of data without noise tests against noise mean nothing: what discretisations move, and what stays unexplained, decides.
Where nothing is wrong with the fit the equation may still explain next to none of the change, have no solution forward
in time, or be one of several that explain the data.

An estimate that moves when frames or nodes are left out, or with a lower element, is trouble, unless another comparison
speaks for the fit: test functions and Q2 converge so fast that twice the step, or Q1, can be hopeless where the fit is
fine. A "consistent" beside such a rejection names both.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from bvsi.check.comparison import LEVELS, CheckLevels, Comparison, chance, poorer
from bvsi.check.residual_tests import ResidualTest, TestKind, misfit_test
from bvsi.check.variations import Kind
from bvsi.infer.fit import open_margins


class Verdict(enum.Enum):
    """What a check of a fit found."""

    CONSISTENT = "consistent"
    NOISE = "noise model wrong"
    TIME = "under-resolved in time"
    SPACE = "under-resolved in space"
    OPERATOR = "missing operator"
    ILL_POSED = "ill-posed as an evolution equation"
    UNDECIDED = "not decided"
    NOTHING = "nothing found"

    def __str__(self) -> str:
        return self.value


ADVICE = {
    Verdict.CONSISTENT: "Nothing to do: the equation explains the data up to their noise.",
    Verdict.NOISE: (
        "Do not trust the error bars. Leave the noise out, so that it is measured, or state what fits the data: "
        "PerField() for another level, Diagonal() where it varies, SignalNoise() where it grows with the signal, "
        "Blurred() or Covariance() where it is correlated. Several measurements give it: "
        "bvsi.noise.from_replicates(...)."
    ),
    Verdict.TIME: (
        "Do not trust the coefficients. Give more frames per unit of time; without them, use wider test functions in "
        "time, TemporalTests(gap=...) or time_gap in a study, or drop the times where the fields change fastest. "
        "Forward solves need fewer frames: found.refine(data, library), or [refine] in a study."
    ),
    Verdict.SPACE: (
        "Do not trust the coefficients. Give data on a finer grid; without them, use wider test functions, "
        "SplineTests(gap=...) or gap in a study, or a higher element, Galerkin(Q2), or leave out the places with the "
        "steepest fields. Where the operators are known, forward solves need fewer sensors: found.refine(data, "
        "library, on=mesh), or [refine] on in a study, with a mesh of the domain."
    ),
    Verdict.OPERATOR: (
        "Do not trust the coefficients. Add operators to the library, such as one that is named here: the "
        "misfit is more than noise, and it does not come from the resolution of the data."
    ),
    Verdict.ILL_POSED: (
        "Do not trust the equation: short waves grow without bound, so that it cannot be solved forward in time. The "
        "data do not determine its highest derivative, or one of higher order is missing; give more or better data, "
        "other operators, or a constraint such as 'laplacian(u) > 0'."
    ),
    Verdict.UNDECIDED: (
        "Do not trust the choice of operators: the equation explains the data, but so do others. Give more data, less "
        "noise or fewer candidates, or name the operators that you know to be there with keep=[...]."
    ),
    Verdict.NOTHING: (
        "Do not trust the equation: it explains next to none of the change in time, which the noise of its operators "
        "hides from it. Give other candidates, fewer of them, less noise, or more data."
    ),
}
"""What to do, one or two sentences."""


_FEW = (
    "The equation explains the data up to their noise, but {freedom:.0f} degrees of freedom say little: error bars "
    "rest on the noise level that was measured or stated. Give more frames or nodes before you rely on them."
)
# Degrees of freedom below which a misfit is hardly known: with 10 its standard deviation is 45%.
_FEWEST = 10.0

_UNTRIED = {
    Verdict.CONSISTENT: "The equation explains the data up to their noise, but the data are too few to leave out every "
    "second frame or node, so that the resolution in {where} is not checked: compare with finer data before you trust "
    "the error bars.",
    Verdict.OPERATOR: "Do not trust the coefficients: the misfit is more than noise. Either the library lacks an "
    "operator, or the data are too coarse in {where}, which could not be tested; give finer data, or more "
    "operators. Where the operators are known, forward solves need fewer data: found.refine(data, library, on=mesh).",
}


_OPEN = (
    "Do not trust what the data leave open: the equation explains the data, but other values of its parameters, or "
    "other operators, do so as well. Give more data, less noise, narrower bounds, or what is known, as a prior."
)

_MEASURED = (
    "Do not trust the error bars: the noise is not what filters take it for. State it: {causes}; for data without "
    "noise, how far they can be trusted, such as IID(1e-6). Several measurements give it: "
    "bvsi.noise.from_replicates(...)."
)
_STATED = (
    "Do not trust the error bars. Leave the noise out, so that it is measured, or state what fits the data: {causes}. "
    "Several measurements give it: bvsi.noise.from_replicates(...)."
)
# What to state by the test that found it; where none did, it is the level.
_CAUSES: Mapping[TestKind, str] = {
    "white": "bvsi.noise.Blurred(level, {'x': width}) where neighbours are alike, or Covariance(matrix)",
    "signal": "bvsi.noise.SignalNoise(b=...) for counts, SignalNoise(a=..., c=...) where it is a part of the signal",
    "level": "Diagonal({'u': sigma}) with a standard deviation per node, or per time and node",
}
_LEVEL = "PerField() for another level, Diagonal() where it varies"

# Frames below which temporal test functions have no room, so that the weak form differences the data in time.
ENOUGH_FRAMES = 12
_FORWARD = "With {frames} frames, compare by forward solves: found.refine(data, library), or [refine] in a study."
_BY_FORWARD_SOLVES = (Verdict.TIME, Verdict.OPERATOR, Verdict.ILL_POSED, Verdict.UNDECIDED, Verdict.NOTHING)
_NO_NOISE = (
    "Nothing to do: the equation explains the data. They have no noise to speak of, so that the error bars are those "
    "of the discretisation."
)


def advice_for(verdict: Verdict, evidence: Evidence) -> str:
    """What to do; with few frames forward solves, where it is about operators or the resolution in time."""
    advice, frames = _advice(verdict, evidence), evidence.frames
    if frames is None or frames >= ENOUGH_FRAMES or verdict not in _BY_FORWARD_SOLVES or "found.refine(" in advice:
        return advice
    return f"{advice} {_FORWARD.format(frames=frames)}"


def _advice(verdict: Verdict, evidence: Evidence) -> str:
    """What to do; other words where something could not be tried, residuals are few, or by the cause in the noise."""
    untried = evidence.untried
    if evidence.clean is not None and verdict is not Verdict.UNDECIDED:
        return _NO_NOISE if verdict is Verdict.CONSISTENT else ADVICE[verdict]
    if verdict is Verdict.NOISE:
        found = {t.kind for t in evidence.of_test("white", "signal", "level") if t.p < evidence.levels.noise}
        causes = ", ".join(told for kind, told in _CAUSES.items() if kind in found) or _LEVEL
        return (_MEASURED if evidence.noise_error > 0 else _STATED).format(causes=causes)
    if verdict is Verdict.UNDECIDED and evidence.open:
        return _OPEN
    if verdict is Verdict.CONSISTENT and evidence.freedom < _FEWEST and not untried:
        return _FEW.format(freedom=evidence.freedom)
    return _UNTRIED[verdict].format(where=" and ".join(untried)) if untried and verdict in _UNTRIED else ADVICE[verdict]


_LEFT_OUT: Mapping[Kind, str] = {"time": "frames", "space": "nodes"}

Finding = tuple[Verdict, tuple[str, ...]]


@dataclass(frozen=True)
class Clean:
    """Evidence on a fit to data without noise.

    Attributes
    ----------
    unexplained
        Σ r² / Σ y².
    moved
        max_i |Δ_i| ‖X_i‖/‖y‖ by another discretisation of a kind, Δ the bias that it shows.
    """

    unexplained: float
    moved: Mapping[Kind, float]


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that a verdict rests on.

    Attributes
    ----------
    scale
        max(1, χ²/n), by which statistics of comparisons are too large where the model does not fit.
    level_ratio
        Noise variance by filters relative to that stated.
    freedom
        Freedom of the misfit, drawn: whether from draws.
    cycles
        Highest frequency by axis, cycles per step.
    axes
        What can be resolved at all: series have no space, steady problems no time.
    names, margins
        Operators of the fit, and those of :class:`~bvsi.select.SelectionPath`.
    seen
        Part of the signal in the time terms that the weights of the fit see.
    grows
        Whether short waves grow without bound.
    clean
        Of data without noise, None for all others.
    open
        What the data leave open of parameters inside operators, in words.
    frames
        Those of the shortest experiment; None where forward solves cannot take its equation.
    """

    tests: tuple[ResidualTest, ...]
    comparisons: tuple[Comparison, ...]
    scale: float
    level_ratio: float | None
    freedom: float
    drawn: bool
    noise_error: float
    cycles: Mapping[str, float]
    levels: CheckLevels = LEVELS
    axes: tuple[Kind, ...] = ("time", "space")
    names: tuple[str, ...] = ()
    margins: Mapping[str, float] = field(default_factory=dict)
    seen: float = 1.0
    grows: bool = False
    clean: Clean | None = None
    open: tuple[str, ...] = ()
    frames: int | None = None

    def of_test(self, *kinds: TestKind) -> list[ResidualTest]:
        """Tests of some kinds."""
        return [test for test in self.tests if test.kind in kinds]

    @property
    def untried(self) -> tuple[str, ...]:
        """In which of time and space no other discretisation could be tried."""
        tried = {kind for c in self.comparisons for kind in (c.kind, *c.better)}
        return tuple(kind for kind in self.axes if kind not in tried)

    def of_kind(self, kind: Kind) -> list[Comparison]:
        """Comparisons of a kind."""
        return [one for one in self.comparisons if one.kind == kind]

    def sampled_anew(self, kind: Kind) -> bool:
        """Whether some data were left out; splines of another degree on all frames do not see waves that turn twice."""
        return any(not (one.measured or one.better) for one in self.of_kind(kind))

    def speaks_for(self, one: Comparison) -> Comparison | None:
        """A comparison by which the fit is fine although one with a poorer discretisation moves it.

        What is better than the fit has to agree with it; where an element is the poorer one, the fit's own may agree
        with itself on every second node. Richardson's bias does not count here: test functions converge so fast that
        half of the nodes may be hopeless (Fokker–Planck on 40² nodes: 34 sd, and right).
        """
        better = [c for c in self.comparisons if one.kind in c.better]
        found = self.of_kind("space") if one.kind == "width" else better
        if not found and one.kind == "space" and not one.whole:  # a poorer fit of the same nodes leads to the same
            found = [c for c in self.comparisons if c.whole]
        return found[0] if found and all(c.p > self.levels.perhaps for c in found) else None

    @property
    def rejecting(self) -> list[Comparison]:
        """Comparisons with a poorer discretisation that surely move the estimate."""
        return [one for one in self.comparisons if poorer(one) and one.p < self.levels.surely]


def judge(evidence: Evidence) -> Finding:
    """The verdict and its reasons."""
    if evidence.clean is None and evidence.seen < evidence.levels.seen:
        return Verdict.NOTHING, (f"its weights see {max(evidence.seen, 0.0):.1%} of the signal in the time terms",)
    verdict, reasons = _of_noise(evidence) if evidence.clean is None else _of_clean(evidence.clean, evidence.levels)
    if verdict is not Verdict.CONSISTENT:
        return verdict, reasons
    if evidence.grows:
        return Verdict.ILL_POSED, ("waves shorter than the spacing of the nodes grow faster the shorter they are",)
    if rivals := (*_rivals(evidence), *evidence.open):
        limit = _at_limit(evidence) if evidence.clean is None else None
        return (limit[0], (*rivals, *limit[1])) if limit is not None else (Verdict.UNDECIDED, rivals)
    return verdict, reasons


def _rivals(evidence: Evidence) -> tuple[str, ...]:
    """Operators that others may stand for, or that may be missing, in words."""
    close = open_margins(evidence.margins, evidence.levels.odds)
    outside: list[str] = []
    if evidence.clean is None:  # those that are no alarm by themselves
        outside = [f"{t.name} ({chance(t.p)})" for t in evidence.of_test("missing") if t.p < evidence.levels.alarm]
    else:  # odds are those of noise; what cannot be distinguished at all stays so
        close = {name: m for name, m in close.items() if name not in evidence.names and m == 0}
    odds = (
        f"the best model {'without' if name in evidence.names else 'with'} {name} has odds of {_odds(margin)}"
        for name, margin in close.items()
    )
    return (*odds, *outside)


def _odds(margin: float) -> str:
    """Odds of another model over the selected one, whose score is lower by the margin."""
    return f"1 : {math.exp(0.5 * margin):.2g}" if margin >= 0 else f"{math.exp(-0.5 * margin):.2g} : 1"


def _of_clean(clean: Clean, levels: CheckLevels) -> Finding:
    """The verdict on a fit to data without noise."""
    reasons: tuple[str, ...] = ("filters find no noise",)
    if clean.unexplained > levels.unexplained:
        return Verdict.OPERATOR, (*reasons, f"{clean.unexplained:.1%} of the left side stay unexplained")
    for kind, moved in sorted(clean.moved.items(), key=lambda one: -one[1])[:1]:
        if moved > levels.bias:
            return _verdict(kind), (*reasons, f"other discretisations move the right side by {moved:.1%}")
    return Verdict.CONSISTENT, reasons


def _of_noise(evidence: Evidence) -> Finding:
    """The verdict on a fit to data with noise, whatever other models there are."""
    levels = evidence.levels
    noise = [f"{t.name} ({chance(t.p)})" for t in evidence.of_test("white", "signal", "level") if t.p < levels.noise]
    if far := [t for t in evidence.of_test("misfit") if t.statistic < levels.far_below and t.p < levels.alarm]:
        return Verdict.NOISE, (_misfit(far[0]), "the noise is much smaller than stated")
    alarms = _alarms(evidence)
    found = _resolution(evidence) if alarms else _rejected(evidence)
    # signal that is not resolved looks like correlated noise, and noise that is correlated moves estimates
    if noise and not (found is not None and _may_be_unresolved(evidence, found[0])):
        return Verdict.NOISE, tuple(noise)
    if not alarms:
        return found or _quiet(evidence)
    # a wrong equation moves with every discretisation, by more than its misfit says
    if found is not None and _may_be_unresolved(evidence, found[0]):
        return found[0], (*alarms, *found[1])
    level = _level(evidence)
    if level is not None:
        return Verdict.NOISE, (*alarms, level)
    structure = [f"{t.name} ({chance(t.p)})" for t in evidence.of_test("missing", "structure") if t.p < levels.why]
    better = [c for c in evidence.comparisons if c.better and c.scaled(evidence.scale).p < levels.alarm]
    if structure or better:
        left_out = " and ".join(name for kind, name in _LEFT_OUT.items() if evidence.of_kind(kind))
        left = (f"leaving out {left_out} moves the estimate no more than the misfit explains",) if left_out else ()
        return Verdict.OPERATOR, tuple(dict.fromkeys((*alarms, *structure, *left)))
    return Verdict.NOISE, (
        *alarms,
        "the misfit has no structure in space and time, as a missing operator would give it",
    )


def _alarms(evidence: Evidence) -> tuple[str, ...]:
    """Signs that something is wrong with the fit."""
    levels = evidence.levels
    found = [f"{t.name} ({chance(t.p)})" for t in evidence.of_test("missing") if t.p < levels.alone]
    found += [_misfit(t) for t in evidence.of_test("misfit") if t.p < levels.alarm and t.z > 0]
    found += [f"{t.name} ({chance(t.p)})" for t in evidence.of_test("structure") if t.p < levels.drawn]
    moved = [c for c in evidence.comparisons if c.better and c.p < levels.alarm]
    return (*found, *(c.summary for c in moved))


def _misfit(test: ResidualTest) -> str:
    """The misfit in words; per degree of freedom, of which there are fewer than the n of χ²/n."""
    return f"{test.name} {test.statistic:.3g} ({chance(test.p)})"


def _rejected(evidence: Evidence) -> Finding | None:
    """Time or space, where an estimate surely moves with a poorer discretisation and nothing speaks for the fit."""
    levels = evidence.levels
    alone = [one for one in evidence.rejecting if evidence.speaks_for(one) is None]
    if not alone:
        return None
    worst = max(alone, key=lambda c: c.statistic)
    kind = poorer(worst)
    assert kind is not None
    against = [c.summary for c in evidence.comparisons if kind in c.better and c.p < levels.perhaps]
    return _verdict(kind), (worst.summary, *(against or ("no other comparison supports the fit",)))


def _spoken_for(evidence: Evidence) -> tuple[str, ...]:
    """Comparisons that reject a poorer discretisation, each with the one that speaks for the fit."""
    pairs = [(one, evidence.speaks_for(one)) for one in evidence.rejecting]
    return tuple(f"{one.summary}, but not with {other.name} ({chance(other.p)})" for one, other in pairs if other)


def _quiet(evidence: Evidence) -> Finding:
    """Verdicts that need no alarm: too small a misfit, and data that cannot be resolved."""
    levels = evidence.levels
    for axis, cycles in evidence.cycles.items():
        kind = _kind(axis)
        if cycles > levels.unresolved and not evidence.sampled_anew(kind):
            return _verdict(kind), (_frequency(axis, cycles), "too few data to leave out every second frame or node")
    small = [_misfit(t) for t in evidence.of_test("misfit") if t.p < levels.alarm]
    if small:
        return Verdict.NOISE, (*small, "the noise is smaller than stated")
    return Verdict.CONSISTENT, _spoken_for(evidence)


def _resolution(evidence: Evidence) -> Finding | None:
    """Time or space, whichever moves the estimate more when it is coarser; else one that is at its limit."""
    levels = evidence.levels
    found = [(kind, c) for c in evidence.comparisons if (kind := poorer(c)) is not None]
    moved = [(kind, c) for kind, c in found if c.scaled(evidence.scale).p < levels.why]
    if moved:
        kind, worst = max(moved, key=lambda pair: pair[1].statistic)
        return _verdict(kind), (worst.summary,)
    return _at_limit(evidence)


def _at_limit(evidence: Evidence) -> Finding | None:
    """Time or space, where data that could not be sampled again vary so fast that they may not be resolved."""
    suspect = evidence.levels.suspect
    limit = {a: f for a, f in evidence.cycles.items() if f > suspect and not evidence.sampled_anew(_kind(a))}
    if not limit:
        return None
    axis = max(limit, key=lambda a: limit[a])
    return _verdict(_kind(axis)), (_frequency(axis, limit[axis]),)


def _may_be_unresolved(evidence: Evidence, verdict: Verdict) -> bool:
    """Whether the data vary fast enough along an axis of that kind; so it is taken where that is not known."""
    levels = evidence.levels
    cycles = [f for axis, f in evidence.cycles.items() if _verdict(_kind(axis)) is verdict]
    return not cycles or max(cycles) > levels.fast


def _level(evidence: Evidence) -> str | None:
    """Whether the misfit is that of the noise level which filters measure."""
    levels = evidence.levels
    (misfit,) = evidence.of_test("misfit") or (None,)
    if misfit is None or evidence.level_ratio is None or not misfit.p < levels.alarm:
        return None
    error = max(evidence.noise_error, levels.filter_error)
    again = misfit_test(misfit.statistic / evidence.level_ratio, evidence.freedom, error, drawn=evidence.drawn)
    if again.p < levels.alarm:
        return None
    return f"filters measure {evidence.level_ratio**0.5:.3g} times the noise level that is stated"


def _verdict(kind: Kind) -> Verdict:
    return Verdict.TIME if kind == "time" else Verdict.SPACE


def _kind(axis: str) -> Kind:
    return "time" if axis == "time" else "space"


def _frequency(axis: str, cycles: float) -> str:
    return f"along {axis} the data vary with up to {cycles:.2g} cycles per step, and 0.5 is the limit of the sampling"
