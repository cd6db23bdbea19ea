"""Weights of tiles of residuals, each with the inverse of its own covariance, all blocks of it; one tile is `Stacked`.

    W_τ = Σ_ττ(θ)⁻¹,   ε̂_τ = Σ_u C_τᵀ W_τ r_τ,   X̃_τi = X_τi − J_τi ε̂_τ
    q = Σ_τ n_τ r_τᵀ W_τ r_τ,   g = Σ_τ n_τ X̃_τᵀ W_τ r_τ,   H = Σ_τ n_τ X̃_τᵀ W_τ X̃_τ
    S = Cov(g) = Vᵀ Σ V,   V = Σ_τ n_τ W_τ X̃_τ

n_τ is −1 for what two tiles share (:mod:`bvsi.residual.tiles`). Every tile has E[X̃_τᵀ W_τ r_τ] = 0 at the truth, and so
has their sum. S takes all of Σ, with the correlation that the weights leave out. Nothing is left out of one tile, so
that S = H: error bars are H⁻¹, up to what noise leaves in X̃ (N, see :mod:`bvsi.likelihood.products`). û − ε̂ are the
smoothed states, those that satisfy the equation to first order. With log-determinant and change of variables,

    log p(û | θ) = −½ q − ½ log det Σ + Σ_k log |det C_kk| − ½ n log 2π

is the exact density of the data of a linear equation, with a flat prior on the states before the first block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bvsi.common.arrays import Array, Integers, Rng
from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.likelihood.block import Result, Weighting
from bvsi.likelihood.covariance import CovariancePlan, Part, Weights, plan_covariance, side_by_side, threads_for
from bvsi.likelihood.iterative import Iterative, conjugate_gradients
from bvsi.likelihood.products import Factored, SpaceTime, Whole, in_place
from bvsi.likelihood.stacked_covariance import RowsCovariance, StackedCovariance, space_time_coordinates
from bvsi.linalg import Analysis, Factor, analyse
from bvsi.linalg.factor import BandedFactor, DenseFactor
from bvsi.noise.models import Noise, StateCovariance, state_covariance
from bvsi.residual import Structure
from bvsi.residual.tiles import Tile, tiles_of

# Bytes per entry of Σ that its pattern, values and places take while it is factorised: five numbers.
_BYTES_PER_ENTRY = 40
# Part of the entries of Σ that are not zero from which on a dense factor is faster than a sparse one; the same for the
# few rows of a tile, where the symbolic analysis counts: 2,750 rows, a third of them not zero, take 0.1 s dense, and
# 1 s with 0.2 s for every further one.
_FULL = 0.52
_FEW, _FULL_OF_FEW = 3600, 0.15  # see above
# Bytes of factors up to which they are kept for the next evaluation; bounds memory.
_KEPT = 1e9
# Part of a tile that it may share with the next at most: with more a function would be in three tiles.
_MOST_SHARED = 0.5
# Relative error of weights that only have to be near enough, as those of a test statistic; not measured.
_ROUGH = 1e-4
# Steps of conjugate gradients beyond which a factor is made for them; not measured.
_STEPS = 20


@dataclass(frozen=True)
class Work:
    """When a full Σ of n rows is not factorised: n > rows and n² (n + entry) > value · nodes · times.

    Both sides count multiplications of a dense product. The values were set by timings of spline tests in three
    dimensions, and only ratios of them enter.

    Parameters
    ----------
    rows
        Rows with fewer, a factor is quick enough.
    entry
        An entry of Σ is a sum over nodes, and takes as long to form as so many multiplications.
    value
        Some four columns, a hundred steps each, pass over every value of the data; gradients must win by a factor of
        two, since a factor serves further columns as well.
    """

    rows: float = 5800.0
    entry: float = 12_000.0
    value: float = 1.2e6


WORK = Work()


@dataclass(frozen=True)
class Pilot:
    """Some of the residuals, on which a search begins; not measured one by one.

    Parameters
    ----------
    work
        Residuals times values of the data below which a search is quick without one.
    rows, tiles
        Residuals of a pilot at most, and the number of its tiles.
    worth
        How many times as many residuals there are at least.
    """

    work: float = 3e8
    rows: float = 1500.0
    tiles: int = 2
    worth: float = 3.0


PILOT = Pilot()


@dataclass(frozen=True, eq=False)
class StackedPlan(CovariancePlan):
    """A covariance plan with the whole covariance of the experiment.

    Parameters
    ----------
    max_memory
        Bytes that its factor may take.
    kept
        Bytes of a factor up to which it is kept for the next evaluation.
    tiles
        The tiles of the experiment and their plans; empty where it is one tile.
    """

    max_memory: float = math.inf
    kept: float = _KEPT
    tiles: tuple[tuple[Tile, StackedPlan], ...] = ()
    _last: dict[tuple[Any, ...], Factor] = field(default_factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": {}}  # a factor is large, and made again for less than it costs to send

    @property
    def threads(self) -> int:
        """Threads that work on tiles side by side."""
        n = [tile.structure.n_rows * tile.structure.n_blocks for tile, _ in self.tiles]
        return threads_for(len(n), min(n) ** 2)

    def tile(self, part: Part, number: int, theta: Array) -> Whole:
        """A tile at θ."""
        tile, plan = self.tiles[number]
        own = Part(tile.residuals(part.residuals), plan, f"{part.label}, tile {number}")
        whole = plan.whole(own, theta, np.ix_(tile.columns, tile.times))
        return replace(whole, place=np.ix_(tile.rows, tile.blocks))

    def factor(self, part: Part, theta: Array) -> Factor:
        """Cholesky factor of Σ(θ); the last one is kept, since one θ is often asked for twice in a row."""
        key = tuple((J, float(t)) for J, t in zip(part.residuals.J, theta, strict=True) if t)
        found = self._last.get(key)
        if found is None:
            self._last.clear()
            stacked, label = self.stacked, f"residual covariance of {part.label}"
            if isinstance(stacked, RowsCovariance) or self.dense:
                # the factor must not hold the plan that keeps it, see ``stacked``
                A = stacked.dense(part.residuals, theta)
                found = DenseFactor.of(A, lambda: stacked.pattern, label=label)
            elif stacked.narrow:
                panels = stacked.banded(part.residuals, theta)
                found = BandedFactor.of(stacked.bands, panels, lambda: stacked.pattern, label=label)
            else:
                found = self.stacked_analysis.factor(stacked.values(part.residuals, theta), label=label)
            if self.factor_memory <= self.kept:
                self._last[key] = found
        return found

    def whole(self, part: Part, theta: Array, seen: Any = None) -> Whole:
        """All residuals with W = Σ(θ)⁻¹, factorised or by conjugate gradients.

        Parameters
        ----------
        seen
            Places of its states in those of the experiment, for a tile.
        """
        residuals, products, solver = part.residuals, SpaceTime(part, theta, seen), None
        if self.direct:
            factor, stacked = self.factor(part, theta), self.stacked

            def slope() -> Array:
                return stacked.logdet_gradient(residuals, theta, factor.selected_inverse())

            solver = Factored(factor, self.rows, 1, slope)
        return Whole(residuals.Z, residuals.n, theta, products, solver or Iterative.of(part, theta, products))

    @cached_property
    def dense(self) -> bool:
        """Whether Σ is so full that it is factorised as a dense matrix."""
        if isinstance(self.stacked, RowsCovariance):
            return True
        few = self.structure.n_rows * self.structure.n_blocks <= _FEW
        return self.stacked.tensor is not None and self.stacked.density > (_FULL_OF_FEW if few else _FULL)

    @property
    def rows(self) -> Integers | slice:
        """Residuals k N + i that Σ is of; those that are not used have the rows of the identity where they are few."""
        return self.stacked.rows if isinstance(self.stacked, RowsCovariance) else slice(None)

    @cached_property
    def stacked(self) -> StackedCovariance | RowsCovariance:
        """Where the entries of Σ stand.

        It is built on a copy of the block plan: a reference back to this plan would be a cycle and keep the factor.
        """
        one = CovariancePlan(self.structure, self.noise, self.product, self.smear, self.spread)
        return RowsCovariance.of(one) or StackedCovariance.of(one)

    @cached_property
    def stacked_analysis(self) -> Analysis:
        """Symbolic Cholesky of Σ."""
        return analyse(self.stacked.pattern, space_time_coordinates(self.structure))

    @cached_property
    def direct(self) -> bool:
        """Whether Σ is factorised; else conjugate gradients do without."""
        if not self.dense and _BYTES_PER_ENTRY * self.stacked.nnz > self.max_memory:
            return False
        return self.factor_memory <= self.max_memory and not self._sooner_without

    @property
    def _sooner_without(self) -> bool:
        """Whether a full Σ of spline tests has so many rows that conjugate gradients do less work; see :class:`Work`.

        With unlimited memory Σ is always factorised.
        """
        structure = self.structure
        if isinstance(self.stacked, RowsCovariance) or not self.dense or math.isinf(self.max_memory):
            return False
        n = float(structure.n_rows * structure.n_blocks)
        return n > WORK.rows and n**2 * (n + WORK.entry) > WORK.value * structure.n_state * structure.n_times

    @property
    def factor_memory(self) -> float:
        """Bytes of the Cholesky factor, dense or from the symbolic analysis."""
        if isinstance(self.stacked, RowsCovariance):
            return 8.0 * float(self.stacked.nnz)
        if self.dense:
            return 8.0 * float(self.structure.n_rows * self.structure.n_blocks) ** 2
        if self.stacked.narrow:
            return 8.0 * float(self.stacked.bands.size)
        analysis = self.stacked_analysis
        return 8.0 * float(analysis.value_start[-1] + analysis.stack_size)


@dataclass(frozen=True)
class Tiles(Weighting):
    """W = Σ_τ n_τ Σ_ττ(θ)⁻¹ with tiles of neighbouring test functions in space and time.

    The cost is linear in the data. Correlation that the weights leave out is in the error bars: what is lost is
    precision.

    Parameters
    ----------
    rows
        Residuals of a tile at most; tiles are as long in all directions, in widths of a test function.
    shared
        Part of a tile, in every direction in which there are several, which it shares with the next; what they share
        is subtracted once. Without, the tiles are a partition of the residuals.
    max_memory
        Bytes that a Cholesky factor may take; beyond, or where it would take far longer (spline tests in three
        dimensions; not with ``math.inf``), W comes from conjugate gradients, without a log-determinant.
    """

    rows: float = 3000
    shared: float = 1 / 3
    max_memory: float = 2e9
    couples_blocks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.rows >= 1:
            raise BvsiError(f"rows: a number of residuals is needed, such as 3000; got {self.rows}.")
        if not 0 <= self.shared <= _MOST_SHARED:
            raise BvsiError(f"shared: a part from 0 to {_MOST_SHARED} is needed, such as 1/3; got {self.shared}.")
        if not self.max_memory >= 0:
            raise BvsiError(f"max_memory: a number of bytes is needed, such as 2e9; got {self.max_memory}.")

    def plan(self, structure: Structure, noise: Noise) -> StackedPlan:
        """Patterns, products and symbolic factorisation, of all tiles."""
        state, tiles = state_covariance(noise, structure), tiles_of(structure, self.rows, self.shared)
        plans = [self._plan(t.structure, state.at(t.columns, t.times), _KEPT / len(tiles)) for t in tiles]
        return replace(self._plan(structure, state), tiles=tuple(zip(tiles, plans, strict=True)))

    def _plan(self, structure: Structure, state: StateCovariance, kept: float = _KEPT) -> StackedPlan:
        one = plan_covariance(structure, state)
        return StackedPlan(one.structure, one.noise, one.product, one.smear, one.spread, self.max_memory, kept)

    def tiles(self, part: Part, theta: Array, work: Callable[[Whole], Result]) -> Iterator[tuple[int, Any, Result]]:
        """Tiles that are experiments of their own."""
        plan = _plan(part)
        if not plan.tiles:
            return iter([(1, np.s_[:, :], work(plan.whole(part, theta)))])

        def one(number: int) -> tuple[int, Any, Result]:
            whole = plan.tile(part, number, theta)
            return plan.tiles[number][0].count, whole.place, work(whole)

        return side_by_side(one, range(len(plan.tiles)), threads=plan.threads)

    def weights(self, part: Part, theta: Array) -> Weights:
        """From the factors, or by conjugate gradients."""
        plan = _plan(part)
        if not plan.tiles:
            return plan.whole(part, theta).solver.solve

        def weighted(Z: Array) -> Array:
            out = np.zeros_like(Z)
            for count, place, own in self.tiles(part, theta, lambda whole: whole.solver.solve(Z[whole.place])):
                out[place] += count * own
            return out

        return weighted

    def draws(self, part: Part, theta: Array, weigh: Weights, n: int, rng: Rng) -> Iterator[tuple[Array, Array]]:
        """Of one tile from its factor: r = L z and W r = L⁻ᵀ z have no more to do than residuals are many."""
        plan, structure = _plan(part), part.residuals.structure
        drawn = plan.factor(part, theta).draws(n, rng) if not plan.tiles and plan.direct else None
        if drawn is None:
            return super().draws(part, theta, weigh, n, rng)
        placed = (in_place(one, plan.rows, structure.n_rows, structure.n_blocks) for one in drawn)
        r, w = map(structure.only_active, placed)
        return iter([(r, w)])

    def reweighted(self, part: Part, thetas: Sequence[Array], near: Weights, r: Array) -> Array:
        """Of one tile by conjugate gradients to 1e-4, preconditioned by weights of a θ close by; no factor is made."""
        if _plan(part).tiles:
            return super().reweighted(part, thetas, near, r)
        products = [SpaceTime(part, theta) for theta in thetas]

        def product(w: Array) -> Array:
            own = (one.covariance(w[:, :, [m]]) for m, one in enumerate(products))
            return np.concatenate(list(own), axis=2)

        columns, label = np.repeat(r[:, :, None], len(thetas), axis=2), f"residual covariance of {part.label}"
        try:
            return conjugate_gradients(product, near, columns, label=label, tol=_ROUGH, max_iterations=_STEPS)
        except NotPositiveDefiniteError:
            return super().reweighted(part, thetas, near, r)

    def slope_near(self, part: Part, theta: Array, near: Array) -> Array | None:
        """X̃ᵀWr of one tile, W r by conjugate gradients."""
        if _plan(part).tiles:
            return None
        products, r = SpaceTime(part, theta), part.residuals.residual(theta)
        w = self.reweighted(part, [theta], self.weights(part, near), r)[:, :, 0]
        X = part.residuals.X - products.operators(products.spread(w))
        return np.asarray(np.einsum("nki,nk->i", X, w))

    def estimates(self, part: Part) -> Array:
        """Number of tiles that touch the state of each node and time, less those that count −1, (n_u, T)."""
        structure, tiles = part.residuals.structure, _plan(part).tiles
        touched = np.zeros((structure.n_state, structure.n_times))
        for tile, _ in tiles:
            touched[np.ix_(tile.columns, tile.times)] += tile.count
        return np.maximum(touched, 1)

    def pilot(self, part: Part, pieces: int = 1) -> tuple[Part, ...]:
        """Some tiles as experiments, those that tell most."""
        structure, plan, n = part.residuals.structure, _plan(part), pieces * part.residuals.n
        if pieces**2 * _work(part) < PILOT.work:
            return ()
        tiles = tiles_of(structure, min(PILOT.rows, n / PILOT.worth) / PILOT.tiles, 0.0)
        if pieces * len(tiles) < PILOT.worth * PILOT.tiles:
            return ()
        few = [tiles[i] for i in telling([part.residuals.X[np.ix_(tile.rows, tile.blocks)] for tile in tiles])]
        plans = [self._plan(tile.structure, plan.noise.at(tile.columns, tile.times)) for tile in few]
        return tuple(
            Part(tile.residuals(part.residuals), own, f"{part.label}, some of it")
            for tile, own in zip(few, plans, strict=True)
        )

    def costly(self, part: Part) -> bool:
        """Where there are several tiles, more data than the covariance is summed over, or a search begins on some."""
        structure = part.residuals.structure
        searched = structure.mass_at_nodes is not None and _work(part) >= PILOT.work
        return bool(_plan(part).tiles) or structure.thinned is not None or searched

    def slope_is_cheap(self, part: Part) -> bool:
        """Where conjugate gradients take the place of a factor."""
        plan = _plan(part)
        return not any(own.direct for own in ([one for _, one in plan.tiles] or [plan]))


@dataclass(frozen=True)
class Stacked(Tiles):
    """W = Σ(θ)⁻¹, one tile: exact to first order in the noise, and efficient.

    It trusts the discretisation over the whole time span; where that is poor, Block() is more forgiving.

    Parameters
    ----------
    max_memory
        As for :class:`Tiles`.
    """

    rows: float = field(default=math.inf, init=False, repr=False)
    shared: float = field(default=0.0, init=False, repr=False)
    exact: ClassVar[bool] = True


def telling(some: Sequence[Array]) -> list[int]:
    """Tiles of a pilot by number, of X (N, K, d) each: those with the largest det(Σ XᵀX), one after the other."""
    if not some:
        return []
    grams = np.array([np.einsum("nki,nkj->ij", X, X, optimize=True) for X in some])
    size = np.sqrt(np.maximum(np.einsum("tii->i", grams), np.finfo(float).tiny))
    grams /= np.outer(size, size)
    total, chosen = np.finfo(float).eps * np.eye(len(size)), list[int]()
    for _ in range(min(PILOT.tiles, len(some))):
        gain = np.linalg.slogdet(total + grams)[1]
        gain[chosen] = -np.inf
        chosen.append(int(np.argmax(gain)))
        total = total + grams[chosen[-1]]
    return sorted(chosen)


def _work(part: Part) -> float:
    """Residuals times values of the data that Σ is summed over."""
    structure = part.residuals.structure
    return part.residuals.n * float(structure.n_state * structure.n_times)


def _plan(part: Part) -> StackedPlan:
    """The plan, which :meth:`Tiles.plan` has made."""
    plan = part.covariance
    assert isinstance(plan, StackedPlan)
    return plan
