"""H3: once continuously differentiable, through the nodal values, exact on quadratics, of third order."""

import numpy as np
import pytest
from geometries import AXES, UNIFORM, close, grid
from measures import GRIDS, away_from_the_seam, derivative, geometry_of, gradient_jump, measures_of, powers

from bvsi.common.naming import Sided
from bvsi.data import Grid
from bvsi.errors import SpaceError
from bvsi.spaces import tensor
from bvsi.spaces.element import H3
from bvsi.spaces.measure import derivatives


def test_name_and_orders():
    assert (H3.name, H3.family, H3.degree, H3.trial_order, H3.test_order) == ("H3", "H", 3, 2, 2)


@pytest.mark.parametrize("name", GRIDS)
def test_gradients_do_not_jump(name):
    geometry = geometry_of(name, H3)
    facets = measures_of(geometry, H3)[2]
    u = np.random.default_rng(0).standard_normal(geometry.n_nodes)
    assert len(facets.weights)
    assert np.abs(gradient_jump(facets, u)).max() < 1e-10


@pytest.mark.parametrize("name", GRIDS)
def test_second_normal_derivatives_do_jump(name):
    geometry = geometry_of(name, H3)
    facets = measures_of(geometry, H3)[2]
    u = np.random.default_rng(0).standard_normal(geometry.n_nodes)
    second = (2,) + (0,) * (geometry.dim - 1)
    jump = facets.trial.matrix(Sided(second, 1)) @ u - facets.trial.matrix(Sided(second, -1)) @ u
    assert np.abs(jump).max() > 1


@pytest.mark.parametrize("name", GRIDS)
def test_nodal_values_are_interpolated(name):
    geometry = geometry_of(name, H3)
    u = np.random.default_rng(1).standard_normal(geometry.n_nodes)
    evaluation, _ = tensor.evaluate_at(geometry, H3, geometry.points)
    assert close(evaluation.matrix((0,) * geometry.dim) @ u, u, 1e-12)


@pytest.mark.parametrize("name", GRIDS)
def test_quadratics_per_axis_and_their_derivatives_are_exact(name):
    geometry = geometry_of(name, H3)
    cells, boundary, facets = measures_of(geometry, H3)
    for power in powers(geometry.dim, 2, per_axis=True):
        u = derivative(geometry.points, power, (0,) * geometry.dim)
        for index in derivatives(geometry.dim):
            for measure, key in ((cells, index), (boundary, index), (facets, Sided(index, 1))):
                keep = away_from_the_seam(geometry, measure.points, H3)
                assert keep.any() or measure is boundary
                value = (measure.trial.matrix(key) @ u)[keep]
                assert close(value, derivative(measure.points, power, index)[keep], 1e-9)


@pytest.mark.parametrize("name", GRIDS)
def test_constants_are_exact_everywhere(name):
    geometry = geometry_of(name, H3)
    one = np.ones(geometry.n_nodes)
    for measure in measures_of(geometry, H3)[:2]:
        for index in derivatives(geometry.dim):
            assert close(
                measure.trial.matrix(index) @ one, np.full(len(measure.weights), float(sum(index) == 0)), 1e-10
            )


def interpolation_error(n, periodic, order, wavy):
    s = np.linspace(0, 1, n + 1)
    x = s + wavy * 0.1 * np.sin(2 * np.pi * s) / (2 * np.pi)  # unequal steps that shrink together
    x = x[:-1] if periodic else x
    geometry = Grid(x=x, periodic={"x": 1.0}) if periodic else Grid(x=x)
    frequency = 2 * np.pi if periodic else 2.5
    exact = [np.sin, lambda t: frequency * np.cos(t), lambda t: -(frequency**2) * np.sin(t)][order]
    cells = tensor.cell_measure(geometry, H3, 6)
    error = cells.trial.matrix((order,)) @ np.sin(frequency * x) - exact(frequency * cells.points[:, 0])
    return np.abs(error).max()


@pytest.mark.parametrize("wavy", [0, 1], ids=["uniform", "graded"])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_interpolation_is_of_third_order_and_one_less_per_derivative(order, periodic, wavy):
    coarse, fine = (interpolation_error(n, periodic, order, wavy) for n in (64, 128))
    assert np.log2(coarse / fine) == pytest.approx(3 - order, abs=0.25)


def test_scattered_points_in_two_dimensions():
    geometry = grid("xy", AXES, "y")
    rng = np.random.default_rng(2)
    points = np.stack([rng.uniform(0, 1, 50), rng.uniform(-0.4, 3.0, 50)], axis=1)
    u = rng.standard_normal(geometry.n_nodes)
    at = tensor.evaluate_at(geometry, H3, points)
    shifted = tensor.evaluate_at(geometry, H3, points + np.array([0, geometry.periods["y"]]))
    assert close(at[0].matrix((0, 0)) @ u, shifted[0].matrix((0, 0)) @ u, 1e-11)
    assert np.array_equal(at[1], shifted[1])
    cells = tensor.cell_measure(geometry, H3, 2)
    same, _ = tensor.evaluate_at(geometry, H3, cells.points)
    assert close(same.matrix((0, 0)) @ u, cells.trial.matrix((0, 0)) @ u, 1e-11)


@pytest.mark.parametrize("periodic", ["", "y"])
def test_three_nodes_are_too_few(periodic):
    geometry = Grid(x=UNIFORM["x"], y=[0.0, 1.0, 2.0], periodic=dict.fromkeys(periodic, 3.0))
    with pytest.raises(SpaceError, match=r"'y'.*Q1"):
        tensor.cell_measure(geometry, H3, 4)


@pytest.mark.parametrize("periodic", [False, True])
def test_four_nodes_are_enough(periodic):
    geometry = Grid(x=[0.0, 1.0, 1.5, 2.5], periodic={"x": 3.0} if periodic else ())
    cells, _, facets = measures_of(geometry, H3)
    u = np.random.default_rng(3).standard_normal(4)
    assert np.abs(gradient_jump(facets, u)).max() < 1e-11
    assert len(facets.weights) == (4 if periodic else 2)
    assert np.all(np.diff(cells.trial.pattern.indptr) == 4)
