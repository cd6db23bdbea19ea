"""J_i(u) is the derivative of F_i(u): central differences of ``evaluate`` in random directions."""

import numpy as np
import pytest
import scipy.sparse as sparse
from residual_cases import box, operator_on, simplices

from bvsi.data import Data, Grid
from bvsi.operators import Assembled, Dirichlet, Library, NoFlux, ZeroNeumann
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, assemble
from bvsi.residual.discrete import State, columns, evaluate, has_constant_jacobian
from bvsi.spaces import P1, P2, Q1, Q2, Galerkin

SPACES = {
    "1D Q1": (Grid(x=np.array([0.0, 0.2, 0.5, 0.6, 1.0])), Q1),
    "1D Q2": (Grid(x=np.array([0.0, 0.2, 0.5, 0.6, 1.0])), Q2),
    "2D Q1": (box(3, 2), Q1),
    "2D turned Q2": (box(4, 2, "yx"), Q2),
    "2D half periodic Q1": (Grid(x=np.arange(4) / 4, y=np.linspace(0, 1, 4), periodic="x"), Q1),
    "2D P1": (box(3, 2), P1),
    "2D P2": (simplices(2, 2, 2, seed=1), P2),
    "3D Q1": (box(2, 3), Q1),
    "3D P2": (simplices(1, 3, 2, seed=1), P2),
}
TEXTS = [
    "laplacian(u)",
    "dx(u)",
    "u*dx(u)",
    "x*dx(u) + x**2*u",
    "u*w",
    "u**3 - u",
    "dot(grad(u), grad(u))",
    "dot(grad(u), grad(w))",
    "div(u*grad(x**2))",
    "div(u**2*grad(u))",
    "div(exp(u)*grad(u))",
    "laplacian(u**3)",
    "div(u*grad(w))",
    "u*laplacian(w)",
    "laplacian(w)",
    "div(k*grad(u))",
    "k*u**2*dx(w)",
    "t*u**2 + sin(t*x)*dx(u)",
    "laplacian(u) + t + x",
    "exp(-u**2)*tanh(w)",
    "u/(1 + w**2)",
    "dx(u)**3",
    "dx(u)*dx(dx(u))",
    "k*x*t",
    "1",
]


def fields_on(geometry, rng):
    n = geometry.n_nodes
    fields = {name: 1 + 0.5 * rng.standard_normal((2, n)) for name in ("u", "w")}
    return fields, {"k": rng.uniform(1, 2, n)}


def discretise(operator, space, state):
    """F at all times, as the column of a stencil that takes every time for itself, and J."""
    return columns([operator], space, (state, state), sparse.eye_array(state.n_times, format="csr"))[operator.key]


def apply(discrete, space, direction):
    """Σ_fields J δ at every time."""
    total = np.zeros_like(discrete.X)
    for field, _, values in discrete.J:
        for j in range(total.shape[1]):
            block = values[j if len(values) > 1 else 0]
            total[:, j] += space.pattern.matrix(block) @ direction[field][:, j]
    return total


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("where", SPACES)
def test_jacobian_against_central_differences(where, text):
    geometry, element = SPACES[where]
    rng = np.random.default_rng(len(text))
    fields, auxiliary = fields_on(geometry, rng)
    operator, space, state = operator_on(text, geometry, element, fields, auxiliary)
    discrete = discretise(operator, space, state)
    assert np.allclose(discrete.X, evaluate(operator, space, state), rtol=1e-11, atol=1e-11)
    direction = {name: rng.standard_normal(values.shape) for name, values in state.fields.items()}
    h = 1e-5

    def moved(e):
        shifted = {name: values + e * direction[name] for name, values in state.fields.items()}
        return evaluate(operator, space, State(state.times, shifted, state.auxiliary))

    difference = (moved(h) - moved(-h)) / (2 * h)
    assert np.abs(apply(discrete, space, direction) - difference).max() < 1e-6 * (1 + np.abs(difference).max())
    assert {field for field, _, _ in discrete.J} == set(operator.reads)


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("laplacian(u)", True),
        ("k*dx(u) + x", True),
        ("laplacian(u) + t", True),
        ("m + u", True),
        ("t*u", False),
        ("m*u", False),
        ("u**2", False),
    ],
)
def test_one_jacobian_serves_all_times_only_where_nothing_in_it_varies(text, constant):
    geometry = box(3, 2)
    rng = np.random.default_rng(0)
    fields, auxiliary = fields_on(geometry, rng)
    auxiliary["m"] = rng.standard_normal((2, geometry.n_nodes))
    operator, space, state = operator_on(text, geometry, Q1, fields, auxiliary)
    assert has_constant_jacobian(operator, state) is constant
    ((_, _, J),) = discretise(operator, space, state).J
    assert len(J) == (1 if constant else 2)
    assert np.allclose(discretise(operator, space, state).X, evaluate(operator, space, state), atol=1e-12)


