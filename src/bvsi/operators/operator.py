"""One candidate operator with all its forms: strong, weak, boundary, linearised, compiled.

On nodal spaces integrands are replaced by others whose mean over the noise is their value without it:

    g̃ = exp(−½ Σ_ab C_ab ∂²/∂v_a∂v_b) g,        E[g̃(v + ε)] = g(v)   for ε ~ N(0, C)

v are the fields, and the derivatives of the data that g reads, at one node; C is the covariance of their noise. u²
becomes u² − C_uu, u³ becomes u³ − 3 C_uu u, u_x² becomes u_x² − C_xx. Exact for polynomials, where the series ends; to
second order otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import sympy as sp
from sympy.printing.numpy import SciPyPrinter

from bvsi.common.arrays import Array
from bvsi.common.naming import MEASURES, Jet, MultiIndex, Sided, Weighted, Where, order
from bvsi.errors import OperatorError
from bvsi.operators.boundary import Assembled, BoundaryCondition, ZeroNeumann
from bvsi.operators.bounds import power_values, whole_power
from bvsi.operators.parse import Dialect, strong_form
from bvsi.operators.spline import Table, spline, spline_values
from bvsi.operators.strong import Scalar, WeakTerm, collected
from bvsi.operators.syntax import Operator
from bvsi.operators.vocabulary import TIME, Vocabulary, lag_of, pretty
from bvsi.operators.weak import BoundaryTreatment, JacobianTerm, WeakForm, linearise, treat_boundary, weak_form

# Degrees added for a function that is not a polynomial: quadrature is then accurate, not exact. Not measured.
SMOOTH_FUNCTION_EXTRA = 3


@dataclass(frozen=True)
class Kernel:
    """Values of several expressions at once, common subexpressions computed once.

    Attributes
    ----------
    symbols
        What has to be given, in the order of the compiled function.
    function
        Of the numbers in the expressions, and of the symbols.
    numbers
        Those of its expressions: expressions that differ in their numbers alone share one function.
    made_from
        Arguments of :func:`compile_kernel`.
    """

    symbols: tuple[sp.Symbol, ...]
    function: Callable[..., Any]
    numbers: tuple[float | tuple[float, ...], ...]
    made_from: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_kernel, self.made_from  # compiled again where it arrives

    def __call__(self, values: Mapping[sp.Symbol, Array]) -> list[Array]:
        """Evaluate; ``values`` maps symbols to arrays that broadcast against each other."""
        results = self.function(*self.numbers, *(values[symbol] for symbol in self.symbols))
        return [np.asarray(result, dtype=float) for result in results]


def compile_kernel(
    expressions: tuple[sp.Expr, ...], words: Vocabulary | None = None, noisy: tuple[bool, ...] = ()
) -> Kernel:
    """Compile expressions; their symbols become the inputs.

    Parameters
    ----------
    words, noisy
        Names, and which of the expressions are to be without the bias of noise; by default none.
    """
    numbers: dict[sp.Float | Table, sp.Symbol] = {}
    for expression in expressions:
        for node in sp.preorder_traversal(expression):
            if node.is_Float or isinstance(node, Table):
                numbers.setdefault(node, sp.Symbol(f"number {len(numbers)}", real=True))
    abstract = tuple(expression.xreplace(numbers) for expression in expressions)
    symbols, function = _compiled(abstract, words, noisy, tuple(numbers.values()))
    values = tuple(one.values if isinstance(one, Table) else float(one) for one in numbers)
    return Kernel(symbols, function, values, (expressions, words, noisy))


@lru_cache(maxsize=512)
def _compiled(
    expressions: tuple[sp.Expr, ...], words: Vocabulary | None, noisy: tuple[bool, ...], numbers: tuple[sp.Symbol, ...]
) -> tuple[tuple[sp.Symbol, ...], Callable[..., Any]]:
    """Symbols, and the function of numbers and symbols; made once for all values of parameters in operators."""
    if words is not None and any(noisy):
        pairs = zip(expressions, noisy, strict=True)
        expressions = tuple(unbiased(g, words) if one else g for g, one in pairs)
    symbols = sorted({s for e in expressions for s in e.free_symbols} - {*numbers}, key=lambda s: s.name)
    function = sp.lambdify(
        [*numbers, *symbols],
        list(expressions),
        modules=[_FUNCTIONS, "scipy", "numpy"],
        printer=_KernelPrinter(),
        cse=True,
    )
    return tuple(symbols), function


_FUNCTIONS = {"Power": power_values, "spline": spline_values, "whole_power": whole_power}


class _KernelPrinter(SciPyPrinter):  # type: ignore[misc]  # SymPy has no types
    """Whole powers by multiplication."""

    def __init__(self) -> None:
        own = {"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True}
        super().__init__({**own, "user_functions": {name: name for name in _FUNCTIONS}})

    def _print_Pow(self, expr: sp.Pow, *arguments: Any, **named: Any) -> str:
        if expr.exp.is_Integer and expr.exp > 2:
            return f"whole_power({self._print(expr.base)}, {expr.exp})"
        return str(super()._print_Pow(expr, *arguments, **named))


@dataclass(frozen=True)
class KnownFactor:
    """A function of the coordinates alone, compiled where it is used; two of the same expression are equal."""

    expression: sp.Expr
    coordinates: tuple[sp.Symbol, ...]

    def __call__(self, points: Array) -> Array:
        """Values at points (n, dim), (n,)."""
        values = {symbol: points[:, i] for i, symbol in enumerate(self.coordinates)}
        return np.broadcast_to(compile_kernel((self.expression,))(values)[0], len(points))


class MeasureForm(NamedTuple):
    """The terms of an operator over one measure (cells, facets or boundary): F and its derivative.

    F[v] = Σ_terms ∫ ∂^α v g          J[v, δu] = Σ_jacobian ∫ ∂^α v c ∂^β δu
    """

    terms: tuple[WeakTerm, ...]
    jacobian: tuple[JacobianTerm, ...]


#: Integrands g, or coefficients c of the Jacobian.
KernelKind = Literal["values", "jacobian"]


@dataclass(frozen=True, eq=False)
class WeakOperator:
    """A candidate operator of one equation, ready to be assembled.

    Attributes
    ----------
    name
        Coefficient name.
    equation
        Field whose equation it belongs to.
    text
        As the user wrote it.
    recovered
        Fields that the operator reads at nodes, w = M_lumped⁻¹ R(u), by name: the operators R.
    """

    name: str
    equation: str
    text: str
    strong: Scalar
    weak: WeakForm
    boundary: BoundaryTreatment
    words: Vocabulary
    recovered: Mapping[str, WeakOperator] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def forms(self) -> Mapping[Where, MeasureForm]:
        """Terms by measure."""
        every = collected((*self.weak.cells, *self.boundary.kept, *self.weak.written))
        made = {where: tuple(term for term in every if term.where == where) for where in MEASURES}
        return {where: MeasureForm(terms, linearise(terms, self.words)) for where, terms in made.items()}

    def kernel(self, where: Where, kind: KernelKind, *, noisy: bool = False) -> Kernel:
        """Compiled expressions of one measure, in the order of its terms.

        Parameters
        ----------
        noisy
            Whether they are without the bias that noise of known variance gives them.
        """
        if (where, kind, noisy) not in self._kernels:
            form = self.forms[where]
            expressions = [term.coefficient for term in form.jacobian]
            if kind == "values":
                expressions = [term.integrand for term in form.terms]
            # the third derivative of a root may be anything
            fine = (noisy and (kind == "values" or g.is_polynomial(*self.words.jets(g))) for g in expressions)
            self._kernels[where, kind, noisy] = compile_kernel(tuple(expressions), self.words, tuple(fine))
        return self._kernels[where, kind, noisy]

    @cached_property
    def _kernels(self) -> dict[tuple[Where, KernelKind, bool], Kernel]:
        """Those that have been asked for."""
        return {}

    @cached_property
    def weighted(self) -> WeakOperator:
        """The operator with splines of the coordinates as weights of the test functions; itself without such splines.

        ∫ ∂^α v s(x) g(u): between few nodes g(u) is interpolated, and s is known.
        """
        cells: list[WeakTerm] = []
        for term in self.weak.cells:
            factors: dict[sp.Expr, sp.Expr] = {}
            jets, rest = tuple(self.words.jets(term.integrand)), sp.Integer(0)
            read = [jet for _, jet in self.words.jets(term.integrand).values()]
            for part in sp.Add.make_args(sp.expand(term.integrand)):
                known, g = part.as_independent(*jets, as_Add=False)
                if known.has(spline) and not any(map(order, read)) and TIME not in {s.name for s in known.free_symbols}:
                    factors[g] = factors.get(g, sp.Integer(0)) + known
                else:
                    rest += part
            cells += [replace(term, integrand=rest)] if rest != 0 else []
            for g, known in factors.items():
                assert not isinstance(term.test, Sided)
                cells.append(replace(term, test=Weighted(term.test, KnownFactor(known, self.words.x)), integrand=g))
        if not any(isinstance(term.test, Weighted) for term in cells):
            return self
        return replace(self, weak=replace(self.weak, cells=tuple(cells)))

    @property
    def terms(self) -> tuple[WeakTerm, ...]:
        """Terms over all measures."""
        return tuple(term for form in self.forms.values() for term in form.terms)

    @property
    def jacobian(self) -> tuple[JacobianTerm, ...]:
        """Terms of the derivative over all measures."""
        return tuple(term for form in self.forms.values() for term in form.jacobian)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Two operators with the same key have the same discrete form, whichever equation they stand in."""
        inner = tuple((name, operator.key) for name, operator in sorted(self.recovered.items()))
        return (tuple((where, form.terms) for where, form in self.forms.items()), inner)

    def monic(self) -> tuple[WeakOperator, float]:
        """The operator without the number in front, and that number: ∇²(−3c²) is −3 times ∇²(c²)."""
        monic, factor = self._monic
        return monic or self, factor

    @cached_property
    def _monic(self) -> tuple[WeakOperator | None, float]:
        """As ``monic``; None for the operator itself, so that it does not refer to itself."""
        first = next((term.integrand for term in self.terms), sp.Integer(1))
        content, rest = first.primitive()
        content = -content if rest.could_extract_minus_sign() else content
        if content == 1:
            return None, 1.0

        weak = WeakForm(
            *(_scaled(part, 1 / content) for part in (self.weak.cells, self.weak.boundary, self.weak.written))
        )
        boundary = replace(self.boundary, kept=_scaled(self.boundary.kept, 1 / content))
        return replace(self, weak=weak, boundary=boundary), float(content)

    def summed(self, parts: Iterable[tuple[WeakOperator, float]]) -> WeakOperator:
        """Σ θ_i F_i over operators of this one's equation, as one operator."""
        parts = list(parts)
        terms = tuple(term for operator, theta in parts for term in _scaled(operator.terms, theta))
        name = " + ".join(operator.name for operator, _ in parts)
        boundary = BoundaryTreatment((), "as in the parts")
        return replace(self, name=name, weak=WeakForm((), (), terms), boundary=boundary)

    @property
    def reads(self) -> tuple[str, ...]:
        """Measured fields that the operator depends on."""
        names = {term.field for term in self.jacobian}
        names |= {f for name in names & set(self.recovered) for f in self.recovered[name].reads}
        names |= {lag[0] for name in names if (lag := lag_of(name)) is not None}
        return tuple(f for f in self.words.fields if f in names)

    @cached_property
    def lags(self) -> frozenset[str]:
        """Fields at earlier times that the operator reads."""
        jets = (jet for term in self.terms for jet in self.words.jets(term.integrand).values())
        return frozenset(name for name, _ in jets if lag_of(name) is not None)

    @property
    def state_linear(self) -> bool:
        """Whether the Jacobian is free of the measured fields."""
        known = self.words.auxiliary
        free = all(f in known for t in self.jacobian for f, _ in self.words.jets(t.coefficient).values())
        return free and all(operator.state_linear for operator in self.recovered.values())

    @property
    def curved(self) -> bool:
        """Whether second derivatives by the measured fields read these fields, as those of u³ do and of u² do not."""
        known = self.words.auxiliary
        slopes = [(t.coefficient, s) for t in self.jacobian for s in self._measured(t.coefficient)]
        own = any(f not in known for g, s in slopes for f, _ in self.words.jets(sp.diff(g, s)).values())
        return own or any(operator.curved for operator in self.recovered.values())

    @property
    def has_source(self) -> bool:
        """Whether the operator is non-zero where all measured fields vanish, F(0) ≠ 0."""
        for term in self.terms:
            if term.integrand.xreplace(dict.fromkeys(self._measured(term.integrand), sp.Integer(0))) != 0:
                return True
        return any(operator.has_source for operator in self.recovered.values())

    def _measured(self, expression: sp.Expr) -> list[sp.Symbol]:
        """Symbols of measured fields and of their derivatives."""
        return [s for s, (f, _) in self.words.jets(expression).items() if f not in self.words.auxiliary]

    @cached_property
    def on_data(self) -> tuple[MultiIndex, ...]:
        """Derivatives of measured fields that integrals over the cells read; on spline tests they are of the data."""
        return self._read(known=False)

    @cached_property
    def on_known(self) -> tuple[MultiIndex, ...]:
        """The same of known fields."""
        return self._read(known=True)

    def _read(self, *, known: bool) -> tuple[MultiIndex, ...]:
        jets = (jet for t in self.forms["cells"].terms for jet in self.words.jets(t.integrand).values())
        some = {jet for f, jet in jets if (f in self.words.auxiliary) == known and not isinstance(jet, Sided)}
        return tuple(sorted(jet for jet in some if order(jet)))

    @property
    def second_derivatives(self) -> bool:
        """Whether second derivatives of the element's functions are needed."""
        tests = (term.test for term in self.terms)
        trials = (jet for term in self.terms for _, jet in self.words.jets(term.integrand).values())
        return any(order(jet) > 1 for jet in (*tests, *trials))

    @cached_property
    def derivatives(self) -> int:
        """Derivatives of one term, those on the test function and the highest of a field: 2 of ∇², 4 of ∇⁴."""

        def of_field(name: str, jet: Jet) -> int:
            return order(jet) + (self.recovered[name].derivatives if name in self.recovered else 0)

        jets = ((t, self.words.jets(t.integrand).values()) for t in self.terms)
        return max((order(t.test) + max((of_field(*j) for j in js), default=0) for t, js in jets), default=0)

    @property
    def has_steep_boundary(self) -> bool:
        """Whether the boundary matters beyond fluxes: more than two derivatives, or a field recovered from two."""
        named = (self.recovered[t.field].derivatives for t in self.jacobian if t.field in self.recovered)
        return self.derivatives > 2 or any(inner >= 2 for inner in named)

    def uses(self, terms: tuple[WeakTerm, ...] | tuple[JacobianTerm, ...], names: frozenset[str]) -> bool:
        """Whether the given terms contain the time (``"t"``) or an auxiliary field of that name."""
        found = set()
        for term in terms:
            expression = term.integrand if isinstance(term, WeakTerm) else term.coefficient
            found |= {field for field, _ in self.words.jets(expression).values()}
            found |= {TIME} & {symbol.name for symbol in expression.free_symbols}
        inner = any(o.uses(o.terms, names) for o in self.recovered.values())
        return bool(found & names) or inner

    def degree(self, element_degree: int, *, simplices: bool = False) -> int:
        """Degree of the highest integrand, test function included.

        Parameters
        ----------
        simplices
            Whether a derivative lowers the degree of the element's functions; per axis, on boxes, it does not.
        """
        degrees = (
            integrand_degree(term.integrand, self.words, element_degree, simplices=simplices)
            + jet_degree(term.test, element_degree, simplices=simplices)
            for term in self.terms
        )
        inner = (o.degree(element_degree, simplices=simplices) for o in self.recovered.values())
        return max((*degrees, *inner), default=0)

    def explain(self) -> str:
        """Strong form, weak form, boundary term and Jacobian, one line each."""
        inside = [_term_text(term, self.words) for term in self.terms if term.where != "boundary"]
        lines = [
            self.name,
            f"  strong    {_strong_text(self.strong, self.words) if self.strong.parts else self.text}",
            f"  weak      {_sum(inside)}",
            f"  boundary  {self._boundary_text()}",
            f"  Jacobian  {self._jacobian_text()}",
        ]
        for name, operator in self.recovered.items():
            weak = _sum(_term_text(t, self.words) for t in operator.weak.cells)
            lines.append(f"  with      {name} = M_lumped⁻¹ ({weak}); boundary {operator.boundary.reason}")
        return "\n".join(lines)

    def _boundary_text(self) -> str:
        written = [term for term in self.weak.written if term.where == "boundary"]
        if not self.weak.boundary and written:
            return _sum(_term_text(t, self.words) for t in written)
        if not self.weak.boundary:
            return self.boundary.reason
        return f"{_sum(_term_text(t, self.words) for t in self.weak.boundary)}: {self.boundary.reason}"

    def _jacobian_text(self) -> str:
        texts = [_jacobian_text(t, self.words, _SIGNS[w]) for w, form in self.forms.items() for t in form.jacobian]
        kind = "constant: linear in the state" if self.state_linear else "depends on the state"
        return f"{_sum(texts)}   ({kind})" if texts else "zero: a known source"


