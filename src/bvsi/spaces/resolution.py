"""How finely a field on any nodes varies: the coarsest splines that explain it up to its noise.

    min_c ‖û_j − A_g c‖²      unexplained(g) = (RSS/(n − tr H_g) − σ²)/(Var(û) − σ²)

A_g: cubic splines at the nodes with knots g spacings apart, (n × m); H_g: their projection. The gap at which one part
in a hundred is left unexplained is a property of the field and not of the nodes: with 1134, 600 and 300 nodes for bumps
of width 0.1 it was 0.21, 0.22 and 0.21.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from bvsi.spaces.bsplines import UniformSplines, tensor_splines
from bvsi.spaces.domain import Domain

Array = NDArray[np.float64]

# Part of the signal's energy that may be left unexplained.
_UNEXPLAINED = 0.01
# Part of the noise's variance that may be left too: its level is known so well at best.
_LEVEL = 0.1
# Steps from one gap to the next, and the narrowest gap: splines with narrower ones interpolate the noise.
_STEP, _NARROWEST = 0.9, 1.4
# Ridge relative to the largest diagonal entry, for splines that no node sees.
_RIDGE = 1e-6
# Splines up to which degrees of freedom are a trace, and share of the nodes that they may take.
_TRACED, _MOST = 1_500, 0.8
# Frames that are looked at; more of them only sharpen the estimate.
_FRAMES = 20


def resolved_gap(domain: Domain, values: Array, sigma: float) -> float:
    """The widest gap in spacings whose splines explain values (T, n); where there is none, the narrowest."""
    some = values[:: max(1, len(values) // _FRAMES)]
    signal = float(np.mean((some - some.mean(axis=1, keepdims=True)) ** 2)) - sigma**2
    extent = np.ptp(domain.points, axis=0) / domain.spacing
    gap = float(extent.max()) / 2
    while gap > _NARROWEST:
        if signal <= 0 or _unexplained(domain, some, sigma, gap) <= _UNEXPLAINED * signal + _LEVEL * sigma**2:
            return gap
        gap *= _STEP
    return _NARROWEST


def _unexplained(domain: Domain, values: Array, sigma: float, gap: float) -> float:
    """Variance beyond the noise that splines leave."""
    A = _splines_at(domain.points, gap * domain.spacing)
    gram = sparse.csc_array(A.T @ A)
    ridge = _RIDGE * float(gram.diagonal().max())
    factor = scipy.sparse.linalg.splu((gram + ridge * sparse.eye_array(gram.shape[0], format="csc")).tocsc())
    left = values.T - A @ factor.solve(np.asarray(A.T @ values.T))
    n, m = A.shape
    # the trace takes m solves; beyond, every spline that some node sees is counted
    freedom = np.trace(factor.solve(gram.toarray())) if m <= _TRACED else np.count_nonzero(gram.diagonal())
    if freedom > _MOST * n:
        return float("inf")
    return float(np.mean(left**2) * n / (n - freedom) - sigma**2)


def _splines_at(points: Array, gaps: Array, degree: int = 3) -> sparse.csr_array:
    """Cubic tensor splines over the bounding box at points, (n × m)."""
    axes = []
    for x, gap in zip(points.T, gaps, strict=True):
        pieces = max(1, round(float(np.ptp(x) / gap)))
        own = float(np.ptp(x)) / pieces
        axes.append(
            UniformSplines(float(x.min()) - degree * own, (pieces + 2 * degree) * own, pieces + 2 * degree, degree)
        )
    return tensor_splines(axes, points, (0,) * len(axes))
