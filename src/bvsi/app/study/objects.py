"""The objects of the library that the tables of a study file stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bvsi.app.study.prior_settings import AnyLaw, ColumnScalePrior, JointPrior
from bvsi.app.study.settings import (
    DiscretisationSettings,
    LibrarySettings,
    NoiseSettings,
    PosteriorSettings,
    SelectionSettings,
)
from bvsi.errors import NoiseError
from bvsi.infer import NUTS, SVGD, Lagged, Maximum, Profile, ProfileDensity, ResidualDensity
from bvsi.infer.priors import (
    ColumnScale,
    Distribution,
    Flat,
    HalfNormal,
    Horseshoe,
    JointNormal,
    Laplace,
    LogNormal,
    Normal,
    Prior,
    StudentT,
    Uniform,
)
from bvsi.likelihood import Block, Stacked, Weighting
from bvsi.noise import IID, Blurred, Noise, PerField, SignalNoise, UnknownScale
from bvsi.operators import (
    Assembled,
    Biharmonic,
    BoundaryCondition,
    Dirichlet,
    InteriorPenalty,
    Library,
    Mixed,
    NoFlux,
    Unknown,
    ZeroNeumann,
)
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, Stencil, TemporalTests
from bvsi.select import Backward, BestSubset, ExactBIC, FStatistic, ProfileBIC, ResidualBIC, Sweep, Wald
from bvsi.spaces import H3, P1, P2, Q1, Q2, Element, Galerkin, SplineTests

_CONDITIONS: dict[str, BoundaryCondition] = {
    "unknown": Unknown(),
    "no-flux": NoFlux(),
    "zero-neumann": ZeroNeumann(),
    "dirichlet": Dirichlet(),
    "assembled": Assembled(),
}
_TREATMENTS: dict[str, Biharmonic] = {"mixed": Mixed(), "interior-penalty": InteriorPenalty()}
_ELEMENTS: dict[str, Element] = {"P1": P1, "P2": P2, "Q1": Q1, "Q2": Q2, "H3": H3}
_STENCILS: dict[str, Stencil] = {
    "crank-nicolson": CrankNicolson(),
    "backward-euler": BackwardEuler(),
    "bdf2": BDF2(),
}
_CRITERIA = {"wald": Wald(), "profile-bic": ProfileBIC(), "residual-bic": ResidualBIC(), "exact-bic": ExactBIC()}
_LAWS: dict[str, Callable[..., Distribution]] = {
    "normal": Normal,
    "log-normal": LogNormal,
    "half-normal": HalfNormal,
    "uniform": Uniform,
    "laplace": Laplace,
    "student-t": StudentT,
    "horseshoe": Horseshoe,
    "flat": Flat,
}

_OBJECTIVES: dict[str, Callable[[], ProfileDensity | ResidualDensity]] = {
    "profile": ProfileDensity,
    "residual": ResidualDensity,
}


def library(settings: LibrarySettings) -> Library:
    """The library of the table ``[library]``."""
    boundary = settings.boundary
    conditions = (
        _CONDITIONS[boundary] if isinstance(boundary, str) else {f: _CONDITIONS[name] for f, name in boundary.items()}
    )
    return Library(
        settings.equations,
        keep=settings.keep,
        boundary=conditions,
        definitions=settings.definitions,
        biharmonic=None if settings.biharmonic is None else _TREATMENTS[settings.biharmonic],
        time_order=None if settings.time_order == "open" else settings.time_order,
        left=settings.left,
        vectors=settings.vectors,
        parameters=settings.parameters,
        per_experiment=settings.per_experiment,
        unknown=settings.unknown,
    )


def noise(settings: NoiseSettings) -> Noise | None:
    """The stated model; None where the noise is to be measured."""
    sigma = settings.sigma
    if settings.gain is not None or settings.relative is not None:
        if isinstance(sigma, dict) or settings.blur or settings.unknown:
            raise NoiseError("noise: gain and relative go with one number sigma, and with neither blur nor unknown.")
        return SignalNoise(sigma or 0.0, settings.gain or 0.0, settings.relative or 0.0)
    if sigma is None:
        if settings.blur:
            raise NoiseError("noise: blur needs sigma; leave both out to have them measured.")
        return UnknownScale() if settings.unknown else None
    model: Noise = PerField(sigma) if isinstance(sigma, dict) else IID(sigma)
    model = Blurred(model, settings.blur) if settings.blur else model
    return UnknownScale(model) if settings.unknown else model


def discretisation(settings: DiscretisationSettings) -> SplineTests | Galerkin | None:
    """Test functions in space."""
    if settings.tests == "splines":
        return SplineTests(settings.gap, settings.degree)
    if settings.tests == "elements":
        return Galerkin(None if settings.element is None else _ELEMENTS[settings.element])
    return None


def stencil(settings: DiscretisationSettings) -> Stencil | None:
    """Test functions or differences in time."""
    if settings.stencil != "temporal-tests":
        return None if settings.stencil is None else _STENCILS[settings.stencil]
    return TemporalTests(**_given(degree=settings.time_degree, gap=settings.time_gap))


def weighting(settings: DiscretisationSettings) -> Weighting | None:
    """Weights of the residuals."""
    if settings.weighting is None:
        return None
    return Stacked() if settings.weighting == "stacked" else Block()


def selection(settings: SelectionSettings) -> BestSubset | Sweep | Backward | None:
    """How operators are selected."""
    if settings.method is None:
        return None
    if settings.method == "best-subset":
        return BestSubset(**_given(rounds=settings.rounds))
    criterion: Any = None
    if settings.criterion == "f-statistic":
        criterion = FStatistic(**_given(threshold=settings.threshold))
    elif settings.criterion is not None:
        criterion = _CRITERIA[settings.criterion]
    if settings.method == "sweep":
        return Sweep(**_given(criterion=criterion, rounds=settings.rounds, patience=settings.patience))
    return Backward(**_given(criterion=criterion, patience=settings.patience))


def estimator(settings: PosteriorSettings) -> Profile | Lagged | Maximum | SVGD | NUTS:
    """The estimator of the posterior."""
    objective = None if settings.objective is None else _OBJECTIVES[settings.objective]()
    match settings.estimator:
        case "profile":
            return Profile()
        case "lagged":
            return Lagged()
        case "maximum":
            return Maximum(**_given(objective=objective))
        case "svgd":
            return SVGD(**_given(objective=objective, particles=settings.particles))
    counts = {"draws": settings.draws, "tune": settings.tune, "chains": settings.chains}
    return NUTS(**_given(objective=objective, **counts))


def prior(settings: PosteriorSettings) -> Prior | None:
    """Priors by operator; None where none is stated."""
    terms: dict[str | tuple[str, ...], Distribution | JointNormal] = {
        name: law(entry) for name, entry in settings.priors.items()
    }
    terms |= {entry.operators: joint(entry) for entry in settings.joint_priors}
    default = settings.default_prior
    if not terms and default is None:
        return None
    if default is None:
        return Prior(terms)
    return Prior(terms, ColumnScale(default.weight) if isinstance(default, ColumnScalePrior) else law(default))


def law(settings: AnyLaw) -> Distribution:
    """One distribution."""
    return _LAWS[settings.distribution](**settings.model_dump(exclude={"distribution"}))


def joint(settings: JointPrior) -> JointNormal:
    """A joint Gaussian."""
    return JointNormal(settings.mean, settings.covariance)


def _given(**arguments: object) -> dict[str, Any]:
    """The arguments that were stated; the others keep the defaults of the class."""
    return {name: value for name, value in arguments.items() if value is not None}
