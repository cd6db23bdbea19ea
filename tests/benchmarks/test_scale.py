"""``bvsi bench scale``: candidates, data against their equations, the plain weak form, files. No timing asserted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.app.cli.bench import bench
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.performance import worker
from bvsi.studies.benchmarks.scale import floor, measure, run, solvers
from bvsi.studies.benchmarks.scale.cases import CASES, case
from bvsi.studies.benchmarks.scale.terms import Integrand, Term, hermite, monomial, monomials, pure

PUBLISHED = {"lambda_omega": 181, "porous_medium": 65, "sine_gordon": 73, "vorticity": 50, "ks_256": 43, "ks_512": 43}


@pytest.mark.parametrize("one", CASES.values(), ids=CASES)
def test_ten_candidates_or_the_published_number_and_the_truth_is_among_them(one):
    for equation, truth in one.truth.items():
        assert len(set(one.few[equation])) == len(one.few[equation]) == 10
        assert set(truth) <= set(one.few[equation])
        if one.many:
            assert len(set(one.many[equation])) == len(one.many[equation]) == PUBLISHED.get(one.name, 75)
            assert set(truth) <= set(one.many[equation])
    for terms in filter(None, (one.few, one.many)):
        assert set(one.coefficients()) <= set(one.library(terms).names)


def test_published_sizes():
    sizes = {name: (*one.sizes["full"][0], one.sizes["full"][1]) for name, one in CASES.items()}
    assert sizes["lambda_omega"] == (256, 256, 201)
    assert sizes["porous_medium"] == (200, 200, 128)
    assert sizes["sine_gordon"] == (403, 129, 205)
    assert sizes["vorticity"] == (324, 149, 201)
    assert (sizes["ks_256"], sizes["ks_512"]) == ((256, 301), (512, 160))
    assert (sizes["cube"], sizes["library"]) == ((64, 64, 64, 40), (64, 64, 51))


def test_texts_of_terms():
    assert Term(monomial(u=2, v=1), (2, 1)).text == "dx(dx(dy(u**2*v)))"
    assert Term(Integrand((("u", 2),), "sin"), (0,)).text == "sin(2*u)"
    assert Term(Integrand(), (0, 0)).text == "1"
    assert len(monomials("uv", 5)) == 20
    assert len(pure(2, 4)) == 9


@pytest.mark.parametrize("p", range(1, 6))
def test_unbiased_powers_and_waves(p):
    """Gauss–Hermite quadrature is exact for the mean of a polynomial over the noise."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    u, sigma = 0.7, 0.3
    noisy = u + sigma * nodes
    assert_allclose(weights @ hermite(noisy, p, sigma**2) / weights.sum(), u**p, rtol=1e-12)
    wave = Integrand((("u", p),), "cos").unbiased({"u": noisy}, {"u": sigma**2})
    assert_allclose(weights @ wave / weights.sum(), np.cos(p * u), rtol=1e-9)


@pytest.fixture
def coarse(monkeypatch, tmp_path):
    """Solvers with few modes, and a cache of their own."""
    monkeypatch.setenv("BVSI_CACHE", str(tmp_path))
    monkeypatch.setattr(solvers, "SINE_GORDON", solvers.Sides((20.0, 6.4), (96, 32)))
    monkeypatch.setattr(solvers, "VISCOSITY", 0.05)
    monkeypatch.setattr(solvers, "VORTICITY", solvers.Sides((13.66, 2 * np.pi), (96, 45)))


def _derivative(values, axis, length, order):
    """By Fourier series along an axis of (T, n, m)."""
    k = 2j * np.pi * np.fft.fftfreq(values.shape[axis], length / values.shape[axis])
    shape = [-1 if a == axis else 1 for a in range(3)]
    return np.fft.ifft(k.reshape(shape) ** order * np.fft.fft(values, axis=axis), axis=axis).real


