"""Weightings: which part of the residual covariance the likelihood keeps.

isotropic  W = I                                classical VSI
block      W = blockdiag(Σ_kk(θ))⁻¹             the paper (eq:block_diagonal_residual_covariance)
stacked    W = Σ(θ)⁻¹                           :mod:`bvsi.likelihood.stacked`
tiles      W = blockdiag(Σ_ττ(θ))⁻¹             tiles of neighbouring test functions, in the same module

A weighting is a partition of the residuals into tiles with W = blockdiag(Σ_ττ⁻¹): a tile for every time block is
``Block``, one tile is ``Stacked``. Whatever depends on the partition is asked of the weighting; no other module
needs to know which one it has.

What a tile adds to the profile equations is in :mod:`bvsi.likelihood.products`. Error bars take

    S = Cov(g) = Σ_kl X̃_kᵀ W_k Cov(r_k, r_l) W_l X̃_l = Σ_j V_jᵀ Σ_u,j V_j,      V_j = Σ_k C_kjᵀ W_k X̃_k

with the correlation between tiles that the weights leave out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, ClassVar, TypeVar

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
from bvsi.likelihood.equations import (
    Density,
    NormalEquations,
    ProfileEquations,
    ValueGradient,
    change_of_variables,
    logdet_slope,
)
from bvsi.likelihood.products import Factored, SpaceTime, Whole, weighted_draws
from bvsi.noise.models import Noise
from bvsi.residual import Structure
from bvsi.residual.system import residual_weights

Result = TypeVar("Result")


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
    def tiles(self, part: Part, theta: Array, work: Callable[[Whole], Result]) -> Iterator[tuple[int, Any, Result]]:
        """``work`` on every tile at θ and its place in arrays (N, K, …), side by side.

        Returns how often each counts, its place, and the result, in order.
        """

    def profile_equations(
        self,
        part: Part,
        theta: Array,
        *,
        smoothing: float,
        rng: Rng | None,
        spread: bool = True,
        shared: frozenset[int] = frozenset(),
    ) -> ProfileEquations:
        """H, g, q and scores of one experiment at θ with smoothed regressors, for the profile estimator.

        Parameters
        ----------
        smoothing
            Factor on ε̂; 1 is the profile estimator, 0 the lagged one, between lies a path from one to the other.
        rng
            For the draw that N takes; None leaves S and N out.
        spread
            False leaves S out where it is dear.
        shared
            Times that residuals elsewhere have as well: their V_j is returned and does not enter S.
        """
        Z, d = part.residuals.Z, part.residuals.d
        draw = None if rng is None else np.stack(part.covariance.noise.draws(rng)).T
        q, scores, equations = np.zeros(Z.shape[1]), np.zeros((Z.shape[1], d)), [NormalEquations.none(d)]
        wanted = spread or bool(shared) or not self.couples_blocks
        weighted = draw is not None and wanted and not (self.exact and not shared)
        N, WX = np.zeros((d, d)), np.zeros_like(Z[:, :, 1:]) if weighted else np.zeros(0)
        work = partial(Whole.profile_equations, smoothing=smoothing, draw=draw, weighted=weighted)
        for count, place, own in self.tiles(part, theta, work):
            q[place[1]] += count * own.equations.q_blocks[0]
            scores[place[1]] += count * own.scores
            equations.append(own.equations.times(count))
            N += count * (0.0 if own.N is None else own.N)
            if own.WX is not None:
                WX[place] += count * own.WX
        total, by_block = NormalEquations.total(equations, (q,)), () if self.couples_blocks else (scores,)
        if draw is None:
            return ProfileEquations(total, by_block, None, None)
        if self.couples_blocks and len(equations) == 2 and not shared:  # nothing is left out of one tile
            return ProfileEquations(total, by_block, total.H, N)
        S, V = SpaceTime(part, theta).gram(WX, shared) if wanted else (None, {})
        return ProfileEquations(total, by_block, S, N, V)

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """XᵀWX, XᵀWr and rᵀWr of one experiment at θ."""
        return self.profile_equations(part, theta, smoothing=0.0, rng=None).equations

    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """Misfit of one experiment with its exact gradient; log-determinant and change of variables if asked."""
        zero = ValueGradient(0.0, np.zeros(len(theta)))

        def of_tile(whole: Whole) -> Density:
            return Density(whole.misfit(gradient), whole.determinant(gradient) if logdet else zero, zero, whole.n)

        parts = []
        for count, _, own in self.tiles(part, theta, of_tile):
            parts.append(own if count == 1 else own.times(count))
        found = Density.total(parts) if parts else Density(zero, zero, zero, 0)
        return replace(found, change=change_of_variables(part, theta, gradient)) if change else found

    @abstractmethod
    def weights(self, part: Part, theta: Array) -> Weights:
        """W(θ) as a function."""

    def draws(self, part: Part, theta: Array, weigh: Weights, n: int, rng: Rng) -> Iterator[tuple[Array, Array]]:
        """n draws of the residuals by noise alone, C ε, and W C ε, (N, K, m) each, a few at a time.

        Parameters
        ----------
        weigh
            The weights at θ.
        """
        return weighted_draws(SpaceTime(part, theta), weigh, n, rng)

    def reweighted(self, part: Part, thetas: Sequence[Array], near: Weights, r: Array) -> Array:
        """W(θ) r for some θ and r (N, K), (N, K, thetas), possibly to a few digits only.

        Parameters
        ----------
        near
            The weights of a θ close by.
        """
        del near
        return np.concatenate([self.weights(part, theta)(r[:, :, None]) for theta in thetas], axis=2)

    def slope_near(self, part: Part, theta: Array, near: Array) -> Array | None:
        """−½∇Q at θ with the factors of a θ close by, (d,); None where that would be no gain."""
        del part, theta, near
        return None

    def pilot(self, part: Part, pieces: int = 1) -> tuple[Part, ...]:
        """A few tiles as experiments of their own, for rough estimates; none where that would save little.

        Parameters
        ----------
        pieces
            Number of pieces of an experiment, of which the part is one.
        """
        del part, pieces
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

    def tiles(self, part: Part, theta: Array, work: Callable[[Whole], Result]) -> Iterator[tuple[int, Any, Result]]:
        """Refused: unweighted residuals know nothing of the noise."""
        del part, theta, work
        raise BvsiError("the profile estimator needs the noise covariance; use Block() weighting.")

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """XᵀX, Xᵀr and rᵀr."""
        Z = part.residuals.Z
        flat = Z.reshape(-1, Z.shape[2])
        r = flat @ residual_weights(theta)
        q = np.square(r.reshape(Z.shape[:2])).sum(axis=0)
        return NormalEquations((flat.T @ flat)[1:, 1:], (flat.T @ r)[1:], (q,), 0.0, part.residuals.n)

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

    def tiles(self, part: Part, theta: Array, work: Callable[[Whole], Result]) -> Iterator[tuple[int, Any, Result]]:
        """Blocks a few at a time, those with the same covariance behind one factor."""

        def of_group(one: FactorisedGroup) -> list[tuple[int, Any, Result]]:
            return [(1, whole.place, work(whole)) for whole in _in_group(part, theta, one)]

        return (found for group in over_groups(part, theta, of_group) for found in group)

    def weights(self, part: Part, theta: Array) -> Weights:
        """One solve per distinct covariance; factors are not kept where there are several."""
        return block_solver(part, theta, keep=False)


def _in_group(part: Part, theta: Array, one: FactorisedGroup) -> Iterator[Whole]:
    """Blocks of a group a few at a time, as tiles that share one factor."""
    residuals, pattern = part.residuals, part.residuals.structure.pattern
    rows, C = residuals.structure.block_rows, tuple(pattern.matrix(c) for c in one.C)
    slope = cache(lambda: logdet_slope(part, one))
    for blocks in one.slabs(1 + residuals.d, residuals.structure.n_rows):
        Z = residuals.Z[:, blocks[0] : blocks[-1] + 1] if np.ptp(blocks) < len(blocks) else residuals.Z[:, blocks]
        products, solver = BlockProducts(part, one, C, blocks), Factored(one.factor, None, len(blocks), slope)
        yield Whole(Z, int(rows[blocks].sum()), theta, products, solver, np.s_[:, blocks])


@dataclass(frozen=True, eq=False)
class BlockProducts:
    """C, Σ_u and operators of blocks that share them, each block with states of its own: (times, n_u, blocks).

    Attributes
    ----------
    C
        C_kj at each time of the stencil.
    """

    part: Part
    one: FactorisedGroup
    C: tuple[Any, ...]
    blocks: Integers

    @cached_property
    def times(self) -> Integers:
        """Times of each block, (times, blocks)."""
        return np.stack([stencil_row(self.part.residuals.structure, int(k))[0] for k in self.blocks], axis=1)

    def states(self, e: Array) -> Array:
        """The states that each block has, from all (n_u, T)."""
        return np.moveaxis(e[:, self.times], 1, 0)

    def sensitivity(self, e: Array) -> Array:
        """C e, (N, blocks)."""
        return np.asarray(sum(C @ own for C, own in zip(self.C, e, strict=True)))

    def spread(self, w: Array) -> Array:
        """Σ_u,j C_kjᵀ w_k; zero at times that no operator reads."""
        triples = zip(self.one.times, self.one.b, self.C, strict=True)
        found = [self.part.covariance.noise_times(int(j), C.T @ w) if b else None for j, b, C in triples]
        nothing = np.zeros_like(next(e for e in found if e is not None))
        return np.stack([nothing if e is None else e for e in found])

    def operators(self, e: Array) -> Array:
        """Σ_j b_kj J_i(û_j) e_kj, (N, blocks, d); zero where residuals are not used."""
        residuals = self.part.residuals
        total = np.zeros((residuals.structure.n_rows, e.shape[2], residuals.d))
        for time, b, own in zip(self.one.times, self.one.b, e, strict=True):
            if b:
                total += residuals.operators_on(int(time), b * own)
        total[residuals.structure.inactive(int(self.blocks[0]))] = 0.0
        return total
