"""Exact solutions of u_t = D u_xx − c u_x with noise, fitted as ``discover`` would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bvsi.check import Check, Variation, check, variations
from bvsi.data import Data, Grid
from bvsi.infer import Fit, Profile
from bvsi.likelihood import ResidualLikelihood, Stacked
from bvsi.noise import PerField
from bvsi.operators import Library
from bvsi.residual import TemporalTests
from bvsi.setup import Setup
from bvsi.spaces import SplineTests

TRUTH = {"dx(u)": -2.0, "dx(dx(u))": 0.05}
MODES = 5
SIGMA = 0.02


def wave(nodes: int = 64, times: int = 121, modes: int = MODES) -> Data:
    """Σ_k e^{−Dk²t} cos(k(x − ct) + k²)/√k on [0, 2π), t ∈ [0, 6]."""
    x, t = np.arange(nodes) * 2 * np.pi / nodes, np.linspace(0, 6, times)
    k = np.arange(1, modes + 1)[:, None, None]
    phase = k * (x + TRUTH["dx(u)"] * t[:, None]) + k**2
    u = np.sum(np.exp(-TRUTH["dx(dx(u))"] * k**2 * t[:, None]) * np.cos(phase) / np.sqrt(k), axis=0)
    return Data.from_arrays({"u": u}, times=t, geometry=Grid(x=x, periodic={"x": 2 * np.pi}))


def noisy(data: Data, seed: int, sigma: float = SIGMA) -> Data:
    """White noise added."""
    rng = np.random.default_rng(seed)
    return data.with_fields({"u": data.fields["u"] + sigma * rng.standard_normal(data.fields["u"].shape)})


@dataclass(frozen=True)
class Case:
    """Data with test functions, operators and a stated noise level."""

    data: Data
    gap_x: float = 3.0
    gap_t: float = 3.0
    sigma: float = SIGMA
    names: tuple[str, ...] = tuple(TRUTH)

    @property
    def discretisation(self) -> SplineTests:
        return SplineTests({"x": self.gap_x}, 6)

    @property
    def stencil(self) -> TemporalTests:
        return TemporalTests(5, self.gap_t)

    @property
    def setup(self) -> Setup:
        library, noise = Library({"u": list(self.names)}), PerField({"u": self.sigma})
        return Setup((self.data,), (noise,), ({},), library, self.discretisation, self.stencil, Stacked())

    def likelihood(self) -> ResidualLikelihood:
        return self.setup.likelihood()

    def refits(self, fit: Fit) -> list[tuple[Variation, Fit]]:
        return [(v, Profile().fit(v.setup.likelihood(), start=fit.theta)) for v in variations(self.setup)]

    def checked(self, **options: object) -> Check:
        likelihood = self.likelihood()
        fit = Profile().fit(likelihood)
        settings = {"noise_error": 0.0, "rng": np.random.default_rng(0), "data": [self.data], **options}
        return check(fit, likelihood, self.refits(fit), **settings)
