"""One candidate operator with all its forms: strong, weak, boundary, linearised, compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import sympy as sp

from bvsi.common.jets import MEASURES, Jet, Sided, Where, order
from bvsi.errors import OperatorError
from bvsi.operators.boundary import Assembled, BoundaryCondition, BoundaryTreatment, ZeroNeumann, treat_boundary
from bvsi.operators.degree import integrand_degree, jet_degree
from bvsi.operators.kernel import Kernel, compile_kernel
from bvsi.operators.linearise import JacobianTerm, linearise
from bvsi.operators.parse import Dialect, strong_form
from bvsi.operators.strong import Scalar
from bvsi.operators.syntax import Operator
from bvsi.operators.terms import Term, WrittenTerm
from bvsi.operators.unbiased import unbiased
from bvsi.operators.vocabulary import TIME, Vocabulary, pretty
from bvsi.operators.weak import WeakForm, weak_form


@dataclass(frozen=True, eq=False)
class MeasureForm:
    """The terms of an operator over one measure (cells, facets or boundary): F and its derivative.

    F[v] = Σ_terms ∫ ∂^α v g          J[v, δu] = Σ_jacobian ∫ ∂^α v c ∂^β δu
    """

    terms: tuple[Term, ...]
    jacobian: tuple[JacobianTerm, ...]

    @cached_property
    def value_kernel(self) -> Kernel:
        """Compiled integrands g, in the order of ``terms``."""
        return compile_kernel(tuple(term.integrand for term in self.terms))

    @cached_property
    def jacobian_kernel(self) -> Kernel:
        """Compiled coefficients c, in the order of ``jacobian``."""
        return compile_kernel(tuple(term.coefficient for term in self.jacobian))


@dataclass(frozen=True, eq=False)
class WeakOperator:
    """A candidate operator of one equation, ready to be assembled.

    name: coefficient name; equation: field whose equation it belongs to; text: as the user wrote it.
    recovered: fields that the operator reads at nodes, w = M_lumped⁻¹ R(u), by name: the operators R.
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
        made = {where: self.weak.terms(where, self.boundary.kept) for where in MEASURES}
        return {where: MeasureForm(terms, linearise(terms, self.words)) for where, terms in made.items()}

    @cached_property
    def unbiased_kernel(self) -> Kernel:
        """Compiled integrands over the cells whose mean over the noise is their value without it."""
        return compile_kernel(tuple(unbiased(term.integrand, self.words) for term in self.forms["cells"].terms))

    @property
    def terms(self) -> tuple[Term, ...]:
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
            _divided(self.weak.cells, content),
            _divided(self.weak.boundary, content),
            tuple(WrittenTerm(w.where, Term(w.term.test, w.term.integrand / content)) for w in self.weak.written),
        )
        boundary = replace(self.boundary, kept=_divided(self.boundary.kept, content))
        return replace(self, weak=weak, boundary=boundary), float(content)

    @property
    def reads(self) -> tuple[str, ...]:
        """Measured fields that the operator depends on."""
        names = {term.field for term in self.jacobian}
        names |= {f for name in names & set(self.recovered) for f in self.recovered[name].reads}
        return tuple(f for f in self.words.fields if f in names)

    @property
    def state_linear(self) -> bool:
        """Whether the Jacobian is free of the measured fields."""
        known = self.words.auxiliary
        free = all(f in known for t in self.jacobian for f, _ in self.words.jets(t.coefficient).values())
        return free and all(operator.state_linear for operator in self.recovered.values())

    @property
    def has_source(self) -> bool:
        """Whether the operator is non-zero where all measured fields vanish, F(0) ≠ 0."""
        for term in self.terms:
            measured = [s for s, (f, _) in self.words.jets(term.integrand).items() if f not in self.words.auxiliary]
            if term.integrand.xreplace(dict.fromkeys(measured, sp.Integer(0))) != 0:
                return True
        return any(operator.has_source for operator in self.recovered.values())

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

    def uses(self, terms: tuple[Term, ...] | tuple[JacobianTerm, ...], names: frozenset[str]) -> bool:
        """Whether the given terms contain the time (``"t"``) or an auxiliary field of that name."""
        found = set()
        for term in terms:
            expression = term.integrand if isinstance(term, Term) else term.coefficient
            found |= {field for field, _ in self.words.jets(expression).values()}
            found |= {TIME.name} & {symbol.name for symbol in expression.free_symbols}
        inner = any(o.uses(o.terms, names) for o in self.recovered.values())
        return bool(found & names) or inner

    def degree(self, element_degree: int, *, simplices: bool = False) -> int:
        """Degree of the highest integrand, test function included.

        simplices: whether a derivative lowers the degree of the element's functions; per axis, on boxes, it does not.
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
        inside = [_term_text(t, self.words, sign) for where, sign in _SIGNS.items() for t in self._inside(where)]
        lines = [
            self.name,
            f"  strong    {_strong_text(self.strong, self.words) if self.strong.parts else self.text}",
            f"  weak      {_sum(inside)}",
            f"  boundary  {self._boundary_text()}",
            f"  Jacobian  {self._jacobian_text()}",
        ]
        for name, operator in self.recovered.items():
            weak = _sum(_term_text(t, self.words, "dx") for t in operator.weak.cells)
            lines.append(f"  with      {name} = M_lumped⁻¹ ({weak}); boundary {operator.boundary.reason}")
        return "\n".join(lines)

    def _inside(self, where: Where) -> tuple[Term, ...]:
        return self.forms[where].terms if where != "boundary" else ()

    def _boundary_text(self) -> str:
        written = [w.term for w in self.weak.written if w.where == "boundary"]
        if not self.weak.boundary and written:
            return _sum(_term_text(t, self.words, "dS") for t in written)
        if not self.weak.boundary:
            return self.boundary.reason
        return f"{_sum(_term_text(t, self.words, 'dS') for t in self.weak.boundary)}: {self.boundary.reason}"

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
    """Run the passes strong → weak → boundary for one operator; orders: derivatives of field and test function."""
    name, equation = operator.name, operator.equation
    trial_order, test_order = orders
    parsed = strong_form(operator.syntax, words, dialect)

    def build(
        strong: Scalar, conditions: Mapping[str, BoundaryCondition], recovered: Mapping[str, WeakOperator]
    ) -> WeakOperator:
        weak = weak_form(strong, words, trial_order=trial_order, test_order=test_order)
        if not (weak.cells or weak.boundary or weak.written):
            raise OperatorError("it is zero whatever the fields are; leave it out")
        boundary = treat_boundary(weak.boundary, equation, conditions, words)
        return WeakOperator(name, equation, str(operator.source), strong, weak, boundary, words, recovered)

    try:
        if parsed.recovered and trial_order == 0:
            raise OperatorError("recover(...) needs elements; use Galerkin().")
        known = {f: c if isinstance(c, ZeroNeumann) else Assembled() for f, c in conditions.items()}
        recovered = {inner: build(strong, known, {}) for inner, strong in parsed.recovered.items()}
        # what is recovered from fields that go on as their mirror images does so as well
        mirrored = {w for w, o in recovered.items() if all(isinstance(conditions.get(f), ZeroNeumann) for f in o.reads)}
        return build(parsed.form, {**conditions, **dict.fromkeys(mirrored, ZeroNeumann())}, recovered)
    except OperatorError as error:
        raise OperatorError(f"operator {name!r}: {error}") from None


def _divided(terms: tuple[Term, ...], number: sp.Expr) -> tuple[Term, ...]:
    return tuple(Term(term.test, term.integrand / number) for term in terms)


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


def _term_text(term: Term, words: Vocabulary, measure: str) -> str:
    return f"∫ ({pretty(term.integrand)}) {_derivative_text(term.test, 'v', words)} {measure}"


def _jacobian_text(term: JacobianTerm, words: Vocabulary, measure: str) -> str:
    trial = _derivative_text(term.trial, f"δ{term.field}", words)
    return f"∫ ({pretty(term.coefficient)}) {trial} {_derivative_text(term.test, 'v', words)} {measure}"
