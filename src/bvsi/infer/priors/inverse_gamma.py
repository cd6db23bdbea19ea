"""The prior of an unknown noise variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bvsi.errors import BvsiError


@dataclass(frozen=True)
class InverseGammaPrior:
    """σ² ~ Inv-Gamma(alpha, beta). The default is the reference prior p(σ²) ∝ 1/σ²."""

    alpha: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.alpha) and np.isfinite(self.beta) and self.alpha >= 0 and self.beta >= 0):
            raise BvsiError(f"Inverse-Gamma prior: alpha and beta must not be negative, got {self.alpha}, {self.beta}.")
