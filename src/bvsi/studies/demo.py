"""The embedded demo: a density that drifts and diffuses, from data file to report.

``python -m bvsi.studies.demo --out DIR`` (or ``bvsi demo``) writes ``data.nc`` and ``study.toml`` to DIR, runs the
study as ``bvsi run`` would, and names the report.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bvsi.app.files import netcdf_bytes, write_whole
from bvsi.app.study import Finished, load_study, run_study
from bvsi.common.progress import Progress, progress_bar
from bvsi.errors import BvsiError
from bvsi.studies.problems.classics import CLASSICS

_NOISE = 0.02
_STUDY = """\
# The study of the demo: a density p(x, y, t) that drifts in a potential and diffuses.
# Change it, then: bvsi run study.toml
title = "Drift and diffusion of a density"

[data]
file = "data.nc"
time = "time"

[library]
boundary = "no-flux"

[library.equations]
p = [
{operators}
]

[[quantity]]
name = "potential"            # of the drift, p_t = … + div(p grad ψ)
kind = "potential"
axes = {{ x = [-4.0, 4.0, 33], y = [-4.0, 4.0, 33] }}

[[quantity]]
name = "diffusivity"
expression = "[laplacian(p)]"

[forecast]
draws = 8                     # fewer than usual, so that the demo is quick

[output]
folder = "result"
"""


def run(out: Path, progress: Progress) -> Finished:
    """Make data and study, and run it."""
    case = CLASSICS["fokker_planck_2d"]
    data = case.noisy(_NOISE, 0)
    study = out / "study.toml"
    operators = ",\n".join(f'    "{text}"' for text in case.candidates["p"])
    text = _STUDY.format(operators=operators)
    _check_folder(out, text)
    write_whole(study, text)
    write_whole(out / "data.nc", netcdf_bytes(data.to_xarray()))
    return run_study(load_study(study), progress=progress)


def _check_folder(out: Path, text: str) -> None:
    """Refuse a folder with files that the demo did not write, or with a study that was changed since."""
    study = out / "study.toml"
    ours = study.is_file() and study.read_bytes() == text.encode()
    found = next((name for name in ("study.toml", "data.nc") if os.path.lexists(out / name)), None)
    if out.is_symlink() or (found is not None and not ours):
        what = "is a link" if out.is_symlink() else f"holds another {found}"
        raise BvsiError(f"--out {out}: the folder {what}; choose another one.")


def told(finished: Finished) -> str:
    """Equation, verdict and where the report is."""
    found = finished.found
    return "\n".join(
        [
            found.equation,
            f"verdict: {found.verdict}. {found.advice}",
            f"{sum(finished.seconds.values()):.1f} s",
            f"report: {finished.report.resolve()}",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the demo discovery and write its report."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.demo", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the report (default: demo)")
    try:
        with progress_bar() as progress:
            finished = run(parser.parse_args(arguments).out, progress)
    except BvsiError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{told(finished)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
