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
    np.testing.assert_allclose(tied.theta, T @ one.theta, rtol=1e-4)
    np.testing.assert_allclose(tied.posterior.covariance, T @ one.posterior.covariance @ T.T, rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(tied.predictions[0], one.predictions[0], atol=1e-2 * SIGMA)
    np.testing.assert_allclose(tied.spreads[0], one.spreads[0], rtol=1e-3)
    assert tied.log_evidence == pytest.approx(one.log_evidence, abs=1e-3)
    assert tied.evidence_with(4.0) == pytest.approx(one.evidence_with(4.0), abs=1e-3)
    assert tied.used == pytest.approx(one.used, abs=1e-3)
    np.testing.assert_allclose(tied.narrowed, np.abs(T) @ one.narrowed, rtol=1e-3)
    for name in ("u", "u**2"):
        assert tied.evidence_without(name) == pytest.approx(one.evidence_without("u - u**2"), rel=1e-3)


MEAN, COVARIANCE = np.array([0.2, 0.3]), np.array([[0.09, -0.05], [-0.05, 0.04]])
JOINT = Prior({("1", "x"): JointNormal(MEAN, COVARIANCE)})


@pytest.mark.parametrize("row", [None, ([1.0, 2.0], 0.75), ([0.0, 1.0], 0.12)], ids=["free", "tied", "fixed"])
def test_a_linear_problem_has_its_closed_form(slopes, row):
    """û = u₀ + (θ₁ + θ₂ x) t, all Gaussian; the prior is conditioned on aᵀθ = b by its own formula."""
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
    assert both.evidence_without(name) == pytest.approx(alone.log_evidence, abs=1e-3)


def test_inequalities_hold_with_equalities(fisher):
    """θ₁ = −θ₂ ≤ 1.9 where the data want 2."""
    fit = fitted(fisher, *FISHER, constraints=[TIE, "u <= 1.9"])
    draws = fit.posterior.sample(500, np.random.default_rng(0))
    np.testing.assert_allclose(draws[:, 1], -draws[:, 2], rtol=1e-12)
    assert draws[:, 1].max() <= 1.9
    assert fit.theta[1] == pytest.approx(1.9)


def test_a_fixed_coefficient_has_no_error_bar_and_stays_in_the_equation(fisher):
    made = refine(fisher, library(*FISHER), noise=IID(SIGMA), constraints="laplacian(u) == 0.02")
    assert all("laplacian(u)" in fit.names for fit in made.models)
    assert made.best.theta[0] == 0.02
    assert made.best.posterior.variance[0] == 0
    assert made.best.narrowed[0] == 0
    assert "0.02" in made.text


def test_tied_operators_enter_and_leave_together(fisher):
    given = {"noise": IID(SIGMA), "constraints": TIE, "prior": UNIT}
    made = refine(fisher, library(*FISHER), **given)
    assert {frozenset(fit.names) for fit in made.models} == set(map(frozenset, (FISHER, FISHER[1:], FISHER[:1])))
    short = refine(fisher, library(*FISHER), budget=0.0, **given)
    assert set(short.left_out) == {FISHER[:1], FISHER[1:]}


def test_without_time_tied_operators_are_weighed_by_one_density_at_zero(slopes):
    given = {"noise": IID(SIGMA), "constraints": "x + x**2 == 0", "prior": UNIT}
    short = refine(slopes, library("1", "x", "x**2"), budget=0.0, **given)
    alone = refine(slopes, library("1", "x", "x**2"), structures=[["1"]], **given).best
    assert refining.evidence_of([("1",)], short.models)["1",] == pytest.approx(alone.log_evidence, abs=0.1)
    assert short.inclusion()["x"] == short.inclusion()["x**2"]


def test_chains_satisfy_equalities_and_have_a_joint_prior(slopes):
    pytest.importorskip("nutpie")
    prior = Prior({("1", "x"): JointNormal([0.5, 0.2], 0.02**2 * np.array([[1, -0.9], [-0.9, 1]]))})
    names, given = ("1", "x", "x**2"), {"constraints": "x + x**2 == 0", "prior": prior}
    laplace = fitted(slopes, *names, **given).posterior
    draws = fitted(slopes, *names, **given, sample=NUTS(150, 60, 1)).posterior.rows
    np.testing.assert_allclose(draws[:, 1], -draws[:, 2], rtol=1e-9)
    sd = np.sqrt(laplace.variance)
    assert np.abs((draws.mean(axis=0) - laplace.mean) / sd).max() < 0.35
    np.testing.assert_allclose(np.cov(draws.T) / np.outer(sd, sd), laplace.covariance / np.outer(sd, sd), atol=0.3)


REFUSED = [
    ({"structures": [FISHER, FISHER[:2]]}, RefineError, r"structures: in .* make 'u' zero; add the operators"),
    ({"constraints": "u == 2", "structures": [FISHER[:1]]}, InfeasibleError, "'u == 2' cannot hold in a model without"),
    (
        {"prior": Prior({"u": HalfNormal(1)})},
        RefineError,
        r"prior of 'u': 'u \+ u\*\*2 == 0' is an equality.*state a N",
    ),
    ({"constraints": ["u == 2", "u == 3"]}, InfeasibleError, "these cannot hold together: 'u == 2'; 'u == 3'"),
]


@pytest.mark.parametrize("change, error, text", REFUSED)
def test_what_equalities_forbid_is_refused_before_anything_is_computed(fisher, monkeypatch, change, error, text):
    monkeypatch.setattr(refining, "Measurements", None)
    with pytest.raises(error, match=text):
        refine(fisher, library(*FISHER), **{"noise": IID(SIGMA), "constraints": TIE, **change})


def test_an_equality_against_well_posedness_is_refused(fisher):
    with pytest.raises(InfeasibleError, match=r"well posed.*; 'laplacian\(u\) == -1'"):
        fitted(fisher, *FISHER, constraints="laplacian(u) == -1")


def test_equalities_of_parameters_are_refused(fisher):
    inside = Library({"u": ["laplacian(u)", "u/(K + u)"]}, boundary=NoFlux(), parameters={"K": (0.1, 2.0)})
    with pytest.raises(RefineError, match="equality of a parameter; write it into the operators"):
        refine(fisher, inside, noise=IID(SIGMA), constraints="K - [u/(K + u)] == 0")


def test_parameters_go_with_equalities_of_coefficients(fisher):
    """u^K with K near 2, tied to u: as without parameters where K is 2."""
    inside = Library({"u": ["laplacian(u)", "u", "u**K"]}, boundary=NoFlux(), parameters={"K": (1.5, 3.0)})
    made = refine(
        fisher,
        inside,
        noise=IID(SIGMA),
        constraints=["u + [u**K] == 0", "K >= 1.6", "K <= 2.9"],
        structures=[inside.names],
    )
    at = dict(zip(made.best.names, made.best.posterior.mean, strict=True))
    sd = dict(zip(made.best.names, np.sqrt(made.best.posterior.variance), strict=True))
    assert at["u"] == pytest.approx(-at["u**K"])
    (name,) = made.parameters
    assert abs(at[name] - 2) < 3 * sd[name]


def test_components_of_a_vector_share_their_coefficients():
    """v_t = 0.05 Δv + 0.5 v of both components, within bounds that are merged with the ties."""
    both = Library({"v": ["laplacian(v)", "v"]}, boundary=NoFlux(), vectors={"v": ("a", "b")})
    x, times = np.linspace(0.0, 1.0, 8), np.linspace(0.0, 0.5, 5)
    X, Y = np.meshgrid(x, x, indexing="ij")
    start = {"a": 1 + 0.5 * np.cos(np.pi * X).ravel(), "b": 1 + 0.3 * np.cos(np.pi * Y).ravel()}
    data = Data(times, {f: np.tile(u0, (5, 1)) for f, u0 in start.items()}, Grid(x=x, y=x))
    u, _ = simulator(data, both).run(np.array([0.05, 0.5, 0.05, 0.5]), start, times)
    rng = np.random.default_rng(0)
    noisy = data.with_fields({f: values + 0.01 * rng.standard_normal(values.shape) for f, values in u.items()})
    made = refine(noisy, both, noise=IID(0.01), constraints=["[a: v] >= 0", "[a: v] <= 5"])
    assert {len(fit.names) for fit in made.models} == {2, 4}
    fit = made.best
    np.testing.assert_array_equal(fit.theta[:2], fit.theta[2:])
    assert np.abs((fit.theta[:2] - [0.05, 0.5]) / np.sqrt(fit.posterior.variance[:2])).max() < 3
