"""SymPy expressions to strong forms: the same language as the texts, given as objects.

Fields may be symbols (``u``) or applied functions (``u(x, y, t)``); ``Derivative`` of them is a jet. Only the
functions of the text language are accepted.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from bvsi.errors import OperatorError
from bvsi.operators.constants import apply, checked, power
from bvsi.operators.effort import shortened
from bvsi.operators.parse import FUNCTIONS
from bvsi.operators.strong import Scalar, StrongAlgebra
from bvsi.operators.vocabulary import MAX_ORDER, Vocabulary

_NODES: Any = (sp.Add, sp.Mul, sp.Pow, *(f for f in FUNCTIONS.values() if isinstance(f, type)))


def from_sympy(expression: sp.Expr, words: Vocabulary) -> Scalar:
    """Strong form of a SymPy expression of fields, coordinates and derivatives."""
    try:
        return StrongAlgebra(words).plain(_convert(expression, words))
    except OperatorError as error:
        raise OperatorError(f"operator {shortened(str(expression))!r}: {error}") from None


def names_in_expression(expression: sp.Expr) -> frozenset[str]:
    """Names that an expression uses: its symbols, and the functions of them that stand for fields."""
    applied = {function.func.__name__ for function in expression.atoms(AppliedUndef)}
    return frozenset(applied | {symbol.name for symbol in expression.free_symbols})


def _convert(node: Any, words: Vocabulary) -> sp.Expr:
    if isinstance(node, sp.Symbol):
        return words.symbol(node.name)
    if isinstance(node, AppliedUndef):
        return words.symbol(node.func.__name__)
    if isinstance(node, sp.Derivative):
        return _derivative(node, words)
    if node.is_number and not node.args:
        return checked(node)
    if not isinstance(node, _NODES):
        raise OperatorError(f"the SymPy object {node} ({type(node).__name__}) is not part of the operator language.")
    arguments = [_convert(argument, words) for argument in node.args]
    if isinstance(node, (sp.Add, sp.Mul)):
        return checked(node.func(*arguments))
    return power(*arguments) if isinstance(node, sp.Pow) else apply(node.func, *arguments)


def _derivative(node: sp.Derivative, words: Vocabulary) -> sp.Expr:
    result = _convert(node.expr, words)
    for variable, order in node.variable_count:
        if str(variable) not in words.coordinates:
            raise OperatorError(
                f"derivative with respect to {str(variable)!r}: an operator stands on the right-hand side "
                f"of the equation; derivatives are by {', '.join(words.coordinates)}."
            )
        if not (order.is_Integer and order <= MAX_ORDER):
            raise OperatorError(f"a derivative of order {order}; write a number up to {MAX_ORDER}.")
        for _ in range(int(order)):
            result = words.derivative(result, words.coordinates.index(str(variable)))
    return result
