"""A process that has imported all of bvsi and forks for every command, since starting Python each time costs seconds.

It reads one JSON request per line from standard input and answers with one line on standard output. There are no
threads of Python before a fork. :class:`bvsi.studies.fuzz.client.Server` starts it and talks to it.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from bvsi.studies.fuzz.audit import Auditor, code_folders

_MODULES = (
    "numpy", "scipy.io", "scipy.special", "scipy.sparse.linalg", "scipy.optimize", "sympy", "xarray", "h5py",
    "h5netcdf", "h5netcdf.legacyapi", "dask.base", "zarr", "zarr.storage", "meshio", "tifffile", "matplotlib.pyplot",
    "skfem", "rich.console", "rich.progress", "bvsi.app.cli.main",
    "bvsi.discovery", "bvsi.forward", "bvsi.app.plot", "bvsi.predict", "bvsi.app.readers", "bvsi.app.report",
    "bvsi.app.study.inspection",
    "bvsi.app.study.inspection_picture", "bvsi.app.study.prediction", "bvsi.app.study.run", "bvsi.app.study.simulation",
    "bvsi.app.study.template",
)  # fmt: skip

ESCAPED = "EXCEPTION ESCAPED FROM MAIN"
"""What is written to standard error where main() ends with an exception."""


def serve() -> None:
    """Import, report the memory that this takes, then fork for every request until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nothing but answers goes to the other side
    requests = os.fdopen(os.dup(0), "r", buffering=1)
    import matplotlib as mpl

    mpl.use("Agg")
    for name in _MODULES:
        with contextlib.suppress(ImportError):  # a version without it is tested all the same
            importlib.import_module(name)
    _warm_up(Path(sys.argv[1])) if len(sys.argv) > 1 else None
    gc.collect()
    gc.freeze()  # so that a collection in a child looks at what the child made
    answers.write(json.dumps({"threads": _python_threads(), "resident": _resident()}) + "\n")
    for line in requests:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")


def _warm_up(folder: Path) -> None:
    """Run commands on a whole study once, so that what they load when first used is there in every child."""
    study, result = str(folder / "study.toml"), str(folder / "result")
    commands = [
        ("inspect", str(folder / "run.nc"), "--no-picture", "--quiet"),
        ("run", study, "--check-only", "--quiet"),
    ]
    commands += [("predict", result, "[dx(u)]", "--quiet")] if Path(result).is_dir() else []
    for command in commands:
        _run(command, None, ending=False)


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run one request in a forked child, and report how it ended."""
    begin = time.perf_counter()
    child = os.fork()
    if child == 0:
        _become(request)
    hung = not _ended(child, request["timeout"])
    if hung:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it may have started
    return {
        "code": os.waitstatus_to_exitcode(status),
        "hung": hung,
        "seconds": time.perf_counter() - begin,
        "cpu": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss * 1024,
    }


def _ended(child: int, timeout: float) -> bool:
    handle = os.pidfd_open(child)
    try:
        return bool(select.select([handle], [], [], timeout)[0])
    finally:
        os.close(handle)


def _become(request: Mapping[str, Any]) -> NoReturn:
    """In the child: limits, streams and folder of the request, then the command; it never returns."""
    code: object = 70
    try:
        os.setsid()
        _streams(request)
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        _limit(request)
        faulthandler.enable()
        faulthandler.dump_traceback_later(max(request["timeout"] - 0.5, 0.1), exit=False)
        target = os.open(request["audit"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        auditor = Auditor(target, request["allowed"], code_folders())
        sys.addaudithook(auditor)
        code = _run(request["arguments"], request.get("python"))
        faulthandler.cancel_dump_traceback_later()
        auditor.strangers()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) and 0 <= code < 256 else 1)


def _streams(request: Mapping[str, Any]) -> None:
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, request["out"], _FRESH), (2, request["err"], _FRESH)):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))  # noqa: SIM115


_FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def _limit(request: Mapping[str, Any]) -> None:
    """Memory above what the parent has, processor time, size of files; no core files."""
    size = _virtual() + request["memory"]
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    seconds = int(2 * request["timeout"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_size"], request["file_size"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run(arguments: Sequence[str], python: str | None, *, ending: bool = True) -> object:
    """``bvsi`` with arguments, or a text of Python, as the positive controls are; the exit code as a shell sees it."""
    sys.argv = ["bvsi", *arguments]
    code: object = 0
    try:
        if python is None:
            from bvsi.app.cli.main import main

            main()
        else:
            exec(python, {"__name__": "__control__"})
    except SystemExit as ended:
        code = ended.code if ended.code is not None else 0
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:
        sys.stderr.write(f"{ESCAPED}\n{traceback.format_exc()}")
        code = 1
    if ending:
        gc.collect()  # complaints of destructors belong to the command
        atexit._run_exitfuncs()
    return code


def _python_threads() -> int:
    import threading

    return threading.active_count()


def _virtual() -> int:
    return _pages()[0]


def _resident() -> int:
    return _pages()[1]


def _pages() -> tuple[int, int]:
    """Bytes of the address space and in memory."""
    with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123
        whole, resident = stream.read().split()[:2]
    return int(whole) * resource.getpagesize(), int(resident) * resource.getpagesize()


if __name__ == "__main__":
    serve()
