"""Constraint texts such as ``"2*dx(u) - 0.5*[u**2] >= 1e-3"``, read into rows of coefficients.

A text is a chain of sides with ``< <= > >= ==`` between them, such as ``0 <= u <= 5``. A strict comparison means the
same as the one with equality. A side is a sum of terms: a number, or an operator with numbers multiplied in front or
behind (``2*u``, ``u/3``, ``3/4*u``). The name of an operator may always stand in square brackets; it must where it is a
number, or has + or − outside parentheses: ``[u - u**3] >= 0``. The equation in front may be left out where it is clear.
Nothing in the text is ever evaluated as Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

import numpy as np

from bvsi.common.arrays import Array
from bvsi.common.naming import matches, position, squeeze
from bvsi.errors import BvsiError, OperatorError

#: Characters of a text that is read: far more than people write; longer ones are refused before any work.
MAX_LENGTH = 2000
# Characters of a text that a message shows.
_SHOWN = 80
# Characters that a message shows from the place of an error on.
_SHOWN_AFTER = 12
#: Factors of one term; more are refused, since the readings of a term grow with them.
MAX_FACTORS = 20


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

#: A sum of terms sign · tokens: a number, or an operator times numbers.
Side = list[tuple[float, list[Token]]]


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


_ONE = Token(Kind.NUMBER, "1", 0)


def comparisons(text: str) -> list[tuple[Side, Token, Side]]:
    """The comparisons of a text, left relation right, their operators not yet looked up."""
    pieces: list[list[Token]] = [[]]
    relations: list[Token] = []
    depth = 0
    for token in tokens(text):
        depth += token.nesting
        if depth < 0:
            raise wrong(text, "this parenthesis was never opened.", token.place)
        if token.kind is Kind.COMPARISON:
            if depth:
                raise wrong(text, "a parenthesis is still open here.", token.place)
            relations.append(token)
            pieces.append([])
        else:
            pieces[-1].append(token)
    if depth:
        raise wrong(text, "a parenthesis is not closed.", len(text))
    if not relations:
        raise wrong(text, "a comparison is missing; write <, <=, >, >= or ==.", len(text))
    ends = [relation.place for relation in relations] + [len(text)]
    sides = [_terms(piece, text, end) for piece, end in zip(pieces, ends, strict=True)]
    return [(sides[i], token, sides[i + 1]) for i, token in enumerate(relations)]


def rows(text: str, names: Sequence[str]) -> list[tuple[Array, float, float]]:
    """The rows of a text, one per comparison, for d operators: coefficients (d,), lower and upper bound."""
    return [_row(*comparison, text, names) for comparison in comparisons(text)]


def _terms(piece: Sequence[Token], text: str, end: int) -> Side:
    """Split a side at the signs that stand outside parentheses and are not the sign of an exponent."""
    terms: Side = []
    sign, current, depth, signed = 1.0, list[Token](), 0, False
    for token in piece:
        if token.kind is Kind.SIGN and depth == 0 and not (current and current[-1].text == "**"):
            if current and current[-1].kind is Kind.FACTOR:
                raise wrong(text, "a sign cannot follow * or /; write it in front of the term.", token.place)
            if signed and not current:
                raise wrong(text, "two signs follow each other.", token.place)
            if current:
                terms.append((sign, current))
            sign, current, signed = -1.0 if token.text == "-" else 1.0, [], True
            continue
        depth += token.nesting
        current.append(token)
    if not current:
        raise wrong(text, "a number or an operator is missing.", end)
    return [*terms, (sign, current)]


def _row(
    left_side: Side, relation: Token, right_side: Side, text: str, names: Sequence[str]
) -> tuple[Array, float, float]:
    """left − right compared with a constant, or right − left where the left side has no operators."""
    greater = relation.text in (">", ">=")
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
        left, left_constant = _sum(left_side, text, names)
        right, right_constant = _sum(right_side, text, names)
        if left.any():
            coefficients, bound = left - right, right_constant - left_constant
        else:
            coefficients, bound, greater = right, left_constant - right_constant, not greater
    if not coefficients.any():
        raise wrong(text, "no operator is left in this comparison; name one.", relation.place)
    if not (np.isfinite(coefficients).all() and math.isfinite(bound)):
        raise wrong(text, "the numbers are too large.", relation.place)
    if relation.text == "==":
        return coefficients, bound, bound
    return (coefficients, bound, math.inf) if greater else (coefficients, -math.inf, bound)


def _sum(terms: Side, text: str, names: Sequence[str]) -> tuple[Array, float]:
    """Coefficients (d,) and constant of a side."""
    coefficients, constant = np.zeros(len(names)), 0.0
    for sign, piece in terms:
        value = _product(piece, text)
        if value is not None:
            constant += sign * value
        else:
            factor, index = _operator(piece, text, names)
            coefficients[index] += sign * factor
    return coefficients, constant


def _product(piece: Sequence[Token], text: str) -> float | None:
    """Value of numbers with * and / between them; None for anything else."""
    kinds = [token.kind for token in piece]
    if len(piece) % 2 == 0 or any(kind is not (Kind.FACTOR if i % 2 else Kind.NUMBER) for i, kind in enumerate(kinds)):
        return None
    value = float(piece[0].text)
    for factor, number in zip(piece[1::2], piece[2::2], strict=True):
        other = float(number.text)
        if factor.text == "/" and other == 0:
            raise wrong(text, "division by zero.", factor.place)
        value = value / other if factor.text == "/" else value * other
    if not math.isfinite(value):
        raise wrong(text, "this number is too large.", piece[0].place)
    return value


def _operator(piece: Sequence[Token], text: str, names: Sequence[str]) -> tuple[float, int]:
    """Factor and position of the operator in a term."""
    readings = _readings(piece, text)
    if not readings:
        raise wrong(text, "a term holds one operator, multiplied by numbers.", piece[0].place)
    known = [reading for reading in readings if matches(reading[1], names)]
    if len(known) > 1:
        meanings = " or ".join(f"{factor:g}*[{name}]" for factor, name in known)
        raise wrong(text, f"this term can mean {meanings}; write the one that is meant.", piece[0].place)
    factor, name = known[0] if known else min(readings, key=lambda reading: len(reading[1]))
    try:
        return factor, position(name, names)
    except OperatorError as error:
        signed = next((n for n in names if set("+-") & set(n) and squeeze(n) in squeeze(text)), None)
        hint = f" A name with + or - stands in brackets: [{signed}]." if signed else ""
        raise wrong(text, f"{error}{hint}", piece[0].place, OperatorError) from None


def _readings(piece: Sequence[Token], text: str) -> list[tuple[float, str]]:
    """Every way to take numbers off the front and the back, since ``2*u`` may itself be the name of an operator."""
    if sum(token.kind is Kind.FACTOR for token in piece) > MAX_FACTORS:
        raise wrong(text, f"this term has too many factors (at most {MAX_FACTORS}).", piece[0].place)
    fronts, backs = [(0, 1.0)], [(len(piece), 1.0)]
    for end in range(1, len(piece), 2):
        front = _product(piece[:end], text) if piece[end].text == "*" else None
        back = _product([_ONE, *piece[-end - 1 :]], text)
        fronts += [] if front is None else [(end + 1, front)]
        backs += [] if back is None else [(len(piece) - end - 1, back)]
    readings = []
    for (start, front), (stop, back) in product(fronts, backs):
        core = piece[start:stop]
        # a bracket is a whole name
        if core and (len(core) == 1 or all(token.kind is not Kind.BRACKET for token in core)):
            readings.append((front * back, "".join(token.text for token in core)))
    return readings
