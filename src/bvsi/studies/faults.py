"""Runs that meet a fault at a random moment: killed, interrupted, or refused a write. Nothing may be lost or mixed.

``python -m bvsi.studies.faults --kills 100 --failing-writes 50 --seed 0``. A small study runs in a folder that holds
the result of an earlier one with other settings. Each time one fault is put in: a signal at a moment that is uniform
over the run, the k-th act of writing that fails, files that may not grow, or a disk that is full. Afterwards the folder
must hold the earlier result or the new one, as a whole; the process must have ended with one message and a documented
exit code, or by the signal; and the same command, started again, must end with the numbers of an undisturbed run, to
the bit.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bvsi.common.progress import Progress, progress_bar, silent
from bvsi.errors import BvsiError
from bvsi.studies.fuzz.bases import STUDY, heat
from bvsi.studies.fuzz.client import homes

_SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
_AT_WRITE = "SIGKILL at a write"
"""Killed at an act of writing: moments at random hardly ever meet the move of the results into place."""
_WRITES = ("ENOSPC", "EIO", "EACCES", "file size", "full disk")
_PAGE = resource.getpagesize()
_LIMIT = 300.0
"""Seconds after which a run is taken to hang."""
_EARLIER = (
    STUDY.replace('"base"', '"earlier"')
    .replace('["laplacian(u) > 0"]', "[]")
    .replace('name = "profile"', 'name = "old profile"')
)
_TIMED = ("report.html", "report.md", "timing.json")
"""Files that contain how long a run took; of a run they are the same but for that."""


@dataclass(frozen=True)
class Fault:
    """What is put in.

    Attributes
    ----------
    kind
        A signal, a signal at an act of writing, an error number by its name, "file size" or "full disk".
    moment
        Seconds after the start, for signals; the act of writing; bytes of a file, or left on the disk.
    lasting
        Whether every later act of writing fails as well.
    fresh
        Whether the user's home is empty.
    """

    kind: str
    moment: float = 0.0
    lasting: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code (negative: signal), what it wrote to standard error, how long it took."""

    code: int
    err: str
    seconds: float
    hung: bool = False


@dataclass(frozen=True)
class Trial:
    """A fault and what came of it.

    Attributes
    ----------
    violations
        What must not be, none where all is well.
    stage
        What the run was at.
    code
        Code of the process with the fault.
    left
        Earlier, new, or what is mixed.
    """

    fault: Fault
    stage: str
    code: int
    left: str
    violations: tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """Undisturbed runs to compare with.

    Attributes
    ----------
    before, wanted
        Files of the earlier result and of the new one.
    seconds
        Seconds of a run.
    acts
        Acts of writing in it.
    largest, total
        Bytes of its largest file and of all.
    notes
        Notes which faults could not be put in.
    """

    before: Mapping[str, bytes]
    wanted: Mapping[str, bytes]
    seconds: float
    acts: int
    largest: int
    total: int
    notes: tuple[str, ...] = ()


