"""Weightings: which part of the residual covariance the likelihood keeps.

isotropic  W = I                                classical VSI
block      W = blockdiag(Σ_kk(θ))⁻¹             the paper (eq:block_diagonal_residual_covariance)
stacked    W = Σ(θ)⁻¹                           :mod:`bvsi.likelihood.stacked`

A weighting is a partition of the residuals into tiles with W = blockdiag(Σ_ττ⁻¹): a tile for every time block is
``Block``, one tile is ``Stacked``. Whatever depends on the partition is asked of the weighting; no other module
needs to know which one it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.likelihood.blocks import over_groups, streamed_solver
from bvsi.likelihood.covariance import CovariancePlan, FactorisedGroup, Part, plan_covariance
from bvsi.likelihood.density import Density, Term, block_density
from bvsi.likelihood.normal_equations import NormalEquations, accumulate
from bvsi.likelihood.profile_equations import ProfileEquations, block_profile_equations
from bvsi.linalg import Backend, Factor
from bvsi.noise.models import Noise
from bvsi.residual import Residuals, Structure

Array = NDArray[np.float64]
Rng = np.random.Generator

Weights: TypeAlias = Callable[[Array], Array]
"""Z ↦ W Z for residuals Z (N, K, m)."""


class Weighting(Protocol):
    """A choice of W."""

    @property
    def uses_noise(self) -> bool:
        """Whether W has the size of the noise in it; otherwise the residual variance has to be estimated."""

    @property
    def couples_blocks(self) -> bool:
        """Whether W has entries between time blocks; otherwise sums over some of the blocks stand for themselves."""

    @property
    def exact(self) -> bool:
        """Whether W is the inverse of the whole covariance: rᵀWr is χ²-distributed and Cov(g) = H."""

    def plan(self, structure: Structure, noise: Noise) -> CovariancePlan | None:
        """What can be prepared before θ is known."""

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """H, g and q of one experiment at θ."""

    def profile_equations(self, part: Part, theta: Array, *, smoothing: float, rng: Rng | None) -> ProfileEquations:
        """The same with smoothed regressors, for the profile estimator."""

    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """Misfit of one experiment, with its gradient or without; log-determinant and change of variables if asked."""

    def weights(self, part: Part, theta: Array) -> Weights:
        """W(θ) as a function."""

    def reweighted(self, part: Part, theta: Array, near: Weights, Z: Array) -> Array:
        """W(θ) Z for Z (N, K, m), possibly to a few digits only; near: the weights of a θ close by."""

    def estimates(self, structure: Structure) -> Array:
        """Number of tiles that touch the state of each time, (T,): so many estimates of its noise Σ_u Cᵀ W r sums."""

    def slope_is_cheap(self, part: Part) -> bool:
        """Whether q and ∇q cost far less than H."""


@dataclass(frozen=True)
class Isotropic:
    """W = I: every residual counts alike (sec:discussion_VSI_likelihood)."""

    uses_noise: ClassVar[bool] = False
    couples_blocks: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    def plan(self, structure: Structure, noise: Noise) -> None:
        """Nothing to prepare."""
        del structure, noise

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """XᵀX, Xᵀr and rᵀr."""
        return accumulate(part.residuals.Z, theta, part.residuals.n)

    def profile_equations(self, part: Part, theta: Array, *, smoothing: float, rng: Rng | None) -> ProfileEquations:
        """Refused: unweighted residuals know nothing of the noise."""
        del part, theta, smoothing, rng
        raise BvsiError("the profile estimator needs the noise covariance; use Block() weighting.")

    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """q = rᵀr; the weights do not depend on θ."""
        del gradient, logdet
        if change:
            raise BvsiError("jacobian: unweighted residuals have no density of the data; use Block() weighting.")
        equations, zero = self.normal_equations(part, theta), Term(0.0, np.zeros(len(theta)))
        return Density(Term(equations.q, -2.0 * equations.g), zero, zero, equations.n)

    def weights(self, part: Part, theta: Array) -> Weights:
        """Z ↦ Z."""
        del part, theta
        return lambda Z: Z

    def reweighted(self, part: Part, theta: Array, near: Weights, Z: Array) -> Array:
        """Z."""
        del part, theta, near
        return Z

    def estimates(self, structure: Structure) -> Array:
        """One for every block that uses the time."""
        return blocks_of_times(structure)

    def slope_is_cheap(self, part: Part) -> bool:
        """Where one Jacobian serves all times."""
        return part.residuals.constant_jacobian


@dataclass(frozen=True)
class Block:
    """W = blockdiag(Σ_kk(θ))⁻¹: noise propagated within each time block, correlation between blocks left out.

    backend: Cholesky engine; by default the fastest available.
    """

    backend: Backend | None = None
    uses_noise: ClassVar[bool] = True
    couples_blocks: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    def plan(self, structure: Structure, noise: Noise) -> CovariancePlan:
        """Patterns, products and symbolic factorisation."""
        return plan_covariance(structure, noise, self.backend)

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """One factorisation per distinct covariance, one half solve per column."""
        residuals, rows = part.residuals, part.residuals.structure.block_rows

        def of_group(one: FactorisedGroup) -> list[tuple[NDArray[np.int64], NormalEquations]]:
            logdet, slabs = one.factor.logdet(), one.group.slabs(1 + residuals.d)
            return [
                (k, accumulate(whitened(one.factor, residuals, k), theta, int(rows[k].sum()), len(k) * logdet))
                for k in slabs
            ]

        q = np.zeros(residuals.structure.n_blocks)
        sums = [NormalEquations.none(residuals.d)]
        for slabs in over_groups(part, theta, of_group):
            for blocks, equations in slabs:
                q[blocks] = equations.q_blocks[0]
                sums.append(equations)
        return NormalEquations.total(sums, (q,))

    def profile_equations(self, part: Part, theta: Array, *, smoothing: float, rng: Rng | None) -> ProfileEquations:
        """Smoothed regressors, block by block."""
        return block_profile_equations(part, theta, smoothing=smoothing, rng=rng)

    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """Exact, from one factorisation and its selected inverse."""
        return block_density(part, theta, gradient=gradient, logdet=logdet, change=change)

    def weights(self, part: Part, theta: Array) -> Weights:
        """One solve per distinct covariance; factors are not kept where there are several."""
        return streamed_solver(part, theta)

    def reweighted(self, part: Part, theta: Array, near: Weights, Z: Array) -> Array:
        """Exact: factors of blocks are cheap."""
        del near
        return self.weights(part, theta)(Z)

    def estimates(self, structure: Structure) -> Array:
        """One for every block that uses the time."""
        return blocks_of_times(structure)

    def slope_is_cheap(self, part: Part) -> bool:
        """Where one factor serves many blocks."""
        return part.residuals.constant_jacobian


def blocks_of_times(structure: Structure) -> Array:
    """Number of blocks that use each time, (T,), at least one."""
    used = abs(structure.a) + abs(structure.b)
    return np.maximum(np.bincount(used.indices, minlength=structure.n_times), 1)


def whitened(factor: Factor, residuals: Residuals, blocks: NDArray[np.int64]) -> Array:
    """R [y, X] for some blocks, (N, blocks, 1 + d), RᵀR = W."""
    N, _, m = residuals.Z.shape
    first, last = int(blocks[0]), int(blocks[-1])
    flat = residuals.Z.reshape(N, -1)
    if last - first + 1 == len(blocks):  # neighbours, the usual case: a view, no copy
        columns = flat[:, first * m : (last + 1) * m]
    else:
        columns = flat[:, (blocks[:, None] * m + np.arange(m)).ravel()]
    return factor.whiten(columns).reshape(N, len(blocks), m)
