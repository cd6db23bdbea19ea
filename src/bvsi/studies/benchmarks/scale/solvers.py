"""Accurate noise-free data on periodic boxes with sides of their own, by Fourier series; kept on disk.

sine–Gordon     u_tt = ∇²u − sin u       Strang splitting, the wave equation exactly
vorticity       w_t = ν ∇²w − ∂_x(u w) − ∂_y(v w),   u = ∂_y ψ, v = −∂_x ψ, −∇²ψ = w       ETDRK4
λ–ω             as in ``problems.classics.reaction_diffusion_2d``, with a smaller diffusion
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.signal import resample

from bvsi.data import Data, Grid
from bvsi.studies.problems.cache import cached
from bvsi.studies.problems.classics.spectral import Box, SemiLinear
from bvsi.studies.problems.etdrk4 import ETDRK4

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

DIFFUSION = 0.25
"""Of λ–ω: spiral cores are half as wide as in the classic, so that 256 nodes per side are not too many."""
VISCOSITY = 0.01
"""Of the vorticity."""


@dataclass(frozen=True)
class Sides:
    """The periodic box [0, lengths) with solver nodes by axis."""

    lengths: tuple[float, ...]
    modes: tuple[int, ...]

    @property
    def points(self) -> tuple[Array, ...]:
        """Coordinates of the solver's nodes, which broadcast against each other."""
        axes = [length / n * np.arange(n) for length, n in zip(self.lengths, self.modes, strict=True)]
        return tuple(np.meshgrid(*axes, indexing="ij", sparse=True))

    @property
    def waves(self) -> tuple[Array, ...]:
        """Wave numbers of the modes of real fields."""
        *first, last = zip(self.lengths, self.modes, strict=True)
        k = [2 * np.pi * fft.fftfreq(n, length / n) for length, n in first]
        k.append(2 * np.pi * fft.rfftfreq(last[1], last[0] / last[1]))
        return tuple(np.meshgrid(*k, indexing="ij", sparse=True))

    def grid(self, shape: tuple[int, ...]) -> Grid:
        """So many nodes by axis."""
        names = ("x", "y", "z")[: len(shape)]
        axes = {a: length / n * np.arange(n) for a, length, n in zip(names, self.lengths, shape, strict=True)}
        return Grid(periodic=dict(zip(names, self.lengths, strict=True)), coordinates="cartesian", **axes)


