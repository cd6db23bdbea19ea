"""Noisy fields smoothed in space and time, and draws of what the smoothing leaves unknown.

    min_u  Σ (û − u)²  +  λ_t ‖D_t u‖² + λ_x (‖D_x u‖² + …)      u = V f Vᵀ û,      f = 1/(1 + λ_t μ_t + λ_x Σ μ_x)

D are differences of fourth order, V and μ the eigenvectors and eigenvalues of their squares, axis by axis. Both weights
are those of the lowest generalised cross-validation, n ‖û − u‖²/(n − tr f)². With a Gaussian prior that has the penalty
as its exponent, what is left unknown of u is N(0, σ² V f Vᵀ): its bands hold on average over the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Rng
from bvsi.data.data import Data
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.data.smoothness import along, difference_filter, graph_filter
from bvsi.errors import DataError

_ORDER = 4  # differences: cubic signals are left as they are
_TINY = np.finfo(float).tiny  # where no axis is smoothed
_LONGEST = 4096  # an axis longer than this takes too long to decompose
# log₁₀ λ that are tried, first coarsely, then more finely around the best.
_EXPONENTS = (-4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
_REFINEMENTS = (1.0, 0.5, 0.25)  # steps of log₁₀ λ; a quarter is a factor of 1.8


@dataclass(frozen=True, eq=False)
class Smoother:
    """A smoother of one field.

    Attributes
    ----------
    V
        Eigenvectors (n, n) along each axis, time first.
    f
        The filter, (T, *grid.shape) or (T, n).
    sigma
        Sigma of the noise, from what the smoothing takes away.
    """

    V: tuple[Any, ...]
    f: Array
    sigma: float

    def smooth(self, values: Array) -> Array:
        """u = V f Vᵀ û for û (T, n)."""
        return self._filtered(values, self.f)

    @property
    def left(self) -> float:
        """Part of the variance of white noise that the smoothing leaves."""
        return float(np.mean(self.f * self.f))

    def keeping(self, part: float, values: Array) -> tuple[Array, float]:
        """u + k (û − u) for û (T, n), which has a part of the variance of white noise, and that part.

        It is the mean of (f + k (1 − f))²; where the smoothing itself leaves more k is zero.
        """
        f, left = self.f, 1 - self.f
        a, b, c = float(np.mean(left * left)), float(np.mean(f * left)), self.left - part
        k = (np.sqrt(b * b - a * c) - b) / a if c < 0 < a else 0.0
        return self._filtered(values, f + k * left), max(part, part + c)

    def draw(self, sd: Array | float, rng: Rng) -> Array:
        """A draw of what is left unknown, (T, n), for noise of standard deviation ``sd``, a number or (T, n)."""
        shape = (self.f.shape[0], self.f[0].size)
        return self._filtered(rng.standard_normal(shape) * sd, np.sqrt(self.f))

    def _filtered(self, values: Array, f: Array) -> Array:
        transformed = f * _apply([V.T for V in self.V], values.reshape(f.shape))
        return _apply(self.V, transformed).reshape(values.shape)


def smoothers(data: Data, longest: int | None = None) -> dict[str, Smoother]:
    """One smoother per field; values that were not measured count as they were filled in.

    Parameters
    ----------
    longest
        Axes with more values are cut into parts that are smoothed by themselves, with the same weight, and more nodes
        of meshes are left as they are; without it those with too many to be smoothed are refused.
    """
    mu, V = zip(*_axes(data, longest), strict=True)
    return {name: _smoother(mu, V, values) for name, values in data.fields.items()}


def _axes(data: Data, longest: int | None) -> list[tuple[Array, Any]]:
    """μ (n,) and V (n, n) of DᵀD along each axis, time first."""
    geometry, axis = data.geometry, partial(_decomposed, longest=longest)
    in_time = axis("time", difference_filter(data.times, min(_ORDER, data.n_times - 1)))
    if isinstance(geometry, Mesh):
        once = graph_filter(geometry)
        if longest is not None and geometry.n_nodes > longest:  # neighbours are not next to each other
            n = geometry.n_nodes
            return [in_time, (np.zeros(n), sparse.eye_array(n, format="csr"))]
        return [in_time, axis("node", once @ once)]
    assert isinstance(geometry, Grid)
    orders = {name: min(_ORDER, len(x) - 1) for name, x in geometry.axes.items()}
    in_space = (
        axis(name, difference_filter(x, orders[name], geometry.periods.get(name))) for name, x in geometry.axes.items()
    )
    return [in_time, *in_space]


def _decomposed(name: str, D: Any, longest: int | None) -> tuple[Array, Any]:
    n = int(D.shape[1])
    if longest is not None and n > longest:
        return _by_parts(sparse.csr_array(D), -(-2 * n // longest))
    if n > _LONGEST:
        raise DataError(f"axis {name!r} has {n} values, too many to be smoothed; use every second one.")
    mu, V = np.linalg.eigh((D.T @ D).toarray())
    return np.maximum(mu, 0.0), V


def _by_parts(D: Any, count: int) -> tuple[Array, Any]:
    """μ and V, sparse, of DᵀD without the differences between the parts of an axis."""
    ends = np.linspace(0, D.shape[1], count + 1).astype(int)
    part = np.searchsorted(ends, D.indices, side="right")
    rows = np.diff(D.indptr) > 0
    begin = D.indptr[:-1][rows]
    inside = np.flatnonzero(rows)[np.minimum.reduceat(part, begin) == np.maximum.reduceat(part, begin)]
    pairs = [np.linalg.eigh((own.T @ own).toarray()) for own in (D[inside][:, a:b] for a, b in pairwise(ends))]
    mu, V = (list(one) for one in zip(*pairs, strict=True))
    return np.maximum(np.concatenate(mu), 0.0), sparse.block_diag(V, format="csr")


def _smoother(mu: Sequence[Array], V: tuple[Any, ...], values: Array) -> Smoother:
    shape = tuple(map(len, mu))
    squares = np.square(_apply([one.T for one in V], values.reshape(shape)))
    mu_t = mu[0].reshape(-1, *[1] * (len(shape) - 1))
    mu_x = reduce(np.add.outer, mu[1:], np.zeros(()))[None]

    def filtered(exponents: tuple[float, float]) -> Array:
        return np.asarray(1 / (1 + 10.0 ** exponents[0] * mu_t + 10.0 ** exponents[1] * mu_x))

    def score(exponents: tuple[float, float]) -> float:
        left = 1 - filtered(exponents)
        return float(np.vdot(np.square(left), squares) / max(np.sum(left) ** 2, _TINY))

    best = min(((a, b) for a in _EXPONENTS for b in _EXPONENTS), key=score)
    for step in _REFINEMENTS:
        near = [(best[0] + i * step, best[1] + j * step) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        best = min(near, key=score)
    f = filtered(best)
    left = 1 - f
    return Smoother(V, f, float(np.sqrt(np.sum(np.square(left) * squares) / max(np.sum(left), _TINY))))


def _apply(matrices: Sequence[Any], values: Array) -> Array:
    """Apply one matrix along each axis."""
    return reduce(lambda v, axis: along(matrices[axis], v, axis), range(len(matrices)), values)
