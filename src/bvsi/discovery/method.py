"""How an equation is looked for: test functions in space and time, weights, selection, estimator.

What the user leaves open is chosen from the data: spline tests with all correlations, elements where data are few.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import bvsi.infer
import bvsi.likelihood
import bvsi.residual
import bvsi.select
import bvsi.spaces
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid
from bvsi.data.smoothness import jumps
from bvsi.errors import BvsiError, DataError, RankError
from bvsi.infer import NUTS, SVGD, Lagged, LeastSquares, Maximum, Profile
from bvsi.infer.fit import misfit_excess
from bvsi.infer.starts import Starts
from bvsi.likelihood import Block, ResidualLikelihood, Stacked, Tiles, Weighting
from bvsi.noise import Covariance, Noise, UnknownScale
from bvsi.noise.correlation import correlated, shape_of, without_blur
from bvsi.noise.measurement import Measurement, cycles_of
from bvsi.operators import Biharmonic, Library, Vocabulary
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, EachFrame, Stencil, TemporalTests
from bvsi.residual.assembly import Discretisation, biharmonic_treatments, on_tests
from bvsi.residual.background_widths import BACKGROUND, WAVE, background_tests, ball_reach, enough_tests, resolved
from bvsi.residual.layout import count_in_mask, known_fields
from bvsi.residual.stencils import evenly_spaced
from bvsi.residual.thinning import THINNING
from bvsi.residual.widths import (
    FEW_FRAMES,
    FEWEST_FRAMES,
    SLOW,
    WIDTHS,
    choose_tests,
    cycles_between_frames,
    derivative_reach,
    residual_counts,
)
from bvsi.select import Backward, BestSubset, ResidualBIC, SelectionPath, Sweep
from bvsi.setup import Setup
from bvsi.spaces import H3, P1, P2, Q1, Q2, Element, Galerkin, SplineTests, is_uniform
from bvsi.spaces.galerkin import fills_q2
from bvsi.spaces.spline_tests import MAX_DERIVATIVES

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator

Selection = Backward | Sweep | BestSubset
Estimator = Profile | Lagged | Maximum | SVGD | NUTS

# Nodes along an axis from which on splines have enough to stand on; not measured.
_NODES = 16

# Residuals of a tile on a line, where there are tiles from twice as many on: one factor of 18,000 residuals took as
# long as nine of 6,000 with what they share.
_LINE = 9000
# Numbers of a banded factor of one tile, 0.8 GB. Of KS 256 × 3001, 150,000 residuals, see docs/performance.md.
_BANDED = 1e8
# The same in two and three dimensions, where tiles are a partition: on λ–ω data of 2 × 64² × 51 values they lose 2 to
# 9% of the precision of tiles that overlap, at less than half of the work; those of 1,500 lose 15 to 27%.
_TILE = 3000
# Noise relative to the root mean square of a field from which on test functions may reach the ends: with 0.01% of it
# χ²/n was 2.2 on 20 × 17 values of the heat equation, with 1% in a boundary layer one.
_LOUD = 0.005
# Residuals for each candidate below which functions reach the ends from the beginning. With five, among 378 candidates
# for the nonlinear Schrödinger equation at 50% noise (seed 7191), the search was lost at χ²/n = 2.3 for 125 CPU
# seconds, before functions at the ends found the equation in seven.
_PER_CANDIDATE = 10
# Part by which tiles make error bars wider, on KS 512 × 160 and on these data.
_LOST = {True: "9 to 16%", False: "2 to 9%"}
# Times as many residuals as are used from which on the reason says that the spectrum asks for more; not measured.
_FEWER = 1.2

# Models of one size and equation that are looked at in a series: all of four operators among the twenty monomials of
# three fields to degree three. With 600, of two, a Lorenz trajectory around one of its fixed points was explained by
# eleven operators.
_SERIES = 5000

_ORDERS = {1: "first", 2: "second"}
# Parts of the left side: an order of which all candidates leave the first unexplained, where they leave less than the
# second of the other, is not searched. Elastic waves: 94% of the first order, 0.01% of the second; searching the first
# took 76 of 84 CPU seconds.
_NEXT_TO_ALL, _NEXT_TO_NONE = 0.5, 0.005

_ELEMENTS: dict[str, Element] = {"P1": P1, "P2": P2, "Q1": Q1, "Q2": Q2, "H3": H3}


# What each part of a method may be, as a type and in words.
_PARTS: dict[str, tuple[Any, str]] = {
    "tests": (SplineTests | Galerkin, "SplineTests() or Galerkin()"),
    "stencil": (
        TemporalTests | BackwardEuler | CrankNicolson | BDF2 | EachFrame,
        "TemporalTests(), BackwardEuler(), CrankNicolson() or BDF2()",
    ),
    "weighting": (Weighting, "Stacked(), Tiles() or Block()"),
    "selection": (Selection, "BestSubset(), Sweep() or Backward()"),
    "estimator": (Estimator, "Profile(), Lagged(), Maximum(), SVGD() or NUTS()"),
}


@dataclass(frozen=True, repr=False)
class Method:
    """How an equation is looked for; None leaves a choice to the data.

    Parameters
    ----------
    tests
        ``SplineTests()`` or ``Galerkin()``; by default spline tests, and elements where data are too few for them: Q2
        where the grid has whole Q2 elements, else Q1, and on meshes their own degree.
    stencil
        By default temporal test functions with spline tests, Crank–Nicolson with elements.
    weighting
        By default ``Stacked()`` with spline tests, ``Tiles()`` where residuals are many, ``Block()`` with elements.
    selection
        By default ``BestSubset()`` with stacked weighting, else ``Sweep()``, elimination with the Wald criterion on the
        quadratic model of the misfit; ``Backward()`` refits at every step.
    estimator
        For the posterior of the selected model; by default the profile estimator.
    """

    tests: Discretisation | None = None
    stencil: Stencil | None = None
    weighting: Weighting | None = None
    selection: Selection | None = None
    estimator: Estimator | None = None

    def __post_init__(self) -> None:
        for name, (kinds, wanted) in _PARTS.items():
            if not isinstance(part := getattr(self, name), kinds | None):
                raise BvsiError(f"{name}: {wanted} is needed, not {part!r}.")

    def __repr__(self) -> str:
        return _text(self)

    @staticmethod
    def read(text: str) -> Method:
        """The method that prints so; only the classes of methods and plain values are understood."""
        try:
            made = _value(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, TypeError) as error:
            raise BvsiError(f"method: {text!r} is not understood: {error}") from None
        if not isinstance(made, Method):
            raise BvsiError(f"method: {text!r} is not a Method(...).")
        return made


def Paper() -> Method:
    """The paper's algorithm: backward Euler, Galerkin, block weights, lagged covariance, elimination by its BIC."""
    return Method(Galerkin(), BackwardEuler(), Block(), Backward(ResidualBIC(), patience=0), Lagged())


