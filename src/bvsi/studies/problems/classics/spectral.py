"""Fourier solver of semi-linear equations in a periodic box, real or complex, in any dimension.

    ψ_t = L ψ + G g(ψ)      ψ̂_t = Λ(k) ψ̂ + Γ(k) F[g(ψ)]

L and G have constant coefficients, with symbols Λ and Γ; g is a polynomial of ψ and its conjugate. Modes that the
products of g would alias are left out (n/(d + 1) of n are kept at degree d), Λ is exact in time, g of fourth order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.signal import resample

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.studies.problems.etdrk4 import ETDRK4

Array = NDArray[np.float64]
Field = NDArray[Any]
"""Values of ψ or ψ̂, real or complex."""
Symbol = Callable[..., Field]
"""Function of the wave numbers, one argument per coordinate, which broadcast against each other."""

_NAMES = ("x", "y", "z")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Box:
    """The periodic box [left, left + length)^dim."""

    left: float
    length: float
    dim: int = 1

    def axis(self, n: int) -> Array:
        """n equally spaced nodes along one side, (n,)."""
        axis: Array = self.left + self.length / n * np.arange(n, dtype=float)
        return axis

    def points(self, n: int) -> tuple[Array, ...]:
        """Coordinates of n nodes per side, one array per coordinate, which broadcast against each other."""
        return tuple(np.meshgrid(*[self.axis(n)] * self.dim, indexing="ij", sparse=True))

    def grid(self, n: int) -> Grid:
        """The grid of n nodes per side."""
        names = _NAMES[: self.dim]
        axes = dict.fromkeys(names, self.axis(n))
        return Grid(periodic=dict.fromkeys(names, self.length), coordinates="cartesian", **axes)

    def images(self, x: Array, count: int = 3) -> Array:
        """x + j length, |j| ≤ count, (2 count + 1, n): a function that falls off, summed over these, is periodic."""
        return x + self.length * np.arange(-count, count + 1)[:, None]


@dataclass(frozen=True)
class SemiLinear:
    """ψ_t = L ψ + G g(ψ).

    Attributes
    ----------
    linear, outer
        Symbols Λ and Γ.
    nonlinear
        g at the nodes.
    degree
        Degree of g, 2 for u².
    """

    linear: Symbol
    outer: Symbol
    nonlinear: Callable[[Field], Field]
    degree: int

    def solve(self, start: Field, box: Box, times: Array, step: float) -> Field:
        """ψ at the times, (T, *start.shape).

        Parameters
        ----------
        start
            Values at n nodes per side of the box at times[0]; a real start stays real.
        step
            Longest step in time.
        """
        modes = _Modes.of(start, box, self.degree)
        linear, outer = (modes.kept * symbol(*modes.k) for symbol in (self.linear, self.outer))

        def N(c: Field) -> Field:
            return outer * modes.forward(self.nonlinear(modes.backward(c)))

        steppers: dict[float, ETDRK4] = {}
        c = modes.kept * modes.forward(start)
        samples = [modes.backward(c)]
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            for begin, end in pairwise(times):
                count = max(math.ceil((end - begin) / step - _ROUNDING), 1)
                h = float(f"{(end - begin) / count:.12g}")  # so that equal intervals share their weights
                if h not in steppers:
                    steppers[h] = ETDRK4.of(linear, h)
                c = steppers[h].advance(c, count, N)
                samples.append(modes.backward(c))
        if not np.isfinite(samples[-1]).all():
            raise BvsiError(f"step: the solution is not finite at t = {times[-1]:g}; use less than {step:g}.")
        return np.stack(samples)


@dataclass(frozen=True, eq=False)
class _Modes:
    """Transforms of one kind of field: half the modes for real ones, whose symmetry rounding would break slowly.

    Attributes
    ----------
    k
        Wave numbers by coordinate.
    kept
        1 where no product of g aliases, else 0.
    """

    k: tuple[Array, ...]
    kept: Array
    forward: Callable[[Field], Field]
    backward: Callable[[Field], Field]

    @classmethod
    def of(cls, start: Field, box: Box, degree: int) -> _Modes:
        real, shape = not np.iscomplexobj(start), start.shape
        counts = [fft.fftfreq(n, 1 / n) for n in shape]
        if real:
            counts[-1] = fft.rfftfreq(shape[-1], 1 / shape[-1])
        inside = [(np.abs(m) < n / (degree + 1)).astype(float) for m, n in zip(counts, shape, strict=True)]
        kept: Array = math.prod(np.meshgrid(*inside, indexing="ij", sparse=True), start=np.ones(()))
        k = tuple(np.meshgrid(*(2 * np.pi / box.length * m for m in counts), indexing="ij", sparse=True))
        if real:
            return cls(k, kept, fft.rfftn, lambda c: fft.irfftn(c, shape))
        return cls(k, kept, fft.fftn, fft.ifftn)


def sampled(fields: Mapping[str, Array], times: Array, box: Box, nodes: int) -> Data:
    """Data at ``nodes`` nodes per side from values (T, n, …) on the solver's: their Fourier interpolant, exactly."""
    return Data.from_arrays(
        {name: _interpolated(values, nodes) for name, values in fields.items()}, times=times, geometry=box.grid(nodes)
    )


def _interpolated(values: Array, nodes: int) -> Array:
    """Values (T, n, …) at other equally spaced nodes: a finer grid that holds them, then every so many of it."""
    for axis in range(1, values.ndim):
        n = values.shape[axis]
        every = -(-n // nodes)
        if nodes * every != n:
            values = resample(values, nodes * every, axis=axis)
        values = np.moveaxis(np.moveaxis(values, axis, 0)[::every], 0, axis)
    return values
