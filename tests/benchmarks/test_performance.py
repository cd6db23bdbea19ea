"""``bvsi bench performance``: the dense reference, the MAP, exponents, targets, the files. No timing is asserted."""

from __future__ import annotations

import functools
import json
import math
import sys

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.forward import simulate
from bvsi.infer import Lagged
from bvsi.infer.priors import BoundPrior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from bvsi.studies.benchmarks.performance import cases, growth, literal, run, worker
from bvsi.studies.benchmarks.performance.bare import lagged
from bvsi.studies.benchmarks.performance.compare import _peer
from bvsi.studies.benchmarks.performance.observation_map import gauss_newton, observation_map
from bvsi.studies.benchmarks.performance.ours import Found, agreement, assembled, paper_algorithm
from bvsi.studies.benchmarks.performance.report import markdown
from bvsi.studies.benchmarks.performance.targets import targets
from bvsi.studies.problems import fokker_planck


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The paper's case from a forward solve on few nodes with few steps."""
    monkeypatch.setenv("BVSI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fokker_planck, "N_FINE", 20)
    monkeypatch.setattr(fokker_planck, "N_STEPS", 8)


@pytest.fixture
def data(small) -> Data:
    return fokker_planck.observed(fokker_planck.Case(nx=10))


LIBRARY = fokker_planck.library(fokker_planck.CANDIDATES[:7])


def test_the_dense_way_and_bvsi_select_the_same_model_with_the_same_posterior(data):
    dense = literal.Dense.of(assembled(data, LIBRARY), 1e-3)
    reference = literal.select(dense, LIBRARY.keep)
    found = paper_algorithm(data, LIBRARY, 1e-3, refit_all=True)
    assert found.fits == reference.fits > 7
    assert len(reference.best.names) < 7
    for mine, theirs in ((found.best, reference.best), (found.full, reference.full)):
        alike = agreement(mine, theirs)
        assert alike.same, alike
        assert alike.theta < 1e-7


def test_the_dense_score_is_the_residual_bic(data):
    system = assembled(data, LIBRARY)
    fit = literal.fit(literal.Dense.of(system, 1e-3))
    likelihood = residual_likelihood(system, IID(1e-3))
    expected = -2 * likelihood.log_density(fit.theta) + 7 * math.log(system.n)
    assert fit.score == pytest.approx(expected, rel=1e-10)


def test_models_left_out_for_lack_of_time_are_extrapolated(data):
    selected = literal.select(literal.Dense.of(assembled(data, LIBRARY), 1e-3), LIBRARY.keep, limit=0.0)
    assert (selected.fits, selected.skipped) == (1, 6)
    assert selected.best is selected.full
    assert selected.seconds == pytest.approx(7 * selected.clock.seconds)


def test_seconds_with_every_block_add_products_and_factors_of_the_other_times():
    fit = literal.LiteralFit(("u",), np.ones(1), np.eye(1), 0.0, 1)
    clock = literal.Clock(forming=1.0, factorising=2.0, solving=4.0, evaluations=3)
    selected = literal.LiteralSelection(fit, fit, fits=1, skipped=0, blocks=10, clock=clock)
    assert selected.seconds == 7
    assert selected.seconds_every_block == 7 + 9 * 3
    assert selected.seconds_without_forming == 6


def test_the_dense_way_refuses_jacobians_that_change_with_the_state():
    x = np.linspace(0, 1, 6)
    fields = {"u": np.random.default_rng(0).random((3, 6))}
    data = Data.from_arrays(fields, times=[0.0, 0.1, 0.2], geometry=Grid(x=x))
    with pytest.raises(BvsiError, match="linear in the state"):
        literal.Dense.of(assemble(data, Library({"u": ["u**2"]}, boundary=NoFlux())), 1e-3)


def test_results_with_other_operators_or_coefficients_are_not_the_same():
    reference = literal.LiteralFit(("a", "b"), np.array([1.0, 2.0]), np.diag([1e-4, 1e-4]), 0.0, 1)
    assert not agreement(Found(("a",), np.ones(1), np.eye(1)), reference).same
    moved = agreement(Found(("a", "b"), np.array([1.0, 2.1]), reference.covariance), reference)
    assert moved.model
    assert not moved.same
    assert moved.theta == pytest.approx(0.1 / 2.01)
    wider = agreement(Found(("a", "b"), reference.theta, np.diag([1e-4, 2e-4])), reference)
    assert not wider.same
    assert wider.covariance == pytest.approx(1.0)


def test_gauss_newton_on_a_linear_model_is_bayesian_regression():
    rng = np.random.default_rng(0)
    A, sigma = rng.standard_normal((30, 3)), 0.1
    observed = A @ [1.0, -2.0, 0.5] + sigma * rng.standard_normal(30)
    prior = BoundPrior(np.array([0.5, 0.0, 0.0]), np.diag([10.0, 1.0, 0.0]))
    found = gauss_newton(lambda theta: A @ theta, observed, sigma, prior, np.zeros(3))
    H = A.T @ A / sigma**2 + prior.precision
    expected = np.linalg.solve(H, A.T @ observed / sigma**2 + prior.precision @ prior.mean)
    assert found.converged
    assert np.allclose(found.theta, expected, rtol=1e-6)
    assert np.allclose(found.covariance, np.linalg.inv(H), rtol=1e-4)
    assert found.solves == 1 + found.iterations * (3 + 1)


def test_steps_whose_forward_solve_fails_are_halved():
    def forward(theta):
        if theta[0] <= 0.01:
            raise BvsiError("no solution")
        return np.log(theta)

    flat = BoundPrior(np.zeros(1), np.zeros((1, 1)))
    found = gauss_newton(forward, np.log(np.array([1.0])), 1e-3, flat, np.array([6.0]))
    assert found.converged
    assert found.theta == pytest.approx(1.0, rel=1e-6)
    assert found.solves > 1 + 2 * found.iterations


def test_the_map_recovers_the_coefficients_of_its_own_forward_solves():
    axis = np.linspace(-5, 5, 11)
    grid, times = Grid(x=axis, y=axis), np.linspace(0, 0.5, 6)
    library = fokker_planck.library(("laplacian(p)", "div(p*grad(x))", "div(p*grad(x**2))"))
    start = np.exp(-np.sum((grid.points + 1) ** 2, axis=1) / 4)
    initial = Data(times=times[:2], fields={"p": np.stack([start, start])}, geometry=grid, auxiliary={})
    truth = np.array([1.0, -0.5, 0.3])
    data = simulate(library, truth, initial, times)
    flat = BoundPrior(np.zeros(3), np.zeros((3, 3)))
    found = observation_map(data, library, initial, 1e-3, flat, np.array([1.3, 0.0, 0.5]))
    assert found.converged
    assert np.allclose(found.theta, truth, atol=1e-6)
    assert found.chi2 < 1e-6


def test_exponents_are_slopes_of_logarithms():
    sizes = np.array([100, 400, 1600])
    assert growth.exponent(sizes, 3e-5 * sizes**1.25) == pytest.approx(1.25)
    assert math.isnan(growth.exponent([100], [1.0]))
    rows = [{"times": n, "iteration": 2.0 * n, "fit": 5.0, "total": n**0.5} for n in (10, 20, 50)]
    assert growth.exponents(rows, "times") == pytest.approx({"iteration": 1.0, "fit": 0.0, "total": 0.5}, abs=1e-12)


def test_frames_that_the_forward_solve_lacks_lie_on_its_interpolant(small):
    case = fokker_planck.Case(nx=10, sigma=1e-12)
    more, given = growth.with_frames(case, 17), fokker_planck.observed(case)
    assert len(more.times) == 17
    assert np.allclose(more.fields["p"][::2], given.fields["p"], atol=1e-10)


def test_iterations_are_timed_without_start_and_end(data):
    likelihood = residual_likelihood(assembled(data, LIBRARY), IID(1e-3))
    start = np.array([fokker_planck.TRUTH.get(name, 0.0) for name in likelihood.names])
    seconds, iteration, fit = lagged(likelihood, start)
    assert 0 < iteration < seconds
    assert np.array_equal(fit.theta, Lagged().fit(likelihood, start=start).theta)


def test_strang_splitting_is_of_second_order():
    times = np.array([0.0, 1.0])
    reference, coarse, fine = (cases.reaction_diffusion(8, times, s).fields["u"][-1] for s in (128, 4, 8))
    errors = [np.abs(u - reference).max() for u in (coarse, fine)]
    assert errors[0] < 1e-2
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_finer_cahn_hilliard_data_pass_through_the_solved_ones(monkeypatch):
    axis = np.linspace(0, 20, 9)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    smooth = 0.5 + 0.1 * np.cos(np.pi * x / 20) * np.cos(np.pi * y / 20)
    grid, times = Grid(x=axis, y=axis), np.array([0.0, 1.0])
    solved = Data.from_arrays({f: np.stack([smooth, smooth**2]) for f in ("c1", "c2")}, times=times, geometry=grid)
    monkeypatch.setattr(cases, "_SOLVED", 4)
    monkeypatch.setattr(cases.cahn_hilliard, "clean", lambda case: solved)
    fine = cases._concentrations(cases.cahn_hilliard.CahnHilliardCase(nx=8))
    assert fine.grid_field("c1").shape == (2, 17, 17)
    assert np.allclose(fine.grid_field("c2")[:, ::2, ::2], solved.grid_field("c2"))


def test_a_case_tells_its_steps(monkeypatch):
    small = {"burgers": lambda nodes: cases.PreparedCase(*_heat(nodes), check=False)}
    monkeypatch.setattr(cases, "CASES", small)
    row = cases.measure("burgers", 32)
    assert row["exact"]
    assert row["check"] is None
    assert row["nodes"] == 32
    assert row["assembly"] + row["planning"] + row["selection"] <= row["total"] + 1
    with pytest.raises(BvsiError, match="none of burgers"):
        cases.measure("kdv", 32)


def _heat(nodes: int):
    x, t = 2 * np.pi * np.arange(nodes) / nodes, np.linspace(0, 1, 20)[:, None]
    u = sum(np.exp(-0.3 * k**2 * t) * np.sin(k * x + k**2) for k in (1, 2, 3))
    u = u + 1e-3 * np.random.default_rng(0).standard_normal(u.shape)
    data = Data.from_arrays({"u": u}, times=t.ravel(), geometry=Grid(x=x, periodic="x"))
    return data, Library({"u": ["dx(dx(u))", "dx(u)"]}), {"dx(dx(u))": 0.3}


def _comparison(seconds: dict, same: dict) -> dict:
    rows = [
        {"key": key, "label": key, "seconds": s, "note": "", "extrapolated": False, "same": same.get(key)}
        for key, s in seconds.items()
    ]
    return {"nx": 25, "nodes": 676, "rows": rows}


def test_only_what_gives_the_same_result_counts_against_the_dense_way():
    seconds = {"literal": 100.0, "literal_blocks": 900.0, "paper": 1.0, "paper_refit": 4.0, "own": 2.0, "forward": 0.1}
    exact = targets([_comparison(seconds, {"paper": True, "paper_refit": True})], {})
    assert [t.measured for t in exact] == [100, 900, None, 20]
    assert [t.met for t in exact] == [True, True, None, False]
    assert [t.measured for t in targets([_comparison(seconds, {"paper_refit": True})], {})][:2] == [25, 225]
    assert [t.measured for t in targets([_comparison(seconds, {})], {})][:2] == [None, None]


@pytest.mark.parametrize(("same", "measured"), [(None, 25), (False, None)])
def test_where_the_dense_way_was_cut_short_the_fits_that_there_are_have_to_agree(same, measured):
    one = _comparison({"literal": 100.0, "paper": 1.0, "paper_refit": 4.0}, {"paper": same, "paper_refit": same})
    one["rows"][0]["extrapolated"] = True
    assert targets([one], {})[0].measured == measured


def test_a_missing_peer_is_a_row_that_says_so(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysindy", None)
    from bvsi.studies.benchmarks.performance.compare import ComparedProblem

    row = _peer(ComparedProblem(fokker_planck.Case(nx=10), data))
    assert row.seconds is None
    assert "bvsi[bench]" in row.note


@pytest.fixture
def bench(command, monkeypatch):
    """Run the command in this process, with measurements that are else in processes of their own."""
    monkeypatch.setenv("COLUMNS", "120")

    def here(task, settings):
        return worker.TASKS[task](**settings, repeats=1)

    monkeypatch.setattr(growth, "in_own_process", here)
    monkeypatch.setattr(run, "in_own_process", here)

    return functools.partial(command, "bench", "performance")


def test_the_command_writes_table_record_and_figure(small, bench, tmp_path, monkeypatch):
    monkeypatch.setattr(fokker_planck, "CANDIDATES", fokker_planck.CANDIDATES[:6])
    code, out, err = bench("--sizes", 10, "--quick", "--skip-peer", "--out", tmp_path / "new")
    assert code == 0, err
    record = json.loads((tmp_path / "new" / "performance.json").read_text(encoding="utf-8"))
    assert [one["nx"] for one in record["comparisons"]] == [10]
    rows = {row["key"]: row for row in record["comparisons"][0]["rows"]}
    assert rows["paper_refit"]["same"] is (None if rows["literal"]["extrapolated"] else True)
    assert rows["literal_blocks"]["extrapolated"]
    assert set(record["growth"]) == {"nodes", "times", "operators"}
    assert [row["times"] for row in record["growth"]["times"]["rows"]] == [11, 21]
    assert record["machine"]["versions"]["numpy"] == np.__version__
    assert (tmp_path / "new" / "performance.md").read_text(encoding="utf-8") == markdown(record)
    assert markdown(record) in out
    assert (tmp_path / "new" / "performance.png").read_bytes().startswith(b"\x89PNG")
    for name in ("performance.json", "performance.md", "performance.png"):
        assert str(tmp_path / "new" / name) in out


@pytest.mark.parametrize(
    "arguments, word",
    [(["--sizes", "7"], "nx"), (["--sizes", "a"], "--sizes"), (["--sizes", "2.5"], "--sizes"), (["--sizes", ""], "--")],
    ids=lambda v: " ".join(v),
)
def test_bad_sizes_are_one_line_before_the_work(bench, tmp_path, arguments, word):
    code, out, err = bench(*arguments, "--out", tmp_path / "new")
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert word in err
    assert not (tmp_path / "new").exists()


def test_the_worker_prints_one_json_object(small, monkeypatch, capsys):
    monkeypatch.setattr(worker, "WARM_UP", {"lagged": lambda: None})
    settings = json.dumps({"nx": 10, "operators": 3, "repeats": 1})
    monkeypatch.setattr(sys, "argv", ["worker", "lagged", settings])
    assert worker.main() == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["nodes"], row["times"], row["operators"]) == (121, 9, 3)
    monkeypatch.setattr(sys, "argv", ["worker", "lagged", json.dumps({"nx": 10, "operators": 11})])
    assert worker.main() == 2
    assert "operators" in capsys.readouterr().err
