"""Figures: drawn on the Axes given, with the numbers given, without pyplot."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from bvsi.app import plot
from bvsi.infer import Lagged, LeastSquares, Profile
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from inference.cases import reaction_system
from selection.selection_cases import made_path

X, Y = np.linspace(-1, 1, 7), np.linspace(0, 2, 5)
VALUES = X[:, None] ** 2 + Y[None]
TRUTH = {"laplacian(u)": 0.1, "u": -0.8, "not fitted": 2.0}


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


@pytest.fixture(scope="module")
def fits():
    system = reaction_system(n=9, steps=8)
    likelihood = residual_likelihood(system, IID(1e-3))
    return {"vsi": LeastSquares().fit(system), "lagged": Lagged().fit(likelihood), "profile": Profile().fit(likelihood)}


def drawn(ax) -> None:
    """Everything can be rendered."""
    ax.figure.savefig("/dev/null", format="png")


def test_a_selection_path_has_a_point_per_model_and_candidate(ax):
    plot.selection_path(ax, made_path())
    *candidates, models, best = ax.lines
    assert [len(line.get_xdata()) for line in candidates] == [2, 1]
    assert_allclose(candidates[0].get_xdata(), 2)
    assert_allclose(sorted(candidates[0].get_ydata()), [26, 86])
    assert_allclose(models.get_xdata(), [3, 2, 1])
    assert_allclose(models.get_ydata(), [6, 0, 3])
    assert_allclose([*best.get_xdata(), *best.get_ydata()], [2, 0])
    assert ax.xaxis_inverted()
    assert "test criterion" in ax.get_ylabel()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["best at this size", "selected: 2"]
    drawn(ax)


def test_errors_of_coefficients_are_in_percent_of_the_truth(ax, fits):
    pair = {"lagged": fits["lagged"], "profile": fits["profile"]}
    plot.coefficient_errors(ax, pair, TRUTH)
    assert len(ax.containers) == 2
    for container, fit in zip(ax.containers, pair.values(), strict=True):
        line, _, (bars,) = container
        error = [100 * (fit.theta[0] - 0.1) / 0.1, 100 * (fit.theta[1] + 0.8) / 0.8, -100]
        assert_allclose(line.get_xdata(), error, rtol=1e-9)
        half = [np.diff(s[:, 0])[0] / 2 for s in bars.get_segments()]
        expected = [*(100 * 1.959964 * np.sqrt(fit.posterior.variance) / [0.1, 0.8]), 0]
        assert_allclose(half, expected, rtol=1e-5, atol=1e-9)
    assert [t.get_text() for t in ax.get_yticklabels()] == list(TRUTH)
    drawn(ax)


def test_no_fit_is_left_out(ax, fits):
    plot.coefficient_errors(ax, fits, TRUTH)
    assert len(ax.containers) == 3
    assert len(ax.get_legend().get_texts()) == 3


def test_a_fit_without_error_bars_has_points_only(ax, fits):
    plot.coefficient_errors(ax, {"vsi": fits["vsi"]}, TRUTH)
    (container,) = ax.containers
    assert len(container[0].get_xdata()) == 3
    assert all(np.ptp(s[:, 0]) == 0 for s in container[2][0].get_segments())


def test_a_covariance_matrix_shows_correlations(ax):
    covariance = np.array([[4.0, -1.0], [-1.0, 1.0]])
    plot.covariance_matrix(ax, GaussianPosterior(("first", "second"), np.zeros(2), covariance))
    (image,) = ax.images
    assert_allclose(image.get_array(), [[1, -0.5], [-0.5, 1]])
    assert image.get_clim() == (-1, 1)
    assert [t.get_text() for t in ax.texts] == ["1.00", "−0.50", "−0.50", "1.00"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["first", "second"]
    drawn(ax)


def test_a_map_has_the_values_at_their_places(ax):
    image = plot.scalar_map(ax, X, Y, VALUES, title="name")
    assert isinstance(image, QuadMesh)
    assert_allclose(np.asarray(image.get_array()).reshape(5, 7), VALUES.T)
    assert_allclose(image.get_coordinates()[..., 0][0], X)
    assert_allclose(image.get_coordinates()[..., 1][:, 0], Y)
    assert ax.get_title() == "name"
    assert len(ax.figure.axes) == 2  # with the colour bar
    drawn(ax)


def test_a_map_without_a_colour_bar(ax):
    plot.scalar_map(ax, X, Y, VALUES, colorbar=False)
    assert len(ax.figure.axes) == 1


def test_contours_of_values_and_truth_share_their_levels(ax):
    plot.contour_map(ax, X, Y, VALUES, VALUES + 0.1)
    filled, lines = ax.collections
    assert_allclose(filled.levels, lines.levels)
    assert filled.levels[0] <= VALUES.min()
    assert filled.levels[-1] >= VALUES.max()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["truth"]
    drawn(ax)


def test_contours_without_a_truth(ax):
    plot.contour_map(ax, X, Y, VALUES)
    assert len(ax.collections) == 1
    assert ax.get_legend() is None


def test_a_truth_outside_the_levels_is_no_cause_for_warnings(ax):
    plot.contour_map(ax, X, Y, VALUES, VALUES + 1000)
    drawn(ax)


def rows() -> list[dict]:
    return [
        {"sigma": s, "nx": nx, "error": {"vsi": 10 * s * f, "lagged": 5 * s * f, "profile": s * f}}
        for s in (1e-3, 1e-2)
        for nx in (25, 50, 100)
        for f in (1.0, 2.0, 6.0)
    ]


def test_an_ablation_has_a_point_per_level_size_and_method(ax):
    plot.ablation(ax, rows())
    assert len(ax.containers) == 2 * 3
    for container in ax.containers:
        assert len(container[0].get_xdata()) == 3
    first = ax.containers[0]
    assert_allclose(np.array(first[0].get_ydata(), dtype=float), 10 * 1e-3 * 2)  # the median
    assert_allclose(np.array(first[0].get_xdata(), dtype=float), [-0.3, 0, 0.3])
    low, high = first[2][0].get_segments()[0][:, 1]
    assert_allclose([low, high], [1e-2, 6e-2])
    assert ax.get_yscale() == "log"
    assert [t.get_text() for t in ax.get_xticklabels()] == ["-3", "-2"]
    assert "100, 50, 25" in ax.get_xlabel()
    assert {t.get_text() for t in ax.get_legend().get_texts()} == {"vsi", "lagged", "profile"}
    drawn(ax)


def test_an_ablation_with_cases_missing(ax):
    kept = [row for row in rows() if not (row["nx"] == 100 and row["sigma"] == 1e-2)]
    plot.ablation(ax, kept)
    assert sorted(len(c[0].get_xdata()) for c in ax.containers) == [2, 2, 2, 3, 3, 3]
    drawn(ax)


def test_an_ablation_of_one_size(ax):
    plot.ablation(ax, [row for row in rows() if row["nx"] == 50])
    drawn(ax)


def test_figures_do_not_touch_each_other():
    one, two = Figure().subplots(), Figure().subplots()
    plot.scalar_map(one, X, Y, VALUES)
    assert not two.has_data()
    assert len(two.figure.axes) == 1


def test_pyplot_is_never_loaded():
    script = (
        "import sys\n"
        "import numpy as np\n"
        "from bvsi.app import plot\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "from matplotlib.figure import Figure\n"
        "ax = Figure().subplots()\n"
        "plot.contour_map(ax, np.arange(3.), np.arange(4.), np.random.default_rng(0).random((3, 4)))\n"
        "plot.scalar_map(ax, np.arange(3.), np.arange(4.), np.ones((3, 4)))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
