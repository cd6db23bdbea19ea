"""How an equation is looked for: test functions in space and time, weights, selection, estimator.

What the user leaves open is chosen from the data: spline tests with all correlations on grids, elements elsewhere.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import bvsi.infer
import bvsi.likelihood
import bvsi.residual
import bvsi.select
import bvsi.spaces
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError, RankError
from bvsi.infer import NUTS, SVGD, Lagged, Maximum, Profile
from bvsi.likelihood import Block, Stacked, Weighting
from bvsi.noise import Noise, UnknownScale
from bvsi.noise.measurement import Measurement
from bvsi.operators import Biharmonic, Library, Vocabulary
from bvsi.residual import BackwardEuler, CrankNicolson, Stencil, TemporalTests
from bvsi.residual.assembly import Discretisation, biharmonic_treatments, on_tests
from bvsi.residual.widths import TIME_DEGREE, choose_tests
from bvsi.select import Backward, BestSubset, ResidualBIC, Sweep
from bvsi.setup import Setup
from bvsi.spaces import H3, P1, P2, Q1, Q2, Element, Galerkin, SplineTests, spline_obstacle
from bvsi.spaces.galerkin import fills_q2
from bvsi.spaces.spline_tests import MAX_DERIVATIVES

Selection = Backward | Sweep | BestSubset
Estimator = Profile | Lagged | Maximum | SVGD | NUTS

# Times, and nodes along an axis, from which on splines have enough to stand on.
_TIMES = TIME_DEGREE + 4
_NODES = 16  # not measured
# Steps within this part of the typical one are even; the longest step, in typical ones, of frames that mostly are not.
_EVEN, _LONG = 0.01, 2.5

_ELEMENTS: dict[str, Element] = {"P1": P1, "P2": P2, "Q1": Q1, "Q2": Q2, "H3": H3}


@dataclass(frozen=True, repr=False)
class Method:
    """How an equation is looked for; None leaves a choice to the data.

    Parameters
    ----------
    tests
        ``SplineTests()`` or ``Galerkin()``; by default spline tests on uniform grids, where no operator needs a
        derivative of the data, else elements: Q2 where the grid has whole Q2 elements, else Q1, and on meshes their own
        degree.
    stencil
        By default temporal test functions with spline tests, Crank–Nicolson with elements.
    weighting
        By default ``Stacked()`` with spline tests, ``Block()`` with elements.
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
        if self.estimator is not None and not isinstance(self.estimator, Estimator):
            raise BvsiError(
                f"estimator: Profile(), Lagged(), Maximum(), SVGD() or NUTS() is needed, not {self.estimator!r}."
            )
        if isinstance(self.selection, BestSubset) and self.weighting is not None and not self.weighting.couples_blocks:
            raise BvsiError("selection: BestSubset() needs Stacked() weighting; use Sweep().")

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
            raise BvsiError(f"method: {text!r} is no Method(...).")
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


def choose_method(measured: Sequence[Measurement], library: Library, asked: Method | None = None) -> Choice:
    """Splines where the grid, the number of times and the operators allow them; what was asked for goes first."""
    method, reason = _chosen(measured, library, asked or Method())
    assert method.tests is not None
    assert method.stencil is not None
    assert method.weighting is not None
    noise: list[Noise] = [m.noise for m in measured]
    if isinstance(method.tests, Galerkin) and all(m.error for m in measured):
        noise = [UnknownScale(model) for model in noise]  # filters give the shape of the noise, and the fit its level
    data, variance = tuple(m.data for m in measured), tuple(m.variance for m in measured)
    setup = Setup(data, tuple(noise), variance, library, method.tests, method.stencil, method.weighting)
    return Choice(method, setup, reason)


def _chosen(measured: Sequence[Measurement], library: Library, asked: Method) -> tuple[Method, str]:
    experiments = [m.data for m in measured]
    if isinstance(asked.tests, Galerkin):
        return _elements(experiments, library, asked), "elements, as asked for"
    if isinstance(asked.tests, SplineTests):
        return _splines(measured, library, asked), "spline tests, as asked for"
    if asked.stencil is not None and not isinstance(asked.stencil, TemporalTests):
        return _elements(experiments, library, asked), f"elements, to go with {type(asked.stencil).__name__}()"
    if asked.weighting is not None and asked.weighting.uses_noise and not asked.weighting.couples_blocks:
        return _elements(experiments, library, asked), "elements, to go with Block() weighting"
    if obstacle := spline_obstacle_of(experiments, library):
        return _elements(experiments, library, asked), f"elements: {obstacle}"
    return _splines(measured, library, asked), "spline tests: a uniform grid, and all derivatives go onto them"


def spline_obstacle_of(experiments: Sequence[Data], library: Library) -> str:
    """Why spline tests in space and time cannot be used; empty where they can."""
    for data in experiments:
        if reason := spline_obstacle(data.geometry):
            return reason
        assert isinstance(data.geometry, Grid)
        steps = np.diff(data.times) / np.median(np.diff(data.times))
        if np.mean(np.abs(steps - 1) < _EVEN) < 0.5 and steps.max() > _LONG:
            return "spline tests in time need frames that are more evenly spaced"
        if len(data.times) < _TIMES:
            return f"spline tests in time need {_TIMES} frames, and there are {len(data.times)}"
        if min(data.geometry.shape) < _NODES:
            return f"spline tests need {_NODES} nodes along every axis, and one has {min(data.geometry.shape)}"
    words = _vocabulary(experiments[0])
    reason = library.obstacle(words, trial_order=0, test_order=MAX_DERIVATIVES)
    return f"spline tests take no derivative of the data ({reason})" if reason else ""


def takes_splines(data: Data) -> bool:
    """Whether the data allow spline tests, whatever the operators."""
    return not spline_obstacle_of([data], Library({data.names[0]: [data.names[0]]}))


def _derivatives(data: Data, library: Library) -> int:
    """Highest derivative that the operators put on a spline along one axis."""
    return on_tests(library.weak(_vocabulary(data), trial_order=0, test_order=MAX_DERIVATIVES))


def _vocabulary(data: Data) -> Vocabulary:
    return Vocabulary(data.geometry.names, data.names, tuple(data.auxiliary))


def _splines(measured: Sequence[Measurement], library: Library, asked: Method) -> Method:
    experiments = [m.data for m in measured]
    space, time = choose_tests(experiments, [m.sigma for m in measured], _derivatives(experiments[0], library))
    given = asked.tests if isinstance(asked.tests, SplineTests) else SplineTests()
    tests = dataclasses.replace(given, gap=given.gap or space.gap, degree=given.degree or space.degree)
    return _complete(asked, tests, asked.stencil or time, asked.weighting or Stacked())


def _elements(experiments: Sequence[Data], library: Library, asked: Method) -> Method:
    # difference stencils have first time derivatives only
    stencil = asked.stencil or (CrankNicolson() if library.time_order == 1 else TemporalTests())
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
        candidate = setup.with_(library=setup.library.with_biharmonic(treatment))
        try:
            fit = Profile().fit(candidate.likelihood(progress=progress), progress=progress)
        except RankError:  # told where the library is fitted; the comparison has nothing to say
            return setup, TreatmentCheck()
        # with unknown noise χ²/n is one for both, and the noise level tells them apart
        found.append((fit.equations.q / fit.equations.n, treatment.name, candidate))
    found.sort(key=lambda entry: entry[0])
    return found[0][2], TreatmentCheck(tuple((name, chi2) for chi2, name, _ in found))
