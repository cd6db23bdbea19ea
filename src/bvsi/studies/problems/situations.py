"""Situations of laboratories and roads, simulated with the noise of their instruments: FRAP, traffic, a video.

Solutions are exact in time where the equation is linear (modes in space), else of fourth order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.fft import dctn, idctn
from scipy.integrate import solve_ivp

from bvsi.common.arrays import Array, Rng
from bvsi.data import Data, Grid
from bvsi.operators import Library, NoFlux


@dataclass(frozen=True, eq=False)
class Situation:
    """What an instrument saw, and what it should find.

    Attributes
    ----------
    clean
        The fields without noise, in the units of ``data``.
    units
        Of fields, coordinates and time.
    """

    data: Data
    clean: Data
    library: Library
    truth: Mapping[str, float]
    units: Mapping[str, str]


def frap(rng: Rng) -> Situation:
    """Fluorescence after a disc was bleached, 20 × 20 µm, 40 frames of photons: c_t = D ∇²c − k c, no flux."""
    n, D, k, photons = 48, rng.uniform(0.8, 2.0), rng.uniform(0.01, 0.03), 400.0
    x, t = 20 * (np.arange(n) + 0.5) / n, np.linspace(0, 8, 40)
    centre, radius = rng.uniform(8, 12, 2), rng.uniform(2.5, 4)
    distance = np.hypot(x[:, None] - centre[0], x - centre[1])
    start = 1 - 0.4 * (1 - np.tanh((distance - radius) / 0.8))
    waves = (np.pi * np.arange(n) / 20) ** 2
    decay = np.exp(-(D * (waves[:, None] + waves) + k) * t[:, None, None])
    mean = photons * idctn(dctn(start) * decay, axes=(1, 2))
    grid, library = Grid(x=x, y=x), Library({"c": ["laplacian(c)", "c", "c**2", "dx(c)", "dy(c)"]}, boundary=NoFlux())
    counts = rng.poisson(mean).astype(float)
    return _situation("c", counts, mean, t, grid, library, {"laplacian(c)": D, "c": -k}, {"c": "count"}, "µm", "s")


def traffic(rng: Rng) -> Situation:
    """Vehicles per km on a ring road of 12 km, 96 loops, every 6 s: ρ_t = −(v ρ − v ρ²/ρ_m)_x + D ρ_xx; 2% noise."""
    n, length, v, most, D = 96, 12.0, rng.uniform(1.2, 1.8), rng.uniform(110, 140), rng.uniform(0.04, 0.08)
    x, t = length * np.arange(n) / n, np.linspace(0, 5, 51)
    k = 2 * np.pi / length * np.fft.rfftfreq(n, 1 / n)
    phases = rng.uniform(0, 2 * np.pi, 3)
    start = 40 + sum(
        a * np.cos(2 * np.pi * m * x / length + p) for a, m, p in zip((14, 7, 4), (1, 2, 3), phases, strict=True)
    )

    def rate(_: float, rho: Array) -> Array:
        return np.fft.irfft(-1j * k * v * np.fft.rfft(rho - rho**2 / most) - D * k**2 * np.fft.rfft(rho), n)

    mean = solve_ivp(rate, (0, 5), start, t_eval=t, method="DOP853", rtol=1e-9, atol=1e-9).y.T
    seen = mean * (1 + 0.02 * rng.standard_normal(mean.shape))
    grid = Grid(x=x, periodic={"x": length})
    library = Library({"rho": ["dx(rho)", "rho*dx(rho)", "dx(dx(rho))", "rho", "rho**2*dx(rho)"]})
    truth = {"dx(rho)": -v, "rho*dx(rho)": 2 * v / most, "dx(dx(rho))": D}
    return _situation("rho", seen, mean, t, grid, library, truth, {"rho": "1/km"}, "km", "min")


def video(rng: Rng) -> Situation:
    """Dye in a steady stream, 12-bit film of 48 × 48 pixels: c_t = −a c_x − b c_y + D ∇²c, with read noise."""
    n, t, (a, b), D = 48, np.arange(50.0), rng.uniform(0.1, 0.3, 2), rng.uniform(0.15, 0.3)
    x = np.arange(float(n))
    k = 2 * np.pi * np.fft.fftfreq(n)
    blobs = zip(rng.uniform(0, n, (5, 2)), rng.uniform(3, 5, 5), rng.uniform(0.5, 1, 5), strict=True)
    start = sum(size * _blob(x, p[0], w)[:, None] * _blob(x, p[1], w) for p, w, size in blobs)
    symbol = -1j * (a * k[:, None] + b * k) - D * (k[:, None] ** 2 + k**2)
    moved = np.fft.ifft2(np.fft.fft2(start) * np.exp(symbol * t[:, None, None])).real
    mean = 200 + 2500 * moved
    seen = np.clip(np.rint(mean + 15 * rng.standard_normal(mean.shape)), 0, 4095)
    grid = Grid(x=x, y=x, periodic={"x": float(n), "y": float(n)})
    library = Library({"c": ["dx(c)", "dy(c)", "laplacian(c)", "c", "c**2"]})
    truth = {"dx(c)": -a, "dy(c)": -b, "laplacian(c)": D}
    return _situation("c", seen, mean, t, grid, library, truth, {"c": "1"}, "pixel", "count")


def _blob(x: Array, centre: float, width: float) -> Array:
    """A bump on a ring, infinitely smooth."""
    n = len(x)
    return np.exp((np.cos(2 * np.pi * (x - centre) / n) - 1) * (n / (2 * np.pi * width)) ** 2)


def _situation(
    name: str,
    seen: Array,
    mean: Array,
    times: Array,
    grid: Grid,
    library: Library,
    truth: Mapping[str, float],
    units: Mapping[str, str],
    length: str,
    time: str,
) -> Situation:
    data, clean = (Data.from_arrays({name: values}, times=times, geometry=grid) for values in (seen, mean))
    return Situation(data, clean, library, truth, {**units, **dict.fromkeys(grid.names, length), "t": time})


SITUATIONS = {"frap": frap, "traffic": traffic, "video": video}
"""By name."""
