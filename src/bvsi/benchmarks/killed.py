"""Runs that are killed at random moments and started again: nothing is lost, and the result is the same to the bit.

``python -m bvsi.benchmarks.killed --kills 20``: a small study runs to its end without being disturbed; then again, in a
folder that holds an earlier result, killed with SIGKILL at a random moment and restarted, many times. After every kill
the earlier result must still be whole; after the restart all arrays and texts but the times taken must equal those of
the undisturbed run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bvsi.console import progress_bar
from bvsi.errors import BvsiError
from bvsi.problems.classics import CLASSICS
from bvsi.progress import Progress, silent

_STUDY = """\
[data]
file = "data.nc"
time = "time"
[library.equations]
u = ["u", "u**2", "dx(u)", "u*dx(u)", "dx(dx(u))", "dx(dx(dx(u)))"]
[posterior]
constraints = [{constraints}]
"""


@dataclass(frozen=True)
class Outcome:
    """What is left of killed runs.

    kills: made; differences: what is not the same after a restart, by name; broken: moments of kills after which the
    earlier result was not whole; seconds: of the undisturbed run.
    """

    kills: int
    differences: tuple[str, ...]
    broken: tuple[float, ...]
    seconds: float

    def __str__(self) -> str:
        same = "the same to the bit" if not self.differences else f"differs in {', '.join(self.differences)}"
        kept = "was whole after every kill" if not self.broken else f"was broken after kills at {self.broken}"
        return f"{self.kills} kills; the result is {same}; the earlier result {kept}."


def killed(
    folder: Path, kills: int, *, rng: np.random.Generator, nodes: int = 64, times: int = 51, progress: Progress = silent
) -> Outcome:
    """Do it in a folder."""
    data = CLASSICS["burgers"].make(nodes=nodes, times=times)
    u = data.fields["u"]
    noisy = data.with_fields({"u": u + 0.02 * np.std(u) * np.random.default_rng(0).standard_normal(u.shape)})
    for place in ("quiet", "earlier"):
        (folder / place).mkdir(parents=True)
        noisy.to_xarray().to_netcdf(folder / place / "data.nc", engine="h5netcdf")
        (folder / place / "study.toml").write_text(_STUDY.format(constraints=""), encoding="utf-8")
    begin = time.perf_counter()
    _run(folder / "quiet", None)
    seconds = time.perf_counter() - begin
    # an earlier result, of another study
    (folder / "earlier/study.toml").write_text(_STUDY.format(constraints='"dx(dx(u)) > 0"'), encoding="utf-8")
    _run(folder / "earlier", None)
    before = _contents(folder / "earlier")
    (folder / "earlier/study.toml").write_text(_STUDY.format(constraints=""), encoding="utf-8")
    wanted, broken, differences = _contents(folder / "quiet"), [], dict[str, None]()
    for number in range(kills):
        moment = float(rng.uniform(0, 1.1 * seconds))
        trial = Path(shutil.copytree(folder / "earlier", folder / "trial"))
        _run(trial, moment)
        if _contents(trial) not in (before, wanted):
            broken.append(moment)
        _run(trial, None)
        found = _contents(trial)
        differences |= dict.fromkeys(name for name in wanted if found.get(name) != wanted[name])
        shutil.rmtree(trial)
        progress(number + 1, kills, "killing runs")
    return Outcome(kills, tuple(differences), tuple(broken), seconds)


def _run(folder: Path, moment: float | None) -> None:
    """``bvsi run``, killed after so many seconds, or not."""
    command = [sys.executable, "-m", "bvsi.cli", "run", str(folder / "study.toml"), "--quiet"]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE) as process:
        try:
            _, error = process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return
    if process.returncode:
        raise BvsiError(f"bvsi run: {error.decode()}")


def _contents(folder: Path) -> dict[str, bytes]:
    """All of a result but the times taken; empty where there is none."""
    import xarray as xr

    path = folder / "result" / "result.nc"
    if not path.exists():
        return {}
    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        attributes = {k: str(v).encode() for k, v in sorted(dataset.attrs.items()) if k != "seconds"}
        variables = {str(name): np.ascontiguousarray(v.values).tobytes() for name, v in dataset.variables.items()}
    texts = {name: (folder / "result" / name).read_bytes() for name in ("equation.tex", "coefficients.csv")}
    return {**attributes, **variables, **texts}


def main(arguments: Sequence[str] | None = None) -> None:
    """Kill runs of a study at random moments, and see what is left."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.benchmarks.killed", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how many (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default 0)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, progress_bar() as progress:
        outcome = killed(Path(folder), chosen.kills, rng=np.random.default_rng(chosen.seed), progress=progress)
    sys.stdout.write(f"{outcome}\n")
    if outcome.differences or outcome.broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
