"""Results that can be cited: one archive with all of a result, which anyone can check and repeat.

A pack has the files of a result folder and a manifest: SHA-256 of every file and of the data, equation, verdict,
version. The manifest follows from the other files, so that a change of any of them, or of itself, is found. That shows
that a pack is whole, not that it is true: anyone can make one. With the data, the study is run again and compared.

A pack may come from a stranger: its names are those that a run writes, each once, sizes are bounded, and nothing is
written but to a folder of our own.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bvsi._version import __version__
from bvsi.app.report import equation_latex
from bvsi.app.storage import to_dataset
from bvsi.app.study.outputs import is_regular, recover
from bvsi.app.study.result_folder import (
    COEFFICIENTS,
    EQUATION,
    QUANTITIES,
    REPORT,
    RESULT,
    SETTINGS,
    STUDY,
    SUMMARY,
    WRITTEN,
    check_no_link,
    extras_beside,
)
from bvsi.app.study.run import as_json, run_study
from bvsi.app.study.stages import existing_files, files_digest
from bvsi.app.study.summary import coefficients_csv, summary
from bvsi.app.study.toml import Study, load_study
from bvsi.common.progress import Progress, silent
from bvsi.discovery import Discovery
from bvsi.errors import BvsiError

FORMAT = "bvsi pack 1"
MANIFEST = "manifest.json"
ENDING = ".bvsi.zip"

_NEEDED = (RESULT, REPORT, SUMMARY, SETTINGS, STUDY, EQUATION, COEFFICIENTS)
_QUANTITY = re.compile(rf"{QUANTITIES}/[\w.-]{{1,100}}\.nc", re.ASCII)
# Files of a pack at most: a result has nine, and one per quantity.
_MOST = 200
# Bytes of all files of a pack, unpacked, at most; results of our studies have some megabytes.
_LARGEST = 500_000_000
# Differences in standard deviations up to which a repeated result is the same but for rounding; other machines and
# versions of BLAS add up in another order. Not measured.
_ROUNDING = 0.01


def pack(folder: Path) -> bytes:
    """The archive of a result folder; the same bytes for the same files."""
    recover(folder)
    members = {}
    quantities = sorted(f"{QUANTITIES}/{path.name}" for path in (folder / QUANTITIES).glob("*.nc"))
    check_no_link(folder / QUANTITIES)
    for name in (*WRITTEN, *quantities):
        path = folder / name
        check_no_link(path)
        if path.exists() and not is_regular(path):
            raise BvsiError(f"{path}: this is not a file; only results that bvsi run has written are packed.")
        if path.exists():
            members[name] = path.read_bytes()
    _check_members(members, str(folder))
    with _unpacked(members) as place:
        _found(place, str(folder))
    members = {MANIFEST: _manifest(members, str(folder)), **members}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # of 1980, as ZipInfo says
    return buffer.getvalue()


@dataclass(frozen=True)
class Verified:
    """What the check of a pack found.

    Attributes
    ----------
    found
        The result.
    digest
        SHA-256 of the manifest, which stands for the whole.
    data
        SHA-256 of the data files, by name.
    lines
        What was compared, for people.
    repeated
        ``"bit"`` where the study was run again and every number is the same, ``"rounding"`` where they are the same to
        rounding, empty where it was not run.
    """

    found: Discovery
    digest: str
    data: Mapping[str, str]
    lines: tuple[str, ...]
    repeated: str = ""


def verify(
    path: Path, data: Sequence[Path] = (), *, max_memory: float | None = None, progress: Progress = silent
) -> Verified:
    """Check a pack, and with its data repeat it; what differs is a :class:`BvsiError`.

    Parameters
    ----------
    data
        The data files, in the order of the study; without them nothing is computed.
    max_memory
        Bytes that fields may take.
    """
    members = _members(path)
    _check_members(members, str(path))
    manifest = members.pop(MANIFEST, b"")
    _check_manifest(manifest, members, str(path))
    files = _data_of(members, str(path))
    with _unpacked(members) as place:
        found = _found(place, str(path))
        lines = [f"{len(members)} files, as the manifest has them", _derived(found, place, members, str(path))]
        digest, repeated = hashlib.sha256(manifest).hexdigest(), ""
        if data:
            repeated, told = _repeated(found, place, data, files, max_memory, progress)
            lines.append(told)
        else:
            lines.append(f"not repeated; with the data: --data {' --data '.join(files)}")
    return Verified(found, digest, files, tuple(lines), repeated)


def _members(path: Path) -> dict[str, bytes]:
    """The files of an archive, with all the care that a stranger's needs."""
    if not path.is_file():
        raise BvsiError(f"{path}: there is no such file; give a pack, {ENDING}, as bvsi pack writes it.")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            if len(entries) > _MOST or sum(entry.file_size for entry in entries) > _LARGEST:
                raise BvsiError(f"{path}: more than {_MOST} files or {_LARGEST / 1e6:.0f} MB; not a pack of bvsi.")
            odd = [name for name in names if name not in (MANIFEST, *WRITTEN) and not _QUANTITY.fullmatch(name)]
            if odd or len({*names}) < len(names):
                raise BvsiError(f"{path}: it has files that bvsi pack does not write, or one twice; it is not a pack.")
            plain = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if any(entry.flag_bits & 1 or entry.compress_type not in plain for entry in entries):
                raise BvsiError(f"{path}: its files are encrypted or packed in a way that is not read.")
            return {entry.filename: archive.read(entry) for entry in entries}
    except BvsiError:
        raise
    except Exception as error:  # zipfile and zlib raise many kinds on damaged archives
        raise BvsiError(f"{path}: the archive is damaged ({type(error).__name__}: {error}); get it again.") from None


