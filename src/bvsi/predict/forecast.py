"""How well an equation, fitted to the first frames, forecasts the others: the record, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from bvsi.common.arrays import Array, Mask
from bvsi.errors import BvsiError

LEVEL = 0.95  # of the bands
# Coverage below which bands are too narrow: noise alone makes it vary less, and correlated errors more.
_COVERED = 0.85
# Spread, as part of the size of the data, beyond which a forecast says little.
_LOST = 0.5
# Error, in units of what noise and spread explain, beyond which the forecast is wrong.
_EXCESS = 1.5


class ForecastError(BvsiError):
    """The equation cannot be simulated from these data; the message says why, and what would help."""


class SimulationError(ForecastError):
    """The equation that was found cannot be simulated: a doubt about the equation itself."""


@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """Simulations from the first frame with draws of coefficients and initial state, against the data. ::

        error = RMS(mean forecast − data)/RMS(data),      spread = RMS(sd of the forecast)/RMS(data)

    RMS(data) is over all times, so that a field that decays does not make errors look large.

    Attributes
    ----------
    times
        (T,).
    held_out
        (T,), frames that the coefficients were not fitted to.
    error, spread
        (T,); spread comes from coefficients and initial state, without the noise of the data.
    noise
        Standard deviation of the noise of the data, relative as well. A perfect forecast has this error.
    coverage
        (T,), share of the data within the 95% band of forecast and noise.
    draws
        Simulations made.
    failed
        Those of them that broke off.
    status
        What it shows, with advice.
    """

    times: Array
    held_out: Mask
    error: Array
    spread: Array
    noise: float
    coverage: Array
    draws: int
    failed: int
    status: str

    @property
    def expected_error(self) -> Array:
        """√(noise² + spread²), (T,): the error that an honest forecast has."""
        return np.sqrt(self.noise**2 + self.spread**2)

    @property
    def failing(self) -> bool:
        """Whether the bands miss the held-out data, or most simulations broke off."""
        return float(np.mean(self.coverage[self.held_out])) < _COVERED or 2 * self.failed > self.draws

    @property
    def text(self) -> str:
        """A short table in time, and what it shows."""
        rows = [f"{'time':>10}  {'error':>8}  {'expected':>8}  {'spread':>8}  {'in 95% band':>11}"]
        held = np.flatnonzero(self.held_out)
        first = int(held[0]) if len(held) else len(self.times) - 1
        shown = np.unique(
            np.linspace(0, first, 4).astype(int).tolist()
            + np.linspace(first, len(self.times) - 1, 4).astype(int).tolist()
        )
        for k in shown:
            mark = "  held out" if self.held_out[k] else ""
            rows.append(
                f"{self.times[k]:>10.4g}  {self.error[k]:>8.2g}  {self.expected_error[k]:>8.2g}  {self.spread[k]:>8.2g}"
                f"  {self.coverage[k]:>11.0%}{mark}"
            )
        failed = f", {self.failed} of them broke off" if self.failed else ""
        return "\n".join([*rows, f"{self.draws} simulations{failed}. {self.status}"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Forecast: {self.draws} simulations of {len(self.times)} times. {self.status}"


def band_variance(variance: Array, noise: Array, draws: int) -> Array:
    """Variance whose normal 95% band is that of a new value: c (1 + 1/m) s² + σ².

    The mean of m draws has an error of its own, and their variance s² is known by m − 1 degrees of freedom:
    c = (t/z)² for the quantiles of Student's t and of the normal distribution.
    """
    tail = 0.5 * (1 + LEVEL)
    c = (stdtrit(draws - 1, tail) / ndtri(tail)) ** 2
    return np.asarray(c * (1 + 1 / draws) * variance + noise)


def half_width(variance: Array) -> Array:
    """Half of the 95% band of a normal variable."""
    return np.asarray(ndtri(0.5 * (1 + LEVEL)) * np.sqrt(variance))


def forecast_status(
    times: Array, held_out: Mask, error: Array, spread: Array, noise: float, coverage: Array, *, failed: float = 0.0
) -> str:
    """What the numbers show, and what to do.

    Parameters
    ----------
    failed
        Share of the simulations that broke off.
    """
    covered = float(np.mean(coverage[held_out]))
    root = float(np.sqrt(np.mean(np.square(error[held_out]))))
    explained = float(np.sqrt(noise**2 + np.mean(np.square(spread[held_out]))))
    numbers = f"{covered:.0%} of the held-out values lie in the 95% band, and the error is {root:.2g} of the data"
    lost = np.flatnonzero(spread > _LOST)
    if failed > 0.5:
        text = f"Most simulations broke off, so that the equation is hardly stable within its uncertainty; {numbers}."
    elif covered < _COVERED and root > _EXCESS * explained:
        wrong = np.flatnonzero(error > _EXCESS * np.sqrt(noise**2 + spread**2))
        text = (
            f"The forecast is wrong from t = {times[wrong[0] if len(wrong) else 0]:.4g} on: only {numbers}, where "
            f"{explained:.2g} is explained. An operator may be missing, or coefficients are biased; see the verdict."
        )
    elif covered < _COVERED:
        text = f"The bands are too narrow: only {numbers}. Data with less noise, or at more times, would show why."
    elif len(lost):
        text = f"The forecast is honest: {numbers}."
    else:
        text = f"The equation forecasts the held-out frames: {numbers}, where {explained:.2g} is expected."
    if len(lost):
        text += (
            f" From t = {times[lost[0]]:.4g} on it says little, since its uncertainty is more than half the size of "
            "the data: chaos, or coefficients or an initial state that are known too poorly."
        )
    return text
