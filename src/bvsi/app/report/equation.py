"""The equation of a discovery, typeset: LaTeX for papers, MathML for browsers, labels for figures.

    ∂u/∂t = 0.301(2) ∇²u − 1.01(2) u ∂ₓu

The number in brackets is the standard deviation, in units of the last digit. A coefficient that may be zero is
written as its 95% interval, [−400, 900].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bvsi.app.report.formula import (
    Formula,
    Fraction,
    Juxtaposition,
    Number,
    Script,
    Symbol,
    name_formula,
    operator_formula,
)
from bvsi.app.report.markup import Markup, element, joined
from bvsi.app.report.typeset import latex, mathml, plain
from bvsi.common.naming import without_equation
from bvsi.discovery import Discovery, undetermined, with_uncertainty
from bvsi.discovery.result import scaled

_TERMS_IN_A_LINE = 3
_ONE = Number("1")


@dataclass(frozen=True)
class Summand:
    """A summand of the right side: its sign, its coefficient without sign, its operator; None for the constant 1."""

    negative: bool
    coefficient: Formula
    operator: Formula | None

    @property
    def formula(self) -> Formula:
        """Coefficient and operator."""
        if self.operator is None:
            return self.coefficient
        return Juxtaposition((self.coefficient, self.operator), spaced=True)


@dataclass(frozen=True)
class Line:
    """The equation of one field."""

    left: Formula
    terms: tuple[Summand, ...]


def equation_lines(found: Discovery) -> tuple[Line, ...]:
    """One line per field with an equation, and one per parameter inside its operators."""
    lines = []
    for field in found.fields:
        terms = []
        for name in found.function_operators:
            equation, text = split_name(name, found.fields)
            terms += [Summand(False, operator_formula(text), None)] if equation == field else []
        intervals = found.posterior.interval().tolist()
        for i in found.shown:
            name, value, sd = found.names[i], float(found.theta[i]), float(found.sd[i])
            equation, text = split_name(name, found.fields)
            if equation == field and name not in found.parameters:
                operator, unit = operator_formula(text), found.units.get(name, "")
                range_ = undetermined(*intervals[i])
                number = Number(range_, unit=unit) if range_ else measured(abs(value), sd, unit)
                terms.append(Summand(value < 0 and not range_, number, None if operator == _ONE else operator))
        written = found.left.get(field)
        left = _time_derivative(field, found.time_order) if written is None else operator_formula(written)
        lines.append(Line(left, tuple(terms)))
    units = {without_equation(name): unit for name, unit in found.units.items()}
    for name, (value, sd) in found.inside.items():
        number = measured(abs(value), sd, units.get(name, ""))
        lines.append(Line(name_formula(name), (Summand(value < 0, number, None),)))
    return tuple(lines)


def split_name(name: str, fields: Sequence[str]) -> tuple[str, str]:
    """Field and operator of a coefficient's name: ``"u: dx(u)"``, or ``"dx(u)"`` where there is one equation."""
    if len(fields) == 1:
        return fields[0], name
    field, _, text = name.partition(": ")
    return field, text


def measured(value: float, sd: float, unit: str = "") -> Number:
    """0.0998(4), and 3.21(5)×10⁻⁶ where the value is small or large."""
    small, narrow, power = scaled(value, sd)
    return Number(with_uncertainty(small, narrow), power, unit)


def equation_latex(found: Discovery) -> str:
    r"""The equation as an ``align*`` environment, ready for ``\input``; it needs amsmath."""
    rows = []
    for line in equation_lines(found):
        pieces = [f"{'-' if t.negative else '+'} {latex(t.formula)}" for t in line.terms]
        if pieces:
            pieces[0] = pieces[0].removeprefix("+ ")
        groups = [" ".join(pieces[i : i + _TERMS_IN_A_LINE]) for i in range(0, len(pieces), _TERMS_IN_A_LINE)]
        right = " \\\\\n  &\\quad {}".join(groups) or "0"
        rows.append(f"  {latex(line.left)} &= {right}")
    body = " \\\\\n".join(rows)
    return f"% needs \\usepackage{{amsmath}}\n\\begin{{align*}}\n{body}\n\\end{{align*}}\n"


def equation_mathml(found: Discovery) -> Markup:
    """The equation as pieces of MathML, one per term, between which a browser can break the line."""
    rows = []
    for line in equation_lines(found):
        pieces = [_math(line.left, Symbol("equals"), display=True)]
        for place, term in enumerate(line.terms):
            sign: tuple[Formula, ...] = (Symbol("minus"),) if term.negative else (Symbol("plus"),)
            if place == 0:
                sign = (Symbol("negative"),) if term.negative else ()
            pieces.append(_math(*sign, term.formula, display=True))
        rows.append(element("div", joined(pieces if line.terms else [*pieces, _math(Number("0"))], " "), class_="line"))
    # one name for the whole: the pieces do not read well by themselves
    return element("div", *rows, class_="equation", role="math", aria_label=found.equation)


def operator_mathml(name: str, fields: Sequence[str]) -> Markup:
    """A coefficient's operator, with its field in front where there are several equations."""
    field, text = split_name(name, fields)
    formula = _math(operator_formula(text))
    return formula if len(fields) == 1 else joined([_math(name_formula(field)), ": ", formula])


def operator_latex(name: str, fields: Sequence[str]) -> str:
    """A coefficient's operator for LaTeX in math mode, with its field in front where there are several equations."""
    field, text = split_name(name, fields)
    label = latex(operator_formula(text))
    return label if len(fields) == 1 else f"{latex(name_formula(field))}:\\ {label}"


def operator_label(name: str, fields: Sequence[str]) -> str:
    """The same in one line of text."""
    field, text = split_name(name, fields)
    label = plain(operator_formula(text))
    return label if len(fields) == 1 else f"{plain(name_formula(field))}: {label}"


def _math(*parts: Formula, display: bool = False) -> Markup:
    # the span keeps a term in one piece; a line may break between terms only
    return element(
        "span",
        element("math", *(mathml(part) for part in parts), displaystyle="true" if display else None),
        class_="term",
    )


def _time_derivative(field: str, order: int) -> Formula:
    """∂^n u/∂t^n."""
    above = None if order == 1 else Number(str(order))
    mark: Formula = Symbol("partial") if above is None else Script(Symbol("partial"), above=above)
    time: Formula = name_formula("t") if above is None else Script(name_formula("t"), above=above)
    return Fraction(Juxtaposition((mark, name_formula(field))), Juxtaposition((Symbol("partial"), time)))
