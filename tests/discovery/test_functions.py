"""Unknown functions inside operators: estimated with a band, found to be constant where they are."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import bvsi
from bvsi.app.units import coefficient_units
from bvsi.discovery.forecasting import _stable
from bvsi.discovery.function_prior import ORDERS, VAGUE, FunctionColumns, FunctionPrior, Information
from bvsi.discovery.functions import of_found
from bvsi.infer.priors import GaussianPrior
from bvsi.noise import add_noise
from bvsi.operators.functions import UnknownFunction

LIBRARY = bvsi.Library({"u": ["div(k*grad(u))", "u", "u**2"]}, unknown={"k": "x"})


def diffusion(k, *, n=64, frames=41, noise=0.03, seed=3):
    """u_t = (k u_x)_x − 0.3 u on a line of length ten, by finite volumes with three cells for a node."""
    rng, cells = np.random.default_rng(seed), 3 * n
    h, t = 10 / cells, np.linspace(0, 2, frames)
    x, between = (np.arange(cells) + 0.5) * h, k(np.arange(1, cells) * h) / h**2
    A = np.diag(-np.append(between, 0) - np.append(0, between)) + np.diag(between, 1) + np.diag(between, -1)
    values, vectors = np.linalg.eigh(A)
    start = np.sum([rng.normal() * np.cos(np.pi * m * x / 10 + rng.uniform(0, 6)) for m in range(1, 7)], axis=0)
    u = (np.exp((values - 0.3) * t[:, None]) * (vectors.T @ start)) @ vectors.T
    clean = bvsi.Data.from_arrays({"u": u[:, 1::3]}, times=t, geometry=bvsi.Grid(x=x[1::3]))
    return add_noise(clean, {"u": noise * float(np.std(u))}, rng)


def bump(x):
    return 0.6 + 0.8 * np.exp(-((x - 4.5) ** 2) / 1.28)


def step(x):
    return np.where(x < 5.4, 0.5, 1.5)


@pytest.fixture(scope="module")
def data():
    return diffusion(bump)


@pytest.fixture(scope="module")
def found(data):
    return bvsi.discover(data, LIBRARY)


def covered(found, truth):
    band = found.function("k")
    true = truth(band["x"].values)
    return np.mean((band["lower"].values <= true) & (true <= band["upper"].values))


def test_the_band_covers_the_function(found):
    assert covered(found, bump) > 0.8
    (k,) = found.functions
    assert not k.constant
    assert k.gain > 100
    assert [found.names[i] for i in found.shown] == ["u"]
    assert found.verdict == "consistent"
    u = found.names.index("u")
    assert abs(found.theta[u] + 0.3) < 4 * found.sd[u]


def test_the_misfit_is_not_lowered_by_what_the_function_took(found):
    # the function has more than one degree of freedom, and far fewer than coefficients
    (misfit,) = (test for test in found.check.tests if test.kind == "misfit")
    n = sum(found.block_rows) * len(found.chi2_blocks[0])
    took = n - n * found.chi2 / misfit.statistic
    assert 3 < took < found.functions[0].function.size / 2


def test_the_equation_has_the_function_without_a_coefficient(found):
    first, second = found.equation.splitlines()
    assert first.startswith("u_t = div(k*grad(u)) − 0.")
    assert second.startswith("k(x) between ")
    assert "k_1" not in found.table


def test_the_band_widens_where_tests_do_not_reach(found):
    sd = np.sqrt(found.function("k")["variance"].values)
    assert sd[0] > 3 * np.median(sd)
    assert sd[-1] > 3 * np.median(sd)


def test_a_step_is_found_where_it_is():
    found = bvsi.discover(diffusion(step, seed=5), LIBRARY, check=False)
    assert covered(found, step) > 0.85
    steps = np.array(found.functions[0].steps)
    interval = 10 / found.functions[0].function.intervals[0]
    assert abs(np.average(steps[:, 0], weights=steps[:, 3]) - 5.4) < 0.3 * interval
    assert np.average(steps[:, 1], weights=steps[:, 3]) < 0.5 * interval
    band = found.function("k")
    sd, x = np.sqrt(band["variance"].values), band["x"].values
    assert sd[np.abs(x - 5.4) < 0.3 * interval].max() > 5 * np.median(sd)  # splines do not tell the sides apart


def test_a_function_below_zero_is_said_to_be_ill_posed(data):
    # without −0.3 u the function makes up for it, and has to be negative
    found = bvsi.discover(data, bvsi.Library({"u": ["div(k*grad(u))"]}, unknown={"k": "x"}))
    assert found.verdict != "consistent"


def test_a_constant_is_found_to_be_one():
    found = bvsi.discover(diffusion(lambda x: 0 * x + 0.7), LIBRARY)
    (k,) = found.functions
    assert k.constant
    assert found.names == ("div(k*grad(u))", "u")
    assert abs(found.theta[0] - 0.7) < 4 * found.sd[0]
    assert found.verdict == "consistent"
    band = found.function("k", {"x": [1.0, 9.0]})
    np.testing.assert_allclose(band["mean"], found.theta[0])
    assert "k is constant" in found.equation


def test_it_is_stored_and_reported(found, tmp_path):
    found.save(tmp_path / "found.nc")
    again = bvsi.Discovery.load(tmp_path / "found.nc")
    assert again.functions == found.functions
    assert again.equation == found.equation
    np.testing.assert_allclose(again.function("k")["upper"], found.function("k")["upper"])
    page = again.report(tmp_path / "found.html").read_text()
    assert "k(x): mean and 95% band" in page


def test_it_is_forecast_and_simulated(found, data):
    told = bvsi.forecast(data, LIBRARY, found, draws=3, rng=np.random.default_rng(0))
    assert not told.failing


def test_draws_of_a_flux_do_not_run_backwards(found, data):
    library = of_found(LIBRARY, found.functions, expanded=True).subset(found.names)
    kept = _stable(np.full((3, len(library)), -0.1), library, found, data)
    own = found.functions[0].members(library.names)
    assert (kept[:, own] == 0).all()
    assert (np.delete(kept, own, axis=1) == -0.1).all()


def test_it_is_exported_to_numpy(found, data):
    # (k u_x)_x + θ u of a smooth state, by slopes of the band's mean
    right_side, x = found.to_numpy(data.geometry), data.geometry.axes["x"]
    u = np.sin(2 * np.pi * x / 10)
    k = found.function("k", {"x": x})["mean"].values
    flux = k * 2 * np.pi / 10 * np.cos(2 * np.pi * x / 10)
    wanted = np.gradient(flux, x) + found.coefficient("u") * u
    inner = slice(6, -6)
    np.testing.assert_allclose(right_side(0.0, u)[inner], wanted[inner], atol=0.02 * np.abs(wanted).max())
    assert found.to_dedalus().count("add_equation") == 1  # and one spline, not one for every coefficient


def test_constraints_and_priors_by_name(data):
    bounded = bvsi.discover(data, LIBRARY, constraints=["k >= 0.3"], check=False)
    assert bounded.function("k")["lower"].min() >= 0.3 - 1e-9
    sharp = bvsi.discover(data, LIBRARY, prior=GaussianPrior({"k": (0.8, 1e-8)}), check=False)
    np.testing.assert_allclose(sharp.function("k")["mean"], 0.8, atol=0.01)


def test_several_experiments_share_their_function(data):
    other = diffusion(bump, seed=8)
    both = bvsi.discover([data, other], LIBRARY, check=False)
    alone = bvsi.discover(other, LIBRARY, check=False)
    assert np.median(both.function("k")["variance"]) < np.median(alone.function("k")["variance"])


def test_a_function_for_every_experiment(data):
    library = bvsi.Library({"u": ["div(k*grad(u))", "u"]}, unknown={"k": "x"}, per_experiment=["k"])
    both = bvsi.discover([data, diffusion(np.ones_like, seed=8)], library, check=False)
    assert [(f.name, f.constant) for f in both.functions] == [("k_1", False), ("k_2", True)]
    assert abs(both.coefficient("div(k_2*grad(u))*experiment_2") - 1) < 0.05
    band = both.function("k_1")
    true = bump(band["x"].values)
    assert np.mean((band["lower"].values <= true) & (true <= band["upper"].values)) > 0.8


def test_functions_have_units():
    given = {"u": "mol", "x": "m", "t": "s"}
    assert coefficient_units(LIBRARY, given)["k"] == "m²/s"


def test_functions_beside_parameters():
    """u_t = (k u_x)_x − u/(0.5 + u), k a bump: K and the band together."""
    n, rng = 32, np.random.default_rng(11)
    h, t = 10 / (3 * n), np.linspace(0, 2, 31)
    x = (np.arange(3 * n) + 0.5) * h
    k = bump(np.arange(1, 3 * n) * h)

    def rate(_, u):
        return np.diff(np.concatenate([[0], k * np.diff(u) / h, [0]])) / h - u / (0.5 + u)

    start = 1.3 + np.cos(2 * np.pi * x / 10) * np.sin(np.pi * x / 5 + 1)
    u = solve_ivp(rate, (0, 2), start, method="LSODA", lband=1, uband=1, t_eval=t, rtol=1e-7, atol=1e-8).y.T
    clean = bvsi.Data.from_arrays({"u": u[:, 1::3]}, times=t, geometry=bvsi.Grid(x=x[1::3]))
    texts = ["div(k*grad(u))", "u", "u/(K + u)"]
    library = bvsi.Library({"u": texts}, unknown={"k": "x"}, parameters={"K": (0.05, 5)})
    told = bvsi.discover(add_noise(clean, {"u": 0.02 * float(u.std())}, rng), library, check=False)
    assert [told.names[i] for i in told.shown] == ["u/(K + u)", "K"]
    for name, true in (("u/(K + u)", -1.0), ("K", 0.5)):
        i = told.names.index(name)
        assert abs(told.theta[i] - true) < 3.5 * told.sd[i] < 0.7
    assert covered(told, bump) > 0.8
    with pytest.raises(bvsi.BvsiError, match="in operators of their own"):
        bvsi.Library({"u": ["div(k*grad(u**m))"]}, unknown={"k": "x"}, parameters={"m": (1, 3)})


def test_an_operator_that_is_part_of_it_is_refused(data):
    library = bvsi.Library({"u": ["div(k*grad(u))", "laplacian(u)"]}, unknown={"k": "x"})
    with pytest.raises(bvsi.BvsiError, match="with a constant function; leave it out"):
        bvsi.discover(data, library)


@pytest.mark.parametrize(("changes", "match"), [({"relinearise": 1}, "relinearise"), ({"client": 1}, "client")])
def test_what_does_not_go_with_functions_is_refused(data, changes, match):
    with pytest.raises(bvsi.BvsiError, match=match):
        bvsi.discover(data, LIBRARY, **changes)


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("div(unknown(k, of=x)*grad(u))", ("x",)),
        ("div(unknown('k', of='x')*grad(u))", ("x",)),
        ("div(unknown(k, of=(x, y))*grad(u))", ("x", "y")),
    ],
)
def test_functions_may_be_written_in_operators(text, of):
    library = bvsi.Library({"u": [text, "u"]})
    assert library.names == ("div(k*grad(u))", "u")
    assert library.unknown["k"].of == of


@pytest.mark.parametrize(
    "text", ["unknown(k)*u", "unknown(k, of=x + 1)*u", "unknown(k, x, of=x)*u", "unknown(2, of=x)*u"]
)
def test_functions_that_are_written_wrongly_are_refused(text):
    with pytest.raises(bvsi.BvsiError, match="unknown\\(k, of=x\\)"):
        bvsi.Library({"u": [text]})


def group(count):
    function = UnknownFunction(("x",), (0.0,), (1.0,), (count - 3,), (False,))
    return FunctionColumns("k", "k*u", function, list(range(count)))


def test_the_evidence_is_the_density_of_the_estimate():
    # θ̂ ~ N(0, I⁻¹ + P⁻¹), and b = I θ̂
    rng, one = np.random.default_rng(0), group(8)
    I = np.diag(rng.uniform(1, 5, 8))  # noqa: E741
    b = rng.normal(size=8)
    told = Information(I, b)

    def density(smooth):
        covariance = np.linalg.inv(I) + np.linalg.inv(one.precision(smooth))
        estimate = np.linalg.solve(I, b)
        return np.linalg.slogdet(covariance)[1] + estimate @ np.linalg.solve(covariance, estimate)

    some = [FunctionPrior(order, strength, 0.1) for order in ORDERS for strength in (0.3, 30.0)]
    differences = [told.surprise([one], {"k": s}) - density(s) for s in some]
    np.testing.assert_allclose(differences, differences[0], atol=1e-8)


def test_a_prior_stands_for_all_strengths():
    # its posterior has the mean and the covariance of Σ_λ p(λ | data) N(m_λ, V_λ), for a flat law of log λ
    rng = np.random.default_rng(1)
    one = FunctionColumns("k", "k*u", UnknownFunction(("x",), (0.0,), (1.0,), (9,), (False,)), list(range(1, 13)))
    X = 0.1 * rng.normal(size=(40, 13))  # no strength disagrees with others by more than the data leave open
    I, b = X.T @ X, X.T @ (X @ np.append(0.5, np.sin(np.arange(12) / 2)) + rng.normal(size=40))  # noqa: E741
    told, smooth = Information(I, b), FunctionPrior(2, 1.0, 1e-3)
    mean, P = told.averaged([one], {"k": smooth}, one, 1e3)
    every = np.zeros((13, 13))
    every[1:, 1:] = P
    V = np.linalg.inv(I + every)
    m = V @ (b + every @ np.append(0.0, mean))
    moments, values = [], []
    for order in ORDERS:
        for decade in np.arange(-9, 6, 0.5):
            prior = replace(smooth, order=order, strength=min(smooth.vague / VAGUE * 10**decade, 1e3))
            own = np.zeros((13, 13))
            own[1:, 1:] = one.precision(prior)
            moments.append((np.linalg.solve(I + own, b), np.linalg.inv(I + own)))
            values.append(told.surprise([one], {"k": prior}))
    w = np.exp(-0.5 * (np.array(values) - min(values)))
    w /= w.sum()
    wanted = sum(a * c for a, (c, _) in zip(w, moments, strict=True))
    spread = sum(a * (own + np.outer(c - wanted, c - wanted)) for a, (c, own) in zip(w, moments, strict=True))
    np.testing.assert_allclose(m, wanted, rtol=1e-6)
    np.testing.assert_allclose(V, spread, rtol=1e-5, atol=1e-9)


def test_a_step_adds_its_variance_to_the_prior():
    one, smooth = group(9), FunctionPrior(1, 5.0, 0.1)
    _, H = one.steps(np.ones(9))
    wanted = np.linalg.inv(one.precision(smooth)) + 2.0 * np.outer(H[:, 3], H[:, 3])
    stepped = smooth.stepped(np.sqrt(2.0) * H[:, 3:4], np.zeros((1, 4)))
    np.testing.assert_allclose(np.linalg.inv(one.precision(stepped)), wanted, rtol=1e-6)


@pytest.mark.parametrize("ratio", [0.2, 1.0, 5.0])
def test_splines_of_steps_leave_nothing_that_a_smooth_flux_sees(ratio):
    # ∫ (s − k) q/k φ = 0 for splines qφ, with k = 1 and the ratio on both sides
    function = UnknownFunction(("x",), (0.0,), (1.0,), (12,), (False,))
    x = (np.arange(8 * 12)[:, None] + 0.5) / (8 * 12)
    step = np.array([[0.43, 0.0, ratio]])
    k = 1 + (ratio - 1) * function.stepped(x, step)[:, 0]
    s = 1 + (ratio - 1) * function.design(x) @ function.nearest(step)[:, 0]
    np.testing.assert_allclose(function.design(x).T @ ((s - k) / k), 0, atol=1e-10)
