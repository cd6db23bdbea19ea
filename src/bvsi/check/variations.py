"""Other discretisations of the same data, whose estimates show whether the one used can be trusted.

With every second frame or node, and test functions that stay the same in physical units, nothing changes but the
quadrature error and the noise: a wrong equation is as wrong as before. Other widths of test functions change the
quadrature error at the same data.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from typing import Literal

import numpy as np

from bvsi.data import Data, Grid, Mesh
from bvsi.errors import DataError
from bvsi.operators import Library, Vocabulary
from bvsi.operators.syntax import Operator, read
from bvsi.residual import EachFrame, Stencil, TemporalTests
from bvsi.residual.assembly import on_tests
from bvsi.residual.background_widths import background_tests, resolved
from bvsi.residual.layout import count_in_mask
from bvsi.residual.widths import WIDTHS, cycles_between_frames
from bvsi.setup import Setup, scaled_gaps, scaled_stencil
from bvsi.spaces import Q1, Q2, Galerkin, SplineTests, is_uniform
from bvsi.spaces.galerkin import fills_q2
from bvsi.spaces.nodal_derivatives import NARROWEST, NO_WINDOW, narrowest_ball
from bvsi.spaces.spline_tests import MAX_DERIVATIVES, RECONSTRUCTIONS, USUAL_RECONSTRUCTION

Kind = Literal["time", "space", "width"]
_KINDS: tuple[Kind, ...] = ("time", "space")

# Factor by which other test functions are wider; not measured, wide enough to change the quadrature error.
_WIDER = 1.5
# Functions that should be left along an axis, nodes along one, and times, before every second one is left out. Three
# nodes are one more than an element has: with five, Q1 on 8 nodes was off by 8 to 60 sd and not tried in space.
_FEWEST = 2
_FEWEST_NODES = 3  # see above
_FEWEST_TIMES = 5  # every second one leaves three
# Order of the quadrature error: B-splines of degree p with m derivatives have p + 1 − m, five with the default degrees.
_SPLINE_ORDER = 5.0
_ELEMENT_ORDER = 2.0  # of Q1 and of second-order stencils

# Factor by which derivatives of the data are fitted over fewer nodes, and the order of their error: 8 for a wave, 3 to
# 5 for the spectra of KPZ cusps.
_NARROWER = 1.5
_DERIVATIVE_ORDER = 4.0  # see above

# Cycles per step of a few frames, at least: slower ones have errors beyond notice, and no ratio of two of them.
_SLOWEST = 0.05

# Highest derivative of squares among the plain operators: advection and diffusion.
_STEEP = 2

_HALF = slice(None, None, 2)


@dataclass(frozen=True, eq=False)
class Variation:
    """Another discretisation.

    Attributes
    ----------
    name
        For people.
    kind
        What is coarser, or ``width`` where only the test functions are others.
    setup
        Data, noise and test functions of the refit.
    ratio
        How much coarser.
    order
        Order of the quadrature error. The error at the original data is that of the refit times 1/ratio^order.
    better
        Kinds of discretisation error that are smaller than those of the fit, at the price of wider error bars.
    whole
        Whether all of the difference counts as bias: the same noise at the same nodes enters both.
    measured
        Whether ratio^order is that of the errors of these data, so that the bias counts and not the difference.
    """

    name: str
    kind: Kind
    setup: Setup
    ratio: float
    order: float
    better: tuple[Kind, ...] = ()
    whole: bool = False
    measured: bool = False


def with_plain_operators(setup: Setup, names: Sequence[str]) -> Setup | None:
    """The same data and test functions with some operators, and the plain ones that the library lacks.

    None where it lacks none, or where operators have parameters, unknown functions or shared coefficients: these are
    what the user wants to know, not candidates.
    """
    library, data = setup.library, setup.data[0]
    if library.parameters or library.unknown or library.ties or setup.client is not None:
        return None
    weak = partial(Library.weak, words=Vocabulary.of(data), trial_order=0, test_order=MAX_DERIVATIVES)
    own = weak(library)
    lacking = plain_operators(library, data.geometry.names, max(one.derivatives for one in own))
    # one that test functions do not carry is refused before data are read
    made = weak(library.with_operators({f: [*library.of_equation(f), *lacking[f]] for f in lacking}))
    have = {(one.equation, one.monic()[0].key) for one in own}  # ∂²u as ∇²u, u ∂u as ∂u²
    other = {(one.equation, one.text) for one in made if (one.equation, one.monic()[0].key) not in have}
    lacking = {f: [o for o in some if (f, o.source) in other] for f, some in lacking.items()}
    if not any(lacking.values()):
        return None
    kept = {f: [o for o in library.of_equation(f) if o.name in names] for f in library.equations}
    return setup.with_(library=library.with_operators({f: [*kept[f], *lacking[f]] for f in kept}))


def plain_operators(library: Library, axes: Sequence[str], derivatives: int) -> dict[str, list[Operator]]:
    """The plain operators that a library lacks, by equation: what people look for first where one is missing. ::

        1, u_j, u_i u_j, u_i³      ∂_a^m u_i, m ≤ derivatives      ∂_a^m u_i², m ≤ 2, derivatives

    for equation i, all fields j and axes a. Without ∂_a² u² a porous medium at 5% noise was explained by four others
    and consistent in 5 of 5, without 1 a background of the camera in 3 of 5.

    Parameters
    ----------
    derivatives
        Highest order.
    """
    fields, lacking = tuple(library.equations), dict[str, list[Operator]]()
    products = [f"{a}**2" if a == b else f"{a}*{b}" for a, b in combinations_with_replacement(fields, 2)]
    for field in fields:
        slopes = [(axis, m, field) for axis in axes for m in range(1, derivatives + 1)]
        steep = [(axis, m, f"{field}**2") for axis in axes for m in range(1, min(derivatives, _STEEP) + 1)]
        have = {ast.unparse(one.syntax.tree) for one in library.of_equation(field)}
        derived = [f"d{axis}(" * m + of + ")" * m for axis, m, of in (*slopes, *steep)]
        texts = ("1", *fields, *products, f"{field}**3", *derived)
        found = ((text, read(text)) for text in texts)
        lacking[field] = [Operator(text, field, text, one) for text, one in found if ast.unparse(one.tree) not in have]
    return lacking


def variations(setup: Setup) -> tuple[Variation, ...]:
    """Every second frame, every second node, wider tests or the other element, where data are enough.

    Parameters
    ----------
    setup
        As it was used.
    """
    found = [_frames(setup), *_degrees_in_time(setup), _nodes(setup), _poorer_reconstruction(setup)]
    found.append(_wider(setup) if isinstance(setup.tests, SplineTests) else _other_element(setup, setup.tests))
    found.append(_narrower_derivatives(setup))
    return tuple(v for v in found if v is not None and _possible(v.setup))


def _order(setup: Setup) -> float:
    splines = isinstance(setup.tests, SplineTests) and isinstance(setup.stencil, TemporalTests | EachFrame)
    return _SPLINE_ORDER if splines else _ELEMENT_ORDER


def _frames(setup: Setup) -> Variation | None:
    """Every second frame; frames of a steady problem say nothing about one another."""
    if setup.library.steady or any(data.n_times < _FEWEST_TIMES for data in setup.data):
        return None
    return Variation("every second frame", "time", setup.at(_HALF), 2.0, _order(setup))


def _degrees_in_time(setup: Setup) -> list[Variation]:
    """Splines in time of a lower and a higher degree, where frames are too few to leave any out.

    Sums over steps see waves of 1 ± f cycles per step for one of f, with errors that fall as (f/(1 − f))^(p + 1) and
    change their sign with every degree p: the error is at most f times the difference from the lower degree where p is
    odd, as it is but for six frames, where it is up to 2f times.
    """
    stencil, fewest = setup.stencil, min(data.n_times for data in setup.data)
    if not isinstance(stencil, TemporalTests) or (fewest + 1) // 2 >= stencil.degree + 2:
        return []
    lower, higher = (setup.here.with_(stencil=replace(stencil, degree=stencil.degree + step)) for step in (-1, 1))
    cycles = min(max(cycles_between_frames(setup.data, _levels(setup)), _SLOWEST), 0.5)
    return [
        Variation("splines in time of lower degree", "time", lower, 1 + 1 / cycles, 1.0, measured=True),
        Variation("splines in time of higher degree", "time", higher, 0.5, 1.0, ("time",)),
    ]


def _nodes(setup: Setup) -> Variation | None:
    """Every second node along every axis that can spare them."""
    if isinstance(setup.data[0].geometry, Mesh) and not (isinstance(setup.tests, Galerkin) and setup.tests.on):
        found = setup.coarser()
        if found is None or (isinstance(setup.tests, SplineTests) and not _resolves(found[0])):
            return None
        derives = isinstance(setup.tests, SplineTests) and setup.tests.reach is not None
        order = _DERIVATIVE_ORDER if derives else _order(setup)
        return Variation("fewer nodes", "space", found[0], found[1], order)
    halves = [_halved_axes(data) for data in setup.data]
    axes = halves[0]
    if not axes or any(other != axes for other in halves):
        return None
    if isinstance(setup.tests, Galerkin) and setup.tests.on is not None:
        return None
    coarse = setup.at(nodes=dict.fromkeys(axes, _HALF))
    if isinstance(setup.tests, Galerkin) and setup.tests.element == Q2 and not _fills_q2(coarse):
        return None
    return Variation("every second node", "space", coarse, 2.0, _order(setup))


def _resolves(setup: Setup) -> bool:
    """Whether the nodes of meshes would not be refused for a field like this: otherwise what they move says nothing.

    From 300 sensors with 7 nodes per shortest wave a right answer was called under-resolved for what 90 of them moved.
    """
    try:
        resolved(setup.data, _levels(setup))
    except DataError:
        return False
    return True


def _levels(setup: Setup) -> list[dict[str, float]]:
    """Noise by field of every experiment."""
    return [{f: float(np.sqrt(np.mean(v))) for f, v in variance.items()} for variance in setup.variance]


def _halved_axes(data: Data) -> tuple[str, ...]:
    """Axes of a grid that have enough nodes; those of a periodic one must be even in number."""
    grid = data.geometry
    if not isinstance(grid, Grid):
        return ()
    sizes = zip(grid.names, grid.shape, strict=True)
    return tuple(name for name, n in sizes if n >= 2 * _FEWEST_NODES and not (name in grid.periods and n % 2))


def _fills_q2(setup: Setup) -> bool:
    """Whether all data are on grids that Q2 elements fill."""
    return all(isinstance(data.geometry, Grid) and fills_q2(data.geometry) for data in setup.data)


def _wider(setup: Setup) -> Variation | None:
    """Wider test functions in space and time, at the same data."""
    assert isinstance(setup.tests, SplineTests)
    first = setup.data[0]
    tests = scaled_gaps(setup.tests, dict.fromkeys(first.geometry.names, _WIDER), first.geometry)
    stencil = scaled_stencil(setup.stencil, _WIDER, first)
    # derivatives of the data on meshes are no better with wider tests
    derives = setup.tests.reach is not None and not is_uniform(first.geometry)
    changed = {"time": _other_functions(setup.stencil, stencil, first), "space": tests != setup.tests and not derives}
    better = tuple(kind for kind in _KINDS if changed[kind])
    wider = setup.here.with_(tests=tests, stencil=stencil)
    return Variation("wider tests", "width", wider, _WIDER, _order(setup), better) if better else None


def _other_functions(stencil: Stencil, wider: Stencil, data: Data) -> bool:
    """Whether functions in time are really wider: the one of a few frames stays as it is."""
    try:
        own, other = (one.matrices(data.times)[1] for one in (stencil, wider))
    except DataError:
        return stencil != wider  # reported later
    return own.shape != other.shape or bool(abs(own - other).max() > 0)


def _narrower_derivatives(setup: Setup) -> Variation | None:
    """Derivatives of the data fitted over fewer nodes, at the same data: more noise, and less damping."""
    tests, names = setup.tests, setup.data[0].geometry.names
    if not isinstance(tests, SplineTests) or tests.reach is None:
        return None
    uniform = all(is_uniform(data.geometry) for data in setup.data)
    least = float(NARROWEST) if uniform else narrowest_ball(len(names))
    reach = {name: tests.reach_of(name) / _NARROWER for name in names}
    if not uniform and min(reach.values()) < least:  # splines through the nodes
        reach = dict.fromkeys(names, min(0.5 * NO_WINDOW, *map(tests.reach_of, names)))
    elif uniform:
        reach = {name: max(least, own) for name, own in reach.items()}
    if all(reach[name] >= tests.reach_of(name) for name in names):
        return None
    changed = setup.here.with_(tests=replace(tests, reach=reach))
    return Variation("derivatives over fewer nodes", "space", changed, 1 / _NARROWER, _DERIVATIVE_ORDER, ("space",))


def _poorer_reconstruction(setup: Setup) -> Variation | None:
    """Polynomials of one degree less between nodes that are not a uniform grid.

    From 150 sensors, without noise, the bias with degree 4 was 0.35 standard deviations, the difference from degree 3
    0.4, and from degree 2 1.0; with 300 and degree 3 the bias is 0.12.
    """
    tests = setup.tests
    if not isinstance(tests, SplineTests) or all(is_uniform(data.geometry) for data in setup.data):
        return None
    degree = tests.reconstruction or USUAL_RECONSTRUCTION
    if degree == RECONSTRUCTIONS[0]:
        return None
    lower = setup.here.with_(tests=replace(tests, reconstruction=degree - 1))
    return Variation("reconstruction of lower degree", "space", lower, 2.0, _ELEMENT_ORDER, whole=True)


def _other_element(setup: Setup, tests: Galerkin) -> Variation | None:
    """Q1 for Q2 and the other way round, on grids; on meshes spline tests."""
    if all(isinstance(data.geometry, Mesh) for data in setup.data):
        return _splines_instead(setup)
    if not all(isinstance(data.geometry, Grid) for data in setup.data) or tests.on is not None:
        return None
    element = tests.element_for(setup.data[0].geometry)
    if element not in (Q1, Q2):
        return None
    other = Q1 if element == Q2 else Q2
    if other == Q2 and not _fills_q2(setup):
        return None
    changed = setup.here.with_(tests=replace(tests, element=other))
    better: tuple[Kind, ...] = ("space",) if other == Q2 else ()
    return Variation(f"{other.name} elements", "width", changed, 2.0, _order(setup), better)


def _splines_instead(setup: Setup) -> Variation | None:
    """Spline tests at the nodes of meshes, with the same stencil and weights."""
    words = Vocabulary.of(setup.data[0])
    if setup.library.obstacle(words, trial_order=0, test_order=MAX_DERIVATIVES):
        return None
    operators = setup.library.weak(words, trial_order=0, test_order=MAX_DERIVATIVES)
    if any(operator.on_data for operator in operators):
        return None
    try:
        g = resolved(setup.data, _levels(setup))
        splines, _ = background_tests(setup.data, _levels(setup), on_tests(operators), g, steady=setup.library.steady)
    except DataError:  # too few nodes
        return None
    return Variation("spline tests", "width", setup.here.with_(tests=splines), 2.0, _ELEMENT_ORDER, ("space",))


def _possible(setup: Setup) -> bool:
    """Whether there are a few test functions left along every axis."""
    for data in setup.data:
        try:
            setup.stencil.matrices(data.times)
        except DataError:
            return False
        if isinstance(setup.tests, SplineTests) and not (_fits(setup.tests, data) and _seen(setup, data)):
            return False
    return True


def _fits(tests: SplineTests, data: Data) -> bool:
    """Whether splines as wide as these fit onto the axes without being narrowed."""
    grid = data.geometry
    if not isinstance(grid, Grid) or not is_uniform(grid):
        return bool(tests.count(grid) >= _FEWEST**grid.dim)
    for name, n in zip(grid.names, grid.shape, strict=True):
        pieces = (n - (name not in grid.periods)) / tests.gap_of(name)
        spare = 0 if name in grid.periods else _FEWEST - 1
        if tests.degree is not None and round(pieces) < tests.degree + 1 + spare:
            return False
    return True


def _seen(setup: Setup, data: Data) -> bool:
    """Whether enough functions touch no missing value."""
    tests, stencil = setup.tests, setup.stencil
    assert isinstance(tests, SplineTests)
    if data.measured is None or tests.degree is None or not is_uniform(data.geometry):
        return True
    if not isinstance(stencil, TemporalTests | EachFrame):
        return True
    in_time = stencil if isinstance(stencil, TemporalTests) else None
    return count_in_mask(data, tests, in_time, tests.degree) >= WIDTHS.least**2
