"""A verdict survives its own evidence: not "consistent" beside a comparison that rejects, unless one speaks for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bvsi.check import Comparison, Verdict
from bvsi.check.comparison import LEVELS
from bvsi.check.residual_tests import ResidualTest
from bvsi.check.verdict import ADVICE, Evidence, advice_for, judge
from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.operators import Library

RING = np.arange(64) * 2 * np.pi / 64


def compared(name, kind, p, *, better=(), weight=0.1):
    zero = np.zeros(1)
    return Comparison(name, kind, zero, zero, zero + 9.0, 81.0, p, zero, weight, better)


def verdict_of(*comparisons):
    return judge(Evidence((), comparisons, 1.0, None, 100.0, False, 0.0, {}))


FRAMES = compared("every second frame", "time", 1e-20)
NODES = compared("every second node", "space", 1e-20)
Q1 = compared("Q1 elements", "width", 1e-20)
WIDER = compared("wider tests", "width", 0.5, better=("time", "space"))


@pytest.mark.parametrize("one, verdict", [(FRAMES, Verdict.TIME), (NODES, Verdict.SPACE), (Q1, Verdict.SPACE)])
def test_a_comparison_that_rejects_alone_is_the_verdict(one, verdict):
    found, reasons = verdict_of(one)
    assert found is verdict
    assert reasons[0] == one.summary


@pytest.mark.parametrize("one", [FRAMES, NODES])
def test_wider_tests_that_agree_speak_for_the_fit_and_both_are_named(one):
    found, reasons = verdict_of(one, WIDER)
    assert found is Verdict.CONSISTENT
    assert one.name in reasons[0]
    assert WIDER.name in reasons[0]


@pytest.mark.parametrize("one", [FRAMES, NODES])
def test_wider_tests_do_not_speak_where_they_disagree(one):
    assert verdict_of(one, replace(WIDER, p=0.01))[0] is not Verdict.CONSISTENT


def test_an_element_that_agrees_with_itself_on_every_second_node_is_not_refuted_by_a_lower_one():
    assert verdict_of(Q1, replace(NODES, p=0.5))[0] is Verdict.CONSISTENT
    assert verdict_of(Q1, replace(NODES, p=0.01))[0] is Verdict.SPACE


def test_what_is_better_in_space_does_not_speak_for_time():
    assert verdict_of(FRAMES, replace(WIDER, better=("space",)))[0] is Verdict.TIME


@pytest.mark.parametrize(
    ("p", "verdict"), [(1e-5, Verdict.OPERATOR), (5e-4, Verdict.UNDECIDED), (0.01, Verdict.CONSISTENT)]
)
def test_an_operator_outside_the_library_is_an_alarm_or_leaves_the_choice_open(p, verdict):
    test = ResidualTest("dx(dx(u**2)), not in the library, explains residuals", 4.0, 4.0, p, "missing")
    found, reasons = judge(Evidence((test,), (), 1.0, None, 100.0, False, 0.0, {}))
    assert found is verdict
    assert any("dx(dx(u**2))" in one for one in reasons) == (p < LEVELS.alarm)


def test_odds_are_asked_of_what_was_selected_and_named_for_what_was_left_out():
    """An operator that is left out has a margin only where it matters, whatever its odds."""
    plain = Evidence((), (), 1.0, None, 100.0, False, 0.0, {}, names=("u",))
    close, far = 2 * np.log(LEVELS.odds) - 0.1, 2 * np.log(LEVELS.odds) + 0.1
    for margins, verdict in (
        ({"u": close}, Verdict.UNDECIDED),
        ({"u": far}, Verdict.CONSISTENT),
        ({"u": far, "u**2": far - 0.01}, Verdict.UNDECIDED),
        ({"u": far, "u**2": far}, Verdict.CONSISTENT),  # one model that lacks both counts once
    ):
        found, reasons = judge(replace(plain, margins=margins))
        assert found is verdict
        assert all(f"{'with' if 'u**2' in margins else 'without'} {list(margins)[-1]} has odds" in r for r in reasons)


EVIDENCE = Evidence((), (WIDER,), 1.0, None, 100.0, False, 0.0, {})


@pytest.mark.parametrize(
    ("kinds", "told", "other"),
    [
        (("white",), ["Blurred(", "Covariance("], ["SignalNoise", "PerField"]),
        (("signal",), ["SignalNoise(b=...) for counts"], ["Blurred", "PerField"]),
        (("white", "signal"), ["Blurred(", "SignalNoise("], ["PerField"]),
        ((), ["PerField()", "Diagonal()"], ["Blurred", "SignalNoise"]),
    ],
)
@pytest.mark.parametrize("error", [0.0, 0.01])
def test_the_advice_on_noise_names_the_models_of_its_cause(kinds, told, other, error):
    tests = tuple(ResidualTest("a test", 9.0, 9.0, 1e-12, kind) for kind in kinds)
    advice = advice_for(Verdict.NOISE, replace(EVIDENCE, tests=tests, noise_error=error))
    assert all(word in advice for word in (*told, "from_replicates("))
    assert not any(word in advice for word in other)
    assert all(word in ADVICE[Verdict.NOISE] for word in ("SignalNoise", "Blurred", "from_replicates"))


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("frames", [5, 11, 12, None])
def test_with_few_frames_advice_on_operators_and_time_names_forward_solves(verdict, frames):
    advice = advice_for(verdict, replace(EVIDENCE, frames=frames))
    always = verdict in (Verdict.TIME, Verdict.SPACE)
    few = frames is not None and frames < 12
    chosen = verdict in (Verdict.OPERATOR, Verdict.UNDECIDED, Verdict.NOTHING, Verdict.ILL_POSED)
    assert ("found.refine(" in advice) == (always or (few and chosen))
    assert advice.count("found.refine(") <= 1


def test_seven_frames_that_leave_the_choice_open_are_for_forward_solves():
    t = np.linspace(0, 1, 7)[:, None]
    u = np.exp(-t) * np.sin(RING - 0.5 * t) + 0.02 * np.random.default_rng(1).standard_normal((7, 64))
    data = Data(t[:, 0], {"u": u}, Grid(x=RING, periodic="x"))
    found = discover(data, Library({"u": ["u", "dx(u)", "laplacian(u)"]}))
    assert found.verdict == "not decided"
    assert "With 7 frames, compare by forward solves: found.refine(data, library)" in str(found)
    second = discover(data, Library({"u": ["u", "dx(u)", "laplacian(u)"]}, time_order=2))
    assert "found.refine" not in second.check.advice or second.verdict.startswith("under-resolved")


def diffusing(stride, seed):
    """u_t = −0.5 u_x + 0.3 u_xx in four modes, 64 nodes thinned."""
    x, t = np.arange(64)[::stride] * 2 * np.pi / 64, np.linspace(0, 1, 41)[:, None]
    modes = ((1.0, 1, 0.0), (0.6, 2, 1.0), (0.4, 3, 2.0), (0.2, 4, 0.5))
    u = sum(a * np.exp(-0.3 * k * k * t) * np.sin(k * (x - 0.5 * t) + p) for a, k, p in modes)
    noise = 0.005 * np.random.default_rng(seed).standard_normal(u.shape)
    return Data(t[:, 0], {"u": u + noise}, Grid(x=x))


@pytest.mark.parametrize("stride", [5, 6, 13])
def test_grids_too_coarse_for_elements_are_under_resolved_in_space(stride):
    found = discover(diffusing(stride, 7), Library({"u": ["u", "u**2", "dx(u)", "u*dx(u)", "laplacian(u)"]}))
    assert found.verdict == "under-resolved in space"


def test_eight_nodes_are_tried_with_every_second_one():
    found = discover(diffusing(8, 7), Library({"u": ["u", "dx(u)", "laplacian(u)"]}))
    assert found.check is not None
    assert "every second node" in [c.name for c in found.check.comparisons]
    assert found.verdict == "under-resolved in space"


MISFIT = ResidualTest("misfit per degree of freedom", 5.0, 40.0, 1e-30, "misfit")
STRUCTURE = ResidualTest("residuals correlated in space", 5.0, 9.0, 1e-9, "structure")


@pytest.mark.parametrize("one, axis, kind", [(FRAMES, "time", Verdict.TIME), (NODES, "x", Verdict.SPACE)])
def test_of_data_that_vary_slowly_a_misfit_is_not_blamed_on_the_resolution(one, axis, kind):
    """A wrong equation moves with every discretisation, and by more than its misfit says."""
    slow, fast = ({axis: cycles} for cycles in (0.03, 0.3))
    evidence = Evidence((MISFIT, STRUCTURE), (one,), 5.0, None, 100.0, False, 0.0, slow)
    assert judge(evidence)[0] is Verdict.OPERATOR
    assert judge(replace(evidence, cycles=fast))[0] is kind


def test_a_poorer_fit_of_the_same_nodes_speaks_where_nothing_else_can():
    """On meshes half of the nodes are few, and no other comparison tells of them."""
    whole = replace(compared("reconstruction of lower degree", "space", 0.6), whole=True)
    assert verdict_of(NODES)[0] is Verdict.SPACE
    assert verdict_of(NODES, whole)[0] is Verdict.CONSISTENT
    assert verdict_of(NODES, replace(whole, p=0.01))[0] is not Verdict.CONSISTENT
    assert verdict_of(NODES, whole, replace(WIDER, p=0.01))[0] is not Verdict.CONSISTENT
