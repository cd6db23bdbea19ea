"""The check at the end of a discovery: verdicts, wider posteriors, constraints, files and printouts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.app.report.check_sections import check_section
from bvsi.check import CheckLevels, Verdict, with_bias
from bvsi.data import Data
from bvsi.discovery import Discovery, discover
from bvsi.errors import NoiseError, RankError
from bvsi.infer import Reason
from bvsi.infer.constraints import as_linear
from bvsi.infer.posteriors import GaussianPosterior, TruncatedPosterior
from bvsi.noise import IID, Covariance, PerTime
from bvsi.operators import Library
from bvsi.setup import Setup
from discovery.exact_cases import BURGERS, BURGERS_TRUTH, ROTATION, ROTATION_TRUTH, burgers, noisy, rotation

SIGMA = 0.01


@pytest.fixture(scope="module")
def data() -> Data:
    return noisy(burgers(), SIGMA)


@pytest.fixture(scope="module")
def found(data) -> Discovery:
    return discover(data, BURGERS)


def test_a_good_answer_is_consistent(found):
    assert found.verdict == "consistent"
    assert found.check.verdict is Verdict.CONSISTENT
    kinds = {comparison.kind for comparison in found.check.comparisons}
    assert {"time", "space", "width"} <= kinds


def test_two_fields_are_checked_as_well():
    found = discover(noisy(rotation(), SIGMA), ROTATION, noise=IID(SIGMA))
    assert set(found.names) == set(ROTATION_TRUTH)
    assert found.verdict == "consistent"


def test_without_a_check_there_is_no_verdict(data):
    found = discover(data, BURGERS, check=False)
    assert found.check is None
    assert found.verdict == "not checked"
    assert "verdict: not checked" in str(found)
    assert "check=True" in found.advice


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_a_wrong_noise_level_is_told(data, factor):
    found = discover(data, BURGERS, noise=IID(factor * SIGMA))
    assert found.verdict == "noise model wrong"
    assert any("noise" in reason for reason in found.check.reasons)


def test_a_missing_operator_is_told(data):
    found = discover(data, Library({"u": ["laplacian(u)", "dx(u)", "u"]}))
    assert found.verdict == "missing operator"


def test_the_posterior_is_wider_by_the_bias_that_the_check_found(data, found):
    plain = discover(data, BURGERS, check=False)
    assert found.names == plain.names
    assert_allclose(found.theta, plain.theta, rtol=1e-12)
    assert_allclose(found.sd**2, plain.sd**2 + found.check.bias**2, rtol=1e-6)
    assert_array_equal(found.check.covariance_added, np.diag(found.check.bias**2))


def biased(found: Discovery, bias: list[float]):
    return replace(found.check, bias=np.array(bias), covariance_added=np.diag(np.square(bias)))


def test_bias_moves_what_is_tied_together_and_nothing_that_is_fixed(found):
    names, bias = ("a", "b", "c"), [0.1, 0.2, 0.3]
    judged = biased(found, bias)
    free = GaussianPosterior(names, np.array([1.0, 2.0, 0.5]), 1e-4 * np.eye(3))
    assert_allclose(with_bias(free, judged, as_linear(None, names)).variance, 1e-4 + np.square(bias), rtol=1e-12)
    limits = as_linear(["b == 2*[a]", "c == 0.5"], names)
    T = limits.affine().T
    base = GaussianPosterior(names, np.array([1.0, 2.0, 0.5]), 1e-4 * T @ T.T)
    tied = TruncatedPosterior(base, limits, np.array([1.0, 2.0, 0.5]))
    wide = with_bias(tied, judged, limits).covariance
    assert wide[2, 2] == 0
    (free_name,) = limits.affine().free_names
    added = dict(zip(names, bias, strict=True))[free_name]
    assert_allclose(wide, (1e-4 + added**2) * T @ T.T, rtol=1e-9)


def test_inequalities_out_of_reach_do_not_change_the_wider_posterior(data, found):
    """Nor does the check forget that the posterior is truncated."""
    limited = discover(data, BURGERS, constraints="laplacian(u) > 0")
    assert isinstance(limited.posterior, TruncatedPosterior)
    assert_allclose(limited.sd, found.sd, rtol=1e-6)
    assert limited.verdict == found.verdict


@pytest.fixture(scope="module")
def tied() -> Discovery:
    return discover(
        noisy(rotation(), SIGMA), ROTATION, noise=IID(SIGMA), constraints="u: laplacian(u) == 2*[v: laplacian(v)]"
    )


def test_discoveries_with_equalities_are_checked(tied):
    assert set(tied.names) == set(ROTATION_TRUTH)
    assert tied.verdict == "consistent"
    assert_allclose(tied.coefficient("laplacian(u)"), 2 * tied.coefficient("laplacian(v)"), rtol=1e-10)
    sd = dict(zip(tied.names, tied.sd, strict=True))
    assert_allclose(sd["u: laplacian(u)"], 2 * sd["v: laplacian(v)"], rtol=1e-6)
    truth = np.array([ROTATION_TRUTH[name] for name in tied.names])
    assert_allclose((tied.theta - truth) / tied.sd, 0, atol=4)


@pytest.mark.parametrize("wrong", ["u: laplacian(u) == 8*[v: laplacian(v)]", "v: u == 0.5"], ids=["tie", "number"])
def test_equalities_that_contradict_the_data_are_told(wrong):
    found = discover(noisy(rotation(), SIGMA), ROTATION.subset(ROTATION_TRUTH), noise=IID(SIGMA), constraints=wrong)
    assert Reason.MISFIT in found.status.reasons
    assert found.verdict != "consistent"


def test_what_an_equality_fixes_has_no_error_bar(data):
    found = discover(data, BURGERS, noise=IID(SIGMA), constraints="laplacian(u) == 0.3")
    assert set(found.names) == set(BURGERS_TRUTH)
    assert found.coefficient("laplacian(u)") == pytest.approx(0.3, rel=1e-12)
    assert found.sd[found.names.index("laplacian(u)")] == 0
    assert found.check is not None


def test_the_printout_begins_with_equation_and_verdict(found):
    first, second, third = str(found).splitlines()
    assert first == found.equation
    assert second.startswith("verdict: consistent (χ²/n = ")
    assert third == f"advice: {found.check.advice}"
    assert found.details.split("\n\n")[0] == found.equation
    assert str(found.check) in found.details


@pytest.mark.parametrize("which", ["found", "tied"])
def test_a_check_survives_a_file(request, which, tmp_path):
    before = request.getfixturevalue(which)
    before.save(tmp_path / "found.nc")
    after = Discovery.load(tmp_path / "found.nc")
    assert after.verdict == before.verdict
    assert after.check.reasons == before.check.reasons
    assert after.check.advice == before.check.advice
    assert repr(after.check.tests) == repr(before.check.tests)  # some have no z
    assert_array_equal(after.check.bias, before.check.bias)
    assert_array_equal(after.check.covariance_added, before.check.covariance_added)
    assert str(after.check) == str(before.check)
    assert str(after) == str(before)


def test_no_check_survives_a_file_too(found, tmp_path):
    replace(found, check=None).save(tmp_path / "found.nc")
    assert Discovery.load(tmp_path / "found.nc").check is None


def test_progress_names_what_is_tried(data):
    heard = []
    discover(data, BURGERS.subset(BURGERS_TRUTH), progress=lambda done, total, what: heard.append(what))
    assert {"checking with every second frame", "checking with every second node", "checking with wider tests"} <= set(
        heard
    )


@pytest.mark.parametrize(
    "noise", [PerTime(np.full(41, SIGMA)), Covariance(SIGMA**2 * sparse.eye_array(48, format="csr"))]
)
def test_no_comparison_is_lost_with_noise_that_is_stated_by_time_or_as_a_matrix(data, found, noise):
    stated = discover(data, BURGERS, noise=noise)
    assert [c.name for c in stated.check.comparisons] == [c.name for c in found.check.comparisons]
    assert not stated.check.failed


def test_a_comparison_that_fails_is_shown_with_its_reason(data, tmp_path, monkeypatch):
    makes = Setup.likelihood

    def refuse(self, names=None, **options):
        if names is not None:
            raise RankError("the nodes cannot tell the operators apart", (("u*dx(u)", "u"),))
        return makes(self, **options)

    monkeypatch.setattr(Setup, "likelihood", refuse)
    found = discover(data, BURGERS, noise=IID(SIGMA))
    assert not found.check.comparisons
    assert [one.kind for one in found.check.failed] == ["time", "space", "width"]
    assert "every second frame: failed, the nodes cannot tell" in str(found.check)
    assert "failed, the nodes cannot tell" in str(check_section(found.check))
    found.save(tmp_path / "found.nc")
    assert Discovery.load(tmp_path / "found.nc").check.failed == found.check.failed


def test_an_error_that_no_coarser_fit_can_have_is_not_hidden(data, monkeypatch):
    def refuse(self, frames, nodes=None):
        raise NoiseError("a fault of ours")

    monkeypatch.setattr(IID, "at", refuse)
    with pytest.raises(NoiseError, match="a fault of ours"):
        discover(data, BURGERS, noise=IID(SIGMA))


def test_the_thresholds_of_the_check_are_an_argument_and_printed(data, found):
    assert found.settings["check"] == repr(CheckLevels())
    levels = CheckLevels(far_below=10.0, alarm=1.0)
    strict = discover(data, BURGERS, check=levels)
    assert strict.check.verdict is Verdict.NOISE
    assert strict.settings["check"] == repr(levels)
    assert_array_equal(strict.theta, found.theta)
