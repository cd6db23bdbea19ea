"""Smooth test functions: tensor-product B-splines, on grids with the data at the nodes as they are.

    ∫ ∂^α φ g(u, x) dx ≈ Σ_n w_n ∂^α φ(x_n) g(u_n, x_n)

All derivatives stand on the test function. Trapezoidal weights w at the nodes are exact to high order, since the test
functions are smooth and vanish at the ends of the axes; periodic axes have none. Jacobians are a sparse matrix times a
diagonal one. The functions vanish on the boundary with their derivatives: no boundary condition is used, or needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from itertools import product, starmap
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array
from bvsi.common.naming import MultiIndex
from bvsi.data import Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.linalg import Kronecker, Pattern
from bvsi.spaces.axis import UniformSplines, spline_matrix, with_ends
from bvsi.spaces.background import BackgroundTests
from bvsi.spaces.domain import Domain
from bvsi.spaces.measure import Evaluation, Measure
from bvsi.spaces.nodal_derivatives import (
    BALL_DEGREES,
    DEGREE,
    NARROWEST,
    NO_WINDOW,
    derivative_matrix,
    narrowest_ball,
    nodes_in_ball,
    window,
)
from bvsi.spaces.space import Space
from bvsi.spaces.tensor import tensor_points

# Derivatives that may go onto a test function. Not measured; each makes the functions one gap wider.
MAX_DERIVATIVES = 8

# Degrees of the splines beyond the highest derivative d: ∂^d φ is then of degree four, and the trapezoidal rule at
# nodes h apart errs by O((h/gap)⁵).
_SPARE = 4
# Nodes between knots where neither the user nor the spectrum of the data says; not measured.
_GAP = 4.0
# Steps of an axis that differ by less than this part count as even: coordinates in files have few digits. Not measured.
_UNEVEN = 1e-3


# Degrees of the reconstruction: from 150 sensors 2 was off by up to 2.5 sd, 3 and 4 by 1, with 4 error bars are wider
# by a fifth, and beyond 4 neighbourhoods grow too large.
RECONSTRUCTIONS = (2, 3, 4)
USUAL_RECONSTRUCTION = 3  # where neither the user nor the data say


@dataclass(frozen=True)
class SplineElement:
    """What weak forms need to know of spline tests: many derivatives on the test function, none of the field."""

    name: str = "splines"
    trial_order: int = 0
    test_order: int = MAX_DERIVATIVES
    degree: int = 1
    family: str = "B"
    lumpable: bool = False


@dataclass(frozen=True)
class SplineTests:
    """B-spline test functions: on the nodes of a uniform grid, elsewhere on a background grid.

    Parameters
    ----------
    gap
        Nodes between knots, one number or one per axis; a function is degree + 1 gaps wide. Left out it is 4;
        ``discover`` chooses it from the spectrum of the data. On meshes and uneven grids it counts typical spacings.
    degree
        Degree of the splines; by default four more than the highest derivative that an operator puts on them.
    reconstruction
        Degree of the polynomials, among the splines between the nodes of a mesh or an uneven grid, 2 to 4.
        Left out it is 3; ``discover`` takes 4 where nodes are few.
    reach
        For operators that need a derivative of the data, such as ``dx(u)**2``: nodes on either side of a node over
        which it is fitted, one number or one per axis. Left out it is 4, for data without noise; ``discover`` chooses
        it from the spectrum. On meshes less than 1 stands for splines through the nodes, which average nothing.
    ends
        Whether there are functions that reach the ends of the axes of a uniform grid too, narrower ones, which vanish
        there with as many derivatives as go onto them; otherwise all vanish there with all derivatives.
    stretch
        By axis, places and where they go, (n,) each, linear between them: values between the nodes of a mesh are smooth
        functions of these coordinates. ``discover`` takes ξ = ∫ dx/k where it finds k(x) in ``div(k*grad(u))``: where k
        has a step, u has a kink, and none as a function of ξ.
    """

    gap: float | Mapping[str, float] | None = None
    degree: int | None = None
    reconstruction: int | None = None
    reach: float | Mapping[str, float] | None = None
    ends: bool = False
    stretch: Mapping[str, tuple[Array, Array]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, given in (("gap", self.gap), ("reach", self.reach)):
            numbers = given.values() if isinstance(given, Mapping) else [] if given is None else [given]
            if any(not (np.isfinite(g) and g > 0) for g in numbers):
                raise SpaceError(f"{name}: positive numbers of nodes are needed; got {given!r}.")
        if self.reconstruction is not None and self.reconstruction not in RECONSTRUCTIONS:
            raise SpaceError(f"reconstruction: a degree from 2 to 4 is needed; got {self.reconstruction!r}.")

    def element_for(self, geometry: Grid | Mesh) -> SplineElement:
        """The derivatives that test function and field carry."""
        del geometry  # the same on all
        return SplineElement()

    def build(self, geometry: Grid | Mesh, quadrature: int, derivatives: int = 2, nodes: Grid | None = None) -> Space:
        """The space for data on a grid; ``derivatives`` is the highest order that a test function has to carry.

        Parameters
        ----------
        nodes
            Some nodes of a uniform grid, evenly spaced, which take the place of all of them.
        """
        del quadrature  # the nodes are the quadrature
        degree = self.degree_for(derivatives)
        if degree <= derivatives:
            raise SpaceError(f"degree: {degree} carries {degree - 1} derivatives, {derivatives} are needed; raise it.")
        if not is_uniform(geometry):
            return self._on_background(geometry, degree, derivatives)
        assert isinstance(geometry, Grid)
        vanishing = derivatives if self.ends else None
        axes = [_axis_splines(geometry, name, self.gap_of(name), degree, vanishing) for name in geometry.names]
        width = " × ".join(
            f"{(degree + 1) * s.gap / _step(geometry, n):.3g}" for s, n in zip(axes, geometry.names, strict=True)
        )
        name = f"B-splines of degree {degree}, {width} nodes wide, on {geometry.summary}" if axes else geometry.summary
        at = geometry if nodes is None else nodes
        centres = tensor_points([s.centres for s in axes])
        pattern = Pattern.deferred((at.n_nodes, len(centres)), partial(_pattern, at, axes))
        tests, slopes = cache(partial(_at_nodes, at, axes)), cache(partial(self._derivative, at))
        space = _nodal_space(name, at.points, centres, degree, pattern, tests, slopes)
        return replace(space, made_by=partial(self.build, geometry, 0, derivatives, nodes))

    def degree_for(self, derivatives: int) -> int:
        """Degree of functions that carry so many derivatives."""
        return self.degree or derivatives + _SPARE

    def _derivative(self, grid: Grid, index: MultiIndex) -> Kronecker:
        """D_index: the derivative of each axis, with those of order zero smoothing; D_0 is the identity."""
        if not any(index):
            return Kronecker(tuple(sparse.eye_array(n, format="csr") for n in grid.shape))
        axes = zip(grid.names, grid.shape, index, strict=True)
        return Kronecker.of(
            [
                derivative_matrix(n, _step(grid, name), order, self.reach_of(name), periodic=name in grid.periods)
                for name, n, order in axes
            ]
        )

    def count(self, geometry: Grid | Mesh) -> int:
        """Test functions whose support lies inside the domain of the nodes, where they are not a uniform grid."""
        try:
            return len(self._background(geometry).index)
        except SpaceError:
            return 0

    def _background(self, geometry: Grid | Mesh, derivatives: int = 2) -> BackgroundTests:
        domain = Domain.of(geometry)
        gaps = np.array([self.gap_of(name) for name in geometry.names]) * domain.spacing
        degree, reconstruction = self.degree or derivatives + _SPARE, self.reconstruction or USUAL_RECONSTRUCTION
        tests = BackgroundTests.by_gaps(domain, gaps, degree, reconstruction, self._ball(geometry))
        return replace(tests, stretch=tuple((self.stretch or {}).get(name) for name in geometry.names))

    def _on_background(self, geometry: Grid | Mesh, degree: int, derivatives: int) -> Space:
        tests = self._background(geometry, derivatives)
        domain = tests.domain
        if not len(tests.index):
            raise SpaceError("gap: no test function fits into the domain; use a smaller gap.")
        width = " × ".join(f"{(degree + 1) * s.gap / h:.3g}" for s, h in zip(tests.axes, domain.spacing, strict=True))
        name = f"{len(tests.index)} B-splines of degree {degree}, {width} spacings wide, on {geometry.summary}"
        at_nodes, slopes = cache(tests.at_nodes), cache(tests.derivative_at_nodes)
        space = _nodal_space(name, domain.points, tests.centres, degree, tests.pattern, at_nodes, slopes)
        return replace(space, composes=True, made_by=partial(self.build, geometry, 0, derivatives))

    def gap_of(self, name: str) -> float:
        """Nodes between knots along an axis."""
        return _of_axis("gap", self.gap, name, _GAP)

    def reach_of(self, name: str) -> float:
        """Nodes on either side over which a derivative of the data is fitted."""
        return _of_axis("reach", self.reach, name, float(NARROWEST))

    def _ball(self, geometry: Grid | Mesh) -> Array:
        """Half axes of the window where the nodes are not a uniform grid, in spacings, (dim,)."""
        least = narrowest_ball(geometry.dim)
        return np.array([_of_axis("reach", self.reach, name, least) for name in geometry.names])

    def derivatives_text(self, geometry: Grid | Mesh) -> str:
        """How derivatives of the data are taken, in words."""
        if not (isinstance(geometry, Grid) and is_uniform(geometry)):
            if float(np.max(self._ball(geometry))) < NO_WINDOW:
                return "splines through the nodes around each"
            degree, count = BALL_DEGREES[geometry.dim], nodes_in_ball(self._ball(geometry))
            return f"polynomials of degree {degree} fitted to the {count} nodes around each"
        windows = (window(n, self.reach_of(name)) for name, n in zip(geometry.names, geometry.shape, strict=True))
        nodes = " × ".join(f"{2 * w + 1}" for w in windows)
        return f"polynomials of degree {DEGREE} fitted to {nodes} nodes"


def _of_axis(argument: str, given: float | Mapping[str, float] | None, name: str, default: float) -> float:
    """A setting of one axis."""
    if isinstance(given, Mapping):
        if name not in given:
            raise SpaceError(f"{argument}: axis {name!r} has none; given are {', '.join(given)}.")
        return float(given[name])
    return default if given is None else float(given)


def is_uniform(geometry: Grid | Mesh) -> bool:
    """Whether the nodes are a grid with even steps, and carry the quadrature themselves."""
    if not isinstance(geometry, Grid):
        return False
    for name, axis in geometry.axes.items():
        closed = [axis[0] + geometry.periods[name]] if name in geometry.periods else []
        steps = np.diff(np.append(axis, closed))
        if np.ptp(steps) > _UNEVEN * steps.mean():
            return False
    return True


def _step(grid: Grid, name: str) -> float:
    axis = grid.axes[name]
    return float((axis[-1] - axis[0]) / (len(axis) - 1))


def axis_gap(grid: Grid, name: str, gap: float, degree: int) -> float:
    """Nodes between knots along an axis, as the splines that fill it have them."""
    return _axis_splines(grid, name, gap, degree).gap / _step(grid, name)


def _axis_splines(grid: Grid, name: str, gap: float, degree: int, vanishing: int | None = None) -> UniformSplines:
    axis, step, periodic = grid.axes[name], _step(grid, name), name in grid.periods
    length = grid.periods[name] if periodic else float(axis[-1] - axis[0])
    try:
        return UniformSplines.by_gap(
            float(axis[0]), length, gap * step, degree, periodic=periodic, nodes=len(axis), vanishing=vanishing
        )
    except SpaceError as error:
        raise SpaceError(f"axis {name!r}: {error}") from None


def _nodal_space(
    name: str,
    points: Array,
    centres: Array,
    degree: int,
    pattern: Pattern,
    tests: Callable[[MultiIndex], Kronecker],
    slopes: Callable[[MultiIndex], Kronecker],
) -> Space:
    """Fields at the nodes as they are, and test functions there with their weights, on a pattern (nodes × tests)."""
    n, dim = points.shape
    own = Evaluation.from_local(n, np.arange(n)[:, None], ((0,) * dim,), lambda _: np.ones((n, 1)))

    def entries(index: MultiIndex) -> Array:
        return np.asarray(tests(index).entries(pattern.indices, pattern.rows))

    offered = tuple(product(range(degree), repeat=dim))
    cells = Measure(np.ones(n), points, None, own, Evaluation(pattern, offered, entries))
    boundary = partial(_empty_measure, dim, n, len(centres))
    at_boundary = np.zeros(0, dtype=np.int64)
    return Space(
        name, points, centres, at_boundary, cells, boundary, _no_facets, nodal_tests=tests, nodal_derivatives=slopes
    )


def _pattern(grid: Grid, axes: list[UniformSplines]) -> Pattern:
    """Nodes × functions: where a function, or one of its derivatives, is not zero."""
    touched = [
        sum(abs(_at_axis(grid, name, s, order)) for order in range(s.degree))
        for name, s in zip(grid.names, axes, strict=True)
    ]
    whole = reduce(partial(sparse.kron, format="csr"), touched, sparse.eye_array(1))  # other formats may store zeros
    return Pattern.from_matrix(sparse.csr_array(whole.T))


def _at_nodes(grid: Grid, axes: list[UniformSplines], index: MultiIndex) -> Kronecker:
    """w_n ∂^index v(x_n) as a Kronecker product of the axes' matrices (functions × nodes)."""
    factors = list(starmap(partial(_at_axis, grid), zip(grid.names, axes, index, strict=True)))
    return Kronecker.of(factors or [sparse.eye_array(1, format="csr")])


