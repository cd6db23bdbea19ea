"""Whether the answer holds: other discretisations, tests of residuals and noise, and a forecast of held-out frames."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bvsi.app.report.charts import Chart, Curve, Level, chart
from bvsi.app.report.markup import Markup, element, table
from bvsi.app.report.svg import figure, short_number
from bvsi.app.units import NO_UNITS, labelled
from bvsi.check import Check
from bvsi.discovery.refining import Refined
from bvsi.predict.forecast import Forecast

_SHOWN = 0.01  # probability of operators and structures in tables


def comparison_rows(check: Check) -> list[tuple[str, str, str, str]]:
    """Name, largest move in standard deviations, p-value and weight of the bias of every other discretisation."""
    return [(c.name, f"{np.abs(c.z).max():.2g}", f"{c.p:.2g}", f"{c.weight:.2g}") for c in check.comparisons]


def test_rows(check: Check) -> list[tuple[str, str, str, str]]:
    """Name, statistic, z and p-value of every test."""
    return [
        (t.name, short_number(t.statistic), short_number(t.z), "not tested" if np.isnan(t.p) else f"{t.p:.2g}")
        for t in check.tests
    ]


def check_section(check: Check) -> Markup:
    """Comparisons and tests as tables."""
    words = (
        "The same operators were fitted again with fewer data and other test functions. Where the coefficients move by "
        "more than noise explains, the data do not resolve the equation."
    )
    moved = table(
        ["variation", "largest move (sd)", "p", "bias (sd)"],
        comparison_rows(check),
        caption="Fits with other discretisations",
    )
    tested = table(["test", "statistic", "z", "p"], test_rows(check), caption="Tests of residuals and noise")
    none = element("p", "No other discretisation could be fitted to these data.", class_="note")
    return element(
        "section",
        element("h2", "Discretisation check"),
        element("p", words),
        moved if check.comparisons else none,
        *(element("p", f"{one}", class_="note") for one in check.failed),
        tested if check.tests else "",
        id="check",
    )


def forecast_section(forecast: Forecast, units: Mapping[str, str] = NO_UNITS) -> Markup:
    """Growth of the error, and the share of values within the band, over time with its unit."""
    times, held = forecast.times, forecast.held_out
    shaded = (float(times[held].min()), float(times[held].max())) if held.any() else None
    name = "held out" if shaded is not None else ""
    curves = (
        Curve("error", forecast.error, "a"),
        Curve("expected", forecast.expected_error, "b"),
        Curve("spread", forecast.spread, "c"),
    )
    wide = _wide(np.concatenate([forecast.error, forecast.expected_error]))
    growth = Chart(
        times,
        curves,
        labelled("t", units),
        "relative to the RMS of the data",
        "Error of the forecast over time",
        levels=(Level("noise", float(forecast.noise)),) if np.isfinite(forecast.noise) else (),
        shaded=shaded,
        shaded_name=name,
        logarithmic=wide,
        bottom=None if wide else 0.0,
    )
    covered = Chart(
        times,
        (Curve("coverage", forecast.coverage, "a"),),
        labelled("t", units),
        "share of values within the band",
        "Coverage of the 95% band over time",
        levels=(Level("95%", 0.95),),
        shaded=shaded,
        shaded_name=name,
        bottom=0.0,
        top=1.05,
    )
    words = (
        f"The equation was simulated from the first frame with {forecast.draws} draws of the posterior and compared "
        f"with the data. {forecast.status}"
    )
    failed = f" {forecast.failed} of the draws could not be simulated." if forecast.failed else ""
    figures = element(
        "div",
        figure(
            chart(growth),
            "Error of the mean forecast; the error expected from noise and the spread of the draws; that spread alone.",
        ),
        figure(
            chart(covered),
            "Share of measured values within the 95% band; about 95% where equation and noise are right.",
        ),
        class_="figures",
    )
    return element("section", element("h2", "Forecast"), element("p", words + failed), figures, id="forecast")


def _wide(values: np.ndarray) -> bool:
    """Whether positive values span so much that only a logarithmic axis shows them."""
    positive = values[np.isfinite(values) & (values > 0)]
    return bool(positive.size) and float(positive.max()) > 100 * float(positive.min())


def refined_section(refined: Refined, weak: Mapping[str, float]) -> Markup:
    """Coefficients by forward solves beside those of the weak form, and the probabilities of structures.

    Parameters
    ----------
    weak
        Coefficients of the weak form, by operator.
    """
    inclusion = refined.inclusion()
    shown = [name for name in refined.candidates if inclusion[name] > _SHOWN or name in weak]
    rows = []
    for name in shown:
        own = [short_number(value) for value in refined.moments(name)] if inclusion[name] > 0 else ["–"] * 3
        rows.append([name, short_number(weak[name]) if name in weak else "–", *own, f"{inclusion[name]:.3f}"])
    chances = zip(refined.models, refined.probabilities(), strict=True)
    structures = [[" + ".join(m.names), f"{p:.3f}", f"{m.chi2:.2f}"] for m, p in chances if p > _SHOWN]
    few = "The frames are too few for the weak form below: trust this section. " if refined.few_frames else ""
    words = (
        f"{few}The equation and {len(refined.models) - 1} others were solved from an initial state that is inferred "
        "with the coefficients, and compared with the values as they were measured."
    )
    headings = ["operator", "weak form", "forward solves", "sd (statistics)", "sd (structure)", "P(in)"]
    return element(
        "section",
        element("h2", "Forward solves"),
        element("p", words),
        element("p", element("code", refined.equation)),
        *(element("p", doubt, class_="note") for doubt in refined.doubts),
        table(headings, rows, caption="Coefficients, over the structures that have them"),
        table(["structure", "probability", "χ² per degree of freedom"], structures, caption="Structures"),
        id="refined",
    )
