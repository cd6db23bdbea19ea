"""Data larger than memory: a Zarr store of many gigabytes is discovered from within a bound on memory.

``python -m bvsi.studies.benchmarks.large_data --gigabytes 4 --memory 4 --whole``: writes a movie of u_t = 0.05 Δu −
0.3 u_x, exact by modes, with noise, to a Zarr store, slab by slab; then runs ``bvsi run`` on it in a process
of its own and reports its largest memory, its time and what it found. With ``--whole`` nothing is coarsened: 4 GB of
single-precision numbers are 10⁹ values.

Memory is what cannot be given back: anonymous pages. Pages of files that are mapped are resident as well, as long as
nobody else needs the memory. The limit holds for what is allocated (``RLIMIT_DATA``, private pages that can be
written): a process that asks for more fails.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bvsi.common.progress import Progress, progress_bar, silent
from bvsi.errors import BvsiError

TRUTH = {"laplacian(u)": 0.05, "dx(u)": -0.3}
_MODES = ((1, 0, 1.0, 0.3), (0, 1, 0.8, 1.0), (2, 1, 0.5, 2.0), (3, 2, 0.4, 0.5), (1, 4, 0.3, 1.7), (5, 3, 0.2, 0.1))
_FINAL = 3.0
_FRAMES_AT_ONCE = 8
# Seconds between two looks at the memory.
_EVERY = 0.2
_STUDY = """\
[data]
file = "movie.zarr"
time = "t"
periodic = {x = 6.283185307179586, y = 6.283185307179586}
COARSEN
[library.equations]
u = ["u", "u**2", "dx(u)", "dy(u)", "laplacian(u)", "u*dx(u)", "laplacian(u**2)"]
[forecast]
enabled = false
"""


@dataclass(frozen=True)
class Outcome:
    """What one run took and found.

    Attributes
    ----------
    gigabytes
        Gigabytes of the store.
    peak, resident
        Gigabytes: most that the process held, looked at five times a second, and most that was resident, with pages
        of mapped files.
    cpu, seconds
        CPU and wall seconds.
    summary
        What was found.
    """

    gigabytes: float
    peak: float
    resident: float
    cpu: float
    seconds: float
    summary: dict[str, object]

    def __str__(self) -> str:
        return (
            f"{self.gigabytes:.2f} GB of data, at most {self.peak:.2f} GB of memory ({self.resident:.2f} GB with "
            f"pages of mapped files), {self.cpu:.0f} CPU s, {self.seconds:.0f} s\n"
            + "\n".join(map(str, self.summary["equation"]))  # type: ignore[call-overload]
            + f"\nverdict: {self.summary['verdict']}\nnotes: {self.summary['notes']}"
        )


def write_movie(path: Path, gigabytes: float, *, rng: np.random.Generator, progress: Progress = silent) -> float:
    """Write single-precision frames of a square until they take so many gigabytes; how many they take."""
    import zarr

    nodes = int(max(64, min(1600, np.sqrt(gigabytes * 1e9 / 4 / 100)))) // 32 * 32
    frames = max(41, round(gigabytes * 1e9 / 4 / nodes**2))
    t, x = np.linspace(0, _FINAL, frames), np.arange(nodes) * 2 * np.pi / nodes
    group = zarr.open_group(path, mode="w", zarr_format=2)
    for name, values in (("t", t), ("x", x), ("y", x)):
        axis = group.create_array(name, shape=values.shape, dtype="f8", chunks=values.shape)
        axis[:] = values
        axis.attrs["_ARRAY_DIMENSIONS"] = [name]
    u = group.create_array("u", shape=(frames, nodes, nodes), dtype="f4", chunks=(4, nodes, nodes), compressors=None)
    u.attrs["_ARRAY_DIMENSIONS"] = ["t", "x", "y"]
    for begin in range(0, frames, _FRAMES_AT_ONCE):
        some = slice(begin, min(begin + _FRAMES_AT_ONCE, frames))
        clean = _frames(t[some], x)
        u[some] = clean + 0.1 * rng.standard_normal(clean.shape, dtype=np.float32)
        progress(some.stop, frames, "writing frames")
    return float(u.nbytes) / 1e9


def _frames(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Σ a e^{−0.05 (k² + l²) t} cos(k (x − 0.3 t) + p) cos(l y), (frames, nodes, nodes)."""
    total = np.zeros((len(t), len(x), len(x)), dtype=np.float32)
    for k, m, a, p in _MODES:
        decay = a * np.exp(-0.05 * (k**2 + m**2) * t)[:, None]
        wave = (decay * np.cos(k * (x - 0.3 * t[:, None]) + p)).astype(np.float32)
        total += wave[:, :, None] * np.cos(m * x).astype(np.float32)
    return total


