"""Discovery with priors, constraints and other estimators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data
from bvsi.discovery import Discovery, Method, discover
from bvsi.errors import BvsiError, InfeasibleError
from bvsi.infer import SVGD, Maximum, Profile
from bvsi.infer.constraints import Constraints
from bvsi.infer.posteriors import ParticlePosterior, TruncatedPosterior
from bvsi.infer.priors import JointNormal, Laplace, LogNormal, Prior
from bvsi.noise import IID
from bvsi.residual import CrankNicolson
from bvsi.spaces import Q2, Galerkin
from discovery.discovery_cases import COUPLED, COUPLED_TRUTH, LIBRARY, TRUTH, clean, noisy

SIGMA = 1e-3
# The data come from Q2 and Crank–Nicolson: with these there is no error of discretisation, and nothing to check.
Q2_METHOD = Method(tests=Galerkin(Q2), stencil=CrankNicolson())
ELEMENTS = {"method": Q2_METHOD, "check": False}
TIE = "v: laplacian(v) == 1.5*[u: laplacian(u)]"


@pytest.fixture(scope="module")
def data() -> Data:
    return noisy(clean(), SIGMA)


@pytest.fixture(scope="module")
def coupled() -> Data:
    return noisy(clean(COUPLED, COUPLED_TRUTH), SIGMA)


@pytest.fixture(scope="module")
def tied(coupled) -> Discovery:
    return discover(coupled, COUPLED, noise=IID(SIGMA), **ELEMENTS, constraints=TIE)


def test_operators_that_are_tied_have_tied_coefficients_and_smaller_error_bars(coupled, tied):
    plain = discover(coupled, COUPLED, noise=IID(SIGMA), **ELEMENTS)
    assert set(tied.names) == set(plain.names) == set(COUPLED_TRUTH)
    assert_allclose(tied.coefficient("laplacian(v)"), 1.5 * tied.coefficient("laplacian(u)"), rtol=1e-12)
    truth = np.array([COUPLED_TRUTH[name] for name in tied.names])
    assert_allclose((tied.theta - truth) / tied.sd, 0, atol=4.5)
    both = dict(zip(tied.names, tied.sd, strict=True)), dict(zip(plain.names, plain.sd, strict=True))
    assert both[0]["u: laplacian(u)"] < 0.9 * both[1]["u: laplacian(u)"]
    assert TIE in tied.settings["constraints"]


def test_a_path_of_tied_operators_is_written_in_all_of_them(tied):
    assert tied.path.visited[0].names == COUPLED.names
    assert set(tied.path.best.names) == set(COUPLED_TRUTH)
    assert set(tied.path.inclusion()) == set(COUPLED.names)
    best = dict(zip(tied.path.best.names, tied.path.best.theta, strict=True))
    assert_allclose(best["v: laplacian(v)"], 1.5 * best["u: laplacian(u)"], rtol=1e-12)
    assert "P(in)" in tied.table


def test_tied_operators_come_and_go_together(coupled):
    """A false operator tied to a true one stays, at the price of misfit; tied to a false one it goes."""
    kept = discover(coupled, COUPLED, noise=IID(SIGMA), **ELEMENTS, constraints="v: v == 0.2*[u: v]")
    assert "v: v" in kept.names
    gone = discover(coupled, COUPLED, noise=IID(SIGMA), **ELEMENTS, constraints="v: v == [u: dx(u)]")
    assert set(gone.names) == set(COUPLED_TRUTH)


def test_a_protected_operator_protects_what_it_is_tied_to(data):
    found = discover(data, LIBRARY, noise=IID(SIGMA), **ELEMENTS, constraints="laplacian(u) == [dx(u)]")
    assert {"laplacian(u)", "dx(u)"} <= set(found.names)


def test_an_equality_with_a_number_keeps_its_operators(data):
    found = discover(data, LIBRARY, noise=IID(SIGMA), **ELEMENTS, constraints="u**2 == 0.1")
    assert_allclose(found.coefficient("u**2"), 0.1, rtol=1e-12)
    assert found.sd[found.names.index("u**2")] == 0


def test_inequalities_hold_in_the_posterior(data):
    found = discover(data, LIBRARY, noise=IID(SIGMA), **ELEMENTS, constraints=Constraints(bounds={"u": (-0.45, None)}))
    assert isinstance(found.posterior, TruncatedPosterior)
    draws = found.posterior.sample(500, np.random.default_rng(0))
    assert draws[:, found.names.index("u")].min() >= -0.45
    assert "contradict" in found.status.message


def test_constraints_that_hold_anyway_change_nothing(data):
    plain = discover(data, LIBRARY, noise=IID(SIGMA), **ELEMENTS)
    found = discover(data, LIBRARY, noise=IID(SIGMA), **ELEMENTS, constraints=["laplacian(u) > 0", "u < 0"])
    assert found.names == plain.names
    assert_allclose(found.theta, plain.theta, rtol=1e-9)
    assert_allclose(found.sd, plain.sd, rtol=1e-9)


def test_an_infeasible_set_is_refused_before_any_work(data):
    with pytest.raises(InfeasibleError, match="cannot hold together"):
        discover(data, LIBRARY, noise=IID(SIGMA), **ELEMENTS, constraints=["u > 1", "u < 0"])
    with pytest.raises(BvsiError, match="did you mean"):
        discover(data, LIBRARY, noise=IID(SIGMA), **ELEMENTS, constraints="laplacian(w) > 1")


PRIOR = Prior({"laplacian(u)": LogNormal(-4, 0.5)}, Laplace(0, 1))


@pytest.mark.parametrize("estimator", [None, Maximum(), SVGD(25)], ids=str)
def test_any_estimator_serves_for_the_selected_model(data, estimator):
    found = discover(
        data, LIBRARY, noise=IID(SIGMA), prior=PRIOR, method=replace(Q2_METHOD, estimator=estimator), check=False
    )
    assert set(found.names) == set(TRUTH)
    assert_allclose(found.theta, [TRUTH[name] for name in found.names], rtol=0.02)
    assert isinstance(found.posterior, ParticlePosterior) == isinstance(estimator, SVGD)
    assert "LogNormal" in found.settings["prior"]
    assert found.method.estimator == (estimator or Profile())
    assert "u_t = " in str(found)


def test_a_prior_of_an_unknown_operator_is_refused(data):
    with pytest.raises(BvsiError, match=r"prior: operator 'laplacian\(w\)'"):
        discover(data, LIBRARY, noise=IID(SIGMA), **ELEMENTS, prior=Prior({"laplacian(w)": Laplace(0, 1)}))


def test_a_name_in_several_equations_gives_each_its_prior(coupled):
    found = discover(coupled, COUPLED, noise=IID(SIGMA), **ELEMENTS, prior=Prior({"u": Laplace(0, 1)}))
    assert found.settings["prior"].count("Laplace") == 2
    with pytest.raises(BvsiError, match="several equations"):
        discover(
            coupled,
            COUPLED,
            noise=IID(SIGMA),
            **ELEMENTS,
            prior=Prior({("u", "dx(u)"): JointNormal([0, 0], np.eye(2))}),
        )


def test_a_discovery_by_particles_is_kept_in_a_file(data, tmp_path):
    found = discover(data, LIBRARY, noise=IID(SIGMA), method=replace(Q2_METHOD, estimator=SVGD(25)), check=False)
    found.save(tmp_path / "found.nc")
    again = Discovery.load(tmp_path / "found.nc")
    assert_allclose(again.posterior.covariance, found.posterior.covariance, rtol=0)
    assert repr(again.method) == repr(found.method)
