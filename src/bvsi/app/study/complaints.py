"""What pydantic finds wrong, in our words: the place in the document, what is needed, the nearest valid name."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from bvsi.app.study.errors import MAX_SHOWN, Place, StudyProblem, shown
from bvsi.app.study.settings import Settings

_NEEDED = {
    "string_type": "a text in quotes",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "string_pattern_mismatch": "a name of letters, digits, blanks, - and _",
    "finite_number": "a finite number",
}
_BOUND = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def complaints(error: ValidationError, document: Mapping[str, Any]) -> list[StudyProblem]:
    """One problem per fault, of the document as TOML gave it."""
    found = error.errors(include_url=False)
    told = [_problem(fault, document) for fault in found[:MAX_SHOWN]]
    # further ones are counted, not listed: near names of thousands of keys would take long
    return told + [StudyProblem((), "one more fault") for _ in found[MAX_SHOWN:]]


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or the list of what is known."""
    names = list(known)
    near = difflib.get_close_matches(name[:80], names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}."


def _problem(fault: Any, document: Mapping[str, Any]) -> StudyProblem:
    kind, context, value = fault["type"], fault.get("ctx", {}), fault["input"]
    place = _place(fault["loc"], document, kind)
    if kind == "extra_forbidden":
        return StudyProblem(place, _unknown_key(place, document))
    if kind == "missing":
        return StudyProblem(place[:-1], f"the key {place[-1]!r} is missing; add it.")
    if kind == "wanted":
        return StudyProblem(place, f"{fault['msg']}, not {shown(value)}.")
    if kind == "literal_error":
        return StudyProblem(place, _choice(value, _quoted(context["expected"])))
    if kind == "union_tag_invalid":
        return StudyProblem((*place, "distribution"), _choice(context["tag"], _quoted(context["expected_tags"])))
    if kind == "union_tag_not_found":
        return StudyProblem(place, 'a table such as {distribution = "normal", mean = 1.0, variance = 0.25} is needed.')
    if kind in _BOUND:
        key, word = _BOUND[kind]
        return StudyProblem(place, f"a number {word} {context[key]:g} is needed, not {shown(value)}.")
    if kind == "too_long":
        return StudyProblem(
            place, f"at most {context['max_length']} entries are possible, not {context['actual_length']}."
        )
    if kind in _NEEDED:
        return StudyProblem(place, f"{_NEEDED[kind]} is needed, not {shown(value)}.")
    return StudyProblem(place, f"{_own(fault['msg'])}.")


def _own(message: str) -> str:
    """Pydantic's sentence, from lower case on."""
    return message[:1].lower() + message[1:]


def _quoted(listed: str) -> list[str]:
    return re.findall(r"'([^']*)'", listed)


def _choice(value: object, known: list[str]) -> str:
    near = difflib.get_close_matches(str(value)[:80], known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{' or '.join(map(repr, known))} is needed, not {shown(value)}.{hint}"


def _place(loc: Place, document: object, kind: str) -> Place:
    """The steps of pydantic's location that exist in the document; tags of unions do not."""
    place: list[str | int] = []
    for number, part in enumerate(loc):
        inside = _step(document, part)
        if inside is not None:
            document = inside[0]
            place.append(part)
        elif kind == "missing" and number == len(loc) - 1:
            place.append(part)
    return tuple(place)


def _step(document: object, part: str | int) -> tuple[object] | None:
    if isinstance(document, Mapping) and part in document:
        return (document[part],)
    if isinstance(document, list) and isinstance(part, int) and part < len(document):
        return (document[part],)
    return None


def _unknown_key(place: Place, document: Mapping[str, Any]) -> str:
    known = _known_keys(place[:-1], document)
    name = str(place[-1])
    home = next((f"[{section}]" for section in Settings.model_fields if name in _known_keys((section,), {})), None)
    if home and not difflib.get_close_matches(name, known, n=1):
        return f"unknown key; it belongs to {home}."
    return f"unknown key; {nearest(name, known)}"


def _known_keys(place: Place, document: object) -> list[str]:
    """Keys that the table at a place may have."""
    candidates: list[Any] = [Settings]
    for part in place:
        inside = _step(document, part)
        document = inside[0] if inside else None
        candidates = [inner for c in candidates for inner in _inner(c, part)]
    models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
    fitting = [model for model in models if _fits(model, document)] or models
    return list(dict.fromkeys(key for model in fitting for key in model.model_fields))


def _inner(annotation: Any, part: str | int) -> list[Any]:
    """Types that may stand one step further."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        found = annotation.model_fields.get(str(part))
        return [] if found is None else _flat(found.annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict:
        return _flat(arguments[1])
    return _flat(arguments[0]) if origin is tuple else []


def _flat(annotation: Any) -> list[Any]:
    """The members of unions, without what annotates them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _flat(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [inner for member in get_args(annotation) for inner in _flat(member)]
    return [annotation]


def _fits(model: type[BaseModel], document: object) -> bool:
    """Whether the table says that it is this kind of prior; true for models that are of one kind only."""
    if "distribution" not in model.model_fields or not isinstance(document, Mapping):
        return True
    law = model.model_fields["distribution"].annotation
    return get_origin(law) is Literal and document.get("distribution") in get_args(law)
