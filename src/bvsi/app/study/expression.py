"""Quantities that follow from the coefficients, as texts of a small language: nothing in them is evaluated as Python.

    2*[laplacian(u)]            [u: u**2]/[u: u]            exp(-[laplacian(u)]*x)

Coefficients are names of operators in square brackets, as in constraints. Besides: numbers, ``pi``, the variables of
the quantity, ``+ - * / **``, parentheses, and the functions of operator texts and ``abs``. ``ast`` does the tokenising;
every other kind of node is refused.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.common.naming import FUNCTION_NAMES
from bvsi.errors import BvsiError, OperatorError
from bvsi.operators.syntax import (
    MAX_CONSTANT,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_LENGTH,
    MAX_NODES,
    read,
    shortened,
)

Array = NDArray[np.float64]

_FUNCTION_NAMES = (*FUNCTION_NAMES, "abs")
_UFUNCS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "abs": "abs"}
_OPERATIONS: dict[type[ast.operator], Callable[[Array, Array], Array]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
_RESERVED = re.compile(r"(?<![A-Za-z0-9_])_")


def _functions() -> dict[str, Callable[[Array], Array]]:
    from scipy.special import erf

    known = {name: getattr(np, _UFUNCS.get(name, name)) for name in _FUNCTION_NAMES if name != "erf"}
    return {**known, "erf": erf}


@dataclass(frozen=True)
class Expression:
    """A parsed text.

    Attributes
    ----------
    text
        As written.
    tree
        Tree with ``_0``, ``_1``, … for the coefficients.
    operators
        What stood in brackets, in this order.
    variables
        Names that it may use.
    """

    text: str
    tree: ast.expr
    operators: tuple[str, ...]
    variables: tuple[str, ...]

    @property
    def linear(self) -> bool:
        """Whether it is Σ_i θ_i φ_i(x), without constant."""
        return _degree(self.tree) == 1

    def __call__(self, coefficients: Sequence[float], points: Mapping[str, Array]) -> Array:
        """Values for coefficients in the order of ``operators``; NaN or inf where it is not defined."""
        names = {f"_{i}": np.float64(value) for i, value in enumerate(coefficients)}
        known: dict[str, Array] = {**points, **{key: np.asarray(value) for key, value in names.items()}}
        with np.errstate(all="ignore"):
            return np.asarray(_value(self.tree, {**known, "pi": np.asarray(math.pi)}, _functions()), dtype=float)


def parse_expression(text: str, variables: Sequence[str] = ()) -> Expression:
    """Read a text; BvsiError says what is not understood."""
    if len(text) > MAX_LENGTH:
        raise BvsiError(f"expression {shortened(text)!r}: {len(text)} characters, at most {MAX_LENGTH} are read.")
    plain, operators = _without_brackets(text)
    try:
        tree = read(plain).tree
    except OperatorError:
        raise BvsiError(
            f"expression {shortened(text)!r} is not understood, or too large; write for example 2*[laplacian(u)], in "
            f"ASCII, with at most {MAX_NODES} symbols and nesting {MAX_DEPTH}."
        ) from None
    if not operators:
        raise BvsiError(f"expression {text!r} names no operator; write for example 2*[laplacian(u)].")
    known = (*variables, *(f"_{i}" for i in range(len(operators))), "pi")
    try:
        _check(tree, known)
    except BvsiError as error:
        raise BvsiError(f"expression {shortened(text)!r}: {error}") from None
    return Expression(text, tree, tuple(operators), tuple(variables))


def _without_brackets(text: str) -> tuple[str, list[str]]:
    """The text with ``_0``, ``_1``, … for what stands in square brackets, and what stood there."""
    operators: list[str] = []
    plain, start, depth = "", 0, 0
    for place, character in enumerate(text):
        if character == "[":
            start = start if depth else place
            depth += 1
        elif character == "]":
            depth -= 1
            if depth < 0:
                raise BvsiError(f"expression {shortened(text)!r}: a bracket was never opened.")
            if depth == 0:
                plain += f"(_{len(operators)})"
                operators.append(text[start + 1 : place].strip())
        elif depth == 0:
            plain += character
    if depth:
        raise BvsiError(f"expression {shortened(text)!r}: a bracket is not closed.")
    if _RESERVED.search(re.sub(r"\(_\d+\)", "", plain)) or "(_" in text:
        raise BvsiError(f"expression {shortened(text)!r}: names do not begin with an underscore.")
    return plain, operators


def _check(node: ast.AST, known: Sequence[str]) -> None:
    """Refuse every node that is not part of the language."""
    match node:
        case ast.Constant(value=value):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BvsiError(f"{value!r} is not a real number.")
            if abs(value) > MAX_CONSTANT:  # before it becomes a float, which an integer may be too large for
                raise BvsiError("a constant in it is not a real number of moderate size; rescale.")
        case ast.Name(id=name):
            if name not in known:
                raise BvsiError(_unknown(name, known))
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            _check(operand, known)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            _check(left, known)
            _check(right, known)
            exponent = _constant(right) if isinstance(op, ast.Pow) else None
            if exponent is not None and not abs(exponent) <= MAX_EXPONENT:
                raise BvsiError(f"the exponent is above {MAX_EXPONENT}; use a smaller one.")
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]):
            if name.startswith("_"):
                raise BvsiError("an operation is missing; write * for a product.")
            if name not in _FUNCTION_NAMES:
                raise BvsiError(f"unknown function {name!r}; known are {', '.join(_FUNCTION_NAMES)}.")
            _check(argument, known)
        case _:
            raise BvsiError(f"{type(node).__name__} is not part of the language; use + - * / **, exp, log, …")
    value = _constant(node)
    if value is not None and not abs(value) <= MAX_CONSTANT:
        raise BvsiError("a constant in it is not a real number of moderate size; rescale.")


def _unknown(name: str, known: Sequence[str]) -> str:
    names = [n for n in known if not n.startswith("_")]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}."
    return f"unknown name {name!r}; {hint} Operators stand in brackets: [laplacian(u)]; variables stand in axes."


def _constant(node: ast.AST) -> float | None:
    """The value of a checked tree without coefficients and variables; None for others."""
    if any(isinstance(n, ast.Name) and n.id not in ("pi", *_FUNCTION_NAMES) for n in ast.walk(node)):
        return None
    with np.errstate(all="ignore"):
        return float(_value(node, {"pi": np.asarray(math.pi)}, _functions()))


def _value(node: ast.AST, names: Mapping[str, Array], functions: Mapping[str, Callable[[Array], Array]]) -> Array:
    """Value of a checked tree, in floating point throughout."""
    match node:
        case ast.Constant(value=value):
            return np.asarray(float(value))  # type: ignore[arg-type]
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=op, operand=operand):
            inner = _value(operand, names, functions)
            return np.negative(inner) if isinstance(op, ast.USub) else inner
        case ast.BinOp(left=left, op=operation, right=right):
            return _OPERATIONS[type(operation)](_value(left, names, functions), _value(right, names, functions))
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return functions[name](_value(argument, names, functions))
    raise AssertionError(f"unchecked node {type(node).__name__}")


def _degree(node: ast.AST) -> int | None:
    """0 without coefficients, 1 where linear and homogeneous in them, None otherwise."""
    match node:
        case ast.Name(id=name):
            return int(name.startswith("_"))
        case ast.UnaryOp(operand=operand):
            return _degree(operand)
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _degree(left), _degree(right)
            if first is None or second is None:
                return None
            match op:
                case ast.Add() | ast.Sub():
                    return first if first == second else None
                case ast.Mult():
                    return first + second if first + second <= 1 else None
                case ast.Div():
                    return first if second == 0 else None
            return 0 if first == second == 0 else None
        case ast.Call(args=[argument]):
            return 0 if _degree(argument) == 0 else None
    return 0
