"""The library of candidate operators: which terms may stand in which equation.

u_t = Σ_i θ_i F_i(u, ∇u, x, t, auxiliary fields), or another left side (:mod:`bvsi.operators.boundary`)
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bvsi.common.naming import COORDINATE_NAMES, order, position, squeeze, without_equation
from bvsi.data._arrays import RESERVED_NAMES
from bvsi.errors import OperatorError
from bvsi.operators.boundary import (
    Biharmonic,
    BoundaryCondition,
    Conforming,
    Left,
    Mixed,
    Unknown,
    ZeroNeumann,
    left_sides,
)
from bvsi.operators.functions import UnknownFunction, as_functions, expansion, written_functions
from bvsi.operators.parameters import Parameter, as_parameters, carried, columns, combinations
from bvsi.operators.syntax import Operator, Source, Syntax, read
from bvsi.operators.vectors import check_vectors, components
from bvsi.operators.vocabulary import FACET_SIZE, PENALTY, TEST, TIME, Vocabulary

if TYPE_CHECKING:
    from bvsi.data import Data
    from bvsi.operators.operator import WeakOperator

# Names with a meaning of their own, the last three inside cells(...), facets(...) and boundary(...)
_WORDS = {TIME, TEST, FACET_SIZE, PENALTY, "normal"}


class Library:
    """Candidate operators by equation, the operators that must stay, and the boundary conditions.

    Immutable; the name of an operator is its text, preceded by its equation where there are several:
    ``"laplacian(u)"``, ``"c1: laplacian(c1)"``.

    Parameters
    ----------
    equations
        Field → operators of its equation, texts or SymPy expressions.
    keep
        Names of operators that selection must not remove, or ``"all"``.
    boundary
        One condition for all fields, or one per field; fields left out are ``Unknown()``.
    definitions
        Names that stand for expressions, such as ``{"phi": "c1**2*c2"}`` for ``laplacian(diff(phi, c1))``.
    biharmonic
        Treatment of ``biharmonic(...)`` on elements that are not C1, ``Mixed()`` or ``InteriorPenalty()``; by default
        the first that the element allows.
    time_order
        Order m of the time derivative that the operators make up, ∂_t^m u = Σ θ_i F_i; 2 for wave equations. None
        leaves it open: ``discover`` then compares the first and the second order; all else takes the first.
    left
        What the operators make up where that is not the time derivative alone, a text or one per field. ``"f"`` is a
        known source, an auxiliary field or an expression, of a steady problem; ``"laplacian(u)"`` an operator that sets
        the scale of one; ``"dt(u) + u*dx(u)"`` has known terms beside the time derivative.
    vectors
        Vectors by name, ``{"u": ("ux", "uy")}``, measured or known. An equation of ``u`` is one for every component,
        and its operators, such as ``laplacian(u)``, ``grad(p)`` or ``div(outer(u, u))``, have one coefficient for all
        of them (:mod:`bvsi.operators.vectors`).
    parameters
        Numbers inside operators that are estimated with the coefficients, with their bounds: ``{"K": (0.1, 10)}`` for
        ``u/(K + u)``, or ``Parameter(low, high, start=..., prior=...)``. They stand in operators, not in definitions.
    per_experiment
        Parameters, unknown functions, and operators, whose value or coefficient differs by experiment: K_1 and K_2 of
        ``["K"]``, the coefficients of ``u*experiment_1`` and ``u*experiment_2`` of ``["u"]``; all others are shared.
    unknown
        Functions inside operators that are estimated, with what they are functions of: ``{"k": "x"}`` for
        ``div(k*grad(u))``, ``{"D": "u"}``, ``{"k": ("x", "y")}``. Such an operator is linear in its function, and has
        no coefficient of its own (:mod:`bvsi.operators.functions`). They may be written in operators as well,
        ``div(unknown(k, of=x)*grad(u))``, which is then named ``div(k*grad(u))``.
    """

    def __init__(
        self,
        equations: Mapping[str, Sequence[Source | Operator]],
        *,
        keep: Iterable[str] = (),
        boundary: BoundaryCondition | Mapping[str, BoundaryCondition] | None = None,
        definitions: Mapping[str, str | Syntax] | None = None,
        biharmonic: Biharmonic | None = None,
        time_order: int | None = 1,
        left: str | Mapping[str, str | Left] | None = None,
        vectors: Mapping[str, Sequence[str]] | None = None,
        parameters: Mapping[str, tuple[float, ...] | Parameter] | None = None,
        per_experiment: Sequence[str] = (),
        unknown: Mapping[str, str | Sequence[str] | UnknownFunction] | None = None,
    ) -> None:
        if not isinstance(equations, Mapping):
            raise OperatorError(
                f"library: {equations!r} is not a mapping of fields to operators; "
                "pass for example {'u': ['laplacian(u)', 'u']}."
            )
        self._vectors = check_vectors(vectors)
        given = {field: _listed(sources, field) for field, sources in equations.items()}
        for sources in given.values():
            for i, source in enumerate(sources):
                if isinstance(source, str):
                    sources[i], of = written_functions(source)
                    unknown = {**of, **unknown} if of and isinstance(unknown, Mapping) else unknown or of or None
        given = {part: texts for field, texts in given.items() for part, texts in self._by_component(field, texts)}
        left = self._left_by_component(left, tuple(equations))
        self._fields = tuple(given)
        self._operators = tuple(
            _operator(source, field, alone=len(given) == 1) for field, sources in given.items() for source in sources
        )
        _check_distinct(self.names)
        self.parameters = as_parameters(parameters, self._fields)
        first = {name: one.first for name, one in self.parameters.items()}
        self._operators = tuple(carried(o, first) if o.free is None else o for o in self._operators)
        self._check_parameters(definitions)
        if isinstance(per_experiment, str) or not isinstance(per_experiment, Sequence):
            raise OperatorError(f"per_experiment: a list of names is needed, such as ['K'], not {per_experiment!r}.")
        self.unknown = as_functions(unknown, self._operators, (*self._fields, *(definitions or {})), self.parameters)
        inside = {**self.parameters, **self.unknown}
        self.per_experiment = tuple(n if n in inside else self.names[self.index(n)] for n in per_experiment)
        self._conditions = _conditions(boundary, self._fields)
        self._definitions = _definitions(definitions or {}, self._fields)
        if biharmonic is not None and (isinstance(biharmonic, type) or not hasattr(biharmonic, "text")):
            raise OperatorError(f"biharmonic: an instance such as Mixed() is needed, not {biharmonic!r}.")
        self.biharmonic = biharmonic
        if time_order not in (None, 1, 2, 3, 4):
            raise OperatorError(f"time_order: 1, 2, 3 or 4 is needed, or None; got {time_order!r}.")
        self.orders = (1, 2) if time_order is None else (time_order,)
        self._left = left_sides(left, {f: [str(o.source) for o in self._of(f)] for f in self._fields})
        if isinstance(keep, str) and keep != "all":
            raise OperatorError(f'keep: a list of operators is needed, or "all"; write keep=["{keep}"].')
        named = self.names if keep == "all" else (kept for name in keep for kept in self._of_all_components(name))
        self.keep = tuple(named)

    def _by_component(
        self, field: str, sources: list[Source | Operator]
    ) -> Iterator[tuple[str, list[Source | Operator]]]:
        """Equations of the components of a vector; others as they are, with operators of vectors computed."""
        parts = self._vectors.get(field, (field,))
        rank = int(field in self._vectors)
        found: dict[str, list[Source | Operator]] = {part: [] for part in parts}
        for source in sources:
            if not isinstance(source, str) or not (rank or read(source).names & {*self._vectors}):
                found[parts[0]].append(source)
                continue
            tie = f"{field}: {source}" if rank else ""
            for part, text in zip(parts, components(read(source), self._vectors, rank), strict=True):
                found[part].append(Operator(source.strip(), part, text, read(text), tie=tie))
        yield from found.items()

    def _left_by_component(
        self, left: str | Mapping[str, str | Left] | None, equations: tuple[str, ...]
    ) -> str | Mapping[str, str | Left] | None:
        """Left sides by component, where some are written for a vector."""
        if not self._vectors or left is None:
            return left
        given = left if isinstance(left, Mapping) else dict.fromkeys(equations[:1], left)
        made: dict[str, str | Left] = {}
        for field, side in given.items():
            parts = self._vectors.get(field, (field,))
            split = [side] if isinstance(side, Left) else components(read(side), self._vectors, int(len(parts) > 1))
            made.update(zip(parts, split, strict=True))
        return made

    def _of_all_components(self, name: str) -> list[str]:
        """Names of an operator of a vector equation; of any other its own."""
        wanted = squeeze(name)
        tied = [o.name for o in self._operators if o.tie and wanted in (squeeze(o.tie), squeeze(o.tie.split(": ")[1]))]
        return tied or [self.names[self.index(name)]]

    @property
    def ties(self) -> tuple[str, ...]:
        """Equalities between the coefficients of operators of vector equations, as texts of constraints."""
        first: dict[str, str] = {}
        found = []
        for operator in self._operators:
            if operator.tie and first.setdefault(operator.tie, operator.name) != operator.name:
                found.append(f"[{first[operator.tie]}] == [{operator.name}]")
        return tuple(found)

    @property
    def time_order(self) -> int:
        """Order of the time derivative; the first of ``orders`` where these are several."""
        return self.orders[0]

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Candidate operators with their syntax trees, in the order of the columns of X."""
        return self._operators

    @property
    def names(self) -> tuple[str, ...]:
        """Coefficient names, in the order of the columns of X."""
        return tuple(operator.name for operator in self._operators)

    @property
    def equations(self) -> dict[str, tuple[Source, ...]]:
        """Operators by equation, as they were given."""
        return {field: tuple(o.source for o in self._of(field)) for field in self._fields}

    def _of(self, equation: str) -> list[Operator]:
        return [operator for operator in self._operators if operator.equation == equation]

    def __len__(self) -> int:
        return len(self._operators)

    def __repr__(self) -> str:
        rows = []
        for field, sources in self.equations.items():
            left = " or ".join(dict.fromkeys(self._left[field].written(field, order) for order in self.orders))
            rows.append(f"{left} = Σ θ_i · {{{', '.join(map(str, sources))}}}")
        return "Library: " + "; ".join(rows)

    @property
    def texts(self) -> dict[str, str]:
        """Operators by name in fields, coordinates and parameters: vectors by component, definitions inserted."""
        trees = {name: syntax.tree for name, syntax in self._definitions.items()}
        return {o.name: ast.unparse((o.free or o.syntax).put(trees).tree) for o in self._operators}

    def left(self, equation: str) -> Left:
        """Left side of the equation of a field."""
        return self._left[equation]

    @property
    def steady(self) -> bool:
        """Whether no equation has a time derivative."""
        return not any(left.evolves for left in self._left.values())

    @property
    def unsimulated(self) -> str:
        """Why an equation with another left side than u_t is not simulated, in words; empty for others."""
        if self.steady:
            return "the equation is steady, so that nothing changes in time; leave it out."
        if any(left.text for left in self._left.values()):
            return "the left side is not the time derivative alone; bring known terms to the other side, as operators."
        return ""

    @property
    def longest_lag(self) -> float:
        """The longest delay of ``lag(...)`` in the operators, a parameter at its highest value; zero without any."""
        found = [0.0]
        for syntax in (o.free or o.syntax for o in self._operators if "lag" in (o.free or o.syntax).functions):
            for node in ast.walk(syntax.tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lag":
                    found.append(self._delay(node))
        return max(found)

    def _delay(self, node: ast.Call) -> float:
        """The longest delay of a call of ``lag``."""
        delay = node.args[-1]
        if isinstance(delay, ast.Name) and delay.id in self.parameters:
            return self.parameters[delay.id].high
        if isinstance(delay, ast.Constant) and isinstance(delay.value, int | float):
            return float(delay.value)
        raise OperatorError(f"lag: the delay {ast.unparse(delay)!r} is neither a number nor a parameter; give it one.")

    @property
    def known(self) -> tuple[Operator, ...]:
        """Known operators of the left sides, whose coefficients are fixed."""
        return tuple(left.known for left in self._left.values() if left.known is not None)

    @property
    def densities(self) -> tuple[Operator, ...]:
        """ρ u of the left sides with dt(rho*u)."""
        return tuple(left.density for left in self._left.values() if left.density is not None)

    def index(self, name: str) -> int:
        """Column of a name; spaces do not count, and the equation may be left out where it is clear."""
        return position(name, self.names)

    def subset(self, names: Iterable[str]) -> Library:
        """The library with only the named operators; weak forms that are known stay known."""
        wanted = {self.index(name) for name in names}
        kept = [operator for i, operator in enumerate(self._operators) if i in wanted]
        fields = [field for field in self._fields if any(o.equation == field for o in kept)]
        return self.with_operators({field: [o for o in kept if o.equation == field] for field in fields})

    @property
    def declares_boundary(self) -> bool:
        """Whether a boundary condition is declared for any field."""
        return any(not isinstance(condition, Unknown) for condition in self._conditions.values())

    def with_(self, *, time_order: int | None = None, **changes: Any) -> Library:
        """The library with another ``time_order``, ``biharmonic``, or other ``parameters`` or ``unknown`` functions.

        All of these are taken as they are: what was checked once is not checked again.
        """
        made = copy.copy(self)
        made.orders = self.orders if time_order is None else (time_order,)
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def with_operators(self, equations: Mapping[str, Sequence[Operator]]) -> Library:
        """The library with other operators, and what these have of its parameters, functions and names to keep."""
        made, fields = copy.copy(self), tuple(equations)
        given = [(o, field) for field, own in equations.items() for o in own]
        made._fields = fields
        made._operators = tuple(_operator(o, field, alone=len(fields) == 1) for o, field in given)
        _check_distinct(made.names)
        renamed = dict(zip((o.name for o, _ in given), made.names, strict=True))
        free = frozenset[str]().union(*(o.free.names for o, _ in given if o.free is not None))
        used = frozenset[str]().union(*(o.syntax.names for o, _ in given))
        made.parameters = {name: one for name, one in self.parameters.items() if name in free}
        made.unknown = {name: one for name, one in self.unknown.items() if name in used}
        made.keep = tuple(renamed[name] for name in self.keep if name in renamed)
        inside = {**made.parameters, **made.unknown}
        differ = (name if name in inside else renamed.get(name) for name in self.per_experiment)
        made.per_experiment = tuple(name for name in differ if name)
        made._conditions = {field: self._conditions[field] for field in fields}
        made._left = {field: self._left[field] for field in fields}
        return made

    def _check_parameters(self, definitions: Mapping[str, str | Syntax] | None) -> None:
        for name in self.parameters:
            if not any(name in o.free.names for o in self._operators if o.free is not None):
                raise OperatorError(f"parameters: {name!r} stands in no operator; leave it out.")
            if name in (definitions or {}):
                raise OperatorError(f"parameters: {name!r} is a definition too; rename one of them.")

    def at(self, values: Mapping[str, float], theta: Mapping[str, float] | None = None) -> Library:
        """The library at values of its parameters, with a column ∂/∂κ for each where coefficients are given.

        The column of K has the name ``K`` and the coefficient K − K_0 (:mod:`bvsi.operators.parameters`).

        Parameters
        ----------
        theta
            Coefficients of the operators, by name.
        """
        own = {field: [carried(o, values) for o in self.of_equation(field)] for field in self._fields}
        extra = {field: columns(operators, values, theta or {}, field) for field, operators in own.items()}
        return self.with_operators({field: [*own[field], *extra[field]] for field in self._fields})

    def fixed(self, values: Mapping[str, float]) -> Library:
        """The library with numbers in the place of its parameters."""
        own = {f: [replace(carried(o, values), free=None) for o in self.of_equation(f)] for f in self._fields}
        return self.with_operators(own)

    def carrying(self, name: str) -> list[Operator]:
        """Operators with an unknown function of this name."""
        return [o for o in self._operators if name in o.syntax.names]

    def located(self, experiments: Sequence[Data], sigma: Mapping[str, float]) -> Library:
        """The library with the ends of its unknown functions' splines; noise by field as a standard deviation."""
        return self.with_(unknown={name: one.located(experiments, sigma) for name, one in self.unknown.items()})

    def with_functions(self, values: Mapping[str, ast.expr | None]) -> Library:
        """The library with functions as texts; where that is None they become operators, one for each coefficient."""
        free = {name: self.unknown[name] for name, tree in values.items() if tree is None}
        shared = frozenset(name for name in values if len({o.equation for o in self.carrying(name)}) > 1)
        made: dict[str, list[Operator]] = {field: [] for field in self._fields}
        for o in self._operators:
            inside = next((name for name in values if name in o.syntax.names), None)
            if inside in free:
                continue
            tree = None if inside is None else values[inside]
            if inside is not None and tree is not None:
                tie = o.tie or (f"function: {inside}" if inside in shared else "")
                o = Operator(o.name, o.equation, o.source, o.syntax.put({inside: tree}), tie=tie)
            made[o.equation].append(o)
        for field, own in made.items():
            own += expansion(self._of(field), free, field, shared)
        return self.with_operators(made)

    def on_grid(self, most: int) -> tuple[Library, dict[str, tuple[str, dict[str, float]]]]:
        """Every operator at up to so many values of its parameters; and by name which operator it is, and where."""
        made: dict[str, list[Operator]] = {field: [] for field in self._fields}
        origin: list[tuple[str, dict[str, float]]] = []
        for field in self._fields:
            for o in self.of_equation(field):
                own = {
                    name: one for name, one in self.parameters.items() if o.free is not None and name in o.free.names
                }
                for values in combinations(own, most) if own else [{}]:
                    one = carried(o, values)
                    made[field].append(replace(o, name=one.syntax.text, syntax=one.syntax, free=None) if own else o)
                    origin.append((o.name, values))
        grid = self.with_operators(made)
        return grid, {name: one for name, one in zip(grid.names, origin, strict=True) if one[1]}

    def of_equation(self, equation: str) -> list[Operator]:
        """Operators of an equation, without columns of parameters."""
        return [o for o in self._of(equation) if without_equation(o.name) not in self.parameters]

    @property
    def has_biharmonic(self) -> bool:
        """Whether an operator, or a definition, calls ``biharmonic``."""
        return any("biharmonic" in syntax.functions for syntax in self._syntaxes())

    def _syntaxes(self) -> tuple[Syntax, ...]:
        return (
            *(operator.syntax for operator in (*self._operators, *self.known, *self.densities)),
            *self._definitions.values(),
        )

    def condition(self, equation: str) -> BoundaryCondition:
        """Boundary condition of a field."""
        return self._conditions[equation]

    def keeps_inside(self, operator: WeakOperator) -> bool:
        """Whether the operator is right only for test functions away from the boundary.

        So it is with more than two derivatives, unless all fields that it reads are declared to continue as mirror
        images and the form imposes that: biharmonic(...) does, integration by parts alone leaves boundary terms with
        ∂v/∂n.
        """
        fields = {operator.equation, *operator.reads}
        mirrored = all(isinstance(self._conditions.get(f), ZeroNeumann) for f in fields)
        loose = any(order(term.test) for term in operator.boundary.kept)
        return operator.has_steep_boundary and (loose or not mirrored)

    def weak(
        self, words: Vocabulary, *, trial_order: int = 1, test_order: int = 1, biharmonic: Biharmonic | None = None
    ) -> tuple[WeakOperator, ...]:
        """All operators in weak form, for the names of ``words`` and the derivatives that the element carries.

        Known operators of left sides come after the candidates, what stands in dt(...) comes last.

        Parameters
        ----------
        biharmonic
            Treatment of ∇⁴ where the library names none; elements with four derivatives have their own.
        """
        forms = []
        for form in self._weak_forms(words, (trial_order, test_order), biharmonic):
            if isinstance(form, str):
                raise OperatorError(form)
            forms.append(form)
        return tuple(forms)

    def obstacle(
        self, words: Vocabulary, *, trial_order: int = 1, test_order: int = 1, biharmonic: Biharmonic | None = None
    ) -> str:
        """Why some operator has no weak form with these orders; empty where all have one. Arguments as in ``weak``."""
        for form in self._weak_forms(words, (trial_order, test_order), biharmonic):
            if isinstance(form, str):
                return form
        return ""

    def _weak_forms(
        self, words: Vocabulary, orders: tuple[int, int], biharmonic: Biharmonic | None
    ) -> Iterator[WeakOperator | str]:
        """The weak form of each operator, or why it has none; each is built once and kept with the operator."""
        missing = [field for field in self._fields if field not in words.fields]
        if missing:
            yield f"library: equation for {missing[0]!r}, but the data have the fields {', '.join(words.fields)}."
            return
        if orders[0] == 0:  # all derivatives go onto the test functions, ∇⁴ as any other
            treatment: Biharmonic | None = None
        else:
            treatment = Conforming() if sum(orders) >= 4 else self.biharmonic or biharmonic
        definitions = tuple((name, syntax.text) for name, syntax in self._definitions.items())
        depends = (words, orders, treatment, tuple(self._conditions.items()), definitions)
        for operator in (*self._operators, *self.known, *self.densities):
            key = (operator.name, *depends)
            if key not in operator.weak_forms:
                operator.weak_forms[key] = self._build(operator, words, orders, treatment)
            yield operator.weak_forms[key]

    def _build(
        self, operator: Operator, words: Vocabulary, orders: tuple[int, int], treatment: Biharmonic | None
    ) -> WeakOperator | str:
        from bvsi.operators.operator import build_operator
        from bvsi.operators.parse import Dialect

        def biharmonic_text(argument: str) -> str:
            assert treatment is not None
            return treatment.text(argument, self._conditions[operator.equation])

        biharmonic = None if treatment is None else biharmonic_text
        dialect = Dialect(self._definitions, biharmonic, outside=orders[0] == 0)
        try:
            return build_operator(operator, words=words, conditions=self._conditions, dialect=dialect, orders=orders)
        except OperatorError as error:
            return str(error)

    def explain(self, *, dim: int | None = None, auxiliary: Sequence[str] = ()) -> str:
        """Strong form, weak form, boundary term and Jacobian of each operator.

        Parameters
        ----------
        dim
            Spatial dimension; by default the lowest that the operators mention.
        auxiliary
            Names of known fields; by default every name that is not a field of an equation.
        """
        names = frozenset[str]().union(*(syntax.names for syntax in self._syntaxes()))
        functions = frozenset[str]().union(*(syntax.functions for syntax in self._syntaxes()))
        mentioned = [i + 1 for i, c in enumerate(COORDINATE_NAMES) if c in names or f"d{c}" in functions]
        if dim is None:  # in a series x, y, z may be fields
            dim = 0 if set(COORDINATE_NAMES) & set(self._fields) else max(mentioned, default=1)
        free = names - set(self._fields) - set(COORDINATE_NAMES) - set(self._definitions) - _WORDS
        words = Vocabulary(COORDINATE_NAMES[:dim], self._fields, tuple(auxiliary) or tuple(sorted(free)))
        inside = "\n  tests     away from the boundary only: too little is known there for so many derivatives"
        operators = self.weak(words, biharmonic=Mixed())
        texts = [o.explain() + (inside if self.keeps_inside(o) else "") for o in operators]
        texts += [
            f"{name}\n  parameter, estimated between {one.low:g} and {one.high:g}; above it is {one.first:g}"
            for name, one in self.parameters.items()
        ]
        texts += [f"{name}\n  unknown function of {', '.join(one.of)}, a spline" for name, one in self.unknown.items()]
        return "\n\n".join(texts)


def _listed(sources: Sequence[Source | Operator], field: str) -> list[Source | Operator]:
    if not isinstance(field, str):
        raise OperatorError(f"library: the field {field!r} is not a text; the keys are names of fields.")
    if isinstance(sources, str) or not isinstance(sources, Iterable):
        raise OperatorError(f"library: the operators of {field!r} must be a list of texts, not {sources!r}.")
    return list(sources)


def _operator(source: Source | Operator, field: str, *, alone: bool) -> Operator:
    """The operator of a text or expression; its equation stands in its name unless there is one equation alone."""
    if isinstance(source, Operator):
        text = without_equation(source.name)
        return replace(source, name=text if alone else f"{field}: {text}", equation=field)
    # syntax errors are reported where the library is written, not when data arrive
    syntax = read(source) if isinstance(source, str) else _from_object(source, field)
    text = str(source).strip()
    return Operator(text if alone else f"{field}: {text}", field, source, syntax)


def _from_object(source: object, field: str) -> Syntax:
    import sympy as sp

    from bvsi.operators.parse import from_sympy

    if not isinstance(source, sp.Expr):
        raise OperatorError(f"library: an operator of {field!r} is a {type(source).__name__}, not a text.")
    try:
        str(source)
    except ValueError:  # Python refuses to write integers of thousands of digits
        raise OperatorError(f"library: an operator of {field!r} has a number too long to write; rescale.") from None
    return from_sympy(source)


def _check_distinct(names: Sequence[str]) -> None:
    seen: set[str] = set()
    if not names:
        raise OperatorError("library: no operators given; pass for example {'u': ['laplacian(u)', 'u']}.")
    for name in names:
        if squeeze(name) in seen:
            raise OperatorError(f"library: operator {name!r} is given twice; remove one.")
        seen.add(squeeze(name))


def _conditions(
    boundary: BoundaryCondition | Mapping[str, BoundaryCondition] | None, fields: tuple[str, ...]
) -> dict[str, BoundaryCondition]:
    if boundary is None:
        boundary = {}
    if isinstance(boundary, BoundaryCondition):
        return dict.fromkeys(fields, boundary)
    if not isinstance(boundary, Mapping):
        raise OperatorError(
            f"boundary: {boundary!r} is not a condition; pass an instance such as NoFlux(), or one per field."
        )
    for field, condition in boundary.items():
        if field not in fields:
            raise OperatorError(f"boundary: {field!r} has no equation in the library ({', '.join(fields)}).")
        if not isinstance(condition, BoundaryCondition):
            raise OperatorError(f"boundary: {field!r} needs an instance such as NoFlux(), not {condition!r}.")
    return {field: boundary.get(field, Unknown()) for field in fields}


def _definitions(definitions: Mapping[str, str | Syntax], fields: tuple[str, ...]) -> dict[str, Syntax]:
    if not isinstance(definitions, Mapping):
        raise OperatorError(
            f"definitions: {definitions!r} is not a mapping of names to texts, such as {{'phi': 'u**2'}}."
        )
    for name in definitions:
        if not isinstance(name, str) or not name.isidentifier() or name in (*fields, *RESERVED_NAMES):
            raise OperatorError(f"definitions: {name!r} is reserved; choose another name.")
    return {name: text if isinstance(text, Syntax) else read(text) for name, text in definitions.items()}
