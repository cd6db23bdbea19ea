"""What an estimator returns: value, status, diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.inference.posterior import GaussianPosterior, NormalInverseGammaPosterior

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Status:
    """How an iteration ended; the message says what to do next."""

    converged: bool
    iterations: int
    message: str


@dataclass(frozen=True, eq=False)
class Step:
    """One iteration: θ before the update, the relative size of the update, and χ²/n there."""

    theta: Array
    change: float
    chi2: float


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients with their posterior and how they were found.

    theta: (d,); posterior: None for plain least squares; chi2: rᵀWr/n, one where model and noise are right;
    chi2_blocks: the same by experiment and block; status and history of the iteration; method: for people.
    """

    names: tuple[str, ...]
    theta: Array
    posterior: GaussianPosterior | NormalInverseGammaPosterior | None
    chi2: float
    chi2_blocks: tuple[Array, ...]
    status: Status
    history: tuple[Step, ...]
    method: str

    def coefficient(self, name: str) -> float:
        """Coefficient of an operator by name."""
        return float(dict(zip(self.names, self.theta, strict=True))[name])

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        sd = np.full(len(self.theta), np.nan) if self.posterior is None else np.sqrt(self.posterior.variance)
        rows = [f"{self.method}: χ²/n = {self.chi2:.3g}; {self.status.message}"]
        for name, value, s in zip(self.names, self.theta, sd, strict=True):
            rows.append(f"  {name:<{width}}  {value: .6g}" + ("" if np.isnan(s) else f" ± {s:.2g}"))
        return "\n".join(rows)
