"""Plain weak-form least squares in NumPy, without selection: the least that any implementation in Python costs.

    ∫ φ_q u_t = Σ_i θ_i ∫ φ_q ∂^α_i f_i(u)        →        −Σ φ_q′ u = Σ_i θ_i (−1)^|α_i| Σ ∂^α_i φ_q f̃_i(û)

Test functions are products of bumps (1 − s²)^p, one per axis, around query points; sums over the nodes go axis by axis,
the time first. f̃ is f without the bias of noise. The widths follow the spectrum of the data: the standard deviation of
a bump's spectrum, √(2p + 3)/r for half a width r, is the part ``sharpness`` of the wave number below which 99% of the
variance along an axis lies. No noise model, no weights, no selection and no error bars.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from bvsi.data import Data, Grid
from bvsi.studies.benchmarks.scale.cases import ScaleCase, Terms
from bvsi.studies.benchmarks.scale.terms import Integrand, MultiIndex

Array = NDArray[np.float64]

# Power of the bumps: derivatives of up to six are continuous. Not measured.
POWER = 8


@dataclass(frozen=True)
class Bumps:
    """Settings of the test functions.

    Parameters
    ----------
    sharpness
        Width of a bump's spectrum in parts of that of the data.
    queries
        Query points in half a width.
    """

    sharpness: float = 0.7
    queries: float = 4.0


def coefficients(
    case: ScaleCase,
    data: Data,
    terms: Terms | None = None,
    bumps: Bumps = Bumps(),
) -> dict[str, float]:
    """θ of all terms, by the names of the library; by default of the true ones."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    values = {name: data.grid_field(name) for name in (*data.fields, *data.auxiliary)}
    axes = [data.times, *(grid.axes[name] for name in grid.names)]
    periods = [None, *(grid.periods.get(name) for name in grid.names)]
    radii = [_radius(values, list(data.fields), a, axis, bumps) for a, axis in enumerate(axes)]
    rows = [
        _AxisRows.of(axis, radius, bumps.queries, period)
        for axis, radius, period in zip(axes, radii, periods, strict=True)
    ]
    variance = {name: _noise_variance(values[name]) for name in data.fields}
    contracted: dict[tuple[Integrand, int], Array] = {}

    def tested(function: Integrand, order: int, derivative: MultiIndex) -> Array:
        """(−1)^|α| Σ ∂^α φ_q f̃ at all query points."""
        if (function, order) not in contracted:
            f = np.broadcast_to(function.unbiased(values, variance), data.grid_field(next(iter(data.fields))).shape)
            contracted[function, order] = np.tensordot(rows[0].derivative(order), f, axes=(1, 0))
        result = contracted[function, order]
        for a, m in enumerate(derivative, start=1):
            result = np.moveaxis(np.tensordot(rows[a].derivative(m), result, axes=(1, a)), 0, a)
        return np.asarray((-1) ** (order + sum(derivative)) * result.ravel())

    found: dict[str, float] = {}
    alone, zero = len(case.truth) == 1, (0,) * grid.dim
    for equation, own in (terms or case.truth).items():
        y = tested(Integrand(((equation, 1),)), case.time_order, zero)
        X = np.stack([tested(term.function, 0, term.derivative) for term in own], axis=1)
        scale = np.linalg.norm(X, axis=0)
        theta = np.linalg.lstsq(X / scale, y, rcond=None)[0] / scale
        names = (term.text if alone else f"{equation}: {term.text}" for term in own)
        found |= dict(zip(names, theta.tolist(), strict=True))
    return found


@dataclass(frozen=True, eq=False)
class _AxisRows:
    """Test functions along one axis: s (q, n) is the place of the nodes in units of half a width r."""

    s: Array
    radius: float
    spacing: float

    @staticmethod
    def of(axis: Array, radius: float, queries: float, period: float | None) -> _AxisRows:
        """Around query points, those at the ends as far inside as they are wide; anywhere on a periodic axis."""
        spacing = float(axis[1] - axis[0])
        if period is None:
            radius = min(radius, 0.25 * float(axis[-1] - axis[0]))
            count = max(1, int((axis[-1] - axis[0] - 2 * radius) / radius * queries) + 1)
            centres = np.linspace(axis[0] + radius, axis[-1] - radius, count)
            distance = axis - centres[:, None]
        else:
            radius = min(radius, 0.25 * period)
            count = round(period / radius * queries)
            centres = axis[0] + period * np.arange(count) / count
            distance = (axis - centres[:, None] + 0.5 * period) % period - 0.5 * period
        return _AxisRows(distance / radius, radius, spacing)

    def derivative(self, m: int) -> Array:
        """The m-th derivative of (1 − s²)^p at the nodes, times their spacing, (q, n)."""
        bump = (Polynomial([1, 0, -1]) ** POWER).deriv(m) if m else Polynomial([1, 0, -1]) ** POWER
        return np.where(np.abs(self.s) < 1, bump(self.s), 0.0) * (self.spacing / self.radius**m)


def _radius(values: Mapping[str, Array], fields: Sequence[str], axis: int, nodes: Array, bumps: Bumps) -> float:
    """Half a width of the test functions along one axis, at least four spacings."""
    n, spacing = len(nodes), float(nodes[1] - nodes[0])
    power = np.zeros(n // 2 + 1)
    for name in fields:
        u = np.moveaxis(values[name], axis, -1)
        lines = u.reshape(-1, n)[:: max(1, u.size // n // 2000)]  # two thousand lines are as good as all
        lines = lines - lines.mean(axis=1, keepdims=True)
        power += np.mean(np.abs(np.fft.rfft(lines * np.hanning(n), axis=1)) ** 2, axis=0)
    share = np.cumsum(power) / np.sum(power)
    corner = 2 * np.pi * max(1, int(np.searchsorted(share, 0.99))) / (n * spacing)
    return max(4 * spacing, math.sqrt(2 * POWER + 3) / (bumps.sharpness * corner))


def _noise_variance(values: Array) -> float:
    """Of white noise, from sixth differences in time: Σ_k (6 over k)² = 924."""
    return float(np.mean(np.diff(values[: min(len(values), 40)], n=6, axis=0) ** 2) / 924)
