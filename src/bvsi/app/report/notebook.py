"""A discovery in a notebook: equation, verdict, table; no scripts, and no styles that reach beyond it."""

from __future__ import annotations

from bvsi.app.report.equation import equation_mathml, operator_mathml
from bvsi.app.report.markup import element
from bvsi.app.report.summary_section import coefficient_rows, judgement
from bvsi.discovery import Discovery

_COLOURS = {"good": "#009e73", "doubt": "#b07800", "bad": "#d55e00", "unknown": "#7f7f7f"}


def notebook_html(found: Discovery) -> str:
    """For ``_repr_html_``."""
    told = judgement(found)
    head = element("tr", *(element("th", name) for name in ("operator", "coefficient", "95% interval", "P(in)")))
    rows = [
        element(
            "tr",
            element("td", operator_mathml(row.name, found.fields)),
            element("td", row.number),
            element("td", f"[{row.interval[0]}, {row.interval[1]}]"),
            element("td", f"{row.inclusion:.3f}"),
        )
        for row in coefficient_rows(found)
    ]
    verdict = element("strong", f"{told.sign} {told.words}", style=f"color: {_COLOURS[told.style]}")
    return element(
        "div",
        element("div", equation_mathml(found), style="font-size: 1.25em; line-height: 2"),
        element("p", verdict, f". {told.advice} χ²/n = {found.chi2:.3g}."),
        element("table", element("thead", head), element("tbody", *rows)),
        class_="bvsi-discovery",
    )
