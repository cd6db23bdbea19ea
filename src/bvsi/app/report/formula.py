"""Operator texts as formulas: ``div(p*grad(x**2))`` is ∇·(p∇x²), as a small tree that printers take.

The printers walk the syntax tree of the operator language. What is not part of that language stays as it was written.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

from bvsi.common.naming import CONSTANT_NAMES, FUNCTION_NAMES
from bvsi.operators.syntax import Syntax, read_or_none


@dataclass(frozen=True)
class Number:
    """Digits, with an exponent of ten, zero for none, and a unit."""

    digits: str
    exponent: int = 0
    unit: str = ""


@dataclass(frozen=True)
class Name:
    """A field, coordinate or constant: its letters, and a subscript."""

    text: str
    subscript: str = ""


@dataclass(frozen=True)
class Symbol:
    """A sign from a printer's list: ``nabla``, ``partial``, ``dot``, ``minus``, ``integral`` …"""

    key: str


@dataclass(frozen=True)
class Script:
    """A base with what stands below and above it."""

    base: Formula
    below: Formula | None = None
    above: Formula | None = None


@dataclass(frozen=True)
class Fraction:
    """One formula over another."""

    top: Formula
    bottom: Formula


@dataclass(frozen=True)
class Fenced:
    """A formula between brackets of a kind: ``round``, ``angle``, ``jump``, ``average``."""

    inner: Formula
    kind: str = "round"


@dataclass(frozen=True)
class Root:
    """A square root."""

    inner: Formula


@dataclass(frozen=True)
class Juxtaposition:
    """Formulas side by side; ``spaced`` where they are factors."""

    parts: tuple[Formula, ...]
    spaced: bool = False


@dataclass(frozen=True)
class Function:
    """A named function, ready to be applied."""

    text: str


@dataclass(frozen=True)
class Verbatim:
    """A text that is not an operator, as it was written."""

    text: str


Formula = Number | Name | Symbol | Script | Fraction | Fenced | Root | Juxtaposition | Function | Verbatim

_SUM, _PRODUCT, _PREFIX, _POWER, _ATOM = range(1, 6)
_PREFIXES: dict[str, tuple[Formula, ...]] = {
    "grad": (Symbol("nabla"),),
    "div": (Symbol("nabla"), Symbol("dot")),
    "laplacian": (Script(Symbol("nabla"), above=Number("2")),),
    "biharmonic": (Script(Symbol("nabla"), above=Number("4")),),
}
_MEASURES = {"cells": "domain", "facets": "facets", "boundary": "boundary"}
_FENCES = {"recover": "angle", "jump": "jump", "avg": "average"}


def operator_formula(operator: str | Syntax) -> Formula:
    """The formula of an operator, or of its text."""
    syntax = read_or_none(operator) if isinstance(operator, str) else operator
    try:
        if syntax is not None:
            return _bracketed(_read(syntax.tree), _PRODUCT)
    except _UnknownError:
        pass
    return Verbatim(operator if isinstance(operator, str) else operator.text)


def name_formula(text: str) -> Formula:
    """A name with its subscript: c1 and c_1 are c with index 1."""
    stem = text.rstrip("0123456789")
    if "_" in text:
        stem, _, rest = text.partition("_")
        return Name(stem, rest) if stem.isalpha() and rest.isalnum() else Verbatim(text)
    if stem == text or not stem.isalpha():
        return Name(text) if text.isalnum() else Verbatim(text)
    return Name(stem, text[len(stem) :])


def number_formula(value: float) -> Number:
    """A literal of a text: all its digits, powers of ten written as such."""
    digits, _, exponent = f"{value!r}".partition("e")
    return Number(digits.removesuffix(".0"), int(exponent or 0))


_Read = tuple[Formula, int]


class _UnknownError(Exception):
    """A node that is not part of the operator language."""


