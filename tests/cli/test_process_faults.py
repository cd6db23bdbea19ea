"""What can go wrong around a process: encodings, closed streams, signals, names, full disks, little memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

BVSI = (sys.executable, "-m", "bvsi.app.cli")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a data file whose dimension has a Greek name, and a study of it."""
    x, t = np.arange(32) * 2 * np.pi / 32, np.linspace(0, 1, 31)
    u = np.sin(x - t[:, None]) + 0.5 * np.cos(2 * x - 2 * t[:, None])
    u = u + 0.01 * np.random.default_rng(0).standard_normal(u.shape)
    data = xr.Dataset({"u": (("t", "x"), u)}, {"t": t, "x": x}, {"Größe": "σ → ∞"})
    data.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    (tmp_path / "study.toml").write_text(
        'title = "σ²"\n[data]\nfile = "run.nc"\ntime = "t"\nperiodic = {x = 6.283185307179586}\n'
        '[library.equations]\nu = ["dx(u)", "u"]\n[check]\nenabled = false\n[forecast]\nenabled = false\n'
    )
    return tmp_path


def bvsi(folder: Path, *arguments: object, **options) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **options.pop("env", {})}
    command = [*BVSI, *(a if isinstance(a, bytes) else str(a) for a in arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, env=environment, timeout=120, **options)


def test_encodings_without_our_characters_lose_nothing(here: Path) -> None:
    """ASCII: what another encoding cannot write, it cannot write either."""
    done = bvsi(here, "run", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"u_t = " in done.stdout
    assert (here / "result/report.html").exists()


def test_a_closed_output_is_no_fault(here: Path) -> None:
    words = f"{' '.join(BVSI)} inspect run.nc --no-picture >&- 2>err.txt"
    done = subprocess.run(["sh", "-c", words], cwd=here, timeout=120)
    assert done.returncode == 0
    assert b"Traceback" not in (here / "err.txt").read_bytes()


WAITS = """
import sys
class Waits:
    def find_spec(self, name, *_):
        if name == MOMENT:
            print(name, flush=True)
            sys.stdin.read()
sys.meta_path.insert(0, Waits())
from bvsi.app.cli.__main__ import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
@pytest.mark.parametrize("moment", ["bvsi.app.cli.main", "typer", "bvsi.app.readers"])
def test_an_interrupt_while_modules_are_imported_is_silent(here: Path, moment: str) -> None:
    """The first import of the command line, one of its own, and the first of the command."""
    command = [sys.executable, "-c", WAITS.replace("MOMENT", repr(moment)), "inspect", "run.nc"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=here, **pipes) as running:
        assert running.stdout is not None
        assert running.stdout.readline().decode().strip() == moment
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 elsewhere")
@pytest.mark.parametrize("name", [b"a\xff.nc", b"a\x1b[31m.nc"])
def test_a_name_that_no_study_can_hold_is_refused(here: Path, name: bytes) -> None:
    os.rename(os.fsencode(here / "run.nc"), os.fsencode(here) + b"/" + name)  # noqa: PTH104  bytes
    done = bvsi(here, "init", name)
    assert done.returncode == 2
    assert b"rename the file" in done.stderr
    assert b"Traceback" not in done.stderr
    assert bvsi(here, "inspect", name, "--no-picture").returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 120 kB, where it may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=120k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_ends_in_one_message_and_nothing_is_lost(here: Path, small_disk: Path) -> None:
    folder = small_disk / "result"
    done = bvsi(here, "run", "--out", folder)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(b"error: ")
    assert b"disk is full" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert not any(path.suffix == ".part" for path in small_disk.rglob("*"))
    seen = bvsi(here, "inspect", "run.nc", "--picture", small_disk / "seen.png")
    assert b"noise" in seen.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="memory cannot be limited there")
def test_too_little_memory_ends_in_one_message(here: Path) -> None:
    """The limit is set when everything is imported, so that it is met while something is computed."""
    script = """
import resource, sys
from pathlib import Path
import bvsi.app.study.run, bvsi.discovery, bvsi.app.report, matplotlib.figure, h5netcdf
from bvsi.app.cli import __main__
def limited(*args, _was=bvsi.app.study.run.discovered, **options):
    import numpy as np
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used, resource.RLIM_INFINITY))
    np.ones(200 * 2**17)  # 200 MB
    return _was(*args, **options)
bvsi.app.study.run.discovered = limited
sys.argv = ["bvsi", "run", "-q"]
__main__.main()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=here, capture_output=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert b"not enough memory" in done.stderr
    assert b"200. MiB" in done.stderr or b"200 MiB" in done.stderr
    assert b"Traceback" not in done.stderr
