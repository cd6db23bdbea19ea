"""States at which operators are linearised: some or all, with half of the noise.

Covariances of wide test functions are summed over every so many nodes and times:

    Σ_x V_s(x) V_t(x) c_s(x) σ² c_t(x) ≈ Σ_X V_s(X) V_t(X) c_s(X) (σ²/R) c_t(X) R²,      R = Π_a k_a

x: all nodes and times, X: every k_a-th along axis a. Both sides are the trapezoidal rule for one smooth integral: test
functions are splines with knots g nodes apart, so that with m = g/k nodes to a gap the sums agree up to
(2m − 1)^−(p + 1 − order) for the least smooth combinations, 1e-3 for m = 2.5. Residuals y and X come from all data as
before. Only their sensitivity to noise, J_i, is taken at the states at X, whose noise has the variance σ²/R. An
experiment that is sampled finely for its test functions then costs what a coarse one does.

States with half of the noise make Σ right to second order in it:

    Cov(g̃_i(u + ε), g̃_j(u + ε)) = Σ_{k≥1} σ^{2k}/k! g_i^(k) g_j^(k),      g̃ = exp(−½σ²∂²) g, without the bias of noise

Jacobians at the data û = u + ε make it too large on average, σ² g_i^(1) g_j^(1) + σ⁴ g_i^(2) g_j^(2) + …, those at
smooth states, σ² g_i^(1) g_j^(1), too small. At states u + ζ with Var ζ = v, and without the bias that ζ gives them,

    c_i = exp(−½v∂²) g_i^(1)        σ² E[c_i c_j] = σ² Σ_{k≥0} v^k/k! g_i^(k+1) g_j^(k+1)

which for v = σ²/2 agrees in the terms with σ² and σ⁴, for all pairs of operators at once, and is short of the next by
σ⁶/24 g_i^(3) g_j^(3): for cubes at 100% noise by 5%. Σ stays a product C Σ_u Cᵀ, and so positive. The smooth states are
those of :mod:`bvsi.data.denoise`, and averages over a gap where states are thinned. Those of the residuals, û − ε̂, do
not serve: ε̂ has as small a part of the noise as there are residuals to a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from bvsi.common.arrays import Array, Integers
from bvsi.data import Data, Grid
from bvsi.data._arrays import slabs
from bvsi.linalg.kronecker import along_axes
from bvsi.residual.discrete import State
from bvsi.residual.stencils import Stencil, TemporalTests, evenly_spaced
from bvsi.spaces import SplineTests, is_uniform
from bvsi.spaces.nodal_derivatives import DEGREE, derivative_matrix
from bvsi.spaces.spline_tests import axis_gap


@dataclass(frozen=True)
class Thinning:
    """When and how far covariances are thinned.

    Parameters
    ----------
    values
        Values of the data below which sums over all of them are quick enough; not measured.
    nodes
        Nodes and times that a gap between knots keeps at least: on porous-medium data of 100² × 64 values estimates
        moved by 4e-4 standard deviations and χ²/n by 3e-4 with 2.0.
    """

    values: float = 5e5
    nodes: float = 1.9


THINNING = Thinning()


@dataclass(frozen=True, eq=False)
class ThinAxis:
    """Every k-th of n points of an axis, the first one and how many there are.

    Attributes
    ----------
    reach
        Points on either side over which a state is averaged.
    first
        The first point.
    """

    n: int
    every: int
    periodic: bool
    reach: float
    first: int

    @staticmethod
    def of(n: int, gap: float, *, periodic: bool, nodes: float) -> ThinAxis:
        """As few points as a gap of so many needs, centred; on a periodic axis they divide it."""
        most = max(1, int(gap / nodes + 1e-9))
        if periodic:
            most = max(k for k in range(1, most + 1) if n % k == 0)
        return ThinAxis(n, most, periodic, gap, 0 if periodic else (n - 1) % most // 2)

    @property
    def chosen(self) -> slice:
        """The points."""
        return slice(self.first, None, self.every)

    @property
    def at(self) -> Integers:
        """The points, by number."""
        return np.arange(self.n)[self.chosen]

    @cached_property
    def averages(self) -> Array:
        """Smooth states at the points from all values, (points × n)."""
        smooth = derivative_matrix(self.n, 1.0, 0, self.reach, periodic=self.periodic)
        return np.asarray(smooth.tocsr()[self.at].toarray())

    @cached_property
    def cells(self) -> Array:
        """Means over the k values around every point, (points × n); fewer at the ends of a bounded axis."""
        near = self.at[:, None] + np.arange(self.every) - (self.every - 1) // 2
        there = np.ones(near.shape, dtype=bool) if self.periodic else (near >= 0) & (near < self.n)
        means = np.zeros((len(near), self.n))
        rows = np.broadcast_to(np.arange(len(near))[:, None], near.shape)
        means[rows[there], near[there] % self.n] = 1.0
        return np.asarray(means / means.sum(axis=1, keepdims=True))

    @property
    def gain(self) -> float:
        """Variance of an average over that of a value, away from the ends."""
        return float(np.sum(self.averages[len(self.averages) // 2] ** 2))

    @cached_property
    def between(self) -> Array:
        """All values from those at the points, by cubic splines, (n × points)."""
        from scipy.interpolate import CubicSpline

        at, every = self.at, np.arange(self.n)
        if self.periodic:
            values = np.eye(len(at))
            spline = CubicSpline(np.append(at, self.n), np.vstack([values, values[:1]]), bc_type="periodic")
        else:
            spline = CubicSpline(at, np.eye(len(at)))
        return np.asarray(spline(every))


@dataclass(frozen=True, eq=False)
class Thinned:
    """The points of a uniform grid and the times that carry the sensitivity of an experiment.

    Attributes
    ----------
    grid
        The grid of these nodes.
    time, axes
        How each axis is thinned.
    """

    grid: Grid
    time: ThinAxis
    axes: tuple[ThinAxis, ...]

    @staticmethod
    def of(data: Data, tests: object, stencil: Stencil, degree: int, rules: Thinning) -> Thinned | None:
        """Where data are many and test functions wide; None elsewhere."""
        grid, times = data.geometry, data.times
        splines = isinstance(tests, SplineTests) and isinstance(stencil, TemporalTests)
        if not splines or not isinstance(grid, Grid) or not is_uniform(grid) or not evenly_spaced(times):
            return None
        if data.measured is not None or len(data.fields) * data.n_nodes * len(times) < rules.values:
            return None
        if min(len(times), *grid.shape) <= DEGREE:
            return None
        assert isinstance(tests, SplineTests)
        assert isinstance(stencil, TemporalTests)
        if tests.ends or stencil.ends:  # sums over some of the points do not see narrow functions at the ends
            return None
        gap = stencil.splines(times).gap / float(np.median(np.diff(times)))
        time = ThinAxis.of(len(times), gap, periodic=False, nodes=rules.nodes)
        time = replace(time, first=stencil.first(times, time.every))  # that of a part is as in the whole
        axes = tuple(
            ThinAxis.of(n, axis_gap(grid, a, tests.gap_of(a), degree), periodic=a in grid.periods, nodes=rules.nodes)
            for a, n in zip(grid.names, grid.shape, strict=True)
        )
        if time.every * math.prod(axis.every for axis in axes) == 1:
            return None
        few = {name: x[own.chosen] for (name, x), own in zip(grid.axes.items(), axes, strict=True)}
        return Thinned(grid.on(few), time, axes)

    def __str__(self) -> str:
        nodes, times = self.grid.n_nodes, len(self.time.at)
        return f"covariance from {nodes} of {self.n_nodes} nodes and {times} of {self.time.n} times"

    @property
    def share(self) -> float:
        """1/R: variance of the noise at the points over that of the data."""
        return 1.0 / (self.time.every * math.prod(axis.every for axis in self.axes))

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the data."""
        return math.prod(axis.n for axis in self.axes)

    @cached_property
    def nodes(self) -> NDArray[np.bool_]:
        """Which nodes, (nodes,)."""
        kept = np.zeros([axis.n for axis in self.axes], dtype=bool)
        kept[tuple(axis.chosen for axis in self.axes)] = True
        return kept.ravel()

    def means(self, values: Array) -> Array:
        """Means of values (fields · n, m), such as variances, over the nodes around a point, (fields · points, m)."""
        by_field = values.reshape(-1, self.n_nodes, values.shape[1])
        cells = [axis.cells for axis in self.axes]
        return np.concatenate([along_axes(cells, own, 1, own.shape[1]).reshape(-1, own.shape[1]) for own in by_field])

    def state(self, state: State, gain: Mapping[str, float] = MappingProxyType({})) -> State:
        """Averages of the fields at the points, with half of their noise; known quantities as they are there.

        Parameters
        ----------
        gain
            Size of one count, by field; as in :func:`half_noisy`.
        """
        fields = {name: self._averaged(u) + HALF * gain.get(name, 0.0) for name, u in state.fields.items()}
        known = {name: self._known(values) for name, values in state.auxiliary.items()}
        noise = {name: max(HALF, self._left) * self._known(v) for name, v in state.variance.items()}
        return replace(state, times=state.times[self.time.chosen], fields=fields, auxiliary=known, variance=noise)

    @cached_property
    def _left(self) -> float:
        """Part of the variance of the noise that averages have."""
        return math.prod(axis.gain for axis in (self.time, *self.axes))

    def _averaged(self, values: Array) -> Array:
        """For values (n, T), (points, times): averages, and as much of the noise as states keep."""
        matrices = [axis.averages for axis in self.axes]
        some = np.empty((values.shape[1], math.prod(map(len, matrices))))
        for times in slabs(values.T):
            own = values.T[times]
            some[times] = along_axes(matrices, own, len(own), 1).reshape(len(own), -1)
        smooth = (self.time.averages @ some).T
        kept = math.sqrt(max(0.0, HALF - self._left) / (1 - self._left))
        return smooth + kept * (self._known(values) - smooth)

    def _known(self, values: Array) -> Array:
        """Values (n or 1, T or 1) at the points."""
        some = values[:, self.time.chosen] if values.shape[1] > 1 else values
        return some[self.nodes] if len(some) > 1 else some

    def everywhere(self, values: Array, times: slice | Integers) -> Array:
        """Values (points, times) of a smooth function at all nodes and some times of the data, (n, K)."""
        some = np.asarray(values @ self.time.between[times].T)
        return along_axes([axis.between for axis in self.axes], some, 1, some.shape[1]).reshape(-1, some.shape[1])


HALF = 0.5  # part of the variance of the noise that states keep, see above


def half_noisy(state: State, data: Data, gain: Mapping[str, float] = MappingProxyType({})) -> State:
    """The fields of a state (n, T) with half of the variance of their noise, and that variance.

    Counts are skewed, κ₃ = b σ², which adds ½ κ₃ (g_i' g_j'' + g_i'' g_j') to Cov(g̃_i, g̃_j): to this order that is what
    Jacobians have half a count higher, σ² g_i'(u + b/2) g_j'(u + b/2). For u² from 5 counts it is 20%.

    Parameters
    ----------
    data
        Where and when its values are, on the nodes of the space.
    gain
        Size b of one count, by field.
    """
    fields, variance = dict(state.fields), dict(state.variance)
    for name, smoother in data.smoothers.items():
        values, kept = smoother.keeping(HALF, state.fields[name].T)
        fields[name], variance[name] = values.T + HALF * gain.get(name, 0.0), kept * state.variance[name]
    return replace(state, fields=fields, variance=variance)
