"""What a method of discovery has to offer to take part in the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bvsi.data import Data
from bvsi.operators import Library
from bvsi.studies.benchmarks.discovery.metrics import Interval


class BenchmarkCase(Protocol):
    """What the benchmark needs of an equation; :class:`bvsi.studies.problems.classics.Classic` has it."""

    @property
    def name(self) -> str:
        """For tables."""

    @property
    def truth(self) -> Mapping[str, float]:
        """Name of an operator in ``library()`` → coefficient."""

    @property
    def candidates(self) -> Mapping[str, tuple[str, ...]]:
        """Field → operators of its equation."""

    def library(self) -> Library:
        """All candidates."""

    def noisy(self, level: float, seed: int) -> Data:
        """Data with noise of standard deviation ``level`` × RMS."""


@dataclass(frozen=True)
class CoefficientEstimate:
    """What a method found.

    Attributes
    ----------
    theta
        Coefficients of the selected operators.
    truth
        The true coefficients, both under the method's own names.
    intervals
        95% intervals of selected operators, where the method gives any.
    verdict
        Its word on the fit.
    seconds
        How long it took.
    details
        More to keep, JSON values.
    """

    theta: Mapping[str, float]
    truth: Mapping[str, float]
    seconds: float
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    verdict: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class BenchmarkMethod(Protocol):
    """A way to discover an equation."""

    @property
    def name(self) -> str:
        """For tables."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that its results depend on besides the data, JSON values."""

    def applies(self, case: BenchmarkCase) -> bool:
        """Whether it can express the true equation."""

    def estimate(self, case: BenchmarkCase, data: Data) -> CoefficientEstimate:
        """Discover the equation of ``data``."""
