"""Systems without space: one node, temporal tests alone, everything else as with space."""

import numpy as np
import pytest
import scipy.linalg
from scipy.integrate import solve_ivp

import bvsi
from bvsi.check import Verdict
from bvsi.infer.quadratic import NoiseRatio, Quadratic
from bvsi.infer.starts import balance
from bvsi.operators import polynomials
from bvsi.residual import TemporalTests, assemble
from bvsi.select.criterion import ProfileBIC
from bvsi.select.search import Effort, Protection, best_models
from bvsi.spaces import SplineTests
from bvsi.studies.series import SYSTEMS

TRUTH = {"x: x": 1.0, "x: x*y": -0.5, "y: y": -0.75, "y: x*y": 0.25}
LIBRARY = bvsi.Library(dict.fromkeys(("x", "y"), polynomials(["x", "y"], degree=2)))


def lotka_volterra(times, start=(4.0, 2.0), force=lambda t: 0.0):
    def slope(t, u):
        x, y = u
        return [x - 0.5 * x * y + force(t), -0.75 * y + 0.25 * x * y]

    solved = solve_ivp(slope, (times[0], times[-1]), start, t_eval=times, rtol=1e-10, atol=1e-10)
    return dict(zip("xy", solved.y, strict=True))


def noisy(times, seed, level=0.05, **arguments):
    rng = np.random.default_rng(seed)
    clean = lotka_volterra(times, **arguments)
    return {f: u + level * u.std() * rng.standard_normal(u.shape) for f, u in clean.items()}


TIMES = np.linspace(0, 20, 301)


@pytest.fixture(scope="module")
def found():
    return bvsi.discover(bvsi.Data.from_arrays(noisy(TIMES, 1), times=TIMES), LIBRARY)


def within(found, truth, sds=3.5):
    assert set(found.names) == set(truth)
    for name, sd in zip(found.names, found.sd, strict=True):
        assert abs(found.coefficient(name) - truth[name]) < sds * sd


def test_one_node_makes_the_residual_a_sum_over_times():
    data = bvsi.Data.from_arrays(lotka_volterra(TIMES), times=TIMES)
    stencil = TemporalTests(gap=4.0)
    system = assemble(data, LIBRARY, discretisation=SplineTests(), stencil=stencil)
    a, b = stencil.matrices(data.times)
    x, y = (data.fields[f][:, 0] for f in "xy")
    (part,) = system.experiments
    np.testing.assert_allclose(part.y, np.stack([a @ x, a @ y]), rtol=1e-12)
    column = system.names.index("y: x*y")
    np.testing.assert_allclose(part.X[1, :, column], b @ (x * y), rtol=1e-12)
    np.testing.assert_array_equal(part.X[0, :, column], 0)


def test_the_residual_of_the_truth_falls_with_the_order_of_the_splines():
    misses = []
    for count in (51, 101):
        times = np.linspace(0, 20, count)
        data = bvsi.Data.from_arrays(lotka_volterra(times), times=times)
        stencil = TemporalTests(gap=(count - 1) / 25)  # as wide in time
        system = assemble(data, LIBRARY.subset(TRUTH), discretisation=SplineTests(), stencil=stencil)
        theta = np.array([TRUTH[name] for name in system.names])
        misses.append(np.abs(system.experiments[0].y - system.experiments[0].X @ theta).max())
    assert misses[1] < misses[0] / 2**5


def test_the_equations_are_found(found):
    within(found, TRUTH)
    assert str(found.verdict) == "consistent"
    assert "x_t = " in str(found)


def test_nothing_is_said_of_space(found):
    assert found.verdict == "consistent"
    assert "space" not in str(found.check)


def test_a_result_is_kept_and_reported(found, tmp_path):
    found.save(tmp_path / "out.nc")
    again = bvsi.Discovery.load(tmp_path / "out.nc")
    np.testing.assert_array_equal(again.theta, found.theta)
    assert str(again) == str(found)
    found.report(tmp_path / "out.html")
    assert "data and fit over t" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_forecast_holds_the_rest():
    data = bvsi.Data.from_arrays(noisy(TIMES, 2), times=TIMES)
    found = bvsi.discover(data, LIBRARY.subset(TRUTH), check=False)
    made = bvsi.forecast(data, LIBRARY.subset(TRUTH), found, draws=4, rng=np.random.default_rng(0))
    assert np.mean(made.coverage[made.held_out]) > 0.8


