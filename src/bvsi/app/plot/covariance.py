"""Correlations of coefficients (fig:FP_EM_covariance)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.infer.posteriors import Posterior

Array = NDArray[np.float64]


def correlations(covariance: Array) -> Array:
    """Correlation matrix (d, d) of a covariance; zero beside a coefficient without variance."""
    sd = np.sqrt(np.diag(covariance))
    safe = np.where(sd > 0, sd, 1.0)
    made = np.clip(covariance / np.outer(safe, safe), -1.0, 1.0)
    np.fill_diagonal(made, 1.0)
    return np.asarray(made)


def covariance_matrix(ax: Any, posterior: Posterior) -> None:
    """Correlations, as colours and numbers."""
    correlation = correlations(posterior.covariance)
    image = ax.imshow(correlation, cmap="PuOr", vmin=-1, vmax=1)
    for i, row in enumerate(correlation):
        for j, value in enumerate(row):
            colour = "white" if abs(value) > 0.6 else "black"
            ax.text(j, i, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=8, color=colour)
    ticks = np.arange(len(posterior.names))
    ax.set_xticks(ticks, posterior.names, rotation=35, ha="right")
    ax.set_yticks(ticks, posterior.names)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="correlation")
