"""Operator text to strong form, by a whitelist: nothing in the text is ever evaluated as Python.

Grammar: numbers, names, ``+ - * / **``, parentheses, and calls of the functions listed in ``FUNCTIONS`` and
``DERIVATIVES``. Python's own ``ast`` does the tokenising; each node is translated by hand and everything
else is refused with its place in the text.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable

import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators.constants import FUNCTION_NAMES, number
from bvsi.operators.effort import shortened
from bvsi.operators.strong import Scalar, Strong, StrongAlgebra
from bvsi.operators.vocabulary import Vocabulary

MAX_LENGTH = 2000
MAX_NODES = 400
MAX_DEPTH = 60

FUNCTIONS: dict[str, Callable[[sp.Expr], sp.Expr]] = {name: getattr(sp, name) for name in FUNCTION_NAMES}
DERIVATIVES = ("grad", "div", "dot", "laplacian", "biharmonic", "dx", "dy", "dz")
CONSTANTS = {"pi": sp.pi}


def parse(text: str, words: Vocabulary) -> Scalar:
    """Strong form of an operator text such as ``"div(p*grad(x**2))"``."""
    try:
        form = _Translator(text, words).translate(syntax_tree(text))
    except _PlacedError as error:
        raise OperatorError(str(error)) from None
    if not isinstance(form, Scalar):
        raise OperatorError(f"operator {text!r} is a vector; an operator of an equation is a scalar, such as div(...).")
    return form


def syntax_tree(text: str) -> ast.expr:
    """Syntax tree of an operator text, bounded in length, size and depth."""
    if not isinstance(text, str):
        raise OperatorError(f"an operator is a text or a SymPy expression, not {type(text).__name__}.")
    if len(text) > MAX_LENGTH:
        raise OperatorError(
            f"operator {shortened(text)!r}: {len(text)} characters are too many; split it into several operators "
            f"(at most {MAX_LENGTH} characters)."
        )
    foreign = next((character for character in text if not character.isascii()), None)
    if foreign is not None:
        # Python reads a full-width u as u: two texts that differ would be the same operator.
        raise OperatorError(f"operator {text!r}: the character {foreign!r} is not ASCII; write u**2, k*u, rho*u.")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        place = f" near column {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        raise OperatorError(f"operator {text!r} is not an expression{place}.") from None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES or _depth(tree) > MAX_DEPTH:
        raise OperatorError(
            f"operator {shortened(text)!r} is too large; split it into several operators "
            f"(at most {MAX_NODES} symbols, nesting {MAX_DEPTH})."
        )
    return tree


def names_in(text: str) -> frozenset[str]:
    """Names that a text uses, functions left out."""
    tree = syntax_tree(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and id(node) not in called and node.id not in CONSTANTS
    )


def functions_in(text: str) -> frozenset[str]:
    """Functions that a text calls."""
    calls = (node.func for node in ast.walk(syntax_tree(text)) if isinstance(node, ast.Call))
    return frozenset(f.id for f in calls if isinstance(f, ast.Name))


def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


class _PlacedError(OperatorError):
    """An error that already says where in the text it arose."""


class _Translator:
    """One method per kind of node; anything without a method is refused."""

    def __init__(self, text: str, words: Vocabulary) -> None:
        self.text = text
        self.words = words
        self.algebra = StrongAlgebra(words)

    def translate(self, node: ast.AST) -> Strong:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self._refuse(node, f"{type(node).__name__} is not part of the operator language")
        try:
            result: Strong = method(node)
        except _PlacedError:
            raise
        except OperatorError as error:
            raise self._refuse(node, str(error).rstrip(".")) from None
        return result

    def _refuse(self, node: ast.AST, reason: str) -> OperatorError:
        place = f" (column {node.col_offset + 1})" if hasattr(node, "col_offset") else ""
        return _PlacedError(f"operator {self.text!r}{place}: {reason}.")

    def _constant(self, node: ast.Constant) -> Strong:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise OperatorError(f"the constant {value!r} is not a real number")
        return self.algebra.plain(number(value))

    def _name(self, node: ast.Name) -> Strong:
        if node.id in CONSTANTS:
            return self.algebra.plain(CONSTANTS[node.id])
        if node.id in FUNCTIONS or node.id in DERIVATIVES:
            raise OperatorError(f"{node.id} needs an argument: {node.id}(...)")
        return self.algebra.plain(self.words.symbol(node.id))

    def _unaryop(self, node: ast.UnaryOp) -> Strong:
        value = self.translate(node.operand)
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(node.op, ast.USub):
            return self.algebra.multiply(self.algebra.plain(sp.Integer(-1)), value)
        raise OperatorError(f"{type(node.op).__name__} is not part of the operator language")

    def _binop(self, node: ast.BinOp) -> Strong:
        left, right = self.translate(node.left), self.translate(node.right)
        minus_one = self.algebra.plain(sp.Integer(-1))
        match node.op:
            case ast.Add():
                return self.algebra.add(left, right)
            case ast.Sub():
                return self.algebra.add(left, self.algebra.multiply(minus_one, right))
            case ast.Mult():
                return self.algebra.multiply(left, right)
            case ast.Div():
                return self.algebra.multiply(left, self.algebra.power(right, minus_one))
            case ast.Pow():
                return self.algebra.power(left, right)
        raise OperatorError(f"{type(node.op).__name__} is not part of the operator language; use + - * / **")

    def _call(self, node: ast.Call) -> Strong:
        if not isinstance(node.func, ast.Name):
            raise OperatorError("only named functions can be called")
        name = node.func.id
        if name not in FUNCTIONS and name not in DERIVATIVES:
            near = difflib.get_close_matches(name, (*FUNCTIONS, *DERIVATIVES), n=1)
            hint = f"; did you mean {near[0]}" if near else ""
            raise OperatorError(f"unknown function {name!r}{hint}; known are {', '.join((*DERIVATIVES, *FUNCTIONS))}")
        arity = 2 if name == "dot" else 1
        if node.keywords or len(node.args) != arity:
            raise OperatorError(f"{name} takes {arity} argument{'s' if arity > 1 else ''}")
        return self._apply(name, [self.translate(argument) for argument in node.args])

    def _apply(self, name: str, arguments: list[Strong]) -> Strong:
        algebra = self.algebra
        if name in FUNCTIONS:
            return algebra.function(FUNCTIONS[name], arguments[0])
        if name in ("dx", "dy", "dz"):
            if name[1] not in self.words.coordinates:
                raise OperatorError(f"{name}: the data have only the coordinates {', '.join(self.words.coordinates)}")
            return algebra.directional(self.words.coordinates.index(name[1]), arguments[0])
        if name == "dot":
            return algebra.dot(*arguments)
        if name == "biharmonic":
            return algebra.laplacian(algebra.laplacian(arguments[0]))
        operation: Callable[[Strong], Strong] = getattr(algebra, name)
        return operation(arguments[0])
