"""Equations fitted to measurements by forward solves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery.refining import refine
from bvsi.forward.ensemble import simulator
from bvsi.forward.tangents import solve_with_tangents
from bvsi.infer.fit import Reason
from bvsi.noise import IID, Diagonal, SignalNoise, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.refine import ForwardModel, Measurements, RefineError, fit_forward
from bvsi.refine.fitting import _lowest
from bvsi.refine.linear import Propagated, _summed, propagates
from bvsi.refine.model import comparable, law_slope, likely_law

X = np.linspace(0.0, 1.0, 16)
TIMES = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
TRUTH = np.array([0.05, 1.5])
SIGMA = 0.02


def library(*names):
    return Library({"u": list(names or ("laplacian(u)", "u"))}, boundary=NoFlux())


def state(shift=0.0):
    return 1 + 0.5 * np.cos(np.pi * X) + 0.3 * np.cos(3 * np.pi * (X - shift))


def measured(seed, sigma=SIGMA, u0=None, keep=None):
    u0 = state() if u0 is None else u0
    data = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=X))
    u, _ = simulator(data, library()).run(TRUTH, {"u": u0}, TIMES)
    values = u["u"] + sigma * np.random.default_rng(seed).standard_normal(u["u"].shape)
    return Data(TIMES, {"u": values}, Grid(x=X), measured=keep)


def test_estimates_are_within_their_error_bars():
    z = []
    for seed in range(6):
        fit = refine(measured(seed), library(), noise=IID(SIGMA)).best
        assert fit.status.converged
        assert 0.5 < fit.chi2 < 1.5
        z.append((fit.posterior.mean - TRUTH) / np.sqrt(fit.posterior.variance))
    z = np.array(z)
    assert np.abs(z).max() < 3.5
    assert np.sqrt(np.mean(z**2)) < 1.6


def test_a_linear_problem_has_its_closed_form():
    """u_t = θ, a source alone: û = u₀ + θ t, so that all is linear and Gaussian."""
    data = measured(0)
    model = ForwardModel.of([Measurements.of(data, IID(SIGMA), ("u",))], library("1"), None)
    fit, one = fit_forward(model), model.experiments[0]
    n, T = len(X), len(TIMES)
    G = np.concatenate([np.kron(TIMES[:, None], np.ones((n, 1))), np.kron(np.ones((T, 1)), one.P @ one.V)], axis=1)
    prior = np.concatenate([model.prior.scale**-2.0, one.precisions(fit.smoothness[0])])
    H = G.T @ G / SIGMA**2 + np.diag(prior)
    solved, covariance = np.linalg.solve(H, G.T @ data.fields["u"].ravel() / SIGMA**2), np.linalg.inv(H)
    np.testing.assert_allclose(fit.theta, solved[:1], rtol=1e-4)
    np.testing.assert_allclose(fit.posterior.covariance, covariance[:1, :1], rtol=1e-6)
    np.testing.assert_allclose(fit.predictions[0].ravel(), G @ solved, atol=1e-4)
    np.testing.assert_allclose(fit.spreads[0].ravel(), np.sqrt(np.einsum("ip,pq,iq->i", G, covariance, G)), rtol=1e-6)
    # modes without a prior are integrated over with measure one; constants, μ among them, are left out
    held = np.log(one.precisions(fit.smoothness[0])[one.mu > 0]).sum() - 2 * np.log(model.prior.scale).sum()
    exponent = np.sum((data.fields["u"].ravel() - G @ solved) ** 2) / SIGMA**2 + solved @ (prior * solved)
    log = -0.5 * exponent + 0.5 * held - 0.5 * np.linalg.slogdet(H)[1]
    assert fit.log_evidence == pytest.approx(log, abs=1e-2)


def test_experiments_share_coefficients_and_have_their_own_states():
    both = [measured(1), measured(2, u0=state(0.2))]
    one, two = (refine(data, library(), noise=IID(SIGMA)).best for data in (both[0], both))
    assert len(two.initial) == 2
    assert np.all(two.posterior.variance < one.posterior.variance)
    assert np.abs((two.posterior.mean - TRUTH) / np.sqrt(two.posterior.variance)).max() < 3.5
    np.testing.assert_allclose(two.initial[1][::2], state(0.2), atol=4 * SIGMA)


def test_values_that_were_not_measured_say_nothing():
    keep = {"u": np.random.default_rng(0).random((len(TIMES), len(X))) < 0.8}
    data = measured(3, keep=keep)
    spoilt = Data(data.times, {"u": np.where(keep["u"], data.fields["u"], 7.0)}, data.geometry, measured=keep)
    fits = [refine(own, library(), noise=IID(SIGMA)).best for own in (data, spoilt)]
    assert fits[0].count == keep["u"].sum()
    np.testing.assert_allclose(fits[0].theta, fits[1].theta, rtol=2e-2)


def test_an_unknown_noise_level_is_estimated():
    fit = refine(measured(4), library(), noise=UnknownScale(IID(1.0))).best
    assert fit.level == pytest.approx(SIGMA**2, rel=0.5)
    assert fit.chi2 == pytest.approx(1.0, abs=0.05)
    sigma = np.full((len(TIMES), len(X)), SIGMA)
    known = refine(measured(4), library(), noise=Diagonal({"u": sigma})).best
    np.testing.assert_allclose(fit.theta, known.theta, rtol=0.02)


def test_counts_have_their_variance_at_the_prediction():
    u0 = 60 * state()
    data = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=X))
    u, _ = simulator(data, library()).run(TRUTH, {"u": u0}, TIMES)
    counts = np.random.default_rng(5).poisson(u["u"]).astype(float)
    fit = refine(data.with_fields({"u": counts}), library(), noise=SignalNoise(b=1.0)).best
    assert 0.6 < fit.chi2 < 1.4
    assert np.abs((fit.posterior.mean - TRUTH) / np.sqrt(fit.posterior.variance)).max() < 3.5


def test_diffusion_stays_positive():
    """Data that get rougher: without the bound the equation could not be solved."""
    data = measured(6)
    backwards = Data(TIMES, {"u": data.fields["u"][::-1]}, data.geometry)
    fit = refine(backwards, library("laplacian(u)"), noise=IID(SIGMA)).best
    assert fit.theta[0] >= 0
    assert fit.posterior.interval()[0, 0] >= 0
    assert refine(backwards, library("laplacian(u)"), noise=IID(SIGMA)).doubts


def test_structures_have_probabilities_and_coefficients_are_averaged():
    made = refine(measured(7), library("laplacian(u)", "u", "u**2"), noise=IID(SIGMA))
    assert made.probabilities().sum() == pytest.approx(1.0)
    assert set(made.best.names) == {"laplacian(u)", "u"}
    inclusion = made.inclusion()
    assert inclusion["laplacian(u)"] > 0.99
    assert inclusion["u"] > inclusion["u**2"]
    growth = made.average("u")
    assert growth.interval[0] < TRUTH[1] < growth.interval[1]
    assert growth.structure >= 0
    doubled = made.average(lambda c: 2 * c["laplacian(u)"])
    assert doubled.mean == pytest.approx(2 * made.average("laplacian(u)").mean, rel=0.05)
    assert "P(in)" in str(made)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"library": Library({"u": ["laplacian(u)"]})}, "boundary condition"),
        ({"blur": {"y": 0.1}}, "no axis 'y'"),
        ({"blur": {"time": 0.1}}, "exposure as bins"),
        ({"bins": {"x": -1.0}}, "at least 0"),
        ({"bins": {"time": 0.2}}, "longer than the 0.1 between frames"),
        ({"blur": {"x": 1.0}}, "all of them reach out"),
        ({"constraints": ["laplacian(u) == 0.05", "u == 1"]}, "they fix every coefficient"),
        ({"noise": [IID(1.0), IID(1.0)]}, "2 models for 1"),
    ],
)
def test_what_cannot_be_solved_is_refused(change, words):
    given = {"library": library(), "noise": IID(SIGMA), **change}
    with pytest.raises(RefineError, match=words):
        refine(measured(8), **given)


def test_degenerate_diffusion_of_counts_stays_above_zero():
    """u_t = c Δu² + r u: D(u) = 2cu, a front with nothing before it."""
    names, truth = ("laplacian(u**2)", "u"), np.array([4e-4, 1.0])
    u0 = 40 / (1 + np.exp((X - 0.4) / 0.05))
    data = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=X))
    u, _ = simulator(data, library(*names), positive=["u"]).run(truth, {"u": u0}, TIMES)
    counts = np.random.default_rng(9).poisson(np.maximum(u["u"], 0.0)).astype(float)
    made = refine(data.with_fields({"u": counts}), library(*names), noise=SignalNoise(b=1.0), structures=[names])
    fit = made.best
    assert fit.initial[0].min() > 0
    assert fit.chi2 < 1.4  # where nothing is counted there is hardly any deviance
    assert np.abs((fit.posterior.mean - truth) / np.sqrt(fit.posterior.variance)).max() < 3.5


def test_what_is_below_zero_does_not_diffuse_backwards():
    """Of a positive field laplacian(u**2) = div(2 max(u, 0) grad u), with the derivatives of that."""
    u0 = np.sin(3 * np.pi * X)  # below zero in the middle
    data = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=X))
    equation = simulator(data, library("laplacian(u**2)"), positive=["u"]).equation
    system, c = equation.system(np.ones(1)), simulator(data, library("u")).unknowns.coefficients(u0)
    v, h = np.random.default_rng(0).standard_normal(len(X)), 1e-6
    exact = equation.layout.pattern.matrix(system.J(c, 0.0)) @ v
    np.testing.assert_allclose(
        (system.F(c + h * v, 0.0) - system.F(c - h * v, 0.0)) / (2 * h), exact, rtol=1e-3, atol=1e-3
    )
    mirrored = simulator(data, library("laplacian(u**2)")).equation.system(np.ones(1))
    assert np.abs(mirrored.F(c, 0.0) - system.F(c, 0.0)).max() > 0.1


def test_sensors_are_fitted_on_a_finer_grid():
    """Every third node is measured; the equation is solved on all of them."""
    whole = measured(11)
    sensors = Data(TIMES, {"u": whole.fields["u"][:, ::3]}, Grid(x=X[::3]))
    fit = refine(sensors, library(), noise=IID(SIGMA), on=Grid(x=X)).best
    assert fit.initial[0].shape == X.shape
    assert fit.predictions[0].shape == (len(TIMES), len(X[::3]))
    assert np.abs((fit.posterior.mean - TRUTH) / np.sqrt(fit.posterior.variance)).max() < 3.5
    with pytest.raises(RefineError, match="on: does not hold"):
        refine(whole, library(), noise=IID(SIGMA), on=Grid(x=X[3:-3]))


def test_forecasts_have_bands():
    data = measured(12)
    known = Data(TIMES[:4], {"u": data.fields["u"][:4]}, data.geometry)
    made = refine(known, library(), noise=IID(SIGMA), structures=[["laplacian(u)", "u"]], later=TIMES[4:])
    mean, statistics, structure = made.predicted()
    assert mean.shape == data.fields["u"].shape
    z = (data.fields["u"][-1] - mean[-1]) / np.sqrt(statistics[-1] ** 2 + structure[-1] ** 2 + SIGMA**2)
    assert np.sqrt(np.mean(z**2)) < 1.7
    with pytest.raises(RefineError, match="later"):
        refine(known, library(), noise=IID(SIGMA), later=[0.0])


def on_a_plane(noise=0.01):
    axis, times = np.linspace(0.0, 1.0, 8), np.linspace(0.0, 0.3, 7)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    values = np.tile((1 + np.cos(np.pi * x) * y).ravel(), (len(times), 1))
    values = values + noise * np.random.default_rng(0).standard_normal(values.shape)
    return Data(times, {"u": values}, Grid(x=axis, y=axis))


def test_the_propagator_has_the_sums_of_all_derivatives():
    data = on_a_plane()
    model = ForwardModel.of([Measurements.of(data, IID(0.01), ("u",))], library("laplacian(u)", "dx(u)"), None)
    (one,), (made,), theta, z = model.experiments, model.simulators, np.array([0.1, 0.4]), np.ones(64)
    frames = list(solve_with_tangents(made, theta, one.initial(z), one.V, data.times, 4))
    states, G = np.stack([u for u, _ in frames]), np.concatenate([G for _, G in frames])
    u, own = model.solved(theta, z, 0, 4)
    np.testing.assert_allclose(u, states, rtol=1e-12)
    np.testing.assert_allclose(own.reshape(-1, 2), G[:, :2], atol=1e-12 * np.abs(G).max())
    near = Propagated.of(one, made, theta, own)
    np.testing.assert_allclose(near.H, G.T @ G / 0.01**2, atol=1e-5 * np.abs(near.H).max())
    slope = G.T @ (one.values - states).ravel() / 0.01**2
    np.testing.assert_allclose(near.slope(one, one.values - states), slope, atol=1e-5 * np.abs(slope).max())
    assert not propagates(one, ForwardModel.of([one], library("laplacian(u)", "u**2"), None).simulators[0])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 50])
def test_sums_over_powers_are_those_of_single_powers(count):
    rng = np.random.default_rng(0)
    Phi, weights, power, N = 0.3 * rng.standard_normal((6, 6)), rng.uniform(1, 2, 6), np.eye(6), np.zeros((6, 6))
    for _ in range(count):
        N, power = N + power.T @ (weights[:, None] * power), Phi @ power
    np.testing.assert_allclose(_summed(Phi, weights, count), N, rtol=1e-12, atol=1e-12)


def test_solutions_that_are_kept_are_those_of_their_point():
    """As many as are kept, and more, in any order, with derivatives and without; not those of other operators."""
    some = Measurements.of(on_a_plane(), IID(0.01), ("u",))
    model, z = ForwardModel.of([some], library("laplacian(u)", "dx(u)"), None), np.ones(64)
    points = [(np.array([0.1 + 0.01 * k, 0.4]), steps) for k in range(3) for steps in (1, 2)]
    for k in np.random.default_rng(0).integers(0, len(points), 60):
        theta, steps = points[k]
        u, G = model.solved(theta, z, 0, steps, slopes=bool(k % 3))
        fresh = replace(model).solved(theta, z, 0, steps, slopes=bool(k % 3))
        assert np.array_equal(u, fresh[0])
        assert np.array_equal(G, fresh[1]) or not k % 3
    other = model.with_operators(library("laplacian(u)", "dy(u)"))
    assert np.abs(other.predicted(theta, z, 0, steps) - model.predicted(theta, z, 0, steps)).max() > 1e-3


def test_the_estimated_error_in_space_falls_as_fast_as_the_error():
    """A Gaussian that spreads, 1.2 and 2.4 times as wide as the nodes are apart."""
    found = []
    for nodes in (13, 25):
        axis, times, D = np.linspace(-3.0, 3.0, nodes), np.linspace(0.0, 0.3, 4), 0.05
        grid = Grid(x=axis, y=axis)
        width = 0.36 + 2 * D * times[:, None]
        u = np.exp(-np.sum(grid.points**2, axis=1) / (2 * width)) / width
        some = Measurements.of(Data(times, {"u": u}, grid), IID(1e-3), ("u",))
        model = ForwardModel.of([some], library("laplacian(u)"), None)
        one = model.experiments[0]
        found.append(np.abs(model.space_error(np.array([D]), one.modes(u[0]), 0, 4)).max())
    assert 0 < found[1] < 2**-5 * found[0]


def test_a_fit_by_the_propagator_is_that_of_all_modes(monkeypatch):
    """Weak priors and no log-determinant in both: nearly the same estimate and error bars."""
    monkeypatch.setattr("bvsi.refine.model.MANY_MODES", 10)
    some = [Measurements.of(on_a_plane(), IID(0.01), ("u",))]
    made = ForwardModel.of(some, library("laplacian(u)", "dx(u)"), None)
    assert made.propagating
    fit = fit_forward(made)
    monkeypatch.setattr(ForwardModel, "propagates", lambda self, number: False)
    monkeypatch.setattr(ForwardModel, "profiled", True)
    other = fit_forward(made)
    assert fit.status.converged
    sd = np.sqrt(other.posterior.variance)
    assert np.abs((fit.theta - other.theta) / sd).max() < 0.3
    np.testing.assert_allclose(np.sqrt(fit.posterior.variance), sd, rtol=0.15)
    assert np.mean(fit.spreads[0] / other.spreads[0]) == pytest.approx(1.0, abs=0.2)  # of 32 draws


def test_the_law_of_the_modes_is_where_its_slope_is_zero():
    sensors = Data(TIMES, {"u": measured(11).fields["u"][:, ::3]}, Grid(x=X[::3]))
    one = Measurements.of(sensors, IID(SIGMA), ("u",), Grid(x=np.linspace(0.0, 1.0, 31)))
    assert one.sparse
    rng = np.random.default_rng(1)
    G, true = rng.standard_normal((60, len(one.mu))), np.array([[0.5, 1.0, 1.0]])
    held = np.where(one.mu > 0, one.precisions(true), 1.0)
    b = G.T @ (G @ (rng.standard_normal(len(held)) / np.sqrt(held)) + rng.standard_normal(60))
    law = likely_law(one, G.T @ G, b, true)
    assert np.abs(law_slope(one, G.T @ G, b, law)).max() < 0.05
    assert np.abs(np.log(one.precisions(law)[one.mu > 0] / held[one.mu > 0])).max() < 4


def drifting(seed, nodes=60):
    """Bumps that drift by a third of the circle, measured at every sixth node, and that grid."""
    rng, x = np.random.default_rng(seed), np.arange(nodes) / nodes
    times, whole = np.linspace(0.0, 0.3, 16), Grid(x=x, periodic={"x": 1.0})
    bumps = zip(rng.uniform(0.3, 1.0, 5), rng.uniform(0.0, 1.0, 5), strict=True)
    u0 = sum(a * np.exp(-(((x - middle + 0.5) % 1 - 0.5) ** 2) / (2 * 0.05**2)) for a, middle in bumps)
    first = Data(times, {"u": np.tile(u0, (len(times), 1))}, whole)
    u, _ = simulator(first, library("laplacian(u)", "dx(u)")).run(np.array([0.004, -1.0]), {"u": u0}, times)
    values = u["u"][:, ::6] + SIGMA * rng.standard_normal((len(times), nodes // 6))
    return Data(times, {"u": values}, Grid(x=x[::6], periodic={"x": 1.0})), whole


def test_a_state_that_makes_up_for_wrong_coefficients_is_told():
    """With a drift that is bounded away from the truth χ² is near one, and the state as rough as it can be."""
    sensors, whole = drifting(1)
    operators = library("laplacian(u)", "dx(u)")
    right = refine(sensors, operators, noise=IID(SIGMA), structures=[operators.names], on=whole)
    z = (right.best.posterior.mean - [0.004, -1.0]) / np.sqrt(right.best.posterior.variance)
    assert np.abs(z).max() < 3.5
    assert right.best.roughness < 1e-4
    assert len(right.doubts) == 1  # that of all sensors
    bound = ["dx(u) >= -0.3"]
    wrong = refine(sensors, operators, noise=IID(SIGMA), structures=[operators.names], on=whole, constraints=bound)
    assert wrong.best.status.converged
    assert wrong.best.p_value > 0.01  # the misfit does not tell
    assert wrong.best.roughness > 0.5
    assert len(wrong.doubts) == 2


def test_another_minimum_that_fits_as_well_is_told():
    fit = refine(measured(3), library(), noise=IID(SIGMA), structures=[library().names]).best
    sd = np.sqrt(fit.posterior.variance)
    near = replace(fit, theta=fit.theta + 0.5 * sd, log_likelihood=fit.log_likelihood - 1)
    far = replace(fit, theta=fit.theta + 3 * sd, log_likelihood=fit.log_likelihood - 1)
    low = replace(far, log_likelihood=fit.log_likelihood - 20)
    assert _lowest([low, near, fit]) is fit
    told = _lowest([far, fit])
    assert told.theta is fit.theta
    assert Reason.AMBIGUOUS in told.status.reasons


def test_structures_that_are_compared_have_as_many_modes():
    """Linear equations alone have all 441 modes; beside nonlinear ones, which carry 400, they have as many."""
    axis, values = np.linspace(0.0, 1.0, 21), np.random.default_rng(0).random((3, 441))
    one = Measurements.of(Data(TIMES[:3], {"u": values}, Grid(x=axis, y=axis)), IID(0.01), ("u",))
    assert [len(own.mu) for own in comparable([one], library("laplacian(u)", "u"))] == [441]
    assert [len(own.mu) for own in comparable([one], library("laplacian(u)", "u**2"))] == [400]
    assert [len(own.mu) for own in comparable([one], library("laplacian(u)", "t*u"))] == [400]
