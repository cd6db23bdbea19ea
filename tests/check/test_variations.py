"""Coarser data keep test functions, other test functions keep the data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.check import variations
from bvsi.data import Data, Grid, Mesh
from bvsi.discovery import default_discretisation
from bvsi.likelihood import Block
from bvsi.noise import Diagonal
from bvsi.operators import Library
from bvsi.residual import CrankNicolson, TemporalTests
from bvsi.setup import Setup
from bvsi.spaces import Q1, Q2, Galerkin, SplineTests
from bvsi.spaces.galerkin import fills_q2
from check.diagnose_cases import wave


def setup_of(experiments, tests, stencil) -> Setup:
    """With noise that is another one at every time and node."""
    noise = tuple(
        Diagonal({"u": 1 + np.arange(data.fields["u"].size).reshape(data.fields["u"].shape)}) for data in experiments
    )
    library = Library({"u": ["u"]})
    return Setup(tuple(experiments), noise, ({},) * len(noise), library, tests, stencil, Block())


def by_name(*arguments):
    return {v.name: v.setup for v in variations(setup_of(*arguments))}


def square(nx: int, ny: int, times: int = 20, mesh: bool = False) -> Data:
    grid = Grid(x=np.linspace(0, 1, nx), y=np.linspace(0, 1, ny))
    values = np.random.default_rng(0).standard_normal((times, nx, ny))
    return Data.from_arrays({"u": values}, times=np.arange(times) * 0.1, geometry=grid)


def test_coarser_data_have_the_same_test_functions_in_physical_units():
    data, tests, stencil = wave(nodes=64, times=121), SplineTests({"x": 4.0}, 6), TemporalTests(5, 4.0)
    found = by_name([data], tests, stencil)
    in_time, in_space = found["every second frame"], found["every second node"]
    assert stencil.splines(data.times) == in_time.stencil.splines(in_time.data[0].times)
    fine = tests.build(data.geometry, 0)
    coarse = in_space.tests.build(in_space.data[0].geometry, 0)
    assert_allclose(coarse.test_points, fine.test_points)
    assert in_space.tests.gap == {"x": 2.0}


@pytest.mark.parametrize("gap", [2.0, 3.0, 5.0, 7.3])
def test_quadrature_of_derivatives_is_exact_for_the_functions_of_every_refit(gap):
    # Σ_j φ'(x_j) is zero; with knots 1.5 steps apart it would be 1e-4 of Σ_j |φ'(x_j)|
    found = by_name([wave(nodes=96, times=121)], SplineTests({"x": gap}, 6), TemporalTests(5, gap))
    assert {"every second frame", "every second node", "wider tests"} <= set(found)
    for setup in found.values():
        a, _ = setup.stencil.matrices(setup.data[0].times)
        assert np.abs(a.sum(axis=1)).max() < 1e-6 * abs(a).sum(axis=1).max()
        space = setup.tests.build(setup.data[0].geometry, 0)
        slopes = space.nodal_tests((1,)).factors[0]
        assert np.abs(slopes.sum(axis=1)).max() < 1e-6 * np.abs(slopes).sum(axis=1).max()


def test_data_noise_and_variance_are_thinned_alike():
    data = square(12, 13)
    used = setup_of([data], SplineTests(1.0, 4), TemporalTests(5, 1.0)).with_(variance=({"u": data.fields["u"]},))
    cube = np.arange(data.n_nodes).reshape(12, 13)
    for frames, cut in (
        (slice(None, None, 2), {}),
        (slice(0, 7), {"x": slice(None, None, 2)}),
        (slice(None), {"y": slice(1, 9, 3)}),
    ):
        thin = used.at(frames, cut)
        nodes = cube[cut.get("x", slice(None)), cut.get("y", slice(None))].ravel()
        (one,) = thin.data
        assert_array_equal(one.fields["u"], data.fields["u"][frames][:, nodes])
        assert_array_equal(one.geometry.points, data.geometry.points[nodes])
        assert_array_equal(one.times, data.times[frames])
        assert_array_equal(thin.noise[0].sigma["u"], used.noise[0].sigma["u"][frames][:, nodes])
        assert_array_equal(thin.variance[0]["u"], one.fields["u"])


def test_no_test_function_gets_narrower_than_a_step():
    found = by_name([wave(nodes=64)], SplineTests({"x": 1.2}, 6), TemporalTests(5, 1.1))
    for variation in found.values():
        assert min(variation.tests.gap["x"], variation.stencil.gap) >= 1.0


def test_elements_are_exchanged_on_grids():
    found = by_name([square(13, 17)], Galerkin(Q2), CrankNicolson())
    assert set(found) == {"every second frame", "every second node", "Q1 elements"}
    assert found["Q1 elements"].tests.element == Q1
    assert "Q2 elements" not in by_name([square(12, 17)], Galerkin(Q1), CrankNicolson())
    assert "every second node" not in by_name([square(11, 11)], Galerkin(Q2), CrankNicolson())


def test_spline_tests_stand_beside_elements_on_meshes():
    points = Grid(x=np.linspace(0, 2, 25), y=np.linspace(0, 1, 13)).points
    corner = np.arange(25 * 13).reshape(25, 13)
    a, b, c, d = (part.ravel() for part in (corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]))
    cells = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    values = np.exp(-np.sum((points - 0.6) ** 2, axis=1) / 0.1) * np.ones((6, 1))
    data = Data(np.arange(6.0), {"u": values}, Mesh(points, cells, "triangle"))
    found = by_name([data], Galerkin(), CrankNicolson())["spline tests"]
    assert isinstance(found.tests, SplineTests)
    assert found.stencil == CrankNicolson()
    (variation,) = (v for v in variations(setup_of([data], Galerkin(), CrankNicolson())) if v.name == "spline tests")
    assert variation.better == ("space",)


@pytest.mark.parametrize("nodes, times, missing", [(64, 9, "every second frame"), (9, 121, "every second node")])
def test_few_data_are_not_made_fewer(nodes, times, missing):
    found = by_name([wave(nodes=nodes, times=times)], SplineTests({"x": 1.0}, 6), TemporalTests(5, 1.0))
    assert missing not in found


def test_periodic_axes_with_an_odd_number_of_nodes_stay():
    assert "every second node" not in by_name([wave(nodes=63)], SplineTests({"x": 3.0}, 6), TemporalTests(5, 3.0))


def test_missing_values_stay_missing():
    data = wave()
    mask = np.ones(data.fields["u"].shape, dtype=bool)
    mask[:20, :11] = False
    holes = Data(data.times, data.fields, data.geometry, measured={"u": mask})
    variation = by_name([holes], SplineTests({"x": 2.0}, 6), TemporalTests(5, 2.0))["every second node"]
    assert_array_equal(variation.data[0].measured["u"], mask[:, ::2])


def test_a_mask_that_leaves_too_few_residuals_is_not_tried():
    data = wave()
    mask = np.random.default_rng(0).random(data.fields["u"].shape) > 0.1
    holes = Data(data.times, data.fields, data.geometry, measured={"u": mask})
    assert not by_name([holes], SplineTests({"x": 4.0}, 6), TemporalTests(5, 4.0))


@pytest.mark.parametrize("nodes", [3, 4, 5, 7, 8, 9])
def test_q2_is_tried_wherever_it_could_be_the_default(nodes):
    data = square(nodes, 9)
    taken = default_discretisation([data]).element == Q2
    assert taken == fills_q2(data.geometry)
    assert ("Q2 elements" in by_name([data], Galerkin(Q1), CrankNicolson())) == taken


def test_wider_functions_are_better_in_time_only_where_there_are_any():
    """The one function of five frames stays as it is, whatever its gap is called; it spoke for a fit that was wrong."""
    for times, better in ((5, ("space",)), (61, ("time", "space"))):
        data = wave(nodes=96, times=times)
        stencil = TemporalTests(3 if times == 5 else 5, 1.0)
        (wider,) = (v for v in variations(setup_of([data], SplineTests({"x": 3.0}, 6), stencil)) if v.kind == "width")
        assert set(wider.better) == set(better)


def test_noise_loses_the_frames_in_which_only_nodes_were_measured_that_are_left_out():
    data = wave(nodes=64, times=121)
    seen = np.ones((121, 64), dtype=bool)
    seen[40, ::2] = False
    masked = Data(data.times, data.fields, data.geometry, measured={"u": seen})
    setup = setup_of([masked], SplineTests({"x": 4.0}, 6), TemporalTests(5, 4.0)).at(nodes={"x": slice(None, None, 2)})
    assert setup.data[0].n_times == 120
    numbers = np.delete(1 + np.arange(121 * 64).reshape(121, 64), 40, axis=0)[:, ::2]
    assert_array_equal(setup.noise[0].sigma["u"], numbers)
