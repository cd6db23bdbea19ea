"""Weightings: which part of the residual covariance the likelihood keeps.

isotropic  W = I                                classical VSI
block      W = blockdiag(Σ_kk(θ))⁻¹             the paper (eq:block_diagonal_residual_covariance)
stacked    W = Σ(θ)⁻¹                           :mod:`bvsi.likelihood.stacked`
tiles      W = blockdiag(Σ_ττ(θ))⁻¹             tiles of neighbouring test functions, in the same module

A weighting is a partition of the residuals into tiles with W = blockdiag(Σ_ττ⁻¹): a tile for every time block is
``Block``, one tile is ``Stacked``. Whatever depends on the partition is asked of the weighting; no other module
needs to know which one it has.

The profile estimator takes regressors at data smoothed by their own residual:

    ε̂_kj = Σ_u,j C_kjᵀ W_k r_k            X̃_ki = X_ki − Σ_j b_kj J_i(û_j) ε̂_kj
    H = X̃ᵀWX̃,   g = X̃ᵀWr = −½ ∇_θ (rᵀ W(θ) r)

ε − ε̂ is uncorrelated with r, so that E[g] = 0 at the truth: no bias from noise in X. For error bars:

    S = Cov(g) = Σ_kl X̃_kᵀ W_k Cov(r_k, r_l) W_l X̃_l = Σ_j V_jᵀ Σ_u,j V_j,      V_j = Σ_k C_kjᵀ W_k X̃_k
    N = E[ξᵀWξ],   ξ_ki = Σ_j b_kj J_i(û_j) (ε − ε̂)_kj,      E[½∇²Q] = H − N

S has the correlation between blocks that the weights leave out. N is what noise left in X̃ adds to H: E[Q(θ)] is n plus
the misfit of the noise-free data, so its curvature is that of noise-free regressors. N comes from one draw of ε, which
is enough, since it sums over all residuals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bvsi.common.arrays import Array, Integers, Rng
from bvsi.errors import BvsiError
from bvsi.likelihood.covariance import (
    CovariancePlan,
    FactorisedGroup,
    Part,
    Weights,
    block_solver,
    over_groups,
    plan_covariance,
    stencil_row,
)
from bvsi.likelihood.density import Density, ValueGradient, block_density
from bvsi.likelihood.equations import NormalEquations, ProfileEquations
from bvsi.noise.models import Noise
from bvsi.residual import Structure
from bvsi.residual.system import residual_weights


class Weighting(ABC):
    """A choice of W. What has a body here is right for every partition into whole time blocks.

    Attributes
    ----------
    uses_noise
        Whether W has the size of the noise in it; otherwise the residual variance has to be estimated.
    couples_blocks
        Whether W has entries between time blocks; otherwise sums over some blocks stand for themselves.
    exact
        Whether W is the inverse of the whole covariance: rᵀWr is χ²-distributed and Cov(g) = H.
    """

    uses_noise: ClassVar[bool] = True
    couples_blocks: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    @abstractmethod
    def plan(self, structure: Structure, noise: Noise) -> CovariancePlan | None:
        """What can be prepared before θ is known."""

    @abstractmethod
    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """H, g and q of one experiment at θ."""

    @abstractmethod
    def profile_equations(
        self, part: Part, theta: Array, *, smoothing: float, rng: Rng | None, spread: bool = True
    ) -> ProfileEquations:
        """The same with smoothed regressors, for the profile estimator."""

    @abstractmethod
    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """Misfit of one experiment, with its gradient or without; log-determinant and change of variables if asked."""

    @abstractmethod
    def weights(self, part: Part, theta: Array) -> Weights:
        """W(θ) as a function."""

    def reweighted(self, part: Part, theta: Array, near: Weights, Z: Array) -> Array:
        """W(θ) Z for Z (N, K, m), possibly to a few digits only.

        Parameters
        ----------
        near
            The weights of a θ close by.
        """
        del near
        return self.weights(part, theta)(Z)

    def pilot(self, part: Part) -> tuple[Part, ...]:
        """A few tiles as experiments of their own, for rough estimates; none where that would save little."""
        del part
        return ()

    def estimates(self, part: Part) -> Array:
        """Number of tiles that touch the state of each time, (T,): so many estimates of its noise Σ_u Cᵀ W r sums."""
        structure = part.residuals.structure
        used = abs(structure.a) + abs(structure.b)
        return np.maximum(np.bincount(used.indices, minlength=structure.n_times), 1)

    def costly(self, part: Part) -> bool:
        """Whether data are so many that estimates to a hundredth of a standard deviation have to do."""
        del part
        return False

    def slope_is_cheap(self, part: Part) -> bool:
        """Whether q and ∇q cost far less than H: here where one factor serves many blocks."""
        return part.residuals.constant_jacobian


@dataclass(frozen=True)
class Isotropic(Weighting):
    """W = I: every residual counts alike (sec:discussion_VSI_likelihood)."""

    uses_noise: ClassVar[bool] = False

    def plan(self, structure: Structure, noise: Noise) -> None:
        """Nothing to prepare."""
        del structure, noise

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """XᵀX, Xᵀr and rᵀr."""
        Z = part.residuals.Z
        flat = Z.reshape(-1, Z.shape[2])
        r = flat @ residual_weights(theta)
        q = np.square(r.reshape(Z.shape[:2])).sum(axis=0)
        return NormalEquations((flat.T @ flat)[1:, 1:], (flat.T @ r)[1:], (q,), 0.0, part.residuals.n)

    def profile_equations(
        self, part: Part, theta: Array, *, smoothing: float, rng: Rng | None, spread: bool = True
    ) -> ProfileEquations:
        """Refused: unweighted residuals know nothing of the noise."""
        del part, theta, smoothing, rng, spread
        raise BvsiError("the profile estimator needs the noise covariance; use Block() weighting.")

    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """q = rᵀr; the weights do not depend on θ."""
        del gradient, logdet
        if change:
            raise BvsiError("jacobian: unweighted residuals have no density of the data; use Block() weighting.")
        equations, zero = self.normal_equations(part, theta), ValueGradient(0.0, np.zeros(len(theta)))
        return Density(ValueGradient(equations.q, -2.0 * equations.g), zero, zero, equations.n)

    def weights(self, part: Part, theta: Array) -> Weights:
        """Z ↦ Z."""
        del part, theta
        return lambda Z: Z


@dataclass(frozen=True)
class Block(Weighting):
    """W = blockdiag(Σ_kk(θ))⁻¹: noise propagated within each time block, correlation between blocks left out."""

    def plan(self, structure: Structure, noise: Noise) -> CovariancePlan:
        """Patterns, products and symbolic factorisation."""
        return plan_covariance(structure, noise)

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """The same without smoothing: one factorisation per distinct covariance, one half solve per column."""
        return block_profile_equations(part, theta, smoothing=0.0, rng=None).equations

    def profile_equations(
        self, part: Part, theta: Array, *, smoothing: float, rng: Rng | None, spread: bool = True
    ) -> ProfileEquations:
        """Smoothed regressors, block by block; S comes with N."""
        del spread
        return block_profile_equations(part, theta, smoothing=smoothing, rng=rng)

    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """Exact, from one factorisation and its selected inverse."""
        return block_density(part, theta, gradient=gradient, logdet=logdet, change=change)

    def weights(self, part: Part, theta: Array) -> Weights:
        """One solve per distinct covariance; factors are not kept where there are several."""
        return block_solver(part, theta, keep=False)


def block_profile_equations(
    part: Part, theta: Array, *, smoothing: float, rng: Rng | None, shared: frozenset[int] = frozenset()
) -> ProfileEquations:
    """Profile equations of one experiment, or of some of its blocks, with block weighting.

    Parameters
    ----------
    smoothing
        Factor on ε̂; 1 is the profile estimator, 0 the lagged one, between lies a path from one to the other.
    rng
        For the draw that N takes; None leaves S and N out.
    shared
        Times that blocks elsewhere have as well: their V_j is returned and does not enter S.
    """
    structure, d = part.residuals.structure, part.residuals.d
    draw = None if rng is None else part.covariance.noise.draws(rng)
    q, scores = np.zeros(structure.n_blocks), np.zeros((structure.n_blocks, d))
    spread = None if draw is None else _Spread(part, shared)
    equations = []
    for slabs, N, V in over_groups(part, theta, lambda one: _Smoother(part, theta, one, smoothing, draw).equations()):
        for blocks, own, some in slabs:
            q[blocks], scores[blocks] = own.q_blocks[0], some
            equations.append(own)
        if spread is not None:
            spread.add(N, V)
    total = NormalEquations.total([NormalEquations.none(d), *equations], (q,))
    if spread is None:
        return ProfileEquations(total, (scores,), None, None)
    return ProfileEquations(total, (scores,), spread.S, spread.N, spread.V)


def shared_spread(part: Part, V: Mapping[int, Array]) -> Array:
    """What times of a part add to S, (d, d), from V_j summed over all blocks that have them."""
    d = part.residuals.d
    return sum((V[j].T @ part.covariance.noise_times(j, V[j]) for j in sorted(V)), start=np.zeros((d, d)))


class _Smoother:
    """Profile equations of the blocks of one group, which share C, b and J. Threads have one each.

    Parameters
    ----------
    draw
        Noise by time, (n_u,) each; without it neither N nor V is worked out.
    """

    def __init__(
        self, part: Part, theta: Array, one: FactorisedGroup, smoothing: float, draw: list[Array] | None
    ) -> None:
        residuals = part.residuals
        self.plan, self.residuals, self.one = part.covariance, residuals, one
        self.smoothing, self.draw = smoothing, draw
        self.weights = residual_weights(theta)
        structure = residuals.structure
        self.rows, self.inactive = structure.block_rows, structure.inactive(int(one.group.blocks[0]))

    @cached_property
    def C(self) -> list[Any]:
        """C_kj at each time of the stencil, sparse."""
        return [self.residuals.structure.pattern.matrix(c) for c in self.one.C]

    def equations(self) -> tuple[list[tuple[Integers, NormalEquations, Array]], Array, dict[int, Array]]:
        """Blocks, equations and scores (blocks, d), a slab of the group at a time; the group's part of N and V."""
        d, factor = self.residuals.d, self.one.factor
        logdet, slabs = factor.logdet(), []
        N, V = np.zeros((d, d)), dict[int, Array]()
        plain = self.draw is None and not self.smoothing
        for blocks in self.one.group.slabs(1 + d if self.draw is None else 1 + 2 * d):
            Z = self.given(blocks) if plain else self.columns(blocks)
            white = factor.whiten(Z.reshape(len(Z), -1)).reshape(Z.shape)
            smoothed = np.ascontiguousarray(white[:, :, : 1 + d])
            flat, n = smoothed.reshape(-1, 1 + d), int(self.rows[blocks].sum())
            r = (flat @ self.weights).reshape(Z.shape[:2]) if plain else smoothed[:, :, 0]
            scores, q = np.einsum("nk,nki->ki", r, smoothed[:, :, 1:]), np.square(r).sum(axis=0)
            H = (flat.T @ flat)[1:, 1:]
            slabs.append((blocks, NormalEquations(H, scores.sum(axis=0), (q,), len(blocks) * logdet, n), scores))
            if self.draw is not None:
                xi = np.ascontiguousarray(white[:, :, 1 + d :]).reshape(-1, d)
                N += xi.T @ xi
                self.add_spread(V, blocks, smoothed[:, :, 1:])
        return slabs, N, V

    def given(self, blocks: Integers) -> Array:
        """[y, X] of some blocks, (N, blocks, 1 + d); a view of neighbours, the usual case."""
        first, last = int(blocks[0]), int(blocks[-1])
        return self.residuals.Z[:, first : last + 1] if last - first < len(blocks) else self.residuals.Z[:, blocks]

    def columns(self, blocks: Integers) -> Array:
        """[r, X̃] of some blocks, (N, blocks, 1 + d); with a draw [r, X̃, ξ], (N, blocks, 1 + 2d)."""
        Z = np.array(self.given(blocks), order="C")
        Z[:, :, 0] = r = Z @ self.weights
        if self.draw is None:
            Z[:, :, 1:] -= self.smoothing * self.operators_on(self.noise_estimate(r))
            return Z
        # The data and the draw go through the same solve and the same operators, side by side.
        drawn = self.drawn(blocks)
        residual = sum(C @ e for C, e in zip(self.C, drawn, strict=True))
        estimate = self.noise_estimate(np.concatenate([r, residual], axis=1))
        n = len(blocks)
        for e, hat, b in zip(drawn, estimate, self.one.b, strict=True):
            if b:
                hat[:, n:] = e - hat[:, n:]
        moved = self.operators_on(estimate)
        Z[:, :, 1:] -= self.smoothing * moved[:, :n]
        return np.concatenate([Z, moved[:, n:]], axis=2)

    def drawn(self, blocks: Integers) -> list[Array]:
        """The draw at each time of the stencil, (n_u, blocks) each."""
        assert self.draw is not None
        times = [stencil_row(self.residuals.structure, int(k))[0] for k in blocks]
        return [np.stack([self.draw[row[m]] for row in times], axis=1) for m in range(len(self.C))]

    def noise_estimate(self, r: Array) -> list[Array]:
        """ε̂_kj = Σ_u,j C_kjᵀ W_k r_k of each time of the stencil, (n_u, columns) each; empty where b is zero."""
        Wr = self.one.factor.solve(r)
        triples = zip(self.one.times, self.one.b, self.C, strict=True)
        return [self.plan.noise_times(int(j), C.T @ Wr) if b else np.zeros(0) for j, b, C in triples]

    def operators_on(self, epsilon: list[Array]) -> Array:
        """Σ_j b_kj J_i(û_j) ε_kj, (N, columns, d); zero where residuals are not used."""
        columns = next(e.shape[1] for e, b in zip(epsilon, self.one.b, strict=True) if b)
        total = np.zeros((self.residuals.structure.n_rows, columns, self.residuals.d))
        for time, b, e in zip(self.one.times, self.one.b, epsilon, strict=True):
            if b:
                total += self.residuals.operators_on(int(time), b * e)
        total[self.inactive] = 0.0
        return total

    def add_spread(self, V: dict[int, Array], blocks: Integers, white: Array) -> None:
        """Add C_kjᵀ W_k X̃_k of some blocks to V by time, from whitened X̃ (N, blocks, d)."""
        n, d = len(blocks), self.residuals.d
        times = [stencil_row(self.residuals.structure, int(k))[0] for k in blocks]
        WX = self.one.factor.whiten_transposed(np.ascontiguousarray(white).reshape(-1, n * d))
        for m, C in enumerate(self.C):
            spread = (C.T @ WX).reshape(-1, n, d)
            for position, row in enumerate(times):
                j = int(row[m])
                V[j] = V[j] + spread[:, position] if j in V else spread[:, position]


class _Spread:
    """Sums N and S = Σ_j V_jᵀ Σ_u,j V_j over groups; V_j is dropped once all groups with time j have been added.

    Parameters
    ----------
    shared
        Times whose V_j stays, and does not enter S.
    """

    def __init__(self, part: Part, shared: frozenset[int]) -> None:
        residuals, plan = part.residuals, part.covariance
        self.plan, self.shared = plan, shared
        self.N, self.S = np.zeros((residuals.d, residuals.d)), np.zeros((residuals.d, residuals.d))
        self.V: dict[int, Array] = {}
        times = [
            {int(j) for k in group.blocks for j in stencil_row(residuals.structure, int(k))[0]}
            for group in plan.groups(residuals)
        ]
        self.missing = Counter(j for some in times for j in some)

    def add(self, N: Array, V: Mapping[int, Array]) -> None:
        """Add a group; groups have to come in a fixed order for the sums to be the same to the last digit."""
        self.N += N
        for j, own in V.items():
            self.V[j] = self.V[j] + own if j in self.V else own
            self.missing[j] -= 1
            if not self.missing[j] and j not in self.shared:
                whole = self.V.pop(j)
                self.S += whole.T @ self.plan.noise_times(j, whole)
