"""Derivatives on the nodes of an axis as matrices.

``bvsi export --to numpy`` puts this file into the script that it writes, so that it needs NumPy alone.
"""

from __future__ import annotations

import numpy as np

# Nodes of a finite difference beyond the order of the derivative: errors fall with the fourth power of the spacing.
_MORE_NODES = 4
# Relative deviation of a spacing from the mean below which a periodic axis counts as uniform: files round coordinates.
_UNIFORM = 1e-3


def derivative_matrix(nodes: np.ndarray, order: int, period: float | None = None) -> np.ndarray:
    """D (n, n) with D u the derivative of this order at the nodes (n,).

    Exact for trigonometric polynomials on uniform periodic axes (Fourier); elsewhere finite differences of fourth
    order, one-sided at the ends.
    """
    x, n = np.asarray(nodes, dtype=float), len(nodes)
    if period is not None and np.ptp(np.diff(x)) <= _UNIFORM * period / n:
        wave = 2j * np.pi / period * np.fft.fftfreq(n, 1 / n)
        if order % 2 and n % 2 == 0:
            wave[n // 2] = 0  # the highest wave has no sine
        return np.fft.ifft(wave[:, None] ** order * np.fft.fft(np.eye(n), axis=0), axis=0).real
    width, D = min(n, order + _MORE_NODES + 1), np.zeros((n, n))
    for i in range(n):
        first = i - width // 2 if period is not None else min(max(i - width // 2, 0), n - width)
        near = np.arange(first, first + width)
        places = x[near % n] + (0.0 if period is None else period * (near // n))
        D[i, near % n] = difference_weights(places - x[i], order)
    return D


def difference_weights(offsets: np.ndarray, order: int) -> np.ndarray:
    """w (k,) with Σ_j w_j u(x + offset_j) the derivative of u at x, exact for polynomials of degree k − 1."""
    scale = np.abs(offsets).max()
    powers = np.vander(offsets / scale, increasing=True).T
    wanted = np.zeros(len(offsets))
    wanted[order] = float(np.prod(np.arange(1, order + 1))) / scale**order
    return np.linalg.solve(powers, wanted)


def inner_nodes(shape: tuple[int, ...], free: list[bool]) -> np.ndarray:
    """One at nodes that move and zero at the ends of axes that are not ``free``, of this shape."""
    inside = np.ones(shape)
    for axis, kept in enumerate(free):
        if not kept:
            np.moveaxis(inside, axis, 0)[[0, -1]] = 0
    return inside
