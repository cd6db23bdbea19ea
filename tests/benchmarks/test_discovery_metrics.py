"""TPR, E∞ and coverage on equations made by hand; operator texts in PySINDy's names."""

from __future__ import annotations

import pytest

from bvsi.errors import BvsiError, OperatorError
from bvsi.studies.benchmarks.discovery.metrics import covered, largest_relative_error, true_positive_ratio
from bvsi.studies.benchmarks.discovery.translate import features, translated

TRUTH = {"u*dx(u)": -1.0, "dx(dx(u))": 0.1}


@pytest.mark.parametrize(
    "selected, expected",
    [
        (["u*dx(u)", "dx(dx(u))"], 1.0),
        (["u*dx(u)"], 1 / 2),
        (["u*dx(u)", "dx(dx(u))", "u"], 2 / 3),
        (["u*dx(u)", "u", "u**2"], 1 / 4),
        (["u"], 0.0),
        ([], 0.0),
    ],
)
def test_tpr_counts_missed_and_spurious_operators(selected, expected):
    assert true_positive_ratio(selected, TRUTH) == pytest.approx(expected)


def test_e_inf_is_relative_to_each_coefficient():
    """An error of 0.01 is 10% of the viscosity, and 1% of the advection."""
    assert largest_relative_error({"u*dx(u)": -1.01, "dx(dx(u))": 0.1}, TRUTH) == pytest.approx(0.01)
    assert largest_relative_error({"u*dx(u)": -1.01, "dx(dx(u))": 0.11}, TRUTH) == pytest.approx(0.1)


def test_a_missed_coefficient_gives_one_and_a_spurious_one_does_not_count():
    assert largest_relative_error({"u*dx(u)": -1.0}, TRUTH) == 1.0
    assert largest_relative_error({"u*dx(u)": -1.0, "dx(dx(u))": -0.1}, TRUTH) == pytest.approx(2.0)
    assert largest_relative_error({**TRUTH, "u": 7.0}, TRUTH) == 0.0


def test_coverage_is_told_for_selected_true_operators_only():
    intervals = {"u*dx(u)": (-1.1, -0.9), "dx(dx(u))": (0.11, 0.12), "u": (-0.1, 0.1)}
    assert covered(intervals, TRUTH) == {"u*dx(u)": True, "dx(dx(u))": False}
    assert covered({}, TRUTH) == {}


def test_a_truth_of_nothing_is_refused():
    with pytest.raises(BvsiError, match="truth"):
        true_positive_ratio(["u"], {"u": 0.0})


@pytest.mark.parametrize(
    "text, names",
    [
        ("u", ["x0"]),
        ("v**3", ["x1^3"]),
        ("v*u**2", ["x0^2 x1"]),
        ("u*u", ["x0^2"]),
        ("dx(u)", ["x0_1"]),
        ("u*dx(u)", ["x0x0_1"]),
        ("dx(u)*u", ["x0x0_1"]),
        ("u**2*dy(v)", ["x0^2x1_2"]),
        ("dx(dx(dx(u)))", ["x0_111"]),
        ("dy(dx(v))", ["x1_12"]),
        ("laplacian(v)", ["x1_11", "x1_22"]),
    ],
)
def test_operators_have_the_names_of_pysindy(text, names):
    assert [feature.name for feature in features(text, ("u", "v"), ("x", "y"))] == names


@pytest.mark.parametrize(
    "text", ["dx(dx(u**3))", "div(u*grad(x))", "x*u", "2*u", "u + v", "dx(u)*dx(v)", "dz(u)", "u**0.5", "u**-1", "u*("]
)
def test_operators_that_pysindy_cannot_express_are_refused(text):
    with pytest.raises(OperatorError, match="PySINDy"):
        features(text, ("u", "v"), ("x", "y"))


def test_a_truth_is_split_by_equation():
    """∇² has two features with its coefficient each; equal ones add."""
    truth = {"u: laplacian(u)": 0.5, "v: dx(dx(u))": 2.0, "v: laplacian(u)": 1.0}
    by_name = {
        field: {feature.name: value for feature, value in terms.items()}
        for field, terms in translated(truth, ("u", "v"), ("x", "y")).items()
    }
    assert by_name == {"u": {"x0_11": 0.5, "x0_22": 0.5}, "v": {"x0_11": 3.0, "x0_22": 1.0}}
