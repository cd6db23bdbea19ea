"""Operators that come in families: polynomials, and the terms of a free energy (eq:cahn_hilliard_expanded).

c_i,t = Σ_φ η_φ ∇²(∂φ/∂c_i) + λ_i ∇⁴c_i,      φ = Π_j c_j^a_j,  2 ≤ Σ a ≤ degree,  a_i ≥ 1
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from bvsi.common.naming import FUNCTION_NAMES
from bvsi.errors import OperatorError
from bvsi.operators.boundary import Biharmonic, BoundaryCondition, ZeroNeumann
from bvsi.operators.library import Library
from bvsi.operators.syntax import MAX_EXPONENT


def polynomials(fields: Sequence[str], degree: int = 3, *, functions: Sequence[str] = ()) -> list[str]:
    """Texts of all monomials Π_j u_j^a_j, Σ a ≤ degree, the constant ``1`` first, then functions of each field. ::

        Library({f: polynomials(["x", "y"], degree=2) for f in ("x", "y")})    # 1, x, y, x**2, x*y, y**2

    Parameters
    ----------
    fields
        Names of fields, auxiliary ones among them.
    degree
        Σ a of the highest.
    functions
        Functions of the operator language, such as ``("sin", "cos")``.
    """
    if isinstance(fields, str) or not fields:
        raise OperatorError(f"fields: a list of names is needed, such as ['x', 'y']; got {fields!r}.")
    if not isinstance(degree, int) or not 0 <= degree <= MAX_EXPONENT:
        raise OperatorError(f"degree: a whole number from 0 to {MAX_EXPONENT} is needed; got {degree!r}.")
    unknown = [f for f in functions if f not in FUNCTION_NAMES]
    if unknown:
        raise OperatorError(f"functions: {unknown[0]!r} is none of {', '.join(FUNCTION_NAMES)}.")
    chosen = (one for n in range(degree + 1) for one in itertools.combinations_with_replacement(fields, n))
    counts = ([one.count(field) for field in fields] for one in chosen)
    of_each = (f"{function}({field})" for function in functions for field in fields)
    return [*(_product(exponents, fields) for exponents in counts), *of_each]


def free_energy_library(
    fields: Sequence[str] = ("c1", "c2"),
    degree: int = 5,
    *,
    boundary: BoundaryCondition | Mapping[str, BoundaryCondition] | None = None,
    biharmonic: Biharmonic | None = None,
) -> Library:
    """Library of a polynomial free energy: 14 + 14 monomials and two ∇⁴ for two fields and degree five.

    The ∇⁴ are kept in selection: without them the equations are ill-posed where the energy is not convex.

    Parameters
    ----------
    fields
        Concentrations.
    degree
        Degree of the highest monomial.
    boundary
        By default ``ZeroNeumann()`` for all.
    biharmonic
        Treatment of ∇⁴, see :class:`Library`.
    """
    if not isinstance(degree, int) or not 2 <= degree <= 8:
        raise OperatorError(f"degree: a whole number from 2 to 8 is needed; got {degree!r}.")
    if isinstance(fields, str) or not fields:
        raise OperatorError(f"fields: a list of names is needed, such as ('c1', 'c2'); got {fields!r}.")
    equations = {
        f: [
            *(energy_operator(exponents, fields, f) for exponents in monomials(len(fields), degree) if exponents[i]),
            f"biharmonic({f})",
        ]
        for i, f in enumerate(fields)
    }
    keep = [f"{f}: biharmonic({f})" if len(fields) > 1 else f"biharmonic({f})" for f in fields]
    conditions = ZeroNeumann() if boundary is None else boundary
    return Library(equations, keep=keep, boundary=conditions, biharmonic=biharmonic)


def shared_free_energy(fields: Sequence[str] = ("c1", "c2"), degree: int = 5) -> tuple[str, ...]:
    """Constraints that make the equations of :func:`free_energy_library` those of one energy, with equal mobilities.

    η_φ of ∇²(∂φ/∂c_i) is the same number in all equations: ``"c1: laplacian(diff(c1*c2, c1)) == c2: …"``.
    """
    texts = []
    for exponents in monomials(len(fields), degree):
        first, *others = (
            f"[{f}: {energy_operator(exponents, fields, f)}]" for f, e in zip(fields, exponents, strict=True) if e
        )
        texts += [f"{first} == {other}" for other in others]
    return tuple(texts)


def monomials(n_fields: int, degree: int) -> list[tuple[int, ...]]:
    """Exponents a with 2 ≤ Σ a ≤ degree, by degree, those with high powers of the first field first."""
    exponents = itertools.product(range(degree + 1), repeat=n_fields)
    return sorted((a for a in exponents if 2 <= sum(a) <= degree), key=lambda a: (sum(a), tuple(-e for e in a)))


def energy_operator(exponents: Sequence[int], fields: Sequence[str], by: str) -> str:
    """Text of ∇²(∂φ/∂c_i) for the monomial φ with the given exponents."""
    return f"laplacian(diff({_product(exponents, fields)}, {by}))"


def _product(exponents: Sequence[int], fields: Sequence[str]) -> str:
    """Text of Π_j u_j^a_j, ``x**2*y``; ``1`` where all are zero."""
    powers = (f if e == 1 else f"{f}**{e}" for f, e in zip(fields, exponents, strict=True) if e)
    return "*".join(powers) or "1"
