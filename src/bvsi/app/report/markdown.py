"""The report as Markdown: the same content without pictures, for repositories and electronic notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi._version import __version__
from bvsi.app.report.changes_section import changes
from bvsi.app.report.check_sections import comparison_rows, test_rows
from bvsi.app.report.equation import equation_latex
from bvsi.app.report.markup import printable
from bvsi.app.report.page import NOTHING
from bvsi.app.report.paper_section import BIBTEX, methods_text
from bvsi.app.report.path_figure import change_text, sentence
from bvsi.app.report.quantity_section import functions_of
from bvsi.app.report.settings_section import flat_settings, timing_texts, versions
from bvsi.app.report.summary_section import coefficient_rows, judgement, signed, verdict_lines
from bvsi.app.report.svg import short_number
from bvsi.discovery import Discovery
from bvsi.predict.push import Forecast

if TYPE_CHECKING:
    import xarray as xr

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def markdown_report(
    found: Discovery,
    *,
    title: str,
    settings: Mapping[str, Any] | None = None,
    quantities: Mapping[str, xr.Dataset] = NOTHING,
    timing: Mapping[str, float] = NOTHING,
    study_text: str = "",
    notes: Sequence[str] = (),
    before: Mapping[str, Any] | None = None,
) -> str:
    """Equation, verdict, tables; arguments as of :func:`bvsi.app.report.html_report`."""
    parts = [f"# {_text(title)}", _equation(found), _verdict(found, notes), _coefficients(found), _path(found)]
    quantities = functions_of(found) | dict(quantities)
    told = changes(found, before) if before else []
    parts += [_section("Since the last run", "\n".join(f"- {_text(line)}" for line in told))] if told else []
    parts += [_quantities(quantities)] if quantities else []
    parts += [_check(found)] if found.check is not None else []
    parts += [_forecast(found.forecast)] if found.forecast is not None else []
    parts += [_section("Settings", _table(("name", "value"), found.settings.items()))]
    parts += (
        [_section("Settings of the study", _table(("name", "value"), flat_settings(settings).items()))]
        if settings
        else []
    )
    parts += [_section("Study file", _fenced(study_text, "toml"))] if study_text else []
    parts += [_section("Timing", _table(("stage", "time"), timing_texts(found, timing).items()))]
    parts += [_section("For the paper", _text(methods_text(found)) + "\n\n" + _fenced(BIBTEX, "bibtex"))]
    parts += [_section("Versions", _table(("package", "version"), versions().items()))]
    return printable("\n\n".join(parts) + f"\n\nMade with bvsi {__version__}.\n")


def _text(words: object) -> str:
    """Words in one line, with what Markdown or HTML would take for markup escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(words).split())).replace("&", "&amp;")


def _code(words: str) -> str:
    """Words as code in a table; back ticks and bars would end it."""
    return "`" + " ".join(words.split()).replace("`", "'").replace("|", "\\|") + "`"


def _fenced(words: str, kind: str = "") -> str:
    """A block that no line of the text can end."""
    longest = max((len(run) for run in re.findall(r"`+", words)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{words.rstrip()}\n{fence}"


def _section(name: str, *parts: str) -> str:
    return "\n\n".join([f"## {name}", *parts])


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Cells are texts, escaped, except code in back ticks."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [c if isinstance(c, _Ready) else _text(c) for c in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


class _Ready(str):
    """A cell that is Markdown already."""

    __slots__ = ()


def _equation(found: Discovery) -> str:
    source = "\n".join(equation_latex(found).splitlines()[1:])
    return _section("Equation", f"$$\n{source.replace('align*', 'aligned')}\n$$", _fenced(found.equation))


def _verdict(found: Discovery, notes: Sequence[str]) -> str:
    told = judgement(found)
    listed = "\n".join(f"- {_text(line)}" for line in verdict_lines(found, notes))
    return _section("Verdict", f"**{told.sign} {_text(told.words)}.** {_text(told.advice)}", listed)


def _coefficients(found: Discovery) -> str:
    rows = [
        (_Ready(_code(row.name)), row.number, f"{row.interval[0]} to {row.interval[1]}", f"{row.inclusion:.3f}")
        for row in coefficient_rows(found)
    ]
    others = [name for name in found.candidates if name not in (*found.names, *found.function_operators)]
    left_out = f"Considered and left out: {', '.join(_code(name) for name in others)}." if others else ""
    table = _table(("operator", "coefficient", "95% interval", "P(in)"), rows)
    return _section("Coefficients", table, *([left_out] if left_out else []))


def _path(found: Discovery) -> str:
    path = found.path
    rows = [
        (
            len(v.names),
            change_text(path, k, found.fields),
            f"{v.score:.2f}",
            f"{v.chi2:.3g}",
            "←" if v is path.best else "",
        )
        for k, v in enumerate(path.visited)
    ]
    table = _table(("operators", "change", _text(path.criterion), "χ²/n", "selected"), rows)
    return _section("Selection", table, _text(sentence(path.stopped)), *([_text(path.doubts)] if path.doubts else []))


def _quantities(quantities: Mapping[str, xr.Dataset]) -> str:
    """Numbers with their interval; of functions the range of the mean and the widest band."""
    rows = []
    for name, q in quantities.items():
        mean, low, high = (np.asarray(q[key].values, dtype=float) for key in ("mean", "lower", "upper"))
        if mean.ndim == 0:
            rows.append((name, signed(float(mean)), f"{signed(float(low))} to {signed(float(high))}"))
        else:
            width = short_number(float(np.max(high - low)))
            rows.append((name, f"{signed(float(mean.min()))} to {signed(float(mean.max()))}", f"at most {width} wide"))
    return _section("Derived quantities", _table(("quantity", "mean", "band"), rows))


def _check(found: Discovery) -> str:
    assert found.check is not None
    return _section(
        "Discretisation check",
        _table(("variation", "largest move (sd)", "p", "bias (sd)"), comparison_rows(found.check)),
        _table(("test", "statistic", "z", "p"), test_rows(found.check)),
    )


def _forecast(forecast: Forecast) -> str:
    rows = [
        (short_number(t), f"{e:.3g}", f"{s:.3g}", f"{c:.3g}", "yes" if held else "no")
        for t, e, s, c, held in zip(
            forecast.times, forecast.error, forecast.spread, forecast.coverage, forecast.held_out, strict=True
        )
    ]
    step = max(1, len(rows) // 12)
    words = f"{forecast.draws} draws, {forecast.failed} of them failed; noise {short_number(float(forecast.noise))}."
    table = _table(("t", "relative error", "spread", "coverage", "held out"), rows[::step])
    return _section("Forecast", _text(f"{forecast.status} {words}"), table)
