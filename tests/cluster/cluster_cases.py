"""Small data, libraries and settings, each with the local likelihood and the one on the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.cluster import ClusterLikelihood, cluster_likelihood
from bvsi.data import Data, Grid
from bvsi.likelihood import Block, Isotropic, ResidualLikelihood, Stacked, Weighting, residual_likelihood
from bvsi.noise import IID, Covariance, Diagonal, Noise, PerTime, UnknownScale
from bvsi.operators import Library, ZeroNeumann
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, Stencil, TemporalTests, assemble
from bvsi.spaces import Q2, Galerkin, SplineTests

SIGMA = 2e-3
DIFFUSION = 0.01


def waves(times: np.ndarray, n: int = 20, phase: float = 0.0, seed: int = 0) -> Data:
    """A solution of u_t = 0.01 u_xx + noise on [0, 1) periodic."""
    x = np.arange(n) / n
    u = np.full((len(times), n), 0.5)
    for k, a in ((1, 1.0), (2, 0.5), (3, 0.3)):
        decay = np.exp(-DIFFUSION * (2 * np.pi * k) ** 2 * times)
        u += a * decay[:, None] * np.sin(2 * np.pi * k * x + phase + k)
    u += SIGMA * np.random.default_rng(seed).standard_normal(u.shape)
    return Data(times, {"u": u}, Grid(x=x, periodic={"x": 1.0}))


def two_fields() -> Data:
    one, other = waves(TIMES, 12), waves(TIMES, 12, phase=1.0, seed=1)
    return Data(TIMES, {"u": one.fields["u"], "v": other.fields["u"]}, one.geometry)


def square() -> Data:
    """Two dimensions, bounded, 9 × 9 nodes."""
    axis, times = np.linspace(0, 1, 9), np.linspace(0, 0.2, 11)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    rng = np.random.default_rng(2)
    c = np.stack([np.cos(np.pi * x) * np.cos(2 * np.pi * y) * np.exp(-t) + 0.2 * np.cos(np.pi * y) for t in times])
    return Data(times, {"c": (c + SIGMA * rng.standard_normal(c.shape)).reshape(11, -1)}, Grid(x=axis, y=axis))


def with_gaps() -> Data:
    data = waves(TIMES)
    measured = np.ones((len(TIMES), 20), dtype=bool)
    measured[5, 3] = measured[9, 10:13] = False
    return Data(data.times, data.fields, data.geometry, measured={"u": measured})


TIMES = np.linspace(0, 1, 17)
UNEVEN = np.sort(np.concatenate([TIMES, [0.03, 0.41, 0.77]]))
LIBRARY = Library({"u": ["laplacian(u)", "u", "dx(u)", "u**2", "u*dx(u)"]})
COUPLED = Library({"u": ["laplacian(u)", "u", "u*v"], "v": ["laplacian(v)", "u**2"]})
PLATE = Library({"c": ["laplacian(c)", "laplacian(c**3)", "biharmonic(c)", "c"]}, boundary={"c": ZeroNeumann()})
_LEVELS = np.random.default_rng(3).uniform(1e-3, 3e-3, (len(TIMES), 20))
_CORRELATED = sparse.csr_array(sparse.diags_array([1e-6, 4e-6, 1e-6], offsets=[-1, 0, 1], shape=(24, 24)))


@dataclass(frozen=True, eq=False)
class Case:
    """theta: somewhere, not the estimate."""

    data: Data | Sequence[Data]
    library: Library
    noise: Noise | Sequence[Noise] = field(default_factory=lambda: IID(SIGMA))
    stencil: Stencil = field(default_factory=BackwardEuler)
    weighting: Weighting = field(default_factory=Block)
    discretisation: Galerkin | SplineTests = field(default_factory=Galerkin)

    @property
    def theta(self) -> np.ndarray:
        return 0.02 * np.random.default_rng(5).uniform(0.5, 1.5, len(self.library.names))

    def local(self) -> ResidualLikelihood:
        system = assemble(self.data, self.library, discretisation=self.discretisation, stencil=self.stencil)
        return residual_likelihood(system, self.noise, self.weighting)

    def on(self, client: Any) -> ClusterLikelihood:
        return cluster_likelihood(
            client,
            self.data,
            self.library,
            self.noise,
            weighting=self.weighting,
            discretisation=self.discretisation,
            stencil=self.stencil,
        )


SPLINES = SplineTests(gap=1.5)
CASES = {
    "backward Euler": Case(waves(TIMES), LIBRARY),
    "noise by time": Case(waves(UNEVEN), LIBRARY, PerTime(np.linspace(1e-3, 3e-3, 20)), CrankNicolson()),
    "noise by time and node": Case(waves(TIMES), LIBRARY, UnknownScale(Diagonal({"u": _LEVELS})), BDF2()),
    "temporal tests": Case(waves(np.linspace(0, 1, 41)), LIBRARY, stencil=TemporalTests(3, 1.5)),
    "correlated noise": Case(two_fields(), COUPLED, Covariance(_CORRELATED)),
    "fourth order": Case(square(), PLATE, discretisation=Galerkin(Q2)),
    "missing values": Case(with_gaps(), LIBRARY),
    "two experiments": Case([waves(TIMES), waves(UNEVEN, 16, 0.5, 1)], LIBRARY, [IID(SIGMA), IID(2 * SIGMA)]),
    "unweighted": Case(waves(TIMES), LIBRARY, weighting=Isotropic()),
    "stacked": Case(
        [waves(np.linspace(0, 1, 31), 32), waves(np.linspace(0, 1, 26), 24, 0.5, 1)],
        LIBRARY,
        stencil=TemporalTests(3, 1.5),
        weighting=Stacked(),
        discretisation=SPLINES,
    ),
}
