"""Quantities that follow from the coefficients, with their credible bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bvsi.app.plot.rasters import grid_images, value_range
from bvsi.app.plot.style import FIELD_MAP
from bvsi.app.report.charts import Chart, Curve, chart
from bvsi.app.report.frame_images import colour_bar, film, picture
from bvsi.app.report.markup import Markup, download, element, table
from bvsi.app.report.summary_section import signed
from bvsi.app.report.svg import figure
from bvsi.app.units import NO_UNITS, labelled
from bvsi.common.naming import plain_name

if TYPE_CHECKING:
    import xarray as xr

    from bvsi.discovery import Discovery

Array = NDArray[np.float64]


def functions_of(found: Discovery) -> dict[str, xr.Dataset]:
    """Unknown functions that vary, with their bands, by name."""
    varying = [f for f in found.functions if not f.constant]
    return {f"{f.name}({', '.join(f.function.of)})": found.function(f.name) for f in varying}


def quantity_section(quantities: Mapping[str, xr.Dataset], units: Mapping[str, str] = NO_UNITS) -> Markup:
    """Numbers in a table, functions of one coordinate as bands, of two as maps of mean and half width.

    Parameters
    ----------
    quantities
        Quantities by name, as :func:`bvsi.predict.predict_linear` gives them: ``mean``, ``lower``, ``upper``.
    units
        Of the variables that they are functions of.
    """
    numbers = {name: q for name, q in quantities.items() if q["mean"].ndim == 0}
    drawn = [_drawn(name, q, units) for name, q in quantities.items() if q["mean"].ndim > 0]
    parts = [] if not numbers else [_numbers(numbers)]
    figures = [element("div", *drawn, class_="figures")] if drawn else []
    return element("section", element("h2", "Derived quantities"), *parts, *figures, id="quantities")


def _numbers(quantities: Mapping[str, xr.Dataset]) -> Markup:
    rows = []
    for name, q in quantities.items():
        mean, low, high = (float(q[key]) for key in ("mean", "lower", "upper"))
        rows.append([name, signed(mean), f"[{signed(low)}, {signed(high)}]"])
    return table(["quantity", "mean", "interval"], rows, caption="Numbers that follow from the coefficients")


def _drawn(name: str, q: xr.Dataset, units: Mapping[str, str]) -> Markup:
    level = f"{100 * float(q.attrs.get('level', 0.95)):g}%"
    if q["mean"].ndim == 1:
        return _band(name, q, level, units)
    if q["mean"].ndim == 2:
        return _maps(name, q, level, units)
    return element("p", f"{name} has {q['mean'].ndim} dimensions; one or two can be drawn.")


def _band(name: str, q: xr.Dataset, level: str, units: Mapping[str, str]) -> Markup:
    (axis,) = (str(d) for d in q["mean"].dims)
    mean, low, high = (np.asarray(q[key].values, dtype=float) for key in ("mean", "lower", "upper"))
    curve = Curve("mean", mean, "a", (low, high))
    words = f"{name} over {axis} with its {level} band"
    drawing = chart(Chart(_places(q, axis), (curve,), labelled(axis, units), name, words))
    return figure(drawing, f"{name}: mean and {level} band.")


def _places(q: xr.Dataset, axis: str) -> Array:
    """Coordinates of an axis; positions where it has none that are numbers."""
    if axis in q.coords and np.issubdtype(q[axis].dtype, np.number):
        return np.asarray(q[axis].values, dtype=float)
    return np.arange(q.sizes[axis], dtype=float)


def _maps(name: str, q: xr.Dataset, level: str, units: Mapping[str, str]) -> Markup:
    """Mean, and half the width of the band."""
    first, second = (str(d) for d in q["mean"].dims)
    axes = [_places(q, first), _places(q, second)]
    mean, low, high = (np.asarray(q[key].values, dtype=float)[None] for key in ("mean", "lower", "upper"))
    sides = [float(np.ptp(axis)) for axis in axes]
    proportion = sides[0] / sides[1] if min(sides) > 0 else 1.0
    panels = []
    for words, values in ((f"{name}: mean", mean), (f"{name}: half width of the {level} band", 0.5 * (high - low))):
        smallest, largest = value_range([values])
        source = film(grid_images(values, axes), smallest, largest, FIELD_MAP)
        caption = element("figcaption", words, " ", colour_bar(smallest, largest, FIELD_MAP))
        panels.append(element("figure", picture(source, 1, proportion, words, smooth=True), caption))
    ends = "; ".join(
        f"{way}: {axis} from {signed(float(v[0]))} to {signed(float(v[-1]))} {units.get(axis, '')}".rstrip()
        for way, axis, v in zip(("across", "upwards"), (first, second), axes, strict=True)
    )
    grid = [(x, y) for x in axes[0].tolist() for y in axes[1].tolist()]
    numbers = [
        [*place, *three] for place, three in zip(grid, np.stack([mean, low, high], -1).reshape(-1, 3), strict=True)
    ]
    data = download(f"{plain_name(name)}.csv", [first, second, "mean", "lower", "upper"], numbers)
    note = element("p", ends, class_="note")
    return element("div", element("div", *panels, class_="pictures"), note, data, class_="wide")