def _text(value: Any) -> str:
    """A record as an expression that makes it again; fields with their default values are left out."""
    for name, element in _ELEMENTS.items():
        if value == element:
            return name
    if not dataclasses.is_dataclass(value):
        return repr(value)
    given = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if not _is_default(value, f)]
    return f"{type(value).__name__}({', '.join(f'{name}={_text(one)}' for name, one in given)})"


def _is_default(record: Any, field: dataclasses.Field[Any]) -> bool:
    value = getattr(record, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return field.default is not dataclasses.MISSING and bool(value == field.default)


def _value(node: ast.expr) -> Any:
    """What an expression of :func:`_text` stands for."""
    if isinstance(node, ast.Name) and node.id in _ELEMENTS:
        return _ELEMENTS[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        made = _class(node.func.id)
        return made(**{str(keyword.arg): _value(keyword.value) for keyword in node.keywords})
    return ast.literal_eval(node)


def _class(name: str) -> Any:
    """A record of this package that a method is made of."""
    if name == "Method":
        return Method
    for package in (bvsi.spaces, bvsi.residual, bvsi.likelihood, bvsi.select, bvsi.infer):
        found = getattr(package, name, None)
        if isinstance(found, type) and dataclasses.is_dataclass(found):
            return found
    raise ValueError(f"no part of a method is called {name}")


@dataclass(frozen=True, eq=False)
class Choice:
    """The method that is used, nothing left open; the setup that it makes of data and library; why, in words."""

    method: Method
    setup: Setup
    reason: str


def thresholds(chosen: Choice) -> dict[str, str]:
    """The records of thresholds that a method used, by what they decide, beside those of noise and check."""
    method, setup = chosen.method, chosen.setup
    found = {"starts": repr(getattr(method.estimator, "starts", Starts()))}
    if isinstance(method.tests, SplineTests):
        uniform = all(is_uniform(data.geometry) for data in setup.data)
        found["widths"] = repr(WIDTHS if uniform else BACKGROUND)
        if uniform and not any(map(correlated, setup.noise)):
            found["thinning"] = repr(THINNING)
    return found


def choose_method(measured: Sequence[Measurement], library: Library, asked: Method | None = None) -> Choice:
    """Splines where the grid, the number of times and the operators allow them; what was asked for goes first."""
    return _choice(measured, library, *_chosen(measured, library, asked or Method()))


def _choice(measured: Sequence[Measurement], library: Library, method: Method, reason: str) -> Choice:
    assert method.tests is not None
    assert method.stencil is not None
    assert method.weighting is not None
    noise: list[Noise] = [m.noise for m in measured]
    if isinstance(method.tests, Galerkin) and all(m.error for m in measured):
        # filters give the shape of the noise, and the fit its level; elements do not know a kernel
        noise = [UnknownScale(without_blur(model)) for model in noise]
    data, variance = tuple(m.data for m in measured), tuple(m.variance for m in measured)
    setup = Setup(data, tuple(noise), variance, library, method.tests, method.stencil, method.weighting)
    return Choice(method, setup, reason)


def _chosen(measured: Sequence[Measurement], library: Library, asked: Method) -> tuple[Method, str]:
    experiments = [m.data for m in measured]
    if isinstance(asked.tests, Galerkin):
        return _elements(experiments, library, asked), "elements, as asked for"
    if isinstance(asked.tests, SplineTests):
        return _splines(measured, library, asked, "spline tests, as asked for")
    if asked.stencil is not None and not isinstance(asked.stencil, TemporalTests | EachFrame):
        return _elements(experiments, library, asked), f"elements, to go with {type(asked.stencil).__name__}()"
    if asked.weighting is not None and asked.weighting.uses_noise and not asked.weighting.couples_blocks:
        return _elements(experiments, library, asked), "elements, to go with Block() weighting"
    if obstacle := spline_obstacle_of(experiments, library):
        if not experiments[0].geometry.names:
            _on_splines(experiments[0], library)  # an impossible operator is reported by itself
            raise DataError(f"times: {obstacle}; give more samples, or averages over equal steps of time.")
        return _elements(experiments, library, asked), f"elements: {obstacle}"
    on_data = _on_data(experiments[0], library)
    if on_data and any(isinstance(shape_of(m.noise), Covariance) for m in measured):
        obstacle = f"{on_data} would need derivatives of the data, whose noise is not independent"
        return _elements(experiments, library, asked), f"elements: {obstacle}"
    reason = "spline tests" if on_data else "spline tests: all derivatives go onto them"
    try:
        return _splines(measured, library, asked, reason)
    except DataError as problem:  # too few nodes
        if not library.declares_boundary:
            raise
        return _elements(experiments, library, asked), f"elements, which know the boundary conditions: {problem}"


def _on_data(data: Data, library: Library) -> str:
    """Names of the operators that take derivatives of the data with spline tests."""
    return ", ".join(o.name for o in _on_splines(data, library) if o.on_data)


def spline_obstacle_of(experiments: Sequence[Data], library: Library) -> str:
    """Why spline tests in space and time cannot be used; empty where they can."""
    for data in experiments:
        if not library.steady and (obstacle := _frames_obstacle(data)):
            return obstacle
        if isinstance(grid := data.geometry, Grid) and is_uniform(grid) and min(grid.shape, default=_NODES) < _NODES:
            return f"spline tests need {_NODES} nodes along every axis, and one has {min(grid.shape)}"
    words = _vocabulary(experiments[0])
    reason = library.obstacle(words, trial_order=0, test_order=MAX_DERIVATIVES)
    return f"spline tests cannot carry the derivatives ({reason})" if reason else ""


def _frames_obstacle(data: Data) -> str:
    """Why there can be no spline tests in time; empty where there can."""
    if len(data.times) < FEWEST_FRAMES:
        return f"spline tests in time need {FEWEST_FRAMES} frames, and there are {len(data.times)}"
    return ""


def takes_high_orders(data: Data) -> bool:
    """Whether third and fourth derivatives may be proposed: spline tests that carry them fit between the nodes."""
    left = "1" if data.n_times == 1 else None
    if spline_obstacle_of([data], Library({data.names[0]: [data.names[0]]}, left=left)):
        return False
    return is_uniform(data.geometry) or enough_tests(data.geometry, 4)


def _on_splines(data: Data, library: Library) -> tuple[WeakOperator, ...]:
    return library.weak(_vocabulary(data), trial_order=0, test_order=MAX_DERIVATIVES)


def _vocabulary(data: Data) -> Vocabulary:
    return Vocabulary.of(data)


def _splines(measured: Sequence[Measurement], library: Library, asked: Method, reason: str) -> tuple[Method, str]:
    """The method, and the reason with what test functions wider than the spectrum asks for leave of the residuals."""
    experiments = [m.data for m in measured]
    operators, sigma = _on_splines(experiments[0], library), [m.sigma for m in measured]
    equations = len({operator.equation for operator in operators})
    uniform, wanted, g = all(is_uniform(data.geometry) for data in experiments), 0.0, 0.0
    if uniform:
        cycles = cycles_of(measured, steady=library.steady)
        seen = [_away_from_jumps(data, operators) for data in experiments]
        plain = all(m.blur is None and not m.bridged and m.data.measured is None for m in measured)
        ends = max(library.orders) if isinstance(asked.tests, SplineTests) and asked.tests.ends else None
        space, time, wanted = choose_tests(
            seen, sigma, on_tests(operators), equations, cycles, narrow=plain, ends=ends, order=max(library.orders)
        )
        if waves := [1 / f for name, f in (cycles or {}).items() if name != "time"]:
            reason = f"{reason}; {_waves_text(*waves)}"
    else:
        g = resolved(experiments, sigma)
        space, time = background_tests(experiments, sigma, on_tests(operators), g, steady=library.steady)
        reason = f"{reason}; {_waves_text(g / WAVE)}"
    given = asked.tests if isinstance(asked.tests, SplineTests) else SplineTests()
    tests = dataclasses.replace(
        given,
        gap=given.gap or space.gap,
        degree=given.degree or space.degree,
        reconstruction=given.reconstruction or space.reconstruction,
    )
    if on_data := _on_data(experiments[0], library):
        reach = given.reach or (
            derivative_reach(experiments, sigma) if uniform else ball_reach(experiments, sigma, g, on_data)
        )
        tests = dataclasses.replace(tests, reach=reach)
        how = tests.derivatives_text(experiments[0].geometry)
        reason = f"{reason}, with derivatives of the data for {on_data} by {how}"
    weighting: Weighting = Stacked()
    if uniform:
        gaps = {name: tests.gap_of(name) for name in experiments[0].geometry.names}
        gaps |= {} if time is None else {"time": time.gap}
        masked = any(data.measured is not None for data in experiments)
        used = residual_counts(gaps, experiments, equations)
        if masked and tests.degree is not None:  # those that touch no missing value
            used = [equations * count_in_mask(data, tests, time, tests.degree) for data in experiments]
        elif tests.ends:
            used = [float(equations * _functions(data, tests, time, operators)) for data in experiments]
        line = experiments[0].geometry.dim == 1
        if asked.weighting is None and max(used) > 2 * (_LINE if line else _TILE):
            long = experiments[int(np.argmax(used))]
            rows = _LINE if library.longest_lag else _rows(long, max(used), tests, time)  # Σ of delays has no bands
            weighting = Tiles(rows) if line else Tiles(_TILE, shared=0.0)
            if max(used) > weighting.rows:
                reason += f"; {sum(used):.0f} residuals in tiles, with error bars that are {_LOST[line]} wider"
        if wanted > _FEWER * sum(used) and not masked:
            told = (
                f"the spectrum asks for {wanted:.0f} residuals; test functions are wider, and {sum(used):.0f} are "
                f"used, with error bars that may be up to {np.sqrt(wanted / sum(used)):.2g} times as wide"
            )
            reason = f"{reason}; {told}"
    if library.longest_lag and asked.weighting is not None and not asked.weighting.couples_blocks:
        raise BvsiError(f"weighting: lag(...) couples times; {asked.weighting!r} does not, Stacked() and Tiles() do.")
    if not experiments[0].geometry.dim and asked.selection is None:
        asked = dataclasses.replace(asked, selection=BestSubset(by_equation=_SERIES))
    return _complete(asked, tests, asked.stencil or time or EachFrame(), asked.weighting or weighting), reason


def _rows(data: Data, used: float, tests: SplineTests, time: TemporalTests | None) -> float:
    """Residuals of a tile on a line; where times are many, those whose factor, banded in time, may be kept."""
    if time is None or tests.degree is None:
        return _LINE
    blocks = time.splines(data.times).n
    below = time.degree * used / blocks
    return max(_LINE, _BANDED / (below + used / blocks)) if below < (tests.degree + 1) * blocks else _LINE


def _functions(data: Data, tests: SplineTests, time: TemporalTests | None, operators: tuple[WeakOperator, ...]) -> int:
    """Test functions in space and time."""
    in_space = tests.build(data.geometry, 0, on_tests(operators)).n_tests
    return in_space * (data.n_times if time is None else time.splines(data.times).n)


def to_the_ends(
    measured: Sequence[Measurement], library: Library, asked: Method | None, chosen: Choice
) -> Choice | None:
    """Another choice, with test functions that reach the ends of the axes; None where that cannot be, or is so.

    They see more of the data. Their quadrature is exact to sixth order only, so that data must vary slowly; noise must
    be independent and values there, since narrow functions see how well the noise is known.
    """
    asked, tests = asked or Method(), chosen.setup.tests
    left_to_us = asked == Method(selection=asked.selection, estimator=asked.estimator)
    if not left_to_us or not isinstance(tests, SplineTests) or tests.ends:
        return None
    values = sum(len(m.data.fields) * m.data.n_nodes * m.data.n_times for m in measured)
    plain = all(m.blur is None and not m.bridged and m.data.measured is None and not m.noise_free for m in measured)
    even = all(is_uniform(m.data.geometry) for m in measured)
    even = even and (library.steady or all(evenly_spaced(m.data.times) for m in measured))
    if values > THINNING.values or not (plain and even) or library.longest_lag:
        return None
    if not (all(map(_loud, measured)) and _slow(measured, library)):  # these go through the data
        return None
    further = dataclasses.replace(asked, tests=SplineTests(ends=True))
    return _choice(
        measured, library, *_splines(measured, library, further, "spline tests: some reach the ends of the axes")
    )


def _loud(one: Measurement) -> bool:
    """Whether noise hides what the sixth order leaves; with less of it there is no lack of information either."""
    sizes = {name: float(np.sqrt(np.mean(np.square(u)))) for name, u in one.data.fields.items()}
    return all(sigma >= _LOUD * sizes[name] for name, sigma in one.sigma.items() if name in sizes)


def _slow(measured: Sequence[Measurement], library: Library) -> bool:
    """Whether the data vary slowly along the axes with ends."""
    closed = {name for m in measured if isinstance(m.data.geometry, Grid) for name in m.data.geometry.periods}
    found = [f for name, f in (cycles_of(measured, steady=library.steady) or {}).items() if name not in closed]
    if not library.steady and min(m.data.n_times for m in measured) < FEW_FRAMES:
        found.append(cycles_between_frames([m.data for m in measured], [m.sigma for m in measured]))
    return max(found, default=0.0) <= SLOW


def wide(chosen: Choice) -> bool:
    """Whether the functions that do not hang over the ends see little of the data, or too little for the candidates."""
    setup, kept = chosen.setup, 1.0
    if not (isinstance(setup.tests, SplineTests) and setup.tests.degree and is_uniform(setup.data[0].geometry)):
        return False
    grid, gaps = setup.data[0].geometry, {name: setup.tests.gap_of(name) for name in setup.data[0].geometry.names}
    assert isinstance(grid, Grid)
    for name, n in zip(grid.names, grid.shape, strict=True):
        if name not in grid.periods:
            kept *= 1 - (setup.tests.degree + 1) * setup.tests.gap_of(name) / n
    if isinstance(setup.stencil, TemporalTests):
        gaps["time"] = setup.stencil.gap
        kept *= 1 - (setup.stencil.degree + 1) * setup.stencil.gap / setup.data[0].n_times
    residuals = kept * sum(residual_counts(gaps, setup.data, len(setup.library.equations)))
    return kept < WIDTHS.kept or residuals < _PER_CANDIDATE * len(setup.library.names)


def _away_from_jumps(data: Data, operators: tuple[WeakOperator, ...]) -> Data:
    """The data as if nodes where a known field jumps were not measured, for the widths of test functions."""
    found = jumps(data, known_fields(operators))
    if found is None:
        return data
    every = np.ones((data.n_times, data.n_nodes), dtype=bool)
    measured = data.measured or dict.fromkeys(data.names, every)
    return dataclasses.replace(data, measured={name: mask & ~found for name, mask in measured.items()})


def _elements(experiments: Sequence[Data], library: Library, asked: Method) -> Method:
    # difference stencils have first time derivatives only
    usual = EachFrame() if library.steady else CrankNicolson() if library.orders == (1,) else TemporalTests()
    stencil = asked.stencil or usual
    weighting = asked.weighting or (Stacked() if isinstance(asked.selection, BestSubset) else Block())
    return _complete(asked, asked.tests or default_discretisation(experiments), stencil, weighting)


def _complete(asked: Method, tests: Discretisation, stencil: Stencil, weighting: Weighting) -> Method:
    selection = asked.selection or (BestSubset() if weighting.couples_blocks else Sweep())
    return Method(tests, stencil, weighting, selection, asked.estimator or Profile())


def default_discretisation(experiments: Sequence[Data]) -> Galerkin:
    """Q2 on grids whose axes all have whole pairs of cells, else Q1; on meshes the element that the nodes make."""
    grids = [data.geometry for data in experiments if isinstance(data.geometry, Grid)]
    if len(grids) < len(experiments):
        return Galerkin()
    return Galerkin(Q2 if all(map(fills_q2, grids)) else Q1)


@dataclass(frozen=True)
class TreatmentCheck:
    """χ²/n of the whole library by treatment of ∇⁴; the first is the one used. Empty where there is no choice."""

    chi2: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        if not self.chi2:
            return "no choice"
        (used, first), *others = self.chi2
        rest = "; ".join(f"{name}: {chi2:.4g}" for name, chi2 in others)
        return f"{used}, with χ²/n = {first:.4g} for all operators; {rest}"


def treatments(library: Library, element: Element) -> tuple[Biharmonic, ...]:
    """Treatments of ∇⁴ that the element allows, where the library leaves it open."""
    return biharmonic_treatments(library, element) if library.biharmonic is None else ()


def with_treatment(setup: Setup, progress: Progress = silent) -> tuple[Setup, TreatmentCheck]:
    """The setup with the treatment of ∇⁴ that fits better, where elements and library leave a choice.

    Both are fitted with all operators.
    """
    if not isinstance(setup.tests, Galerkin) or not setup.weighting.uses_noise:
        return setup, TreatmentCheck()
    options = treatments(setup.library, setup.tests.element_for(setup.data[0].geometry))
    if len(options) < 2:
        return setup, TreatmentCheck()
    found = []
    for treatment in options:
        candidate = setup.with_(library=setup.library.with_(biharmonic=treatment))
        try:
            fit = Profile().fit(candidate.likelihood(progress=progress), progress=progress)
        except RankError:  # reported where the library is fitted; the comparison has nothing to add
            return setup, TreatmentCheck()
        # with unknown noise χ²/n is one for both, and the noise level distinguishes them
        found.append((fit.equations.q / fit.equations.n, treatment.name, candidate))
    found.sort(key=lambda entry: entry[0])
    return found[0][2], TreatmentCheck(tuple((name, chi2) for chi2, name, _ in found))


Selected = tuple[Setup, ResidualLikelihood, SelectionPath, str]
"""Setup with one order, likelihood of all its operators, what was selected, and why in words."""


def selected_order(
    setup: Setup, select: Callable[[ResidualLikelihood], SelectionPath], progress: Progress = silent
) -> Selected:
    """The selection of the better order of the time derivative of a library that leaves it open.

    Both are selected from the same data with the same test functions. The first order is taken where noise explains its
    misfit: the other follows from it, as u_tt = D² ∇⁴u from u_t = D ∇²u. Otherwise the lower χ²/n decides. An order of
    which all candidates together explain next to nothing, where they explain the other, is not searched.
    """
    orders = setup.library.orders
    found: list[tuple[float, int, Selected]] = []
    wholes: dict[int, tuple[Setup, ResidualLikelihood]] = {}
    failed, others = list[BvsiError](), list[str]()
    for order in orders:
        ordered = setup.with_(library=setup.library.with_(time_order=order))
        try:
            wholes[order] = ordered, ordered.likelihood(progress=progress)
        except BvsiError as error:
            failed.append(error)
    left = {order: _unexplained(whole) for order, (_, whole) in wholes.items()}
    for order, (ordered, whole) in wholes.items():
        if left[order] > _NEXT_TO_ALL and min(left.values()) < _NEXT_TO_NONE:
            others.append(f"of the {_ORDERS[order]} order all candidates leave {100 * left[order]:.0f}% unexplained")
            continue
        try:
            path = select(whole)
        except BvsiError as error:
            failed.append(error)
            continue
        found.append((_misfit(path, whole), order, (ordered, whole, path, "")))
    if not found:
        raise failed[0]
    first = found[0]
    explained = first[1] == orders[0] and first[2][1].scale_known and not misfit_excess(first[0], first[2][1].n)
    chi2, order, best = first if explained else min(found, key=lambda one: one[0])
    others += [f"{_ORDERS[other]} order: {value:.4g}" for value, other, _ in found if other != order]
    others += [f"the other cannot be fitted: {error}" for error in failed]
    return (*best[:3], f"{_ORDERS[order]} order, with χ²/n = {chi2:.4g}; {'; '.join(others)}")


def _unexplained(whole: ResidualLikelihood) -> float:
    """‖y − Xθ‖²/‖y‖² of least squares with all operators; one where they cannot be distinguished."""
    try:
        theta = LeastSquares().fit(whole).theta
    except RankError:
        return 1.0
    left, all_of_it = (whole.unweighted().normal_equations(one).q for one in (theta, np.zeros(whole.d)))
    return float(left / all_of_it) if all_of_it else 1.0


def _misfit(path: SelectionPath, whole: ResidualLikelihood) -> float:
    """χ²/n of the selected model; with an unknown level of the noise its square in units of the model."""
    fit = path.best.fit
    if fit is not None:
        return fit.equations.q / fit.equations.n
    theta = dict(zip(path.best.names, path.best.theta, strict=True))
    equations = whole.normal_equations(whole.system.vector([theta.get(name, 0.0) for name in whole.names]))
    return equations.q / equations.n


def _waves_text(*nodes: float) -> str:
    """How finely the field is sampled, along all axes or each, in words."""
    return f"{' × '.join(f'{n:.2g}' for n in nodes)} nodes per shortest wave of the data"
