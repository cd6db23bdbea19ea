"""The report: one HTML file with everything in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi._version import __version__
from bvsi.app.report.check_sections import check_section, forecast_section, refined_section
from bvsi.app.report.frames_section import frames_section
from bvsi.app.report.markup import Markup, element, joined
from bvsi.app.report.matrix_figures import correlation_figure, pairs_figure
from bvsi.app.report.path_figure import path_figure
from bvsi.app.report.quantity_section import quantity_section
from bvsi.app.report.settings_section import settings_section
from bvsi.app.report.summary_section import coefficient_section, equation_section, verdict_section
from bvsi.discovery import Discovery

if TYPE_CHECKING:
    import xarray as xr

NOTHING: Mapping[str, Any] = MappingProxyType({})

# Nothing is fetched, sent or run but our own script, whatever a study holds. Styles stand in attributes, too.
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{script}'; base-uri 'none'; "
    "form-action 'none'"
)
_SECTIONS = (
    ("equation", "Equation"),
    ("verdict", "Verdict"),
    ("coefficients", "Coefficients"),
    ("selection", "Selection"),
    ("posterior", "Posterior"),
    ("quantities", "Quantities"),
    ("frames", "Frames"),
    ("check", "Check"),
    ("forecast", "Forecast"),
    ("refined", "Forward solves"),
    ("settings", "Settings"),
)


def html_report(
    found: Discovery,
    *,
    title: str,
    settings: Mapping[str, Any] | None = None,
    quantities: Mapping[str, xr.Dataset] = NOTHING,
    timing: Mapping[str, float] = NOTHING,
    study_text: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A self-contained page: equation, verdict, coefficients, selection, posterior, frames, check, forecast, settings.

    Parameters
    ----------
    found
        What was discovered; frames and forecast are shown where it has them.
    settings
        Settings of the study, resolved.
    quantities
        Predictions by name (``mean``, ``lower``, ``upper``).
    timing
        Seconds by stage.
    study_text
        The study file, as it was.
    notes
        Sentences that stand with the verdict.
    """
    sections: dict[str, Markup] = {
        "equation": equation_section(found),
        "verdict": verdict_section(found, notes),
        "coefficients": coefficient_section(found),
        "selection": _selection(found),
        "posterior": _posterior(found),
    }
    if quantities:
        sections["quantities"] = quantity_section(quantities)
    if found.frames is not None and found.frames.experiments:
        sections["frames"] = frames_section(found.frames)
    if found.check is not None:
        sections["check"] = check_section(found.check)
    if found.forecast is not None:
        sections["forecast"] = forecast_section(found.forecast)
    if found.refined is not None:
        made = refined_section(found.refined, dict(zip(found.names, found.theta, strict=True)))
        few = found.refined.few_frames  # the weak form cannot tell then
        sections = {"refined": made, **sections} if few else {**sections, "refined": made}
    sections["settings"] = settings_section(found, settings, timing, study_text)
    return _page(title, sections)


def _selection(found: Discovery) -> Markup:
    doubts = element("p", found.path.doubts) if found.path.doubts else ""
    return element("section", element("h2", "Selection"), doubts, path_figure(found.path, found.fields), id="selection")


def _posterior(found: Discovery) -> Markup:
    """Pairs and correlations side by side; nothing to pair with a single coefficient."""
    drawn = [correlation_figure(found.posterior, found.fields)]
    # the same draws every time, so that a report can be compared with another
    drawn.insert(0, pairs_figure(found.posterior, found.fields, np.random.default_rng(0)))
    return element("section", element("h2", "Posterior"), element("div", *drawn, class_="figures"), id="posterior")


def _page(title: str, sections: Mapping[str, Markup]) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY.format(script=_digest("report.js"))),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(_asset("report.css"))),
    )
    names = dict(_SECTIONS)
    links = [element("a", names[key], href=f"#{key}") for key in sections]
    body = element(
        "body",
        element("a", "Skip to the equation", href="#equation", class_="skip"),
        element("header", element("h1", title), element("nav", joined(links, " "), aria_label="Sections")),
        element("main", joined(sections.values(), "\n")),
        element("footer", f"Made with bvsi {__version__}. This file needs no network."),
        element("script", Markup(_asset("report.js"))),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _digest(name: str) -> str:
    """SHA-256 of a script as policies write it."""
    return base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return resources.files("bvsi.app.report").joinpath("assets", name).read_text(encoding="utf-8")
