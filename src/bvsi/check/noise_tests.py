"""Whether the noise is what the model says, from the data alone: high-pass filters leave nothing but noise.

    f = (D_t^q ⊗ D_x^p …) û,      c = mean sign(f_i) sign(f_{i+1}),      z = c / sd(c)

The filter leaves out the axis along which neighbours are compared, so that c has mean zero where the noise is white,
whatever its size; the variance is known as well (:func:`_variance`). Signs make c blind to a few places where signal
is left, and to noise whose size varies. Of incomplete data those f count that no missing value enters; the variance of
c is then at most the one that is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, stdtr

from bvsi.check.residual_tests import ResidualTest
from bvsi.data import Data, Grid
from bvsi.data.smoothness import along, difference_filter
from bvsi.errors import DataError
from bvsi.noise import SignalNoise, estimate_signal_noise
from bvsi.noise.level import observed

Array = NDArray[np.float64]
Growth: TypeAlias = Mapping[str, SignalNoise]
"""How noise grows with the signal, by field."""

# Order of the differences along the other axes: they leave little of signals that five steps resolve; not measured.
_ORDER = 6
# Degrees of freedom of Student's t for z: signal that is left makes the tails of z heavier than those of a normal.
_FREEDOM = 19
# Powers of correlations, and rows of a filter they are taken from.
_POWERS = 100
_ROWS = 2000  # rows of a filter are alike but for its ends
# Values that are enough; of more data the first frames are used, and of large ones the middle.
_MOST, _LARGEST = 60_000, 1_000_000
# Share of filtered values that are zero beyond which a field is constant or rounded.
_ZEROS = 0.01
# Values below which no test is made: the sum of signs is not yet normal; not measured.
_FEWEST = 500


def noise_tests(
    data: Sequence[Data], *, homoscedastic: bool, growth: Sequence[Growth | None] = ()
) -> tuple[ResidualTest, ...]:
    """Correlation of the noise along every axis, and its dependence on the signal; on grids only.

    Parameters
    ----------
    homoscedastic
        Whether the noise model has one level per field, so that dependence on the signal is against it.
    growth
        How the noise of each experiment grows with the signal, by field, where that was measured before.
    """
    tests: list[ResidualTest] = []
    known = growth or [None] * len(data)
    for experiment, found in zip(data, known, strict=True):
        if not isinstance(experiment.geometry, Grid):
            continue
        for name in experiment.fields:
            tests += _whiteness(observed(experiment, name), experiment, name)
        if homoscedastic:
            tests += _signal_dependence(experiment, found)
    return tuple(tests)


def _whiteness(values: Array, data: Data, name: str) -> list[ResidualTest]:
    """One test per axis."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    frames = min(len(values), max(4 * _ORDER, _MOST // grid.n_nodes))
    kept = _middle(grid.shape, _LARGEST // frames)
    cube = values[:frames].reshape(-1, *grid.shape)[(slice(None), *kept)]
    if cube.size < _FEWEST or not grid.dim:  # in a series no other axis takes off the signal; the misfit tells instead
        return []
    coordinates = [data.times[:frames], *(x[part] for x, part in zip(grid.axes.values(), kept, strict=True))]
    periods = [None, *(grid.periods.get(axis) for axis in grid.names)]
    filters = [
        difference_filter(x, min(_ORDER, (len(x) - 1) // 2), period if len(x) == n else None)
        for x, period, n in zip(coordinates, periods, (frames, *grid.shape), strict=True)
    ]  # fmt: skip
    tests = []
    for axis, label in enumerate(("time", *grid.names)):
        # neighbours along an axis are compared, the signal being taken off along the others
        others = [(other, K) for other, K in enumerate(filters) if other != axis]
        signs = np.moveaxis(np.sign(reduce(lambda u, one: along(one[1], u, one[0]), others, cube)), axis, 0)
        alike = signs[1:] * signs[:-1]
        alike = alike[np.isfinite(alike)]
        if alike.size < _FEWEST:
            continue
        if np.mean(alike == 0) > _ZEROS:
            return []
        correlation = float(np.mean(alike))
        z = correlation / np.sqrt(_variance([K for _, K in others]) / alike.size)
        p = 2 * stdtr(_FREEDOM, -abs(z))
        tests.append(ResidualTest(f"noise correlated along {label} ({name})", correlation, float(z), float(p), "white"))
    return tests


def _middle(shape: tuple[int, ...], most: int) -> tuple[slice, ...]:
    """The middle of a grid, of about so many nodes at most."""
    share = min(1.0, (most / float(np.prod(shape))) ** (1 / max(len(shape), 1)))
    sizes = [min(n, max(4 * _ORDER, int(n * share))) for n in shape]
    return tuple(slice((n - size) // 2, (n - size) // 2 + size) for n, size in zip(shape, sizes, strict=True))


def _variance(filters: Sequence[Any]) -> float:
    """n · Var(c) for white noise, the mean over values j of Σ_j' ((2/π) asin ρ_jj')², ρ = Π_a K_a K_aᵀ of the filters.

    With the series asin² x = ½ Σ_k (2x)^2k / (k² (2k over k)) the sum over j' becomes a product over axes.
    """
    k = np.arange(1, _POWERS + 1)
    weight = (
        (2 / np.pi) ** 2 * 0.5 * np.exp(2 * k * np.log(2) - 2 * np.log(k) - gammaln(2 * k + 1) + 2 * gammaln(k + 1))
    )
    sums = np.ones(len(k))
    for K in filters:
        rows = K[:: max(1, K.shape[0] // _ROWS)]
        squares = np.minimum((rows @ K.T).data ** 2, 1.0)
        powers = np.cumprod(np.broadcast_to(squares, (_POWERS, len(squares))), axis=0)
        sums *= powers.sum(axis=1) / rows.shape[0]
    # of the value itself, ρ = 1, the whole series is known
    return 1.0 + float(weight @ (sums - 1.0))


def _signal_dependence(data: Data, found: Growth | None) -> list[ResidualTest]:
    try:
        found = estimate_signal_noise(data) if found is None else found
    except DataError:
        return []
    return [
        ResidualTest(f"noise grows with the signal ({name})", one.b, float("nan"), one.p_value, "signal")
        for name, one in found.items()
    ]
