"""Figures of the report: places, colours and frames are those of the numbers."""

from __future__ import annotations

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.app.report.charts import Chart, Curve, Level, chart
from bvsi.app.report.frame_images import film
from bvsi.app.report.frames_section import frames_section
from bvsi.app.report.matrix_figures import correlation_figure, pairs_figure
from bvsi.app.report.path_figure import path_figure
from bvsi.app.report.svg import Scale, padded, round_values
from bvsi.infer.posteriors import GaussianPosterior
from report.report_cases import grid_frames
from selection.selection_cases import made_path


def elements(markup: str, tag: str, kind: str = "") -> list[ElementTree.Element]:
    # void elements of HTML have no end, which XML needs
    tree = ElementTree.fromstring(re.sub(r"<(img|input)([^>]*)>", r"<\1\2/>", markup))
    return [e for e in tree.iter(tag) if not kind or kind in (e.get("class") or "").split()]


def test_scales_place_ends_and_are_monotone():
    for kind, low, high in (("linear", -3.0, 5.0), ("symlog", 0.0, 1e6), ("log", 1e-3, 20.0)):
        scale = Scale(low, high, 10.0, 110.0, kind)
        assert_allclose(scale([low, high]), [10, 110])
        assert np.all(np.diff(scale(np.linspace(low, high, 50))) > 0)
        ticks = scale.ticks()
        assert 2 <= len(ticks) <= 8
        assert all(low <= t <= high for t in ticks)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.003, 0.0041), (1e6, 1.3e6), (-7, 93), (5, 5.0000001)])
def test_ticks_are_round_and_inside(low, high):
    ticks = round_values(low, high, 5)
    assert 2 <= len(ticks) <= 11
    assert low - 1e-9 * abs(low) <= ticks[0] < ticks[-1] <= high + 1e-9 * abs(high)


def test_padding_is_never_empty():
    assert padded([2.0, 2.0]) == (1.0, 3.0)
    assert padded([0.0]) == (-0.5, 0.5)
    assert padded([np.nan]) == (0.0, 1.0)
    assert padded([0.0, 10.0], 0.0) == (0.0, 10.0)


def test_the_path_has_a_point_per_model_that_names_its_operator():
    path = made_path()
    markup = path_figure(path, ("u",))
    points = elements(markup, "circle", "model")
    assert len(points) == len(path.visited)
    assert len(elements(markup, "circle", "selected")) == 1
    assert all(p.get("tabindex") == "0" and p.get("data-told") == p.get("aria-label") for p in points)
    assert "start" in points[0].get("data-told")
    assert f"removed {path.visited[1].changed}" in points[1].get("data-told")
    # fewer operators to the right, higher scores higher up
    x, y = ([float(p.get(key)) for p in points] for key in ("cx", "cy"))
    assert x == sorted(x)
    order = np.argsort([v.score for v in path.visited])
    assert np.all(np.diff(np.array(y)[order]) < 0)
    aside = sum(name != v.changed for v in path.visited for name in v.candidates)
    assert len(elements(markup, "path", "candidate")) == aside


def test_correlations_are_cells_with_their_strength():
    posterior = GaussianPosterior(("u", "dx(u)"), np.ones(2), np.array([[4.0, -1.0], [-1.0, 1.0]]))
    markup = correlation_figure(posterior, ("u",))
    cells = [*elements(markup, "rect", "positive"), *elements(markup, "rect", "negative")]
    assert sorted(float(c.get("fill-opacity")) for c in cells) == [0.5, 0.5, 1.0, 1.0]
    assert len(elements(markup, "rect", "negative")) == 2


def test_pairs_show_at_most_eight_the_least_certain():
    names = tuple(f"u**{k}" for k in range(1, 11))
    sd = np.arange(10.0, 0.0, -1)
    posterior = GaussianPosterior(names, np.ones(10), np.diag(sd**2))
    markup = pairs_figure(posterior, ("u",), np.random.default_rng(0))
    assert len(elements(markup, "path", "ellipse")) == 2 * 28
    assert "8 least certain of 10" in markup
    assert "u⁸" in markup
    assert "u⁹" not in markup


def test_a_single_coefficient_without_variance_is_drawn():
    posterior = GaussianPosterior(("u",), np.zeros(1), np.zeros((1, 1)))
    assert "nan" not in pairs_figure(posterior, ("u",), np.random.default_rng(0))
    assert "nan" not in correlation_figure(posterior, ("u",))


def test_a_curve_goes_through_its_points_and_breaks_at_gaps():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    spec = Chart(
        x, (Curve("c", np.array([0.0, np.nan, 2.0, 4.0])),), "x", "y", "label", (Level("two", 2.0),), bottom=0, top=4
    )
    markup = chart(spec)
    (curve,) = elements(markup, "path", "curve")
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", curve.get("d"))]
    assert curve.get("d").count("M") == 2
    assert_allclose(np.reshape(numbers, (-1, 2))[:, 0], [50, 50 + 338 * 2 / 3, 388], atol=0.06)
    level = elements(markup, "line", "level")[0]
    assert_allclose(float(level.get("y1")), np.reshape(numbers, (-1, 2))[1, 1], atol=0.06)


def decoded(address: str) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGBA"))


def test_a_film_holds_the_colours_of_its_values_and_is_clear_without_one():
    from matplotlib import colormaps

    values = np.array([[[0.0, 1.0], [0.5, np.nan]], [[2.0, -1.0], [0.25, 0.75]]])
    pixels = decoded(film(values, 0.0, 1.0, "viridis"))
    assert pixels.shape == (4, 2, 4)
    assert pixels[1, 1, 3] == 0
    expected = 255 * np.array(colormaps["viridis"](np.clip(np.nan_to_num(values), 0, 1)))[..., :3]
    shown = ~np.isnan(values).reshape(4, 2)
    assert_allclose(pixels[..., :3][shown], expected.reshape(4, 2, 3)[shown], atol=3)


def test_films_have_as_many_frames_as_the_slider():
    markup = frames_section(grid_frames(nodes=20, times=7))
    sliders = elements(markup, "input")
    assert [s.get("max") for s in sliders] == ["6", "6"]
    assert [len(s.get("data-times").split("|")) for s in sliders] == [7, 7]
    images = elements(markup, "img")
    assert len(images) == 2 * 4  # u: data, fit, residual; w: data
    assert decoded(images[0].get("src")).shape[:2] == (7 * 20, 20)


def test_frames_have_the_units_of_the_data():
    markup = str(frames_section(grid_frames(nodes=20, times=7), {"u": "mg/L", "x": "mm", "y": "mm", "t": "h"}))
    assert "u (mg/L): data" in markup
    assert "u: whitened residual (sd)" in markup
    assert " mm; upwards: y from " in markup
    assert "t = 0 h" in markup


def test_frames_are_fewer_where_the_images_are_large():
    slider = elements(frames_section(grid_frames(nodes=128, times=24)), "input")[0]
    assert 2 <= int(slider.get("max")) + 1 < 24
    assert slider.get("data-times").split("|")[0] == "t = 0"
    assert slider.get("data-times").split("|")[-1] == "t = 1"
