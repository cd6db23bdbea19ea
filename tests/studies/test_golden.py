"""Golden numbers: what counts as a difference, and the command that keeps and compares them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bvsi.studies import golden
from bvsi.studies.golden import CASES, STORE, TOLERANCE, differences

FIT = {
    "names": ["laplacian(u)", "u"],
    "theta": [0.1, 0.0],
    "covariance": [[1e-6, 2e-7], [2e-7, 4e-6]],
    "chi2": 1.01,
}
KEPT = {
    "lagged": FIT,
    "path": {"criterion": "BIC", "steps": [{"changed": "u", "score": 12.5}]},
    "verdict": "consistent",
}
SMALL, LARGE = 0.5 * TOLERANCE, 2 * TOLERANCE


def changed(change: Callable[[dict[str, Any]], object]) -> list[str]:
    found = copy.deepcopy(KEPT)
    change(found)
    return differences(found, KEPT)


def shifted(key: str, *place: int, by: float) -> Callable[[dict[str, Any]], object]:
    def change(found: dict[str, Any]) -> None:
        values = found["lagged"][key]
        for i in place[:-1]:
            values = values[i]
        values[place[-1]] += by

    return change


def test_equal_figures_have_no_differences():
    assert differences(copy.deepcopy(KEPT), KEPT) == []


@pytest.mark.parametrize(
    "key, place, unit",
    [
        ("theta", (0,), 0.1 + 1e-3),  # |θ| + sd
        ("theta", (1,), 2e-3),  # a coefficient of zero is measured by its sd
        ("covariance", (0, 0), 1e-6),  # V_ii
        ("covariance", (0, 1), 2e-6),  # √(V_ii V_jj), though V_ij is a tenth of it
    ],
)
def test_coefficients_and_covariances_are_measured_in_their_own_units(key, place, unit):
    assert changed(shifted(key, *place, by=SMALL * unit)) == []
    (told,) = changed(shifted(key, *place, by=LARGE * unit))
    assert told.startswith(f"/lagged/{key}: relative change 2e-09")


def test_other_numbers_are_measured_by_their_size():
    def score(factor: float) -> Callable[[dict[str, Any]], object]:
        return lambda found: found["path"]["steps"][0].update(score=12.5 * factor)

    assert changed(score(1 + SMALL)) == []
    (told,) = changed(score(1 + LARGE))
    assert told.startswith("/path/steps/0/score: 12.5 → 12.5")
    assert differences({"p": 1e-14}, {"p": 3e-15}) == []
    assert differences({"p": 1e-11}, {"p": 3e-12}) != []


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda found: found["lagged"].update(names=["laplacian(u)", "u**2"]), "/lagged/names/1: u → u**2"),
        (lambda found: found["lagged"].update(names=["u"]), "/lagged/names: ['laplacian(u)', 'u'] → ['u']"),
        (lambda found: found.update(verdict="under-resolved"), "/verdict: consistent → under-resolved"),
        (lambda found: found.pop("verdict"), ": ['lagged', 'path'] instead of ['lagged', 'path', 'verdict']"),
        (lambda found: found.update(more=1), ": ['lagged', 'more', 'path', 'verdict'] instead of"),
        (lambda found: found["path"]["steps"].append({}), "/path/steps: [{"),
        (lambda found: found["lagged"].pop("chi2"), "/lagged: ['covariance', 'names', 'theta'] instead of"),
    ],
)
def test_names_and_keys_must_be_equal(change, told):
    (found,) = changed(change)
    assert found.startswith(told)


def test_other_names_do_not_hide_other_numbers():
    def change(found: dict[str, Any]) -> None:
        found["lagged"].update(names=["laplacian(u)", "u**2"], theta=[0.2, 0.0])

    assert [told.split(":")[0] for told in changed(change)] == ["/lagged/names/1", "/lagged/theta/0"]


def test_all_cases_are_kept():
    assert set(json.loads(STORE.read_text(encoding="utf-8"))) == set(CASES)
    assert len(CASES) >= 14


def golden_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as stop:
        golden.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


def test_the_command_keeps_compares_and_tells_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    case, file = "ties", tmp_path / "new" / "golden.json"
    code, _, err = golden_command(capsys, case, "--file", file)
    assert code == 2
    assert f"no figures of '{case}'" in err
    assert not file.exists()

    code, out, _ = golden_command(capsys, case, "--file", file, "--store")
    assert code == 0
    assert out.endswith("kept\n")
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert set(kept) == {case}

    code, out, _ = golden_command(capsys, case, "--file", file, "--tol", "1e-12")
    assert code == 0
    assert "same" in out
    assert out.endswith("1 of 1 cases the same to 1e-12\n")

    kept[case]["theta"][0] *= 1 + 1e-5
    file.write_text(json.dumps(kept), encoding="utf-8")
    before = file.read_bytes()
    code, out, _ = golden_command(capsys, case, "--file", file)
    assert code == 1
    assert "DIFFERENT\n  /theta: relative change" in out
    assert out.endswith("0 of 1 cases the same to 1e-09\n")
    assert file.read_bytes() == before


def test_an_unknown_case_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = golden_command(capsys, "rings", "--file", tmp_path / "golden.json")
    assert (code, out) == (2, "")
    assert "no case 'rings'; there are " in err
