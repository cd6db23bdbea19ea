"""Arguments and failures of ``simulate``: each a BvsiError that says what to do."""

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError, DataError, OperatorError
from bvsi.forward import ThetaScheme, simulate
from bvsi.operators import Dirichlet, Library, NoFlux, Unknown
from bvsi.spaces import Galerkin

GRID = Grid(x=np.linspace(0, 1, 9))
X = GRID.points[:, 0]


def start(geometry=GRID, auxiliary=None, **fields):
    fields = fields or {"u": np.cos(np.pi * geometry.points[:, 0])}
    twice = {name: np.repeat(np.asarray(values)[None], 2, axis=0) for name, values in fields.items()}
    return Data(np.array([0.0, 1.0]), twice, geometry, auxiliary or {})


HEAT = Library({"u": ["laplacian(u)", "u"]}, boundary=NoFlux())
TIMES = [0.0, 0.1, 0.3]


def test_the_result_is_data_on_the_same_geometry():
    k = 1 + X
    initial = start(GRID, {"k": k})
    result = simulate(HEAT, [0.1, 0.0], initial, TIMES)
    assert result.geometry is initial.geometry
    assert result.times.tolist() == TIMES
    assert np.array_equal(result.fields["u"][0], initial.fields["u"][0])
    assert np.array_equal(result.auxiliary["k"], k)


def test_coefficients_by_order_or_by_name():
    by_order = simulate(HEAT, [0.1, 0.0], start(), TIMES).fields["u"]
    by_name = simulate(HEAT, {"laplacian(u)": 0.1}, start(), TIMES).fields["u"]
    assert np.array_equal(by_order, by_name)


@pytest.mark.parametrize(
    "theta", [[0.1], [0.1, 0.2, 0.3], [0.1, np.nan], [np.inf, 0.0], 0.1, [[0.1, 0.2]], "ab", None, ["a", "b"]], ids=repr
)
def test_wrong_coefficients_are_refused(theta):
    with pytest.raises(BvsiError, match="theta"):
        simulate(HEAT, theta, start(), TIMES)


def test_unknown_coefficient_names_are_refused():
    with pytest.raises(OperatorError, match=r"(?i)did you mean"):
        simulate(HEAT, {"laplacian(v)": 0.1}, start(), TIMES)


@pytest.mark.parametrize(
    "times", [[0.0], [0.0, 0.0], [1.0, 0.0], [], [[0.0, 1.0]], [0.0, np.nan], [0.0, np.inf], "ab", None], ids=repr
)
def test_wrong_times_are_refused(times):
    with pytest.raises(DataError, match="times"):
        simulate(HEAT, [0.1, 0.0], start(), times)


@pytest.mark.parametrize(
    "options",
    [
        {"implicitness": 0.4},
        {"implicitness": 1.1},
        {"implicitness": np.nan},
        {"substeps": 0},
        {"tol": 0.0},
        {"tol": -1.0},
        {"tol": np.nan},
        {"max_newton": 0},
    ],
    ids=repr,
)
def test_wrong_schemes_are_refused(options):
    with pytest.raises(BvsiError):
        ThetaScheme(**options)


def test_unknown_boundary_is_refused_with_advice():
    library = Library({"u": ["laplacian(u)"]}, boundary=Unknown())
    with pytest.raises(OperatorError, match=r"'u' is unknown.*NoFlux.*Dirichlet"):
        simulate(library, [0.1], start(), TIMES)


def test_unknown_boundary_is_no_matter_without_a_boundary():
    grid = Grid(x=np.arange(8) / 8, periodic={"x": 1.0})
    simulate(Library({"u": ["laplacian(u)"]}), [0.1], start(grid, u=np.sin(2 * np.pi * grid.points[:, 0])), TIMES)


def test_a_field_without_equation_is_refused():
    library = Library({"u": ["u*w"]}, boundary=NoFlux())
    with pytest.raises(OperatorError, match=r"'w'.*no equation"):
        simulate(library, [1.0], start(u=X, w=X), TIMES)


def test_a_known_field_that_moves_is_refused():
    initial = Data(np.array([0.0, 1.0]), {"u": np.ones((2, 9))}, GRID, {"k": np.ones((2, 9))})
    with pytest.raises(OperatorError, match="'k' changes in time"):
        simulate(Library({"u": ["k*u"]}, boundary=NoFlux()), [1.0], initial, TIMES)


def test_a_space_of_its_own_is_refused():
    with pytest.raises(OperatorError, match="initial state"):
        simulate(HEAT, [0.1, 0.0], start(), TIMES, discretisation=Galerkin(on=GRID))


def test_progress_is_reported():
    seen = []
    simulate(HEAT, [0.1, 0.0], start(), TIMES, progress=lambda done, total, what: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_a_step_of_exactly_the_growth_time_is_no_crash():
    """u_t = u with Δt = 1 makes M/Δt − M singular: smaller steps solve it, or the failure is explained."""
    library = Library({"u": ["u"]}, boundary=NoFlux())
    try:
        result = simulate(library, [1.0], start(u=np.ones(9)), [0.0, 1.0])
    except BvsiError as error:
        assert "simulate" in str(error)  # noqa: PT017 (either answer is right)
    else:
        assert np.all(np.isfinite(result.fields["u"]))
        assert result.fields["u"][-1] == pytest.approx(np.full(9, np.e), rel=1)


@pytest.mark.parametrize("tol", [None, 1e-3])
@pytest.mark.parametrize("text", ["u**2", "u**3", "exp(u)"])
def test_blow_up_is_explained(text, tol):
    """u_t = u² reaches infinity at t = 1/u₀."""
    library = Library({"u": [text]}, boundary=NoFlux())
    with pytest.raises(BvsiError, match="stable"):
        simulate(library, [1.0], start(u=np.full(9, 3.0)), np.linspace(0, 5, 11), scheme=ThetaScheme(0.5, tol=tol))


@pytest.mark.parametrize("text", ["log(u)", "sqrt(u)"])
def test_leaving_the_domain_of_an_operator_is_explained(text):
    library = Library({"u": [text, "1"]}, boundary=NoFlux())
    with pytest.raises(BvsiError):
        simulate(library, [0.1, -3.0], start(u=np.full(9, 1.0)), np.linspace(0, 2, 5))


def test_zero_stays_zero():
    library = Library({"u": ["laplacian(u)", "u**3", "u*dx(u)"]}, boundary=NoFlux())
    result = simulate(library, [1.0, -1.0, 1.0], start(u=np.zeros(9)), TIMES)
    assert not result.fields["u"].any()


def test_a_grid_with_nothing_free_keeps_its_values():
    grid = Grid(x=np.array([0.0, 1.0]))
    library = Library({"u": ["laplacian(u)"]}, boundary=Dirichlet())
    try:
        result = simulate(library, [1.0], start(grid, u=np.array([1.0, 2.0])), TIMES)
    except BvsiError:
        return  # refusing it is as good
    assert np.array_equal(result.fields["u"], np.array([[1.0, 2.0]] * 3))


def test_times_that_do_not_begin_with_the_initial_state_are_refused():
    library = Library({"u": ["t*u"]}, boundary=NoFlux())
    with pytest.raises(DataError, match="times"):
        simulate(library, [1.0], start(), [5.0, 6.0])
