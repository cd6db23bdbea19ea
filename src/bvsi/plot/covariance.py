"""Covariance matrices of coefficients (fig:FP_EM_covariance)."""

from __future__ import annotations

from typing import Any

import numpy as np

from bvsi.posteriors import Posterior


def covariance_matrix(ax: Any, posterior: Posterior) -> None:
    """Correlations as colours, covariances as numbers."""
    covariance = posterior.covariance
    sd = np.sqrt(np.diag(covariance))
    image = ax.imshow(covariance / sd[:, None] / sd, cmap="PuOr", vmin=-1, vmax=1)
    for i, row in enumerate(covariance):
        for j, value in enumerate(row):
            dark = abs(value) > 0.6 * sd[i] * sd[j]
            ax.text(j, i, f"{value:.1e}", ha="center", va="center", fontsize=8, color="white" if dark else "black")
    ticks = np.arange(len(posterior.names))
    ax.set_xticks(ticks, posterior.names, rotation=35, ha="right")
    ax.set_yticks(ticks, posterior.names)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="correlation")
