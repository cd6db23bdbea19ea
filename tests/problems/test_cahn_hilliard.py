"""The paper's Cahn–Hilliard case on few elements."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError
from bvsi.operators import InteriorPenalty, Mixed
from bvsi.residual import BackwardEuler, CrankNicolson
from bvsi.spaces import P2, Q2, Galerkin
from bvsi.studies.problems import cahn_hilliard
from bvsi.studies.problems.cahn_hilliard import (
    TRUTH,
    CahnHilliardCase,
    DataSet,
    clean,
    error,
    library,
    observed,
    step_residuals,
)

SMALL = CahnHilliardCase(nx=4)


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("cahn-hilliard")))
        yield


def test_sixteen_of_the_thirty_candidates_are_true():
    whole = library()
    assert len(whole) == 30
    assert len(TRUTH) == 16
    assert set(TRUTH) <= set(whole.names)
    assert set(library(names=TRUTH).names) == set(TRUTH)
    assert TRUTH["c1: biharmonic(c1)"] == TRUTH["c2: biharmonic(c2)"] == -1
    assert sum(name.startswith("c1: ") for name in TRUTH) == 8


def test_mixed_terms_of_the_energy_have_one_coefficient_in_both_equations():
    assert TRUTH["c1: laplacian(diff(c1*c2, c1))"] == TRUTH["c2: laplacian(diff(c1*c2, c2))"]


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"nx": 3}, "nx"),
        ({"nx": 0}, "nx"),
        ({"nx": 101}, "nx"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": -1e-3}, "sigma"),
        ({"sigma": float("nan")}, "sigma"),
        ({"sigma": float("inf")}, "sigma"),
        ({"seed": -1}, "seeds"),
        ({"initial": -1}, "seeds"),
    ],
    ids=str,
)
def test_cases_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(BvsiError, match=message):
        CahnHilliardCase(**wrong)


@pytest.mark.parametrize("data", DataSet)
def test_each_data_set_has_the_discretisation_of_its_solver(data):
    case, spectral = CahnHilliardCase(data), data in (DataSet.INDEPENDENT, DataSet.STATED)
    assert case.spectral == spectral
    assert case.element == (Q2 if spectral else P2)
    assert isinstance(case.stencil, CrankNicolson if spectral else BackwardEuler)
    assert isinstance(case.treatment, Mixed if spectral else InteriorPenalty)
    assert case.grid.shape == (41, 41)


def test_the_data_solve_the_equations_of_their_own_discretisation():
    residuals = step_residuals(SMALL)
    assert residuals.shape == (10,)
    assert residuals.max() < 1e-8


def test_mass_is_conserved():
    data = clean(SMALL)
    assert_array_equal(data.times, np.linspace(0, 20, 11))
    space = Galerkin(P2).build(data.geometry, 4)
    weights = space.pattern.matrix(space.mass).toarray().sum(axis=0)
    for c in data.fields.values():
        mass = c @ weights
        assert_allclose(mass, mass[0], rtol=1e-10)
        assert mass[0] == pytest.approx(0.5 * 400, rel=0.1)


def test_a_second_run_reads_the_same_from_the_cache(monkeypatch):
    first = clean(SMALL)
    monkeypatch.setattr(cahn_hilliard, "simulate", lambda *_, **__: pytest.fail("solved again"))
    again = clean(SMALL)
    for f in ("c1", "c2"):
        assert_array_equal(again.fields[f], first.fields[f])
    clean(CahnHilliardCase(nx=4, sigma=0.5, seed=7))  # noise is no part of it


def test_noise_has_the_stated_size_and_seed():
    case = CahnHilliardCase(nx=4, sigma=0.01, seed=5)
    noise = np.stack([observed(case).fields[f] - clean(case).fields[f] for f in ("c1", "c2")])
    assert_allclose(noise.std(), 0.01, rtol=0.1)
    again = np.stack([observed(case).fields[f] - clean(case).fields[f] for f in ("c1", "c2")])
    assert_array_equal(noise, again)
    assert not np.array_equal(
        observed(case).fields["c1"], observed(CahnHilliardCase(nx=4, sigma=0.01, seed=6)).fields["c1"]
    )


def test_the_stated_data_are_ten_frames_of_the_spectral_solver():
    case = CahnHilliardCase(DataSet.STATED, nx=4)
    data = clean(case)
    assert_allclose(data.times, np.arange(1, 11) / 2)
    assert data.geometry.shape == (9, 9)
    weights = np.full(9, 1.0)
    weights[[0, -1]] /= 2
    for c in data.fields:
        mass = np.einsum("tij,i,j->t", data.grid_field(c), weights, weights)
        assert_allclose(mass, mass[0], rtol=1e-4)  # of a mesh coarser than the solver's


def test_the_error_counts_missing_and_surplus_operators():
    assert error(TRUTH) == 0
    assert error({}) == pytest.approx(np.linalg.norm(list(TRUTH.values())))
    assert error({**TRUTH, "c1: laplacian(diff(c1**5, c1))": 3.0}) == pytest.approx(3.0)
