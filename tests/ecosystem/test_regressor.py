"""Discovery as an estimator of scikit-learn."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

import bvsi
from bvsi.errors import BvsiError, MissingDependencyError

pytest.importorskip("sklearn")
pd = pytest.importorskip("pandas")

from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

# Checks of scikit-learn that do not apply, with the reason; check_array_api_input skips itself, since it needs an
# environment variable of SciPy.
EXPECTED_FAILED: dict[str, str] = {}

TIMES = np.linspace(0, 20, 400)


def oscillator(sigma: float = 0.02, seed: int = 0) -> pd.DataFrame:
    """u = cos t, v = −sin t: u_t = v, v_t = −u."""
    noise = sigma * np.random.default_rng(seed).standard_normal((2, TIMES.size))
    return pd.DataFrame({"t": TIMES, "u": np.cos(TIMES) + noise[0], "v": -np.sin(TIMES) + noise[1]})


def heat(nodes: int = 32, frames: int = 40, D: float = 0.3) -> pd.DataFrame:
    """u = 2 + Σ sin k x e^(−Dk²t) with 1% noise, one row per time and place."""
    x, t = np.linspace(0, 2 * np.pi, nodes, endpoint=False), np.linspace(0, 2, frames)
    waves = [np.sin(k * x + k) * np.exp(-D * k**2 * t[:, None]) for k in (1, 2, 3)]
    u = 2 + sum(waves) + 0.01 * np.random.default_rng(1).standard_normal((frames, nodes))
    tt, xx = np.meshgrid(t, x, indexing="ij")
    return pd.DataFrame({"t": tt.ravel(), "place": xx.ravel(), "u": u.ravel()})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [bvsi.BvsiRegressor(), bvsi.BvsiRegressor(time=0)])
def test_estimator_checks(model):
    results = check_estimator(model, on_fail=None, expected_failed_checks=EXPECTED_FAILED)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped", "xfail")] == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


def test_a_record_needs_no_derivative():
    table = oscillator()
    model = bvsi.BvsiRegressor(["u", "v", "u*v", "u**2"], time="t").fit(table)
    found = dict(zip(model.names_, model.coef_, strict=True))
    assert found["u: v"] == pytest.approx(1, abs=4 * model.sd_.max())
    assert found["v: u"] == pytest.approx(-1, abs=4 * model.sd_.max())
    assert found["u: u*v"] == 0.0
    assert model.discovery_.verdict == "consistent"
    np.testing.assert_allclose(model.predict(table)[:, 0], table["v"], atol=0.02)
    assert model.score(table) > 0.95  # of the weak left sides
    assert model.score(table, np.stack([-np.sin(TIMES), -np.cos(TIMES)], axis=1)) > 0.99


def test_columns_by_number_are_the_same():
    table = oscillator()
    named = bvsi.BvsiRegressor(["u", "v"], time="t", options={"check": False}).fit(table)
    plain = bvsi.BvsiRegressor(["x1", "x2"], time=0, options={"check": False}).fit(table.to_numpy())
    np.testing.assert_allclose(plain.coef_, named.coef_)


def test_a_field_in_space():
    table = heat()
    model = bvsi.BvsiRegressor(["dx(dx(u))", "u", "dx(u)"], time="t", places=["place"], periodic={"x": 2 * np.pi})
    model.set_params(options={"check": False}).fit(table.sample(frac=1.0, random_state=0))  # in any order
    assert model.coef_[0] == pytest.approx(0.3, abs=4 * model.sd_[0])
    np.testing.assert_array_equal(model.coef_[1:], 0)
    clean = heat()
    clean["u"] = 2 + np.sin(clean["place"])
    np.testing.assert_allclose(model.predict(clean), -model.coef_[0] * np.sin(clean["place"]), atol=1e-9)
    with_gaps = table.drop(index=range(100, 105))
    assert model.predict(with_gaps).shape == (len(with_gaps),)


def test_given_left_sides_are_a_regression():
    """y = 3 − 2 x0 x1 + e: the operators, and error bars that cover as often as they should."""
    rng, inside = np.random.default_rng(4), []
    for _ in range(20):
        X = rng.normal(size=(60, 3))
        y = 3 - 2 * X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=60)
        model = bvsi.BvsiRegressor().fit(X, y)
        chosen = dict(zip(model.names_, zip(model.coef_, model.sd_, strict=True), strict=True))
        inside += [abs(value - truth) < 1.96 * sd for truth, (value, sd) in ((3, chosen["1"]), (-2, chosen["x0*x1"]))]
    assert 0.85 < np.mean(inside) <= 1
    assert model.equation_.startswith("target = ")
    assert model.discovery_ is None
    with pytest.raises(BvsiError, match="give y"):
        model.score(X)


def test_rates_by_field():
    table = oscillator(sigma=0)
    rates = np.stack([table["v"], -table["u"]], axis=1)
    model = bvsi.BvsiRegressor(["u", "v", "u**2"], time="t").fit(table, rates)
    np.testing.assert_allclose(model.coef_, [0, 1, 0, -1, 0, 0], atol=1e-9)
    np.testing.assert_allclose(model.predict(table), rates, atol=1e-9)


def test_nothing_is_selected_where_nothing_is_there():
    rng = np.random.default_rng(0)
    model = bvsi.BvsiRegressor(["x0", "x1", "x0*x1"]).fit(rng.normal(size=(200, 2)), rng.normal(size=200))
    assert np.count_nonzero(model.coef_) <= 1
    np.testing.assert_array_equal(bvsi.BvsiRegressor(["x0"]).fit(np.ones((5, 1)), np.zeros(5)).coef_, 0)


def test_a_pipeline_chooses_between_two_libraries():
    """Cross-validation over time prefers the library that has the terms."""
    model = make_pipeline(
        FunctionTransformer(lambda table: table * 1.0), bvsi.BvsiRegressor(time="t", options={"check": False})
    )
    libraries = [["u", "u**2"], ["u", "v", "u*v"]]
    search = GridSearchCV(model, {"bvsiregressor__candidates": libraries}, cv=TimeSeriesSplit(2))
    search.fit(oscillator())
    assert search.best_params_ == {"bvsiregressor__candidates": libraries[1]}
    assert search.best_score_ > 0.9
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0.1


def test_a_library_is_a_parameter():
    library = bvsi.Library({"u": ["v", "u"], "v": ["u"]}, keep=["u: v"])
    model = clone(bvsi.BvsiRegressor(library, time="t", options={"check": False})).fit(oscillator())
    assert model.names_ == ("u: v", "u: u", "v: u")
    assert set(model.get_params()) == {"candidates", "degree", "time", "places", "periodic", "keep", "options"}


def test_what_cannot_be_is_refused():
    table = oscillator()
    with pytest.raises(BvsiError, match="name the column of times"):
        bvsi.BvsiRegressor().fit(table)
    with pytest.raises(BvsiError, match="no column 'zeit'"):
        bvsi.BvsiRegressor(time="zeit").fit(table)
    with pytest.raises(BvsiError, match="two rows"):
        bvsi.BvsiRegressor(time="t").fit(pd.concat([table, table]))
    with pytest.raises(BvsiError, match="2 equations, but y has 1"):
        bvsi.BvsiRegressor({"u": ["v"], "v": ["u"]}).fit(table[["u", "v"]], table["u"])


def test_the_package_to_install_is_named(monkeypatch):
    for name in ("sklearn", "sklearn.base"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "bvsi.app.regressor", raising=False)
    monkeypatch.delitem(vars(bvsi), "BvsiRegressor", raising=False)
    with warnings.catch_warnings(), pytest.raises(MissingDependencyError, match=r"bvsi\[sklearn\]"):
        _ = bvsi.BvsiRegressor
