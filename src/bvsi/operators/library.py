"""The library of candidate operators: which terms may stand in which equation.

u_t = Σ_i θ_i F_i(u, ∇u, x, t, auxiliary fields)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import sympy as sp

from bvsi.common.jets import order
from bvsi.common.naming import position, squeeze
from bvsi.data.names import RESERVED_NAMES
from bvsi.errors import OperatorError
from bvsi.operators.biharmonic import Biharmonic, Conforming, Mixed
from bvsi.operators.boundary import BoundaryCondition, Unknown, ZeroNeumann
from bvsi.operators.from_sympy import names_in_expression
from bvsi.operators.operator import WeakOperator, build_operator
from bvsi.operators.parse import Dialect, functions_in, names_in
from bvsi.operators.vocabulary import COORDINATES, TEST, TIME, Vocabulary

Source: TypeAlias = "str | sp.Expr"

# Names with a meaning of their own, the last three inside cells(...), facets(...) and boundary(...)
_WORDS = {TIME.name, TEST, "h", "penalty", "normal"}


class Library:
    """Candidate operators by equation, the operators that must stay, and the boundary conditions.

    equations: field → operators of its equation, texts or SymPy expressions.
    keep: names of operators that selection must not remove.
    boundary: one condition for all fields, or one per field; fields left out are ``Unknown()``.
    definitions: names that stand for expressions, such as ``{"phi": "c1**2*c2"}`` for ``laplacian(diff(phi, c1))``.
    biharmonic: treatment of ``biharmonic(...)`` on elements that are not C1, ``Mixed()`` or ``InteriorPenalty()``; by
        default the first that the element allows.
    time_order: order m of the time derivative that the operators make up, ∂_t^m u = Σ θ_i F_i; 2 for wave equations.

    Immutable; the name of an operator is its text, preceded by its equation where there are several:
    ``"laplacian(u)"``, ``"c1: laplacian(c1)"``.
    """

    def __init__(
        self,
        equations: Mapping[str, Sequence[Source]],
        *,
        keep: Iterable[str] = (),
        boundary: BoundaryCondition | Mapping[str, BoundaryCondition] | None = None,
        definitions: Mapping[str, str] | None = None,
        biharmonic: Biharmonic | None = None,
        time_order: int = 1,
    ) -> None:
        if not isinstance(equations, Mapping):
            raise OperatorError(
                f"library: {equations!r} is no mapping of fields to operators; "
                "pass for example {'u': ['laplacian(u)', 'u']}."
            )
        self._equations = {field: tuple(_checked(sources, field)) for field, sources in equations.items()}
        if not any(self._equations.values()):
            raise OperatorError("library: no operators given; pass for example {'u': ['laplacian(u)', 'u']}.")
        self._names = self._make_names()
        self._conditions = _conditions(boundary, tuple(self._equations))
        self._definitions = _definitions(definitions or {}, tuple(self._equations))
        if biharmonic is not None and (isinstance(biharmonic, type) or not hasattr(biharmonic, "text")):
            raise OperatorError(f"biharmonic: an instance such as Mixed() is needed, not {biharmonic!r}.")
        self.biharmonic = biharmonic
        if time_order not in (1, 2, 3, 4):
            raise OperatorError(f"time_order: 1, 2, 3 or 4 is needed; got {time_order!r}.")
        self.time_order = time_order
        self.keep = tuple(self._names[self.index(name)] for name in keep)

    @property
    def names(self) -> tuple[str, ...]:
        """Coefficient names, in the order of the columns of X."""
        return self._names

    @property
    def equations(self) -> dict[str, tuple[Source, ...]]:
        """Operators by equation."""
        return dict(self._equations)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        t = "t" * self.time_order
        rows = (f"{f}_{t} = Σ θ_i · {{{', '.join(str(s) for s in o)}}}" for f, o in self._equations.items())
        return "Library: " + "; ".join(rows)

    def index(self, name: str) -> int:
        """Column of a name; spaces do not count, and the equation may be left out where it is clear."""
        return position(name, self._names)

    def subset(self, names: Iterable[str]) -> Library:
        """The library with only the named operators."""
        wanted = {self.index(name) for name in names}
        kept: dict[str, list[Source]] = {field: [] for field in self._equations}
        for i, (field, source) in enumerate(self._flat()):
            if i in wanted:
                kept[field].append(source)
        keep = [name for name in self.keep if self.index(name) in wanted]
        equations = {field: sources for field, sources in kept.items() if sources}
        conditions = {field: self._conditions[field] for field in equations}
        bare = [name.split(": ", 1)[-1] if len(equations) == 1 else name for name in keep]
        return Library(
            equations,
            keep=bare,
            boundary=conditions,
            definitions=self._definitions,
            biharmonic=self.biharmonic,
            time_order=self.time_order,
        )

    def with_biharmonic(self, treatment: Biharmonic) -> Library:
        """The library with another treatment of ∇⁴."""
        return Library(
            self._equations,
            keep=self.keep,
            boundary=self._conditions,
            definitions=self._definitions,
            biharmonic=treatment,
            time_order=self.time_order,
        )

    @property
    def has_biharmonic(self) -> bool:
        """Whether an operator, or a definition, calls ``biharmonic``."""
        texts = (*(s for _, s in self._flat() if isinstance(s, str)), *self._definitions.values())
        return any("biharmonic" in functions_in(text) for text in texts)

    def condition(self, equation: str) -> BoundaryCondition:
        """Boundary condition of a field."""
        return self._conditions[equation]

    def keeps_inside(self, operator: WeakOperator) -> bool:
        """Whether the operator is right only for test functions away from the boundary.

        So it is with more than two derivatives, unless all fields that it reads are declared to go on as mirror images
        and the form imposes that: biharmonic(...) does, integration by parts alone leaves boundary terms with ∂v/∂n.
        """
        fields = {operator.equation, *operator.reads}
        mirrored = all(isinstance(self._conditions.get(f), ZeroNeumann) for f in fields)
        loose = any(order(term.test) for term in operator.boundary.kept)
        return operator.has_steep_boundary and (loose or not mirrored)

    def weak(
        self,
        words: Vocabulary,
        *,
        trial_order: int = 1,
        test_order: int = 1,
        biharmonic: Biharmonic | None = None,
    ) -> tuple[WeakOperator, ...]:
        """All operators in weak form, for the names of ``words`` and the derivatives that the element carries.

        biharmonic: treatment of ∇⁴ where the library names none; elements with four derivatives have their own.
        """
        if trial_order == 0:  # all derivatives go onto the test functions, ∇⁴ as any other
            treatment: Biharmonic | None = None
        else:
            treatment = Conforming() if trial_order + test_order >= 4 else self.biharmonic or biharmonic
        missing = [field for field in self._equations if field not in words.fields]
        if missing:
            raise OperatorError(
                f"library: equation for {missing[0]!r}, but the data have the fields {', '.join(words.fields)}."
            )
        return tuple(
            build_operator(
                source,
                name,
                field,
                words=words,
                conditions=self._conditions,
                dialect=self._dialect(field, treatment),
                trial_order=trial_order,
                test_order=test_order,
            )
            for name, (field, source) in zip(self._names, self._flat(), strict=True)
        )

    def _dialect(self, equation: str, treatment: Biharmonic | None) -> Dialect:
        if treatment is None:
            return Dialect(self._definitions)
        return Dialect(self._definitions, lambda argument: treatment.text(argument, self._conditions[equation]))

    def explain(self, *, dim: int | None = None, auxiliary: Sequence[str] = ()) -> str:
        """Strong form, weak form, boundary term and Jacobian of each operator.

        dim: spatial dimension; by default the lowest that the operators mention.
        auxiliary: names of known fields; by default every name that is no field of an equation.
        """
        names, functions = self._used_names()
        mentioned = [i + 1 for i, c in enumerate(COORDINATES) if c in names or f"d{c}" in functions]
        dim = dim or max(mentioned, default=1)
        free = names - set(self._equations) - set(COORDINATES) - set(self._definitions) - _WORDS
        words = Vocabulary(COORDINATES[:dim], tuple(self._equations), tuple(auxiliary) or tuple(sorted(free)))
        return "\n\n".join(self._explained(operator) for operator in self.weak(words, biharmonic=Mixed()))

    def _explained(self, operator: WeakOperator) -> str:
        inside = "\n  tests     away from the boundary only: too little is known there for so many derivatives"
        return operator.explain() + (inside if self.keeps_inside(operator) else "")

    def _used_names(self) -> tuple[set[str], set[str]]:
        names: set[str] = set()
        functions: set[str] = set()
        for source in (*(s for _, s in self._flat()), *self._definitions.values()):
            if isinstance(source, str):
                names |= names_in(source)
                functions |= functions_in(source)
            else:
                names |= names_in_expression(source)
        return names, functions

    def _flat(self) -> list[tuple[str, Source]]:
        return [(field, source) for field, sources in self._equations.items() for source in sources]

    def _make_names(self) -> tuple[str, ...]:
        single = len(self._equations) == 1
        names = tuple(str(s).strip() if single else f"{field}: {str(s).strip()}" for field, s in self._flat())
        seen: set[str] = set()
        for name in names:
            if squeeze(name) in seen:
                raise OperatorError(f"library: operator {name!r} is given twice; remove one.")
            seen.add(squeeze(name))
        return names


def _checked(sources: Sequence[Source], field: str) -> list[Source]:
    if not isinstance(field, str):
        raise OperatorError(f"library: the field {field!r} is no text; the keys are names of fields.")
    if isinstance(sources, str) or not isinstance(sources, Iterable):
        raise OperatorError(f"library: the operators of {field!r} must be a list of texts, not {sources!r}.")
    sources = list(sources)
    for source in sources:
        _check_source(source, field)
    return sources


def _check_source(source: Source, field: str) -> None:
    if isinstance(source, str):
        names_in(source)  # syntax errors are reported where the library is written, not when data arrive
        return
    if not isinstance(source, sp.Expr):
        raise OperatorError(f"library: an operator of {field!r} is a {type(source).__name__}, not a text.")
    try:
        str(source)
    except ValueError:  # Python refuses to write integers of thousands of digits
        raise OperatorError(f"library: an operator of {field!r} has a number too long to write; rescale.") from None


def _conditions(
    boundary: BoundaryCondition | Mapping[str, BoundaryCondition] | None, fields: tuple[str, ...]
) -> dict[str, BoundaryCondition]:
    if boundary is None:
        boundary = {}
    if isinstance(boundary, BoundaryCondition):
        return dict.fromkeys(fields, boundary)
    if not isinstance(boundary, Mapping):
        raise OperatorError(
            f"boundary: {boundary!r} is no condition; pass an instance such as NoFlux(), or one per field."
        )
    for field, condition in boundary.items():
        if field not in fields:
            raise OperatorError(f"boundary: {field!r} has no equation in the library ({', '.join(fields)}).")
        if not isinstance(condition, BoundaryCondition):
            raise OperatorError(f"boundary: {field!r} needs an instance such as NoFlux(), not {condition!r}.")
    return {field: boundary.get(field, Unknown()) for field in fields}


def _definitions(definitions: Mapping[str, str], fields: tuple[str, ...]) -> dict[str, str]:
    if not isinstance(definitions, Mapping):
        raise OperatorError(f"definitions: {definitions!r} is no mapping of names to texts, such as {{'phi': 'u**2'}}.")
    for name, text in definitions.items():
        if not isinstance(name, str) or not name.isidentifier() or name in (*fields, *RESERVED_NAMES):
            raise OperatorError(f"definitions: {name!r} cannot be a name here; choose one that means nothing else.")
        names_in(text)
    return dict(definitions)
