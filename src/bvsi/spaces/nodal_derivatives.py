"""Derivatives of the data at the nodes, from polynomials fitted to the nodes around each; first those of uniform grids:

    (D û)_i = p_i^(m)(x_i),      p_i = argmin_p Σ_{|j − i| ≤ w} (p(x_j) − û_j)²,      deg p ≤ 8

D is a band matrix (n × n). Towards the ends of an axis the window stays inside, so that p is differentiated off its
middle. With w = 0.54/f the first derivative of a wave of f cycles per step is right to 1e-3, and of half that
frequency to 4e-6: noise is averaged over 2w + 1 nodes, and waves that long are not damped.

On any other nodes the window is a ball, inside which the fit is weighted by volume and distance:

    p_i = argmin_p Σ_j ω_j (1 − ρ_ij²)² (p(x_j) − û_j)²,     ρ_ij = |x_j − x_i|/w in spacings

ω_j: volume of node j, so that Σ_i ω_i f(x_i) D_ij ≈ −ω_j ∂f(x_j) as by parts, however uneven the nodes are.

Where noise is weak, with a window of less than a spacing, the derivative is that of the splines through the nodes
(:mod:`bvsi.spaces.reconstruction`), which average nothing: of KPZ cusps on triangles the squared slope is short by 1e-5
in place of 8e-4, with four times the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial

import numpy as np
import scipy.sparse as sparse
from numpy.polynomial import legendre
from numpy.typing import NDArray

from bvsi.common.arrays import Array, Integers
from bvsi.common.naming import MultiIndex
from bvsi.errors import SpaceError
from bvsi.spaces.domain import Domain
from bvsi.spaces.reconstruction import (
    AT_A_TIME,
    cell_graph,
    derivative_weights,
    exponents,
    monomials,
    nearest,
    nodes_around,
)

# Degree of the polynomials: at the same error of 1e-3 the variance of a first derivative is half of that of degree 6,
# and 1.6 times that of degree 10, which needs windows 1.4 times as wide.
DEGREE = 8
# Nodes on either side that determine such a polynomial.
NARROWEST = DEGREE // 2
# Degree of the polynomials in balls, by dimension. In 2D, at the same error of 1e-3 and 10 nodes per wave, degree 8 has
# 0.4 of the variance of degree 6, and needs three times as many nodes around each; in 3D 6 would need 150.
BALL_DEGREES = {1: 8, 2: 6, 3: 4}
# Nodes in a ball per coefficient of its polynomial, and times as many where they do not determine one.
_SHARE, _MOST = 1.6, 8.0
# Volumes of balls of radius one.
_BALL = {1: 2.0, 2: np.pi, 3: 4 * np.pi / 3}
# Spacings below which a window holds no other node, and degree of the splines' polynomials.
NO_WINDOW, _SPLINE_DEGREE = 1.0, 4
# Radius of the ball over the distance of the farthest node, whose weight would else be zero; not measured.
_MARGIN = 1.05
# Smallest over largest diagonal entry of the triangular factor below which nodes do not determine a polynomial; degree
# 8 at the end of a line has 1e-6.
_SINGULAR = {1: 1e-8, 2: 1e-5, 3: 1e-5}


def derivative_matrix(n: int, step: float, order: int, reach: float, *, periodic: bool) -> sparse.csr_array:
    """D (n × n) of one axis; order 0 smooths.

    Parameters
    ----------
    reach
        w, nodes on either side; rounded, and cut to what determines the polynomial and fits onto the axis.
    """
    w = window(n, reach)
    stencils = _stencils(w, order) / step**order
    at = np.arange(n)
    middle = at if periodic else np.clip(at, w, n - 1 - w)
    columns = (middle[:, None] + np.arange(-w, w + 1)) % n
    values = stencils[at - middle + w]
    return sparse.csr_array((values.ravel(), (np.repeat(at, 2 * w + 1), columns.ravel())), shape=(n, n))


def noise_gain(reach: float, order: int) -> float:
    """Variance of the derivative, in steps, over that of the data, away from the ends."""
    w = max(NARROWEST, round(reach))
    return float(np.sum(_stencils(w, order)[w] ** 2))


def window(n: int, reach: float) -> int:
    """w that is used on an axis of n nodes."""
    if n <= DEGREE:
        raise SpaceError(f"an axis of {n} nodes: derivatives of the data need {DEGREE + 1}; use Galerkin().")
    return int(np.clip(round(reach), NARROWEST, (n - 1) // 2))


def _stencils(w: int, order: int) -> Array:
    """∂^order of the polynomial at each of the 2w + 1 nodes of a window, in steps, (2w + 1, 2w + 1)."""
    x = np.arange(-w, w + 1) / w
    fit = np.linalg.pinv(legendre.legvander(x, DEGREE))  # (coefficients, nodes)
    values = legendre.legval(x, legendre.legder(fit, order)).T
    return np.asarray(values / float(w) ** order, dtype=np.float64)


def scattered_derivative(domain: Domain, volumes: Array, index: MultiIndex, reach: Array) -> sparse.csr_array:
    """D_index (n × n) at the nodes of any domain.

    Parameters
    ----------
    volumes
        ω (n,), positive.
    reach
        w by axis in spacings, (dim,): half axes of the window, an ellipsoid. Towards the boundary it reaches farther
        inside, so that as many nodes are in it.
    """
    n = len(domain.points)
    fits = [
        (weights.ravel(), np.repeat(nodes, near.shape[1]), near.ravel())
        for nodes, near, weights in ball_fits(domain, volumes, np.arange(n), index, reach)
    ]
    values, rows, columns = (np.concatenate(some) for some in zip(*fits, strict=True))
    return sparse.csr_array((values, (rows, columns)), shape=(n, n))


def ball_fits(
    domain: Domain, volumes: Array, nodes: Integers, index: MultiIndex, reach: Array
) -> Iterator[tuple[Integers, Integers, Array]]:
    """The same at some of the nodes (m,): nodes, their neighbours (…, k), and weights of these (…, k), part by part."""
    splines = float(np.max(reach)) < NO_WINDOW
    powers = exponents(domain.dim, _SPLINE_DEGREE if splines else BALL_DEGREES[domain.dim])
    scale = domain.spacing * reach / float(np.prod(reach)) ** (1 / domain.dim)
    places, (_, edges) = domain.points / scale, cell_graph(domain)
    count, left = nodes_around(domain.dim, _SPLINE_DEGREE) if splines else nodes_in_ball(reach), nodes
    most = _MOST * count
    while left.size:
        if count > most:
            raise SpaceError("some nodes lie so that they determine no derivative of the data; use Galerkin().")
        missed = []
        for some in np.array_split(left, -(-left.size // AT_A_TIME)):
            near = nearest(places, edges[some], edges, places[some], len(powers), count)
            x = places[near] - places[some][:, None]
            if splines:
                good, weights = derivative_weights(x, _SPLINE_DEGREE, index)
            else:
                good, weights = _ball_weights(x, volumes[near], powers, index)
            missed.append(some[~good])
            yield some[good], near[good], weights / np.prod(scale ** np.array(index))
        left, count = np.concatenate(missed), int(1.5 * count)


def nodes_in_ball(reach: Array) -> int:
    """Nodes to which a polynomial is fitted, for half axes (dim,) in spacings."""
    dim = len(reach)
    least = _SHARE * len(exponents(dim, BALL_DEGREES[dim]))
    return int(np.ceil(max(least, _BALL[dim] * float(np.prod(reach)))))


def narrowest_ball(dim: int) -> float:
    """Spacings on either side that determine a polynomial."""
    return float((nodes_in_ball(np.zeros(dim)) / _BALL[dim]) ** (1 / dim))


def _ball_weights(x: Array, volumes: Array, powers: Integers, index: MultiIndex) -> tuple[NDArray[np.bool_], Array]:
    """Which neighbourhoods determine a polynomial, and the weights of ∂^index at their middles, (good, k).

    Parameters
    ----------
    x
        Neighbours less the node, (m, k, dim).
    volumes
        Theirs, (m, k).
    """
    size = _MARGIN * np.linalg.norm(x, axis=2).max(axis=1)
    x = x / size[:, None, None]
    root = np.sqrt(volumes) * (1 - np.sum(x**2, axis=2))  # of the fit's weight
    Q, R = np.linalg.qr(monomials(x, powers) * root[..., None])
    diagonal = np.abs(np.diagonal(R, axis1=1, axis2=2))
    good = diagonal.min(axis=1) > _SINGULAR[x.shape[2]] * diagonal.max(axis=1)
    # p = Σ_m c_m x^m with R c = Qᵀ(root ∘ û), and ∂^index p = index! c_index in the middle
    wanted = np.all(powers == np.array(index), axis=1) * float(np.prod([factorial(m) for m in index]))
    row = np.linalg.solve(np.swapaxes(R[good], 1, 2), np.broadcast_to(wanted[:, None], (*R[good].shape[:2], 1)))
    weights = (Q[good] @ row)[..., 0] * root[good]
    return good, weights / size[good][:, None] ** sum(index)
