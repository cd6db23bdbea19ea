"""Malformed inputs: each is a folder that is filled, and a command line that must refuse what is in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EQUATIONS = '[library.equations]\nu = ["laplacian(u)", "u"]\n'
BASE = '[data]\nfile = "good.nc"\nfields = ["u"]\n' + EQUATIONS


@dataclass(frozen=True)
class Case:
    """A malformed input.

    name: what is wrong.
    fill: writes the files into a folder; the second argument is a folder with whole files of every format.
    command: arguments of ``bvsi``, which is run in that folder.
    """

    name: str
    fill: Callable[[Path, Path], None]
    command: tuple[str, ...] = ("run", "study.toml", "--quiet")


def study(text: str, *names: str) -> Callable[[Path, Path], None]:
    """A study file, beside whole files (or folders) of some names."""

    def fill(folder: Path, whole: Path) -> None:
        (folder / "study.toml").write_text(text, encoding="utf-8")
        taken(whole, folder, *names)

    return fill


def taken(whole: Path, folder: Path, *names: str) -> None:
    """Copy whole files or folders, by name or pattern."""
    for name in names:
        for path in sorted(whole.glob(name)):
            if path.is_dir():
                shutil.copytree(path, folder / path.name)
            else:
                shutil.copy(path, folder / path.name)


def picture(folder: Path) -> dict[str, object]:
    """Names, kinds and contents of everything below a folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = path.readlink()
        elif path.is_file():
            found[name] = path.read_bytes() if os.access(path, os.R_OK) else path.stat().st_size
        else:
            found[name] = "other"
    return found


def check_refused(code: object, err: str, words: str, before: dict[str, object], folder: Path) -> None:
    """One clear message with these words, exit code 2, and nothing touched."""
    assert code == 2, err
    assert words in err
    assert err.startswith(("error: ", "Usage: ")), err  # the second is typer's, for options that are not understood
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 25
    assert len(err) < 6000
    assert all(character.isprintable() or character == "\n" for character in err)
    assert picture(folder) == before
