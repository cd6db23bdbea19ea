"""Coarsening by halves with an orthonormal low-pass filter that keeps the values of smooth fields.

u_c(x_2j) = 2^{-1/2} Σ_k h_k u(x_{2j+k}), k = −6 … 11, with the taps h of the coiflet with six vanishing moments:

    Σ_k h_k h_{k+2m} = δ_m      white noise of sd σ stays white, with σ/√2,
    Σ_k k^p h_k = √2 δ_p        for p = 0 … 5: coarse values are samples of the field up to derivatives of order 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Solved to rounding from the two sets of equations above and the moments of the high-pass filter.
TAPS: Floats = np.array(
    [
        -0.0037935128643939147,
        0.007782596425695601,
        0.023452696142143688,
        -0.06577191128160405,
        -0.061123390003096384,
        0.4051769024094469,
        0.7937772226261678,
        0.42848347637694645,
        -0.07179982161911017,
        -0.08230192710599797,
        0.034555027573196374,
        0.01588054486355827,
        -0.00900797613667246,
        -0.0025745176881204427,
        0.001117518770819116,
        0.0004662169598195413,
        -7.098330250648333e-05,
        -3.459977319671675e-05,
    ]
)
"""h_k for k = −BEFORE … AFTER."""
TAPS.setflags(write=False)

BEFORE, AFTER = 6, 11
"""Fine points that a coarse value needs to its left and to its right."""


def coarse_size(n: int, periodic: bool) -> int:
    """Coarse values along an axis of n points; a bounded axis loses the ends that the filter needs."""
    return n // 2 if periodic else max(0, (n - TAPS.size) // 2 + 1)


def coarse_coordinates(x: Floats, periodic: bool) -> Floats:
    """Coordinates (m,) of the coarse values of an axis x (n,)."""
    first = 0 if periodic else BEFORE
    return x[first : first + 2 * coarse_size(x.size, periodic) : 2]


def halve(u: Floats, axis: int, periodic: bool) -> Floats:
    """Coarse values of u along one axis.

    Parameters
    ----------
    periodic
        Whether the axis wraps; its size must be even then.
    """
    if periodic:
        u = np.take(u, np.arange(-BEFORE, u.shape[axis] + AFTER) % u.shape[axis], axis=axis)
    if axis == 0:
        return _filtered(u, 0)
    # One entry of the first axis at a time stays in the cache.
    shape = list(u.shape)
    shape[axis] = coarse_size(shape[axis], periodic=False)
    out = np.empty(shape)
    for part, coarse in zip(u, out, strict=True):
        coarse[...] = _filtered(part, axis - 1)
    return out


def halve_blocks(blocks: Iterable[Floats]) -> Iterator[Floats]:
    """Coarse values along the first axis of an array that comes in blocks; only what is still needed is kept."""
    rest: Floats | None = None
    for block in blocks:
        joined = block if rest is None else np.concatenate([rest, block])
        done = _filtered(joined, 0)
        if len(done):
            yield done
        rest = joined[2 * len(done) :].copy()


def _filtered(v: Floats, axis: int) -> Floats:
    """Values of the windows that start at the entries 0, 2, … along an axis."""
    m = coarse_size(v.shape[axis], periodic=False)
    out = np.zeros((*v.shape[:axis], m, *v.shape[axis + 1 :]))
    if m == 0:
        return out
    product = np.empty_like(out)
    before = (slice(None),) * axis
    for k, tap in enumerate(TAPS / np.sqrt(2.0)):
        np.multiply(v[(*before, slice(k, k + 2 * m - 1, 2))], tap, out=product)
        out += product
    return out


def response(omega: Floats, levels: int) -> NDArray[np.complex128]:
    """G(ω) = Π_{l < levels} 2^{-1/2} Σ_k h_k exp(i k 2^l ω): what coarse values keep of exp(iωj)."""
    k = np.arange(-BEFORE, AFTER + 1)
    kept = np.ones(omega.shape, dtype=np.complex128)
    for level in range(levels):
        kept *= np.exp(1j * 2**level * omega[:, None] * k) @ TAPS / np.sqrt(2.0)
    return kept
