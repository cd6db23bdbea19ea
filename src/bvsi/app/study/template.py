"""A commented ``study.toml`` for a data file: what is suggested is set, everything else is there to be uncommented.

Comments begin with ``# ``, settings that are not in force with ``#`` alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bvsi.app.study.candidates import densities_of, steady_sides, suggested_operators
from bvsi.app.study.schema import SCHEMA_FILE
from bvsi.app.study.settings import (
    CheckSettings,
    DataSettings,
    DiscretisationSettings,
    ForecastSettings,
    LibrarySettings,
    NoiseSettings,
    OutputSettings,
    PosteriorSettings,
    QuantitySettings,
    RefineSettings,
    SelectionSettings,
)
from bvsi.app.study.toml_text import toml_key, toml_value

if TYPE_CHECKING:
    from bvsi.app.readers import Reading

_OPTIONAL: dict[str, type[BaseModel]] = {
    "noise": NoiseSettings,
    "discretisation": DiscretisationSettings,
    "selection": SelectionSettings,
    "posterior": PosteriorSettings,
    "check": CheckSettings,
    "forecast": ForecastSettings,
    "refine": RefineSettings,
    "output": OutputSettings,
}


def template(
    file: Path,
    *,
    study_file: Path = Path("study.toml"),
    reading: Reading | None = None,
    limits: Reading | None = None,
) -> str:
    """The study file for a data file, which is read for it.

    Parameters
    ----------
    study_file
        Where the study will be written; paths in it are relative to its folder.
    reading
        What to take from the file; by default what the file suggests, within ``limits``.
    """
    from bvsi.app.readers import contents
    from bvsi.app.study.first_look import first_look, fitting_units, stated_units
    from bvsi.discovery.method import takes_high_orders
    from bvsi.operators import Library

    data, wanted, notes = first_look(file, reading, limits=limits)
    given = _reading_keys(wanted, study_file)
    named = _ascii(given.get("fields", list(data.names)))
    high, found = takes_high_orders(data), densities_of(data)
    dense = [new for new, name in zip(named, data.names, strict=True) if name in found]
    operators = suggested_operators(tuple(named), data.geometry.names, splines=high, densities=dense)
    left: dict[str, str] = {}
    if data.n_times == 1:
        operators, left = steady_sides(operators)
        notes = (*notes, "one frame: the equation is taken for a steady one; a known source goes to library.left")
    units = stated_units(contents(file, wanted), wanted, data)
    if list(named) == list(data.names):
        fitting = fitting_units(units, data, Library(operators, left=left or None))
        given |= {"units": fitting} if fitting else {}
    keys = {"file": _relative(file, study_file), **given, "fields": named}
    return study_text(keys, operators, left=left, title=file.stem.replace("*", ""), notes=notes)


def study_text(
    data: Mapping[str, Any],
    operators: Mapping[str, Sequence[str]],
    *,
    left: Mapping[str, str] | None = None,
    title: str = "",
    notes: Sequence[str] = (),
) -> str:
    """The text of a study file.

    Parameters
    ----------
    data
        Keys of the table ``[data]``.
    operators
        Candidates by field.
    left
        Left sides by field, where these are not time derivatives.
    notes
        On how the data were read.
    """
    parts = [
        f"#:schema {SCHEMA_FILE.as_uri()}",
        "# A study of bvsi; run it with: bvsi run study.toml",
        "# Lines that begin with # and a letter are further settings: remove the # and change the value.",
        f"title = {toml_value(title)}",
        "",
        *(f"# NOTE: {note}" for note in notes),
        *_section("data", DataSettings, data),
        "",
        *_library(operators, left or {}),
    ]
    for name, model in _OPTIONAL.items():
        parts += ["", *_section(name, model, {})]
    parts += ["", *_quantity()]
    first = next(iter(operators), "u")
    return "\n".join(_named(part, first) for part in parts) + "\n"


def _named(line: str, field: str) -> str:
    """A commented setting, for the field of the data instead of u."""
    return re.sub(r"\bu\b", lambda _: field, line) if re.match(r"#\w", line) else line


def _section(name: str, model: type[BaseModel], given: Mapping[str, Any], *, skip: str = "") -> Iterator[str]:
    """A table: each key with its description, those not given commented out."""
    yield f"[{name}]"
    yield from _doc(model)
    for key, field in model.model_fields.items():
        if key != skip:
            yield from _entry(key, field, given)


def _doc(model: type[BaseModel]) -> Iterator[str]:
    if model.__doc__:
        yield f"# {model.__doc__}"


def _entry(key: str, field: FieldInfo, given: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {field.description}."
    if key in given:
        yield f"{key} = {toml_value(given[key])}"
    else:
        yield f"#{key} = {toml_value((field.examples or [''])[0])}"


def _library(operators: Mapping[str, Sequence[str]], left: Mapping[str, str]) -> Iterator[str]:
    yield from _section("library", LibrarySettings, {"left": left} if left else {}, skip="equations")
    yield ""
    yield "[library.equations]"
    side = "left" if left else "u_t"
    yield f"# {LibrarySettings.model_fields['equations'].description}: {side} = Σ_i θ_i F_i."
    yield "# Fields, x, y, z, t, + - * / **, sin cos exp log sqrt …, dx dy dz grad div dot laplacian biharmonic diff."
    yield "# Not: noise in the equation (take densities, or means of many runs); fields that were not measured (known"
    yield "# ones go to data.auxiliary, a missing rate is time_order = 2); integrals (compute them, as auxiliary)."
    for field, texts in operators.items():
        items = ",\n".join(f"  {toml_value(text)}" for text in texts)
        yield f"{toml_key(field)} = [\n{items},\n]"


def _quantity() -> Iterator[str]:
    yield "#[[quantity]]"
    yield from _doc(QuantitySettings)
    for key, field in QuantitySettings.model_fields.items():
        yield from _entry(key, field, {})


def _reading_keys(reading: Reading, study_file: Path) -> dict[str, Any]:
    """What is stated in a reading, as keys of ``[data]``."""
    keys: dict[str, Any] = {}
    for field in dataclasses.fields(reading):
        value = getattr(reading, field.name)
        default = field.default if field.default is not dataclasses.MISSING else {}
        if value is None or value == default or field.name in ("allow_outside", "guarded"):
            continue
        if field.name == "system":
            keys["coordinates"] = value
            continue
        if field.name == "mesh":
            value = _relative(Path(value), study_file)
        elif field.name == "domain":
            value = [[float(x), float(y)] for x, y in value]
        elif field.name == "select":
            value = {name: [_limit(low, -math.inf), _limit(high, math.inf)] for name, (low, high) in value.items()}
        elif isinstance(value, Mapping):
            value = {str(name): _plain(inner) for name, inner in value.items()}
        elif not isinstance(value, str | float | int):
            value = [str(name) for name in value]
        keys[field.name] = value
    return keys


def _ascii(fields: Any) -> Any:
    """Fields with names that operators may use: ρ of the file is u1 of the study."""
    names = dict(fields) if isinstance(fields, Mapping) else {name: name for name in fields}
    if all(name.isascii() for name in names):
        return fields
    free = (f"u{i}" for i in itertools.count(1) if f"u{i}" not in names)
    return {name if name.isascii() else next(free): known for name, known in names.items()}


def _limit(value: float | None, absent: float) -> float:
    return absent if value is None else float(value)


def _plain(value: object) -> object:
    """A number of NumPy as one of Python."""
    return value if isinstance(value, str) else float(value)  # type: ignore[arg-type]


def _relative(path: Path, study_file: Path) -> str:
    """A path as seen from the folder of the study, with slashes."""
    try:
        return Path(os.path.relpath(path, study_file.parent)).as_posix()
    except ValueError:  # another drive
        return path.absolute().as_posix()
