"""Data in, equation out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid, Mesh
from bvsi.discovery import Discovery, Method, default_discretisation, discover
from bvsi.errors import BvsiError, NoiseError, OperatorError
from bvsi.infer import Profile
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.infer.priors import GaussianPrior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, PerField, estimate_noise
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, CrankNicolson, assemble
from bvsi.select import Backward, ProfileBIC
from bvsi.spaces import Q1, Q2, Galerkin
from discovery.discovery_cases import COUPLED, COUPLED_TRUTH, LIBRARY, TRUTH, clean, made, noisy

SIGMA = 1e-3
# The data come from Q2 and Crank–Nicolson: with these there is no error of discretisation, and nothing to check.
Q2_METHOD = Method(tests=Galerkin(Q2), stencil=CrankNicolson())
ELEMENTS = {"method": Q2_METHOD, "check": False}


@pytest.fixture(scope="module")
def data() -> Data:
    return clean()


@pytest.fixture(scope="module")
def known(data) -> Discovery:
    return discover(noisy(data, SIGMA), LIBRARY, noise=IID(SIGMA), **ELEMENTS)


@pytest.fixture(scope="module")
def unknown(data) -> Discovery:
    return discover(noisy(data, SIGMA), LIBRARY, **ELEMENTS)


def errors(found: Discovery, truth: dict[str, float]) -> np.ndarray:
    return np.array([found.coefficient(name) - value for name, value in truth.items()])


@pytest.mark.parametrize("which", ["known", "unknown"])
def test_the_truth_is_found_with_noise_given_or_left_out(request, which):
    found = request.getfixturevalue(which)
    assert set(found.names) == set(TRUTH)
    assert_allclose(errors(found, TRUTH) / found.sd, 0, atol=4.5)
    assert np.all(found.sd < 0.01 * np.abs(found.theta))
    assert found.status.converged
    assert found.equation.startswith("u_t = 0.0")
    assert "laplacian(u) − 0.50" in found.equation


def test_the_noise_level_is_found(data, unknown):
    """Filters measure it, and the posterior has what the fit makes of it, in units of theirs."""
    assert isinstance(unknown.posterior, NormalInverseGammaPosterior)
    filters = estimate_noise(noisy(data, SIGMA)).sigma["u"]
    assert f"σ = {filters:.3g} by filters" in unknown.settings["noise"]
    assert_allclose(filters * np.sqrt(unknown.posterior.noise_variance), SIGMA, rtol=0.15)


def test_the_posterior_is_the_profile_fit_of_the_selected_model(data, known):
    assert isinstance(known.posterior, GaussianPosterior)
    system = assemble(noisy(data, SIGMA), LIBRARY, discretisation=Galerkin(Q2), stencil=CrankNicolson())
    fit = Profile().fit(residual_likelihood(system, IID(SIGMA)).restrict(known.names))
    assert_allclose(known.theta, fit.theta, rtol=1e-5)
    assert_allclose(known.sd, np.sqrt(fit.posterior.variance), rtol=1e-2)
    assert_allclose(known.chi2, fit.chi2, rtol=1e-4)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("sigma", [1e-4, 1e-2])
def test_other_noise(data, sigma, seed):
    found = discover(noisy(data, sigma, seed), LIBRARY, noise=IID(sigma), **ELEMENTS)
    assert set(found.names) == set(TRUTH)
    stepping = 2e-3 * np.abs(list(TRUTH.values()))  # of Crank–Nicolson with the steps of the data
    assert np.all(np.abs(errors(found, TRUTH)) < 4.5 * found.sd + stepping)


def test_the_printout_has_equation_table_diagnostics_and_path(known):
    text = known.details
    for part in (known.equation, known.table, known.diagnostics, str(known.path)):
        assert part in text
    rows = known.table.splitlines()
    assert len(rows) == 3
    assert rows[1].split()[0] == "laplacian(u)"
    low, high = known.posterior.interval()[0]
    assert f"[{low:.6g}, {high:.6g}]" in rows[1]
    assert "χ²/n" in known.diagnostics


def test_coefficients_by_name(known):
    assert known.coefficient(" laplacian( u )") == known.theta[known.names.index("laplacian(u)")]
    assert known.coefficient("u**2") == 0
    with pytest.raises(OperatorError, match="laplacian"):
        known.coefficient("laplacien(u)")


def test_settings_tell_what_was_done(data, known):
    assert "Q2" in known.settings["discretisation"]
    assert "CrankNicolson" in known.settings["discretisation"]
    assert known.settings["noise"] == "as stated, IID(sigma=0.001)"
    assert known.settings["reason"] == "elements, as asked for"
    assert known.verdict == "not checked"
    assert known.seconds > 0
    assert known.candidates == LIBRARY.names


def test_choices_are_taken(data):
    prior = GaussianPrior({"u": (0.0, 1e-8)})
    found = discover(
        noisy(data, SIGMA),
        LIBRARY,
        noise=IID(SIGMA),
        method=Method(tests=Galerkin(Q1), stencil=BackwardEuler(), selection=Backward(ProfileBIC())),
        prior=prior,
        check=False,
    )
    assert "Q1" in found.settings["discretisation"]
    assert "BackwardEuler" in found.settings["discretisation"]
    assert found.path.criterion == ProfileBIC().name
    assert abs(found.coefficient("u")) < 0.3  # pulled to zero by its prior


def test_operators_to_keep_are_kept(data):
    library = Library({"u": ["laplacian(u)", "u", "dx(u)"]}, keep=["dx(u)"])
    found = discover(noisy(data, SIGMA), library, noise=IID(SIGMA), **ELEMENTS)
    assert set(found.names) == {"laplacian(u)", "u", "dx(u)"}
    assert abs(found.coefficient("dx(u)")) < 5 * found.sd[found.names.index("dx(u)")]


def test_several_experiments(data, known):
    others = [noisy(data, SIGMA), noisy(clean(phase=1.0), 2 * SIGMA, 5)]
    found = discover(others, LIBRARY, noise=[IID(SIGMA), IID(2 * SIGMA)], **ELEMENTS)
    assert set(found.names) == set(TRUTH)
    assert len(found.chi2_blocks) == 2
    assert np.all(found.sd < known.sd * 1.01)
    assert_allclose(errors(found, TRUTH) / found.sd, 0, atol=4.5)


def test_two_fields_have_an_equation_each():
    data = noisy(clean(COUPLED, COUPLED_TRUTH), SIGMA)
    found = discover(data, COUPLED, noise=PerField({"u": SIGMA, "v": SIGMA}), **ELEMENTS)
    assert set(found.names) == set(COUPLED_TRUTH)
    assert_allclose(errors(found, COUPLED_TRUTH) / found.sd, 0, atol=4.5)
    u, v = found.equation.splitlines()
    assert re.fullmatch(r"u_t = 0\.0\d+\(\d\) laplacian\(u\) − 0\.\d+\(\d\) u \+ 0\.\d+\(\d\) v", u)
    assert re.fullmatch(r"v_t = 0\.0\d+\(\d\) laplacian\(v\) \+ 0\.\d+\(\d\) u", v)


@pytest.mark.parametrize("which", ["known", "unknown"])
def test_a_discovery_survives_a_file(request, which, tmp_path):
    found = request.getfixturevalue(which)
    found.save(tmp_path / "out.nc")
    assert str(Discovery.load(tmp_path / "out.nc")) == str(found)


def test_a_prior_of_an_operator_that_is_none_is_refused(data):
    with pytest.raises(BvsiError, match=r"prior.*laplacian\(u\)"):
        discover(data, LIBRARY, noise=IID(SIGMA), prior=GaussianPrior({"laplacien(u)": (0, 1)}))


def test_a_prior_of_an_operator_that_is_not_selected_does_not_matter(data, known):
    prior = GaussianPrior({"u**2": (5.0, 1e-6)})
    found = discover(noisy(data, SIGMA), LIBRARY, noise=IID(SIGMA), prior=prior, **ELEMENTS)
    assert_allclose(found.theta, known.theta, rtol=1e-5)


@pytest.mark.parametrize("noise", [1e-3, IID, "small"])
def test_noise_that_is_no_model_is_refused(data, noise):
    with pytest.raises(NoiseError):
        discover(data, LIBRARY, noise=noise)


def test_progress_is_reported(data):
    kinds = set()
    discover(noisy(data, SIGMA), LIBRARY, progress=lambda done, total, what: kinds.add(what.split(",")[0]))
    assert {"selecting", "profile", "checking with wider tests"} <= kinds


def test_noise_larger_than_stated_is_told(data):
    found = discover(noisy(data, SIGMA), LIBRARY, noise=IID(SIGMA / 4), **ELEMENTS)
    assert "far from one" in found.diagnostics


def test_a_frame_that_does_not_fit_is_told(data):
    u = data.fields["u"].copy()
    u[9] += 0.05 * np.sin(6 * np.pi * data.geometry.axes["x"])
    wrong = noisy(data.with_fields({"u": u}), SIGMA)
    found = discover(wrong, LIBRARY, noise=IID(SIGMA), robust=False, **ELEMENTS)
    assert "experiment 0, block 8" in found.diagnostics or "experiment 0, block 9" in found.diagnostics
    robust = discover(wrong, LIBRARY, noise=IID(SIGMA), **ELEMENTS)
    assert "outliers" in robust.settings["noise"]
    assert "worst" not in robust.diagnostics
    assert_allclose(errors(robust, TRUTH) / robust.sd, 0, atol=4.5)


def test_frames_that_do_fit_are_not_complained_about(data):
    """χ²/n of a block of 20 residuals has a standard deviation of 0.3: the largest of 16 blocks is no news."""
    true = LIBRARY.subset(TRUTH)
    found = [discover(noisy(data, SIGMA, seed), true, noise=IID(SIGMA), **ELEMENTS) for seed in range(12)]
    assert sum("worst" in f.diagnostics for f in found) <= 2


def test_diagnostics_name_the_coefficients_on_which_frames_disagree():
    text = made().diagnostics
    assert "worst: experiment 0, block 1 with χ²/n = 9" in text
    assert "experiment 1" not in text
    assert "u: laplacian(u): the discretisation is too coarse" in text


def grid_data(*shapes: int, periodic: tuple[str, ...] = ()) -> Data:
    axes = {name: np.arange(float(n)) for name, n in zip("xyz", shapes, strict=False)}
    grid = Grid(**axes, periodic=periodic)
    return Data(times=[0, 1], fields={"u": np.zeros((2, grid.n_nodes))}, geometry=grid)


@pytest.mark.parametrize(
    "data, element",
    [
        ([grid_data(5)], Q2),
        ([grid_data(3)], Q2),
        ([grid_data(2)], Q1),
        ([grid_data(6)], Q1),
        ([grid_data(5, 7)], Q2),
        ([grid_data(5, 6)], Q1),
        ([grid_data(6, periodic=("x",))], Q2),
        ([grid_data(4, periodic=("x",))], Q2),
        ([grid_data(5, periodic=("x",))], Q1),
        ([grid_data(3, periodic=("x",))], Q1),
        ([grid_data(6, 5, periodic=("x",))], Q2),
        ([grid_data(6, 5, periodic=("y",))], Q1),
        ([grid_data(5), grid_data(9)], Q2),
        ([grid_data(5), grid_data(8)], Q1),
    ],
    ids=lambda v: v.name if hasattr(v, "name") else " + ".join(d.geometry.summary for d in v),
)
def test_q2_is_taken_where_the_grid_has_whole_elements_of_it(data, element):
    assert default_discretisation(data).element == element
    for d in data:
        default_discretisation(data).build(d.geometry, 2)


def test_a_mesh_keeps_its_own_degree():
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), np.array([[0, 1, 2], [1, 3, 2]]), "triangle")
    data = Data(times=[0, 1], fields={"u": np.zeros((2, 4))}, geometry=mesh)
    assert default_discretisation([data]) == Galerkin()
