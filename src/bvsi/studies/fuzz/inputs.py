"""Input number k of a seed: files in a folder and a command line, drawn from ``default_rng([seed, k])`` alone."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bvsi.studies.fuzz.bases import BASES, STUDY, Base
from bvsi.studies.fuzz.documents import changed_toml
from bvsi.studies.fuzz.expressions import (
    CONSTRAINTS,
    OPERATORS,
    QUANTITIES,
    argument,
    odd_axis,
    odd_dims,
    odd_expression,
)
from bvsi.studies.fuzz.file_changes import STRUCTURES, bytes_of
from bvsi.studies.fuzz.odd import NAMES, Rng, chance, odd_path, pick
from bvsi.studies.fuzz.raw import changed_bytes
from bvsi.studies.fuzz.result_changes import change_result

FULL_RUNS = 0.01
"""Share of the inputs that a whole discovery is run on; it takes seconds."""


@dataclass(frozen=True)
class Input:
    """What a command is given.

    Attributes
    ----------
    family
        Format or kind.
    arguments
        Arguments of ``bvsi``.
    change
        In words.
    writes
        Patterns of what the command may make or change below its folder.
    reads
        Whether the user names files elsewhere, which then may be read.
    around
        Patterns of what it may make beside its folder.
    """

    family: str
    arguments: tuple[str, ...]
    change: str
    writes: tuple[str, ...]
    reads: bool = False
    around: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Name of the command, with what makes it another one."""
        more = next((part for part in self.arguments if part in ("--check-only", "--dry-run")), "")
        return f"{self.arguments[0]} {more}".strip()


def make_input(seed: int, number: int, bases: Path, folder: Path, canary: Path) -> Input:
    """Fill an empty folder with input ``number`` of a seed.

    Parameters
    ----------
    bases
        Folder of the valid inputs.
    canary
        Folder that no command may touch, which inputs point to.
    """
    rng = np.random.default_rng([seed, number])
    makers: tuple[tuple[float, Callable[[Rng, Path, Path, str], Input]], ...] = (
        (0.60, _data_file), (0.12, _study_file), (0.16, _result_folder), (0.12, _expression),
    )  # fmt: skip
    make = makers[int(rng.choice(len(makers), p=[share for share, _ in makers]))][1]
    _surroundings(folder)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of libraries, about the odd things that they are to write
        return make(rng, bases, folder, str(canary))


def whole_input(base: Base, bases: Path, folder: Path) -> Input:
    """A valid data file as it is, which has to be accepted."""
    _surroundings(folder)
    _copied(bases, folder, base.files)
    (folder / "study.toml").write_text(base.study(), encoding="utf-8")
    return Input(base.name, ("run", "study.toml", "--check-only"), "none", ())


def _surroundings(folder: Path) -> None:
    """What paths in inputs may point to: a pipe that nobody writes to, a folder, a link."""
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("../canary/secret.txt")


