"""One candidate operator with all its forms: strong, weak, boundary, linearised, compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators.boundary import BoundaryCondition, BoundaryTreatment, treat_boundary
from bvsi.operators.degree import integrand_degree
from bvsi.operators.from_sympy import from_sympy
from bvsi.operators.kernel import Kernel, compile_kernel
from bvsi.operators.linearise import JacobianTerm, linearise
from bvsi.operators.parse import parse
from bvsi.operators.strong import Scalar
from bvsi.operators.vocabulary import TIME, Vocabulary, pretty
from bvsi.operators.weak import Term, WeakForm, weak_form


@dataclass(frozen=True, eq=False)
class MeasureForm:
    """The terms of an operator over one measure (cells or boundary): F and its derivative.

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
    """

    name: str
    equation: str
    text: str
    strong: Scalar
    weak: WeakForm
    boundary: BoundaryTreatment
    words: Vocabulary

    @cached_property
    def cells(self) -> MeasureForm:
        """Terms over the cells."""
        return MeasureForm(self.weak.cells, linearise(self.weak.cells, self.words))

    @cached_property
    def facets(self) -> MeasureForm:
        """Terms over the boundary that the boundary condition leaves."""
        return MeasureForm(self.boundary.kept, linearise(self.boundary.kept, self.words))

    @property
    def key(self) -> tuple[object, ...]:
        """Two operators with the same key have the same discrete form, whichever equation they stand in."""
        return (self.weak.cells, self.boundary.kept)

    @property
    def reads(self) -> tuple[str, ...]:
        """Measured fields that the operator depends on."""
        terms = (*self.cells.jacobian, *self.facets.jacobian)
        return tuple(f for f in self.words.fields if any(term.field == f for term in terms))

    @property
    def state_linear(self) -> bool:
        """Whether the Jacobian is free of the measured fields."""
        coefficients = (t.coefficient for t in (*self.cells.jacobian, *self.facets.jacobian))
        return not any(f in self.words.fields for c in coefficients for f, _ in self.words.jets(c).values())

    @property
    def has_source(self) -> bool:
        """Whether the operator is non-zero where all measured fields vanish, F(0) ≠ 0."""
        for term in (*self.cells.terms, *self.facets.terms):
            measured = [s for s, (f, _) in self.words.jets(term.integrand).items() if f in self.words.fields]
            if term.integrand.xreplace(dict.fromkeys(measured, sp.Integer(0))) != 0:
                return True
        return False

    def uses(self, terms: tuple[Term, ...] | tuple[JacobianTerm, ...], names: frozenset[str]) -> bool:
        """Whether the given terms contain the time (``"t"``) or an auxiliary field of that name."""
        found = set()
        for term in terms:
            expression = term.integrand if isinstance(term, Term) else term.coefficient
            found |= {field for field, _ in self.words.jets(expression).values()}
            found |= {TIME.name} & {symbol.name for symbol in expression.free_symbols}
        return bool(found & names)

    def degree(self, element_degree: int) -> int:
        """Degree of the highest integrand, test function included."""
        integrands = (term.integrand for term in (*self.weak.cells, *self.boundary.kept))
        return element_degree + max((integrand_degree(g, self.words, element_degree) for g in integrands), default=0)

    def explain(self) -> str:
        """Strong form, weak form, boundary term and Jacobian, one line each."""
        lines = [
            self.name,
            f"  strong    {_strong_text(self.strong, self.words)}",
            f"  weak      {_sum(_term_text(t, self.words, 'dx') for t in self.weak.cells)}",
            f"  boundary  {self._boundary_text()}",
            f"  Jacobian  {self._jacobian_text()}",
        ]
        return "\n".join(lines)

    def _boundary_text(self) -> str:
        if not self.weak.boundary:
            return self.boundary.reason
        return f"{_sum(_term_text(t, self.words, 'dS') for t in self.weak.boundary)}: {self.boundary.reason}"

    def _jacobian_text(self) -> str:
        cells = [_jacobian_text(t, self.words, "dx") for t in self.cells.jacobian]
        facets = [_jacobian_text(t, self.words, "dS") for t in self.facets.jacobian]
        kind = "constant: linear in the state" if self.state_linear else "depends on the state"
        return f"{_sum((*cells, *facets))}   ({kind})" if cells or facets else "zero: a known source"


def build_operator(
    source: str | sp.Expr,
    name: str,
    equation: str,
    *,
    words: Vocabulary,
    conditions: Mapping[str, BoundaryCondition],
    trial_order: int,
    test_order: int,
) -> WeakOperator:
    """Run the passes strong → weak → boundary for one operator."""
    strong = parse(source, words) if isinstance(source, str) else from_sympy(source, words)
    try:
        weak = weak_form(strong, words, trial_order=trial_order, test_order=test_order)
        boundary = treat_boundary(weak.boundary, equation, conditions, words)
    except OperatorError as error:
        raise OperatorError(f"operator {name!r}: {error}") from None
    return WeakOperator(name, equation, str(source), strong, weak, boundary, words)


def _sum(texts: Iterable[str]) -> str:
    return " + ".join(texts) or "0"


def _derivative_text(index: tuple[int, ...], what: str, words: Vocabulary) -> str:
    letters = "".join(name * order for name, order in zip(words.coordinates, index, strict=True))
    return f"{what}_{letters}" if letters else what


def _strong_text(strong: Scalar, words: Vocabulary) -> str:
    def part(index: tuple[int, ...], g: sp.Expr) -> str:
        outer = "".join(f"∂{name}" * order for name, order in zip(words.coordinates, index, strict=True))
        return f"{outer}({pretty(g)})" if outer else pretty(g)

    return _sum(part(index, g) for index, g in strong.parts)


def _term_text(term: Term, words: Vocabulary, measure: str) -> str:
    return f"∫ ({pretty(term.integrand)}) {_derivative_text(term.test, 'v', words)} {measure}"


def _jacobian_text(term: JacobianTerm, words: Vocabulary, measure: str) -> str:
    trial = _derivative_text(term.trial, f"δ{term.field}", words)
    return f"∫ ({pretty(term.coefficient)}) {trial} {_derivative_text(term.test, 'v', words)} {measure}"