def test_two_trajectories_tell_more_than_one(found):
    starts = ((4.0, 2.0), (2.0, 1.0))
    several = [bvsi.Data.from_arrays(noisy(TIMES, 3 + i, start=start), times=TIMES) for i, start in enumerate(starts)]
    both = bvsi.discover(several, LIBRARY)
    within(both, TRUTH)
    assert np.all(both.sd < found.sd)


def test_uneven_times_and_missing_samples():
    rng = np.random.default_rng(7)
    times = np.sort(TIMES + np.r_[0, rng.uniform(-0.4, 0.4, TIMES.size - 2), 0] * (TIMES[1] - TIMES[0]))
    values = noisy(times, 8)
    values["x"][rng.random(times.size) < 0.03] = np.nan
    found = bvsi.discover(bvsi.Data.from_arrays(values, times=times, missing="nan"), LIBRARY, check=False)
    within(found, TRUTH)


def test_forcing_is_an_auxiliary_series():
    force = 0.5 * np.sin(1.3 * TIMES)
    values = noisy(TIMES, 9, force=lambda t: 0.5 * np.sin(1.3 * t))
    data = bvsi.Data.from_arrays(values, times=TIMES, auxiliary={"f": force})
    library = bvsi.Library({"x": [*polynomials(["x", "y"], 2), "f"], "y": polynomials(["x", "y"], 2)})
    within(bvsi.discover(data, library, check=False), {**TRUTH, "x: f": 1.0})


def test_correlated_noise_is_no_consistent_answer():
    rng = np.random.default_rng(11)
    values = lotka_volterra(np.linspace(0, 20, 601))
    for name, u in values.items():
        blurred = np.convolve(rng.standard_normal(u.size), np.ones(9) / 3, mode="same")
        values[name] = u + 0.05 * u.std() * blurred
    found = bvsi.discover(bvsi.Data.from_arrays(values, times=np.linspace(0, 20, 601)), LIBRARY.subset(TRUTH))
    assert str(found.verdict) != "consistent"


def test_polynomials_are_texts():
    assert bvsi.polynomials(["x", "y"], 2) == ["1", "x", "y", "x**2", "x*y", "y**2"]
    assert len(polynomials(["x", "y", "z"], 3)) == 20
    assert polynomials(["x"], 1, functions=["sin"]) == ["1", "x", "sin(x)"]
    assert "δx" in bvsi.Library({"x": ["x*y"], "y": ["1"]}).explain()


@pytest.mark.parametrize(
    "arguments, words",
    [(("xy", 2), "a list of names"), ((["x"], -1), "a whole number"), ((["x"], 2), "'sine' is none of")],
)
def test_polynomials_refuse(arguments, words):
    with pytest.raises(bvsi.BvsiError, match=words):
        polynomials(*arguments, functions=["sine"] if "sine" in words else ())


def test_first_weights_carry_the_noise_of_the_own_field():
    data = bvsi.Data.from_arrays(noisy(TIMES, 1), times=TIMES)
    system = assemble(data, LIBRARY, discretisation=SplineTests(), stencil=TemporalTests(gap=4.0))
    likelihood = bvsi.residual_likelihood(system, bvsi.PerField({"x": 0.1, "y": 0.1}), bvsi.Stacked())
    theta = balance(likelihood)
    assert {system.names[i] for i in np.flatnonzero(theta)} == {"x: x", "y: y"}


def test_equations_that_do_not_couple_are_searched_one_by_one():
    """Three columns stand for another only together, which steps of one operator do not find."""
    rng = np.random.default_rng(0)
    blocks, truth = [], []
    for _ in range(2):
        X = rng.standard_normal((200, 10))
        X[:, 9] = X[:, :3].sum(axis=1) + 0.05 * rng.standard_normal(200)
        blocks.append(X)
        truth.append(np.r_[1.0, 1.0, 1.0, np.zeros(7)])
    X, theta = scipy.linalg.block_diag(*blocks), np.concatenate(truth)
    y = X @ theta + 0.01 * rng.standard_normal(400)
    names = tuple(f"{e}: {i}" for e in "uv" for i in range(10))
    A = X.T @ X / 0.01**2
    quadratic = Quadratic(names, np.zeros(20), float(y @ y) / 0.01**2, X.T @ y / 0.01**2, A, A, 400)
    ladder = best_models(
        quadratic, ProfileBIC(), Protection(frozenset(), ()), ("exhaustive",), Effort(exhaustive=0, by_equation=300)
    )
    assert min(ladder.values())[1] == tuple(np.flatnonzero(theta))
    part = quadratic.of(range(10))
    np.testing.assert_allclose(part.solve([(0, 1, 2)])[0], quadratic.solve([(0, 1, 2)])[0])


