"""One contract for every estimator with every weighting and every noise model that the packages have.

A fit either holds what is stated below, or is refused with one error that names the argument. The lists are those of
the packages, so that a new estimator, weighting or noise model is tested as soon as it is there.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import bvsi.infer
import bvsi.likelihood
import bvsi.noise
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError, NoiseError
from bvsi.forward import simulate
from bvsi.infer import NUTS, SVGD, Fit, Profile
from bvsi.infer.posteriors.draws import DrawnPosterior
from bvsi.likelihood import ResidualLikelihood, Stacked, Weighting, residual_likelihood
from bvsi.noise import IID, Blurred, Noise, SignalNoise, UnknownScale, add_noise
from bvsi.noise.measurement import measure
from bvsi.operators import Library, NoFlux
from bvsi.residual import ResidualSystem, TemporalTests, assemble
from bvsi.setup import Setup
from bvsi.spaces import SplineTests

OPERATORS = ("laplacian(u)", "u", "u**2")
TRUTH = (0.1, -0.8, 0.3)
FEWER = ("u", "laplacian(u)")
TURNED = ("u**2", "laplacian(u)", "u")
NODES, TIMES, SIGMA = 9, np.linspace(0, 1, 5), 2e-3
QUIET = 5e-4
"""Of data on splines: noise is then a small part of the operators, as it is on elements."""
LENGTH, TIME, AMOUNT = 30.0, 1e-2, 200.0
# θ' = θ · factor in the other units: laplacian [L²/t], u [1/t], u² [1/(t u)]
FACTORS = np.array([LENGTH**2, 1.0, 1 / AMOUNT]) / TIME


def public_classes(package: ModuleType) -> Iterator[type]:
    """Classes without an underscore that modules of a package define."""
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        for name, one in vars(module).items():
            if inspect.isclass(one) and one.__module__ == module.__name__ and not name.startswith("_"):
                yield one


def of_protocol(package: ModuleType, protocol: type) -> list[type]:
    """Classes of a package with all members of a protocol."""
    members = [name for name in (*vars(protocol), *protocol.__annotations__) if not name.startswith("_")]
    assert members
    return [
        one for one in public_classes(package) if one is not protocol and all(hasattr(one, name) for name in members)
    ]


ESTIMATORS = [one for one in public_classes(bvsi.infer) if callable(getattr(one, "fit", None))]
WEIGHTINGS = of_protocol(bvsi.likelihood, Weighting)
ON_SPLINES = [IID, Blurred, SignalNoise]
"""White noise, and models that need spline tests, or the data themselves."""
MODELS = [one for one in of_protocol(bvsi.noise, Noise) if one not in (UnknownScale, Blurred, SignalNoise)]

SETTINGS: dict[str, dict[str, Any]] = {
    "Ridge": {"alpha": 1e-3},
    "Lasso": {"alpha": 1e-4, "tol": 1e-12},
    "Lagged": {"tol": 1e-10},
    "Profile": {"tol": 1e-8},
    "Maximum": {"tol": 1e-6},
    "SVGD": {"particles": 4, "max_iterations": 1},
    "NUTS": {"draws": 4, "tune": 1, "chains": 2},
}
"""Of estimators that need some, or would take long; others have their defaults."""


def correlated(unit: float) -> Any:
    return sparse.csr_array(
        (unit * SIGMA) ** 2 * sparse.diags_array([0.3, 1.0, 0.3], offsets=[-1, 0, 1], shape=(NODES,) * 2)
    )


UNITS = (1.0, 1.0, 1.0)
OTHER_UNITS = (LENGTH, TIME, AMOUNT)

EXAMPLES: dict[str, Callable[[float], tuple[Any, ...]]] = {
    "IID": lambda unit: (unit * SIGMA,),
    "PerField": lambda unit: ({"u": unit * SIGMA},),
    "PerTime": lambda unit: (unit * SIGMA * np.linspace(0.7, 1.4, len(TIMES)),),
    "Diagonal": lambda unit: ({"u": unit * SIGMA * np.linspace(1.4, 0.7, NODES)},),
    "Covariance": lambda unit: (correlated(unit),),
}
"""Arguments of noise models for data in some unit; others are tried with a standard deviation."""


def model(one: type, unit: float = 1.0) -> Noise:
    return one(*EXAMPLES.get(one.__name__, lambda unit: (unit * SIGMA,))(unit))


def estimator(one: type) -> Any:
    return one(**SETTINGS.get(one.__name__, {}))


@cache
def data(length: float, time: float, amount: float) -> Data:
    """u_t = 0.1 u_xx − 0.8 u + 0.3 u² with noise, in some units."""
    x = np.linspace(0, 1, NODES)
    start = 1.0 + np.cos(np.pi * x) + 0.5 * np.cos(2 * np.pi * x)
    initial = Data(TIMES[:2], {"u": np.stack([start, start])}, Grid(x=x))
    noisy = add_noise(simulate(library(OPERATORS), TRUTH, initial, TIMES), SIGMA, np.random.default_rng(1))
    return Data(time * TIMES, {"u": amount * noisy.fields["u"]}, Grid(x=length * x))


@cache
def smooth(length: float, time: float, amount: float) -> Data:
    """The same with more values, solved by lines between the nodes."""
    x, t = np.linspace(0, 1, 5 * 31 + 1), np.linspace(0, 1, 32)

    def rate(_: float, u: np.ndarray) -> np.ndarray:
        inside = np.concatenate([u[1:2], u, u[-2:-1]])
        return TRUTH[0] * np.diff(inside, 2) / x[1] ** 2 + TRUTH[1] * u + TRUTH[2] * u**2

    start = 1.0 + np.cos(np.pi * x) + 0.5 * np.cos(2 * np.pi * x)
    u = solve_ivp(rate, (0, 1), start, "LSODA", t, lband=1, uband=1, rtol=1e-8, atol=1e-8).y.T[:, ::5]
    noisy = add_noise(Data(t, {"u": u}, Grid(x=x[::5])), QUIET, np.random.default_rng(1))
    return Data(time * t, {"u": amount * noisy.fields["u"]}, Grid(x=length * x[::5]))


def library(operators: tuple[str, ...]) -> Library:
    return Library({"u": list(operators)}, boundary=NoFlux())


@cache
def system(operators: tuple[str, ...] = OPERATORS, units: tuple[float, float, float] = UNITS) -> ResidualSystem:
    return assemble(data(*units), library(operators))


@cache
def on_splines(
    operators: tuple[str, ...], units: tuple[float, float, float], noise: type, size: float
) -> tuple[ResidualSystem, Noise]:
    """Residuals of spline tests in space and time, and noise that is stated that much too large."""
    length, _, amount = units

    def stated(size: float) -> Noise:
        sigma = size * amount * QUIET
        made = {Blurred: Blurred(IID(sigma), {"x": 0.03 * length}), SignalNoise: SignalNoise(sigma, 0.0, 2e-4 * size)}
        return made.get(noise, IID(sigma))

    if size != 1:
        return on_splines(operators, units, noise, 1.0)[0], measure(smooth(*units), stated(size), robust=False).noise
    own, tests = measure(smooth(*units), stated(1.0), robust=False), SplineTests(gap=4.0, degree=3)
    known, stencil = Library({"u": list(operators)}), TemporalTests(degree=3, gap=4.0)
    setup = Setup((own.data,), (own.noise,), (own.variance,), known, tests, stencil, Stacked())
    return setup.likelihood().system, own.noise


@dataclass(frozen=True)
class Combination:
    """known: whether the size of the noise is stated, or only its shape; splines: tests, elements otherwise."""

    estimator: type
    weighting: type
    noise: type
    known: bool = True
    splines: bool = False

    def likelihood(
        self,
        operators: tuple[str, ...] = OPERATORS,
        units: tuple[float, float, float] = UNITS,
        size: float = 1.0,
    ) -> ResidualLikelihood:
        """Of operators in some order, data in some units, and noise that is stated that much too large."""
        if self.splines:
            residuals, stated = on_splines(operators, units, self.noise, size)
        else:
            residuals, stated = system(operators, units), model(self.noise, units[2] * size)
        return residual_likelihood(residuals, stated if self.known else UnknownScale(stated), self.weighting())

    def fit(self, likelihood: ResidualLikelihood) -> Fit:
        """The fit, with a generator of its own where the estimator takes one."""
        method = estimator(self.estimator)
        takes_rng = "rng" in inspect.signature(method.fit).parameters
        return method.fit(likelihood, **({"rng": np.random.default_rng(3)} if takes_rng else {}))

    def variants(self) -> Iterator[ResidualLikelihood]:
        """Another order of the operators in other units, and fewer operators."""
        yield self.otherwise()
        yield self.likelihood().restrict(FEWER)

    def otherwise(self) -> ResidualLikelihood:
        """Another order of the operators in other units; where the size of the noise is unknown, another size of Σ."""
        return self.likelihood(TURNED, OTHER_UNITS, 1.0 if self.known else 7.0)

    def exact(self, operators: tuple[str, ...]) -> Fit:
        """What draws are near."""
        return Profile().fit(replace(self, weighting=Stacked, noise=IID, known=True).likelihood(operators))


def spread(fit: Fit) -> np.ndarray:
    """Standard deviations; the size of the coefficients where there are none."""
    return np.abs(fit.theta) if fit.posterior is None else np.sqrt(fit.posterior.variance)


def agree(case: Combination, found: Fit, expected: Fit, factor: np.ndarray | float = 1.0) -> None:
    """Coefficients are equal to a small part of their error bars, and so are the error bars.

    A few draws on both sides have means that are some error bars of a closed form apart, at most.
    """
    order = [found.names.index(name) for name in expected.names]
    change = found.theta[order] / factor - expected.theta
    if drawn(expected):
        assert np.abs(change / spread(case.exact(expected.names))).max() < 6
        return
    assert np.abs(change / spread(expected)).max() < 1e-4
    if expected.posterior is not None:
        size = np.outer(spread(expected), spread(expected))
        covariance = found.posterior.covariance[np.ix_(order, order)] / factor / np.reshape(factor, (-1, 1))
        assert_allclose(covariance / size, expected.posterior.covariance / size, atol=1e-3)


def drawn(fit: Fit) -> bool:
    """Whether it is a few draws, of which no digit is known."""
    return isinstance(fit.posterior, DrawnPosterior)


@pytest.mark.parametrize("noise", MODELS)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("one", ESTIMATORS)
def test_contract(one, weighting, noise):
    """On elements."""
    holds_the_contract(one, weighting, noise, few=(MODELS[0], MODELS[-1]), splines=False)


@pytest.mark.parametrize(
    "one, weighting, noise",
    [
        (one, weighting, noise)
        for one, weighting, noise in itertools.product(ESTIMATORS, WEIGHTINGS, ON_SPLINES)
        if one not in (NUTS, SVGD) or noise is IID or weighting is Stacked
    ],
)
def test_contract_with_spline_tests(one, weighting, noise):
    """With the tests of the default method; draws, which are dear, with its weights or with white noise."""
    holds_the_contract(one, weighting, noise, few=(ON_SPLINES[0],), splines=True)


def holds_the_contract(one: type, weighting: type, noise: type, *, few: tuple[type, ...], splines: bool) -> None:
    """A fit holds all of the following, or is refused, in every variant alike.

    Parameters
    ----------
    few
        Noise models with which fits are repeated. In other units draws are made with the first of them alone. Fits on
        splines without the weights that go with these are made in other units with the first, draws not at all.
    """
    found = []
    for known in (True, False):
        case = Combination(one, weighting, noise, known, splines)
        try:
            fit = case.fit(case.likelihood())
        except BvsiError as refusal:
            is_refused(case, refusal)
            continue
        is_sound(fit)
        found.append(fit)
        # Draws are dear, and see the noise through densities that others see too: one model per weighting is enough.
        if known and noise in few:
            is_repeatable(case, fit)
        usual = weighting is Stacked or not splines
        if (usual and not drawn(fit)) or (known and noise is few[0] and (usual or not drawn(fit))):
            has_no_order_and_no_units(case, fit)
            is_restricted(case)
    assert len(found) != 1
    if found and not drawn(found[0]):
        has_shape_only(case, *found)


@pytest.mark.parametrize("noise", [Blurred(IID(SIGMA), {"x": 0.1}), SignalNoise(SIGMA, 0.0, 0.1)])
def test_models_that_need_more_are_refused_with_a_remedy(noise):
    with pytest.raises(NoiseError, match=r"^noise: .* needs .*; .*state"):
        residual_likelihood(system(), noise)


def is_refused(case: Combination, refusal: BvsiError) -> None:
    """Unweighted residuals know nothing of the noise: what needs it is refused, and nothing else is."""
    assert not case.weighting.uses_noise
    assert "weighting" in str(refusal)
    assert "\n" not in str(refusal)
    for likelihood in case.variants():
        with pytest.raises(type(refusal)) as caught:
            case.fit(likelihood)
        assert str(caught.value) == str(refusal)


def is_sound(fit: Fit) -> None:
    """Finite numbers in the order of the operators, and a covariance."""
    assert fit.names == OPERATORS
    assert fit.theta.shape == (len(OPERATORS),)
    assert np.all(np.isfinite(fit.theta))
    assert np.isfinite(fit.chi2)
    assert [fit.coefficient(name) for name in OPERATORS] == fit.theta.tolist()
    if fit.posterior is None:
        assert "no error bars" in fit.status.message
        return
    assert fit.posterior.names == OPERATORS
    covariance, sd = fit.posterior.covariance, spread(fit)
    size = np.outer(sd, sd)
    assert np.all(sd > 0)
    assert_allclose(covariance / size, covariance.T / size, atol=1e-12)
    assert np.linalg.eigvalsh(covariance / size).min() > -1e-12
    assert np.all(np.abs(fit.theta - fit.posterior.mean) < 3 * sd)


def is_repeatable(case: Combination, fit: Fit) -> None:
    """The same generator gives the same bits."""
    again = case.fit(case.likelihood())
    assert np.array_equal(again.theta, fit.theta)
    assert fit.posterior is None or np.array_equal(again.posterior.covariance, fit.posterior.covariance)
    assert again.status == fit.status


def has_no_order_and_no_units(case: Combination, fit: Fit) -> None:
    """Neither the order of the operators nor units of length, time and field matter.

    Of σ² Σ with σ² unknown the size of Σ does not matter either.
    """
    other = case.fit(case.otherwise())
    assert other.names == TURNED
    agree(case, other, fit, FACTORS)


def is_restricted(case: Combination) -> None:
    """restrict() plans and assembles nothing again, and gives what assembling fewer operators gives."""
    restricted = case.fit(case.likelihood().restrict(FEWER))
    assert restricted.names == FEWER
    agree(case, restricted, case.fit(case.likelihood(FEWER)))


def has_shape_only(case: Combination, known: Fit, unknown: Fit) -> None:
    """Of σ² Σ with σ² unknown θ is that of a known σ², and Cov that of σ² = q/n.

    A Student-t posterior has q/(n − d − 2).
    """
    assert np.abs((unknown.theta - known.theta) / spread(known)).max() < 1e-4
    if known.posterior is not None and case.weighting.uses_noise:
        n, d = known.equations.n, len(known.theta)
        ratio = unknown.posterior.variance / known.posterior.variance / known.chi2
        assert np.all(ratio > 1 - 1e-3)
        assert np.all(ratio < n / (n - d - 2) * (1 + 1e-3))


def test_the_lists_are_those_of_the_packages():
    assert {"LeastSquares", "Lagged", "Profile", "Maximum", "SVGD", "NUTS"} <= {one.__name__ for one in ESTIMATORS}
    assert {"Isotropic", "Block", "Stacked"} <= {one.__name__ for one in WEIGHTINGS}
    assert {"IID", "PerField", "PerTime", "Diagonal", "Covariance"} <= {one.__name__ for one in MODELS}
