"""The operators of a free energy: every monomial of the concentrations in every equation (eq:cahn_hilliard_expanded).

c_i,t = Σ_φ η_φ ∇²(∂φ/∂c_i) + λ_i ∇⁴c_i,      φ = Π_j c_j^a_j,  2 ≤ Σ a ≤ degree,  a_i ≥ 1
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from bvsi.errors import OperatorError
from bvsi.operators.boundary import Biharmonic, BoundaryCondition, ZeroNeumann
from bvsi.operators.library import Library


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
    powers = [f if e == 1 else f"{f}**{e}" for f, e in zip(fields, exponents, strict=True) if e]
    return f"laplacian(diff({'*'.join(powers)}, {by}))"
