"""Equalities and joint priors in forward solves: against other operators, closed forms, and fits without operators."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery import refining
from bvsi.discovery.refining import refine
from bvsi.errors import InfeasibleError
from bvsi.forward.ensemble import simulator
from bvsi.infer.nuts import NUTS
from bvsi.infer.priors import HalfNormal, JointNormal, Normal, Prior
from bvsi.noise import IID
from bvsi.operators import Library, NoFlux
from bvsi.refine import ForwardModel, Measurements, RefineError, fit_forward

X, TIMES, SIGMA = np.linspace(0.0, 1.0, 16), np.linspace(0.0, 1.0, 6), 0.02
FISHER, TIE = ("laplacian(u)", "u", "u**2"), "u + u**2 == 0"
UNIT = Prior({}, Normal(0, 1))


def library(*names: str) -> Library:
    return Library({"u": list(names)}, boundary=NoFlux())


@pytest.fixture(scope="module")
def fisher() -> Data:
    """u_t = 0.02 Δu + 2 (u − u²)."""
    u0 = 0.1 + 0.4 * np.cos(np.pi * X) ** 2
    data = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=X))
    u, _ = simulator(data, library(*FISHER)).run(np.array([0.02, 2.0, -2.0]), {"u": u0}, TIMES)
    return data.with_fields({"u": u["u"] + SIGMA * np.random.default_rng(0).standard_normal(u["u"].shape)})


@pytest.fixture(scope="module")
def slopes() -> Data:
    """u_t = 0.5 + 0.1 x."""
    u = 1 + 0.5 * np.cos(np.pi * X) + TIMES[:, None] * (0.5 + 0.1 * X)
    return Data(TIMES, {"u": u + SIGMA * np.random.default_rng(1).standard_normal(u.shape)}, Grid(x=X))


def fitted(data: Data, *names: str, **given):
    return refine(data, library(*names), noise=IID(SIGMA), structures=[names], **given).best


def test_tied_operators_are_one_operator(fisher):
    """N(0, 1) of both given θ₁ + θ₂ = 0 is N(0, ½) of one."""
    tied = fitted(fisher, *FISHER, constraints=TIE, prior=UNIT)
    one = fitted(fisher, "laplacian(u)", "u - u**2", prior=Prior({"u - u**2": Normal(0, 0.5)}, Normal(0, 1)))
    assert tied.status.converged
    T = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    np.testing.assert_allclose(tied.theta, T @ one.theta, rtol=1e-6)
    np.testing.assert_allclose(tied.posterior.covariance, T @ one.posterior.covariance @ T.T, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(tied.predictions[0], one.predictions[0], atol=1e-6)
    np.testing.assert_allclose(tied.spreads[0], one.spreads[0], rtol=1e-4)
    assert tied.log_evidence == pytest.approx(one.log_evidence, abs=1e-3)
    assert tied.evidence_with(4.0) == pytest.approx(one.evidence_with(4.0), abs=1e-3)
    assert tied.used == pytest.approx(one.used, abs=1e-3)
    np.testing.assert_allclose(tied.narrowed, np.abs(T) @ one.narrowed, rtol=1e-4)
    for name in ("u", "u**2"):
        assert tied.evidence_without(name) == pytest.approx(one.evidence_without("u - u**2"), rel=1e-3)


MEAN, COVARIANCE = np.array([0.2, 0.3]), np.array([[0.09, -0.05], [-0.05, 0.04]])
JOINT = Prior({("1", "x"): JointNormal(MEAN, COVARIANCE)})


@pytest.mark.parametrize("row", [None, ([1.0, 2.0], 0.75), ([0.0, 1.0], 0.12)], ids=["free", "tied", "fixed"])
def test_a_linear_problem_has_its_closed_form(slopes, row):
    """û = u₀ + (θ₁ + θ₂ x) t, all Gaussian; the prior is conditioned on a ᵀθ = b by its own formula."""
    limits = None
    m, V, T, c = MEAN, COVARIANCE, np.eye(2), np.zeros(2)
    if row is not None:
        a, b = np.array(row[0]), row[1]
        gain = V @ a / (a @ V @ a)
        m, V = m + gain * (b - a @ m), V - np.outer(gain, a @ V)
        T, c = np.array([[1.0], [-a[0] / a[1]]]), np.array([0.0, b / a[1]])  # η = θ₁
        limits = refining.as_linear([f"{a[0]}*[1] + {a[1]}*x == {b}"], ("1", "x"))
    model = ForwardModel.of([Measurements.of(slopes, IID(SIGMA), ("u",))], library("1", "x"), limits, JOINT)
    fit, one = fit_forward(model), model.experiments[0]
    by_theta = np.kron(TIMES[:, None], np.column_stack([np.ones_like(X), X]))
    by_z = np.kron(np.ones((len(TIMES), 1)), one.P @ one.V)
    G = np.concatenate([by_theta @ T, by_z], axis=1)
    n = T.shape[1]
    spread, centre = V[:n, :n], m[:n]
    held = one.precisions(fit.smoothness[0])
    prior = np.diag(np.concatenate([np.zeros(n), held]))
    prior[:n, :n] = np.linalg.inv(spread)
    mean = np.concatenate([centre, np.zeros(len(held))])
    y = slopes.fields["u"].ravel() - by_theta @ c
    H = G.T @ G / SIGMA**2 + prior
    solved, covariance = np.linalg.solve(H, G.T @ y / SIGMA**2 + prior @ mean), np.linalg.inv(H)
    np.testing.assert_allclose(fit.theta, c + T @ solved[:n], rtol=1e-4)
    np.testing.assert_allclose(fit.posterior.covariance, T @ covariance[:n, :n] @ T.T, rtol=1e-5, atol=1e-15)
    off = solved - mean
    exponent = np.sum((y - G @ solved) ** 2) / SIGMA**2 + off @ prior @ off
    sizes = np.log(held[one.mu > 0]).sum() - np.linalg.slogdet(spread)[1] - np.linalg.slogdet(H)[1]
    assert fit.log_evidence == pytest.approx(0.5 * (sizes - exponent), abs=1e-2)


def test_a_diagonal_joint_prior_is_one_of_each(slopes):
    joint = fitted(slopes, "1", "x", prior=Prior({("1", "x"): JointNormal(MEAN, np.diag([0.09, 0.04]))}))
    each = fitted(slopes, "1", "x", prior=Prior({"1": Normal(0.2, 0.09), "x": Normal(0.3, 0.04)}))
    for what in ("theta", "log_evidence", "exponent", "scale", "without"):
        np.testing.assert_allclose(getattr(joint, what), getattr(each, what), rtol=1e-9)


@pytest.mark.parametrize("name, other", [("x", "1"), ("1", "x")])
def test_without_an_operator_the_joint_prior_is_that_of_the_others(slopes, name, other):
    """Its density at zero, and what a marginal prior says of the others, against a fit without the operator."""
    both = fitted(slopes, "1", "x", prior=JOINT)
    alone = fitted(slopes, other, prior=JOINT)
    assert both.evidence_without(name) == pytest.approx(alone.log_evidence, abs=0.1 + 0.01 * abs(alone.log_evidence))
