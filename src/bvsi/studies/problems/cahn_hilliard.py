"""The paper's two-field Cahn–Hilliard case (sec:example_CH).

    c_i,t = m ∇²(∂g/∂c_i − k ∇²c_i) = Σ_φ η_φ ∇²(∂φ/∂c_i) + λ_i ∇⁴c_i   on [0, 20]²,   λ_i = −m k = −1

Data sets, each from white noise around ½:

    neumann      P2 triangles, ∇c·n = 0 imposed, 10 backward-Euler steps of 2: the one that matches tab:CH_parameters
    paper        the same with the literal form, interior facets only, 10 steps of 0.5 to T = 5; ill-posed
    independent  cosine-spectral, accurate in time, sampled every 0.5 in t = 16 … 21, on the nodes of Q2 elements
    stated       cosine-spectral, sampled every 0.5 to T = 5: the physics as stated, in which nothing separates by then
    imposed      as paper, but with ∇c·n = 0 imposed: beside the two before it shows what the boundary terms do
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.forward import ThetaScheme, simulate
from bvsi.infer.posteriors import Posterior
from bvsi.noise import add_noise
from bvsi.operators import Biharmonic, InteriorPenalty, Library, Mixed, energy_operator, free_energy_library
from bvsi.residual import BackwardEuler, CrankNicolson, Stencil, assemble
from bvsi.spaces import P2, Q2, Galerkin, Lagrange
from bvsi.studies.problems.cache import cached
from bvsi.studies.problems.cosine_spectral import LENGTH, solve, white_noise
from bvsi.studies.problems.free_energy import COEFFICIENTS, DEGREE, FIELDS, GRADIENT_ENERGY, MOBILITY

Array = NDArray[np.float64]

BIHARMONIC = -MOBILITY * GRADIENT_ENERGY
"""λ_1 = λ_2 = −m k."""

TRUTH: dict[str, float] = {
    name: value
    for i, f in enumerate(FIELDS)
    for name, value in (
        (f"{f}: biharmonic({f})", BIHARMONIC),
        *((f"{f}: {energy_operator(a, FIELDS, f)}", eta) for a, eta in COEFFICIENTS.items() if a[i]),
    )
}
"""The sixteen coefficients that generate the data, by operator."""


class DataSet(enum.StrEnum):
    """Which data."""

    NEUMANN = "neumann"
    PAPER = "paper"
    INDEPENDENT = "independent"
    STATED = "stated"
    IMPOSED = "imposed"


_TIMES: dict[DataSet, Array] = {
    DataSet.NEUMANN: np.linspace(0, 20, 11),
    DataSet.PAPER: np.linspace(0, 5, 11),
    DataSet.INDEPENDENT: np.linspace(16, 21, 11),
    DataSet.STATED: np.linspace(0.5, 5, 10),
    DataSet.IMPOSED: np.linspace(0, 5, 11),
}
_CACHE_VERSION = 3


@dataclass(frozen=True)
class CahnHilliardCase:
    """One data set of the study.

    Parameters
    ----------
    data
        Which.
    nx
        Second-order elements per side, 20 or 25 in the paper.
    sigma, seed
        Of the noise.
    initial
        Seed of the initial state.
    """

    data: DataSet = DataSet.NEUMANN
    nx: int = 20
    sigma: float = 1e-3
    seed: int = 0
    initial: int = 0

    def __post_init__(self) -> None:
        if min(self.seed, self.initial) < 0 or not (np.isfinite(self.sigma) and self.sigma > 0):
            raise BvsiError(
                f"sigma must be positive, seeds not negative; got {self.sigma}, {self.seed}, {self.initial}."
            )
        if not 4 <= self.nx <= 100:
            raise BvsiError(f"nx: elements per side, from 4 to 100; got {self.nx}.")

    @property
    def spectral(self) -> bool:
        """Whether the data come from the independent solver."""
        return self.data in (DataSet.INDEPENDENT, DataSet.STATED)

    @property
    def element(self) -> Lagrange:
        """Element that suits the data: that of the solver, else Q2."""
        return Q2 if self.spectral else P2

    @property
    def stencil(self) -> Stencil:
        """Time stencil that suits the data."""
        return CrankNicolson() if self.spectral else BackwardEuler()

    @property
    def grid(self) -> Grid:
        """Nodes of the data."""
        axis = np.linspace(0, LENGTH, 2 * self.nx + 1)
        return Grid(x=axis, y=axis)

    @property
    def treatment(self) -> Biharmonic:
        """Treatment of ∇⁴ that suits the data."""
        return Mixed() if self.spectral else InteriorPenalty(boundary=self.data is not DataSet.PAPER)


def library(treatment: Biharmonic | None = None, names: Mapping[str, float] | None = None) -> Library:
    """The dictionary of thirty operators (eq:cahn_hilliard_basis), or those named."""
    whole = free_energy_library(FIELDS, DEGREE, biharmonic=treatment)
    return whole if names is None else whole.subset(names)


def clean(case: CahnHilliardCase, progress: Progress = silent) -> Data:
    """Noise-free concentrations of a case, kept on disk after the first run."""
    settings = {"version": _CACHE_VERSION, "data": case.data.value, "nx": case.nx, "initial": case.initial}
    solver = _spectral if case.spectral else _finite_elements
    arrays = cached(f"cahn-hilliard-{case.data.value}", settings, lambda: solver(case, progress), keys=FIELDS)
    return _data(case, _TIMES[case.data], {f: arrays[f] for f in FIELDS})


def observed(case: CahnHilliardCase, progress: Progress = silent) -> Data:
    """The data of a case, with noise."""
    return add_noise(clean(case, progress), case.sigma, np.random.default_rng(case.seed))


def step_residuals(case: CahnHilliardCase) -> Array:
    """‖r_k(θ_GT)‖/‖y_k‖ of the noise-free data of each step: zero where the solver solved its own equations."""
    system = assemble(
        clean(case),
        library(case.treatment, TRUTH),
        discretisation=Galerkin(case.element),
        stencil=case.stencil,
    )
    (residual,) = system.residual([TRUTH[name] for name in system.names])
    return np.asarray(np.linalg.norm(residual, axis=0) / np.linalg.norm(system.experiments[0].y, axis=0))


def error(theta: Mapping[str, float]) -> float:
    """‖θ − θ_GT‖ over the union of true and fitted operators."""
    return float(np.linalg.norm([theta.get(name, 0.0) - TRUTH.get(name, 0.0) for name in {*theta, *TRUTH}]))


def mahalanobis(posterior: Posterior) -> float:
    """(θ − θ_GT)ᵀ Cov⁻¹ (θ − θ_GT)/d, zero for operators that are not true; near one where error bars are right."""
    gap = posterior.mean - np.array([TRUTH.get(name, 0.0) for name in posterior.names])
    return float(gap @ np.linalg.solve(posterior.covariance, gap)) / len(gap)


def _data(case: CahnHilliardCase, times: Array, fields: Mapping[str, Array]) -> Data:
    return Data(times=times, fields=dict(fields), geometry=case.grid, auxiliary={})


def _finite_elements(case: CahnHilliardCase, progress: Progress) -> dict[str, Array]:
    shape = (2 * case.nx + 1,) * 2
    times = _TIMES[case.data]
    start = {f: np.repeat(c.reshape(1, -1), 2, axis=0) for f, c in white_noise(shape, case.initial).items()}
    solved = simulate(
        library(case.treatment, TRUTH),
        TRUTH,
        _data(case, times[:2], start),
        times,
        discretisation=Galerkin(P2),
        scheme=ThetaScheme(damped=case.data is DataSet.PAPER),
        progress=progress,
    )
    return {f: solved.fields[f] for f in FIELDS}


def _spectral(case: CahnHilliardCase, progress: Progress) -> dict[str, Array]:
    wanted = _TIMES[case.data]
    solved = solve(
        white_noise((2 * case.nx + 1,) * 2, case.initial), np.concatenate([[0.0], wanted]), progress=progress
    )
    return {f: solved[f][1:].reshape(len(wanted), -1) for f in FIELDS}
