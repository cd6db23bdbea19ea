"""The disk cache: whole files or none, made again when damaged, apart for other settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bvsi.errors import BvsiError
from bvsi.studies.problems.cache import cache_directory, cached

VALUE = {"p": np.arange(6.0).reshape(2, 3)}


class Maker:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return {key: values.copy() for key, values in VALUE.items()}


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("BVSI_CACHE", str(tmp_path / "made" / "when needed"))
    return tmp_path / "made" / "when needed"


def test_the_folder_is_the_one_chosen(folder):
    assert cache_directory() == folder


def test_without_a_choice_it_is_the_users_cache(monkeypatch):
    monkeypatch.delenv("BVSI_CACHE", raising=False)
    assert "bvsi" in cache_directory().parts


def test_made_once_then_read(folder):
    make = Maker()
    first, second = (cached("name", {"n": 3}, make) for _ in range(2))
    assert make.calls == 1
    assert_array_equal(first["p"], VALUE["p"])
    assert_array_equal(second["p"], VALUE["p"])
    (file,) = folder.iterdir()
    assert file.name.startswith("name-")
    assert file.suffix == ".npz"


def test_other_settings_are_another_file(folder):
    make = Maker()
    for settings in ({"n": 3}, {"n": 4}, {"n": 3, "m": 1}, {"m": 1, "n": 3}):
        cached("name", settings, make)
    assert make.calls == 3
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: b"not an archive",
        lambda whole: whole[:40],
        lambda whole: whole[:-30],
        lambda whole: whole[:150] + b"\xff" * 40 + whole[190:],
        lambda whole: b"\x80\x04]\x94.",
    ],
    ids=["empty", "text", "head only", "tail cut", "bytes changed", "pickle"],
)
def test_a_damaged_file_is_made_anew(folder, damage):
    make = Maker()
    cached("name", {"n": 3}, make)
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert_array_equal(cached("name", {"n": 3}, make)["p"], VALUE["p"])
    assert_array_equal(cached("name", {"n": 3}, make)["p"], VALUE["p"])
    assert make.calls == 2


def test_a_failure_leaves_no_file(folder):
    def fail() -> dict[str, np.ndarray]:
        raise BvsiError("no solution")

    with pytest.raises(BvsiError, match="no solution"):
        cached("name", {}, fail)
    assert not folder.exists() or not list(folder.iterdir())


def test_an_interrupted_write_leaves_no_file(folder, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cached("name", {}, Maker())
    assert not list(folder.rglob("*"))


def test_a_folder_that_cannot_be_written_does_not_lose_the_result(monkeypatch, tmp_path):
    """The path is a file: nothing can be kept, but what was computed is returned."""
    occupied = tmp_path / "occupied"
    occupied.write_text("a file")
    monkeypatch.setenv("BVSI_CACHE", str(occupied))
    assert_array_equal(cached("name", {}, Maker())["p"], VALUE["p"])
