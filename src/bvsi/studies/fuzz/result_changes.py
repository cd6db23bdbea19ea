"""Changes of a result folder, as someone might send one: its files, its stages under way, links in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py  # type: ignore[import-untyped]

from bvsi.studies.fuzz.documents import changed_json, changed_tokens
from bvsi.studies.fuzz.hdf5_changes import change_hdf5
from bvsi.studies.fuzz.odd import NAMES, TEXTS, Rng, chance, odd_path, odd_value, pick
from bvsi.studies.fuzz.raw import changed_bytes


def change_result(study: Path, rng: Rng, canary: str) -> str:
    """Change one to three files of the folder ``result`` of a study; returns what was changed."""
    names = []
    for _ in range(int(rng.integers(1, 4))):
        act = int(rng.integers(10))
        if act <= 6:
            files = sorted(p for p in (study / "result").rglob("*") if p.is_file() and not p.is_symlink())
            shares = [4 if p.suffix in (".nc", ".json") else 2 if ".bvsi" in p.parts else 1 for p in files]
            weighted = [path for path, share in zip(files, shares, strict=True) for _ in range(share)]
            if weighted:
                names.append(_changed(pick(rng, weighted), rng, canary))
        else:
            names.append(_linked(study, rng, canary))
    return "+".join(names)


def _changed(path: Path, rng: Rng, canary: str) -> str:
    act = int(rng.integers(10))
    if act == 0:
        path.unlink()
        return f"no {path.name}"
    if act == 1:
        odd = (b"", b"\xff", b"abc", b"nan", b"null", b"[]", b"3", b"{}", b'"', b"\x00" * 100, b"\xef\xbb\xbf{}")
        path.write_bytes(pick(rng, odd))
        return f"{path.name} overwritten"
    if act == 2:
        content, told = changed_bytes(path.read_bytes(), rng)
    elif path.suffix == ".json":
        content, told = changed_json(path.read_bytes(), rng)
    elif path.read_bytes()[:4] == b"\x89HDF":
        told = change_hdf5(path, rng, canary) if chance(rng, 0.5) else _changed_record(path, rng)
        return f"{path.name}: {told}"
    else:
        text = changed_tokens(path.read_bytes().decode("utf-8", "replace"), rng)
        content, told = text.encode("utf-8", "surrogatepass"), "tokens"
    path.write_bytes(content)
    return f"{path.name}: {told}"


def _changed_record(path: Path, rng: Rng) -> str:
    """A text or number of the result as such, its JSON changed inside."""
    try:
        with h5py.File(path, "r+") as file:
            name = pick(rng, sorted(file.attrs))
            old = file.attrs[name]
            if isinstance(old, str) and old[:1] in ("{", "["):
                new: object = changed_json(old.encode(), rng)[0].decode("utf-8", "replace").replace("\x00", "")
            elif isinstance(old, str):
                new = pick(rng, (*NAMES, *TEXTS)).replace("\x00", "").encode("utf-8", "replace").decode()
            else:
                new = odd_value(rng)
            del file.attrs[name]
            file.attrs[name] = new
    except (OSError, ValueError, TypeError, RuntimeError, OverflowError, IndexError, KeyError) as error:
        return f"refused by h5py ({type(error).__name__})"
    return f"attribute {name}"


def _linked(study: Path, rng: Rng, canary: str) -> str:
    """A file or folder of the result as a link to elsewhere."""
    places = (
        "result", "result/.bvsi", "result/.bvsi/lock", "result/.bvsi/outputs", "result/quantities",
        "result/study.toml", "result/settings.json",
        "result/summary.json", "result/timing.json", "result/report.html", "result/report.md", "result/result.nc",
        "result/coefficients.csv",
        "result/quantities/more.nc", "study.toml", "run.nc",
    )  # fmt: skip
    path = study / pick(rng, places)
    links = (canary, f"{canary}/notes.txt", f"{canary}/secret.txt", f"{canary}/new", odd_path(rng, canary))
    target = pick(rng, links).replace("\x00", "")[:255] or "."
    if not path.parent.is_dir() or (study / "result").is_symlink() or path.parent.is_symlink():  # made a link before
        return "no place for a link"
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    path.symlink_to(target)
    return f"{path.relative_to(study)} -> {Path(target).name}"
