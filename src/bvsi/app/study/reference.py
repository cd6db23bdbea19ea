"""The page ``docs/study.md``: every key of a study file, from the settings themselves.

``python -m bvsi.app.study.reference docs/study.md`` writes it again.
"""

from __future__ import annotations

import sys
import typing
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from bvsi.app.study.settings import Settings
from bvsi.app.study.toml_text import toml_value

_HEAD = """\
# study.toml

A study is one file: which data, which candidate operators, what is known of noise and boundary. `bvsi init FILE` writes
one with comments for a data file, `bvsi run study.toml` does what it says. Only `[data]` and `[library.equations]` are
needed; everything else is chosen from the data. Unknown keys, wrong types, unknown operators and fields are errors with
line, place and nearest valid name, all of a file at once. Editors that know JSON schemas complete keys and mark errors
while you write: the first line of a file made by `bvsi init` names the schema.

    title = "Burgers"

    [data]
    file = "run.nc"                  # relative to this file
    time = "t"

    [library.equations]
    u = ["u", "u**2", "dx(u)", "u*dx(u)", "laplacian(u)", "dx(dx(dx(u)))"]

    [posterior]
    constraints = ["laplacian(u) > 0"]

    [[quantity]]                     # any number of them
    name = "Reynolds number"
    expression = "1/[laplacian(u)]"  # operators in brackets are coefficients

Operators are parsed by a whitelist, never evaluated: numbers, fields, `x y z t`, `+ - * / **`, the functions
`sin cos exp log sqrt …`, `dx dy dz grad div dot laplacian biharmonic diff recover`, and names of `definitions`.
"""


def reference() -> str:
    """The page."""
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        model = _model(field)
        if model is None:
            continue
        several = model.__name__.startswith("Quantity")
        heading = f"[[{name}]]" if several else f"[{name}]"
        parts.append(f"## `{heading}`\n\n{(model.__doc__ or '').strip()}\n")
        parts.append("\n".join([*_table(model), ""]))
    return "\n".join(parts)


def _model(field: FieldInfo) -> type[BaseModel] | None:
    """The section that a key holds, alone or many times."""
    for kind in (field.annotation, *typing.get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _table(model: type[BaseModel]) -> list[str]:
    rows = ["| key | what it says | left out | example |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        example = toml_value(field.examples[0]) if field.examples else ""
        rows.append(f"| `{name}` | {_cell(field.description or '')} | {_default(field)} | {_code(example)} |")
    return rows


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "needed"
    if field.default is None or field.default in ((), {}, ""):
        return ""
    return _code(toml_value(field.default))


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    from bvsi.app.files import write_whole

    write_whole(Path(sys.argv[1]), reference())
