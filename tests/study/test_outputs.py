"""Sets of files that appear as a whole, and stages that are not done twice."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bvsi.app.files import write_whole
from bvsi.app.study import seal
from bvsi.app.study.exchange import aside_of, exchange
from bvsi.app.study.outputs import WORK, alone, check_place, finish_move, recover, write_outputs
from bvsi.app.study.stages import Stages, data_parts, digest_of
from bvsi.data import Data
from bvsi.errors import BvsiError
from study.study_cases import wave


def contents(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir() if p.is_file()}


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    """As write_outputs leaves a folder when it is killed just after the seal."""
    with monkeypatch.context() as patch:
        patch.setattr("bvsi.app.study.outputs.finish_move", lambda _: None)
        write_outputs(folder, files)


def no_exchange(one: Path, other: Path) -> None:
    """As on a system that cannot swap two folders."""
    raise OSError(errno.ENOSYS, "Function not implemented")


REAL = {name: getattr(os, name) for name in ("link", "mkdir", "rmdir", "unlink", "rename", "replace")}


class Killed(BaseException):
    """What nothing catches."""


def fault_at(act: int, fault: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the process end at an act of writing, or the act fail, or all from it on; returns the acts, as they come."""
    acts: list[str] = []
    for name in REAL:

        def counted(*given: Any, name: str = name, real: Any = REAL[name], **options: Any) -> Any:
            acts.append(name)
            if len(acts) == act and fault == "killed":
                raise Killed
            if len(acts) == act or (len(acts) > act and fault == "lasting"):
                raise OSError(errno.EIO, "Input/output error")
            return real(*given, **options)

        monkeypatch.setattr(os, name, counted)
    return acts


def whole(folder: Path) -> dict[str, str]:
    """All that a reader sees in a folder."""
    names = [path for path in folder.rglob("*") if path.is_file() and WORK not in path.relative_to(folder).parts]
    return {str(path.relative_to(folder)): path.read_text() for path in names}


@pytest.mark.parametrize("fault", ["killed", "once", "lasting"])
def test_whatever_act_fails_the_folder_is_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    own = {"mine": "kept", "q/mine": "kept", "deep/er/mine": "kept"}
    old, new = {"a": "1", "b": "1", "q/c": "1"} | own, {"a": "2", "d": "2"} | own
    seen = set()
    for act in range(1, 200):
        folder = tmp_path / str(act) / "result"
        write_outputs(folder, {"a": "1", "b": "1", "q/c": "1"})
        for name in own:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("kept")
        with monkeypatch.context() as patch:
            acts = fault_at(act, fault, patch)
            with suppress(Killed, OSError):
                write_outputs(folder, {"a": "2", "d": "2"})
        found = whole(folder)
        assert found in (old, new), (act, acts[-1])
        seen.add(found == new)
        recover(folder)
        assert whole(folder) in (old, new)
        write_outputs(folder, {"a": "2", "d": "2"})
        assert whole(folder) == new
        assert list(folder.parent.iterdir()) == [folder]
        if len(acts) < act:
            break
    assert len(acts) < act
    assert seen == {False, True}


