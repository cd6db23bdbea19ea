"""Equations as texts of other languages: py-pde, Dedalus, ModelingToolkit, and Python with NumPy, JAX or UFL.

One table for all of them, with what differs in a :class:`Language`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from bvsi.app.exports.system import EquationSystem, Flux, Target
from bvsi.common.naming import MultiIndex
from bvsi.operators import Vocabulary

if TYPE_CHECKING:
    from bvsi.discovery import Discovery

_SUM, _PRODUCT, _POWER, ATOM = range(4)


class Text(NamedTuple):
    """A text, and how tightly it binds."""

    text: str
    level: int


@dataclass(frozen=True)
class Language:
    """How a language writes an expression.

    Attributes
    ----------
    derivative
        ∂^m by an axis of a text, from its text, the axis and m.
    power
        Its sign of powers.
    functions
        Names of functions, by those of SymPy; others are refused.
    reserved
        Names that mean something else: fields of these names get ``_`` at the end.
    fields
        Text of a field from its name.
    """

    derivative: Callable[[str, str, int], str]
    power: str = "**"
    functions: Mapping[str, str] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()
    fields: Callable[[str], str] = str

    def name(self, text: str) -> str:
        """The name of a field; those of bvsi never end with ``_``."""
        return f"{text}_" if text in self.reserved else text

    def target(self, words: Vocabulary) -> Target[Text]:
        """The table that writes expressions of these names."""
        own = {*words.fields, *words.auxiliary}

        def name(text: str) -> Text:
            return Text(self.fields(self.name(text)) if text in own else text, ATOM)

        def derivative(value: Text, index: MultiIndex) -> Text:
            text = value.text
            for axis, m in zip(words.coordinates, index, strict=True):
                text = self.derivative(text, axis, m) if m else text
            return Text(text, ATOM)

        def function(named: str) -> Callable[[Text], Text]:
            return lambda value: Text(f"{named}({value.text})", ATOM)

        return Target(
            number=number,
            name=name,
            add=added,
            multiply=multiplied,
            power=lambda base, exponent: Text(f"{_in(base, ATOM)}{self.power}{_in(exponent, ATOM)}", _POWER),
            derivative=derivative,
            functions={known: function(own) for known, own in self.functions.items()},
        )

    def right_side(
        self, system: EquationSystem, field: str, write: Callable[[Any], Text] | None = None, fluxes: Any = None
    ) -> str:
        """Σ_i θ_i D^α g of the equation of a field.

        Parameters
        ----------
        write
            Text of a coefficient; by default its digits.
        fluxes
            Of these summands alone.
        """
        target, chosen = self.target(system.words), system.fluxes[field] if fluxes is None else fluxes
        return added([self._summand(flux, target, system.words, write or number) for flux in chosen]).text

    def _summand(self, flux: Flux, target: Target[Text], words: Vocabulary, write: Callable[[Any], Text]) -> Text:
        value = target.outer(flux, words)
        return write(flux.coefficient) if value.text == "1" else multiplied([write(flux.coefficient), value])


def number(value: float) -> Text:
    """All digits of a number."""
    return Text(repr(value), _SUM if value < 0 else ATOM)


def added(parts: Sequence[Text]) -> Text:
    """A sum; zero where there is nothing to add."""
    if len(parts) == 1:
        return parts[0]
    text = ""
    for part in parts:
        sign, rest = (" - ", part.text[1:]) if part.text.startswith("-") else (" + ", part.text)
        text += sign + rest
    text = text.removeprefix(" + ")
    return Text(f"-{text[3:]}" if text.startswith(" - ") else text, _SUM) if parts else Text("0", ATOM)


def multiplied(parts: Sequence[Text]) -> Text:
    """A product; a negative first factor keeps its sign, which the sum around it takes."""
    first, *others = parts
    if first.text in ("-1", "-1.0", "1", "1.0") and others:
        sign = "-" if first.text.startswith("-") else ""
        product = multiplied(others) if len(others) > 1 else Text(_in(others[0], _PRODUCT), others[0].level)
        return Text(f"{sign}{product.text}", _SUM if sign else product.level)
    negative = first.text.startswith("-") and " " not in first.text
    factors = [first.text if negative else _in(first, _PRODUCT), *(_in(part, _PRODUCT) for part in others)]
    return Text("*".join(factors), _SUM if negative else _PRODUCT)


def _in(part: Text, least: int) -> str:
    """The text, in parentheses where it binds less tightly than needed."""
    return part.text if part.level >= least else f"({part.text})"


def nested(name: str) -> Callable[[str, str, int], str]:
    """Derivatives as nested calls of one function by axis: ``d{axis}`` is dx(dx(u))."""
    return lambda text, axis, m: f"{name.format(axis=axis)}(" * m + text + ")" * m


def heading(found: Discovery) -> str:
    """Equation, verdict and version as comments; a result from somebody else may hold line breaks anywhere."""
    from bvsi._version import __version__

    lines = [*found.equation.splitlines(), f"verdict: {found.verdict}", f"written by bvsi {__version__}"]
    return "\n".join(f"# {line}" for line in lines)
