"""For the paper: a paragraph on methods with the settings that were used, a table, and what to cite."""

from __future__ import annotations

from collections.abc import Mapping

from bvsi._version import __version__
from bvsi.app.report.equation import operator_latex
from bvsi.app.report.markup import Markup, details, element
from bvsi.app.report.summary_section import coefficient_rows
from bvsi.discovery import Discovery
from bvsi.residual import TemporalTests
from bvsi.spaces import SplineTests

BIBTEX = f"""\
@unpublished{{bvsi-method,
  title  = {{Bayesian Variational System Identification with Weak-Form Residual Likelihoods}},
  author = {{Huang, Chengyang and Srivastava, Siddhartha and Garikipati, Krishna and Huan, Xun}}
}}
@software{{bvsi,
  title   = {{bvsi: PDE discovery with uncertainty from noisy full-field data}},
  author  = {{{{The bvsi developers}}}},
  version = {{{__version__}}}
}}
"""


def methods_text(found: Discovery) -> str:
    """What was done, in sentences with the numbers that were used."""
    residuals = sum(len(blocks) * rows for blocks, rows in zip(found.chi2_blocks, found.block_rows, strict=True))
    sentences = [
        f"We identified the equation with bvsi {__version__} (Bayesian variational system identification) from "
        f"{len(found.candidates)} candidate operators, of which {len(found.names)} were selected.",
        f"{_tests(found)}, which gave {residuals} residuals.",
        f"Noise: {found.settings.get('noise', 'measured from the data')}.",
        f"{_method(found)}",
        f"The selected equation has χ²/n = {found.chi2:.3g}.",
    ]
    if found.check is not None:
        tried = ", ".join(one.name for one in found.check.comparisons) or "no other discretisation"
        sentences.append(
            f"Tests of the residuals and fits with other samplings and test functions ({tried}) gave the verdict "
            f"“{found.verdict}”."
        )
    if found.forecast is not None:
        held = found.forecast.held_out
        covered = float(found.forecast.coverage[held].mean())
        sentences.append(
            f"Simulated with {found.forecast.draws} posterior draws, the equation fitted to the other frames predicted "
            f"{int(held.sum())} held-out frames; {100 * covered:.0f}% of their values lie in its 95% band."
        )
    return " ".join(sentences)


def _tests(found: Discovery) -> str:
    """Test functions in space and time."""
    method = found.method
    if method is None:
        return "The equation was tested in weak form"
    tests, stencil = method.tests, method.stencil
    in_time = f"with {stencil}"
    if isinstance(stencil, TemporalTests):
        in_time = f"B-splines of degree {stencil.degree} in time, knots {_gaps(stencil.gap)} steps apart"
    if isinstance(tests, SplineTests):
        splines = f"B-splines of degree {tests.degree} in space, knots {_gaps(tests.gap)} nodes apart"
        return f"The equation was tested in weak form against {splines}, and {in_time}"
    return f"The equation was tested in weak form on finite elements ({tests}), {in_time}"


def _gaps(gap: object) -> str:
    """One number, or one by axis."""
    if isinstance(gap, Mapping):
        return ", ".join(f"{value:.3g} ({axis})" for axis, value in gap.items())
    return f"{gap:.3g}" if isinstance(gap, int | float) else "as chosen from the data"


def _method(found: Discovery) -> str:
    """Weights, selection and estimator."""
    method = found.method
    if method is None:
        return ""
    names = [type(part).__name__ for part in (method.weighting, method.selection, method.estimator)]
    return (
        f"Residuals were weighted by {names[0]}, operators selected by {names[1]}, coefficients inferred by {names[2]}."
    )


def table_latex(found: Discovery) -> str:
    """Coefficients with intervals and P(in), for ``\\usepackage{booktabs}``."""
    rows = []
    for row in coefficient_rows(found):
        low, high = (end.replace("−", "-") for end in row.interval)
        number = row.number.replace("−", "-")
        number = number if number == "undetermined" else f"${number}$"
        rows.append(
            f"  ${operator_latex(row.name, found.fields)}$ & {number} & $[{low},\\, {high}]$ & {row.inclusion:.3f} \\\\"
        )
    head = "operator & coefficient & 95\\% interval & $P(\\mathrm{in})$ \\\\"
    body = "\n".join(rows)
    return f"\\begin{{tabular}}{{lrrr}}\n  \\toprule\n  {head}\n  \\midrule\n{body}\n  \\bottomrule\n\\end{{tabular}}\n"


def paper_section(found: Discovery) -> Markup:
    """Paragraph, table and references, each with a button that copies it."""
    return element(
        "section",
        element("h2", "For the paper"),
        element("p", methods_text(found), id="methods"),
        element("button", "Copy the paragraph", type="button", class_="copy", data_copies="methods"),
        _source("the table for LaTeX", "paper-table", table_latex(found)),
        _source("BibTeX", "bibtex", BIBTEX),
        id="paper",
        class_="page",
    )


def _source(name: str, key: str, text: str) -> Markup:
    button = element("button", f"Copy {name}", type="button", class_="copy", data_copies=key)
    code = element("pre", element("code", text, id=key), tabindex="0")
    return element("div", button, details(name[:1].upper() + name[1:], code), class_="row")
