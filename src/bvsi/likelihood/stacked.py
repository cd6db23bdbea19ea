"""Stacked weighting: the inverse of the whole residual covariance, all blocks of it.

    W = Σ(θ)⁻¹,   ε̂ = Σ_u Cᵀ W r,   X̃_i = X_i − J_i ε̂,   H = X̃ᵀWX̃,   g = X̃ᵀWr,   q = rᵀWr

Nothing is left out, so that Cov(g) = H: error bars are H⁻¹, up to what noise leaves in X̃ (N, see
:mod:`bvsi.likelihood.block`). û − ε̂ are the smoothed states, those that satisfy the equation to first
order. With log-determinant and change of variables,

    log p(û | θ) = −½ q − ½ log det Σ + Σ_k log |det C_kk| − ½ n log 2π

is the exact density of the data of a linear equation, with a flat prior on the states before the first block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.likelihood.block import Weighting
from bvsi.likelihood.covariance import CovariancePlan, Part, Weights, plan_covariance
from bvsi.likelihood.density import Density, ValueGradient, change_of_variables
from bvsi.likelihood.equations import NormalEquations, ProfileEquations
from bvsi.likelihood.iterative import Iterative, conjugate_gradients
from bvsi.likelihood.products import SpaceTime
from bvsi.likelihood.stacked_covariance import StackedCovariance, space_time_coordinates
from bvsi.linalg import Analysis, Backend, Factor, analyse
from bvsi.linalg.cholesky import SupernodalAnalysis
from bvsi.linalg.factor import DenseFactor
from bvsi.noise.models import Noise
from bvsi.residual import Residuals, Structure

Array = NDArray[np.float64]
Rng = np.random.Generator

# Bytes per entry of Σ that its pattern, values and places take while it is factorised: five numbers.
_BYTES_PER_ENTRY = 40
# Part of the entries of Σ that are not zero from which on a dense factor is faster than a sparse one.
_FULL = 0.52
# Bytes of a factor up to which it is kept for the next evaluation; bounds memory.
_KEPT = 3e8
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
        Rows with fewer, a factor is quick enough that nobody asks.
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


@dataclass(frozen=True, eq=False)
class StackedPlan(CovariancePlan):
    """A covariance plan with the whole covariance of the experiment.

    Parameters
    ----------
    backend
        Cholesky engine.
    max_memory
        Bytes that its factor may take.
    """

    backend: Backend | None = None
    max_memory: float = math.inf
    _last: dict[tuple[Any, ...], Factor] = field(default_factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": {}}  # a factor is large, and made anew for less than it costs to send

    def factor(self, part: Part, theta: Array) -> Factor:
        """Cholesky factor of Σ(θ); the last one is kept, since one θ is often asked for twice in a row."""
        key = tuple((J, float(t)) for J, t in zip(part.residuals.J, theta, strict=True) if t)
        found = self._last.get(key)
        if found is None:
            self._last.clear()
            stacked, label = self.stacked, f"residual covariance of {part.label}"
            if self.dense:  # the factor must not hold the plan that keeps it, see ``stacked``
                A = stacked.dense(part.residuals, theta)
                found = DenseFactor.of(A, lambda: stacked.pattern, label=label)
            else:
                found = self.stacked_analysis.factor(stacked.values(part.residuals, theta), label=label)
            if self.factor_memory <= _KEPT:
                self._last[key] = found
        return found

    @cached_property
    def dense(self) -> bool:
        """Whether Σ is so full that it is factorised as a dense matrix."""
        return self.backend is None and self.stacked.tensor is not None and self.stacked.density > _FULL

    @cached_property
    def stacked(self) -> StackedCovariance:
        """Where the entries of Σ stand.

        It is built on a copy of the block plan: a reference back to this plan would be a cycle and keep the factor.
        """
        one = CovariancePlan(self.structure, self.noise, self.product, self.analysis, self.smear, self.spread)
        return StackedCovariance.of(one)

    @cached_property
    def stacked_analysis(self) -> Analysis:
        """Symbolic Cholesky of Σ."""
        return analyse(self.stacked.pattern, coordinates=space_time_coordinates(self.structure), backend=self.backend)

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
        if not self.dense or structure.mass_at_nodes is None or math.isinf(self.max_memory):
            return False
        n = float(structure.n_rows * structure.n_blocks)
        return n > WORK.rows and n**2 * (n + WORK.entry) > WORK.value * structure.n_state * structure.n_times

    @property
    def factor_memory(self) -> float:
        """Bytes of the Cholesky factor, from the symbolic analysis, or else as if blocks of Σ filled up."""
        if self.dense:
            return 8.0 * float(self.structure.n_rows * self.structure.n_blocks) ** 2
        analysis = self.stacked_analysis
        if isinstance(analysis, SupernodalAnalysis):
            return 8.0 * float(analysis.symbolic.value_start[-1] + analysis.symbolic.stack_size)
        return 4.0 * len(self.stacked.k) * float(self.structure.n_rows) ** 2


@dataclass(frozen=True)
class Stacked(Weighting):
    """W = Σ(θ)⁻¹ with all blocks: exact to first order in the noise, and efficient.

    It trusts the discretisation over the whole time span; where that is poor, Block() is more forgiving.

    Parameters
    ----------
    backend
        Cholesky engine; by default the fastest available.
    max_memory
        Bytes that the Cholesky factor may take; beyond, or where it would take far longer (spline tests in three
        dimensions; not with ``math.inf``), W comes from conjugate gradients, without a log-determinant.
    """

    backend: Backend | None = None
    max_memory: float = 2e9
    couples_blocks: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.max_memory >= 0:
            raise BvsiError(f"max_memory: a number of bytes is needed, such as 2e9; got {self.max_memory}.")

    def plan(self, structure: Structure, noise: Noise) -> StackedPlan:
        """Patterns, products and symbolic factorisation."""
        one = plan_covariance(structure, noise, self.backend)
        return StackedPlan(
            one.structure, one.noise, one.product, one.analysis, one.smear, one.spread, self.backend, self.max_memory
        )

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """XᵀWX, XᵀWr and rᵀWr."""
        return Whole.of(part, theta).profile_equations(smoothing=0.0, rng=None).equations

    def profile_equations(self, part: Part, theta: Array, *, smoothing: float, rng: Rng | None) -> ProfileEquations:
        """Smoothed regressors; S is H, since nothing is left out of the weights."""
        return Whole.of(part, theta).profile_equations(smoothing=smoothing, rng=rng)

    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """Exact: one factorisation, and its selected inverse for the gradient of the log-determinant."""
        zero = ValueGradient(0.0, np.zeros(len(theta)))
        changed = change_of_variables(part, theta, gradient) if change else zero
        whole = Whole.of(part, theta)
        determinant = whole.determinant(gradient) if logdet else zero
        return Density(whole.misfit(gradient), determinant, changed, part.residuals.n)

    def weights(self, part: Part, theta: Array) -> Weights:
        """From the factor, or by conjugate gradients."""
        return Whole.of(part, theta).weighted

    def reweighted(self, part: Part, theta: Array, near: Weights, Z: Array) -> Array:
        """By conjugate gradients to 1e-4, with the weights of a θ close by as preconditioner; no factor is made."""
        product, label = SpaceTime(part, theta).covariance, f"residual covariance of {part.label}"
        try:
            return conjugate_gradients(product, near, Z, label=label, tol=_ROUGH, max_iterations=_STEPS)
        except NotPositiveDefiniteError:
            return self.weights(part, theta)(Z)

    def estimates(self, structure: Structure) -> Array:
        """One: all blocks are weighted together."""
        return np.ones(structure.n_times)

    def slope_is_cheap(self, part: Part) -> bool:
        """Where conjugate gradients take the place of a factor."""
        return not _plan(part).direct


def _plan(part: Part) -> StackedPlan:
    """The plan, which :meth:`Stacked.plan` has made."""
    plan = part.covariance
    assert isinstance(plan, StackedPlan)
    return plan


@dataclass(frozen=True, eq=False)
class Whole:
    """Σ(θ) of one experiment, factorised or not, and what the equations need; arrays are (N, K, …) and (n_u, T)."""

    plan: StackedPlan
    residuals: Residuals
    theta: Array
    products: SpaceTime
    solver: Factor | Iterative

    @staticmethod
    def of(part: Part, theta: Array) -> Whole:
        """Factorise, or prepare conjugate gradients."""
        plan, products = _plan(part), SpaceTime(part, theta)
        solver: Factor | Iterative
        solver = plan.factor(part, theta) if plan.direct else Iterative.of(part, theta, products)
        return Whole(plan, part.residuals, theta, products, solver)

    @cached_property
    def r(self) -> Array:
        """r(θ), (N, K)."""
        return self.residuals.residual(self.theta)

    def for_data(self, residuals: Residuals) -> Whole:
        """The same Σ for residuals of other data; right where Jacobians are constant."""
        return replace(self, residuals=residuals)

    def weighted(self, Z: Array) -> Array:
        """W Z, for Z (N, K, m)."""
        if isinstance(self.solver, Iterative):
            return self.solver.solve(Z)
        N, K, m = Z.shape
        columns = np.ascontiguousarray(Z.transpose(1, 0, 2)).reshape(K * N, m)
        return self.solver.solve(columns).reshape(K, N, m).transpose(1, 0, 2)

    def smoothed(self, W_r: Array, smoothing: float = 1.0) -> Array:
        """X̃ = X − smoothing · J ε̂ with ε̂ = Σ_u Cᵀ W r, from W r (N, K); (N, K, d)."""
        if not smoothing:
            return self.residuals.X
        return self.residuals.X - smoothing * self.products.operators(self.products.spread(W_r))

    def profile_equations(self, *, smoothing: float = 1.0, rng: Rng | None = None) -> ProfileEquations:
        """H, g and q; with an rng S, which is H, and N from one draw of the noise. Without a factor logdet is NaN."""
        if rng is None:
            columns = self.r[:, :, None]
        else:
            draw = self.products.draw(rng)  # it goes through the same solve as the data
            columns = np.stack([self.r, self.products.sensitivity(draw)], axis=2)
        weighted = self.weighted(columns)
        W_r = weighted[:, :, 0]
        X, q = self.smoothed(W_r, smoothing), np.einsum("nk,nk->k", self.r, W_r)
        logdet = math.nan if isinstance(self.solver, Iterative) else self.solver.logdet()
        H, g = self._gram(X), np.einsum("nki,nk->i", X, W_r)
        equations = NormalEquations(H, g, (q,), logdet, self.residuals.n)
        if rng is None:
            return ProfileEquations(equations, (), None, None)
        xi = self.products.operators(draw - self.products.spread(weighted[:, :, 1]))
        return ProfileEquations(equations, (), H, self._gram(xi))

    def _gram(self, Z: Array) -> Array:
        """ZᵀWZ, for Z (N, K, m)."""
        gram = np.einsum("nki,nkj->ij", Z, self.weighted(Z), optimize=True)
        return np.asarray(0.5 * (gram + gram.T))

    def misfit(self, gradient: bool) -> ValueGradient:
        """q, with ∇q = −2 X̃ᵀWr from the same solve."""
        W_r = self.weighted(self.r[:, :, None])[:, :, 0]
        slope = np.zeros(self.residuals.d)
        if gradient:
            slope = -2.0 * np.einsum("nki,nk->i", self.smoothed(W_r), W_r)
        return ValueGradient(float(np.vdot(self.r, W_r)), slope)

    def determinant(self, gradient: bool) -> ValueGradient:
        """log det Σ."""
        value = self.solver.logdet()
        if not gradient or isinstance(self.solver, Iterative):
            return ValueGradient(value, np.zeros(self.residuals.d))
        inverse = self.solver.selected_inverse()
        return ValueGradient(value, self.plan.stacked.logdet_gradient(self.residuals, self.theta, inverse))
