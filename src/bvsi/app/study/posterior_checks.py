"""Faults of posterior and quantities: constraints, priors and expressions that name operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bvsi.app.study import objects
from bvsi.app.study.complaints import nearest
from bvsi.app.study.errors import Place, StudyProblem
from bvsi.app.study.faults import attempt, misplaced
from bvsi.app.study.quantities import Quantity
from bvsi.app.study.settings import PosteriorSettings, QuantitySettings
from bvsi.common.naming import matches, plain_name, position
from bvsi.infer.constraints import Constraints

MAX_POINTS = 10_000
"""Points of a quantity: every draw is kept at each."""


def posterior_faults(settings: PosteriorSettings, names: tuple[str, ...]) -> Iterator[StudyProblem]:
    """Keys that do not belong to the estimator, constraints and priors that name no operator."""
    section, estimator = "posterior", settings.estimator
    remedy = 'set estimator = "maximum", "svgd" or "nuts", or remove it.'
    yield from misplaced(section, settings, ("objective",), not closed_form(settings), remedy)
    remedy = 'set estimator = "svgd", or remove it.'
    yield from misplaced(section, settings, ("particles",), estimator == "svgd", remedy)
    remedy = 'set estimator = "nuts", or remove it.'
    yield from misplaced(section, settings, ("draws", "tune", "chains"), estimator == "nuts", remedy)
    yield from _constraints(settings.constraints, names)
    yield from _priors(settings, names)


def closed_form(settings: PosteriorSettings) -> bool:
    """Whether the estimator is a closed form."""
    return settings.estimator in ("profile", "lagged")


def informative(settings: PosteriorSettings) -> bool:
    """Whether a prior states a size, which has units."""
    default = settings.default_prior
    weak = default is None or default.distribution in ("flat", "column-scale")
    return bool(settings.priors or settings.joint_priors or not weak)


def _constraints(texts: Sequence[str], names: tuple[str, ...]) -> list[StudyProblem]:
    """Each on its own, and then all together."""
    place = ("posterior", "constraints")
    faults = [
        p for i, text in enumerate(texts) for p in attempt((*place, i), lambda t: Constraints(t).bind(names), text)
    ]
    return faults or [*attempt(place, lambda: Constraints(*texts).bind(names))]


def _priors(settings: PosteriorSettings, names: tuple[str, ...]) -> list[StudyProblem]:
    faults: list[StudyProblem] = []
    for name, entry in settings.priors.items():
        place: Place = ("posterior", "priors", name)
        if not matches(name, names):  # one name may stand in several equations
            faults += attempt(place, position, name, names)
        faults += attempt(place, objects.law, entry)
    for number, joint in enumerate(settings.joint_priors):
        place = ("posterior", "joint_priors", number)
        for name in joint.operators:
            faults += attempt((*place, "operators"), position, name, names)
        faults += attempt(place, objects.joint, joint)
    return faults or [*attempt(("posterior", "priors"), _bind, settings, names)]


def _bind(settings: PosteriorSettings, names: tuple[str, ...]) -> None:
    """Two priors of one operator, and joint priors of another length, are found when all is put together."""
    prior = objects.prior(settings)
    if prior is not None:
        prior.bind(names, [1.0] * len(names) if prior.needs_information(names) else None)


def quantity_faults(
    quantities: Sequence[QuantitySettings], fields: tuple[str, ...], names: tuple[str, ...]
) -> Iterator[StudyProblem]:
    """Expressions that are not understood, and keys that a kind lacks; for fields and coefficients."""
    seen: set[str] = set()
    for number, quantity in enumerate(quantities):
        place: Place = ("quantity", number)
        file = plain_name(quantity.name).casefold()
        if file in seen:
            yield StudyProblem(
                (*place, "name"), f"{quantity.name!r} names the file of another quantity; choose another."
            )
        seen.add(file)
        faults = [*axes_faults(quantity, place), *_kind(quantity, place, fields)]
        key = "expression" if quantity.kind == "expression" else "kind"
        yield from faults or attempt((*place, key), Quantity(quantity, names).of, names)


# Names of constants in expressions, and of what a quantity is stored with.
_TAKEN = ("pi", "operator", "draw", "mean", "variance", "lower", "upper")


def axes_faults(quantity: QuantitySettings, place: Place = ()) -> Iterator[StudyProblem]:
    """Variables that are impossible, and too many points."""
    points = 1
    for name, (first, last, number) in quantity.axes.items():
        points *= number
        if not (name.isascii() and name.isidentifier()) or name.startswith("_") or name in _TAKEN:
            yield StudyProblem((*place, "axes", name), f"{name!r} cannot be a variable; use letters such as x.")
        if not first < last:
            yield StudyProblem((*place, "axes", name), "the first value has to be below the last.")
    if points > MAX_POINTS:
        yield StudyProblem((*place, "axes"), f"{points} points are too many; at most {MAX_POINTS} are possible.")


def _kind(quantity: QuantitySettings, place: Place, fields: tuple[str, ...]) -> Iterator[StudyProblem]:
    """Keys that a kind needs, and those that it cannot have."""
    if (quantity.kind == "expression") != (quantity.expression is not None):
        yield StudyProblem(
            place, 'kind = "expression" needs expression = "2*[laplacian(u)]", and no other kind has one.'
        )
    if (quantity.kind == "diffusion-potential") != (quantity.equation is not None):
        yield StudyProblem(place, 'kind = "diffusion-potential" needs equation = "u", and no other kind has one.')
    elif quantity.equation is not None and quantity.equation not in fields:
        hint = nearest(quantity.equation, fields)
        yield StudyProblem((*place, "equation"), f"{quantity.equation!r} has no equation; {hint}")
    if quantity.kind != "expression" and not quantity.axes:
        yield StudyProblem(place, f'kind = "{quantity.kind}" needs axes = {{x = [-1, 1, 41]}}.')
