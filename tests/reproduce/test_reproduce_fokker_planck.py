"""The Fokker–Planck study on a small grid: results, figures, page."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.spaces import Q2
from bvsi.studies.problems import fokker_planck as problem
from bvsi.studies.reproduce import fokker_planck as study
from bvsi.studies.reproduce import page

METHODS = ("vsi", "lagged", "profile")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """32 × 32 cells instead of 400 × 400, sampled to 16 × 16."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem, "N_FINE", 32)
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def found(small):
    return study.run(problem.Case(nx=16, sigma=1e-3, seed=0), Q2)


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "new"
    index = study.write(found, out)
    assert index == out / "index.html"
    return out


@pytest.fixture(scope="module")
def result(folder):
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


def test_the_result_has_every_method(result):
    assert set(METHODS) <= set(result["methods"])
    for method in METHODS:
        entry = result["methods"][method]
        assert {"selected", "theta", "error", "mse_psi", "chi2"} <= set(entry)
        assert list(entry["theta"]) == entry["selected"]
        assert entry["error"] > 0
        assert entry["mse_psi"] > 0
        if method != "vsi":
            assert list(entry["variance"]) == entry["selected"]
            assert all(v > 0 for v in entry["variance"].values())
            assert entry["chi2"] > 0
    assert result["seconds"] > 0
    assert result["case"] == {"nx": 16, "sigma": 1e-3, "seed": 0, "accurate_time": False, "element": "Q2"}


def test_errors_are_distances_to_the_truth(result):
    for entry in (*result["methods"].values(), *result["true_model"].values()):
        union = {*problem.TRUTH, *entry["theta"]}
        difference = [entry["theta"].get(n, 0.0) - problem.TRUTH.get(n, 0.0) for n in union]
        assert_allclose(entry["error"], np.linalg.norm(difference), rtol=1e-12)


def test_the_error_of_the_potential_is_its_mean_square(result):
    x = np.linspace(-5, 5, 17)
    X, Y = np.meshgrid(x, x, indexing="ij")
    values = {"x": X, "y": Y, "x**2": X**2, "y**2": Y**2, "x*y": X * Y}
    values |= {"x**3": X**3, "y**3": Y**3, "x**2*y": X**2 * Y, "x*y**2": X * Y**2}

    def psi(theta: dict[str, float]) -> np.ndarray:
        total = sum(theta.get(f"div(p*grad({phi}))", 0.0) * v for phi, v in values.items())
        return total - total.mean()

    for method in METHODS:
        entry = result["methods"][method]
        expected = np.mean((psi(entry["theta"]) - psi(problem.TRUTH)) ** 2)
        assert_allclose(entry["mse_psi"], expected, rtol=1e-8)


def test_the_path_begins_with_all_candidates_and_keeps_the_laplacian(result):
    path = result["path"]
    assert path[0]["operators"] == list(problem.CANDIDATES)
    assert path[0]["changed"] is None
    for before, after in itertools.pairwise(path):
        assert set(before["operators"]) - set(after["operators"]) == {after["changed"]}
        assert "laplacian(p)" in after["operators"]
        assert set(after["theta"]) == set(after["operators"])
    best = min(path, key=lambda step: step["score"])
    assert result["methods"]["profile"]["selected"] == best["operators"]


def test_other_criteria_have_paths_of_their_own(result):
    assert set(result["other_criteria"]) == {"profile BIC", "residual BIC (paper)", "F-statistic"}
    for entry in result["other_criteria"].values():
        assert entry["selected"] == min(entry["path"], key=lambda step: step["score"])["operators"]


def test_the_true_model_is_fitted_too(result):
    for method in METHODS:
        assert list(result["true_model"][method]["theta"]) == list(problem.TRUTH)
    assert result["true_model"]["profile"]["error"] < result["true_model"]["lagged"]["error"]


def test_the_figures_exist(folder):
    for name in ("overview", "data", "path", "covariance", "potential"):
        image = (folder / f"{name}.png").read_bytes()
        assert image.startswith(b"\x89PNG")
        assert len(image) > 5000


def test_the_page_needs_nothing_from_elsewhere(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert not re.search(r"https?://|//[a-z]+\.|@import|<link|<script|url\(", text)
    sources = re.findall(r'src="([^"]{0,40})', text)
    assert len(sources) == 5
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert text.count("<img alt=") == 5


def test_the_page_shows_equation_table_and_path(found, folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "p_t = " in text
    assert "MSE(ψ)" in text
    assert "← selected" in text
    for name in found.path.best.names:
        assert name in text


def test_nothing_else_is_left_in_the_folder(folder):
    assert {p.suffix for p in folder.iterdir()} == {".png", ".json", ".html"}


def test_the_comparison_stands_beside_the_papers_numbers(found):
    rows = study.comparison(found).splitlines()
    for name in problem.TRUTH:
        assert any(row.startswith(name) for row in rows)
    assert "0.65" in rows[-2]
    assert "8.49" in rows[-1]


def test_fewer_criteria_can_be_asked_for(small):
    quick = study.run(problem.Case(nx=8, sigma=1e-2), Q2, all_criteria=False)
    assert not quick.other_paths
    assert study.summary(quick)["other_criteria"] == {}


def test_texts_on_the_page_are_escaped():
    text = page.page("a < b & c", [page.text("<script>"), page.preformatted("x < y"), page.equation('"q" > p')])
    assert "<script>" not in text
    assert "<title>a &lt; b &amp; c</title>" in text
    assert "x &lt; y" in text