def _copied(bases: Path, folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    found = []
    for pattern in patterns:
        for path in sorted(bases.glob(pattern)):
            target = folder / path.name
            shutil.copytree(path, target, symlinks=True) if path.is_dir() else shutil.copy(path, target)
            found.append(target)
    return found


def _data_file(rng: Rng, bases: Path, folder: Path, canary: str) -> Input:
    """A data file that is changed by its bytes, by its structure, or by what stands in its place."""
    base = pick(rng, BASES)
    files = _copied(bases, folder, base.files)
    victim, act = pick(rng, files[:2] if base.name == "pvd" and chance(rng, 0.7) else files), rng.random()
    if act < 0.05:
        change = _replaced(victim, rng, canary)
    elif act < 0.35 or base.structure == "bytes":
        place = pick(rng, sorted(p for p in victim.rglob("*") if p.is_file())) if victim.is_dir() else victim
        other = pick(rng, sorted(p for p in bases.iterdir() if p.is_file()))
        change = f"{place.name}: {bytes_of(place, rng, other.read_bytes())}"
    else:
        change = f"{victim.name}: {STRUCTURES[base.structure](victim, rng, canary)}"
    (folder / "study.toml").write_text(base.study(), encoding="utf-8")
    arguments, writes = _reading_command(base, rng)
    return Input(base.name, arguments, change, writes, victim.is_symlink())  # a link that the user names is followed


def _replaced(path: Path, rng: Rng, canary: str) -> str:
    """A pipe, folder, link, or nothing instead of a file."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    kind = pick(rng, ("pipe", "folder", "link", "nothing", "empty"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(pick(rng, (path.name, "absent", f"{canary}/secret.h5", "/dev/zero", "..")))
    elif kind == "empty":
        path.write_bytes(b"")
    return f"{path.name}: {kind}"


def _reading_command(base: Base, rng: Rng) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A command that reads the data file, and what it may write."""
    dims = {"hdf5": "t,x", "npz": "t,x", "mat5": "t,x", "mat73": "t,x", "tiff": "t,y,x"}.get(base.name)
    options: tuple[str, ...] = ()
    if dims is not None and chance(rng, 0.7):
        options = ("--dims", argument(odd_dims(rng)) if chance(rng, 0.1) else dims)
    kind = rng.random()
    if kind < 0.03:
        return ("inspect", base.file, *options), ("*.inspect.png",)
    if kind < 0.5:
        more = ("--json",) if chance(rng, 0.5) else ()
        return ("inspect", base.file, *options, "--no-picture", *more), ()
    if kind < 0.65:
        return ("init", base.file, *options, "--out", "new.toml"), ("new.toml",)
    if kind < 0.96:
        return ("run", "study.toml", "--check-only"), ()
    if kind < 0.99:
        return ("run", "study.toml", "--dry-run"), ()
    return ("run", "study.toml"), ("result", "result/**")


_MORE = (
    '[data]\nmissing = "nan"', "[data]\nselect = {t = [0.0, 0.5]}", "[data]\nmax_memory = 1e4",
    "[data]\nmax_memory = 1e3\ncoarsen = false", '[data]\nmesh = "run_0.msh"',
    '[data]\nauxiliary = ["k"]', '[data]\ndims = ["t", "x"]', "[data]\nspacing = {x = 0.1}",
    '[data]\nfiles = ["run.nc", "run.nc"]', '[data]\naxes = {x = "y"}',
    '[library]\nkeep = "all"', '[library]\nboundary = "no-flux"', '[library]\ndefinitions = {phi = "u**2"}',
    "[library]\ntime_order = 2",
    '[library]\nbiharmonic = "mixed"', "[noise]\nsigma = 0.005", "[noise]\nunknown = true", "[noise]\nrobust = true",
    '[discretisation]\ntests = "elements"',
    "[discretisation]\ngap = 4.0", "[discretisation]\ndegree = 6", '[discretisation]\nelement = "Q2"',
    "[discretisation]\ntime_gap = 2.0",
    '[discretisation]\nweighting = "stacked"', '[selection]\nmethod = "sweep"', '[selection]\ncriterion = "wald"',
    "[selection]\nthreshold = 0.01",
    '[posterior]\nestimator = "maximum"', "[posterior]\nrelinearise = 1",
    '[posterior]\npriors = {u = {distribution = "normal", mean = 0.0, variance = 1.0}}',
    '[posterior]\njoint_priors = [{operators = ["u", "u**2"], mean = [0, 0], covariance = [[1.0, 0.5], [0.5, 1.0]]}]',
    '[posterior]\ndefault_prior = {distribution = "flat"}', "[check]\nenabled = false", "[forecast]\nholdout = 0.2",
    "[forecast]\nseed = 3",
    '[[quantity]]\nname = "a b"\nexpression = "[dx(u)]"', '[[quantity]]\nname = "a_b"\nexpression = "[dx(u)]"',
    '[output]\nfolder = "../canary"',
    '[[quantity]]\nname = "q"\nexpression = "mean*[dx(u)]"\naxes = {mean = [0, 1, 3]}', '[output]\nfolder = "."',
    '[output]\nfolder = "link"',
)  # fmt: skip
"""Lines that are valid in some study, or nearly so."""


def _with_study(bases: Path, folder: Path, *, result: bool) -> None:
    """The whole study, with or without its result."""
    ignore = None if result else shutil.ignore_patterns("result")
    shutil.copytree(bases / "study", folder, symlinks=True, dirs_exist_ok=True, ignore=ignore)


def _study_file(rng: Rng, bases: Path, folder: Path, canary: str) -> Input:
    """A study that is changed by its lines, or by its bytes."""
    result = chance(rng, 0.2)
    _with_study(bases, folder, result=result)
    content, change = changed_toml(STUDY.encode(), rng, _MORE, canary)
    if chance(rng, 0.1):
        content, told = changed_bytes(content, rng)
        change = f"{change}+{told}"
    (folder / "study.toml").write_bytes(content)
    kind = rng.random()
    if kind < 0.08:
        return _elsewhere(rng, folder, canary)
    outside = any(word in content for word in (b"canary", b"/dev", b"/etc", b"/proc", b"link"))
    if kind < 0.18 and result:
        return Input("study", ("simulate", "study.toml", "--draws", "2"), change, ("simulation.nc",), outside)
    if kind > 1 - 5 * FULL_RUNS:
        return Input("study", ("run", "study.toml"), change, ("result", "result/**", "+*", "+*/**"), outside)
    more = "--dry-run" if kind > 0.85 else "--check-only"
    return Input("study", ("run", "study.toml", more), change, (), outside)


def _elsewhere(rng: Rng, folder: Path, canary: str) -> Input:
    """A valid study whose results are to go to a place that holds other things."""
    shutil.rmtree(folder / "result", ignore_errors=True)
    place = pick(
        rng,
        (
            "../canary",
            canary,
            "../canary/quantities",
            ".",
            "..",
            "link",
            "folder",
            "folder/../../canary",
            "run.nc",
            "pipe",
            "~",
        ),
    )
    option = ("--out", place) if chance(rng, 0.3) else ()
    text = STUDY if option else STUDY.replace('"result"', f'"{place}"')
    (folder / "study.toml").write_text(text.replace("draws = 4", "enabled = false"), encoding="utf-8")
    writes = ("result", "result/**", "+*", "+*/**")
    around = ("+*",) if option else ()  # a folder that the user names may be anywhere; what is there must stay
    return Input("study", ("run", "study.toml", *option), f"folder {place}", writes, True, around)


def _result_folder(rng: Rng, bases: Path, folder: Path, canary: str) -> Input:
    """A result that was tampered with."""
    _with_study(bases, folder, result=True)
    kind = int(rng.integers(14))
    if kind in (8, 9) and (folder / "result").is_dir():
        shutil.copytree(folder / "result", folder / "other")
    change = change_result(folder, rng, canary)
    named = any((folder / name).is_symlink() for name in ("study.toml", "run.nc", "result"))  # named by the user
    if kind <= 4:
        return Input("result", ("report", "result"), change, ("result/report.html",), named)
    if kind <= 7:
        expression = pick(rng, QUANTITIES[:3])
        axis = ("--axis", "x=0:1:5") if "x)" in expression and "*x" in expression else ()
        out = ("--out", "q.csv") if chance(rng, 0.3) else ()
        return Input("result", ("predict", "result", expression, *axis, *out), change, ("q.csv",), named)
    if kind <= 9:
        return Input("result", ("compare", "result", "other"), change, (), named)
    if kind == 10:
        return Input("result", ("simulate", "study.toml", "--draws", "2"), change, ("simulation.nc",), named)
    if kind == 11:
        target = pick(rng, ("sympy", "latex", "numpy", "pypde", "ufl", "dedalus", "modelingtoolkit", "csv"))
        return Input("result", ("export", "result", "--to", target), change, (), named)
    if kind == 12:
        return Input("result", ("pack", "result"), change, ("result.bvsi.zip",), named)
    return Input("result", ("run", "study.toml"), change, ("result", "result/**"), named)


def _expression(rng: Rng, bases: Path, folder: Path, canary: str) -> Input:
    """Odd texts where expressions are read: on the command line, and in a study."""
    kind = int(rng.integers(10))
    if kind <= 3:
        _with_study(bases, folder, result=True)
        axes = [part for _ in range(int(rng.integers(0, 3))) for part in ("--axis", argument(odd_axis(rng)))]
        text = argument(odd_expression(rng, (*QUANTITIES, "x*[dx(u)]")))
        options = ("--potential",) if chance(rng, 0.05) else (*axes, *(("--json",) if chance(rng, 0.3) else ()))
        return Input("expression", ("predict", "result", *options, "--", text), "predict", ())
    if kind == 4:
        base = pick(rng, [base for base in BASES if base.name in ("npz", "hdf5", "mat5", "tiff")])
        _copied(bases, folder, base.files)
        time = ("--time", argument(pick(rng, NAMES))) if chance(rng, 0.3) else ()
        return Input(
            "expression", ("inspect", base.file, "--no-picture", f"--dims={argument(odd_dims(rng))}", *time), "dims", ()
        )
    if kind == 5:
        _with_study(bases, folder, result=False)
        path = argument(pick(rng, (odd_path(rng, canary), *NAMES, *(f"{name}.nc" for name in NAMES))))
        return Input(
            "expression",
            (pick(rng, ("inspect", "init", "run", "report")), "--", path),
            "path",
            ("*.inspect.png", "study.toml"),
            True,
        )
    return _expression_in_study(rng, bases, folder, kind)


def _expression_in_study(rng: Rng, bases: Path, folder: Path, kind: int) -> Input:
    _with_study(bases, folder, result=False)
    places = {8: ('"laplacian(u) > 0"', CONSTRAINTS, "constraint"), 9: ('"[laplacian(u)]"', QUANTITIES, "quantity")}
    old, valid, what = places.get(kind, ('"u**2"', OPERATORS, "operator"))
    texts = [odd_expression(rng, valid) for _ in range(1 if kind == 9 else int(rng.integers(1, 3)))]
    text = STUDY.replace(old, ", ".join(_quoted(one) for one in texts))
    (folder / "study.toml").write_text(text, encoding="utf-8")
    if chance(rng, FULL_RUNS * 4):
        return Input("expression", ("run", "study.toml"), what, ("result", "result/**"))
    return Input("expression", ("run", "study.toml", "--check-only"), what, ())


def _quoted(text: str) -> str:
    """A text as TOML quotes it; what TOML cannot hold becomes a question mark."""
    import json

    return json.dumps(text.encode("utf-8", "replace").decode()).replace("\x7f", "\\u007f")
