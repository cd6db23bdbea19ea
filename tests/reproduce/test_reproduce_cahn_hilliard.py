"""The Cahn–Hilliard study on few elements, through its command: results, figures, page; and the study over seeds."""

from __future__ import annotations

import itertools
import json
import re
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from bvsi.app.cli.main import main
from bvsi.studies.benchmarks import cahn_hilliard_study
from bvsi.studies.problems import cahn_hilliard as problem
from bvsi.studies.problems.free_energy import FIELDS, MOBILITY, chemical
from bvsi.studies.reproduce import cahn_hilliard as study
from bvsi.studies.reproduce.cahn_hilliard_table import NAMES, PAPER, comparison, variance_ratios

KNOWN = ("vsi", "lagged", "lagged_flat", "profile", "profile_prior")
UNKNOWN = ("unknown", "unknown_literal", "unknown_table")
FIGURES = ("energy", "data", "path", "covariance", "predictive", "covariance-unknown", "predictive-unknown")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("COLUMNS", "120")
        yield


def command(*arguments: object) -> int:
    """Exit code of ``bvsi reproduce cahn-hilliard``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["bvsi", "reproduce", "cahn-hilliard", *map(str, arguments)])
        try:
            main()
        except SystemExit as stop:
            return stop.code or 0
    return 0


@pytest.fixture(scope="module")
def ran(cache, tmp_path_factory):
    """The study that one command makes, and the folder that it writes; figures are rough, which is quicker."""
    out, kept, original, save = tmp_path_factory.mktemp("study") / "new", [], study.run, Figure.savefig

    def roughly(figure, path, **_):
        figure.set_layout_engine("none")
        save(figure, path, dpi=50)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "run", lambda *a, **k: kept.append(original(*a, **k)) or kept[-1])
        patch.setattr(Figure, "savefig", roughly)
        assert command("--nx", 6, "--sigma", 1e-3, "--seed", 1, "--out", out) == 0
    return kept[0], out


@pytest.fixture(scope="module")
def found(ran):
    return ran[0]


@pytest.fixture(scope="module")
def folder(ran):
    return ran[1]


@pytest.fixture(scope="module")
def result(folder):
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


def test_the_case_is_that_of_the_command(result):
    case = result["case"]
    assert (case["data"], case["nx"], case["sigma"], case["seed"], case["initial"]) == ("neumann", 6, 1e-3, 1, 0)
    assert case["element"] == "P2"
    assert "interior penalty" in case["biharmonic"]


def test_the_result_has_every_part(result):
    parts = {"case", "methods", "true_model", "path", "other_criteria", "seconds", "exact", "decided", "warnings"}
    assert parts <= set(result)
    assert set(result["methods"]) == {*KNOWN, *UNKNOWN}
    assert set(result["seconds"]) == {"assembly", "selection", "posterior", "comparisons"}
    for method, entry in result["methods"].items():
        assert list(entry["theta"]) == entry["selected"]
        assert min(entry["mse_g1"], entry["mse_g2"]) > 0
        if method != "vsi":
            assert all(v > 0 for v in entry["variance"].values())
        assert ("noise_variance" in entry) == (method in UNKNOWN)


def test_errors_are_distances_to_the_truth(result):
    for entry in (*result["methods"].values(), *result["true_model"].values()):
        assert_allclose(entry["error"], problem.error(entry["theta"]), rtol=1e-12)


def test_the_true_model_is_fitted_too(result):
    for method in KNOWN:
        assert set(result["true_model"][method]["theta"]) == set(problem.TRUTH)
    assert result["true_model"]["profile"]["error"] < result["true_model"]["vsi"]["error"]
    assert result["mahalanobis"] > 0


def test_the_path_begins_with_thirty_candidates(result):
    path = result["path"]
    assert len(path[0]["operators"]) == 30
    for before, after in itertools.pairwise(path):
        assert set(before["operators"]) - set(after["operators"]) == {after["changed"]}
    best = min(path, key=lambda step: step["score"])
    assert result["methods"]["profile"]["selected"] == best["operators"]
    assert result["exact"] == (set(best["operators"]) == set(problem.TRUTH))
    assert set(result["other_criteria"]) == {"profile BIC"}


def test_an_unknown_noise_level_is_estimated(result):
    assert_allclose(np.sqrt(result["methods"]["unknown"]["noise_variance"]), 1e-3, rtol=0.2)


def test_the_figures_exist_and_are_on_the_page(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    for name in FIGURES:
        image = (folder / f"{name}.png").read_bytes()
        assert image.startswith(b"\x89PNG")
        assert len(image) > 5000
    sources = re.findall(r'src="([^"]{0,40})', text)
    assert len(sources) == len(FIGURES) == text.count("<img alt=")
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert {p.name for p in folder.iterdir()} == {"index.html", "result.json", *(f"{n}.png" for n in FIGURES)}


def test_the_page_shows_equation_table_and_path(found, folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    for part in ("c1_t = ", "c2_t = ", "← selected", "MSE(∂g_1/∂c1)", "data set neumann"):
        assert part in text
    for name in found.path.best.names:
        assert name in text
    assert not re.search(r"https?://|@import|<link|<script|url\(", text)


def test_the_comparison_has_a_row_for_every_true_operator(found):
    rows = comparison(found.fits, found.mse).splitlines()
    assert set(NAMES) == set(problem.TRUTH)
    for name, value in problem.TRUTH.items():
        (row,) = [r for r in rows if r.startswith(f"{name} ")]
        assert float(row.removeprefix(name).split()[0]) == pytest.approx(value, abs=1e-3)
    for number in ("31.05", "0.802", "3.926"):
        assert any(number in row for row in rows)
    assert rows[-1].startswith("MSE(∂g_2/∂c2)")


def test_the_table_of_the_paper_has_the_distances_it_states():
    for column in PAPER.values():
        assert problem.error(column["theta"]) == pytest.approx(column["error"], rel=0.02)


def test_ratios_of_variances_are_taken_by_name(found):
    ratios = variance_ratios(found.fits["lagged"])
    own = dict(zip(found.fits["lagged"].names, found.fits["lagged"].posterior.variance, strict=True))
    for name, ratio in ratios.items():
        assert ratio == pytest.approx(own[name] / PAPER["lagged"]["variance"][name])


def test_the_true_coefficients_have_no_error_in_the_derivatives_of_the_energy():
    assert study.derivative_errors(problem.TRUTH) == dict.fromkeys(FIELDS, 0.0)
    c1, c2 = np.meshgrid(study.AXIS, study.AXIS, indexing="ij")
    for exact, found in zip(chemical(c1, c2), study.derivatives(problem.TRUTH).values(), strict=True):
        assert_allclose(found, MOBILITY * (exact - exact.mean()), atol=1e-9)


BAD = [["--nx", "3"], ["--nx", "101"], ["--sigma", "0"], ["--sigma", "nan"], ["--seed", "-1"], ["--initial", "-1"]]


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_settings_are_one_line_and_exit_code_two(cache, capsys, tmp_path, arguments):
    assert command(*arguments, "--out", tmp_path / "new") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith("error: ")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "arguments", [["--data", "other"], ["--element", "Q1"], ["--biharmonic", "none"], ["--nx", "few"]], ids=" ".join
)
def test_words_that_are_no_option_have_exit_code_two_and_name_it(cache, capsys, arguments):
    assert command(*arguments) == 2
    err = capsys.readouterr().err
    assert arguments[0] in err
    assert "Traceback" not in err


def test_a_treatment_that_the_element_does_not_allow_is_one_line(cache, capsys, tmp_path):
    """The mixed form needs a lumped mass, which P2 triangles do not have."""
    assert command("--nx", 4, "--biharmonic", "mixed", "--out", tmp_path / "new") == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")


def test_the_study_over_seeds_writes_a_row_per_case(cache, capsys, tmp_path):
    arguments = ["--nx", "6", "--seeds", "1", "--initials", "1", "--out", str(tmp_path / "new")]
    assert cahn_hilliard_study.main(arguments) == 0
    (row,) = json.loads((tmp_path / "new" / "cahn_hilliard_neumann.json").read_text(encoding="utf-8"))
    assert (row["data"], row["nx"], row["sigma"], row["seed"], row["initial"]) == ("neumann", 6, 1e-3, 0, 0)
    assert row["exact"] == (set(row["selected"]) == set(problem.TRUTH))
    assert len(row["lambda"]) == len(row["mse"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("6 × 6, σ = 0.001, initial 0: exactly 16 in ")
    assert out == cahn_hilliard_study.line([row]) + "\n"
