"""Operators that come in families: polynomials, the terms of a free energy (eq:cahn_hilliard_expanded), copies.

c_i,t = Σ_φ η_φ ∇²(∂φ/∂c_i) + λ_i ∇⁴c_i,      φ = Π_j c_j^a_j,  2 ≤ Σ a ≤ degree,  a_i ≥ 1

Coefficients and parameters that differ by experiment are operators of known quantities that are 0 or 1. ::

    u            →  u*experiment_1, u*experiment_2, …         one coefficient each
    u/(K + u)    →  K_1*experiment_1 + K_2*experiment_2 + … in the place of K
    k*u          →  k_1*u*experiment_1, k_2*u*experiment_2, …  of an unknown function k

``experiment_1`` is one in the first experiment and zero in all others, an auxiliary field as any other: nothing after
this knows of experiments that differ.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bvsi.common.naming import FUNCTION_NAMES
from bvsi.data import Data
from bvsi.errors import OperatorError
from bvsi.operators.boundary import Biharmonic, BoundaryCondition, ZeroNeumann
from bvsi.operators.library import Library
from bvsi.operators.parameters import Parameter, carried
from bvsi.operators.syntax import MAX_EXPONENT, Operator, read
from bvsi.operators.vocabulary import Vocabulary


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


_MARK = "experiment_"


def by_experiment(library: Library, experiments: Sequence[Data]) -> tuple[Library, tuple[Data, ...]]:
    """The library and the data with what differs by experiment written out; as they are where nothing does."""
    if not library.per_experiment:
        return library, tuple(experiments)
    n = len(experiments)
    marked = tuple(with_marks(one, number, n) for number, one in enumerate(experiments))
    return written_out(library, n, marked[0].names), marked


def written_out(library: Library, n: int, fields: Sequence[str] = ()) -> Library:
    """The library for n experiments.

    Parameters
    ----------
    fields
        Names that parameters must not get.
    """
    own = [name for name in library.per_experiment if name in library.parameters]
    parameters: dict[str, Parameter] = {name: p for name, p in library.parameters.items() if name not in own}
    sums: dict[str, ast.expr] = {}
    for name in own:
        copies = [f"{name}_{number}" for number in range(1, n + 1)]
        taken = [one for one in copies if one in (*library.parameters, *fields)]
        if taken:
            raise OperatorError(f"per_experiment: {name!r} becomes {taken[0]!r}, which has a meaning; rename one.")
        parameters |= {one: replace(library.parameters[name], group=name) for one in copies}
        sums[name] = read(" + ".join(f"{one}*{_MARK}{number}" for number, one in enumerate(copies, 1))).tree
    first = {name: one.first for name, one in parameters.items()}
    functions = [name for name in library.per_experiment if name in library.unknown]
    unknown = {name: one for name, one in library.unknown.items() if name not in functions}
    unknown |= {f"{name}_{i}": library.unknown[name] for name in functions for i in range(1, n + 1)}
    split = {name for name in library.per_experiment if name not in own}
    split |= {o.name for name in functions for o in library.carrying(name)}
    made = {
        field: [
            copy if copy.free else carried(copy, first)
            for o in library.of_equation(field)
            for copy in _copies(_inserted(o, sums), o.name in split, n, [f for f in functions if f in o.syntax.names])
        ]
        for field in library.equations
    }
    keep = [copy.name for copies in made.values() for copy in copies if _origin(copy.name) in library.keep]
    changed = library.with_(keep=tuple(keep), parameters=parameters, unknown=unknown, per_experiment=())
    return changed.with_operators(made)


def of_experiment(library: Library, data: Data, number: int, words: Vocabulary | None) -> tuple[Library, Data]:
    """The library and one more record of experiment ``number``, counted from one, of those that the words have."""
    if not library.per_experiment:
        return library, data
    n = sum(name.startswith(_MARK) for name in (words.auxiliary if words else ()))
    if not 1 <= number <= n:
        raise OperatorError(f"experiment: a number from 1 to {n} is needed, not {number!r}.")
    return written_out(library, n), with_marks(data, number - 1, n)


def with_marks(data: Data, number: int, n: int) -> Data:
    """The data of experiment ``number`` of n, counted from zero, with the known quantities that say so."""
    marks = {f"{_MARK}{i + 1}": np.full(data.n_nodes, float(i == number)) for i in range(n)}
    return replace(data, auxiliary={**data.auxiliary, **marks})


def _inserted(operator: Operator, sums: dict[str, ast.expr]) -> Operator:
    """The operator with the sums in the places of parameters."""
    free = operator.free
    if free is None or not free.names & {*sums}:
        return operator
    return Operator(operator.name, operator.equation, operator.source, free.put(sums), tie=operator.tie)


def _copies(operator: Operator, differs: bool, n: int, functions: Sequence[str] = ()) -> list[Operator]:
    """The operator of every experiment, with functions of its own, or itself."""
    if not differs:
        return [operator]
    made, free = [], operator.free or operator.syntax
    for number in range(1, n + 1):
        text, name = f"({ast.unparse(free.tree)})*{_MARK}{number}", f"{operator.name}*{_MARK}{number}"
        for function in functions:
            text, name = (re.sub(rf"\b{function}\b", f"{function}_{number}", one) for one in (text, name))
        tie = f"{operator.tie}*{_MARK}{number}" if operator.tie else ""
        made.append(Operator(name, operator.equation, operator.source, read(text), tie=tie))
    return made


def _origin(name: str) -> str:
    """The operator of which one of an experiment was made."""
    front, mark, number = name.rpartition(f"*{_MARK}")
    return front if mark and number.isdigit() else name
