"""bvsi at its default settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bvsi._version import __version__
from bvsi.data import Data
from bvsi.discovery import discover
from bvsi.studies.benchmarks.discovery.method import BenchmarkCase, CoefficientEstimate

LEVEL = 0.95
"""Of the intervals."""


@dataclass(frozen=True)
class Bvsi:
    """``bvsi.discover(data, library)``: nothing but data and candidates, so nothing is tuned to the truth."""

    name: str = "bvsi"

    @property
    def settings(self) -> Mapping[str, Any]:
        """The version, and the level of the intervals."""
        return {"bvsi": __version__, "level": LEVEL}

    def applies(self, case: BenchmarkCase) -> bool:
        """Always: the candidates are written for it."""
        return bool(case.truth)

    def estimate(self, case: BenchmarkCase, data: Data) -> CoefficientEstimate:
        """Selected coefficients, 95% intervals, verdict where the result has one."""
        found = discover(data, case.library())
        intervals = zip(found.names, found.posterior.interval(LEVEL).tolist(), strict=True)
        verdict = getattr(found, "verdict", None)
        return CoefficientEstimate(
            theta=dict(zip(found.names, found.theta.tolist(), strict=True)),
            truth=dict(case.truth),
            seconds=found.seconds,
            intervals={name: (low, high) for name, (low, high) in intervals},
            verdict=None if verdict is None else str(verdict),
            details={"chi2": float(found.chi2), "sd": dict(zip(found.names, found.sd.tolist(), strict=True))},
        )
