"""Sets of files that appear as a whole, and stages that are not done twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.study.outputs import WORK, alone, finish_move, outputs
from bvsi.study.stages import Stages, data_parts, digest_of
from study.study_cases import wave


def contents(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir() if p.is_file()}


def write(folder: Path, **files: str) -> None:
    with outputs(folder) as aside:
        for name, text in files.items():
            (aside / name).write_text(text)


def test_files_appear_together(tmp_path: Path) -> None:
    write(tmp_path, a="1", b="1")
    assert contents(tmp_path) == {"a": "1", "b": "1"}
    write(tmp_path, a="2", b="2")
    assert contents(tmp_path) == {"a": "2", "b": "2"}


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path, a="1", b="1")
    with pytest.raises(FileNotFoundError), outputs(tmp_path) as aside:
        (aside / "a").write_text((tmp_path / "absent").read_text())
    finish_move(tmp_path)
    assert contents(tmp_path) == {"a": "1", "b": "1"}


def test_killed_before_the_seal_nothing_moves(tmp_path: Path) -> None:
    write(tmp_path, a="1", b="1")
    staging = tmp_path / WORK / "outputs"
    staging.mkdir(parents=True)
    (staging / "a").write_text("2")
    finish_move(tmp_path)
    assert contents(tmp_path) == {"a": "1", "b": "1"}
    write(tmp_path, a="3", b="3")
    assert contents(tmp_path) == {"a": "3", "b": "3"}


def test_killed_after_the_seal_the_move_is_finished(tmp_path: Path) -> None:
    write(tmp_path, a="1", b="1")
    staging = tmp_path / WORK / "outputs"
    staging.mkdir(parents=True)
    (staging / "b").write_text("2")  # a has been moved already
    (tmp_path / "a").write_text("2")
    (staging / "sealed").write_text("whole")
    finish_move(tmp_path)
    assert contents(tmp_path) == {"a": "2", "b": "2"}
    assert not staging.exists()


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(BvsiError, match="another run is writing there"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass


def keep(text: str, path: Path) -> None:
    path.write_text(text)


def test_a_stage_is_done_once_and_tells_how_long_it_took(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute() -> str:
        calls.append(1)
        return "text"

    first, again = Stages(tmp_path), Stages(tmp_path)
    for stages in (first, again):
        assert stages.done("one", "abc", compute, keep, Path.read_text) == "text"
    assert len(calls) == 1
    assert (first.anew, again.anew) == (["one"], [])
    assert again.seconds == first.seconds
    again.done("one", "other", compute, keep, Path.read_text)
    assert len(calls) == 2
    again.clear({"one": "other"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one-other", "one.seconds-other"]


def test_a_damaged_stage_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "one-abc").write_text("damaged")

    def load(path: Path) -> str:
        if path.read_text() == "damaged":
            raise BvsiError("damaged")
        return path.read_text()

    assert Stages(tmp_path).done("one", "abc", lambda: "made", keep, load) == "made"


def test_the_digest_knows_settings_and_contents() -> None:
    data = wave()
    first = digest_of({"a": 1}, data_parts([data]))
    assert digest_of({"a": 1}, data_parts([wave()])) == first
    assert digest_of({"a": 2}, data_parts([data])) != first
    u = np.array(data.fields["u"])
    u[3, 4] += 1e-12
    assert digest_of({"a": 1}, data_parts([data.with_fields({"u": u})])) != first
    later = Data(data.times + 1e-9, data.fields, data.geometry)
    assert digest_of({"a": 1}, data_parts([later])) != first
