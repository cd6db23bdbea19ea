"""Operator texts as syntax trees: each text is read once, and everything else walks its tree.

Python's own ``ast`` does the tokenising; nothing in a text is ever evaluated as Python. A text is bounded in length,
size and depth before it is worked with. This module does not need SymPy.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from bvsi.common.naming import CONSTANT_NAMES, MEASURES
from bvsi.errors import OperatorError

if TYPE_CHECKING:
    import sympy as sp

    from bvsi.operators.operator import WeakOperator

Source: TypeAlias = "str | sp.Expr"

# Characters, symbols and nesting of a text, none of them measured.
MAX_LENGTH = 2000
MAX_NODES = 400  # a node of the tree is a name, a number, an operation, a call
MAX_DEPTH = 60  # keeps the recursive walks far from Python's limit of 1000 frames

# Largest constant; not measured, products of three constants of this size are still floats.
MAX_CONSTANT = 1e100
# Largest exponent; not measured, higher powers of a field are meant to be exp(...).
MAX_EXPONENT = 20

# Characters of a text that a message shows; not measured, about one line.
_MAX_SHOWN = 120

SPECIAL = ("diff", "lag", "recover", "spline", *MEASURES)


@dataclass(frozen=True, eq=False)
class Syntax:
    """A text of the operator language and its tree.

    Attributes
    ----------
    text
        As it was written.
    tree
        Nodes of Python's ``ast``, not to be changed.
    names, functions
        What it uses, and what it calls.
    """

    text: str
    tree: ast.expr
    names: frozenset[str]
    functions: frozenset[str]

    @staticmethod
    def of(text: str, tree: ast.expr) -> Syntax:
        """With the names and functions in the tree."""
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called, words = set(map(id, calls)), [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        names = frozenset(word.id for word in words if id(word) not in called and word.id not in CONSTANT_NAMES)
        return Syntax(text, tree, names, frozenset(word.id for word in words if id(word) in called))

    def part(self, tree: ast.expr) -> Syntax:
        """A part of the tree by itself."""
        return Syntax.of(ast.unparse(tree), tree)

    def put(self, trees: Mapping[str, ast.expr]) -> Syntax:
        """The text with expressions in the places of names; itself where it has none of these."""
        if not self.names & {*trees}:
            return self
        copied = ast.parse(ast.unparse(self.tree), mode="eval").body
        return self.part(ast.fix_missing_locations(_Put(trees).visit(copied)))


class _Put(ast.NodeTransformer):
    """Expressions for names."""

    def __init__(self, trees: Mapping[str, ast.expr]) -> None:
        self.trees = trees

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.trees.get(node.id, node)


def literal(value: float) -> ast.expr:
    """The tree of a number."""
    size = ast.Constant(abs(float(value)))
    return size if value >= 0 else ast.UnaryOp(ast.USub(), size)


@dataclass(frozen=True, eq=False)
class Operator:
    """A candidate operator as the user gave it.

    Attributes
    ----------
    name
        Coefficient name.
    equation
        Field whose equation it belongs to.
    source
        Text or SymPy expression.
    tie
        What it shares its coefficient with: components of one operator of a vector equation have the same text here.
    free
        Its text with parameters by name, of which ``syntax`` has values; None where it has no parameters.
    weak_forms
        Its weak forms by what they depend on, or why there is none; filled by :class:`Library` when asked for.
    """

    name: str
    equation: str
    source: Source
    syntax: Syntax
    weak_forms: dict[Hashable, WeakOperator | str] = field(default_factory=dict, repr=False)
    tie: str = ""
    free: Syntax | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "weak_forms": {}}  # which are built where they arrive


def read(text: str) -> Syntax:
    """The syntax of an operator text."""
    return Syntax.of(text, _tree(text))


def read_or_none(text: str) -> Syntax | None:
    """The syntax of a text; None for one that is not of the operator language."""
    try:
        return read(text)
    except OperatorError:
        return None


def shortened(text: str) -> str:
    """The beginning of a text, for messages."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _tree(text: str) -> ast.expr:
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
    if "#" in text:
        # Python would skip the rest of the line: two texts that differ would be the same operator.
        raise OperatorError(f"operator {text!r}: comments are not part of an operator; remove what follows #.")
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


def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    return depth
