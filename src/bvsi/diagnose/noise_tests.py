"""Whether the noise is what the model says, from the data alone: high-pass filters leave nothing but noise.

    f = (D_t^q ⊗ D_x^p …) û,      c = mean sign(f_i) sign(f_{i+1})

White noise has a known correlation of neighbours after a filter, whatever its size; c is compared with that of draws.
Signs make it blind to a few places where signal is left, and to noise whose size varies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from bvsi.data import Data, Grid, estimate_signal_noise
from bvsi.data.noise_level import along, difference_filter
from bvsi.diagnose.residual_tests import ResidualTest
from bvsi.errors import DataError

Array = NDArray[np.float64]
Rng = np.random.Generator

_ORDER = 6
_DRAWS = 20
# Values that are enough; of more data the first frames are used.
_MOST = 60_000
# Share of filtered values that are zero beyond which a field is constant or rounded.
_ZEROS = 0.01
_FEWEST = 500

WHITE = "noise correlated along"
SIGNAL = "noise grows with the signal"


def noise_tests(data: Sequence[Data], *, homoscedastic: bool, rng: Rng) -> tuple[ResidualTest, ...]:
    """Correlation of the noise along every axis, and its dependence on the signal; complete data on grids only.

    homoscedastic: whether the noise model has one level per field, so that dependence on the signal is against it.
    """
    tests: list[ResidualTest] = []
    for experiment in data:
        if not isinstance(experiment.geometry, Grid) or experiment.measured is not None:
            continue
        for name, values in experiment.fields.items():
            tests += _whiteness(np.asarray(values), experiment, name, rng)
        if homoscedastic:
            tests += _signal_dependence(experiment)
    return tuple(tests)


def _whiteness(values: Array, data: Data, name: str, rng: Rng) -> list[ResidualTest]:
    """One test per axis."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    frames = max(4 * _ORDER, _MOST // grid.n_nodes)
    cube = values[:frames].reshape(-1, *grid.shape)
    coordinates = [data.times[: len(cube)], *grid.axes.values()]
    periods = [None, *(grid.periods.get(axis) for axis in grid.names)]
    filters = [
        difference_filter(x, min(_ORDER, (len(x) - 1) // 2), period)
        for x, period in zip(coordinates, periods, strict=True)
    ]  # fmt: skip

    def filtered(u: Array, but: int) -> Array:
        for axis, K in enumerate(filters):
            u = u if axis == but else along(K, u, axis)
        return u

    def correlations(u: Array) -> Array:
        """Of signs of neighbours along each axis, the signal being taken off along the others."""
        signs = [np.moveaxis(np.sign(filtered(u, axis)), axis, 0) for axis in range(u.ndim)]
        return np.array([np.mean(one[1:] * one[:-1]) for one in signs])

    if cube.size < _FEWEST or any(np.mean(filtered(cube, axis) == 0) > _ZEROS for axis in range(cube.ndim)):
        return []
    own = correlations(cube)
    draws = np.array([correlations(rng.standard_normal(cube.shape)) for _ in range(_DRAWS)])
    spread = draws.std(axis=0, ddof=1) * np.sqrt(1 + 1 / _DRAWS)
    z = (own - draws.mean(axis=0)) / spread
    p = 2 * stdtr(_DRAWS - 1, -np.abs(z))
    return [
        ResidualTest(f"{WHITE} {axis} ({name})", float(c), float(s), float(q))
        for axis, c, s, q in zip(("time", *grid.names), own, z, p, strict=True)
    ]  # fmt: skip


def _signal_dependence(data: Data) -> list[ResidualTest]:
    try:
        found = estimate_signal_noise(data)
    except DataError:
        return []
    return [ResidualTest(f"{SIGNAL} ({name})", one.b, float("nan"), one.p_value) for name, one in found.items()]
