"""The treatment of ∇⁴ that a discovery takes: the one that fits better, where there is a choice."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery import Method, discover
from bvsi.discovery.method import TreatmentCheck, treatments, with_treatment
from bvsi.likelihood import Block, Isotropic
from bvsi.noise import IID, add_noise
from bvsi.operators import InteriorPenalty, Library, Mixed, ZeroNeumann
from bvsi.residual import CrankNicolson
from bvsi.setup import Setup
from bvsi.spaces import H3, P2, Q1, Q2, Galerkin

SIGMA = 1e-4
EPSILON = 1e-4
TIMES = np.linspace(0, 1, 21)
LINE = Grid(x=np.linspace(0, 1, 33))
RING = Grid(x=np.arange(32) / 32, periodic="x")
SQUARE = Grid(x=np.linspace(0, 1, 9), y=np.linspace(0, 1, 9))


def exact(grid, sigma=SIGMA):
    """1 + Σ_k a_k Π cos(k q x) exp(−ε (d k² q²)² t), the solution of u_t = −ε ∇⁴u, with noise."""
    q, d = (2 if grid.periods else 1) * np.pi, len(grid.names)
    waves = [
        a * np.cos(k * q * grid.points).prod(axis=1) * np.exp(-EPSILON * (d * (k * q) ** 2) ** 2 * TIMES[:, None])
        for k, a in ((1, 1.0), (2, 0.6), (3, 0.4))
    ]
    return add_noise(Data(TIMES, {"u": 1 + sum(waves)}, grid), sigma, np.random.default_rng(0))


def library(treatment=None, operators=("biharmonic(u)", "laplacian(u)", "u")):
    return Library({"u": list(operators)}, boundary=ZeroNeumann(), biharmonic=treatment)


@pytest.mark.parametrize("grid", [LINE, RING, SQUARE], ids=["line", "ring", "square"])
def test_samples_of_a_smooth_solution_ask_for_the_mixed_form(grid):
    found = discover(exact(grid), library(), noise=IID(SIGMA), method=Method(tests=Galerkin(Q2)), check=False)
    told = found.settings["biharmonic"]
    assert told.startswith("mixed")
    assert "interior penalty" in told
    assert told.count("χ²/n") == 1
    used, other = (float(part.split()[0].rstrip(";")) for part in (told.split("= ")[1], told.split(": ")[-1]))
    assert used < other
    assert "biharmonic(u)" in found.names


def test_the_truth_is_found_with_the_treatment_chosen():
    found = discover(exact(LINE), library(), noise=IID(SIGMA), method=Method(tests=Galerkin(Q2)), check=False)
    assert found.names == ("biharmonic(u)",)
    assert found.theta[0] == pytest.approx(-EPSILON, rel=1e-3)


@pytest.mark.parametrize("noise", [IID(SIGMA), None], ids=["known", "unknown"])
def test_the_result_is_that_of_the_treatment_stated(noise):
    chosen = discover(exact(LINE), library(), noise=noise, method=Method(tests=Galerkin(Q2)), check=False)
    stated = discover(exact(LINE), library(Mixed()), noise=noise, method=Method(tests=Galerkin(Q2)), check=False)
    assert chosen.settings["biharmonic"].startswith("mixed")
    assert chosen.equation == stated.equation
    assert chosen.chi2 == stated.chi2


@pytest.mark.parametrize("treatment", [Mixed(), InteriorPenalty()], ids=["mixed", "interior penalty"])
def test_a_treatment_that_is_stated_is_left_alone(treatment):
    stated = library(treatment)
    assert treatments(stated, Q2) == ()
    assert used(exact(LINE), stated, Q2) == (stated, TreatmentCheck())
    found = discover(exact(LINE), stated, noise=IID(SIGMA), method=Method(tests=Galerkin(Q2)), check=False)
    assert "biharmonic" not in found.settings


def used(data, candidates, element, weighting=None):
    setup = Setup((data,), (IID(SIGMA),), ({},), candidates, Galerkin(element), CrankNicolson(), weighting or Block())
    found, check = with_treatment(setup)
    return found.library, check


@pytest.mark.parametrize(
    "grid, element", [(LINE, Q1), (SQUARE, P2), (RING, H3)], ids=["Q1", "P2 triangles", "periodic H3"]
)
def test_other_elements_leave_no_choice(grid, element):
    assert len(treatments(library(), element)) < 2
    candidates = library()
    found, check = used(exact(grid), candidates, element)
    assert found is candidates
    assert check == TreatmentCheck()
    assert str(check) == "no choice"


def test_each_element_allows_its_own_treatments():
    assert treatments(library(), Q1) == (Mixed(),)
    assert treatments(library(), P2) == (InteriorPenalty(),)
    assert treatments(library(), Q2) == (Mixed(), InteriorPenalty())
    assert treatments(library(), H3) == ()


def test_without_a_biharmonic_there_is_nothing_to_choose():
    candidates = library(operators=("laplacian(u)", "u"))
    assert treatments(candidates, Q2) == ()
    assert used(exact(LINE), candidates, Q2) == (candidates, TreatmentCheck())


def test_weights_without_noise_cannot_tell():
    candidates = library()
    assert used(exact(LINE), candidates, Q2, Isotropic()) == (candidates, TreatmentCheck())
