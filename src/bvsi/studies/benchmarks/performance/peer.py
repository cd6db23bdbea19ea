"""PySINDy's weak form on the same data with as many candidates: u and its derivatives up to the third order, ten.

It has no features with coefficients that vary in space, so that the Fokker–Planck equation is not among its models:
this compares seconds, not answers. Weak form and thresholds are those of ``bvsi bench discovery``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.discovery.peer import PySindy, global_seed, pysindy_module
from bvsi.studies.benchmarks.discovery.translate import Feature

_ORDER = 3


@dataclass(frozen=True)
class TenFeatures(PySindy):
    """PySINDy with a library of ten features on a plane."""

    def candidates(self, data: Data) -> int:
        """Make the weak form, fit it with every threshold; the number of candidates."""
        if not isinstance(data.geometry, Grid) or data.geometry.dim != 2:
            raise BvsiError("data: a grid of two axes is needed for the comparison with PySINDy.")
        Theta, V, columns = self._weak_form(data, data.geometry, {}, self.windows[0])
        for _ in self._fits(Theta, V):
            pass
        return len(columns)

    def _library(self, data: Data, grid: Grid, needed: Sequence[Feature], window: float) -> Any:
        del needed
        pysindy = pysindy_module()
        axes = [*grid.axes.values(), data.times]
        with global_seed(self.seed):
            return pysindy.WeakPDELibrary(
                function_library=pysindy.PolynomialLibrary(degree=1, include_bias=False),
                derivative_order=_ORDER,
                spatiotemporal_grid=np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1),
                include_bias=False,
                include_interaction=False,
                K=self.domains_2d,
                H_xt=[float(axis[-1] - axis[0]) / window for axis in axes],
            )
