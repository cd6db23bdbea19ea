"""What is read first: the equation, whether it can be trusted, the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bvsi.app.report.equation import equation_latex, equation_mathml, measured, operator_mathml
from bvsi.app.report.markup import Markup, details, element, joined, table
from bvsi.app.report.svg import Scale, line, short_number
from bvsi.app.report.typeset import plain
from bvsi.check import Verdict
from bvsi.discovery import Discovery, undetermined


@dataclass(frozen=True)
class Judgement:
    """A verdict for people: class of the page, sign, words, advice."""

    style: str
    sign: str
    words: str
    advice: str


def judgement(found: Discovery) -> Judgement:
    """The verdict as sign, colour and words."""
    if found.check is None:
        return Judgement("unknown", "?", "Not checked", found.advice)
    style, sign = {
        Verdict.CONSISTENT: ("good", "✓"),
        Verdict.NOISE: ("doubt", "!"),
        Verdict.UNDECIDED: ("doubt", "!"),
    }.get(found.check.verdict, ("bad", "✗"))
    if style == "good" and found.doubts:
        return Judgement("doubt", "!", "Consistent, but not decided", found.advice)
    return Judgement(style, sign, str(found.check.verdict).capitalize(), found.advice)


@dataclass(frozen=True)
class CoefficientRow:
    """A line of the table of coefficients: number with uncertainty and interval as texts, and what they are made of."""

    name: str
    number: str
    interval: tuple[str, str]
    mean: float
    ends: tuple[float, float]
    inclusion: float


def coefficient_rows(found: Discovery, level: float = 0.95) -> list[CoefficientRow]:
    """The table of coefficients, for all forms of the report."""
    inclusion = found.inclusion()
    rows, intervals = [], found.posterior.interval(level).tolist()
    for i in found.shown:
        name, value, sd, (low, high) = found.names[i], float(found.theta[i]), float(found.sd[i]), intervals[i]
        number = ("−" if value < 0 else "") + plain(measured(abs(value), sd, found.units.get(name, "")))
        number = "undetermined" if undetermined(low, high) else number
        ends = (signed(low), signed(high))
        rows.append(CoefficientRow(name, number, ends, value, (low, high), inclusion.get(name, 1.0)))
    return rows


def verdict_lines(found: Discovery, notes: Sequence[str] = ()) -> list[str]:
    """What stands below the verdict: its reasons, how the fit ended, notes."""
    reasons = () if found.check is None else found.check.reasons
    return [*(f"Because {reason}." for reason in reasons), *found.diagnostics.splitlines(), *notes]


def equation_section(found: Discovery) -> Markup:
    """The equation, and its LaTeX to copy."""
    source = equation_latex(found)
    button = element("button", "Copy LaTeX", type="button", class_="copy", data_copies="latex")
    code = element("pre", element("code", source, id="latex"), tabindex="0")
    note = "In round brackets: standard deviation in units of the last digit."
    if any(undetermined(*ends) for ends in found.posterior.interval()[list(found.shown)]):
        note += " In square brackets: 95% interval of a coefficient that the data do not determine."
    return element(
        "section",
        element("h2", "Equation"),
        equation_mathml(found),
        element("p", note, class_="note"),
        element("div", button, details("LaTeX", code), class_="row"),
        id="equation",
    )


def verdict_section(found: Discovery, notes: Sequence[str]) -> Markup:
    """Verdict and advice, its reasons, how the fit ended, and notes."""
    told = judgement(found)
    head = element(
        "p", element("span", told.sign, class_="sign", aria_hidden="true"), " ", element("strong", told.words)
    )
    listed = element("ul", *(element("li", one) for one in verdict_lines(found, notes)))
    return element(
        "section",
        element("h2", "Verdict"),
        element("div", head, element("p", told.advice), listed, class_=f"verdict {told.style}"),
        id="verdict",
    )


def coefficient_section(found: Discovery) -> Markup:
    """The table, unknown functions in words, and the operators that were not taken."""
    numbers = [coefficient_table(found)] if found.shown else []
    functions = [element("p", f"{text}.") for text in found.function_texts]
    return element("section", element("h2", "Coefficients"), *numbers, *functions, _left_out(found), id="coefficients")


def coefficient_table(found: Discovery) -> Markup:
    """Coefficient, interval with a bar that starts at zero, probability of being in the equation."""
    rows = [
        [
            operator_mathml(row.name, found.fields),
            row.number,
            element("span", f"[{row.interval[0]}, {row.interval[1]}]", class_="interval"),
            interval_bar(row.mean, *row.ends),
            _probability(row.inclusion),
        ]
        for row in coefficient_rows(found)
    ]
    head = ["operator", "coefficient", "95% interval", "from zero", "P(in)"]
    return table(head, rows, caption="Coefficients with their 95% intervals", class_="coefficients")


def signed(value: float) -> str:
    """A number with six digits and a true minus."""
    return f"{value:.6g}".replace("-", "−")


def interval_bar(value: float, low: float, high: float) -> Markup:
    """A small drawing of an interval and its mean on an axis that holds zero."""
    ends = (min(0.0, low), max(0.0, high))
    room = 0.06 * (ends[1] - ends[0]) or 1.0
    scale = Scale(ends[0] - room, ends[1] + room, 0.0, 120.0)
    words = f"interval from {short_number(low)} to {short_number(high)}"
    return element(
        "svg",
        line(0, 10, 120, 10, class_="rule"),
        line(scale.at(0.0), 2, scale.at(0.0), 18, class_="zero"),
        line(scale.at(low), 10, max(scale.at(high), scale.at(low) + 0.5), 10, class_="interval"),
        element("circle", cx=scale.at(value), cy=10, r=3.5, class_="mean"),
        viewBox="0 0 120 20",
        class_="bar",
        role="img",
        aria_label=words,
    )


def _probability(p: float) -> Markup:
    """A number with a bar as long as it is large."""
    bar = element(
        "svg",
        element("rect", x=0, y=4, width=50, height=12, class_="panel"),
        element("rect", x=0, y=4, width=50.0 * p, height=12, class_="share"),
        viewBox="0 0 50 20",
        class_="meter",
        aria_hidden="true",
    )
    return joined([bar, f" {p:.3f}"])


def _left_out(found: Discovery) -> Markup:
    """Candidates that were considered and not taken."""
    others = [name for name in found.candidates if name not in (*found.names, *found.function_operators)]
    if not others:
        return Markup("")
    inclusion = found.inclusion()
    rows = [
        [operator_mathml(name, found.fields), element("code", name), f"{inclusion.get(name, 0.0):.3f}"]
        for name in others
    ]
    body = table(["operator", "as written", "P(in)"], rows, caption="Operators that were considered and left out")
    return details(f"{len(others)} operator{'s' if len(others) > 1 else ''} considered and left out", body)
