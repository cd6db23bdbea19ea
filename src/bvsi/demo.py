"""The embedded demo: an equation and its potential from the paper's Fokker–Planck data.

``python -m bvsi.demo --out DIR`` (or ``bvsi demo``) writes ``index.html`` with its figures to DIR and names it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from bvsi.console import progress_bar
from bvsi.discovery import equation_text
from bvsi.problems.fokker_planck import Case
from bvsi.reproduce import fokker_planck
from bvsi.spaces import Q2


def run(out: Path) -> None:
    """Discover, write the report, and say what was found and where it is."""
    with progress_bar() as progress:
        study = fokker_planck.run(Case(), Q2, progress, all_criteria=False)
    index = fokker_planck.write(study, out)
    fit = study.fits["profile"]
    assert fit.posterior is not None
    equation = equation_text(fit.names, fit.theta, np.sqrt(fit.posterior.variance), ["p"])
    sys.stdout.write(f"{equation}\n\n{study.path}\n\nχ²/n = {fit.chi2:.3f}; {study.seconds:.1f} s\n")
    sys.stdout.write(f"{fokker_planck.verdict_text(study)}\n")
    sys.stdout.write(f"report: {index.resolve()}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run the demo discovery and write its report."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.demo", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the report (default: demo)")
    run(parser.parse_args(arguments).out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