def run(folder: Path, home: Path, fault: Fault | None = None, count: Path | None = None) -> Ended:
    """``bvsi run`` in a folder, with a fault or without."""
    number = {_AT_WRITE: -signal.SIGKILL}.get(fault.kind, getattr(errno, fault.kind, 0)) if fault is not None else 0
    plan = {
        "folder": str(folder / "result"),
        "at": 0,
        "error": number,
        "lasting": False,
        "size": 0,
        "count": str(count or ""),
    }
    if fault is not None and number:
        plan |= {"at": int(fault.moment), "lasting": fault.lasting}
    if fault is not None and fault.kind == "file size":
        plan["size"] = int(fault.moment)
    program = [sys.executable, "-P", "-m", "bvsi.studies.fault_child", json.dumps(plan)]
    command = [*program, "run", "study.toml", "--quiet"]
    environment = {**os.environ, **homes(home), "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(home.parent / "cache")}
    sent = fault.moment if fault is not None and fault.kind in _SIGNALS else _LIMIT
    begin = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        error, hung = _watched(process, fault, sent)
    return Ended(process.returncode, error, time.perf_counter() - begin, hung)


def _watched(process: subprocess.Popen[bytes], fault: Fault | None, moment: float) -> tuple[str, bool]:
    """Wait for a process, and send its signal when the moment has come; one that does not end is killed."""
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=moment)[1].decode(errors="replace"), False
    kind = fault.kind if fault is not None and fault.kind in _SIGNALS else "SIGKILL"
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.Signals[kind])
    try:
        return process.communicate(timeout=_LIMIT)[1].decode(errors="replace"), moment >= _LIMIT
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[1].decode(errors="replace"), True


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a result by name, without what is under way; empty where there is none."""
    root = folder / "result"
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and ".bvsi" not in path.relative_to(root).parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def essence(name: str, content: bytes) -> object:
    """What of a file does not depend on how long the run took; of pages, whose result they show."""
    if name.endswith("result.nc"):
        return _arrays(content)
    if name in _TIMED:
        return [word for word in (b"earlier", b"base") if word in content] if name != "timing.json" else None
    return content


def _arrays(content: bytes) -> object:
    """Attributes and arrays of a NetCDF file, but for the time taken; None for what is damaged."""
    import io

    import xarray as xr

    try:
        with xr.open_dataset(io.BytesIO(content), engine="h5netcdf") as dataset:
            attributes = {str(name): str(value) for name, value in dataset.attrs.items() if name != "seconds"}
            arrays = {str(name): variable.values for name, variable in dataset.variables.items()}
    except (OSError, ValueError, KeyError):
        return None
    return attributes, {name: v.tolist() if v.dtype == object else v.tobytes() for name, v in arrays.items()}


def left_behind(found: Mapping[str, bytes], before: Mapping[str, bytes], wanted: Mapping[str, bytes]) -> str:
    """What a folder holds: the earlier result to the byte ("earlier"), the whole new one ("new"), or what is mixed."""
    if found == before:
        return "earlier"
    other = [name for name in wanted if name not in found or essence(name, found[name]) != essence(name, wanted[name])]
    more = sorted(set(found) - set(wanted))
    if not other and not more:
        return "new"
    lost = sorted(name for name in {*before, *wanted} if name not in found)
    old = sorted(name for name in found if found[name] == before.get(name))
    parts = {"of the earlier result": old, "missing": lost, "left over": more}
    return "mixed: " + "; ".join(f"{what} {', '.join(names) or 'nothing'}" for what, names in parts.items())


def stage_of(folder: Path, earlier: frozenset[str], left: str) -> str:
    """What a run was at when it ended, from the stages that it has finished."""
    new = {path.name for path in (folder / "result/.bvsi").glob("*-*") if path.stat().st_size} - earlier
    if left != "earlier":
        return "after the move" if left == "new" else "moving"
    if any(name.startswith("forecast-") for name in new):
        return "writing"
    return "forecast" if any(name.startswith("discovery-") for name in new) else "start to discovery"


def violations_of(fault: Fault, ended: Ended, left: str, again: Ended, final: str) -> tuple[str, ...]:
    """What must not be."""
    found = [left] if left.startswith("mixed") else []
    for name, one in (("", ended), ("started again: ", again)):
        found += [f"{name}it does not end"] if one.hung else []
        found += [f"{name}traceback: {one.err.strip().splitlines()[-1][:200]}"] if "Traceback" in one.err else []
    if fault.kind.startswith("SIG"):
        number = signal.Signals[fault.kind.split()[0]]
        right = {0, -number, 128 + number}
    else:
        right = {0, 2}
    if ended.code not in right:
        found.append(f"exit code {ended.code}")
    if ended.code == 2 and (not ended.err.startswith("error: ") or ended.err.count("\n") > 3):
        found.append(f"no single message: {ended.err[:200]!r}")
    if ended.code == 0 and left != "new":
        found.append(f"exit code 0, and the new result is not there ({left})")
    if again.code:
        found.append(f"started again: exit code {again.code}, {again.err[:200]!r}")
    if final != "new":
        found.append(f"started again: {final}")
    return tuple(found)


def prepared(folder: Path) -> Reference:
    """Folders ``earlier`` (an earlier result, and the study to run) and ``home``; and what undisturbed runs give."""
    import xarray as xr

    t, x, u = heat(64, 41)
    dataset = xr.Dataset({"u": (("t", "x"), u)}, coords={"t": t, "x": x})
    (folder / "home").mkdir(parents=True)
    for place, text in (("quiet", STUDY), ("earlier", _EARLIER)):
        (folder / place).mkdir()
        dataset.to_netcdf(folder / place / "run.nc", engine="h5netcdf")
        (folder / place / "study.toml").write_text(text, encoding="utf-8")
        seconds = _undisturbed(folder / place, folder / "home")
    before = contents(folder / "earlier")
    (folder / "earlier/study.toml").write_text(STUDY, encoding="utf-8")
    trial = Path(shutil.copytree(folder / "earlier", folder / "trial"))
    seconds = min(seconds, _undisturbed(trial, folder / "home", folder / "count"))  # the first run compiles
    wanted = contents(folder / "quiet")
    if left_behind(contents(trial), before, wanted) != "new":
        raise BvsiError(f"undisturbed runs differ: {left_behind(contents(trial), before, wanted)}.")
    sizes = [path.stat().st_size for path in (trial / "result").rglob("*") if path.is_file()]
    shutil.rmtree(trial)
    notes = () if _mountable(folder) else ("no full disk: a file system in memory cannot be mounted here",)
    return Reference(before, wanted, seconds, int((folder / "count").read_text()), max(sizes), sum(sizes), notes)


def _undisturbed(folder: Path, home: Path, count: Path | None = None) -> float:
    ended = run(folder, home, count=count)
    if ended.code:
        raise BvsiError(f"the study does not run: {ended.err}")
    return ended.seconds


def _mountable(folder: Path) -> bool:
    """Whether a small file system in memory can be mounted, as root can."""
    place = folder / "mounted"
    place.mkdir(exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True, check=False)
    if made.returncode == 0:
        subprocess.run(["umount", place], check=True)
    return made.returncode == 0


def drawn(reference: Reference, kills: int, failing: int, rng: np.random.Generator) -> list[Fault]:
    """Faults at random moments, all kinds alike."""
    faults = []
    for number in range(kills):
        kind = (*_SIGNALS, _AT_WRITE)[number % 4]
        moment = rng.uniform(0, 1.05 * reference.seconds) if kind in _SIGNALS else rng.integers(1, reference.acts + 1)
        faults.append(Fault(kind, float(moment), fresh=bool(rng.random() < 0.1)))
    kinds = _WRITES[:-1] if reference.notes else _WRITES
    for number in range(failing):
        kind, lasting = kinds[number % len(kinds)], bool(rng.random() < 0.5)
        top = {"file size": reference.largest, "full disk": reference.total}.get(kind, reference.acts)
        faults.append(Fault(kind, int(rng.integers(1, top + 1)), lasting))
    return faults


def tried(folder: Path, reference: Reference, fault: Fault) -> Trial:
    """Put in one fault, start again, and compare."""
    trial, home = folder / "trial", folder / "home"
    if fault.fresh:
        home = folder / "fresh/home"
        home.mkdir(parents=True)
    mounted = fault.kind == "full disk"
    trial.mkdir()
    try:
        if mounted:
            used = sum(-(-path.stat().st_size // _PAGE) * _PAGE for path in (folder / "earlier").rglob("*"))
            _mount(trial, used + int(fault.moment))
        shutil.copytree(folder / "earlier", trial, dirs_exist_ok=True)
        earlier = frozenset(path.name for path in (trial / "result/.bvsi").glob("*-*"))
        ended = run(trial, home, fault)
        left = left_behind(contents(trial), reference.before, reference.wanted)
        stage = stage_of(trial, earlier, left)
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=64m", trial], check=True)
        again = run(trial, home)
        final = left_behind(contents(trial), reference.before, reference.wanted)
    finally:
        if mounted:
            subprocess.run(["umount", trial], check=False)
        shutil.rmtree(trial)
        shutil.rmtree(folder / "fresh", ignore_errors=True)
    return Trial(fault, stage, ended.code, left, violations_of(fault, ended, left, again, final))


def _mount(place: Path, size: int) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size // 1024 + 1}k", "tmpfs", place], check=True)


def study(
    folder: Path, kills: int, failing: int, *, rng: np.random.Generator, progress: Progress = silent
) -> tuple[Reference, list[Trial]]:
    """All trials, one after the other, in an empty folder."""
    reference = prepared(folder)
    trials = []
    for fault in drawn(reference, kills, failing, rng):
        trials.append(tried(folder, reference, fault))
        progress(len(trials), kills + failing, "faults")
    return reference, trials


def told(reference: Reference, trials: Sequence[Trial]) -> str:
    """A table by kind of fault and stage, and all violations."""
    rows = Counter((trial.fault.kind, trial.stage) for trial in trials)
    lines = [
        f"{len(trials)} faults in runs of {reference.seconds:.1f} s with {reference.acts} acts of writing.",
        *reference.notes,
        "",
    ]
    lines += [
        "| fault | stage | trials | exit codes | earlier result whole | new result whole | violations |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, stage in sorted(rows):
        some = [trial for trial in trials if (trial.fault.kind, trial.stage) == (kind, stage)]
        codes = ", ".join(f"{code} × {n}" for code, n in sorted(Counter(trial.code for trial in some).items()))
        left = Counter(trial.left for trial in some)
        bad = sum(bool(trial.violations) for trial in some)
        lines.append(f"| {kind} | {stage} | {len(some)} | {codes} | {left['earlier']} | {left['new']} | {bad} |")
    wrong = [trial for trial in trials if trial.violations]
    lines += ["", f"Violations: {len(wrong)}"]
    lines += [f"- {trial.fault}, {trial.stage}: {'; '.join(trial.violations)}" for trial in wrong]
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Put faults into runs of a study, and see what is left. Exit code 0 without violations, 1 with."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.faults", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=100, help="signals at random moments (default 100)")
    parser.add_argument("--failing-writes", type=int, default=50, help="acts of writing that fail (default 50)")
    parser.add_argument("--seed", type=int, default=0, help="of kinds and moments (default 0)")
    parser.add_argument("--out", type=Path, help="folder for faults.json and faults.md")
    chosen = parser.parse_args(arguments)
    # a shell starts what it puts into the background with SIGINT ignored, and runs would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bvsi-faults-") as folder, progress_bar() as progress:
        rng = np.random.default_rng(chosen.seed)
        reference, trials = study(
            Path(folder) / "work", chosen.kills, chosen.failing_writes, rng=rng, progress=progress
        )
    text = told(reference, trials)
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        record = {"seed": chosen.seed, "seconds": reference.seconds, "acts": reference.acts, "notes": reference.notes}
        record["trials"] = [asdict(trial) for trial in trials]
        (chosen.out / "faults.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (chosen.out / "faults.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    if any(trial.violations for trial in trials):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
