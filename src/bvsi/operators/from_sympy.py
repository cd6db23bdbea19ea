"""SymPy expressions as syntax trees: the same language as the texts, given as objects.

Fields may be symbols (``u``) or applied functions (``u(x, y, t)``); ``Derivative`` of them is ``dx``, ``dy`` or ``dz``.
Only the functions of the text language are accepted.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from bvsi.errors import OperatorError
from bvsi.operators.constants import real_value
from bvsi.operators.syntax import FUNCTION_NAMES, MAX_DEPTH, MAX_LENGTH, Syntax, shortened
from bvsi.operators.vocabulary import COORDINATES, MAX_ORDER


def from_sympy(expression: sp.Expr) -> Syntax:
    """Syntax of a SymPy expression of fields, coordinates and derivatives."""
    text = str(expression)
    try:
        tree = _tree(expression)
    except OperatorError as error:
        raise OperatorError(f"operator {shortened(text)!r}: {error}") from None
    names = {symbol.name for symbol in expression.free_symbols}
    names |= {function.func.__name__ for function in expression.atoms(AppliedUndef)}
    return Syntax(text if len(text) <= MAX_LENGTH else shortened(text), tree, frozenset(names))


def _tree(node: Any) -> ast.expr:
    if isinstance(node, (sp.Symbol, AppliedUndef)):
        return ast.Name(node.name if isinstance(node, sp.Symbol) else node.func.__name__)
    if isinstance(node, sp.Derivative):
        return _derivative(node)
    if node.is_number and not node.args:
        return _number(node)
    if isinstance(node, sp.Mul) and node.as_coeff_Mul()[0] != 1:
        return _scaled(*node.as_coeff_Mul())
    if isinstance(node, sp.Mul):
        return _joined(_product, [_tree(factor) for factor in node.as_ordered_factors()])
    if isinstance(node, sp.Add):
        return _joined(_sum, [_tree(term) for term in node.as_ordered_terms()])
    arguments = [_tree(argument) for argument in node.args]
    name = node.func.__name__
    if isinstance(node, sp.Pow):
        return ast.BinOp(arguments[0], ast.Pow(), arguments[1])
    if name not in FUNCTION_NAMES or node.func is not getattr(sp, name):
        raise OperatorError(f"the SymPy object {node} ({type(node).__name__}) is not part of the operator language.")
    return _call(name, *arguments)


def _derivative(node: sp.Derivative) -> ast.expr:
    result = _tree(node.expr)
    for variable, order in node.variable_count:
        if str(variable) not in COORDINATES:
            raise OperatorError(
                f"derivative with respect to {str(variable)!r}: an operator stands on the right-hand side "
                f"of the equation; derivatives are by {', '.join(COORDINATES)}."
            )
        if not (order.is_Integer and order <= MAX_ORDER):
            raise OperatorError(f"a derivative of order {order}; write a number up to {MAX_ORDER}.")
        for _ in range(int(order)):
            result = _call(f"d{variable}", result)
    return result


def _scaled(coefficient: sp.Expr, rest: sp.Expr) -> ast.expr:
    """coefficient · rest, with the sign in front of all."""
    size = _number(coefficient)
    if isinstance(size, ast.UnaryOp):
        return ast.UnaryOp(ast.USub(), _scaled(-coefficient, rest))
    return _tree(rest) if coefficient == 1 else _product(size, _tree(rest))


def _number(node: sp.Expr) -> ast.expr:
    if node is sp.pi:
        return ast.Name("pi")
    if node.is_Number and node.is_negative:
        return ast.UnaryOp(ast.USub(), _number(-node))
    if node.is_Rational and node.q != 1:
        return ast.BinOp(ast.Constant(int(node.p)), ast.Div(), ast.Constant(int(node.q)))
    return ast.Constant(int(node) if node.is_Integer else real_value(node))


def _joined(join: Callable[[ast.expr, ast.expr], ast.expr], parts: list[ast.expr]) -> ast.expr:
    """All parts with one operation between them; those of a long sum in pairs, so that its tree stays shallow."""
    while len(parts) > MAX_DEPTH:
        parts = [reduce(join, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return reduce(join, parts)


def _sum(left: ast.expr, right: ast.expr) -> ast.expr:
    if isinstance(right, ast.UnaryOp):
        return ast.BinOp(left, ast.Sub(), right.operand)
    return ast.BinOp(left, ast.Add(), right)


def _product(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.BinOp(left, ast.Mult(), right)


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name), list(arguments), [])
