"""Types of the values in a study file: strict, bounded, and with messages that say what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Strict, Tag

T = TypeVar("T")

PLAIN, TABLE = "‹plain›", "‹table›"
"""Tags of the two kinds of a value that may be a table; no key is called so."""


class Section(BaseModel):
    """A table of the study file: nothing but its keys, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)


Few, Many = Field(max_length=50), Field(max_length=200)
"""Bounds on what a list or table holds, so that checking a file never takes long."""

Text = Annotated[str, Strict(), Field(max_length=4000)]
Name = Annotated[str, Strict(), Field(min_length=1, max_length=400)]
Switch = Annotated[bool, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
Positive = Annotated[float, Strict(), Field(allow_inf_nan=False, gt=0, le=1e100)]
Share = Annotated[float, Strict(), Field(allow_inf_nan=False, gt=0, lt=1)]
Whole = Annotated[int, Strict(), Field(ge=0, le=10**9)]
Count = Annotated[int, Strict(), Field(ge=1, le=10**6)]
Limit = Annotated[float, Strict(), Field(description="A number, or inf or -inf for no limit")] | None


def kinds(*plain: type, other: tuple[type, ...] = (Mapping,), wanted: str) -> Discriminator:
    """Distinguishes a table (or ``other`` types) from a plain value; the error says what is ``wanted``."""

    def kind(value: object) -> str | None:
        if isinstance(value, other):
            return TABLE
        return PLAIN if isinstance(value, plain) else None

    return Discriminator(kind, custom_error_type="wanted", custom_error_message=wanted)


Names = Annotated[
    Annotated[tuple[Name, ...], Tag(PLAIN), Few] | Annotated[dict[Name, Name], Tag(TABLE), Few],
    kinds(list, tuple, wanted='a list of names, or a table such as {u = "name in the file"}, is needed'),
]
"""Names, or name in the study → name in the file."""

PositiveByName = Annotated[
    Annotated[Positive, Tag(PLAIN)] | Annotated[dict[Name, Positive], Tag(TABLE), Few],
    kinds(int, float, wanted="a positive number, or a table such as {u = 1e-3}, is needed"),
]
"""One number for all, or one by name."""

Periodic = Annotated[
    Annotated[tuple[Name, ...], Tag(PLAIN)] | Annotated[dict[Name, Positive], Tag(TABLE), Few],
    kinds(list, tuple, wanted='a list of axes such as ["x"], or a table of periods such as {x = 6.28}, is needed'),
]
