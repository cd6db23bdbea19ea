"""Data at both ends: as much noise as signal, and none at all."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.check import Verdict
from bvsi.check.assessment import seen_signal
from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.discovery.method import choose_method
from bvsi.infer import Profile
from bvsi.infer.priors import LogNormal, Normal, Prior
from bvsi.noise.measurement import measure_all
from bvsi.operators import Library
from bvsi.studies.benchmarks.honesty.physics import NodesAndFrames, chaos, fisher, waves
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled
from discovery.exact_cases import BURGERS, BURGERS_TRUTH, burgers, noisy

POWERS = Library({"u": ["u", "u**2", "u**3", "dx(u)", "u*dx(u)", "u**2*dx(u)", "dx(dx(u))", "dx(dx(u**2))"]})


def steepening(nodes: int = 256, times: int = 101) -> Data:
    """u_t = −u u_x before the shock, along its characteristics."""
    x, t = 2 * np.pi * np.arange(nodes) / nodes, np.linspace(0, 0.9, times)[:, None]
    start = np.broadcast_to(x, (times, nodes)).copy()
    for _ in range(60):  # Newton for y + t u(y) = x
        start -= (start + t * (0.5 + np.sin(start)) - x) / (1 + t * np.cos(start))
    return Data(t[:, 0], {"u": 0.5 + np.sin(start)}, Grid(periodic={"x": 2 * np.pi}, x=x))


def test_as_much_noise_as_signal() -> None:
    clean = steepening()
    size = float(np.sqrt(np.mean(clean.fields["u"] ** 2)))
    runs = [discover(noisy(clean, size, seed), POWERS) for seed in range(3)]
    assert [found.names for found in runs] == [("u*dx(u)",)] * 3
    assert [found.verdict for found in runs] == ["consistent"] * 3
    assert all(abs(found.coefficient("u*dx(u)") + 1) < 3.5 * found.sd[0] for found in runs)


def test_noise_in_the_jacobians_of_cubes_does_not_look_like_advection() -> None:
    equation = SemiLinear(lambda k: 0.04j * k**3, lambda k: -1j / 3 * k, lambda u: u**3, degree=3)
    box, times = Box(0.0, 10.0), np.linspace(0, 2, 81)
    (x,) = box.points(256)
    library, z = Library({"u": ["dx(u)", "u**2*dx(u)", "dx(dx(dx(u)))"]}, keep="all"), []
    for seed in range(6):
        phase = np.random.default_rng([5521, seed]).uniform(0, 2 * np.pi, 3)
        u0 = np.sum([np.cos(2 * np.pi * (k + 1) * x / 10 + phase[k]) for k in range(3)], axis=0)
        clean = sampled({"u": equation.solve(u0, box, times, 0.001)}, times, box, 128)
        data = noisy(clean, 0.4 * float(clean.fields["u"].std()), seed)
        runs = [discover(data, library, check=False, relinearise=rounds) for rounds in (0, None)]
        z.append([found.coefficient("dx(u)") / found.sd[found.names.index("dx(u)")] for found in runs])
    at_data, smoothed = np.mean(z, axis=0)
    assert at_data < -3 / np.sqrt(6)
    assert abs(smoothed) < 2 / np.sqrt(6)


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_clean_data_have_no_spurious_operators(precision) -> None:
    data = burgers()
    rounded = data.with_fields({"u": data.fields["u"].astype(precision).astype(float)})
    library = Library({"u": [*POWERS.names, "dx(dx(u**3))", "dx(dx(dx(u)))"]})
    found = discover(rounded, library)
    assert {name.replace("dx(dx(u))", "laplacian(u)") for name in found.names} == set(BURGERS_TRUTH)
    assert found.verdict == "consistent"


@pytest.mark.parametrize("nodes, frames", [(96, 61), (48, 61), (96, 21)])
def test_intervals_of_clean_data_hold_the_truth_and_are_no_wider_than_discretisations_differ(nodes, frames) -> None:
    for seed, physics in enumerate((waves, fisher)):
        drawn = physics(np.random.default_rng([4471, seed, nodes, frames]), NodesAndFrames(nodes, frames))
        found = discover(drawn.data, drawn.library())
        assert set(found.names) == set(drawn.truth)
        errors = np.abs([found.coefficient(name) - drawn.truth[name] for name in found.names])
        assert np.all(errors < 2.2 * found.sd)
        assert found.check is not None
        moved = np.sum([np.abs(one.difference) for one in found.check.comparisons], axis=0)
        assert np.all(1.9 * np.sqrt(np.diag(found.check.covariance_added)) < moved)  # the rest is of the residuals


@pytest.mark.parametrize("share", [0.0, 3e-4])
def test_quadrature_adds_no_operators_where_there_is_little_noise(share) -> None:
    """Kuramoto–Sivashinsky: test functions as narrow as for noisy data let four further operators in."""
    rng = np.random.default_rng([9100, 0, *b"chaos", *b"3e-4"])
    drawn = chaos(rng, NodesAndFrames(128, 91))
    u = drawn.data.fields["u"]
    found = discover(
        drawn.data.with_fields({"u": u + share * np.sqrt(np.mean(u**2)) * rng.standard_normal(u.shape)}),
        drawn.library(),
    )
    assert set(found.names) == set(drawn.truth)
    assert found.verdict == "consistent"
    z = [
        (found.coefficient(name) - value) / sd for (name, value), sd in zip(drawn.truth.items(), found.sd, strict=True)
    ]
    assert np.max(np.abs(z)) < 4


@pytest.mark.parametrize("speed, mean", [(0.0, 0.0), (0.0, 1.5), (1.3, 0.0)])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1])
def test_one_wave_is_said_to_be_one(speed, mean, share) -> None:
    """u, u_xx and u_xxxx are multiples of one another, as are u_x and u_xxx: noise does not tell them apart."""
    x, t = 2 * np.pi * np.arange(64) / 64, np.linspace(0, 1, 41)[:, None]
    u = mean + np.exp(-(0.0 if speed else 0.4) * t) * np.sin(2 * (x - speed * t))
    data = Data(t[:, 0], {"u": u}, Grid(periodic={"x": 2 * np.pi}, x=x))
    library = Library({"u": ["u", "u**2", "dx(u)", "dx(dx(u))", "dx(dx(dx(u)))", "dx(dx(dx(dx(u))))"]})
    found = discover(noisy(data, share * float(np.sqrt(np.mean(u**2))), 3), library)
    assert found.verdict == "not decided"
    assert share or "multiple" in found.path.doubts
    assert not found.path.decided


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_two_waves_tell_derivatives_apart(share) -> None:
    x, t = 2 * np.pi * np.arange(64) / 64, np.linspace(0, 1, 41)[:, None]
    u = np.sin(2 * (x - 1.3 * t)) + 0.3 * np.sin(3 * (x - 1.3 * t))
    data = Data(t[:, 0], {"u": u}, Grid(periodic={"x": 2 * np.pi}, x=x))
    found = discover(noisy(data, share, 3), Library({"u": ["u", "dx(u)", "dx(dx(u))", "dx(dx(dx(u)))"]}))
    assert found.names == ("dx(u)",)
    assert found.verdict == "consistent"


def test_large_coefficients_hide_the_time_terms() -> None:
    data = noisy(burgers(), 0.05, 0)
    setup = choose_method(measure_all((data,), None, robust=None), BURGERS, None).setup
    likelihood = setup.likelihood(list(BURGERS_TRUTH))
    fit, rng = Profile().fit(likelihood), np.random.default_rng(0)
    assert 0.5 < seen_signal(fit, likelihood, rng) < 1.5
    object.__setattr__(fit, "theta", 3e3 * fit.theta)
    assert seen_signal(fit, likelihood, rng) < 0.05


@pytest.mark.parametrize("law", [Normal(0.1, 0.1), LogNormal(-2.3, 1.0)])
def test_priors_by_name_where_the_noise_is_not_known(law) -> None:
    x, t = np.linspace(0, 1, 12), np.linspace(0, 0.3, 5)[:, None]
    u = sum(a * np.exp(-0.1 * (k * np.pi) ** 2 * t) * np.sin(k * np.pi * x) for k, a in ((1, 1.0), (2, 0.3)))
    data = noisy(Data(t[:, 0], {"u": u}, Grid(x=x)), 0.02, 0)
    library = Library({"u": ["laplacian(u)", "u"]}, keep=["laplacian(u)", "u"])
    found = discover(data, library, prior=Prior({"laplacian(u)": law}))
    assert abs(found.coefficient("laplacian(u)") - 0.1) < 4 * found.sd[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_operators_that_are_kept_are_fitted_where_noise_hides_all_candidates(seed):
    """At six times the RMS of the field; before, only where the user kept all of them."""
    x, t = np.arange(64) * 2 * np.pi / 64, np.linspace(0, 2, 31)
    u = sum(
        a * np.exp(-0.1 * k * k * t[:, None]) * np.cos(k * (x - 0.5 * t[:, None]) + k) for k, a in ((1, 1), (2, 0.6))
    )
    noise = 6 * np.sqrt(np.mean(u**2)) * np.random.default_rng(seed).standard_normal(u.shape)
    kept = ["laplacian(u)", "dx(u)"]
    library = Library({"u": [*kept, "u", "u**2", "u**3", "dx(dx(dx(u)))"]}, keep=kept)
    found = discover(Data(t, {"u": u + noise}, Grid(x=x, periodic="x")), library)
    assert set(kept) <= set(found.names)
    assert found.check.verdict is not Verdict.CONSISTENT
