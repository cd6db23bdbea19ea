"""Figures of small cases of every kind, kept and compared, so that a change of the code shows where it changes results.

``python -m bvsi.studies.golden`` runs all cases and compares them with ``benchmarks/results/golden.json``; ``--store``
keeps the figures instead, for the cases named. Two results are the same where

    |Δθ_i| ≤ tol (|θ_i| + sd_i),    |ΔV_ij| ≤ tol √(V_ii V_jj),    other numbers to tol of their size,

and all names, steps and verdicts are equal. Figures depend on the machine to rounding, not to tol.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bvsi.common.progress import progress_bar
from bvsi.studies.golden_cases import CASES, Figures

STORE = Path(__file__).parents[3] / "benchmarks/results/golden.json"
"""The figures, in a checkout."""

TOLERANCE = 1e-9
_ROUNDING = 1e-12
"""Numbers below this are zero: tail probabilities, scores of a perfect fit."""


def differences(found: Any, kept: Any, place: str = "", tol: float = TOLERANCE) -> list[str]:
    """Where two records of figures differ, each with its place and by how much."""
    if isinstance(kept, dict) and isinstance(found, dict):
        wrong = [f"{place}: {sorted(found)} instead of {sorted(kept)}"] if set(found) != set(kept) else []
        if not wrong and {"theta", "covariance"} <= set(kept) and found["names"] == kept["names"]:
            return wrong + _posterior(found, kept, place, tol)
        return wrong + [
            d for key in kept if key in found for d in differences(found[key], kept[key], f"{place}/{key}", tol)
        ]
    if isinstance(kept, list) and isinstance(found, list) and len(kept) == len(found):
        return [
            d for i, pair in enumerate(zip(found, kept, strict=True)) for d in differences(*pair, f"{place}/{i}", tol)
        ]
    if isinstance(kept, float) and isinstance(found, float | int):
        change = abs(found - kept)
        return [f"{place}: {kept:.12g} → {found:.12g}"] if change > max(tol * abs(kept), _ROUNDING) else []
    return [] if found == kept else [f"{place}: {kept} → {found}"]


def _posterior(found: Figures, kept: Figures, place: str, tol: float) -> list[str]:
    """Differences of coefficients in units of their size and sd, and of covariances in units of variances."""
    theta, variance = np.array(kept["theta"]), np.array(kept["covariance"])
    sd = np.sqrt(np.diag(variance))
    change = np.abs(np.array(found["theta"]) - theta) / (np.abs(theta) + sd)
    spread = np.abs(np.array(found["covariance"]) - variance) / np.outer(sd, sd)
    wrong = [
        f"{place}/{what}: relative change {v.max():.2g}"
        for what, v in (("theta", change), ("covariance", spread))
        if v.max() > tol
    ]
    rest = [key for key in kept if key not in ("theta", "covariance")]
    return wrong + [d for key in rest for d in differences(found[key], kept[key], f"{place}/{key}", tol)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare results with those kept. Exit code 0 where all agree, 1 else."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.golden", description=main.__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of {', '.join(CASES)} (default all)")
    parser.add_argument("--store", action="store_true", help="keep the figures instead of comparing them")
    parser.add_argument("--file", type=Path, default=STORE, help="where the figures are kept")
    parser.add_argument("--tol", type=float, default=TOLERANCE, help=f"relative tolerance (default {TOLERANCE:g})")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.cases if name not in CASES]:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    names = chosen.cases or list(CASES)
    kept = json.loads(chosen.file.read_text(encoding="utf-8")) if chosen.file.is_file() else {}
    if not chosen.store and (missing := [name for name in names if name not in kept]):
        parser.error(f"no figures of {missing[0]!r} in {chosen.file}; make them with --store")
    wrong = 0
    with progress_bar() as progress:
        for number, name in enumerate(names):
            progress(number, len(names), name)
            begin = time.process_time()
            found = json.loads(json.dumps(CASES[name].run()))
            seconds = time.process_time() - begin
            if chosen.store:
                kept[name] = found
                told = "kept"
            else:
                different = differences(found, kept[name], tol=chosen.tol)
                wrong += bool(different)
                told = "same" if not different else "DIFFERENT\n  " + "\n  ".join(different[:20])
            sys.stdout.write(f"{name:<24} {seconds:6.1f} s  {told}\n")
            sys.stdout.flush()
    if chosen.store:
        chosen.file.parent.mkdir(parents=True, exist_ok=True)
        chosen.file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    else:
        sys.stdout.write(f"{len(names) - wrong} of {len(names)} cases the same to {chosen.tol:g}\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