def test_equations_apart_are_those_of_a_library_with_one_of_them():
    data = bvsi.Data.from_arrays(noisy(TIMES, 1), times=TIMES)
    noise, kind = (
        bvsi.PerField({"x": 0.1, "y": 0.1}),
        {"discretisation": SplineTests(), "stencil": TemporalTests(gap=4.0)},
    )
    both = bvsi.residual_likelihood(assemble(data, LIBRARY, **kind), noise, bvsi.Stacked())
    texts = polynomials(["x", "y"], degree=2)
    theta = np.linspace(-0.3, 0.2, len(texts))
    for (own, alone), field in zip(both.apart(), ("x", "y"), strict=True):
        assert [both.names[i] for i in own] == [f"{field}: {text}" for text in texts] == list(alone.names)
        one = bvsi.residual_likelihood(assemble(data, bvsi.Library({field: texts}), **kind), noise, bvsi.Stacked())
        found, expected = alone.normal_equations(theta), one.normal_equations(theta)
        assert found.n == expected.n
        np.testing.assert_allclose(found.H, expected.H, rtol=1e-9)
        np.testing.assert_allclose(found.q, expected.q, rtol=1e-9)


def test_the_noise_ratio_of_the_right_model_is_one_whatever_the_weights():
    """y = 2 x_1 with noise in y and X: Q = n cᵀGc / cᵀBc, c = (1, −θ), and a wrong model has more."""
    rng, n, sigma = np.random.default_rng(0), 4000, 0.3
    clean = rng.standard_normal((n, 3))
    Z = np.column_stack([2 * clean[:, 0], clean]) + sigma * rng.standard_normal((n, 4))
    for weight in (1.0, 50.0):
        G, B = weight * Z.T @ Z, weight * n * sigma**2 * np.eye(4)
        A = G - B
        ratio = NoiseRatio(("a", "b", "c"), np.zeros(3), G[0, 0], A[1:, 0], A[1:, 1:], G[1:, 1:], n, noise=B)
        theta, Q = ratio.solve([(0, 1)])
        c = np.r_[1.0, -theta[0]]
        np.testing.assert_allclose(Q[0], n * (c @ G[:3, :3] @ c) / (c @ B[:3, :3] @ c))
        assert abs(Q[0] / n - 1) < 5 * np.sqrt(2 / n)
        np.testing.assert_allclose(ratio.with_each([(0,)])[0], [np.inf, Q[0], ratio.solve([(0, 2)])[1][0]])
        np.testing.assert_allclose(ratio.without_each((0, 1)), [ratio.solve([(i,)])[1][0] for i in (1, 0)])
        assert ratio.solve([(1,)])[1][0] > 1.5 * n


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("dx(x)", "^operator 'dx.x.' .*the data have no space"),
        ("integral(x)", "^operator .*give it as an auxiliary field"),
        ("dW", "^operator .*an equation of the density"),
        ("w", "^operator .*not measured cannot stand in an equation"),
    ],
)
def test_what_cannot_be_in_a_series_is_told_by_itself(operator, words):
    data = bvsi.Data.from_arrays(noisy(TIMES, 1), times=TIMES)
    with pytest.raises(bvsi.BvsiError, match=words):
        bvsi.discover(data, bvsi.Library({"x": ["x", operator]}))


def test_times_at_random_are_as_good_as_even_ones():
    times = np.sort(np.random.default_rng(0).uniform(0, 20, 300))
    found = bvsi.discover(bvsi.Data.from_arrays(noisy(times, 1), times=times), LIBRARY)
    within(found, TRUTH)
    assert found.check.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize(("seed", "number", "noise"), [(9101, 4, 0.05), (9104, 7, 0.2)])
def test_spikes_are_fitted_from_poor_starts(seed, number, noise):
    """Hindmarsh–Rose with its true operators: secants of far steps, and starts on the way to a plateau, did harm."""
    name = "hindmarsh-rose"
    system, rng = SYSTEMS[name], np.random.default_rng([seed, number, *name.encode()])
    clean = system.draw(rng)
    data = bvsi.add_noise(clean, {f: noise * float(np.std(u)) for f, u in clean.fields.items()}, rng)
    library = bvsi.Library({f: list(own) for f, own in system.equations.items()}, keep=list(system.truth))
    found = bvsi.discover(data, library, check=False)
    assert found.status.converged
    assert 0.8 < found.chi2 < 1.2
    for operator, value in system.truth.items():
        assert abs(found.coefficient(operator) - value) < 4 * found.sd[found.names.index(operator)]
