"""Command lines that name what is not there, or what is no result; hostile names of files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bvsi.app.posterior_storage import save_posterior
from cli.malformed import BASE, Case, taken
from discovery.discovery_cases import made

Write = Callable[[Path], object]


def whole_results(folder: Path) -> None:
    """A result that was saved, and the posterior of it."""
    made().save(folder / "found.nc")
    save_posterior(made().posterior, folder / "posterior.nc")


def command_cases() -> Iterator[Case]:
    """All of them."""
    readers = (("report", "found.nc"), ("compare", "other.nc", "found.nc"), ("predict", "found.nc", "[u]"))
    for number, (name, (content, write)) in enumerate(_RESULTS.items()):
        for command in readers if number < 1 else readers[:1]:  # all load in the same way
            yield Case(f"{command[0]}: {name}", partial(_result, content, write), command)
    for command in _COMMANDS:
        shown = " ".join(part if len(part) < 40 else f"{part[:20]}…" for part in command)
        yield Case(f"bvsi {shown!a}", _everything, command)
    for name, (write, study) in _PLACES.items():
        for command in (("inspect", name), ("init", name, "--out", "new.toml")):
            yield Case(f"{command[0]} of a {study} ({name!a})", partial(_place, write), command)
    for name, write in _STUDIES.items():
        yield Case(f"run of {name}", partial(_place, write))


def _everything(folder: Path, whole: Path) -> None:
    taken(whole, folder, "good.nc", "found.nc", "line.npz")
    (folder / "study.toml").write_text(BASE, encoding="utf-8")
    (folder / "empty").mkdir()


def _place(write: Write, folder: Path, whole: Path) -> None:
    taken(whole, folder, "good.nc")
    write(folder)


def _result(content: Callable[[bytes], bytes], change: Callable[[Any], Any], folder: Path, whole: Path) -> None:
    """A result whose dataset and bytes are changed, beside one that is whole."""
    import xarray as xr

    taken(whole, folder, "found.nc", "posterior.nc")
    (folder / "found.nc").rename(folder / "other.nc")
    with xr.open_dataset(folder / "other.nc", engine="h5netcdf") as stored:
        change(stored.load()).to_netcdf(folder / "found.nc", engine="h5netcdf")
    (folder / "found.nc").write_bytes(content((folder / "found.nc").read_bytes()))


def _without(name: str) -> Callable[[Any], Any]:
    return lambda dataset: dataset.drop_vars(name)


def _with(**attributes: Any) -> Callable[[Any], Any]:
    return lambda dataset: dataset.assign_attrs(attributes)


def _lacking(name: str) -> Callable[[Any], Any]:
    def change(dataset: Any) -> Any:
        del dataset.attrs[name]
        return dataset

    return change


def _same(content: Any) -> Any:
    return content


_RESULTS: dict[str, tuple[Callable[[bytes], bytes], Callable[[Any], Any]]] = {
    "empty result": (lambda _: b"", _same),
    "result cut at 30%": (lambda content: content[: len(content) * 3 // 10], _same),
    "result without mean": (_same, _without("mean")),
    "result without path": (_same, _without("path_theta")),
    "result without steps": (_same, _lacking("steps")),
    "result without format": (_same, _lacking("format")),
    "result with broken settings": (_same, _with(settings="{")),
    "result with steps that are a number": (_same, _with(steps="3")),
    "result with names that do not fit": (_same, _with(steps=json.dumps([{"names": ["w"]}]))),
    "result with fields that are a number": (_same, _with(fields="3")),
    "result with chi2 as text": (_same, _with(chi2="many")),
    "result with a check that is none": (_same, _with(check=json.dumps({"verdict": "splendid"}))),
    "result with a forecast that is none": (_same, _with(forecast=json.dumps([1, 2]))),
}

_HOSTILE = "__import__('os').system('touch hacked')"
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("discover",),
    ("run", "study.toml", "good.nc"),
    ("run", "--speed", "9"),
    ("run", "absent.toml"),
    ("run", "good.nc"),
    ("run", "\x1b[2Jstudy.toml"),
    ("run", "study\nerror: all is well.toml"),
    ("run", "studie\u202e.toml"),
    ("run", "study.toml", "--out", "good.nc"),
    ("run", "study.toml", "--out", "good.nc/result"),
    ("inspect", "good.nc", "found.nc"),
    ("inspect",),
    ("inspect", ""),
    ("inspect", "absent.nc"),
    ("inspect", "absent_*.vtu"),
    ("inspect", "\x1b[31mred.nc"),
    ("inspect", "new\nline.nc"),
    ("inspect", "n" * 300 + ".nc"),
    ("inspect", "line.npz", "--dims", "a,b"),
    ("inspect", "line.npz", "--dims", "x"),
    ("inspect", "line.npz", "--dims", "t,x"),
    ("inspect", "line.npz", "--dims", "x,y,t"),
    ("inspect", "good.nc", "--dims", "x,t"),
    ("inspect", "good.nc", "--picture", "empty"),
    ("inspect", "good.nc", "--picture", "good.nc/a.png"),
    ("init",),
    ("init", "absent.nc", "--out", "new.toml"),
    ("init", "good.nc"),
    ("init", "good.nc", "--out", "absent/study.toml"),
    ("init", "good.nc", "--out", "empty"),
    ("init", "good.nc", "--out", "good.nc/study.toml"),
    ("init", "line.npz", "--dims", "t,x", "--out", "new.toml"),
    ("report",),
    ("report", "absent.nc"),
    ("report", "good.nc"),
    ("report", "study.toml"),
    ("report", "found.nc", "--out", "empty"),
    ("report", "found.nc", "--out", "good.nc/report.html"),
    ("predict", "found.nc"),
    ("predict", "found.nc", "[laplacan(u)]"),
    ("predict", "found.nc", "laplacian(u)"),
    ("predict", "found.nc", "2*["),
    ("predict", "found.nc", _HOSTILE),
    ("predict", "found.nc", f"[{_HOSTILE}]"),
    ("predict", "found.nc", "9**9**9**9*[laplacian(u)]"),
    ("predict", "found.nc", "[laplacian(u)]" + "*2" * 9000),
    ("predict", "found.nc", "[laplacian(u)]/0"),
    ("predict", "found.nc", "[laplacian(u)]\x1b[2J"),
    ("predict", "found.nc", "[laplacian(u)]\u202e"),
    ("predict", "found.nc", "x*[laplacian(u)]"),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "x"),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "x=0:1"),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "x=a:b:c"),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "x=0:1:-3"),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "x=nan:1:5"),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "x=0:inf:5"),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "x=1:0:5"),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "x=0:1:99999999999"),
    ("predict", "found.nc", "x*y*z*[laplacian(u)]", *(f"--axis={axis}=0:1:2000" for axis in "xyz")),
    ("predict", "found.nc", "x*[laplacian(u)]", "--axis", "=0:1:5"),
    ("predict", "found.nc", "pi*[laplacian(u)]", "--axis", "pi=0:1:5"),
    ("predict", "found.nc", "[laplacian(u)]", "--axis", "operator=0:1:5"),
    ("predict", "found.nc", "[laplacian(u)]", "--level", "2"),
    ("predict", "found.nc", "[laplacian(u)]", "--out", "q.xlsx"),
    ("predict", "found.nc", "[laplacian(u)]", "--out", "good.nc"),
    ("predict", "found.nc", "[laplacian(u)]", "--out", "absent/q.nc"),
    ("predict", "found.nc", "--potential", "--axis", "w=0:1:5"),
    ("predict", "good.nc", "[u]"),
    ("predict", "empty", "[u]"),
    ("simulate", "absent.toml"),
    ("simulate", "study.toml"),
    ("simulate", "study.toml", "--result", "absent.nc"),
    ("simulate", "study.toml", "--result", "good.nc"),
    ("simulate", "study.toml", "--result", "found.nc"),
    ("simulate", "study.toml", "--result", "found.nc", "--out", "s.gif"),
    ("simulate", "study.toml", "--result", "found.nc", "--out", "good.nc"),
    ("simulate", "study.toml", "--result", "found.nc", "--draws", "1"),
    ("compare",),
    ("compare", "found.nc", "found.nc"),
    ("compare", "found.nc", "absent.nc"),
    ("compare", "good.nc", "found.nc"),
    ("compare", "found.nc", "found.nc", "found.nc"),
    ("export", "found.nc"),
    ("export", "found.nc", "--to", "matlab"),
    ("export", "found.nc", "--to", "numpy"),
    ("export", "found.nc", "--to", "csv", "--out", "good.nc"),
    ("export", "good.nc", "--to", "csv"),
    ("pack", "absent"),
    ("pack", "found.nc"),
    ("pack", "empty"),
    ("verify", "absent.bvsi.zip"),
    ("verify", "empty"),
    ("verify", "found.nc"),
    ("verify", "line.npz"),
    ("demo", "--out", "good.nc"),
)


def _loop(folder: Path) -> None:
    (folder / "loop.nc").symlink_to("loop.nc")


_PLACES: dict[str, tuple[Write, str]] = {
    "loop.nc": (_loop, "loop of links"),
    "gone.nc": (lambda folder: (folder / "gone.nc").symlink_to("absent.nc"), "link to nowhere"),
    "folder.nc": (lambda folder: (folder / "folder.nc").mkdir(), "folder"),
    "folder.zarr": (lambda folder: (folder / "folder.zarr").mkdir(), "store that is empty"),
    "pipe.nc": (lambda folder: os.mkfifo(folder / "pipe.nc"), "pipe"),
    "zero.csv": (lambda folder: (folder / "zero.csv").symlink_to("/dev/zero"), "device"),
    "\x1b[31m\n.csv": (lambda folder: (folder / "\x1b[31m\n.csv").write_text("no table"), "name with escapes"),
    "ünï ‮.mat": (lambda folder: (folder / "ünï ‮.mat").write_bytes(b"no arrays"), "name of many scripts"),
    "-n.npz": (lambda folder: (folder / "-n.npz").write_bytes(b""), "name like an option"),
}


def _linked(target: str) -> Write:
    return lambda folder: (folder / "study.toml").symlink_to(target)


_STUDIES: dict[str, Write] = {
    "a loop of links": _linked("study.toml"),
    "a link to nowhere": _linked("absent.toml"),
    "a device": _linked("/dev/zero"),
    "a pipe": lambda folder: os.mkfifo(folder / "study.toml"),
    "a folder": lambda folder: (folder / "study.toml").mkdir(),
}