_SIGNS: dict[Where, str] = {"cells": "dx", "facets": "dE", "boundary": "dS"}


def build_operator(
    operator: Operator,
    *,
    words: Vocabulary,
    conditions: Mapping[str, BoundaryCondition],
    dialect: Dialect,
    orders: tuple[int, int],
) -> WeakOperator:
    """Run the passes strong → weak → boundary for one operator.

    Parameters
    ----------
    orders
        Derivatives of field and test function.
    """
    name, equation = operator.name, operator.equation
    trial_order, test_order = orders
    parsed = strong_form(operator.syntax, words, dialect)

    def build(
        strong: Scalar, conditions: Mapping[str, BoundaryCondition], recovered: Mapping[str, WeakOperator]
    ) -> WeakOperator:
        weak = weak_form(strong, words, trial_order=trial_order, test_order=test_order)
        if not (weak.cells or weak.boundary or weak.written):
            why = "it is zero whatever the fields are" if words.dim else "the data have no space, so that it is zero"
            raise OperatorError(f"{why}; leave it out")
        boundary = treat_boundary(weak.boundary, equation, conditions, words)
        return WeakOperator(name, equation, str(operator.source), strong, weak, boundary, words, recovered)

    try:
        if parsed.recovered and trial_order == 0:
            raise OperatorError("recover(...) needs elements; use Galerkin().")
        known = {f: c if isinstance(c, ZeroNeumann) else Assembled() for f, c in conditions.items()}
        recovered = {inner: build(strong, known, {}) for inner, strong in parsed.recovered.items()}
        # what is recovered from fields that continue as their mirror images does so as well
        mirrored = {w for w, o in recovered.items() if all(isinstance(conditions.get(f), ZeroNeumann) for f in o.reads)}
        return build(parsed.form, {**conditions, **dict.fromkeys(mirrored, ZeroNeumann())}, recovered)
    except OperatorError as error:
        raise OperatorError(f"operator {name!r}: {error}") from None


