"""How wide test functions are where the nodes are not a uniform grid, and over which nodes derivatives are fitted.

    gap = max(1.6, g/3) spacings,      reach = 0.4 g,      λ = g/0.38

λ: nodes per shortest wave; g: gap of the coarsest splines that explain the field up to its noise, in spacings,

    min_c ‖û_j − A_g c‖²      unexplained(g) = (RSS/(n − tr H_g) − σ²)/(Var(û) − σ²)

A_g: cubic splines at the nodes with knots g spacings apart, (n × m); H_g: their projection. The gap at which one part
in a hundred is left unexplained is a property of the field and not of the nodes: with 1134, 600 and 300 nodes for bumps
of width 0.1 it was 0.21, 0.22 and 0.21. Data with too few nodes are refused, with the number that would be needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg

from bvsi.common.arrays import Array
from bvsi.data import Data, Grid, Mesh
from bvsi.errors import DataError
from bvsi.residual.stencils import TemporalTests
from bvsi.residual.widths import WIDTHS, aligned_in_time, highest, longest_run, time_degree
from bvsi.spaces import SplineTests
from bvsi.spaces.axis import UniformSplines, tensor_splines
from bvsi.spaces.domain import Domain
from bvsi.spaces.nodal_derivatives import NO_WINDOW, ball_fits, narrowest_ball

# Degrees of splines beyond the highest derivative: two less than where the nodes are the quadrature, so that more
# functions fit into the domain.
_SPARE = 2
# g over the shortest wavelength, measured in tests/spaces/test_background.py.
WAVE = 0.38
# Nodes at which the noise of derivatives is looked at, and times the median beyond which one counts as an edge.
_SAMPLE, _EDGE = 200, 3.0
_NO_WINDOW = NO_WINDOW / 2  # the reach of splines through the nodes
# Factor from one reach to the next, and part of the domain that it may take.
_STEP, _PART = 1.1, 0.25


@dataclass(frozen=True)
class BackgroundWidths:
    """What sets the widths on meshes, uneven grids and scattered points; all in spacings of the nodes.

    Parameters
    ----------
    spacings, narrowest
        Least gap, and where few functions fit into the domain: with more functions than nodes Σ is singular (below
        1.2); from 300 sensors what R leaves was 0.15 of the noise in χ²/n at 1.2, and 0.01 at 1.6.
    fewest
        g below which the nodes are too few for the field: with 2.0 and more (150 sensors) coefficients were right, with
        1.6 (100) wrong by 5 standard deviations.
    few
        g below which the reconstruction has degree 4 instead of 3 (not in 3D, where it would take gigabytes): from 150
        sensors (2.0 to 2.2) the bias fell from 0.8 to 0.6 standard deviations, which grew by a tenth.
    resolved
        Gap over g; as ``space`` on grids.
    most
        Residuals beyond which functions are made wider; as on grids.
    derivative
        Reach over g. Slopes of KPZ in the plane on triangles and on scattered nodes, squared, are then damped by 2e-4;
        it grows with the fourth power.
    quiet
        Noise in the squares of first derivatives, over those of the signal, below which they are those of splines
        through the nodes: KPZ on triangles has 0.004 at 1% noise, where balls make the viscosity wrong by 1 to 2
        standard deviations, and 0.1 at 5%, where it is 0.2 to 0.5.
    slopes
        g, over the radius of the narrowest ball that determines a polynomial, below which the nodes are too few for
        derivatives of the data: there, at 4.5 in 2D, such squares are damped by 0.4%.
    """

    spacings: float = 1.6
    narrowest: float = 1.2
    fewest: float = 1.75
    few: float = 2.5
    resolved: float = 1 / 3
    most: int = 4_500
    derivative: float = 0.4
    quiet: float = 0.03
    slopes: float = 1.2


BACKGROUND = BackgroundWidths()


def resolved(experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]]) -> float:
    """g, the least of all fields."""
    finest = np.inf
    for data, level in zip(experiments, sigma, strict=True):
        domain = Domain.of(data.geometry)
        for name, values in data.fields.items():
            found = resolved_gap(domain, values, float(level.get(name, 0.0)))
            if found < BACKGROUND.fewest:
                raise DataError(_unresolved(f"for {name!r}", found, BACKGROUND.fewest, data))
            finest = min(finest, found)
    return finest


def background_tests(
    experiments: Sequence[Data],
    sigma: Sequence[Mapping[str, float]],
    derivatives: int,
    g: float,
    *,
    steady: bool = False,
) -> tuple[SplineTests, TemporalTests | None]:
    """Test functions in space and time: one gap, in spacings, for all axes.

    Parameters
    ----------
    derivatives
        Highest order that a spatial test function has to carry.
    steady
        Whether there are none in time, and every frame stands for itself.
    """
    degree, dim = derivatives + _SPARE, experiments[0].geometry.dim
    stencil = None if steady else _in_time(experiments, sigma)
    # one frame has few functions, and those that hang over its edges are lost: on 2,000 nodes the least gap instead of
    # g/3 made error bars of a steady problem 1.4 times smaller
    gap = BACKGROUND.spacings if steady else max(BACKGROUND.spacings, BACKGROUND.resolved * g)
    frames = max(len(data.times) for data in experiments)
    many = BACKGROUND.most * (1.0 if stencil is None else stencil.gap) / frames
    count = _count(SplineTests(gap, degree), experiments)
    gap *= max(1.0, count / many) ** (1 / dim)
    while count < 4 * WIDTHS.least and gap > BACKGROUND.narrowest:  # narrower, where few fit into the domain
        gap = max(BACKGROUND.narrowest, 0.9 * gap)
        count = _count(SplineTests(gap, degree), experiments)
    if count < WIDTHS.least:  # one gap less: the highest derivative has kinks then, at ends of the quadrature's boxes
        degree -= 1
        count = _count(SplineTests(gap, degree), experiments)
    if count < WIDTHS.least:
        raise DataError(_too_few(gap, degree, experiments))
    few = g < BACKGROUND.few and dim < 3
    return SplineTests(gap, degree, reconstruction=4 if few else 3), stencil


def _in_time(experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]]) -> TemporalTests:
    """Test functions in time, as wide as the spectrum of all nodes allows."""
    time, degree = np.inf, time_degree(experiments, sigma)
    for data, level in zip(experiments, sigma, strict=True):
        time = min(time, (longest_run(data.times) - 1) / (degree + WIDTHS.least))
        for name, values in data.fields.items():
            cycles = highest(np.asarray(values), 0, float(level.get(name, 0.0)), periodic=False)
            time = min(time, WIDTHS.time / cycles)
    return TemporalTests(degree, aligned_in_time(time, experiments[0].times, degree))


def enough_tests(geometry: Grid | Mesh, derivatives: int) -> bool:
    """Whether test functions that carry some derivatives, with the usual least gap, are not too few."""
    return SplineTests(BACKGROUND.spacings, derivatives + _SPARE).count(geometry) >= 4 * WIDTHS.least


def ball_reach(experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]], g: float, operators: str) -> float:
    """Spacings on either side over which derivatives of the data are fitted.

    None, where splines through the nodes have little noise; else 0.4 g, and more where noise would make up much of the
    derivatives of every field; the least of all experiments.

    Parameters
    ----------
    operators
        Those that need derivatives, in words.
    """
    data = experiments[0]
    least = narrowest_ball(data.geometry.dim)
    if g < BACKGROUND.slopes * least:
        needed = _unresolved(f"for derivatives of the data, as {operators} needs", g, BACKGROUND.slopes * least, data)
        raise DataError(f"{needed} Or leave the operator out.")
    found = []
    for data, level in zip(experiments, sigma, strict=True):
        domain = Domain.of(data.geometry)
        widest = _PART * float(np.min(np.ptp(domain.points, axis=0) / domain.spacing))
        for name, values in data.fields.items():
            reach, own = max(least, BACKGROUND.derivative * g), float(level.get(name, 0.0))
            if _loudness(domain, values, own, _NO_WINDOW) <= BACKGROUND.quiet:
                found.append(_NO_WINDOW)
                continue
            while reach < widest and _loudness(domain, values, own, reach) > WIDTHS.loud:
                reach *= _STEP
            found.append(reach)
    return min(found)


def _loudness(domain: Domain, values: Array, sigma: float, reach: float) -> float:
    """Noise over signal in the squares of first derivatives, away from the boundary."""
    if not sigma:
        return 0.0
    n, dim = len(domain.points), domain.dim
    some = np.unique(np.linspace(0, n - 1, _SAMPLE).astype(np.int64))
    power, noise = np.zeros(n), np.zeros(n)
    for axis in range(dim):
        index = tuple(int(a == axis) for a in range(dim))
        for nodes, near, weights in ball_fits(domain, np.ones(n), some, index, np.full(dim, reach)):
            power[nodes] += np.mean(np.einsum("tmk,mk->tm", values[:, near], weights) ** 2, axis=0)
            noise[nodes] += sigma**2 * np.sum(weights**2, axis=1)
    inner = some[noise[some] < _EDGE * np.median(noise[some])]
    signal = float(np.mean(power[inner] - noise[inner]))
    return float(np.mean(noise[inner])) / signal if signal > 0 else np.inf


def _unresolved(aim: str, g: float, least: float, data: Data) -> str:
    """How many nodes would be needed for a field that varies over g spacings, in words."""
    nodes = len(data.geometry.points)
    needed = nodes * (least / g) ** data.geometry.dim
    return (
        f"data: {nodes} nodes are too few {aim}: the shortest waves have {g / WAVE:.2g} of them, and "
        f"{least / WAVE:.2g} are needed, about {needed:.2g} nodes in all."
    )


def _too_few(gap: float, degree: int, experiments: Sequence[Data]) -> str:
    """How many nodes would be needed for some test functions, in words."""
    nodes, dim, narrow = sum(len(data.geometry.points) for data in experiments), experiments[0].geometry.dim, gap
    while _count(SplineTests(narrow, degree), experiments) < WIDTHS.least:
        narrow *= 0.9
    needed = nodes * (gap / narrow) ** dim
    return (
        f"data: {nodes} nodes are too few for this domain; test functions are {(degree + 1) * gap:.2g} spacings wide, "
        f"and fewer than {WIDTHS.least} fit in. About {needed:.2g} nodes are needed."
    )


def _count(tests: SplineTests, experiments: Sequence[Data]) -> int:
    """Test functions of all fields and experiments."""
    return sum(len(data.fields) * tests.count(data.geometry) for data in experiments)


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
