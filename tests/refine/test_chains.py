"""Chains of coefficients and initial state, with the gradients of the forward fits."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bvsi.app.storage import _refined, _refined_record
from bvsi.common.progress import OutOfTimeError
from bvsi.data import Data, Grid
from bvsi.discovery.refining import refine
from bvsi.forward.ensemble import simulator
from bvsi.infer import NUTS
from bvsi.noise import IID
from bvsi.operators import Library, NoFlux

pytest.importorskip("nutpie")
X = np.linspace(0.0, 1.0, 6)
TIMES = np.linspace(0.0, 2.0, 3)
FISHER = ("laplacian(u)", "u", "u**2")
SIGMA = 0.02


@pytest.fixture(scope="module")
def assay():
    library = Library({"u": list(FISHER)}, boundary=NoFlux())
    u0 = 0.1 + 0.3 * np.exp(-((X / 0.3) ** 2))
    data = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=X))
    u, _ = simulator(data, library).run(np.array([0.02, 1.5, -1.5]), {"u": u0}, TIMES)
    noise = SIGMA * np.random.default_rng(0).standard_normal(u["u"].shape)
    return data.with_fields({"u": u["u"] + noise}), library


def test_chains_have_the_law_of_a_linear_problem(assay):
    """u_t = θ: all is Gaussian, and chains have the mean and the spread of the closed form.

    On the Fisher assay of 8 nodes and 5 frames, 2 × 100 draws took 90 CPU s: means were within 0.14 and standard
    deviations within 5% of Laplace's (notes of issue 22).
    """
    data, _ = assay
    library = Library({"u": ["1"]}, boundary=NoFlux())
    given = {"noise": IID(SIGMA), "structures": [["1"]]}
    plain = refine(data, library, **given).best
    made = refine(data, library, sample=NUTS(draws=60, tune=40, chains=1), rng=np.random.default_rng(1), **given)
    chains, sd = made.best.posterior, np.sqrt(plain.posterior.variance)
    assert chains.draws.shape == (1, 60, 1)
    assert np.abs((chains.mean - plain.posterior.mean) / sd).max() < 0.6  # of 60 draws
    assert np.all(np.abs(np.log(np.sqrt(chains.variance) / sd)) < 0.4)
    assert made.best.log_evidence == pytest.approx(plain.log_evidence)
    assert "by NUTS" in made.text
    again = _refined(json.loads(json.dumps(_refined_record(made))))
    np.testing.assert_array_equal(again.best.posterior.draws, chains.draws)
    assert again.identified == made.identified


def test_chains_end_with_their_time(assay):
    data, library = assay

    def late(done, of, what):
        if what.startswith("NUTS") and done > 3:
            raise OutOfTimeError("NUTS")

    made = refine(data, library, noise=IID(SIGMA), structures=[FISHER], sample=NUTS(draws=50, tune=50), progress=late)
    assert "chains were given up" in made.best.status.message
    assert made.best.status.converged


def compared(data, library, structure, **given):
    """Means of chains less those of Laplace in its standard deviations, and the logarithm of the ratio of these."""
    options = {"noise": IID(SIGMA), "structures": [structure], **given}
    fitted = refine(data, library, **options)
    method, plain = NUTS(draws=40, tune=25, chains=1), fitted.best
    made = refine(data, library, known=fitted, sample=method, rng=np.random.default_rng(1), **options)
    sd = np.sqrt(plain.posterior.variance)
    assert "by NUTS" in made.text
    assert made.best.posterior.draws.shape == (1, 40, len(sd))
    assert np.isfinite(made.best.posterior.draws).all()
    return (made.best.posterior.mean - plain.posterior.mean) / sd, np.log(np.sqrt(made.best.posterior.variance) / sd)


def test_between_sensors_chains_have_the_law_of_a_linear_problem(assay):
    """u_t = θ: the best initial state is linear in θ, and Laplace's law is exact."""
    data, _ = assay
    few = Data(TIMES, {"u": data.fields["u"][:, ::2]}, Grid(x=X[::2]))
    off, wider = compared(few, Library({"u": ["1"]}, boundary=NoFlux()), ["1"], on=Grid(x=np.linspace(0, 0.8, 12)))
    assert np.abs(off).max() < 0.5  # of 40 draws
    assert np.abs(wider).max() < 0.4


def test_between_sensors_chains_of_a_nonlinear_problem_are_near_laplace():
    places, fine, times = np.linspace(0.06, 0.94, 8), np.linspace(0.0, 1.0, 26), np.linspace(0.0, 2.0, 4)
    library = Library({"u": ["u", "u**2"]}, boundary=NoFlux())
    u0 = 0.15 + 0.1 * np.cos(np.pi * places)
    u = 1 / (1 + (1 / u0 - 1) * np.exp(-1.5 * times[:, None]))  # u_t = 1.5 u (1 − u)
    noise = 0.01 * np.random.default_rng(0).standard_normal(u.shape)
    data = Data(times, {"u": u + noise}, Grid(x=places))
    off, wider = compared(data, library, library.names, on=Grid(x=fine), noise=IID(0.01))
    assert np.abs(off).max() < 0.6
    assert np.abs(wider).max() < 0.4


def test_chains_with_a_propagator_have_the_law_of_laplace(monkeypatch):
    """All 121 nodes are modes of the initial state of a linear equation, and that is called many."""
    monkeypatch.setattr("bvsi.refine.model.MANY_MODES", 100)
    axis = np.linspace(0.0, 1.0, 11)
    grid, library = Grid(x=axis, y=axis), Library({"u": ["laplacian(u)", "1"]}, boundary=NoFlux())
    u0 = np.cos(np.pi * grid.points[:, 0]) * np.cos(np.pi * grid.points[:, 1])
    times = np.linspace(0.0, 1.0, 4)
    u = np.exp(-2 * np.pi**2 * 0.02 * times)[:, None] * u0 + 0.1 * times[:, None]
    noise = SIGMA * np.random.default_rng(0).standard_normal(u.shape)
    off, wider = compared(Data(times, {"u": u + noise}, grid), library, library.names)
    assert np.abs(off).max() < 0.5
    assert np.abs(wider).max() < 0.4


def test_parameters_inside_operators_have_chains():
    """An offset in time: the equation is solved at every s of a chain, not expanded around one."""
    times = np.linspace(0.0, 1.5, 5)
    u = 0.3 + 0.5 * (np.cos(0.4) - np.cos(2 * (times + 0.2)))  # u_t = sin(2 (t + 0.2))
    noise = SIGMA * np.random.default_rng(0).standard_normal(u.shape)
    library = Library({"u": ["sin(2*(t + s))"]}, parameters={"s": (-0.5, 0.5)})
    off, wider = compared(Data.from_arrays({"u": u + noise}, times=times), library, library.names)
    assert np.abs(off).max() < 0.5
    assert np.abs(wider).max() < 0.4