def _scaled(terms: Iterable[WeakTerm], factor: sp.Expr | float) -> tuple[WeakTerm, ...]:
    """The terms times a number."""
    return tuple(replace(term, integrand=factor * term.integrand) for term in terms)


def _sum(texts: Iterable[str]) -> str:
    return " + ".join(texts) or "0"


def _derivative_text(jet: Jet, what: str, words: Vocabulary) -> str:
    index, side = (jet.index, {1: "⁺", -1: "⁻"}[jet.side]) if isinstance(jet, Sided) else (jet, "")
    letters = words.letters(index)
    return f"{what}_{letters}{side}" if letters else f"{what}{side}"


def _strong_text(strong: Scalar, words: Vocabulary) -> str:
    def part(index: tuple[int, ...], g: sp.Expr) -> str:
        outer = "".join(f"∂{name}" * m for name, m in zip(words.coordinates, index, strict=True))
        return f"{outer}({pretty(g)})" if outer else pretty(g)

    return _sum(part(index, g) for index, g in strong.parts)


def _term_text(term: WeakTerm, words: Vocabulary) -> str:
    return f"∫ ({pretty(term.integrand)}) {_derivative_text(term.test, 'v', words)} {_SIGNS[term.where]}"


def _jacobian_text(term: JacobianTerm, words: Vocabulary, measure: str) -> str:
    trial = _derivative_text(term.trial, f"δ{term.field}", words)
    return f"∫ ({pretty(term.coefficient)}) {trial} {_derivative_text(term.test, 'v', words)} {measure}"


