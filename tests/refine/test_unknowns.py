"""What is fitted beside coefficients: boundary values, fluxes, offsets in time; series; what is only prior."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery.refining import refine
from bvsi.forward.ensemble import simulator
from bvsi.forward.series import SeriesSimulator
from bvsi.noise import IID
from bvsi.operators import Dirichlet, Library, NoFlux
from bvsi.refine import RefineError

X = np.linspace(0.0, 1.0, 16)
TIMES = np.linspace(0.0, 0.5, 6)
SIGMA = 0.01


def drawn(library, truth, u0, seed=0):
    """Measurements of a solution, and the solution."""
    data = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=X))
    u, _ = simulator(data, library).run(np.array(truth), {"u": u0}, TIMES)
    noise = SIGMA * np.random.default_rng(seed).standard_normal(u["u"].shape)
    return data.with_fields({"u": u["u"] + noise}), u["u"]


def z_scores(fit, truth):
    return (fit.posterior.mean - np.array(truth)) / np.sqrt(fit.posterior.variance)


def test_boundary_values_are_unknown():
    """``Dirichlet()``: both ends have values that stay, known better than by the mean of their own frames."""
    library = Library({"u": ["laplacian(u)", "u"]}, boundary=Dirichlet())
    data, u = drawn(library, [0.05, 0.5], 1 + X + 0.4 * np.sin(3 * np.pi * X))
    fit = refine(data, library, noise=IID(SIGMA), structures=[library.names]).best
    assert np.abs(z_scores(fit, [0.05, 0.5])).max() < 3.5
    ends, sd = fit.predictions[0][:, [0, -1]], fit.spreads[0][:, [0, -1]]
    np.testing.assert_allclose(ends, np.tile(ends[:1], (len(TIMES), 1)), rtol=1e-9)
    assert np.abs((ends - u[:, [0, -1]]) / sd).max() < 3.5
    assert np.all(sd < 1.05 * SIGMA / np.sqrt(len(TIMES)))


def test_fluxes_through_the_boundary_are_operators():
    """D ∂u/∂n = a + b x at both ends: one coefficient each, by the mean of u as well, d/dt ∫u = 2a + b."""
    library, truth = (
        Library({"u": ["laplacian(u)", "boundary(test)", "boundary(x*test)"]}, boundary=NoFlux()),
        [0.05, 0.1, -0.3],
    )
    data, u = drawn(library, truth, 1 + 0.4 * np.cos(3 * np.pi * X))
    slope = np.polyfit(TIMES, np.trapezoid(u, X, axis=1), 1)[0]
    assert slope == pytest.approx(2 * 0.1 - 0.3, abs=0.02)
    fit = refine(data, library, noise=IID(SIGMA), structures=[library.names]).best
    assert np.abs(z_scores(fit, truth)).max() < 3.5
    assert np.all(np.sqrt(fit.posterior.variance) < 0.01)


def test_an_offset_in_time_is_a_parameter_of_what_depends_on_time():
    """A source with a known period, whose clock differs by experiment."""
    names, truth = ["laplacian(u)", "sin(6*(t + s))"], [0.05, 1.0]
    offsets = (0.17, -0.1)
    made = [
        drawn(
            Library({"u": [names[0], f"sin(6*(t + {s}))"]}, boundary=NoFlux()),
            truth,
            1 + 0.4 * np.cos(3 * np.pi * X),
            k,
        )[0]
        for k, s in enumerate(offsets)
    ]
    library = Library({"u": names}, boundary=NoFlux(), parameters={"s": (-0.5, 0.5)}, per_experiment=["s"])
    fit = refine(made, library, noise=IID(SIGMA), structures=[names]).best
    assert fit.names[2:] == ("s_1", "s_2")
    assert np.abs(z_scores(fit, [*truth, *offsets])).max() < 3.5
    assert np.all(np.sqrt(fit.posterior.variance[2:]) < 0.02)


def test_series_are_fitted_as_fields_are():
    """Lotka and Volterra, a period in ten samples: too few for test functions in time."""
    library, truth = Library({"a": ["a", "a*b"], "b": ["b", "a*b"]}), np.array([0.66, -1.33, -1.0, 1.0])
    times = np.linspace(0.0, 8.0, 10)
    data = Data.from_arrays({"a": np.ones(10), "b": np.ones(10)}, times=times)
    u, _ = SeriesSimulator.of(data, library).run(truth, {"a": np.array([1.5]), "b": np.array([0.4])}, times)
    noise = 0.02 * np.random.default_rng(0).standard_normal((2, 10))
    measured = Data.from_arrays({f: v[:, 0] + e for (f, v), e in zip(u.items(), noise, strict=True)}, times=times)
    made = refine(measured, library, noise=IID(0.02), structures=[library.names])
    fit = made.best
    assert fit.status.converged
    assert 0.2 < fit.chi2 < 2.0
    assert np.abs(z_scores(fit, truth)).max() < 3.5
    np.testing.assert_allclose(fit.initial[0], [1.5, 0.4], atol=0.06)
    assert "the data tell 2 of 2 modes" in made.identified
    moving = Data.from_arrays({"a": measured.fields["a"][:, 0]}, times=times, auxiliary={"k": times})
    with pytest.raises(RefineError, match="changes in time"):
        refine(moving, Library({"a": ["a", "k*a"]}), noise=IID(0.02))


def test_what_is_only_prior_is_said():
    library = Library({"u": ["laplacian(u)", "u", "u**3"]}, boundary=NoFlux())
    data, _ = drawn(library, [0.05, 0.5, 0.0], 1 + 0.4 * np.sin(3 * np.pi * X))
    made = refine(data, library, noise=IID(SIGMA), structures=[library.names])
    assert "the data determine all" in made.identified
    assert np.all(made.best.narrowed < 0.1)
    few = Data(TIMES[:2], {"u": data.fields["u"][:2, ::5]}, Grid(x=X[::5]))
    poor = refine(few, library, noise=IID(30 * SIGMA), on=Grid(x=X), structures=[library.names])
    assert "u**3 is no more than its prior" in poor.identified
    assert any("interval is that of the prior" in doubt for doubt in poor.doubts)
    told = [np.count_nonzero(one.best.prior_part[0] < 0.5) for one in (made, poor)]
    assert told[0] > 2 * told[1]
    assert np.median(poor.best.initial_sd[0]) > 10 * np.median(made.best.initial_sd[0])
