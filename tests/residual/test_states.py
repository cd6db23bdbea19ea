"""Operators are linearised so that Σ is the covariance of the residuals at strong noise too."""

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.data.denoise import smoothers
from bvsi.likelihood import Stacked
from bvsi.noise import PerField
from bvsi.operators import Library
from bvsi.residual import TemporalTests
from bvsi.setup import Setup
from bvsi.spaces import SplineTests

LIBRARY = Library({"u": ["laplacian(u)", "u*dx(u)", "laplacian(u**3)"]})
THETA = np.array([-0.1, 0.5, 0.3])


def waves(sigma=0.0, seed=0, n=96, T=64):
    x, t = 2 * np.pi * np.arange(n) / n, np.linspace(0, 1, T)[:, None]
    u = np.sin(x - 2 * t) + 0.5 * np.cos(2 * x + 3 * t)
    u += sigma * np.random.default_rng(seed).standard_normal(u.shape)
    return Data(t[:, 0], {"u": u}, Grid(periodic={"x": 2 * np.pi}, x=x))


def likelihood_of(data, sigma):
    variance = {"u": np.array(sigma**2)} if sigma else {}
    tests = SplineTests(4.0, 6)
    return Setup(
        (data,), (PerField({"u": sigma or 1.0}),), (variance,), LIBRARY, tests, TemporalTests(5, 4.0), Stacked()
    ).likelihood()


@pytest.mark.parametrize("level", [0.5, 1.0])
def test_the_covariance_is_that_of_the_residuals(level):
    """(r(û) − r(u))ᵀ Σ⁻¹ (r(û) − r(u)) has the mean n; with Jacobians at û themselves it is 0.81 n and 0.60 n here."""
    clean = waves()
    sigma = level * float(np.sqrt(np.mean(clean.fields["u"] ** 2)))
    truth, found = likelihood_of(clean, 0.0).system.residual(THETA)[0], []
    for seed in range(8):
        noisy = likelihood_of(waves(sigma, seed), sigma)
        (part,) = noisy.parts
        off = (part.residuals.residual(THETA) - truth)[:, :, None]
        found.append(np.vdot(off, noisy.weighting.weights(part, THETA)(off)) / noisy.n)
    assert np.mean(found) == pytest.approx(1.0, abs=0.08)  # 8 draws of 264 residuals: 0.03


def test_states_keep_half_of_the_noise_and_all_of_the_signal():
    clean = waves()
    smoother = smoothers(waves(0.3, seed=1))["u"]
    noise = np.random.default_rng(2).standard_normal(clean.fields["u"].shape)
    kept, part = smoother.keeping(0.5, noise)
    assert part == 0.5
    assert np.var(kept) == pytest.approx(0.5, rel=0.05)
    signal, _ = smoother.keeping(0.5, clean.fields["u"])
    assert np.abs(signal - clean.fields["u"]).max() < 0.02


def test_long_axes_are_smoothed_in_parts():
    """A series of 500 times in parts of some 50: as smooth as the whole but at the ends of the parts."""
    t = np.linspace(0, 20, 500)
    clean = np.sin(t)[:, None]
    noisy = clean + 0.2 * np.random.default_rng(3).standard_normal(clean.shape)
    data = Data(t, {"u": noisy}, Grid())
    whole, parts = (smoothers(data, longest)["u"].smooth(noisy) - clean for longest in (None, 100))
    assert np.sqrt(np.mean(parts**2)) < 2 * np.sqrt(np.mean(whole**2)) < 0.1
    mu, line = np.poly1d([1, 2, 3, 4])(t)[:, None], smoothers(data, 100)["u"]
    np.testing.assert_allclose(line.smooth(mu), mu, rtol=1e-6, atol=1e-6 * np.abs(mu).max())  # cubics stay
