"""The ablation study: resumable, one line per case."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.spaces import Q1, Q2
from bvsi.studies.problems import fokker_planck as problem
from bvsi.studies.reproduce import ablation

CASES = 4  # two noise levels, two seeds, one grid


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def small(monkeypatch, cache):
    monkeypatch.setattr(problem, "N_FINE", 40)
    monkeypatch.setattr(ablation, "SIGMAS", (1e-4, 1e-3))
    monkeypatch.setenv("BVSI_CACHE", str(cache))


def made_row(case: problem.Case, element) -> dict:
    """A row as :func:`ablation.measure` makes it, at once."""
    size = case.sigma * (1 + case.seed) / case.nx
    methods = {"vsi": 3 * size, "lagged": 2 * size, "profile": size}
    return {
        "element": element.name,
        "nx": case.nx,
        "sigma": case.sigma,
        "seed": case.seed,
        "error": methods,
        "chi2": dict.fromkeys(methods, 1.0),
        "converged": dict.fromkeys(methods, True),
    }


@pytest.fixture
def counted(monkeypatch):
    """Cases in the order in which they are computed; nothing is fitted."""
    calls = []

    def counting(case, element):
        calls.append((case.nx, case.sigma, case.seed, element.name))
        return made_row(case, element)

    monkeypatch.setattr(ablation, "measure", counting)
    return calls


def run(out, **choices):
    return ablation.run(out, **{"seeds": 2, "sizes": (10,), "element": Q1, **choices})


def test_every_case_is_a_line(tmp_path):
    rows = run(tmp_path / "new")
    lines = (tmp_path / "new" / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert len(rows) == CASES
    for row in rows:
        assert set(row) == set(made_row(problem.Case(nx=10), Q1))
        assert set(row["error"]) == set(row["chi2"]) == {"vsi", "lagged", "profile"}
        assert all(np.isfinite(v) and v > 0 for v in row["error"].values())


def test_a_second_run_computes_nothing(tmp_path, counted):
    first = run(tmp_path)
    counted.clear()
    before = (tmp_path / "rows.jsonl").read_bytes()
    assert run(tmp_path) == first
    assert counted == []
    assert (tmp_path / "rows.jsonl").read_bytes() == before


def test_more_seeds_compute_only_the_new_ones(tmp_path, counted):
    run(tmp_path, seeds=1)
    counted.clear()
    assert len(run(tmp_path, seeds=2)) == CASES
    assert [seed for _, _, seed, _ in counted] == [1, 1]


def test_another_element_is_another_case(tmp_path, counted):
    run(tmp_path, seeds=1)
    counted.clear()
    rows = run(tmp_path, seeds=1, element=Q2)
    assert len(counted) == 2
    assert {row["element"] for row in rows} == {"Q2"}


def test_only_rows_asked_for_are_returned(tmp_path, counted):
    run(tmp_path, seeds=2)
    assert len(run(tmp_path, seeds=1)) == 2


@pytest.mark.parametrize("rest", [b'{"element": "Q1", "nx"', b'{"element": "Q1"\n', b"\n\n", b""], ids=repr)
def test_a_line_cut_off_is_ignored_and_its_case_done_again(tmp_path, counted, rest):
    """The file ends where the interruption came; what is written after it stays readable."""
    whole = run(tmp_path)
    store = tmp_path / "rows.jsonl"
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:-1]) + rest)
    counted.clear()
    again = run(tmp_path)
    assert len(counted) == 1
    assert again == whole
    counted.clear()
    assert run(tmp_path) == whole  # nothing was glued to the broken line
    assert counted == []


def test_an_interruption_loses_one_case_at_most(tmp_path, monkeypatch):
    done = []

    def interrupted(case, element):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(case)
        return made_row(case, element)

    monkeypatch.setattr(ablation, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert len((tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    monkeypatch.setattr(ablation, "measure", made_row)
    assert len(run(tmp_path)) == CASES


def test_an_error_is_that_of_the_true_model(small):
    row = ablation.measure(problem.Case(nx=20, sigma=1e-3, seed=4), Q1)
    fits = problem.fit_true_model(problem.Case(nx=20, sigma=1e-3, seed=4), Q1)
    assert_allclose(row["error"]["vsi"], problem.error(fits["vsi"]), rtol=1e-10)
    assert_allclose(row["error"]["profile"], problem.error(fits["profile"]), rtol=1e-3)
    assert_allclose(row["chi2"]["profile"], fits["profile"].chi2, rtol=1e-4)


def test_page_figure_and_table(tmp_path, counted):
    rows = run(tmp_path)
    index = ablation.write(rows, tmp_path)
    text = index.read_text(encoding="utf-8")
    assert (tmp_path / "ablation.png").read_bytes().startswith(b"\x89PNG")
    assert "http" not in text
    table = ablation.table(rows).splitlines()
    assert len(table) == 3
    assert table[1].split()[0] == "1.00e-04"
    assert table[1].split()[-1] == "2"


def test_the_table_has_medians():
    rows = [
        {"sigma": 1.0, "nx": 5, "error": dict.fromkeys(("vsi", "lagged", "profile"), e), "chi2": {"profile": e}}
        for e in (1.0, 2.0, 60.0, 4.0)
    ]
    assert ablation.table(rows[:3]).splitlines()[1].split()[2] == "2.0000"
    assert ablation.table(rows).splitlines()[1].split()[2] == "3.0000"


def test_progress_counts_cases(tmp_path, counted):
    calls = []
    run(tmp_path, progress=lambda *a: calls.append(a))
    assert [done for done, _, _ in calls] == [0, 1, 2, 3, 4]
    assert {total for _, total, _ in calls} == {CASES}