@pytest.mark.parametrize("text", ["u*dx(u)", "div(m*grad(u))", "t*laplacian(u) + m*u**2"])
def test_chunks_of_times_do_not_change_the_result(text, monkeypatch):
    geometry = box(3, 2)
    rng = np.random.default_rng(0)
    times = np.linspace(0, 1, 7)
    shape = (7, geometry.n_nodes)
    fields = {"u": rng.standard_normal(shape), "w": rng.standard_normal(shape)}
    operator, space, state = operator_on(text, geometry, Q1, fields, {"m": rng.uniform(1, 2, shape)}, times)
    whole = discretise(operator, space, state)
    monkeypatch.setattr("bvsi.residual.discrete.CHUNK_BYTES", 8 * len(space.cells.weights) * 2)
    parts = discretise(operator, space, state)
    assert np.allclose(whole.X, parts.X, rtol=1e-13, atol=1e-13)
    ((_, _, J),), ((_, _, same),) = whole.J, parts.J
    assert np.allclose(J, same, rtol=1e-13, atol=1e-13)


TWO = {"u": ["laplacian(u)", "u*w", "w", "t*x"], "w": ["div(w*grad(u))", "laplacian(w)", "k*w**2"]}


@pytest.mark.parametrize("stencil", [BackwardEuler(), CrankNicolson(), BDF2()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    "boundary",
    [NoFlux(), Assembled(), {"u": Dirichlet(), "w": NoFlux()}, {"w": ZeroNeumann()}],
    ids=["no flux", "assembled", "mixed", "unknown and flat"],
)
@pytest.mark.parametrize(("geometry", "element"), [(box(4, 2), Q2), (simplices(2, 2, 1, seed=0), P1)], ids=["Q2", "P1"])
def test_sensitivity_of_the_whole_residual(geometry, element, boundary, stencil):
    """dr_k = Σ_j (a_kj M − b_kj Σ_i θ_i J_i(û_j)) dû_j, for two fields in both orders of the equations."""
    rng = np.random.default_rng(5)
    times = np.array([0.0, 0.3, 0.4, 0.9])
    shape = (len(times), geometry.n_nodes)
    library = Library(dict(reversed(TWO.items())), boundary=boundary)
    theta = rng.standard_normal(len(library))
    base = {name: rng.standard_normal(shape) for name in ("u", "w")}
    direction = {name: rng.standard_normal(shape) for name in ("u", "w")}
    known = {"k": rng.uniform(1, 2, shape)}

    def system(e):
        fields = {name: base[name] + e * direction[name] for name in base}
        data = Data(times, fields, geometry, known)
        return assemble(data, library, discretisation=Galerkin(element), stencil=stencil)

    h = 1e-5
    difference = (system(h).residual(theta)[0] - system(-h).residual(theta)[0]) / (2 * h)
    (residuals,) = system(0.0).experiments
    s = residuals.structure
    assert s.fields == ("u", "w")
    stacked = np.concatenate([direction[name].T for name in s.fields])
    M = s.pattern.matrix(s.M)
    expected = (s.a @ (M @ stacked).T).T
    moved = np.stack(
        [s.pattern.matrix(residuals.jacobian(theta, j)) @ stacked[:, j] for j in range(len(times))], axis=1
    )
    expected = expected - (s.b @ moved.T).T
    assert np.abs(expected - difference).max() < 1e-6 * (1 + np.abs(difference).max())
