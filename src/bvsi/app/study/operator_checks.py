"""Faults of the table ``[library]``: texts that are not understood, names that are not known."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from bvsi.app.study.complaints import nearest
from bvsi.app.study.errors import MAX_SHOWN, StudyProblem
from bvsi.app.study.faults import attempt
from bvsi.app.study.settings import DataSettings, DiscretisationSettings, LibrarySettings
from bvsi.common.naming import AXIS_NAMES, COORDINATE_NAMES, COORDINATES, matches
from bvsi.data import Data
from bvsi.data._arrays import check_field_name
from bvsi.operators import Library, Mixed, Vocabulary
from bvsi.operators.parameters import as_parameters, substituted
from bvsi.operators.parse import Dialect, strong_form
from bvsi.operators.syntax import read, read_or_none
from bvsi.operators.vectors import check_vectors, components
from bvsi.spaces.spline_tests import MAX_DERIVATIVES

MAX_OPERATORS = 200
# Texts after which faults that were found are reported, and no others looked for: a text may be costly. Not measured.
_LOOKED_AT = 50
_WORDS = {"t", "test", "h", "penalty", "normal"}
"""Names in operator texts that have a meaning of their own."""


def vocabulary(data: DataSettings, library: LibrarySettings, experiments: Sequence[Data]) -> Vocabulary:
    """Names that operators may use. Without data, and where the study names no fields, that is every name in them."""
    if experiments:
        return Vocabulary.of(experiments[0])
    axes, system = _axes(data, library)
    if data.measured is not None:
        return Vocabulary(axes, data.measured, (*(data.auxiliary or ()), *data.known), system, tuple(data.known))
    sides = library.left.values() if isinstance(library.left, dict) else (library.left or "",)
    texts = [*library.definitions.values(), *sides, *(text for texts in library.equations.values() for text in texts)]
    used = frozenset().union(*map(_names, texts[:MAX_OPERATORS]))
    fields = [part for field in library.equations for part in library.vectors.get(field, (field,))]
    parts = {part for some in library.vectors.values() for part in some}
    own = {*fields, *library.vectors, *axes, *library.definitions, *library.parameters, *library.unknown, *_WORDS}
    return Vocabulary(axes, tuple(fields), tuple(sorted((used | parts) - own)), system, tuple(data.known))


def _axes(data: DataSettings, library: LibrarySettings) -> tuple[tuple[str, ...], str]:
    """Names of axes, and what they are, as far as a study states them without its data; by default x, y, z."""
    stated = data.coordinates if isinstance(data.coordinates, str) else ""
    called = {f"d{name}" for name in AXIS_NAMES if name not in COORDINATE_NAMES}
    texts = [text for texts in library.equations.values() for text in texts][:MAX_OPERATORS]
    used = frozenset().union(*(syntax.functions for text in texts if (syntax := read_or_none(text)) is not None))
    named = {*data.axes.values(), *(name[1:] for name in used & called)} - set(COORDINATE_NAMES)
    system = stated or (("spherical" if "theta" in named else "cylindrical") if named else "cartesian")
    return COORDINATES[system], system


def _names(text: str) -> frozenset[str]:
    syntax = read_or_none(text)
    return frozenset() if syntax is None else syntax.names


def library_faults(settings: LibrarySettings, words: Vocabulary) -> list[StudyProblem]:
    """What is wrong with fields and definitions; if nothing, with operators; if nothing, with what names them."""
    count = sum(map(len, settings.equations.values()))
    if not 0 < count <= MAX_OPERATORS:
        return [StudyProblem(("library", "equations"), f"{count} operators; from 1 to {MAX_OPERATORS} are needed.")]
    return (
        [*_vectors(settings, words)]
        or [
            *_fields(settings, words),
            *_definitions(settings, words),
            *_parameters(settings, words),
            *_unknown(settings, words),
        ]
        or [*_operators(settings, words)]
        or [*attempt(("library", "equations"), _library, settings)]
        or [*_left(settings, words)]
        or [*_named(settings)]
    )


def _library(settings: LibrarySettings, **changes: Any) -> Library:
    given = {"vectors": settings.vectors, "parameters": settings.parameters, "unknown": settings.unknown}
    return Library(settings.equations, **given, **changes)  # type: ignore[arg-type]


def _vectors(settings: LibrarySettings, words: Vocabulary) -> Iterator[StudyProblem]:
    """Invalid vectors, and components that are not fields."""
    known = (*words.fields, *words.auxiliary)
    for name, parts in settings.vectors.items():
        place = ("library", "vectors", name)
        missing = [part for part in parts if part not in known]
        if missing:
            yield StudyProblem(place, f"the data have no field {missing[0]!r}; {nearest(missing[0], known)}")
        elif name in known:
            yield StudyProblem(place, f"{name!r} is a field of the data; choose another name for the vector.")
        else:
            found = [*attempt(place, check_vectors, {name: parts})]
            yield from found or attempt(("library", "vectors"), check_vectors, settings.vectors)


def _fields(settings: LibrarySettings, words: Vocabulary) -> Iterator[StudyProblem]:
    for field in settings.equations:
        place = ("library", "equations", field)
        if not field.isascii():
            yield StudyProblem(
                place, f"{field!r} is not ASCII, as operators are; name the field otherwise in data.fields."
            )
        elif field in settings.vectors:
            continue
        elif field not in words.fields:
            yield StudyProblem(place, f"the data have no field {field!r}; {nearest(field, words.fields)}")
        else:
            yield from attempt(place, partial(check_field_name, series=True), field)  # data refuse x, y, z


def _definitions(settings: LibrarySettings, words: Vocabulary) -> Iterator[StudyProblem]:
    for name, text in settings.definitions.items():
        place = ("library", "definitions", name)
        if name in (*words.fields, *words.auxiliary):
            yield StudyProblem(place, f"{name!r} is a field; choose another name.")
        elif not name.isascii():
            yield StudyProblem(place, f"{name!r} is not ASCII, as operators are; choose another name.")
        else:
            yield from attempt(place, check_field_name, name, "definition")
            yield from attempt(place, _understood, text, words)


def _parameters(settings: LibrarySettings, words: Vocabulary) -> Iterator[StudyProblem]:
    """Parameters that are impossible: their names, bounds and starts."""
    taken = (*words.fields, *words.auxiliary, *words.coordinates, *settings.definitions, *settings.vectors)
    for name, given in settings.parameters.items():
        place = ("library", "parameters", name)
        if name in taken or not name.isascii():
            yield StudyProblem(place, f"{name!r} means something else, or is not ASCII; choose another name.")
        else:
            yield from attempt(place, as_parameters, {name: given}, words.fields)
    texts = [text for texts in settings.equations.values() for text in texts]
    inside = {*settings.parameters, *settings.unknown}
    for number, name in enumerate(settings.per_experiment):
        if name not in inside and not matches(name, texts):
            why = f"{name!r} is no parameter, function or operator; {nearest(name, (*sorted(inside), *texts))}"
            yield StudyProblem(("library", "per_experiment", number), why)


def _unknown(settings: LibrarySettings, words: Vocabulary) -> Iterator[StudyProblem]:
    """Unknown functions that are impossible: their names, and what they are functions of."""
    taken = (*words.fields, *words.auxiliary, *words.coordinates, *settings.definitions, *settings.vectors)
    known = (*words.coordinates, "t", *words.fields, *words.auxiliary)
    for name, given in settings.unknown.items():
        place = ("library", "unknown", name)
        missing = [one for one in ((given,) if isinstance(given, str) else given) if one not in known]
        if name in taken or not name.isascii():
            yield StudyProblem(place, f"{name!r} means something else, or is not ASCII; choose another name.")
        elif missing:
            yield StudyProblem(place, f"the data have no {missing[0]!r}; {nearest(missing[0], known)}")


def _understood(text: str, words: Vocabulary, dialect: Dialect | None = None) -> None:
    """Refuse a text that is not an operator."""
    strong_form(read(text), words, dialect)


def _worked_out(field: str, text: str, settings: LibrarySettings, words: Vocabulary) -> None:
    """Refuse a text that is not an operator of the equation of a field or vector."""
    dialect = Dialect({name: read(text) for name, text in settings.definitions.items()})
    numbers = {name: one.first for name, one in as_parameters(settings.parameters, ()).items()}
    text = substituted(read(text), numbers | dict.fromkeys(settings.unknown, 1.0)).text
    rank = int(field in settings.vectors)
    of_vectors = rank or read(text).names & set(settings.vectors)
    for part in components(read(text), settings.vectors, rank) if of_vectors else (text,):
        _understood(part, words, dialect)


def _operators(settings: LibrarySettings, words: Vocabulary) -> Iterator[StudyProblem]:
    """Texts that are not understood: all of them, unless there are many."""
    found, looked_at = 0, 0
    for field, texts in settings.equations.items():
        for number, text in enumerate(texts):
            for problem in attempt(("library", "equations", field, number), _worked_out, field, text, settings, words):
                found += 1
                yield problem
            looked_at += 1
            if found >= MAX_SHOWN or (found and looked_at >= _LOOKED_AT):
                return


def _left(settings: LibrarySettings, words: Vocabulary) -> Iterator[StudyProblem]:
    """Left sides that are not understood."""
    place = ("library", "left")
    problems = [*attempt(place, partial(_library, left=settings.left), settings)]
    yield from problems
    if not problems:
        dialect = Dialect({name: read(text) for name, text in settings.definitions.items()})
        for known in _library(settings, left=settings.left).known:
            yield from attempt(place, _understood, known.syntax.text, words, dialect)


def _named(settings: LibrarySettings) -> Iterator[StudyProblem]:
    """Operators that must stay, and fields with boundary conditions."""
    for number, name in enumerate(() if settings.keep == "all" else settings.keep):
        yield from attempt(("library", "keep", number), partial(_library, keep=[name]), settings)
    fields = tuple(_library(settings).equations)
    for field in settings.boundary if isinstance(settings.boundary, dict) else ():
        if field not in fields:
            hint = nearest(field, fields)
            yield StudyProblem(("library", "boundary", field), f"{field!r} has no equation; {hint}")


def form_faults(
    library: Library, settings: LibrarySettings, words: Vocabulary, discretisation: DiscretisationSettings
) -> Iterator[StudyProblem]:
    """Operators that have no weak form with any of the test functions that may be used."""
    splines, elements, smooth = (0, MAX_DERIVATIVES), (1, 1), (2, 2)
    chosen = {"splines": [splines], "elements": [smooth if discretisation.element == "H3" else elements]}
    allowed = chosen.get(str(discretisation.tests), [splines, elements])
    places = [
        ("library", "equations", f, i)
        for f, texts in settings.equations.items()
        for _ in settings.vectors.get(f, (f,))
        for i in range(len(texts))
    ]
    plain = library.with_functions({name: ast.Constant(1) for name in library.unknown})  # a constant has the same forms
    for name, place in zip(library.names, places, strict=True):
        alone = plain.subset([name])
        reasons = [
            alone.obstacle(words, trial_order=trial, test_order=test, biharmonic=Mixed()) for trial, test in allowed
        ]
        if all(reasons):
            yield StudyProblem(place, " ".join(reasons[0].split()))