def _check_members(members: Mapping[str, bytes], where: str) -> None:
    missing = [name for name in _NEEDED if name not in members]
    if missing:
        raise BvsiError(f"{where}: {missing[0]} is missing; this is not all of a result, run the study again.")
    if sum(map(len, members.values())) > _LARGEST:
        raise BvsiError(f"{where}: more than {_LARGEST / 1e6:.0f} MB are too much for a pack.")


def _manifest(members: Mapping[str, bytes], where: str) -> bytes:
    """What follows from the files of a result."""
    told, settings = _json(members[SUMMARY], f"{where}: {SUMMARY}"), _json(members[SETTINGS], f"{where}: {SETTINGS}")
    record = {
        "format": FORMAT,
        "versions": settings.get("versions"),
        "data": _data_of(members, where),
        "equation": told.get("equation"),
        "verdict": told.get("verdict"),
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
    }
    return as_json(record).encode()


def _data_of(members: Mapping[str, bytes], where: str) -> dict[str, str]:
    found = _json(members[SETTINGS], f"{where}: {SETTINGS}").get("data")
    if not isinstance(found, dict) or not all(isinstance(digest, str) for digest in found.values()):
        raise BvsiError(f"{where}: it has no digests of its data; run the study again with this version.")
    return found


def _check_manifest(manifest: bytes, members: Mapping[str, bytes], where: str) -> None:
    if manifest == _manifest(members, where):
        return
    listed = _json(manifest, f"{where}: {MANIFEST}").get("files")
    listed = listed if isinstance(listed, dict) else {}
    changed = [n for n, content in members.items() if listed.get(n) != hashlib.sha256(content).hexdigest()]
    changed += [name for name in listed if name not in members]
    raise BvsiError(f"{where}: {changed[0] if changed else MANIFEST} was changed since it was packed.")


