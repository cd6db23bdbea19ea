"""Equations for SymPy: ``Eq(Derivative(u(t, x), t), …)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bvsi.app.exports.system import EquationSystem, Target, system_of
from bvsi.common.naming import MultiIndex
from bvsi.operators.vocabulary import TIME

if TYPE_CHECKING:
    import sympy as sp

    from bvsi.discovery import Discovery


def to_sympy(found: Discovery, *, theta: Sequence[Any] | None = None) -> tuple[sp.Eq, ...]:
    """One equation per field, fields as functions of t and the coordinates.

    Derivatives that stand outside in an operator are not carried out; ``equation.doit()`` does.

    Parameters
    ----------
    theta
        Coefficients in the order of ``found.names``, numbers or symbols; by default the posterior mean.
    """
    import sympy as sp

    system = system_of(found, theta)
    words, target = system.words, _target(system)
    time = target.name(TIME)
    equations = []
    for field, fluxes in system.fluxes.items():
        right = sp.Add(*(flux.coefficient * target.outer(flux, words) for flux in fluxes))
        density = target.walk(system.density.get(field, words.jet(field)), words)
        left = sp.Integer(0) if system.steady else sp.Derivative(density, (time, system.time_order))
        equations.append(sp.Eq(left, right, evaluate=False))
    return tuple(equations)


def _target(system: EquationSystem) -> Target[Any]:
    import sympy as sp

    from bvsi.operators.parse import FUNCTIONS

    words = system.words
    variables = sp.symbols((TIME, *words.coordinates), real=True)
    axes = dict(zip((TIME, *words.coordinates), variables, strict=True))

    def name(text: str) -> sp.Expr:
        if text in system.before:
            field, tau = system.before[text]
            return sp.Function(field, real=True)(variables[0] - tau, *variables[1:])
        own = text in words.fields or text in words.auxiliary  # in a series x may be a field
        return sp.Function(text, real=True)(*variables) if own else axes[text]

    def derivative(value: sp.Expr, index: MultiIndex) -> sp.Expr:
        orders = [(axes[c], m) for c, m in zip(words.coordinates, index, strict=True) if m]
        return sp.Derivative(value, *orders)

    return Target(
        number=sp.sympify,
        name=name,
        add=lambda parts: sp.Add(*parts),
        multiply=lambda parts: sp.Mul(*parts),
        power=sp.Pow,
        derivative=derivative,
        functions={**{f.__name__: f for f in FUNCTIONS.values()}, "Abs": sp.Abs, "sign": sp.sign},
    )
