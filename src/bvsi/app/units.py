"""Units of coefficients, by pint: ``units={"u": "mg/L", "x": "mm", "t": "h"}``.

    [θ_i] = [left side]/[F_i],      [u_t] = [u]/[t],      [laplacian(u)] = [u]/[x]²

The units of an operator follow from its syntax tree. Both sides of a sum, and of u in ``exp(u)`` and 1, have to be the
same; a mismatch is refused by name. Numbers have no unit. That of a parameter inside an operator follows from the sums
that it stands in: of K in u/(K + u) it is that of u.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from bvsi.common.naming import AXIS_NAMES, CONSTANT_NAMES, FUNCTION_NAMES
from bvsi.errors import BvsiError, MissingDependencyError, OperatorError
from bvsi.operators import Library
from bvsi.operators.syntax import Syntax, read, shortened
from bvsi.operators.vocabulary import FACET_SIZE, PENALTY, TEST, TIME

#: For figures of data without units.
NO_UNITS: Mapping[str, str] = MappingProxyType({})

# Angles, whose unit is one where it is not given.
_ANGLES = ("phi", "theta")
# Relative difference of two scales of one dimension below which they are the same: conversion factors are rounded.
_SAME = 1e-9
# Parameters with unknown units: each is a unit of its own until a sum determines it. More are refused.
_OPEN = 20
_FACTOR = re.compile(r"([A-Za-zµμΩÅ°%][A-Za-z0-9_]{0,40})(?:\^(-?\d{1,2}))?")
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹⋅", "-0123456789.")

# Derivatives of each function: powers of 1/length in its unit.
_SLOPES = {"grad": 1, "div": 1, "curl": 1, "symgrad": 1, "laplacian": 2, "biharmonic": 4, "facets": 1, "boundary": 1}
_PLAIN = ("abs", "recover", "cells", "jump", "avg")
_PRODUCTS = {"dot": 0, "outer": 0, "advect": 1}


@cache
def _registry() -> Any:
    try:
        import pint
    except ImportError:
        raise MissingDependencyError("units: pint is not installed; run: pip install 'bvsi[units]'") from None
    registry = pint.UnitRegistry(on_redefinition="ignore")
    registry.define("liter = decimeter ** 3 = L = l = litre")  # written mg/L, not mg/l
    for i in range(_OPEN):
        registry.define(f"bvsi_open_{i} = [bvsi_open_{i}]")
    return registry


def parse_unit(text: str, name: str = "units") -> Any:
    """A unit of pint from a text such as ``mg/L``, ``mm**2/h`` or ``1/s``; read here, so that nothing is evaluated."""
    plain = re.sub(r"[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", r"^\g<0>", str(text)).translate(_RAISED).replace("**", "^").replace("·", "*")
    parts, unit = re.split(r"([/*\s])", re.sub(r"\s*([/*])\s*", r"\1", plain.strip())), _registry().dimensionless
    for sign, part in zip(["*", *parts[1::2]], parts[::2], strict=True):
        match = _FACTOR.fullmatch(part)
        if match is None and part != "1":
            raise BvsiError(f'{name}: {text!r} is not a unit; write for example "mg/L", "mm**2/h" or "1".')
        if match is not None:
            unit = unit * _known(match[1], text, name) ** ((-1 if sign == "/" else 1) * int(match[2] or 1))
    return unit


def _known(word: str, text: str, name: str) -> Any:
    import pint

    try:
        unit = _registry().Unit(word)
    except (pint.errors.UndefinedUnitError, AttributeError, ValueError):
        raise BvsiError(f"{name}: {text!r}: there is no unit {word!r}; prefixes and names are those of pint.") from None
    try:
        _scale(unit)
    except pint.errors.OffsetUnitCalculusError:
        raise BvsiError(f"{name}: {text!r} has an offset; write delta_{word}, or K.") from None
    return unit


def _scale(unit: Any) -> float:
    """Size of a unit in base units."""
    return float((1 * unit * unit / unit).to_base_units().magnitude)


def unit_text(unit: Any) -> str:
    """For people: ``mm²/h``; empty for none."""
    return f"{unit:~P}" if unit != _registry().dimensionless else ""


def unit_latex(text: str) -> str:
    r"""A text of :func:`unit_text` for LaTeX: ``\mathrm{mm^{2}/h}``."""
    plain = re.sub(r"[^A-Za-z0-9/µμΩÅ°%·⋅⁻⁰¹²³⁴⁵⁶⁷⁸⁹]", "", text)  # of a result from somebody else
    raised = re.sub(r"[⁻⁰¹²³⁴⁵⁶⁷⁸⁹⋅]+", lambda m: f"^{{{m[0].translate(_RAISED)}}}", plain)
    signs = {"·": r"\,", "%": r"\%", "µ": r"\mu ", "μ": r"\mu ", "Ω": r"\Omega ", "Å": r"\AA ", "°": r"^{\circ}"}
    return rf"\mathrm{{{''.join(signs.get(c, c) for c in raised)}}}"


def shown_units(units: Mapping[str, str]) -> dict[str, str]:
    """Units by name for people, ``mm²/h`` for ``mm**2/h``; empty for "1"."""
    return {name: unit_text(parse_unit(text, f"units: {name}")) for name, text in units.items()}


def labelled(name: str, units: Mapping[str, str]) -> str:
    """``u (mg/L)``, the label of an axis; ``u`` where it has no unit."""
    return f"{name} ({units[name]})" if units.get(name) else name


def coefficient_units(library: Library, units: Mapping[str, str]) -> dict[str, str]:
    """Units of all coefficients by name, of the parameters inside operators, and of unknown functions.

    Parameters
    ----------
    units
        Texts by name: all fields, ``t``, and the coordinates that operators take derivatives by; "1" for none.
    """
    if not isinstance(units, Mapping) or not all(isinstance(one, str) for pair in units.items() for one in pair):
        raise BvsiError('units: texts by name are needed, such as {"u": "mg/L", "x": "mm", "t": "h"}.')
    if len(library.parameters) > _OPEN:
        raise BvsiError(f"units: {len(library.parameters)} parameters are more than {_OPEN}; leave units out.")
    given = {name: parse_unit(text, f"units: {name}") for name, text in units.items()}
    given |= {name: parse_unit("1", name) for name in library.unknown}  # they have the unit of the coefficient
    registry = _registry()
    free = [name for name in library.parameters if name not in given]
    known = _Known(given, {name: registry.Unit(f"bvsi_open_{i}") for i, name in enumerate(free)})
    texts = library.texts
    trees = {o.name: o.free or read(texts[o.name]) for o in library.operators}
    for _ in range(len(free) + 1):  # what one sum says about a parameter may be what another needs
        found = {name: _Walk(syntax, known, name).unit() for name, syntax in trees.items()}
        lefts = {equation: _left(library, equation, known) for equation in library.equations}
    for name, unit in known.open.items():
        if "bvsi_open" in str(unit):
            raise BvsiError(f"units: that of the parameter {name!r} does not follow from the operators; give it.")
    shown = {o.name: unit_text(lefts[o.equation] / found[o.name]) for o in library.operators}
    shown |= {name: shown[library.carrying(name)[0].name] for name in library.unknown}
    return {**shown, **{name: unit_text({**given, **known.open}[name]) for name in library.parameters}}


def _left(library: Library, equation: str, known: _Known) -> Any:
    """Unit of the left side of an equation."""
    text = library.left(equation).text
    if text:
        return _Walk(read(text), known, f"left: {text}").unit()
    walk = _Walk(read(equation), known, equation)
    return walk.unit() / walk.named(TIME) ** library.time_order


@dataclass(frozen=True, eq=False)
class _Known:
    """Units by name, as they were given, and those of parameters as far as sums determine them."""

    given: Mapping[str, Any]
    open: dict[str, Any] = field(default_factory=dict)

    def learn(self, ratio: Any) -> bool:
        """Take a ratio of two sides of a sum as one, which determines a parameter in it; returns whether it does."""
        registry = _registry()
        for unknown, power in ratio._units.items():
            if unknown.startswith("bvsi_open_"):
                own = registry.Unit(unknown)
                value = (ratio / own**power) ** (-1 / power)
                told = {name: _replaced(unit, unknown, value) for name, unit in self.open.items()}
                self.open.update(told)
                return True
        return False


def _replaced(unit: Any, unknown: str, value: Any) -> Any:
    power = unit._units.get(unknown, 0)
    return unit / _registry().Unit(unknown) ** power * value**power


class _Walk:
    """The unit of one operator."""

    def __init__(self, syntax: Syntax, known: _Known, name: str) -> None:
        self._syntax, self._known, self._name = syntax, known, name
        self._one = _registry().dimensionless

    def unit(self) -> Any:
        return self._of(self._syntax.tree)

    def named(self, name: str) -> Any:
        """Unit of a name."""
        if name in self._known.given:
            return self._known.given[name]
        if name in self._known.open:
            return self._known.open[name]
        if name in (*CONSTANT_NAMES, *_ANGLES, TEST, "normal"):
            return self._one
        if name in (FACET_SIZE, PENALTY):
            return self._length() ** (1 if name == FACET_SIZE else -1)
        raise BvsiError(f'units: that of {name!r} is missing, for {self._name!r}; give it, or "1" where it has none.')

    def _length(self) -> Any:
        """The one unit of all coordinates."""
        axes = [name for name in AXIS_NAMES if name in self._known.given and name not in _ANGLES]
        if not axes:
            return self.named("x")
        for axis in axes[1:]:
            self._same(
                self.named(axes[0]), self.named(axis), "the sum of derivatives by", ast.Name(axes[0]), ast.Name(axis)
            )
        return self.named(axes[0])

    def _of(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return self._one
            case ast.Name(id=name):
                return self.named(name)
            case ast.UnaryOp(operand=inner):
                return self._of(inner)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._power(left, right)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self._of(left), self._of(right)
                if isinstance(op, ast.Mult | ast.Div):
                    return a * b if isinstance(op, ast.Mult) else a / b
                return self._same(a, b, "the sum of", left, right)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, arguments)
        raise self._refused("its units are not understood; leave units out.")

    def _power(self, base: ast.expr, exponent: ast.expr) -> Any:
        number = _number(exponent)
        if number is not None:
            return self._of(base) ** (int(number) if number == int(number) else number)
        self._same(self._of(exponent), self._one, "the power", exponent)
        return self._same(self._of(base), self._one, "a power that is not a number, of", base)

    def _call(self, name: str, arguments: list[ast.expr]) -> Any:
        parts = [self._of(part) for part in arguments[: 1 if name == "diff" else None]]
        if name == "diff":
            return parts[0] / self._of(arguments[1])
        if name == "dt" or (name[:1] == "d" and name[1:] in AXIS_NAMES):
            return parts[0] / self.named(name[1:])
        if name == "lag":  # a time before, as a number in the units of t or as a parameter
            if not isinstance(arguments[1], ast.Constant):
                self._same(parts[1], self.named(TIME), "the delay", arguments[1])
            return parts[0]
        if name in _PRODUCTS:
            return parts[0] * parts[1] / self._slope(_PRODUCTS[name])
        if name in _SLOPES or name in _PLAIN:
            return parts[0] / self._slope(_SLOPES.get(name, 0))
        if name == "sqrt":
            return parts[0] ** 0.5
        if name in FUNCTION_NAMES:
            return self._same(parts[0], self._one, f"{name} of", arguments[0])
        raise self._refused(f"the units of {name}(...) are not known; leave units out.")

    def _slope(self, order: int) -> Any:
        return self._length() ** order if order else self._one

    def _same(self, a: Any, b: Any, what: str, *nodes: ast.expr) -> Any:
        """a, where both are the same unit; else refused by name."""
        ratio = a / b
        if ratio.dimensionless:
            if abs(_scale(ratio) - 1) <= _SAME:
                return a
            reason = f"has {_shown(a)} and {_shown(b)}, two units of one dimension; give the data in one of them."
        elif self._known.learn(ratio):
            return a
        elif len(nodes) == 2:
            reason = f"has {_shown(a)} and {_shown(b)}; make them operators of their own, each with its coefficient."
        else:
            reason = f"has {_shown(a)} where {_shown(b)} is needed; divide by a scale, or leave the operator out."
        told = " and ".join(repr(shortened(ast.unparse(node))) for node in nodes)
        raise self._refused(f"{what} {told} {reason}")

    def _refused(self, reason: str) -> OperatorError:
        return OperatorError(f"operator {shortened(self._name)!r}: {reason}")


def _shown(unit: Any) -> str:
    return unit_text(unit) or "no unit"


def _number(node: ast.expr) -> float | None:
    """A number, or a quotient of numbers, such as −1/2."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            positive = _number(inner)
            return None if positive is None else -positive
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            a, b = _number(left), _number(right)
            return a / b if a is not None and b else None
    return None
