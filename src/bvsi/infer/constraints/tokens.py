"""Tokens of a constraint text, with their places. Nothing in the text is ever evaluated as Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from bvsi.errors import BvsiError

MAX_LENGTH = 2000

_SHOWN = 80
"""Characters of a text that a message shows."""

_SHOWN_AFTER = 12
"""Characters that a message shows from the place of an error on."""


class Kind(Enum):
    """What a token is."""

    NUMBER = "number"
    WORD = "word"
    BRACKET = "bracket"
    COMPARISON = "comparison"
    SIGN = "sign"
    FACTOR = "factor"
    OTHER = "other"


@dataclass(frozen=True)
class Token:
    """A piece of a constraint; of a bracket, ``text`` is what stands inside."""

    kind: Kind
    text: str
    place: int

    @property
    def nesting(self) -> int:
        """+1 where a parenthesis opens, −1 where it closes."""
        if self.kind is not Kind.OTHER:
            return 0
        return (self.text == "(") - (self.text == ")")


_PATTERN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<comparison><=|>=|==|<|>)"
    r"|(?P<other>\*\*|[(),:.])"
    r"|(?P<factor>[*/])"
    r"|(?P<sign>[+-])"
)
_STARTS = (Kind.NUMBER, Kind.WORD, Kind.BRACKET)


def tokens(text: str) -> list[Token]:
    """The tokens of a text; white space separates them and does not count otherwise."""
    if not isinstance(text, str):
        raise BvsiError(f"constraints: a constraint is a text such as 'u >= 0', not {type(text).__name__}.")
    if len(text) > MAX_LENGTH:
        raise wrong(text, f"{len(text)} characters are too many; split it (at most {MAX_LENGTH} characters).")
    found: list[Token] = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        token, end = _next(text, place)
        if found and token.kind in _STARTS and (found[-1].kind in _STARTS or found[-1].text == ")"):
            raise wrong(text, "an operation is missing; write 2*u for a product.", place)
        found.append(token)
        place = end
    return found


def _next(text: str, place: int) -> tuple[Token, int]:
    if text[place] == "[":
        end = _closing(text, place)
        return Token(Kind.BRACKET, text[place + 1 : end - 1], place), end
    match = _PATTERN.match(text, place)
    if match is None:
        hint = "; write == for equality" if text[place] == "=" else ""
        raise wrong(text, f"{text[place]!r} is not understood{hint}.", place)
    return Token(Kind(match.lastgroup), match.group(), place), match.end()


def _closing(text: str, place: int) -> int:
    """Where a bracket ends; brackets may hold brackets."""
    depth = 0
    for end in range(place, len(text)):
        depth += (text[end] == "[") - (text[end] == "]")
        if depth == 0:
            return end + 1
    raise wrong(text, "this bracket is not closed.", place)


def wrong(text: str, what: str, place: int | None = None, kind: type[BvsiError] = BvsiError) -> BvsiError:
    """An error that shows the text, where it fails, and ``what`` is wrong, a sentence."""
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    if place is None:
        where = ""
    elif place < len(text):
        where = f" at column {place + 1} ({text[place : place + _SHOWN_AFTER]!r})"
    else:
        where = " at its end"
    return kind(f"constraint {shown!r}{where}: {what}")