def jet_degree(jet: Jet, element_degree: int, *, simplices: bool) -> int:
    """Degree of a derivative of one of the element's functions."""
    return max(element_degree - order(jet), 0) if simplices else element_degree


def integrand_degree(expression: sp.Expr, words: Vocabulary, element_degree: int, *, simplices: bool = False) -> int:
    """Degree of the expression when a jet has the element's degree and a coordinate degree one."""
    if isinstance(expression, sp.Symbol):
        decoded = words.decode(expression)
        if decoded is not None:
            return jet_degree(decoded[1], element_degree, simplices=simplices)
        return 1 if expression in words.x else 0
    if not expression.args:
        return 0
    degrees = [integrand_degree(a, words, element_degree, simplices=simplices) for a in expression.args]
    if isinstance(expression, sp.Add):
        return max(degrees)
    if isinstance(expression, sp.Mul):
        return sum(degrees)
    if isinstance(expression, sp.Pow) and expression.exp.is_Integer and expression.exp > 0:
        return degrees[0] * int(expression.exp)
    return max(degrees) + SMOOTH_FUNCTION_EXTRA if max(degrees) else 0


def unbiased(g: sp.Expr, words: Vocabulary) -> sp.Expr:
    """g̃ with ``words.covariance(f, a, b)`` for C_ab: one factor exp(…) for every pair of jets of the same field."""
    jets = [(s, *jet) for s, jet in words.jets(g).items() if jet[0] in words.fields or lag_of(jet[0])]
    for (a, name, i), (b, other, j) in combinations_with_replacement(jets, 2):
        if name == other:
            assert not isinstance(i, Sided)
            assert not isinstance(j, Sided)
            g = _unbiased_in(g, a, b, words.covariance(name, i, j))
    return g


def _unbiased_in(g: sp.Expr, a: sp.Symbol, b: sp.Symbol, C: sp.Symbol) -> sp.Expr:
    """exp(−C ∂²/∂a∂b) g, and exp(−½ C ∂²/∂a²) g where both are the same."""
    degrees = [sp.degree(g, one) if g.is_polynomial(one) else 1 for one in (a, b)]
    same = a == b
    last = degrees[0] // 2 if same and g.is_polynomial(a) else min(degrees)
    total = term = g
    for m in range(1, int(last) + 1):
        term = -C * sp.diff(term, a, b) / ((1 + same) * m)
        total += term
    return total.replace(sp.DiracDelta, lambda *_: sp.Integer(0)) if total.has(sp.DiracDelta) else total
