"""Small dense solves of the normal equations, scaled, with rank loss named operator by operator."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bvsi.errors import RankError
from bvsi.linalg import ScaledCholesky

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-13
"""Smallest eigenvalue of the scaled normal matrix that still counts: columns agree to 3e-7 of their size."""


def factorise(H: Array, names: tuple[str, ...]) -> ScaledCholesky:
    """Factor a normal matrix H (d, d); :class:`RankError` where the data do not determine all coefficients."""
    scale = np.sqrt(np.maximum(np.diag(H), 0.0))
    if not np.all(np.isfinite(H)):
        raise RankError("the normal equations have entries that are not finite; look for overflow in the data.", ())
    idle = tuple(name for name, s in zip(names, scale, strict=True) if s == 0)
    if idle:
        raise RankError(
            f"operators that vanish on these data: {_listed(idle)}. Their coefficients cannot be known; remove them.",
            tuple((name,) for name in idle),
        )
    scaled = H / scale[:, None] / scale
    eigenvalues, vectors = np.linalg.eigh(scaled)
    lost = eigenvalues <= RANK_TOLERANCE * eigenvalues[-1]
    if lost.any():
        raise _rank_error(vectors[:, lost] / scale[:, None], vectors[:, lost], names)
    return ScaledCholesky(scale, np.asarray(np.linalg.cholesky(scaled), dtype=np.float64))


def _rank_error(combinations: Array, weights: Array, names: tuple[str, ...]) -> RankError:
    """Name, for every lost dimension, the operators in it and the combination that vanishes."""
    # a basis in which every vector has one operator of its own, so that separate groups are not mixed
    pivots = scipy.linalg.qr(weights.T, mode="r", pivoting=True)[1][: weights.shape[1]]
    mix = np.linalg.inv(weights[pivots])
    combinations, weights = combinations @ mix, weights @ mix
    groups, texts = [], []
    for v, w in zip(combinations.T, weights.T, strict=True):
        members = np.flatnonzero(np.abs(w) > 0.05 * np.abs(w).max())
        heavy = members[np.abs(w[members]) > 0.99 * np.abs(w).max()]  # the first of equal ones, whatever the rounding
        v = v / v[heavy[0]]
        groups.append(tuple(names[i] for i in members))
        texts.append(" + ".join(f"{v[i]:.3g}·[{names[i]}]" for i in members) + " ≈ 0")
    return RankError(
        "operators that these data cannot tell apart: "
        + "; ".join(texts)
        + ". Remove one of each group, give a prior, or add data with another initial state.",
        tuple(groups),
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)
