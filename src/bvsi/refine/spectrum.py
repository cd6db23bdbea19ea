"""How rough the initial state is: the law of its modes that makes the measurements most likely.

    −2 log p(û | law) = −bᵀC⁻¹b + log|C| − Σ log p_i + Σ ((law − usual)/wide)²,     C = K + diag(p),     ẑ = C⁻¹b

around a state z, with K = GᵀWG and b = GᵀWr + Kz from the derivatives G of all values by z, and p(law) as in
:mod:`bvsi.refine.measurements`. Where all nodes are measured p = aκ² will do; between sensors the width of the features
and their smoothness are told by the data as well.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from bvsi.common.arrays import Array
from bvsi.refine.measurements import Measurements

# log l and log q beforehand, and how far from there they may be: κ⁻² with a bend anywhere. Not measured.
_USUAL, _WIDE = np.array([0.0, np.log(2.0)]), np.array([3.0, 1.0])
# log l and log q where nodes are measured: p = aκ².
_PLAIN = np.array([-12.0, np.log(2.0)])
_DIFFERENCE = 1e-3  # of the parameters, over which slopes are differenced


def first_law(one: Measurements, z: Array) -> Array:
    """The usual law, with the size of a state z (m,), (fields, 3)."""
    usual = np.tile(np.append(0.0, _USUAL if one.sparse else _PLAIN), (len(one.fields), 1))
    rough = (one.precisions(usual) * z**2).reshape(len(one.fields), -1).sum(axis=1)
    usual[:, 0] = np.log(max(1, one.rank // len(one.fields)) / np.maximum(rough, np.finfo(float).tiny))
    return usual


def likely_law(one: Measurements, K: Array, b: Array, law: Array) -> Array:
    """The most probable law, (fields, 3), from another one."""
    if not one.rank:
        return law
    found = minimize(
        lambda x: _misfit(one, K, b, x.reshape(law.shape)), law.ravel(), jac=True, method="BFGS", options={"gtol": 1e-3}
    )
    return np.asarray(found.x.reshape(law.shape))


def law_slope(one: Measurements, K: Array, b: Array, law: Array) -> Array:
    """Slope of −2 log p(û | law), (3 fields,)."""
    return _misfit(one, K, b, law)[1]


def law_curvature(one: Measurements, K: Array, b: Array, law: Array) -> Array:
    """Its curvature, (3 fields, 3 fields), by differences of slopes."""
    moves = _DIFFERENCE * np.eye(law.size).reshape(-1, *law.shape)
    rows = [law_slope(one, K, b, law + x) - law_slope(one, K, b, law - x) for x in moves]
    full = np.array(rows) / (2 * _DIFFERENCE)
    return np.asarray(0.5 * (full + full.T))


def _misfit(one: Measurements, K: Array, b: Array, law: Array) -> tuple[float, Array]:
    """−2 log p(û | law) and its slope, (3 fields,)."""
    p, held = one.precisions(law), one.mu > 0
    try:
        factor = scipy.linalg.cho_factor(K + np.diag(p))
    except (scipy.linalg.LinAlgError, ValueError):  # laws that are out of all bounds
        return np.inf, np.zeros(law.size)
    z, spread = scipy.linalg.cho_solve(factor, b), np.diag(scipy.linalg.cho_solve(factor, np.eye(len(b))))
    beyond = (law[:, 1:] - _USUAL) / _WIDE
    value = -b @ z + 2 * np.log(np.diag(factor[0])).sum() - np.log(p[held]).sum() + np.sum(beyond**2)
    by_mode = one.precision_slopes(law) * (p * (z**2 + spread) - 1)
    slope = by_mode.reshape(3, len(law), -1).sum(axis=2).T
    slope[:, 1:] = (slope[:, 1:] + 2 * beyond / _WIDE) if one.sparse else 0.0
    return float(value), slope.ravel()
