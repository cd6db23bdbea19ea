"""Integrands whose mean over the noise is their value without it.

    g̃ = exp(−½ Σ_f s_f ∂²/∂u_f²) g,        E[g̃(u + ε)] = g(u)   for ε_f ~ N(0, s_f)

u² becomes u² − s, u³ becomes u³ − 3 s u. Exact for polynomials, where the series ends; to second order otherwise.
"""

from __future__ import annotations

import sympy as sp

from bvsi.common.jets import order
from bvsi.operators.vocabulary import Vocabulary


def unbiased(g: sp.Expr, words: Vocabulary) -> sp.Expr:
    """g̃ with ``words.variance(f)`` for s_f; g itself where it has derivatives of a field: their noise is correlated."""
    jets = {s: jet for s, jet in words.jets(g).items() if jet[0] in words.fields}
    if any(order(index) for _, index in jets.values()):
        return g
    for symbol, (field, _) in jets.items():
        g = _unbiased_in(g, symbol, words.variance(field))
    return g


def _unbiased_in(g: sp.Expr, symbol: sp.Symbol, s: sp.Symbol) -> sp.Expr:
    last = sp.degree(g, symbol) // 2 if g.is_polynomial(symbol) else 1
    total = term = g
    for m in range(1, int(last) + 1):
        term = -s * sp.diff(term, symbol, 2) / (2 * m)
        total += term
    return total
