"""``found.plot``: the figures of a discovery, each on the Axes it is given or on a figure of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bvsi.app.plot.coefficients import coefficient_intervals
from bvsi.app.plot.covariance import covariance_matrix
from bvsi.app.plot.forecast import forecast_errors
from bvsi.app.plot.frames import frame_pictures
from bvsi.app.plot.pairs import posterior_pairs
from bvsi.app.plot.selection import selection_path
from bvsi.discovery import Discovery
from bvsi.errors import BvsiError


@dataclass(frozen=True, eq=False)
class DiscoveryPlots:
    """Figures of a discovery. Every method takes an Axes, makes one where it is left out, and returns it."""

    found: Discovery

    def coefficients(self, ax: Any = None, *, level: float = 0.95) -> Any:
        """Coefficients with their intervals, in units of their means."""
        ax = _axes(ax, 6.0, 1.0 + 0.45 * len(self.found.names))
        coefficient_intervals(ax, self.found.posterior, level=level, units=self.found.units)
        return ax

    def path(self, ax: Any = None) -> Any:
        """Criterion by number of operators."""
        ax = _axes(ax, 6.0, 4.0)
        selection_path(ax, self.found.path)
        return ax

    def covariance(self, ax: Any = None) -> Any:
        """Correlations of the coefficients, as colours and numbers."""
        side = 2.5 + 0.7 * len(self.found.names)
        ax = _axes(ax, side + 1.0, side)
        covariance_matrix(ax, self.found.posterior)
        return ax

    def pairs(self, ax: Any = None, *, rng: np.random.Generator | None = None) -> Any:
        """The posterior, two coefficients at a time; ``rng`` for its draws, by default seed 0."""
        side = 2.0 + 1.1 * min(len(self.found.names), 8)
        ax = _axes(ax, side, side)
        rng = np.random.default_rng(0) if rng is None else rng
        posterior_pairs(ax, self.found.posterior, rng=rng, units=self.found.units)
        return ax

    def frames(self, ax: Any = None, *, field: str | None = None, experiment: int = 0, frame: int = -1) -> Any:
        """Data, fit and whitened residual of a field, by default the first; in one dimension of all frames."""
        if self.found.frames is None:
            raise BvsiError("frames: this result has none; they are made with the check, discover(..., check=True).")
        parts = self.found.frames.experiments
        if not 0 <= experiment < len(parts):
            raise BvsiError(f"experiment: there are {len(parts)}, counted from 0; got {experiment}.")
        ax = _axes(ax, 11.0, 3.4)
        part = parts[experiment]
        field = next(iter(part.data)) if field is None else field
        frame_pictures(ax, part, field, frame=frame, units=self.found.data_units)
        return ax

    def forecast(self, ax: Any = None) -> Any:
        """Growth of the forecast's error, and its coverage."""
        if self.found.forecast is None:
            raise BvsiError(
                "forecast: this result has none; make one: dataclasses.replace(found, forecast=bvsi.forecast(data, "
                "library, found, rng=numpy.random.default_rng(0)))."
            )
        ax = _axes(ax, 6.5, 4.0)
        forecast_errors(ax, self.found.forecast, units=self.found.data_units)
        return ax


def _axes(ax: Any, width: float, height: float) -> Any:
    """The Axes given, or those of a new figure, which a notebook shows and ``ax.figure.savefig`` saves."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
