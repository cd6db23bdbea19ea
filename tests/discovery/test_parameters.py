"""Parameters inside operators are found with the coefficients, go with their operators, and are named where unknown."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from bvsi import Data, Discovery, Grid, Library, add_noise, discover, forecast, simulate_found
from bvsi.app.report import equation_latex
from bvsi.discovery.parameters import identified
from bvsi.errors import BvsiError, InfeasibleError
from bvsi.infer.priors import GaussianPrior
from bvsi.operators import Parameter

NODES, LENGTH = 64, 15.0


def observed(rate, seed=0, noise=0.03):
    """u_t = 0.3 ∇²u + rate(u) on a periodic line, with noise."""
    rng = np.random.default_rng(seed)
    x, times = np.arange(NODES) * LENGTH / NODES, np.linspace(0, 3, 61)
    k = 2 * np.pi * np.fft.rfftfreq(NODES, LENGTH / NODES)
    start = 1.7 + 1.2 * np.sin(2 * np.pi * x / LENGTH) * np.cos(4 * np.pi * x / LENGTH + 1)

    def slope(_, u):
        return 0.3 * np.fft.irfft(-(k**2) * np.fft.rfft(u), NODES) + rate(u)

    u = solve_ivp(slope, (0, 3), start, method="LSODA", t_eval=times, rtol=1e-8, atol=1e-9).y.T
    clean = Data.from_arrays({"u": u}, times=times, geometry=Grid(x=x, periodic={"x": LENGTH}))
    return add_noise(clean, noise * float(np.std(u)), rng)


TEXTS = ["laplacian(u)", "u", "u**2", "u/(K + u)"]


@pytest.fixture(scope="module")
def saturating():
    data = observed(lambda u: -u / (0.5 + u))
    library = Library({"u": TEXTS}, parameters={"K": (0.05, 5)})
    return data, library, discover(data, library)


def test_the_parameter_is_found_with_its_error_bar(saturating):
    _, _, found = saturating
    assert set(found.names) == {"laplacian(u)", "u/(K + u)", "K"}
    assert found.parameters == ("K",)
    truth = np.array([{"laplacian(u)": 0.3, "u/(K + u)": -1.0, "K": 0.5}[name] for name in found.names])
    assert np.abs((found.theta - truth) / found.sd).max() < 3
    assert found.sd[found.names.index("K")] < 0.05
    assert found.verdict == "consistent"
    assert not found.doubts
    assert found.inclusion()["K"] == found.inclusion()["u/(K + u)"]


def test_the_estimate_is_where_the_fit_with_its_column_does_not_move(saturating):
    """At κ̂ the error bars of the coefficients are those of the fit with one operator more."""
    data, library, found = saturating
    values, theta = {"K": found.coefficient("K")}, dict(zip(found.names, found.theta, strict=True))
    made = library.at(values, theta).subset(found.names)
    free = discover(data, Library({"u": [o.syntax.text for o in made.operators]}, keep=["laplacian(u)"]), check=False)
    assert len(free.names) == 2  # the column has nothing to add


def test_it_is_written_stored_and_typeset(saturating, tmp_path):
    _, _, found = saturating
    assert found.equation.splitlines()[1].startswith("K = 0.")
    assert " K" not in found.equation.splitlines()[0].replace("(K + u)", "")
    assert r"K &= 0." in equation_latex(found)
    found.save(tmp_path / "found.nc")
    again = Discovery.load(tmp_path / "found.nc")
    assert str(again) == str(found)
    assert again.inside == found.inside
    assert found.report(tmp_path / "found.html").exists()


def test_it_is_simulated_and_forecast(saturating):
    data, library, found = saturating
    made = simulate_found(found, library, data, data.times[:20], draws=3, rng=np.random.default_rng(0))
    assert np.abs(made["u"].values[-1] - data.fields["u"][19]).max() < 0.2
    told = forecast(data, library, found, draws=3, rng=np.random.default_rng(0))
    assert not told.failing


def test_a_parameter_goes_with_its_operator():
    found = discover(observed(lambda u: -0.5 * u), Library({"u": TEXTS}, parameters={"K": (0.05, 5)}), check=False)
    assert found.names == ("laplacian(u)", "u")
    assert found.parameters == ()


def test_what_the_data_cannot_tell_is_said():
    data = observed(lambda u: -u / (1 + 2 * u))
    library = Library({"u": ["laplacian(u)", "u/(1 + a*b*u)"]}, parameters={"a": (0.2, 10), "b": (0.2, 10)})
    found = discover(data, library, check=False)
    assert any("only a·b" in doubt for doubt in found.doubts)
    a, b = (found.coefficient(name) for name in "ab")
    assert a * b == pytest.approx(2, rel=0.1)
    assert all(found.sd[found.names.index(name)] > 0.3 * found.coefficient(name) for name in "ab")


def test_a_prior_of_a_parameter_counts():
    data = observed(lambda u: -u / (1 + 2 * u))
    inside = {"a": Parameter(0.2, 10, prior=(1.0, 0.01)), "b": (0.2, 10)}
    found = discover(data, Library({"u": ["laplacian(u)", "u/(1 + a*b*u)"]}, parameters=inside), check=False)
    assert found.coefficient("a") == pytest.approx(1, abs=0.02)
    assert found.coefficient("b") == pytest.approx(2, rel=0.1)


def test_a_parameter_of_several_experiments_with_a_known_quantity():
    """An Arrhenius rate: the temperature is a known field with one value."""
    rates = {T: 10 * np.exp(-2 / T) for T in (0.7, 1.0, 1.4)}
    data = [observed(lambda u, rate=rate: -rate * u, seed) for seed, rate in enumerate(rates.values())]
    data = [
        Data(one.times, one.fields, one.geometry, {"T": np.full(NODES, T)}) for one, T in zip(data, rates, strict=True)
    ]
    library = Library({"u": ["laplacian(u)", "u", "exp(-E/T)*u"]}, parameters={"E": (0.5, 8)})
    found = discover(data, library, check=False)
    assert set(found.names) == {"laplacian(u)", "exp(-E/T)*u", "E"}
    assert abs(found.coefficient("E") - 2) < 3 * found.sd[found.names.index("E")]


@pytest.mark.parametrize("changes", [{"relinearise": 1}, {"client": object()}])
def test_what_does_not_go_with_parameters_is_refused(changes):
    library = Library({"u": TEXTS}, parameters={"K": (0.05, 5)})
    with pytest.raises(BvsiError):
        discover(observed(lambda u: -u), library, **changes)


def consumed(seed):
    """u_t = 0.3 − 1.2 u/(0.8 + u) + 0.25 sin t, with noise."""
    times, rng = np.linspace(0, 12, 301), np.random.default_rng(seed)
    solved = solve_ivp(
        lambda t, u: 0.3 - 1.2 * u / (0.8 + u) + 0.25 * np.sin(t), (0, 12), [3.0], t_eval=times, rtol=1e-9, atol=1e-9
    )
    return Data.from_arrays({"u": solved.y[0] + 0.02 * rng.standard_normal(times.shape)}, times=times)


def test_polynomials_that_make_up_for_a_wrong_value_do_not_hide_the_right_one():
    """At K = 19 the operators u and u**2 stand for what is missing of u/(K+u); at K = 0.7 they are needless."""
    data = consumed(3)
    library = Library({"u": ["1", "u", "u**2", "u/(K+u)", "sin(t)"]}, parameters={"K": (0.05, 20)})
    found = discover(data, library)
    assert set(found.names) == {"1", "u/(K+u)", "sin(t)", "K"}
    truth = {"1": 0.3, "u/(K+u)": -1.2, "sin(t)": 0.25, "K": 0.8}
    for name, value, sd in zip(found.names, found.theta, found.sd, strict=True):
        assert abs(value - truth[name]) < 3.5 * sd
    right_side = found.to_numpy()  # K has its estimate
    u, K = 1.3, found.inside["K"][0]
    value = dict(zip(found.names, found.theta, strict=True))
    expected = value["1"] + value["u/(K+u)"] * u / (K + u) + value["sin(t)"] * np.sin(2.0)
    np.testing.assert_allclose(np.ravel(right_side(2.0, np.array([u]))), expected, rtol=1e-12)
    draw = found.theta * (1 + 0.1 * np.arange(len(found.names)))  # K as the others
    own = dict(zip(found.names, draw, strict=True))
    expected = own["1"] + own["u/(K+u)"] * u / (own["K"] + u) + own["sin(t)"] * np.sin(2.0)
    np.testing.assert_allclose(np.ravel(right_side(2.0, np.array([u]), draw)), expected, rtol=1e-12)
    assert f"{own['K']:.8g}"[:7] in str(found.to_sympy(theta=draw.tolist()))


def test_priors_and_constraints_name_parameters(saturating):
    data, library, free = saturating
    known = discover(data, library, prior=GaussianPrior({"K": (0.6, 0.001**2)}), check=False)
    assert known.coefficient("K") == pytest.approx(0.6, abs=0.003)
    assert known.coefficient("u/(K + u)") != pytest.approx(free.coefficient("u/(K + u)"), rel=1e-3)
    above = free.coefficient("K") + 0.01
    held = discover(data, library, constraints=[f"K >= {above}", "laplacian(u) > 0"], check=False)
    assert held.posterior.interval()[held.names.index("K"), 0] >= above
    both = discover(data, library, constraints="[u/(K + u)] + 2*K == 0", check=False)
    assert both.coefficient("u/(K + u)") == pytest.approx(-2 * both.coefficient("K"), rel=1e-6)
    with pytest.raises(InfeasibleError, match=r"K > 6.*between 0\.05 and 5 .*overlap"):
        discover(data, library, constraints=["K > 6"], check=False)


def test_what_is_left_open_is_not_consistent():
    data = observed(lambda u: -u / (1 + 2 * u))
    library = Library({"u": ["laplacian(u)", "u/(1 + a*b*u)"]}, parameters={"a": (0.2, 10), "b": (0.2, 10)})
    found = discover(data, library)
    assert found.verdict == "not decided"
    assert "only a·b" in " ".join(found.check.reasons)
    assert "prior" in found.check.advice


def test_an_estimate_stays_within_its_bounds(saturating):
    """The truth is 0.5, far beyond them: columns at κ_0 would take κ anywhere."""
    data, _, _ = saturating
    found = discover(data, Library({"u": TEXTS}, parameters={"K": (1.5, 5)}, keep=TEXTS[::3]))
    assert 1.5 <= found.inside["K"][0] <= 5
    assert np.all(found.posterior.sample(100, np.random.default_rng(0))[:, found.names.index("K")] >= 1.5)
    assert any("at a bound" in doubt for doubt in found.doubts)
    assert found.verdict != "consistent"


def test_powers_go_on_below_zero():
    """Noise makes a positive field negative; a field that is negative itself has no fractional power."""
    data = observed(lambda u: 2 * u**3 / (1 + u**3) - 1.5 * u, noise=0.06)
    shifted = data.with_fields({"u": data.fields["u"] - data.fields["u"].min() - 0.02})
    library = Library({"u": ["laplacian(u)", "u", "u**n"]}, parameters={"n": (1.2, 4)})
    assert np.isfinite(discover(shifted, library, check=False).theta).all()
    with pytest.raises(BvsiError, match="fractional power"):
        discover(data.with_fields({"u": data.fields["u"] - 2}), library, check=False)


@pytest.mark.parametrize(
    ("powers", "text"),
    [((1, 1, 0), "only a·b."), ((1, -1, 0), "only a/b."), ((1, 2, 0), "only a·b^2."), ((1, 1, 1), "only a·b·c.")],
)
def test_the_combination_that_data_tell_is_the_direction_that_they_narrow(powers, text):
    """Cov(log κ) is wide but for the direction of the powers; numbers with power zero are known."""
    v = np.array(powers, dtype=float)
    open_ = np.diag((v != 0).astype(float))
    relative = open_ - (1 - 1e-4) * np.outer(v, v) / (v @ v) + 1e-4 * np.diag((v == 0).astype(float))
    assert text in identified(["a", "b", "c"], relative)


def test_numbers_that_are_all_wide_are_not_told():
    assert "do not determine how a, b" in identified(["a", "b"], np.eye(2))
