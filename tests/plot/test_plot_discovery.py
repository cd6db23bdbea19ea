"""``found.plot``: figures with the numbers of the discovery, on the Axes given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from bvsi.app.plot import DiscoveryPlots
from bvsi.app.plot.pairs import ellipse, least_certain
from bvsi.app.plot.rasters import grid_images, point_images, residual_images, space_time, value_range
from bvsi.discovery.frames import ExperimentFrames
from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior
from discovery.discovery_cases import made
from report.report_cases import forecast, grid_frames, mesh_frames

METHODS = ("coefficients", "path", "covariance", "pairs", "frames", "forecast")


@pytest.fixture(scope="module")
def found():
    return replace(made(), frames=grid_frames(), forecast=forecast())


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


@pytest.mark.parametrize("method", METHODS)
def test_figures_are_drawn_on_the_axes_given_and_return_them(found, ax, method):
    assert getattr(DiscoveryPlots(found), method)(ax) is ax
    assert ax.lines or ax.images or ax.child_axes or ax.containers
    ax.figure.savefig("/dev/null", format="png")


@pytest.mark.parametrize("method", METHODS)
def test_figures_are_made_where_no_axes_are_given(found, method):
    made_ax = getattr(DiscoveryPlots(found), method)()
    assert made_ax.figure.number in pyplot.get_fignums()
    pyplot.close(made_ax.figure)


def test_what_a_result_lacks_is_said(found):
    bare = DiscoveryPlots(replace(found, frames=None, forecast=None))
    with pytest.raises(BvsiError, match=r"frames: .* check=True"):
        bare.frames()
    with pytest.raises(BvsiError, match="forecast: this result has none"):
        bare.forecast()


def test_wrong_choices_are_refused(found, ax):
    with pytest.raises(BvsiError, match="field: 'z' is not among the fields u, w"):
        DiscoveryPlots(found).frames(ax, field="z")
    with pytest.raises(BvsiError, match="experiment: there are 2"):
        DiscoveryPlots(found).frames(ax, experiment=2)
    with pytest.raises(BvsiError, match="frame: there are 7"):
        DiscoveryPlots(found).frames(ax, frame=7)


def test_coefficients_are_in_units_of_their_means(found, ax):
    DiscoveryPlots(found).coefficients(ax)
    line, _, (bars,) = ax.containers[0]
    assert_allclose(line.get_xdata(), np.sign(found.theta))
    first = bars.get_segments()[0][:, 0]
    assert_allclose(first, found.posterior.interval()[0] / abs(found.theta[0]))


def test_frames_show_data_fit_and_residual(found, ax):
    DiscoveryPlots(found).frames(ax, frame=3)
    panels = [panel for panel in ax.child_axes if panel.get_title()]
    assert [panel.get_title() for panel in panels] == [
        f"u: {kind}, t = 0.5" for kind in ("data", "fit", "whitened residual")
    ]
    part = found.frames.experiments[0]
    assert_allclose(panels[0].images[0].get_array(), part.data["u"][3].reshape(part.shape).T[::-1])


def test_axes_have_the_units_of_the_data(found):
    units = {"u": "mg/L", "x": "mm", "y": "mm", "t": "h"}
    plots = DiscoveryPlots(replace(found, data_units=units, units=dict.fromkeys(found.names, "mm²/h")))
    frames, forecast, coefficients = (Figure(layout="constrained").subplots() for _ in range(3))
    plots.frames(frames, frame=3)
    panel, bar = frames.child_axes[:2]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("x (mm)", "y (mm)")
    assert panel.get_title() == "u: data, t = 0.5 h"
    assert bar.get_xlabel() == "u (mg/L)"
    assert plots.forecast(forecast).get_xlabel() == "t (h)"
    plots.coefficients(coefficients)
    assert all(words.get_text().endswith(" mm²/h") for words in coefficients.texts)


def test_a_forecast_shows_error_and_what_is_expected(found, ax):
    DiscoveryPlots(found).forecast(ax)
    error, expected, _ = ax.lines
    assert_allclose(error.get_ydata(), found.forecast.error)
    assert_allclose(expected.get_ydata(), np.hypot(found.forecast.noise, found.forecast.spread))


def test_an_ellipse_is_at_distance_one():
    covariance = np.array([[4.0, -1.5], [-1.5, 1.0]])
    ring = ellipse(covariance)
    assert_allclose(np.einsum("ni,ij,nj->n", ring, np.linalg.inv(covariance), ring), 1.0)


def test_the_least_certain_are_chosen_in_their_order():
    posterior = GaussianPosterior(("a", "b", "c"), np.array([1.0, 10.0, 0.0]), np.diag([4.0, 1.0, 1e-8]))
    assert least_certain(posterior, 2) == [0, 2]


def test_images_have_x_across_and_y_upwards():
    x, y = np.arange(4.0), np.arange(3.0)
    values = (x[:, None] + 10 * y)[None]
    image = grid_images(values, [x, y])[0]
    assert image.shape == (3, 4)
    assert_allclose(image[-1], x)
    assert_allclose(image[:, 0], [20, 10, 0])


def test_images_of_uneven_axes_have_even_pixels():
    x = np.array([0.0, 0.1, 0.2, 1.0])
    image = grid_images(np.broadcast_to(x[:, None], (1, 4, 2)), [x, np.arange(2.0)])[0]
    assert_allclose(image[0], [0.0, 0.2, 1.0, 1.0])


def test_images_on_triangles_are_linear_and_empty_outside():
    part = mesh_frames().experiments[0]
    linear = (2 * part.points[:, 0] - part.points[:, 1])[None]
    image = point_images(linear, part.points, part.cells)[0]
    low, high = part.points.min(axis=0), part.points.max(axis=0)
    rows, columns = image.shape
    X, Y = np.meshgrid(np.linspace(low[0], high[0], columns), np.linspace(high[1], low[1], rows))
    inside = np.isfinite(image)
    assert 0.5 < inside.mean() < 0.85
    assert not inside[rows // 5, -columns // 5]  # the corner that the region lacks
    assert_allclose(image[inside], (2 * X - Y)[inside], atol=1e-12)


def test_residuals_on_an_inner_grid_are_images_whatever_their_order():
    part = grid_frames(nodes=6).experiments[0]
    order = np.random.default_rng(0).permutation(len(part.residual_points["u"]))
    shuffled = replace(
        part,
        residual_points={"u": part.residual_points["u"][order]},
        residual={"u": part.residual["u"][:, order]},
    )
    blocks = np.array([0, 3])
    images = residual_images(part, "u", blocks)
    assert images.shape == (2, 4, 4)
    assert_allclose(residual_images(shuffled, "u", blocks), images)
    assert_allclose(images[1], part.residual["u"][3].reshape(4, 4).T[::-1])


def test_too_few_residuals_give_no_image():
    part = grid_frames().experiments[0]
    line = replace(part, residual_points={"u": np.array([[0.0, 0.0], [1.0, 0.0]])}, residual={"u": np.ones((6, 2))})
    assert residual_images(line, "u", np.array([0])) is None


def test_three_dimensions_show_the_middle():
    values = np.arange(2 * 3 * 5.0).reshape(1, 2, 3, 5)
    assert_allclose(grid_images(values)[0], values[0, :, :, 2].T[::-1])
    axes = np.meshgrid(np.arange(3.0), np.arange(3.0), np.arange(3.0), indexing="ij")
    points = np.stack([a.ravel() for a in axes], axis=1)
    assert set(np.unique(point_images(points[None, :, 2], points))) == {1.0}


def test_space_time_sorts_the_nodes():
    values, places = space_time(np.array([[3.0, 1.0, 2.0]]), np.array([[0.3], [0.1], [0.2]]))
    assert_allclose(values, [[1, 2, 3]])
    assert_allclose(places, [0.1, 0.2, 0.3])


def test_ranges_leave_out_what_is_missing():
    assert value_range([np.array([1.0, np.nan]), np.array([3.0])]) == (1.0, 3.0)
    assert value_range([np.array([2.0])]) == (1.5, 2.5)
    assert value_range({"a": np.array([np.nan])}) == (0.0, 1.0)


def test_one_dimensional_frames_are_space_time_images(ax, found):
    t, x = np.linspace(0, 1, 4), np.linspace(0, 2, 5)
    u = t[:, None] + x
    part = ExperimentFrames(t, x[:, None], {"x": x}, None, {"u": u}, {"u": u}, t[1:], {"u": x[:, None]}, {"u": u[1:]})
    DiscoveryPlots(replace(found, frames=replace(found.frames, experiments=(part,)))).frames(ax)
    panels = [panel for panel in ax.child_axes if panel.get_title()]
    assert len(panels) == 3
    assert_allclose(panels[0].images[0].get_array(), u[::-1])
    assert panels[0].images[0].get_extent() == [0.0, 2.0, 0.0, 1.0]
