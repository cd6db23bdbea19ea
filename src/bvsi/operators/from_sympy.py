"""SymPy expressions in the language of the texts, with the bounds of the texts.

Fields may be symbols (``u``) or applied functions (``u(x, y, t)``); ``Derivative`` of them is ``dx``, ``dy`` or ``dz``.
What has no counterpart in the language is printed by its own name and refused as any unknown name.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.printing.str import StrPrinter

from bvsi.common.naming import COORDINATE_NAMES
from bvsi.errors import OperatorError
from bvsi.operators.bounds import real_value
from bvsi.operators.syntax import Syntax, read, shortened
from bvsi.operators.vocabulary import MAX_ORDER


def from_sympy(expression: sp.Expr) -> Syntax:
    """Syntax of a SymPy expression of fields, coordinates and derivatives."""
    try:
        for atom in expression.atoms(sp.Number, sp.NumberSymbol, sp.zoo, sp.I):
            real_value(atom)
        printed = read(_Printer().doprint(expression))
    except OperatorError as error:
        raise OperatorError(f"operator {shortened(str(expression))!r}: {error}") from None
    names = {symbol.name for symbol in expression.free_symbols}
    names |= {function.func.__name__ for function in expression.atoms(AppliedUndef)}
    return replace(printed, text=str(expression), names=frozenset(names))


class _Printer(StrPrinter):  # type: ignore[misc]  # SymPy has no types
    """SymPy's own texts, but for what the language writes otherwise."""

    def _print_Function(self, node: sp.Expr) -> str:
        name: str = node.func.__name__
        return name if isinstance(node, AppliedUndef) else f"{name}({self.stringify(node.args, ', ')})"

    def _print_Derivative(self, node: sp.Derivative) -> str:
        text = self._print(node.expr)
        for variable, order in node.variable_count:
            if str(variable) not in COORDINATE_NAMES:
                raise OperatorError(
                    f"derivative with respect to {str(variable)!r}: an operator stands on the right-hand side "
                    f"of the equation; derivatives are by {', '.join(COORDINATE_NAMES)}."
                )
            if not (order.is_Integer and order <= MAX_ORDER):
                raise OperatorError(f"a derivative of order {order}; write a number up to {MAX_ORDER}.")
            text = f"d{variable}(" * int(order) + text + ")" * int(order)
        return str(text)

    def _print_Float(self, node: sp.Float) -> str:
        return repr(float(node))  # all digits; SymPy writes fifteen

    def _print_NumberSymbol(self, node: sp.Expr) -> str:
        return repr(float(node))

    def _print_Exp1(self, node: sp.Expr) -> str:  # noqa: ARG002
        return "exp(1)"
