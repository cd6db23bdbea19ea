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
from bvsi.app.report.changes_section import changes_section
from bvsi.app.report.check_sections import check_section, forecast_section
from bvsi.app.report.frames_section import frames_section
from bvsi.app.report.markup import Markup, element, joined, table
from bvsi.app.report.matrix_figures import correlation_figure, pairs_figure
from bvsi.app.report.paper_section import paper_section
from bvsi.app.report.path_figure import path_figure
from bvsi.app.report.quantity_section import functions_of, quantity_section
from bvsi.app.report.refined_section import refined_section
from bvsi.app.report.settings_section import settings_section
from bvsi.app.report.summary_section import coefficient_section, equation_section, verdict_section
from bvsi.discovery import Discovery
from bvsi.discovery.result import INFLUENCE
from bvsi.infer.posteriors import GaussianPosterior

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
    ("changes", "Changes"),
    ("refined", "Forward solves"),
    ("coefficients", "Coefficients"),
    ("selection", "Selection"),
    ("posterior", "Posterior"),
    ("quantities", "Quantities"),
    ("frames", "Frames"),
    ("check", "Check"),
    ("forecast", "Forecast"),
    ("settings", "Settings"),
    ("paper", "For the paper"),
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
    before: Mapping[str, Any] | None = None,
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
    before
        Summary of the result that this one replaces.
    """
    sections: dict[str, Markup] = {"equation": equation_section(found), "verdict": verdict_section(found, notes)}
    if before:
        sections["changes"] = changes_section(found, before)
    sections["coefficients"] = coefficient_section(found)
    sections["selection"] = _selection(found)
    sections["posterior"] = _posterior(found)
    quantities = functions_of(found) | dict(quantities)
    if quantities:
        sections["quantities"] = quantity_section(quantities, found.data_units)
    if found.frames is not None and found.frames.experiments:
        sections["frames"] = frames_section(found.frames, found.data_units)
    if found.check is not None:
        sections["check"] = check_section(found.check)
    if found.forecast is not None:
        sections["forecast"] = forecast_section(found.forecast, found.data_units)
    if found.refined is not None:
        weak = {name: (v, sd) for name, v, sd in zip(found.names, found.theta, found.sd, strict=True)}
        made = refined_section(found.refined, weak)
        few = found.refined.few_frames or found.refined.few_sensors  # the weak form cannot decide then
        sections = {"refined": made, **sections} if few else {**sections, "refined": made}
    sections["settings"] = settings_section(found, settings, timing, study_text)
    sections["paper"] = paper_section(found)
    return _page(title, sections)


def _selection(found: Discovery) -> Markup:
    doubts = element("p", found.path.doubts) if found.path.doubts else ""
    drawn = path_figure(found.path, found.fields)
    return element("section", element("h2", "Selection"), doubts, drawn, _structures(found), id="selection")


def _structures(found: Discovery) -> Markup:
    """Probabilities of equations in residual space; nothing for one alone."""
    chances = found.structure_chances()
    if len(chances) < 2:
        return Markup("")
    rows = [[" + ".join(own) or "nothing changes", *(f"{p:.3f}" for p in ps)] for own, ps in chances.items()]
    head = ["structure", "P", *(f"P, prior × {factor:g}" for factor in INFLUENCE)]
    words = "Equations that were compared, with narrower and wider priors of the coefficients beside"
    return table(head, rows, caption=words)


def _posterior(found: Discovery) -> Markup:
    """Pairs and correlations side by side; nothing to pair with a single coefficient."""
    law, own = found.posterior, list(found.shown)
    if len(own) < len(found.names):  # functions are drawn as such
        names = tuple(found.names[i] for i in own)
        law = GaussianPosterior(names, found.theta[own], found.posterior.covariance[np.ix_(own, own)])
    drawn = [correlation_figure(law, found.fields)] if own else []
    # the same draws every time, so that a report can be compared with another
    drawn[:0] = [pairs_figure(law, found.fields, np.random.default_rng(0))] if own else []
    if not own and found.functions:
        drawn = [element("p", "The posterior is that of functions: their bands are among the derived quantities.")]
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