def at_nodes(values: Array, shape: tuple[int, ...]) -> Array:
    """Values (T, *modes) at other equally spaced nodes: their Fourier interpolant, exactly."""
    for axis, nodes in enumerate(shape, start=1):
        n = values.shape[axis]
        every = -(-n // nodes)
        if nodes * every != n:
            values = resample(values, nodes * every, axis=axis)
        values = np.moveaxis(np.moveaxis(values, axis, 0)[::every], 0, axis)
    return np.ascontiguousarray(values)


def _bump(points: tuple[Array, ...], sides: Sides, centre: tuple[float, ...], width: float) -> Array:
    """A periodic bump, e^{−|x − c|²/(2 width²)} near its centre."""
    exponent = sum(
        (length / (2 * np.pi * width)) ** 2 * (np.cos(2 * np.pi * (x - c) / length) - 1)
        for x, c, length in zip(points, centre, sides.lengths, strict=True)
    )
    return np.asarray(np.exp(exponent))


LAMBDA_OMEGA = Box(0.0, 20.0, dim=2)
_LAMBDA_OMEGA_MODES, _LAMBDA_OMEGA_STEP = 192, 0.025


def lambda_omega(shape: tuple[int, ...], times: int) -> Data:
    """ψ_t = D ∇²ψ + (1 − (1 + i)|ψ|²) ψ on [0, 20)², t ∈ [0, 10]; ψ = u + iv."""
    equation = SemiLinear(
        lambda kx, ky: 1 - DIFFUSION * (kx**2 + ky**2),
        lambda kx, ky: -(1 + 1j) + 0 * kx * ky,
        lambda psi: np.abs(psi) ** 2 * psi,
        degree=3,
    )
    t = np.linspace(0, 10, times)

    def make() -> dict[str, Array]:
        x, y = (2 * np.pi / LAMBDA_OMEGA.length * s for s in LAMBDA_OMEGA.points(_LAMBDA_OMEGA_MODES))
        start = np.sin(x) + 0.4 * np.cos(2 * y + 1) + 1j * (np.sin(y) - 0.3 * np.cos(x + y))
        psi = equation.solve(start, LAMBDA_OMEGA, t, _LAMBDA_OMEGA_STEP)
        return {"u": psi.real, "v": psi.imag}

    settings = {"version": 1, "D": DIFFUSION, "modes": _LAMBDA_OMEGA_MODES, "step": _LAMBDA_OMEGA_STEP, "times": times}
    made = cached("scale-lambda-omega", settings, make, keys=["u", "v"])
    sides = Sides((LAMBDA_OMEGA.length,) * 2, (_LAMBDA_OMEGA_MODES,) * 2)
    fields = {name: at_nodes(values, shape) for name, values in made.items()}
    return Data.from_arrays(fields, times=t, geometry=sides.grid(shape))


SINE_GORDON = Sides((20.0, 6.4), (403, 129))
_SINE_GORDON_STEP = 0.004


def sine_gordon(shape: tuple[int, ...], times: int) -> Data:
    """u_tt = ∇²u − sin u on [0, 20) × [0, 6.4), t ∈ [0, 5], from two bumps at rest."""
    t = np.linspace(0, 5, times)

    def make() -> dict[str, Array]:
        points, sides = SINE_GORDON.points, SINE_GORDON
        u = 2 * np.pi * _bump(points, sides, (8.0, 3.0), 0.7) - np.pi * _bump(points, sides, (13.0, 4.0), 0.9)
        k = np.sqrt(sum(w**2 for w in sides.waves))
        count = int(np.ceil((t[1] - t[0]) / _SINE_GORDON_STEP))
        h = (t[1] - t[0]) / count
        cosine, sine = np.cos(k * h), h * np.sinc(k * h / np.pi)
        v, frames = np.zeros_like(u), [u]
        for _ in t[1:]:
            for _ in range(count):
                v = v - 0.5 * h * np.sin(u)
                U, V = fft.rfft2(u), fft.rfft2(v)
                u = fft.irfft2(cosine * U + sine * V, u.shape)
                v = fft.irfft2(cosine * V - k**2 * sine * U, u.shape) - 0.5 * h * np.sin(u)
            frames.append(u)
        return {"u": np.stack(frames)}

    settings = {"version": 1, "modes": SINE_GORDON.modes, "step": _SINE_GORDON_STEP, "times": times}
    u = cached("scale-sine-gordon", settings, make, keys=["u"])["u"]
    return Data.from_arrays({"u": at_nodes(u, shape)}, times=t, geometry=SINE_GORDON.grid(shape))


VORTICITY = Sides((2 * np.pi * 324 / 149, 2 * np.pi), (324, 149))
_VORTICITY_STEP, _LARGEST_START_WAVE = 0.025, 4.0


def vorticity(shape: tuple[int, ...], times: int) -> Data:
    """Decaying vortices on [0, 13.7) × [0, 2π), t ∈ [0, 10]; the velocities are known fields without noise."""
    t = np.linspace(0, 10, times)
    kx, ky = VORTICITY.waves
    k2 = kx**2 + ky**2
    inverse = np.divide(1.0, k2, out=np.zeros_like(k2), where=k2 > 0)
    kept = (np.abs(kx) < 2 / 3 * np.abs(kx).max()) & (ky < 2 / 3 * ky.max())

    def velocities(c: Complex) -> tuple[Array, Array]:
        stream = inverse * c
        u, v = (fft.irfft2(w, VORTICITY.modes, axes=(-2, -1)) for w in (1j * ky * stream, -1j * kx * stream))
        return u, v

    def N(c: Complex) -> Complex:
        w, (u, v) = fft.irfft2(c, VORTICITY.modes), velocities(c)
        return np.asarray(kept * (-1j * kx * fft.rfft2(u * w) - 1j * ky * fft.rfft2(v * w)))

    def make() -> dict[str, Array]:
        rng = np.random.default_rng(0)
        c = fft.rfft2(rng.standard_normal(VORTICITY.modes)) * ((k2 > 0) & (k2 <= _LARGEST_START_WAVE**2))
        w = fft.irfft2(c, VORTICITY.modes)
        c = c * (1.5 / np.sqrt(np.mean(w**2)))
        count = int(np.ceil((t[1] - t[0]) / _VORTICITY_STEP))
        step = ETDRK4.of(-VISCOSITY * k2, (t[1] - t[0]) / count)
        waves = [c]
        for _ in t[1:]:
            waves.append(step.advance(waves[-1], count, N))
        return {"w": fft.irfft2(np.stack(waves), VORTICITY.modes, axes=(1, 2))}

    settings = {"version": 1, "nu": VISCOSITY, "modes": VORTICITY.modes, "step": _VORTICITY_STEP, "times": times}
    w = cached("scale-vorticity", settings, make, keys=["w"])["w"]
    known = dict(zip("uv", velocities(fft.rfft2(w, axes=(1, 2))), strict=True))
    return Data.from_arrays(
        {"w": at_nodes(w, shape)},
        times=t,
        geometry=VORTICITY.grid(shape),
        auxiliary={name: at_nodes(values, shape) for name, values in known.items()},
    )
