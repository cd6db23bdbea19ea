"""Constraints bound to operators: rows, conflicts, sub-models, solutions of the equalities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from constraint_cases import named, random_constraints
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError, InfeasibleError, OperatorError
from bvsi.infer.constraints import Constraints, LinearConstraints, as_linear
from bvsi.infer.constraints.feasibility import conflict

NAMES = ("a", "b", "c", "d")
INF = math.inf


def bound_to(names, *texts, **options):
    return Constraints(*texts, **options).bind(names)


def test_rows_and_bounds():
    rows = bound_to(NAMES, "a + 2*b <= 3", "-2*c >= -4", bounds={"d": (None, 0), " a": (-1, 5)})
    assert_array_equal(rows.A, [[1, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    assert_array_equal(rows.lower, [-INF, -INF, -INF, -1])
    assert_array_equal(rows.upper, [3, 2, 0, 5])
    assert rows.texts == ("a + 2*b <= 3", "-2*c >= -4", "d <= 0", "-1 <=  a <= 5")


def test_parallel_rows_are_merged_into_the_tightest():
    rows = bound_to(NAMES, "0 <= a <= 5", "a >= 1", "a >= -3", "2*a <= 20", "b - c >= 1", "3*c - 3*b >= -6")
    assert_array_equal(rows.A, [[1, 0, 0, 0], [0, 1, -1, 0]])
    assert_array_equal(rows.lower, [1, 1])
    assert_array_equal(rows.upper, [5, 2])
    assert rows.texts == ("a >= 1; 0 <= a <= 5", "b - c >= 1; 3*c - 3*b >= -6")
    assert not rows.equality.any()


def test_two_inequalities_can_make_an_equality():
    rows = bound_to(NAMES, "a >= b", "b >= a", "3*c >= 0.3", "c <= 0.1")
    assert_array_equal(rows.equality, [True, True])
    assert_allclose(rows.affine().theta([7.0, 2.0]), [7, 7, 0.1, 2], rtol=1e-15)


def test_no_constraints():
    empty = as_linear(None, NAMES)
    assert not empty
    assert len(empty) == 0
    assert empty.satisfied(np.zeros((3, 4))).all()
    assert_array_equal(empty.affine().T, np.eye(4))
    assert empty.ties() is None
    assert not empty.restrict(("b",))
    assert not empty.inequalities_in(empty.affine())


def test_as_linear_takes_any_form():
    text = "a >= 1"
    forms = [text, [text], (text,), Constraints(text), Constraints(text).bind(NAMES)]
    for form in forms:
        assert_array_equal(as_linear(form, NAMES).A, [[1, 0, 0, 0]])
    assert_array_equal(as_linear(forms[-1], ("b", "a")).A, [[0, 1]])
    with pytest.raises(BvsiError, match="not int"):
        as_linear(3, NAMES)
    with pytest.raises(BvsiError, match="not int"):
        as_linear([3], NAMES)


@pytest.mark.parametrize("pair", [(1,), 3, None, "ab", (math.nan, 1), (None, None), (INF, None), (-INF, INF), ("x", 1)])
def test_bounds_are_checked(pair):
    with pytest.raises(BvsiError, match="bounds of 'a'"):
        Constraints(bounds={"a": pair})


def test_unknown_names_and_malformed_texts():
    with pytest.raises(OperatorError, match="did you mean 'u\\*\\*3'"):
        Constraints(bounds={"u**33": (0, 1)}).bind(("u**3",))
    with pytest.raises(BvsiError, match="bounds: the name"):
        Constraints(bounds={3: (0, 1)})
    with pytest.raises(BvsiError, match="at column 3"):
        Constraints("u = 1")


@pytest.mark.parametrize(
    "arrays, message",
    [
        ((np.ones((1, 3)), np.zeros(1), np.ones(1)), "need A"),
        ((np.ones((1, 4)), np.zeros(2), np.ones(1)), "need A"),
        ((np.zeros((1, 4)), np.zeros(1), np.ones(1)), "not all zero"),
        ((np.full((1, 4), np.nan), np.zeros(1), np.ones(1)), "finite"),
        ((np.ones((1, 4)), np.ones(1), np.zeros(1)), "lower ≤ upper"),
        ((np.ones((1, 4)), np.full(1, np.nan), np.zeros(1)), "lower ≤ upper"),
        ((np.ones((1, 4)), np.full(1, INF), np.full(1, INF)), "lower ≤ upper"),
    ],
)
def test_arrays_are_checked(arrays, message):
    with pytest.raises(BvsiError, match=message):
        LinearConstraints(NAMES, *arrays, ("row",))


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(
    "texts, culprits",
    [
        (["c <= {1}", "a > {1}", "d == 0", "a + b <= 0", "b >= 0"], {"a > {1}", "a + b <= 0", "b >= 0"}),
        (["{2} <= a <= {1}", "b >= 0"], {"{2} <= a <= {1}"}),
        (["a == b", "b == c", "c - a == {1}", "a == d"], {"a == b", "b == c", "c - a == {1}"}),
        (["a >= {2}", "a <= {1}", "a <= {3}"], {"a >= {2}", "a <= {1}"}),
        (["1e9*c <= {3}", "1e-9*a >= {1}", "a <= b", "b <= {3}"], {"1e-9*a >= {1}", "a <= b", "b <= {3}"}),
    ],
)
def test_conflicts_are_named(texts, culprits, unit):
    written = {
        text: text.replace("{1}", f"{unit}").replace("{2}", f"{2 * unit}").replace("{3}", f"{3 * unit}")
        for text in texts
    }
    with pytest.raises(InfeasibleError, match=r"cannot hold.*[Rr]elax") as caught:
        Constraints(*written.values()).bind(NAMES)
    assert set(caught.value.rows) == {written[text] for text in culprits}


def test_the_message_reads_well():
    with pytest.raises(InfeasibleError) as caught:
        Constraints("a > 1", "a + b <= 0", "b >= 0").bind(NAMES)
    assert str(caught.value) == (
        "constraints: these cannot hold together: 'a > 1'; 'a + b <= 0'; 'b >= 0'. Remove or relax one of them."
    )


@pytest.mark.parametrize("seed", range(15))
def test_a_conflict_is_minimal(seed):
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-8, 8, 3)
    A, lower = rng.standard_normal((9, 3)) / units, np.abs(rng.standard_normal(9)) + 0.1
    lower[8], A[8] = 0.2, -A[:2].sum(axis=0)  # contradicts the first two
    upper = np.full(9, INF)
    rows = conflict(A, lower, upper)
    assert rows is not None
    assert conflict(A[rows], lower[rows], upper[rows]) is not None
    for row in rows:
        others = [i for i in rows if i != row]
        assert conflict(A[others], lower[others], upper[others]) is None


@pytest.mark.parametrize("seed", range(10))
def test_rows_around_a_point_are_feasible(seed):
    rng = np.random.default_rng(seed)
    rows = random_constraints(rng, 5, 9, 10.0 ** rng.uniform(-8, 8, 5), equalities=2)
    assert conflict(rows.A, rows.lower, rows.upper) is None


@pytest.mark.parametrize("spread", [0, 8])
@pytest.mark.parametrize("seed", range(10))
def test_affine_solves_the_equalities(seed, spread):
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-spread, spread, 6)
    A = rng.integers(-3, 4, (3, 6)).astype(float)
    A = np.concatenate([A, A[:1] - 2 * A[1:2]]) / units  # a redundant row
    b = A @ (rng.standard_normal(6) * units)
    rows = named(A, b, b)
    affine = rows.affine()
    rank = np.linalg.matrix_rank(A * units)
    assert affine.T.shape == (6, 6 - rank)
    assert_array_equal(affine.T[affine.free], np.eye(6 - rank))
    assert_array_equal(affine.offset[affine.free], 0)
    theta = affine.theta(rng.standard_normal((50, 6 - rank)) * units[affine.free])
    assert (np.abs(theta @ A.T - b) <= 1e-12 * (np.abs(theta) @ np.abs(A).T + np.abs(b))).all()
    assert_array_equal(affine.theta(affine.eta(theta)), theta)
    assert rows.satisfied(theta).all()


def test_the_earlier_operator_stays_free_and_bounds_are_exact():
    affine = bound_to(NAMES, "c == a", "b + d == 0.7", "b == 0.1").affine()
    assert affine.free_names == ("a",)
    assert affine.offset[1] == 0.1
    assert_allclose(affine.theta([3.0]), [3, 0.1, 3, 0.6], rtol=1e-15)


def test_contradicting_equalities_have_no_solution():
    with pytest.raises(InfeasibleError, match=r"row 0.*row 1"):
        named(np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([1.0, 3.0]), np.array([1.0, 3.0])).affine()


def test_ties_are_the_homogeneous_equalities():
    rows = bound_to(NAMES, "2*a == b", "c + d == 1", "a >= 0")
    ties = rows.ties()
    assert ties.free_names == ("a", "c", "d")
    assert_array_equal(ties.theta([1.0, 5.0, 7.0]), [1, 2, 5, 7])
    assert bound_to(NAMES, "c + d == 1").ties() is None


@pytest.mark.parametrize("seed", range(10))
def test_inequalities_for_the_free_coefficients(seed):
    rng = np.random.default_rng(seed)
    rows = random_constraints(rng, 5, 8, 10.0 ** rng.uniform(-3, 3, 5), equalities=2)
    affine = rows.affine()
    inside = rows.inequalities_in(affine)
    assert inside.names == affine.free_names
    spread = np.abs(affine.offset).max() + 1.0
    eta = rng.standard_normal((200, len(affine.free))) * 10.0 ** rng.uniform(-3, 3, len(affine.free)) * spread
    assert_array_equal(inside.satisfied(eta), rows.satisfied(affine.theta(eta)))


def test_inequalities_that_become_constant_or_parallel():
    rows = bound_to(NAMES, "a == b", "a - b <= 1", "a >= 1", "b >= 2", "c == 3", "c >= 1")
    inside = rows.inequalities_in(rows.affine())
    assert inside.names == ("a", "d")
    assert_array_equal(inside.A, [[1, 0]])
    assert_array_equal(inside.lower, [2])
    impossible = named(np.array([[1.0, -1.0], [1.0, -1.0]]), np.array([0.0, 1.0]), np.array([0.0, INF]))
    with pytest.raises(InfeasibleError, match="'row 1' cannot hold together with the equalities"):
        impossible.inequalities_in(impossible.affine())


def test_excess_and_satisfaction():
    rows = bound_to(NAMES, "3*a + 4*b >= 10", "c <= 1")
    theta = np.array([[1.0, 1.0, 0.0, 0.0], [2.0, 1.0, 5.0, 0.0], [2.0, 1.0, 1.0, 9.0]])
    assert_allclose(rows.excess(theta), [[3, 0], [0, 4], [0, 0]])
    assert_array_equal(rows.satisfied(theta), [False, False, True])
    tiny = bound_to(NAMES, "a >= 1e-12")
    assert not tiny.satisfied([0.9e-12, 0, 0, 0])
    assert tiny.satisfied([1e-12 * (1 - 1e-10), 0, 0, 0])


def test_restrict_sets_the_others_to_zero():
    rows = bound_to(NAMES, "a + 2*b <= 3", "c >= -1", "a - d == 0")
    smaller = rows.restrict(("d", "a"))
    assert smaller.names == ("d", "a")
    theta = np.random.default_rng(0).standard_normal((100, 2)) * 3
    theta[::2, 1] = theta[::2, 0]
    whole = np.zeros((100, 4))
    whole[:, [3, 0]] = theta
    assert_array_equal(smaller.satisfied(theta), rows.satisfied(whole))
    assert smaller.texts == ("a + 2*b <= 3", "a - d == 0")


def test_restrict_refuses_what_zero_breaks():
    rows = bound_to(NAMES, "a >= 1", "b + c >= 1", "b <= 0")
    with pytest.raises(InfeasibleError, match="'a >= 1' cannot hold in a model without its operators") as caught:
        rows.restrict(("b", "c"))
    assert caught.value.rows == ("a >= 1",)
    with pytest.raises(InfeasibleError) as caught:
        rows.restrict(("a", "b"))
    assert set(caught.value.rows) == {"b + c >= 1", "b <= 0"}
    with pytest.raises(OperatorError, match="'e' is not among"):
        rows.restrict(("e",))


def test_further_bounds():
    rows = bound_to(NAMES, "a >= -1", "a + b == 1")
    texts = [f"prior of {name!r}" for name in NAMES]
    more = rows.with_bounds(np.array([0, -INF, -INF, 2]), np.array([INF, INF, INF, 2]), texts)
    assert more.texts == ("prior of 'a'", "a + b == 1", "prior of 'd'")
    assert_array_equal(more.lower, [0, 1, 2])
    assert_array_equal(more.equality, [False, True, True])
    with pytest.raises(InfeasibleError, match="prior of 'b'") as caught:
        rows.with_bounds(np.array([0, 2, -INF, -INF]), np.full(4, INF), texts)
    assert set(caught.value.rows) == {"prior of 'a'", "prior of 'b'", "a + b == 1"}


def test_further_rows_join_those_that_were_merged():
    both = as_linear(["u >= 0", "u <= 5"], ("u", "v"))
    tied = both.joined(as_linear("u == v", ("u", "v")).rows)
    assert tied.satisfied([[5.0, 5.0], [5.0, 4.0], [6.0, 6.0]]).tolist() == [True, False, False]
    with pytest.raises(InfeasibleError, match="'u == v'"):
        tied.joined(as_linear("v >= 6", ("u", "v")).rows)