def test_what_is_written_to_the_folder_in_the_meantime_moves_on(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "result"
    write_outputs(folder, {"a": "1"})

    def late(one: Path, other: Path) -> None:
        (one / "late").write_text("kept")
        (one / "deep").mkdir()
        (one / "deep/late").write_text("kept")
        exchange(one, other)

    monkeypatch.setattr("bvsi.app.study.outputs.exchange", late)
    write_outputs(folder, {"a": "2"})
    assert whole(folder) == {"a": "2", "late": "kept", "deep/late": "kept"}
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_of_that_name_that_is_not_ours_stays(tmp_path: Path) -> None:
    folder = tmp_path / "result"
    write_outputs(folder, {"a": "1"})
    aside_of(folder).mkdir()
    (aside_of(folder) / "mine").write_text("kept")
    write_outputs(folder, {"a": "2"})
    assert whole(folder) == {"a": "2"}
    assert whole(aside_of(folder)) == {"mine": "kept"}


def test_the_lock_outlives_the_swap(tmp_path: Path) -> None:
    folder = tmp_path / "result"
    with alone(folder):
        write_outputs(folder, {"a": "1"})
        with pytest.raises(BvsiError, match="another run"), alone(folder):
            pass


def test_files_appear_together_and_old_ones_go(tmp_path: Path) -> None:
    write_outputs(tmp_path, {"a": "1", "b": "1", "q/c": "1"})
    assert contents(tmp_path) == {"a": "1", "b": "1"}
    (tmp_path / "q/mine").write_text("kept")
    write_outputs(tmp_path, {"a": "2", "d": "2"})
    assert contents(tmp_path) == {"a": "2", "d": "2"}
    assert contents(tmp_path / "q") == {"mine": "kept"}


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_outputs(tmp_path, {"a": "1", "b": "1"})

    def full(path: Path, content: bytes | str) -> None:
        if path.name == "b":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(path, content)

    monkeypatch.setattr("bvsi.app.study.outputs.write_whole", full)
    with pytest.raises(OSError, match="No space"):
        write_outputs(tmp_path, {"a": "2", "b": "2"})
    finish_move(tmp_path)
    assert contents(tmp_path) == {"a": "1", "b": "1"}


def test_killed_before_the_seal_nothing_moves(tmp_path: Path) -> None:
    write_outputs(tmp_path, {"a": "1", "b": "1"})
    staging = tmp_path / WORK / "outputs"
    staging.mkdir(parents=True)
    (staging / "a").write_text("2")
    finish_move(tmp_path)
    assert contents(tmp_path) == {"a": "1", "b": "1"}
    write_outputs(tmp_path, {"a": "3", "b": "3"})
    assert contents(tmp_path) == {"a": "3", "b": "3"}


@pytest.mark.parametrize("moved", [(), ("a",), ("a", "b")])
def test_killed_after_the_seal_the_move_is_finished(tmp_path: Path, monkeypatch, moved: tuple[str, ...]) -> None:
    write_outputs(tmp_path, {"a": "1", "b": "1"})
    interrupted(tmp_path, monkeypatch, a="2", b="2")
    staging = tmp_path / WORK / "outputs"
    for name in moved:
        (staging / name).replace(tmp_path / name)
    finish_move(tmp_path)
    assert contents(tmp_path) == {"a": "2", "b": "2"}
    assert not staging.exists()


def test_a_rename_that_fails_once_leaves_nothing_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_outputs(tmp_path, {"a": "1", "b": "1", "c": "1"})
    rename, failed = Path.replace, []

    def once(self: Path, target: Path) -> Path:
        if self.name == "b" and not failed:
            failed.append(self)
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    interrupted(tmp_path, monkeypatch, a="2", b="2", c="2")
    monkeypatch.setattr("bvsi.app.study.outputs.exchange", no_exchange)
    monkeypatch.setattr(Path, "replace", once)
    finish_move(tmp_path)
    assert failed
    assert contents(tmp_path) == {"a": "2", "b": "2", "c": "2"}


def test_a_key_that_was_cut_off_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_state_dir", lambda _: str(tmp_path))
    (tmp_path / "key").write_bytes(b"")
    first, again = seal._key.__wrapped__(), seal._key.__wrapped__()
    assert first == again
    assert len(first) == 32


@pytest.mark.parametrize("fault", ["no seal", "another key", "garbled", "changed", "linked"])
def test_a_set_that_was_not_sealed_here_is_dropped(tmp_path: Path, monkeypatch, fault: str) -> None:
    write_outputs(tmp_path, {"a": "1"})
    interrupted(tmp_path, monkeypatch, a="2")
    staging = tmp_path / WORK / "outputs"
    if fault == "another key":
        monkeypatch.setattr("bvsi.app.study.seal._key", lambda: b"another")
    elif fault == "changed":
        (staging / "a").write_text("forged")
    elif fault == "linked":
        (tmp_path / "secret").write_text("2")
        (staging / "a").unlink()
        (staging / "a").symlink_to(tmp_path / "secret")
    else:
        (staging / "sealed").write_bytes({"no seal": b"whole", "garbled": b"\xff"}[fault])
    finish_move(tmp_path)
    assert (tmp_path / "a").read_text() == "1"
    assert not (tmp_path / "a").is_symlink()
    assert not staging.exists()


@pytest.mark.parametrize("link", [".", WORK, f"{WORK}/outputs", f"{WORK}/lock", f"{WORK}/written", "a", "q", "q/c"])
def test_no_link_is_written_through(tmp_path: Path, link: str) -> None:
    other = tmp_path / "other"
    (other / "outputs").mkdir(parents=True)
    (other / "thesis-final.tex").write_text("mine")
    folder = tmp_path / "result"
    place = folder / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(other if link in (".", WORK, f"{WORK}/outputs", "q") else other / "thesis-final.tex")
    with pytest.raises(BvsiError, match="link"):
        write_outputs(folder, {"a": "1", "q/c": "1"})
    assert (other / "thesis-final.tex").read_text() == "mine"
    assert (other / "outputs").is_dir()


def test_no_move_is_finished_through_a_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "outputs").mkdir(parents=True)
    (other / "outputs/sealed").write_text("mine")
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / WORK).symlink_to(other)
    finish_move(tmp_path / "result")
    assert (other / "outputs/sealed").read_text() == "mine"


def test_a_link_on_the_way_to_the_folder_is_refused_below_the_study(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "study").mkdir()
    (tmp_path / "study/way").symlink_to(tmp_path / "other")
    folder = tmp_path / "study/way/result"
    check_place(folder, ["a"])
    with pytest.raises(BvsiError, match="link"):
        check_place(folder, ["a"], within=tmp_path / "study")