def _json(content: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BvsiError(f"{where}: this is not a JSON object.")
    return found


@contextmanager
def _unpacked(members: Mapping[str, bytes]) -> Iterator[Path]:
    """The files in a folder of our own, which goes afterwards; their names were checked."""
    with tempfile.TemporaryDirectory(prefix="bvsi-pack-") as name:
        place = Path(name) / "result"
        (place / QUANTITIES).mkdir(parents=True)
        for member, content in members.items():
            (place / member).write_bytes(content)
        yield place


def _found(place: Path, where: str) -> Discovery:
    try:
        return Discovery.load(place / RESULT)
    except BvsiError as error:
        raise BvsiError(f"{where}: {RESULT} cannot be read: {error}") from None


def _derived(found: Discovery, place: Path, members: Mapping[str, bytes], where: str) -> str:
    """Compare the tables with what follows from the result itself; returns what was compared."""
    used = _json(members[SETTINGS], f"{where}: {SETTINGS}").get("versions")
    writer = used.get("bvsi") if isinstance(used, dict) else None
    if writer != __version__:
        return f"tables were not compared with {RESULT}: they are those of bvsi {writer}"
    texts = {
        EQUATION: equation_latex(found),
        COEFFICIENTS: coefficients_csv(found),
        SUMMARY: as_json(summary(found, extras_beside(place / RESULT)["notes"])),
    }
    for name, text in texts.items():
        if members[name] != text.encode():
            raise BvsiError(f"{where}: {name} is not what follows from {RESULT}.")
    return f"{', '.join(texts)} follow from {RESULT}"


def _repeated(
    found: Discovery,
    place: Path,
    data: Sequence[Path],
    files: Mapping[str, str],
    max_memory: float | None,
    progress: Progress,
) -> tuple[str, str]:
    """Run the study again and compare: how equal it is, and that in words."""
    study = _with_data(load_study(place / STUDY), data, files, max_memory)
    again = run_study(study, out=place.parent / "again", progress=progress)
    made = Discovery.load(again.folder / RESULT)
    changed = _different(found, made)
    if not changed:
        return "bit", "run again: every number is the same to the bit"
    if found.names != made.names:
        raise BvsiError(f"run again, the equation is different: {made.equation}")
    scale = np.maximum(found.sd, made.sd)
    apart = np.divide(np.abs(found.theta - made.theta), scale, out=np.zeros_like(scale), where=scale > 0)
    spread = np.abs(np.log(made.sd / found.sd)) if np.all(found.sd > 0) and np.all(made.sd > 0) else np.zeros(1)
    worst = max(float(apart.max(initial=0.0)), float(spread.max(initial=0.0)))
    if worst > _ROUNDING or found.verdict != made.verdict:
        raise BvsiError(
            f"run again, the result differs: coefficients by up to {apart.max(initial=0.0):.2g} standard deviations, "
            f"verdict {made.verdict!r} beside {found.verdict!r}."
        )
    return "rounding", f"run again: the same to rounding, {worst:.1g} standard deviations ({changed[0]} differs)"


def _with_data(study: Study, data: Sequence[Path], files: Mapping[str, str], max_memory: float | None) -> Study:
    """The study with the data that were given, which have to be its own; nothing else on this machine is read."""
    if study.settings.data.mesh is not None:
        raise BvsiError("the study names a mesh file; to repeat it, run its study file with bvsi run.")
    if len(data) != len(files):
        raise BvsiError(f"--data: the study has {len(files)} data files, {', '.join(files)}; give each of them.")
    for path, (name, digest) in zip(data, files.items(), strict=True):
        if not existing_files(path):
            raise BvsiError(f"--data {path}: there is no such file; check the path.")
        if files_digest(path) != digest:
            raise BvsiError(f"--data {path}: these are not the data of the result, {name} with SHA-256 {digest}.")
    given = [str(path.absolute()) for path in data]
    update: dict[str, Any] = (
        {"file": given[0], "files": None} if len(given) == 1 else {"file": None, "files": tuple(given)}
    )
    update |= {} if max_memory is None else {"max_memory": max_memory}
    settings = study.settings.model_copy(update={"data": study.settings.data.model_copy(update=update)})
    return replace(study, settings=settings, guarded=True)


def _different(a: Discovery, b: Discovery) -> list[str]:
    """Names of arrays and attributes that differ in any bit; how long it took is not compared."""
    one, other = to_dataset(a), to_dataset(b)
    names = [str(name) for name in {*one.variables, *other.variables}]
    found = [n for n in names if n not in one or n not in other or not one[n].identical(other[n])]
    attributes = {*one.attrs, *other.attrs} - {"seconds"}
    return found + sorted(key for key in attributes if one.attrs.get(key) != other.attrs.get(key))