def discovered(folder: Path, gigabytes: float, memory: float, *, whole: bool = False, check: bool = True) -> Outcome:
    """Run the study in a process of its own, which fails where it asks for more memory than allowed.

    Parameters
    ----------
    memory
        Gigabytes.
    """
    text = _STUDY.replace("COARSEN", f"coarsen = {str(not whole).lower()}")
    (folder / "study.toml").write_text(text + ("" if check else "[check]\nenabled = false\n"), encoding="utf-8")
    command = [sys.executable, "-m", "bvsi.app.cli", "run", str(folder / "study.toml"), "--json"]
    limit, most = int(memory * 1e9), {"held": 0.0, "resident": 0.0}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as wrong:
        running = subprocess.Popen(command, stdout=out, stderr=wrong)
        resource.prlimit(running.pid, resource.RLIMIT_DATA, (limit, limit))
        while running.poll() is None:
            most = {name: max(most[name], size) for name, size in _memory(running.pid).items()}
            time.sleep(_EVERY)
        seconds = time.perf_counter() - begin
        for file in (out, wrong):
            file.seek(0)
        if running.returncode:
            raise BvsiError(f"bvsi run: {wrong.read()}")
        summary = json.loads(out.read())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(gigabytes, most["held"], most["resident"], cpu, seconds, summary)


def _memory(pid: int) -> dict[str, float]:
    """Gigabytes that a process holds, in anonymous pages and in files that are memory, and all that are resident."""
    try:
        rows = [row.split() for row in Path(f"/proc/{pid}/status").read_text().splitlines()]
    except OSError:  # it has just ended
        rows = []
    sizes = {name: float(rest[0]) * 1024 / 1e9 for name, *rest in rows if name.startswith(("Rss", "VmHWM"))}
    held = sizes.get("RssAnon:", 0.0) + sizes.get("RssShmem:", 0.0)
    return {"held": held, "resident": sizes.get("VmHWM:", 0.0)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Discover the equation of movies, of one size or several, within the memory allowed."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.large_data", description=main.__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[6.0], help="size of the data (default 6)")
    parser.add_argument("--memory", type=float, default=4.0, help="gigabytes of memory allowed (default 4)")
    parser.add_argument("--whole", action="store_true", help="keep the data as they are (default: coarsened)")
    parser.add_argument("--no-check", action="store_true", help="leave the check out")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default 0)")
    parser.add_argument("--folder", type=Path, default=None, help="where the data go (default: a temporary folder)")
    chosen = parser.parse_args(arguments)
    found = []
    for gigabytes in chosen.gigabytes:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as place, progress_bar() as progress:
            rng = np.random.default_rng(chosen.seed)
            size = write_movie(Path(place) / "movie.zarr", gigabytes, rng=rng, progress=progress)
            found.append(discovered(Path(place), size, chosen.memory, whole=chosen.whole, check=not chosen.no_check))
        sys.stdout.write(f"{found[-1]}\n")
    if len(found) > 1:
        values, cpu = np.log([[one.gigabytes, one.cpu] for one in found]).T
        growth = float(np.polyfit(values, cpu, 1)[0])
        sys.stdout.write(f"CPU grows as the number of values to the power {growth:.2f}\n")


if __name__ == "__main__":
    main()