def test_files_that_are_not_ours_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(BvsiError, match="'b', which bvsi did not write"):
        write_outputs(tmp_path, {"a": "1", "b": "1"})
    assert contents(tmp_path) == {"b": "mine"}


@pytest.mark.parametrize("name", ["../victim", "/victim", ".bvsi/lock", "q/../../victim", 3, None, "a\\b"])
def test_a_forged_list_names_nothing_outside(tmp_path: Path, name: object) -> None:
    folder = tmp_path / "result"
    write_outputs(folder, {"a": "1"})
    (tmp_path / "victim").write_text("mine")
    (folder / WORK / "written").write_text(json.dumps(["a", name]))
    write_outputs(folder, {"a": "2"})
    assert (tmp_path / "victim").read_text() == "mine"


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(BvsiError, match="another run is writing there"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass


def test_the_lock_truncates_nothing(tmp_path: Path) -> None:
    (tmp_path / WORK).mkdir()
    (tmp_path / "notes").write_text("mine")
    (tmp_path / WORK / "lock").symlink_to(tmp_path / "notes")
    with pytest.raises(BvsiError, match="a file of its own"), alone(tmp_path):
        pass
    assert (tmp_path / "notes").read_text() == "mine"


A, B = "a" * 20, "b" * 20


def test_a_stage_is_done_once_and_tells_how_long_it_took(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute() -> str:
        calls.append(1)
        return "text"

    first, again = Stages(tmp_path), Stages(tmp_path)
    for stages in (first, again):
        assert stages.done("discovery", A, compute, str.encode, Path.read_text) == "text"
    assert len(calls) == 1
    assert (first.taken, again.taken) == ([], ["discovery"])
    assert again.seconds == first.seconds
    again.done("discovery", B, compute, str.encode, Path.read_text)
    assert len(calls) == 2
    (tmp_path / "photo-001.png").write_text("mine")
    again.clear({"discovery": B})
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"discovery-{B}", f"discovery-{B}.seal", "photo-001.png"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path, seal: path.write_text("forged"),
        lambda path, seal: path.write_bytes(b""),
        lambda path, seal: path.write_bytes(path.read_bytes()[:2]),
        lambda path, seal: seal.write_bytes(b""),
        lambda path, seal: seal.write_bytes(b"\xff"),
        lambda path, seal: seal.write_text("nan"),
        lambda path, seal: seal.write_text("{}"),
        lambda path, seal: seal.write_text("[" * 100_000),
        lambda path, seal: seal.write_text(seal.read_text().replace('"seconds": ', '"seconds": 1')),
        lambda path, seal: seal.unlink(),
        lambda path, seal: (path.rename(path.with_name("other")), path.symlink_to(path.with_name("other"))),
    ],
)
def test_a_damaged_or_forged_stage_is_done_again_and_told(tmp_path: Path, damage) -> None:
    Stages(tmp_path).done("discovery", A, lambda: "text", str.encode, Path.read_text)
    damage(tmp_path / f"discovery-{A}", tmp_path / f"discovery-{A}.seal")
    again = Stages(tmp_path)
    assert again.done("discovery", A, lambda: "made", str.encode, Path.read_text) == "made"
    assert (again.taken, again.refused) == ([], ["discovery"])
    later = Stages(tmp_path)
    assert later.done("discovery", A, lambda: "never", str.encode, Path.read_text) == "made"


def test_a_stage_of_another_machine_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("bvsi.app.study.seal._key", lambda: b"theirs")
        Stages(tmp_path).done("discovery", A, lambda: "forged", str.encode, Path.read_text)
    assert Stages(tmp_path).done("discovery", A, lambda: "ours", str.encode, Path.read_text) == "ours"


def test_the_key_stays_and_is_for_the_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_state_dir", lambda _: str(tmp_path / "state"))
    first, again = seal._key.__wrapped__(), seal._key.__wrapped__()
    assert first == again
    assert len(first) == 32
    assert (tmp_path / "state/key").stat().st_mode & 0o077 == 0


def test_without_a_place_for_the_key_nothing_from_before_is_trusted(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("platformdirs.user_state_dir", lambda _: str(tmp_path / "file/state"))
    assert seal._key.__wrapped__() != seal._key.__wrapped__()


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


def test_reading_touches_nothing_in_a_folder_from_elsewhere(tmp_path: Path) -> None:
    staging = tmp_path / "result" / WORK / "outputs"
    staging.mkdir(parents=True)
    (staging / "sealed").write_text(json.dumps({"files": "{}", "seal": "forged"}))
    before = sorted(tmp_path.rglob("*"))
    recover(tmp_path / "result")
    assert sorted(tmp_path.rglob("*")) == before