def axis_tests(grid: Grid, name: str, gap: float, degree: int) -> Any:
    """w_n φ(x_n) of the functions along one axis, sparse (functions × nodes)."""
    return _at_axis(grid, name, _axis_splines(grid, name, gap, degree), 0)


def _at_axis(grid: Grid, name: str, splines: UniformSplines, order: int) -> Any:
    """w_n φ^(order)(x_n), sparse (functions × nodes)."""
    if order >= splines.degree:
        raise SpaceError(f"degree: {splines.degree} does not carry {order} derivatives; raise it.")
    x = grid.axes[name]
    # trapezoidal weights; those at the ends do not matter, since test functions vanish there
    return with_ends(_step(grid, name) * spline_matrix(splines, x, order), splines, x, order)


def _empty_measure(dim: int, n_nodes: int, n_tests: int) -> Measure:
    """The boundary: no points, since all test functions vanish there."""

    def nothing(n: int, offered: tuple[MultiIndex, ...]) -> Evaluation:
        return Evaluation.from_local(n, np.zeros((0, 1), np.int64), offered, lambda _: np.zeros((0, 1)))

    offered = tuple(product(range(MAX_DERIVATIVES + 1), repeat=dim))
    trial, test = nothing(n_nodes, offered), nothing(n_tests, offered)
    return Measure(np.zeros(0), np.zeros((0, dim)), np.zeros((0, dim)), trial, test)


def _no_facets() -> Measure:
    raise SpaceError("facets(...) has no meaning for spline test functions; use Galerkin().")
