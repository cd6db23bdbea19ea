"""Operators with four derivatives on small spaces, for tests of their treatments."""

import numpy as np

from bvsi.data import Data, Grid
from bvsi.operators import Library, ZeroNeumann
from bvsi.residual import discretise_library, state_of
from bvsi.residual.discrete import State, evaluate, jacobian, reach_of
from bvsi.spaces import Galerkin


def periodic_box(n, dim):
    """Periodic grid of the unit box with n nodes per side."""
    names = "xyz"[:dim]
    return Grid(**dict.fromkeys(names, np.arange(n) / n), periodic=tuple(names))


def random_data(geometry, fields=("c",), seed=0):
    """Two times of random fields around one."""
    rng = np.random.default_rng(seed)
    values = {f: 1 + 0.3 * rng.standard_normal((2, geometry.n_nodes)) for f in fields}
    return Data(np.array([0.0, 1.0]), values, geometry)


def prepared(text, geometry, element, *, treatment=None, boundary=None, fields=("c",)):
    """Operator in the equation of the first field, its space, and a random state."""
    data = random_data(geometry, fields)
    condition = {fields[0]: boundary or ZeroNeumann()}
    library = Library({fields[0]: [text]}, boundary=condition, biharmonic=treatment)
    (operator,), space = discretise_library(data, library, Galerkin(element))
    return operator, space, state_of(data, space)


def matrices(geometry, element, *, text="biharmonic(c)", treatment=None, boundary=None):
    """B of an operator that is linear with constant coefficients, and the mass matrix M, sparse."""
    operator, space, state = prepared(text, geometry, element, treatment=treatment, boundary=boundary)
    values = jacobian(operator, space, state)["c"]
    assert len(values) == 1
    return space.reach(reach_of(operator)).matrix(values[0]).tocsr(), space.pattern.matrix(space.mass).tocsr()


def jacobian_error(operator, space, state, step=1e-4):
    """‖J δ − (F(u + hδ) − F(u − hδ))/2h‖ over the largest of both sizes, for a random direction δ at every time."""
    rng = np.random.default_rng(1)
    direction = {f: rng.standard_normal(values.shape) for f, values in state.fields.items()}

    def moved(h):
        return evaluate(operator, space, State(state.times, _along(state, direction, h), state.auxiliary))

    difference = (moved(step) - moved(-step)) / (2 * step)
    applied = np.zeros_like(difference)
    pattern = space.reach(reach_of(operator))
    for f, values in jacobian(operator, space, state).items():
        for j in range(applied.shape[1]):
            applied[:, j] += pattern.matrix(values[j if len(values) > 1 else 0]) @ direction[f][:, j]
    return np.abs(applied - difference).max() / np.abs(difference).max()


def _along(state, direction, h):
    return {f: values + h * direction[f] for f, values in state.fields.items()}
