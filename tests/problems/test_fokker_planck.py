"""The paper's Fokker–Planck case: small runs of everything around it, and one run of the paper's size."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError, OperatorError
from bvsi.infer import LeastSquares
from bvsi.predict import potential_map
from bvsi.studies.problems import fokker_planck
from bvsi.studies.problems.fokker_planck import Case, error, fit_true_model, forward_solve, observed

NAMES = ["laplacian(p)", "div(p*grad(x))", "div(p*grad(y))", "div(p*grad(x**2))", "div(p*grad(y**2))"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fokker-planck")


@pytest.fixture
def small(monkeypatch, folder):
    """40 × 40 cells instead of 400 × 400; the forward solves are shared by the tests of this file."""
    monkeypatch.setattr(fokker_planck, "N_FINE", 40)
    monkeypatch.setenv("BVSI_CACHE", str(folder))
    return folder


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = fokker_planck.main([*arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_json_holds_both_fits_by_operator_name(small, capsys):
    code, out, err = run(capsys, "--nx", "20", "--json")
    assert code == 0
    assert err == ""
    assert len(out.strip().splitlines()) == 1
    found = json.loads(out)
    assert set(found) == {"vsi", "lagged", "profile"}
    assert {"theta", "error"} <= set(found["vsi"])
    assert {"theta", "error", "variance", "chi2"} <= set(found["lagged"])
    for fit in found.values():
        assert list(fit["theta"]) == NAMES
        truth = np.array([1.0, -5.0, -25.0, 1.0, 5.0])
        assert_allclose(fit["error"], np.linalg.norm(np.array(list(fit["theta"].values())) - truth), rtol=1e-12)
    assert list(found["lagged"]["variance"]) == NAMES
    assert all(v > 0 for v in found["lagged"]["variance"].values())
    assert found["lagged"]["chi2"] > 0


def test_text_names_operators_and_errors(small, capsys):
    code, out, _ = run(capsys, "--nx", "20")
    assert code == 0
    assert all(out.count(name) == 3 for name in NAMES)
    assert out.count("error") >= 2
    assert "±" in out


def test_the_other_element_gives_another_fit(small, capsys):
    linear, quadratic = (json.loads(run(capsys, "--nx", "20", "--json", "--element", e)[1]) for e in ("Q1", "Q2"))
    assert linear["vsi"]["theta"] != quadratic["vsi"]["theta"]


def test_seeds_reproduce(small, capsys):
    first, again, other = (run(capsys, "--nx", "10", "--json", "--seed", s)[1] for s in ("3", "3", "4"))
    assert first == again
    assert first != other


def test_noise_has_the_stated_size_and_seed(small):
    clean = forward_solve(40, False).subsample(2).fields["p"]
    noise = observed(Case(nx=20, sigma=0.01, seed=5)).fields["p"] - clean
    assert_allclose(noise.std(), 0.01, rtol=0.02)
    assert_allclose(noise.mean(), 0, atol=5 * 0.01 / np.sqrt(noise.size))
    assert_array_equal(noise, observed(Case(nx=20, sigma=0.01, seed=5)).fields["p"] - clean)
    assert not np.array_equal(noise, observed(Case(nx=20, sigma=0.01, seed=6)).fields["p"] - clean)


def test_data_are_the_papers(small):
    """51 times on [0, 1], the square [−5, 5]², a density that starts at (−2, −2) and keeps its mass."""
    data = forward_solve(40, False)
    assert_allclose(data.times, np.linspace(0, 1, 51))
    assert data.geometry.shape == (41, 41)
    assert_allclose(data.geometry.axes["x"][[0, -1]], [-5, 5])
    p = data.grid_field("p")
    peak = np.unravel_index(p[0].argmax(), p[0].shape)
    assert_allclose([data.geometry.axes[a][i] for a, i in zip("xy", peak, strict=True)], [-2, -2])
    weights = np.full(41, 0.25)
    weights[[0, -1]] /= 2
    mass = np.einsum("tij,i,j->t", p, weights, weights)
    assert_allclose(mass, mass[0], rtol=1e-10)
    assert_allclose(mass[0], 1, rtol=0.01)


def test_the_initial_density_integrates_to_one():
    axis = np.linspace(-6, 2, 401)
    points = np.stack([a.ravel() for a in np.meshgrid(axis, axis, indexing="ij")], axis=1)
    density = fokker_planck.initial_density(points)
    cell = (axis[1] - axis[0]) ** 2
    assert_allclose(density.sum() * cell, 1, rtol=1e-6)
    mean = density @ points * cell
    assert_allclose(mean, [-2, -2], rtol=1e-6)
    assert_allclose((points - mean).T * density @ (points - mean) * cell, [[0.2, -0.3], [-0.3, 0.5]], rtol=1e-4)


def test_the_own_discretisation_recovers_the_truth(small):
    """Clean data on the grid of the forward solve: backward Euler in both, no error left."""
    fit = LeastSquares().fit(fokker_planck.residual_system(forward_solve(40, False)))
    assert error(fit) < 1e-7


def test_accurate_time_is_another_data_set(small, capsys):
    plain, accurate = forward_solve(40, False).fields["p"], forward_solve(40, True).fields["p"]
    assert_array_equal(plain[0], accurate[0])
    assert np.abs(plain - accurate).max() > 0.01 * plain.max()
    fits = [json.loads(run(capsys, "--nx", "20", "--json", *extra)[1]) for extra in ((), ("--accurate-time",))]
    assert fits[0]["lagged"]["theta"] != fits[1]["lagged"]["theta"]


def test_a_second_run_reads_the_cache(small, monkeypatch):
    first = forward_solve(40, False).fields["p"]

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("solved again")

    monkeypatch.setattr(fokker_planck, "simulate", refuse)
    assert_array_equal(forward_solve(40, False).fields["p"], first)


def test_a_damaged_cache_is_made_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("BVSI_CACHE", str(tmp_path))
    first = forward_solve(8, False).fields["p"]
    (file,) = tmp_path.glob("*.npz")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert_array_equal(forward_solve(8, False).fields["p"], first)
    assert file.read_bytes() == whole


def test_cached_data_of_another_kind_are_made_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("BVSI_CACHE", str(tmp_path))
    first = forward_solve(8, False).fields["p"]
    (file,) = tmp_path.glob("*.npz")
    np.savez(file, something=np.zeros(3))
    assert_array_equal(forward_solve(8, False).fields["p"], first)


@pytest.mark.parametrize("nx", [0, 1, -10, 3, 33, 41, 80])
def test_a_grid_that_does_not_divide_the_forward_solve_is_refused(small, capsys, nx):
    with pytest.raises(BvsiError, match="nx"):
        Case(nx=nx)
    code, out, err = run(capsys, "--nx", str(nx), "--json")
    assert code == 2
    assert out == ""
    assert err.startswith("error: nx")
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [("--sigma", "0"), ("--sigma", "-1"), ("--sigma", "nan"), ("--seed", "-1")])
def test_impossible_noise_is_refused(small, capsys, arguments):
    code, out, err = run(capsys, "--nx", "10", "--json", *arguments)
    assert code == 2
    assert out == ""
    assert arguments[0].removeprefix("--") in err


def test_the_error_counts_missing_and_surplus_operators(small):
    system = fokker_planck.residual_system(forward_solve(40, False))
    fit = LeastSquares().fit(system.subset(NAMES[:4]))
    found = dict(zip(fit.names, fit.theta, strict=True))
    truth = dict(zip(NAMES, [1.0, -5.0, -25.0, 1.0, 5.0], strict=True))
    expected = np.sqrt(sum((found.get(n, 0) - truth[n]) ** 2 for n in NAMES))
    assert_allclose(error(fit), expected, rtol=1e-12)
    assert error(fit) > 4.9


def test_the_potential_is_the_papers():
    """ψ = (x−5/2)² + 5(y−5/2)² up to a constant: θ = −5, −25, 1, 5."""
    axis = np.linspace(-1, 1, 5)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    basis = potential_map(tuple(fokker_planck.TRUTH), {"x": axis, "y": axis})
    psi = np.tensordot(list(fokker_planck.TRUTH.values()), basis.values, axes=1)
    expected = (x - 2.5) ** 2 + 5 * (y - 2.5) ** 2
    assert_allclose(psi, expected - expected.mean(), atol=1e-12)


def test_the_ten_candidates_make_a_library():
    library = fokker_planck.library(fokker_planck.CANDIDATES)
    assert len(library) == 10
    assert list(library.names[:5]) == NAMES
    assert library.keep == ("laplacian(p)",)
    with pytest.raises(OperatorError):
        fokker_planck.library(("div(p*grad(x))",))  # the Laplacian is protected, so it has to be there


def test_the_figures_of_the_paper(full_size, monkeypatch):
    """n_x = 50, σ = 1e-3 on the real 400 × 400 forward solve (tab:FP_parameters; DESIGN.md, section 4)."""
    monkeypatch.setenv("BVSI_CACHE", str(full_size))
    fits = fit_true_model(Case(nx=50, sigma=1e-3, seed=0))
    assert fits["vsi"].names == tuple(NAMES)
    assert abs(error(fits["vsi"]) - 1.72) < 0.05
    lagged = fits["lagged"]
    assert lagged.status.converged
    assert 0.87 < error(lagged) < 0.90
    assert_allclose(lagged.posterior.variance, [5.63e-7, 1.74e-5, 1.84e-4, 2.02e-6, 7.83e-6], rtol=0.05)
    assert abs(lagged.chi2 - 1.10) < 0.02
