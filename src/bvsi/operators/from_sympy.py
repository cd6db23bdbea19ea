"""SymPy expressions to strong forms: the same language as the texts, given as objects.

Fields may be symbols (``u``) or applied functions (``u(x, y, t)``); ``Derivative`` of them is a jet. Only the
functions of the text language are accepted.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from bvsi.errors import OperatorError
from bvsi.operators.parse import FUNCTIONS
from bvsi.operators.strong import Scalar, StrongAlgebra
from bvsi.operators.vocabulary import Vocabulary

_NODES: Any = (sp.Add, sp.Mul, sp.Pow, *(f for f in FUNCTIONS.values() if isinstance(f, type)))


def from_sympy(expression: sp.Expr, words: Vocabulary) -> Scalar:
    """Strong form of a SymPy expression of fields, coordinates and derivatives."""
    return StrongAlgebra(words).plain(_convert(expression, words))


def _convert(node: Any, words: Vocabulary) -> sp.Expr:
    if isinstance(node, sp.Symbol):
        return words.symbol(node.name)
    if isinstance(node, AppliedUndef):
        return words.symbol(node.func.__name__)
    if isinstance(node, sp.Derivative):
        return _derivative(node, words)
    if node.is_number and not node.args:
        return node
    if isinstance(node, _NODES):
        return node.func(*(_convert(argument, words) for argument in node.args))
    raise OperatorError(f"SymPy object {node} ({type(node).__name__}) is not part of the operator language.")


def _derivative(node: sp.Derivative, words: Vocabulary) -> sp.Expr:
    result = _convert(node.expr, words)
    for variable, order in node.variable_count:
        if variable.name not in words.coordinates:
            raise OperatorError(
                f"derivative with respect to {variable.name!r} in {node}: an operator stands on the right-hand side "
                f"of the equation; derivatives are by {', '.join(words.coordinates)}."
            )
        for _ in range(int(order)):
            result = words.derivative(result, words.coordinates.index(variable.name))
    return result