def test_sine_gordon_data_satisfy_their_equation(coarse):
    data = solvers.sine_gordon((96, 32), 401)
    u, h = data.grid_field("u"), data.times[1] - data.times[0]
    u_tt = (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2
    right = _derivative(u, 1, 20.0, 2) + _derivative(u, 2, 6.4, 2) - np.sin(u)
    assert_allclose(u_tt, right[1:-1], atol=5e-3 * np.abs(right).max())


def test_vorticity_data_satisfy_their_equation(coarse):
    data = solvers.vorticity((96, 45), 201)
    w, u, v = (data.grid_field(name) for name in "wuv")
    h, sides = data.times[1] - data.times[0], solvers.VORTICITY.lengths
    w_t = (w[2:] - w[:-2]) / (2 * h)
    flux = _derivative(u * w, 1, sides[0], 1) + _derivative(v * w, 2, sides[1], 1)
    right = solvers.VISCOSITY * (_derivative(w, 1, sides[0], 2) + _derivative(w, 2, sides[1], 2)) - flux
    assert np.sqrt(np.mean((w_t - right[1:-1]) ** 2)) < 0.03 * np.sqrt(np.mean(right**2))
    assert_allclose(_derivative(u, 1, sides[0], 1) + _derivative(v, 2, sides[1], 1), 0.0, atol=1e-6)


def test_samples_at_other_nodes_are_exact():
    x = np.arange(30) * 2 * np.pi / 30
    values = np.stack([np.cos(3 * x[:, None]) * np.sin(2 * x[None, :15] * 2)] * 2)
    fewer = solvers.at_nodes(values, (8, 15))
    assert_allclose(fewer[0], np.cos(3 * np.arange(8) * 2 * np.pi / 8)[:, None] * values[0, 0], atol=1e-12)


@pytest.mark.parametrize("name", ["ks_256", "porous_medium"])
def test_plain_least_squares_finds_the_true_coefficients(name, tmp_path, monkeypatch):
    monkeypatch.setenv("BVSI_CACHE", str(tmp_path))
    one = case(name)
    theta = floor.coefficients(one, one.noisy(one.sizes["tiny"], 0))
    for term, value in one.coefficients().items():
        assert theta[term] == pytest.approx(value, rel=0.06)


def test_errors_of_a_missing_and_of_a_spurious_term():
    truth = {"u": 1.0, "v": -2.0}
    assert measure.errors({"u": 1.0}, truth, {}) == {"error": None, "sd": None, "z": None, "exact": False}
    found = measure.errors({"u": 1.1, "v": -2.1, "w": 1.0}, truth, {"u": 0.05, "v": 0.2, "w": 1.0})
    assert found["exact"] is False
    assert_allclose([found["error"], found["sd"], found["z"]], [0.1, 0.1, 2.0])


def test_exponents_and_ratios():
    rows = [{"ways": {"few": {"cpu": 2.0 * n**1.5, "values": n}, "floor": {"cpu": 1.0}}} for n in (10, 100, 1000)]
    assert run.exponent(rows, "few") == pytest.approx(1.5)
    assert run.exponent(rows[:1], "few") is None
    assert run.ratio(rows[0], "few", "floor") == pytest.approx(2 * 10**1.5)
    assert run.ratio(rows[0], "few", "pysindy") is None
    rows[0]["ways"]["few"]["floor_cpu"] = 0.5  # measured beside it
    assert run.ratio(rows[0], "few", "floor") == pytest.approx(4 * 10**1.5)


def test_what_cannot_be_measured_is_told():
    assert "ten" in run.absent(case("cube"), "many")
    assert "express" in run.absent(case("porous_medium"), "pysindy")
    with pytest.raises(BvsiError, match="none of full, small, tiny"):
        run.ScalePlan("huge")
    with pytest.raises(BvsiError, match="none of lambda_omega"):
        run.ScalePlan(cases=("lambda",))


def test_the_command_writes_table_record_and_figure(tmp_path, monkeypatch):
    """Ten and all candidates of a tiny case, in this process; a failure is reported."""
    from typer.testing import CliRunner

    def here(task, settings):
        if settings["way"] == "floor_many":
            raise BvsiError("scale with {} failed: out of memory")
        return worker.TASKS[task](**{**settings, "cpu_limit": 0, "memory_limit": 0})

    monkeypatch.setattr(run, "in_own_process", here)
    arguments = ["--size", "tiny", "--cases", "ks_256", "--cache", str(tmp_path / "c"), "--out", str(tmp_path)]
    result = CliRunner().invoke(bench, ["scale", *arguments])
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "scale.json").read_text(encoding="utf-8"))
    ways = record["rows"][0]["ways"]
    assert ways["few"]["exact"]
    assert ways["many"]["exact"]
    assert ways["floor_many"] == {"failed": "out of memory"}
    assert "failed: out of memory" in (tmp_path / "scale.md").read_text(encoding="utf-8")
    assert (tmp_path / "scale.png").stat().st_size > 1000
    assert record["machine"]["versions"]
    told = result.output.splitlines()
    assert [line.partition(": ")[0] for line in told[:2]] == [
        "ks_256 128×61, NumPy, true terms",
        "ks_256 128×61, NumPy, all candidates",
    ]
    assert "right model yes" in told[2]


def test_what_is_measured_is_on_disk_when_the_rest_fails(tmp_path, monkeypatch):
    """A run that is stopped has printed and kept what came before."""
    from typer.testing import CliRunner

    def here(task, settings):
        if settings["way"] == "few":
            raise KeyboardInterrupt
        return worker.TASKS[task](**{**settings, "cpu_limit": 0, "memory_limit": 0})

    monkeypatch.setattr(run, "in_own_process", here)
    arguments = ["--size", "tiny", "--cases", "porous_medium", "--cache", str(tmp_path / "c"), "--out", str(tmp_path)]
    assert CliRunner().invoke(bench, ["scale", *arguments]).exit_code != 0
    record = json.loads((tmp_path / "scale.json").read_text(encoding="utf-8"))
    assert list(record["rows"][0]["ways"]) == ["floor", "floor_many"]
