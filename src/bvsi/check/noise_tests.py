"""Whether the noise is what the model says, from the data alone: high-pass filters leave nothing but noise.

Neighbours along every axis are as alike as the model has it (:mod:`bvsi.noise.correlation`), and the noise of a model
with one level does not grow with the signal. Of incomplete data those filtered values count that no missing value
enters; the variance of the statistic is then at most the one that is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from bvsi.check.residual_tests import ResidualTest
from bvsi.data import Data, Grid
from bvsi.errors import DataError
from bvsi.noise import Noise, SignalNoise, estimate_signal_noise
from bvsi.noise.correlation import neighbour_correlation, whiteness, widths_of
from bvsi.noise.level import observed
from bvsi.residual.blur import Blur

Growth: TypeAlias = Mapping[str, SignalNoise]
"""How noise grows with the signal, by field."""


def noise_tests(
    data: Sequence[Data], noise: Sequence[Noise], *, homoscedastic: bool, growth: Sequence[Growth | None] = ()
) -> tuple[ResidualTest, ...]:
    """Correlation of the noise along every axis, and its dependence on the signal; on grids only.

    Parameters
    ----------
    noise
        The model of each experiment.
    homoscedastic
        Whether the noise model has one level per field, so that dependence on the signal is against it.
    growth
        How the noise of each experiment grows with the signal, by field, where that was measured before.
    """
    tests: list[ResidualTest] = []
    known = growth or [None] * len(data)
    for experiment, model, found in zip(data, noise, known, strict=False):
        if not isinstance(experiment.geometry, Grid):
            continue
        expected = neighbour_correlation(model, experiment)
        for name in experiment.fields:
            for one in whiteness(observed(experiment, name), experiment, expected):
                what = f"noise correlated along {one.axis} ({name})"
                if expected[one.axis] > 0:
                    what = f"noise correlated along {one.axis} otherwise than stated ({name})"
                tests.append(ResidualTest(what, one.correlation, one.z, one.p, "white"))
        if homoscedastic:
            tests += _signal_dependence(experiment, Blur.of(experiment, widths_of(model)), found)
    return tuple(tests)


def _signal_dependence(data: Data, blur: Blur | None, found: Growth | None) -> list[ResidualTest]:
    try:
        found = estimate_signal_noise(data, blur=blur) if found is None else found
    except DataError:
        return []
    sizes = {name: max(one.c, one.b**0.5) for name, one in found.items()}
    return [
        ResidualTest(f"noise grows with the signal ({name})", sizes[name], float("nan"), one.p_value, "signal")
        for name, one in found.items()
    ]
