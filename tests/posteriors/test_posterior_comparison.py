"""Methods side by side."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.app.comparison import Comparison, compare
from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior, ParticlePosterior

ONE = GaussianPosterior(("u: a", "u: b"), np.array([1.0, -2.0]), np.diag([0.04, 9.0]))
TWO = GaussianPosterior(("u: b", "u: c"), np.array([4.0, 3.0]), np.diag([36.0, 1e-4]))
BOTH = {"one": ONE, "two": TWO}


def test_numbers_over_the_union_of_operators():
    found = compare(BOTH)
    assert found.names == ("u: a", "u: b", "u: c")
    assert_allclose(found.mean, [[1, -2, np.nan], [np.nan, 4, 3]])
    assert_allclose(found.sd, [[0.2, 3, np.nan], [np.nan, 6, 0.01]])
    assert_allclose(found.lower[0, :2], ONE.interval()[:, 0])
    assert_allclose(found.upper[1, 1:], TWO.interval()[:, 1])
    assert found.z is None
    assert found.covers is None


def test_differences_are_in_units_of_the_joint_standard_deviation():
    assert_allclose(compare(BOTH).shift, [[0, 0, np.nan], [np.nan, 6 / np.hypot(3, 6), np.nan]])
    assert_allclose(compare(BOTH).variance_ratio, [[1, 1, np.nan], [np.nan, 4, np.nan]])
    swapped = compare(BOTH, reference="two")
    assert_allclose(swapped.shift[0], [np.nan, -6 / np.hypot(3, 6), np.nan])
    assert_allclose(swapped.variance_ratio[0], [np.nan, 0.25, np.nan])


def test_the_truth_is_found_by_name_and_others_are_zero():
    found = compare(BOTH, truth={" b ": 1.0, "u: d": 7.0})
    assert found.names == ("u: a", "u: b", "u: c", "u: d")
    assert_array_equal(found.truth, [0, 1, 0, 7])
    assert_allclose(found.z, [[5, -1, np.nan, np.nan], [np.nan, 0.5, 300, np.nan]])
    assert_array_equal(found.covers, [[False, True, False, False], [False, True, False, False]])


def test_fits_are_taken_with_their_posterior_and_without():
    fit = SimpleNamespace(names=ONE.names, theta=ONE.mean, posterior=ONE)
    plain = SimpleNamespace(names=("u: b",), theta=np.array([5.0]), posterior=None)
    found = compare({"fit": fit, "plain": plain})
    assert_allclose(found.mean, [[1, -2], [np.nan, 5]])
    assert_allclose(found.sd, [[0.2, 3], [np.nan, np.nan]])
    assert_allclose(found.shift[1], [np.nan, 7 / 3])


def test_a_coefficient_that_is_known_has_no_unit():
    known = GaussianPosterior(("a",), np.array([1.0]), np.zeros((1, 1)))
    draws = ParticlePosterior(("a",), np.array([[0.0], [1.0], [2.0]]))
    found = compare({"known": known, "draws": draws})
    assert_array_equal(found.shift, [[np.nan], [0.0]])
    assert np.isnan(found.variance_ratio).all()


def test_the_table_reads_line_by_line():
    lines = str(compare(BOTH, truth={"b": 1.0}, level=0.9)).splitlines()
    assert lines[0] == "compared with one"
    words = [" ".join(line.split()) for line in lines]
    assert words[1] == "operator method mean sd 90% interval shift/joint sd variance ratio truth z"
    assert words[2] == "u: a one 1 0.2 [0.67103, 1.329] +0.00 1 0 +5.00"
    assert words[3] == "two – – – – – –"
    assert words[5] == "two 4 6 [-5.8691, 13.869] +0.89 4 +0.50"
    assert len(lines) == 2 + 3 * 2
    assert "truth" not in compare(BOTH).table


def test_the_dataset_has_all_numbers():
    found = compare(BOTH, truth={"b": 1.0})
    dataset = found.to_dataset()
    assert dataset["shift"].sel(estimator="two", operator="u: b") == 6 / np.hypot(3, 6)
    assert dataset["truth"].sel(operator="u: b") == 1
    assert dataset.attrs == {"level": 0.95, "reference": "one"}
    assert set(dataset) == {"mean", "sd", "lower", "upper", "shift", "variance_ratio", "z", "covers", "truth"}
    assert not {"z", "covers", "truth"} & set(compare(BOTH).to_dataset())


def test_the_order_of_operators_does_not_matter():
    turned = GaussianPosterior(ONE.names[::-1], ONE.mean[::-1], ONE.covariance[::-1, ::-1])
    found = compare({"one": ONE, "turned": turned})
    assert_array_equal(found.mean[0], found.mean[1])
    assert_array_equal(found.shift, np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("posteriors", {"posteriors": {}}),
        ("'x' is a str", {"posteriors": {"x": "text"}}),
        ("'x' is a SimpleNamespace", {"posteriors": {"x": SimpleNamespace(posterior=None)}}),
        ("reference: 'three'", {"posteriors": BOTH, "reference": "three"}),
        ("level", {"posteriors": BOTH, "level": 95}),
        ("truth", {"posteriors": BOTH, "truth": {"a": np.nan}}),
    ],
)
def test_impossible_comparisons_are_refused(message, arguments):
    with pytest.raises(BvsiError, match=message):
        compare(**arguments)


def test_a_truth_that_could_be_of_several_equations_is_refused():
    coupled = GaussianPosterior(("u: a", "v: a"), np.zeros(2), np.eye(2))
    with pytest.raises(BvsiError, match="several equations"):
        compare({"one": coupled}, truth={"a": 1.0})
    assert isinstance(compare({"one": coupled}, truth={"v: a": 1.0}), Comparison)
