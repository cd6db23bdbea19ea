"""The commands: help, one clear line for errors, what they write."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bvsi.select import FStatistic
from bvsi.studies.problems import fokker_planck as problem
from bvsi.studies.reproduce import ablation
from bvsi.studies.reproduce import fokker_planck as study


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def bvsi(command, monkeypatch, cache):
    """Run a command in this process on a small forward solve; exit code, stdout, stderr."""
    monkeypatch.setattr(problem, "N_FINE", 40)
    monkeypatch.setenv("BVSI_CACHE", str(cache))
    monkeypatch.setenv("COLUMNS", "120")

    return command


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--help"], ["demo", "reproduce"]),
        (["reproduce", "--help"], ["fokker-planck", "ablation"]),
        (["reproduce", "fokker-planck", "--help"], ["--nx", "--sigma", "--seed", "--element", "--out"]),
        (["reproduce", "ablation", "--help"], ["--seeds", "--largest", "--out"]),
        (["demo", "--help"], ["--out"]),
    ],
    ids=lambda v: " ".join(v),
)
def test_help(bvsi, arguments, words):
    code, out, err = bvsi(*arguments)
    assert code == 0
    assert err == ""
    for word in words:
        assert word in out


def test_help_is_quick_and_loads_nothing_heavy():
    script = (
        "import sys\n"
        "sys.argv = ['bvsi', '--help']\n"
        "from bvsi.app.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'matplotlib', 'numba', 'sympy', 'skfem', 'xarray', 'scipy', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    assert "reproduce" in found.stdout


BAD = [["--nx", "7"], ["--nx", "0"], ["--nx", "-5"], ["--sigma", "-1e-3"], ["--sigma", "nan"], ["--seed", "-1"]]


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_settings_are_one_line_and_exit_code_two(bvsi, tmp_path, arguments):
    code, out, err = bvsi("reproduce", "fokker-planck", *arguments, "--out", tmp_path / "new")
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert arguments[0].removeprefix("--") in err
    assert not (tmp_path / "new").exists()


def test_errors_of_the_module_form_are_one_line_too(tmp_path):
    command = [
        sys.executable,
        "-m",
        "bvsi.app.cli",
        "reproduce",
        "fokker-planck",
        "--nx",
        "7",
        "--out",
        str(tmp_path / "o"),
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert found.stderr.splitlines() == [found.stderr.strip()]
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("arguments", [["--element", "Q7"], ["--nx", "many"], ["--unknown"]], ids=" ".join)
def test_usage_errors_have_exit_code_two(bvsi, arguments):
    code, _, err = bvsi("reproduce", "fokker-planck", *arguments)
    assert code == 2
    assert "Traceback" not in err


def test_an_unknown_command_has_exit_code_two(bvsi):
    code, _, err = bvsi("discover-everything")
    assert code == 2
    assert "discover-everything" in err


def test_a_run_writes_its_results_and_says_where(bvsi, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "OTHER_CRITERIA", (FStatistic(),))
    out = tmp_path / "new" / "folder"
    code, printed, err = bvsi("reproduce", "fokker-planck", "--nx", 10, "--sigma", 1e-3, "--seed", 3, "--out", out)
    assert code == 0
    assert "error" not in err  # a slow machine has time for lines of progress
    assert str(out / "result.json") in printed
    assert str(out / "index.html") in printed
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert result["case"] == {"nx": 10, "sigma": 1e-3, "seed": 3, "accurate_time": False, "element": "Q2"}
    assert "← selected" in printed
    assert "F-statistic selects" in printed
    assert "MSE(ψ)" in printed


def test_the_folder_for_results_may_not_be_a_file(bvsi, tmp_path, monkeypatch):
    """Told in one line, before the work and not after it."""
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(study, "run", lambda *a, **k: pytest.fail("the work was begun"))
    code, _, err = bvsi("reproduce", "fokker-planck", "--nx", 10, "--out", tmp_path / "file")
    assert code == 2
    assert len(err.splitlines()) == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_the_ablation_command_resumes(bvsi, tmp_path, monkeypatch):
    monkeypatch.setattr(ablation, "SIGMAS", (1e-3,))
    monkeypatch.setattr(ablation, "SIZES", (10, 20))
    calls = []

    def made(case, element):
        calls.append(case)
        errors = dict.fromkeys(("vsi", "lagged", "profile"), case.sigma)
        head = {"element": element.name, "nx": case.nx, "sigma": case.sigma, "seed": case.seed}
        return {**head, "error": errors, "chi2": errors, "converged": errors}

    monkeypatch.setattr(ablation, "measure", made)
    arguments = ("reproduce", "ablation", "--seeds", 2, "--largest", 10, "--out", tmp_path)
    code, out, _ = bvsi(*arguments)
    assert code == 0
    assert str(tmp_path / "index.html") in out
    assert len(calls) == 2
    assert bvsi(*arguments)[:2] == (0, out)
    assert len(calls) == 2


def test_an_ablation_of_nothing_is_refused(bvsi, tmp_path):
    code, _, err = bvsi("reproduce", "ablation", "--largest", 5, "--out", tmp_path / "new")
    assert code == 2
    assert len(err.splitlines()) == 1