def _read(node: ast.AST) -> _Read:
    """Formula and how tightly it binds."""
    match node:
        case ast.Constant(value=bool() | complex()):
            raise _UnknownError
        case ast.Constant(value=int() | float() as value) if math.isfinite(value):
            made = number_formula(value)
            return made, _PRODUCT if made.exponent else _ATOM
        case ast.Name(id=name):
            return Symbol("pi") if name in CONSTANT_NAMES else name_formula(name), _ATOM
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return Juxtaposition((Symbol("negative"), _bracketed(_read(inner), _PRODUCT))), _SUM
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _read(inner)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return _sum(node), _SUM
        case ast.BinOp(op=ast.Mult()):
            return _product(node), _PRODUCT
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return Fraction(_read(left)[0], _read(right)[0]), _PRODUCT
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return Script(_bracketed(_read(left), _ATOM), above=_read(right)[0]), _POWER
        case ast.Call(func=ast.Name(id=name), args=[first, *others], keywords=[]):
            return _call(name, first, others)
    raise _UnknownError


def _bracketed(read: _Read, least: int) -> Formula:
    """The formula, in brackets where it binds less tightly than needed."""
    formula, level = read
    return formula if level >= least else Fenced(formula)


def _sum(node: ast.BinOp) -> Formula:
    left, right = _read(node.left), _read(node.right)
    sign = "minus" if isinstance(node.op, ast.Sub) else "plus"
    # a − (b + c) keeps its brackets; a + (−b) too
    return Juxtaposition((left[0], Symbol(sign), _bracketed(right, _PRODUCT)))


def _product(node: ast.BinOp) -> Formula:
    """Factors side by side: an applied operator comes last or stands in brackets, a number follows a dot."""
    factors = _factors(node)
    parts: list[Formula] = []
    for place, factor in enumerate(factors):
        read = _read(factor)
        last = place == len(factors) - 1
        made = Fenced(read[0]) if read[1] == _PREFIX and not last else _bracketed(read, _PRODUCT)
        if parts and isinstance(_first(made), Number):
            parts.append(Symbol("dot"))
        parts.append(made)
    return Juxtaposition(tuple(parts), spaced=True)


def _factors(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return [*_factors(left), *_factors(right)]
    return [node]


def _first(formula: Formula) -> Formula:
    """What the formula begins with."""
    match formula:
        case Script(base=base):
            return _first(base)
        case Juxtaposition(parts=(first, *_)):
            return _first(first)
    return formula


def _call(name: str, first: ast.expr, others: list[ast.expr]) -> _Read:
    inner = _read(first)
    if name == "dot" and len(others) == 1:
        pair = (_bracketed(inner, _PREFIX), Symbol("dot"), _bracketed(_read(others[0]), _PREFIX))
        return Juxtaposition(pair), _PRODUCT
    if name == "diff" and others:
        below = [_read(by)[0] for by in others]
        marks = tuple(Script(Symbol("partial"), below=by) for by in below)
        return Juxtaposition((*marks, _bracketed(inner, _PREFIX))), _PREFIX
    if others:
        raise _UnknownError
    if name in _PREFIXES:
        return Juxtaposition((*_PREFIXES[name], _bracketed(inner, _PREFIX))), _PREFIX
    if name in ("dx", "dy", "dz"):
        return _directional(name, first), _PREFIX
    if name == "sqrt":
        return Root(inner[0]), _ATOM
    if name in FUNCTION_NAMES:
        return Juxtaposition((Function(name), Fenced(inner[0]))), _ATOM
    if name in _FENCES:
        return Fenced(inner[0], _FENCES[name]), _ATOM
    if name in _MEASURES:
        return Juxtaposition(
            (Script(Symbol("integral"), below=Symbol(_MEASURES[name])), _bracketed(inner, _PRODUCT))
        ), _PREFIX
    raise _UnknownError


def _directional(name: str, argument: ast.expr) -> Formula:
    """∂_x^n of the argument, n the number of the same derivatives in a row."""
    order = 1
    while True:
        match argument:
            case ast.Call(func=ast.Name(id=again), args=[inner], keywords=[]) if again == name:
                order, argument = order + 1, inner
            case _:
                break
    mark = Script(Symbol("partial"), below=Name(name[1]), above=Number(str(order)) if order > 1 else None)
    return Juxtaposition((mark, _bracketed(_read(argument), _PREFIX)))
