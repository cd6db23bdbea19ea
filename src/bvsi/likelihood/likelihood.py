"""The residual likelihood: a residual system, its noise and a weighting, bound together.

−log p(r_θ | θ) = ½ rᵀWr − ½ log det W + ½ n log 2π        (eq:theta_dependent_negative_log_likelihood)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Integers, Rng
from bvsi.errors import BvsiError
from bvsi.likelihood.block import Block, Isotropic, Weighting
from bvsi.likelihood.covariance import CovariancePlan, Part, side_by_side
from bvsi.likelihood.equations import (
    Density,
    InstrumentalEquations,
    MomentEquations,
    NormalEquations,
    ProfileEquations,
    check_change_of_variables,
    instrumental_equations,
)
from bvsi.likelihood.products import NoiseShare, moment_equations, noise_estimate, noise_sizes
from bvsi.likelihood.stacked import Stacked
from bvsi.linalg import usable_cores
from bvsi.noise.models import Noise, noise_of_experiments
from bvsi.residual import ResidualSystem

# Times as many blocks as a pilot has from which on it is made: with fewer it saves less than it costs. Not measured.
_WORTH_A_PILOT = 3
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class ResidualLikelihood:
    """Likelihood of the residuals; make it with :func:`residual_likelihood`.

    Estimators and selection ask it for sums over experiments and blocks only, so that its parts may live elsewhere; see
    :class:`bvsi.cluster.ClusterLikelihood`.

    Attributes
    ----------
    plans
        One per experiment, shared by every restriction to fewer operators.
    """

    system: ResidualSystem
    noise: tuple[Noise, ...]
    weighting: Weighting
    plans: tuple[CovariancePlan | None, ...]

    @property
    def scale_known(self) -> bool:
        """Whether the size of the weights is known, not only their shape."""
        return self.noise[0].scale_known and self.weighting.uses_noise

    def noise_scale(self, equations: NormalEquations) -> float:
        """σ² in units of the noise model: one where it is known, else its estimate q/n."""
        return 1.0 if self.scale_known else equations.q / equations.n

    @property
    def names(self) -> tuple[str, ...]:
        """Coefficient names."""
        return self.system.names

    @property
    def d(self) -> int:
        """Number of operators."""
        return self.system.d

    @property
    def n(self) -> int:
        """Number of residuals used, over all experiments."""
        return self.system.n

    @property
    def rows(self) -> tuple[int, ...]:
        """Residuals per block of each experiment, N."""
        return tuple(e.structure.n_rows for e in self.system.experiments)

    @property
    def block_rows(self) -> tuple[Integers, ...]:
        """Residuals used in each block of each experiment, (K,)."""
        return tuple(e.structure.block_rows for e in self.system.experiments)

    def vector(self, theta: ArrayLike) -> Array:
        """A coefficient vector (d,), checked."""
        return self.system.vector(theta)

    def __repr__(self) -> str:
        return f"ResidualLikelihood({self.system!r}, noise={self.noise[0]!r}, weighting={self.weighting!r})"

    def restrict(self, names: Iterable[str]) -> ResidualLikelihood:
        """The likelihood of a model with only the named operators; nothing is planned or assembled again."""
        return replace(self, system=self.system.subset(names))

    def combined(self, T: Array, names: tuple[str, ...]) -> ResidualLikelihood:
        """The likelihood of η with θ = T η, T (d, m), and m names: operators that move together become one."""
        return replace(self, system=self.system.combined(T, names))

    def unweighted(self) -> ResidualLikelihood:
        """The same residuals with W = I."""
        return replace(self, weighting=Isotropic())

    @property
    def slope_is_cheap(self) -> bool:
        """Whether q and ∇q cost far less than H: one factor serves many blocks, or conjugate gradients do without."""
        return all(map(self.weighting.slope_is_cheap, self.parts))

    @property
    def costly(self) -> bool:
        """Whether data are so many that estimates to a hundredth of a standard deviation have to do."""
        return any(map(self.weighting.costly, self.parts))

    def pilot(self, blocks: int) -> ResidualLikelihood | None:
        """A likelihood with about so many blocks of each experiment, evenly spread: rough estimates for less.

        Where the weights couple blocks, with some tiles, each an experiment. None where that would save little.
        """
        if self.weighting.couples_blocks:
            return self.some_tiles()
        numbers = [len(rows) for rows in self.block_rows]
        if min(numbers) < _WORTH_A_PILOT * blocks:
            return None
        return self.some_blocks([np.arange(K // blocks // 2, K, K // blocks) for K in numbers])

    def some_tiles(self) -> ResidualLikelihood | None:
        """The likelihood of some tiles, each an experiment; None where that would save little."""
        return self._on_tiles([self.weighting.pilot(part) for part in self.parts])

    def _on_tiles(self, chosen: Sequence[Sequence[Part]]) -> ResidualLikelihood | None:
        """The likelihood of some tiles of every experiment; None where one has none."""
        if not all(chosen):
            return None
        noise = tuple(model for model, some in zip(self.noise, chosen, strict=True) for _ in some)
        few = [part for some in chosen for part in some]
        system = replace(self.system, experiments=tuple(part.residuals for part in few))
        return ResidualLikelihood(system, noise, Stacked(), tuple(part.plan for part in few))

    def some_blocks(self, chosen: Sequence[Integers]) -> ResidualLikelihood:
        """The likelihood of some blocks of each experiment, by index; nothing is assembled again.

        Where the weights couple blocks it is planned again: tiles are other ones.
        """
        few = tuple(e.some_blocks(k) for e, k in zip(self.system.experiments, chosen, strict=True))
        if self.weighting.couples_blocks:
            return residual_likelihood(replace(self.system, experiments=few), self.noise, self.weighting)
        pairs = zip(self.plans, few, strict=True)
        plans = tuple(
            None if plan is None else replace(plan, structure=e.structure, all_blocks=plan) for plan, e in pairs
        )
        return replace(self, system=replace(self.system, experiments=few), plans=plans)

    def apart(self) -> list[tuple[list[int], ResidualLikelihood]]:
        """Operators of each equation, by index, and the likelihood of its residuals alone; planned again.

        None where an operator is part of several equations, or residuals are elsewhere.
        """
        experiments, found = self.system.experiments, list[tuple[list[int], ResidualLikelihood]]()
        for number in range(len(experiments[0].structure.equations) if experiments else 0):
            alone = replace(self.system, experiments=tuple(e.of_equation(number) for e in experiments))
            own = [i for i in range(self.d) if any(e.X[:, :, i].any() for e in alone.experiments)]
            if own:
                some = alone.subset([self.names[i] for i in own])
                found.append((own, residual_likelihood(some, self.noise, self.weighting)))
        return found if sum(len(own) for own, _ in found) <= self.d else []

    def each(
        self, work: Callable[[ResidualLikelihood, Item], Result], items: Iterable[Item], *, threads: bool = False
    ) -> Iterable[Result]:
        """work(likelihood, item) for every item, in order; independent of each other, so that they may run anywhere.

        Parameters
        ----------
        work
            A function of a module, or an instance of a class of one: on a cluster it travels.
        threads
            Whether it pays to run them side by side here, since evaluations alone do not keep all cores busy.
        """
        return side_by_side(partial(work, self), list(items), threads=usable_cores() if threads else 1)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Residuals and covariance plan of each experiment."""
        pairs = zip(self.system.experiments, self.plans, strict=True)
        return tuple(Part(residuals, plan, f"experiment {i}") for i, (residuals, plan) in enumerate(pairs))

    def normal_equations(self, theta: ArrayLike) -> NormalEquations:
        """H, g and q at θ with W = W(θ), summed over experiments."""
        vector = self.system.vector(theta)
        sums: list[NormalEquations] = []
        for part in self.parts:
            sums.append(self.weighting.normal_equations(part, vector))
        return NormalEquations.total(sums, tuple(q for one in sums for q in one.q_blocks))

    def profile_equations(
        self, theta: ArrayLike, *, smoothing: float = 1.0, rng: Rng | None = None, spread: bool = True
    ) -> ProfileEquations:
        """H, g, q and scores at θ with smoothed regressors, summed over experiments; S and N where given an rng.

        Parameters
        ----------
        spread
            False where S is not needed: of many operators it takes as long as all the rest.
        """
        vector, of = self.system.vector(theta), self.weighting.profile_equations
        found, rngs = [], [None] * len(self.plans) if rng is None else rng.spawn(len(self.plans))
        for part, own in zip(self.parts, rngs, strict=True):
            found.append(of(part, vector, smoothing=smoothing, rng=own, spread=spread))
        return ProfileEquations.total(found)

    def slope_near(self, theta: Array, near: Array) -> Array | None:
        """−½∇Q at θ with the factors of a θ close by, which are at hand, (d,); None where that would be no gain."""
        found = [one for part in self.parts if (one := self.weighting.slope_near(part, theta, near)) is not None]
        return np.asarray(np.sum(found, axis=0)) if len(found) == len(self.parts) else None

    def moment_equations(self, theta: ArrayLike, *, rng: Rng, draws: int = 4) -> MomentEquations:
        """ZᵀWZ with W = W(θ) and what noise adds to it, summed over experiments."""
        vector, weights = self.system.vector(theta), self.weighting.weights
        found = []
        for part, own in zip(self.parts, rng.spawn(len(self.plans)), strict=True):
            found.append(moment_equations(part, vector, weights(part, vector), rng=own, draws=draws))
        return MomentEquations.total(found)

    @property
    def evolves(self) -> bool:
        """Whether there are time derivatives; a steady problem has none."""
        return any(experiment.structure.a.nnz for experiment in self.system.experiments)

    def time_signal(self, theta: ArrayLike, rng: Rng, scale: float = 1.0) -> float:
        """yᵀWy − scale · E[εᵀMᵀWMε], W = W(θ): how much of the time terms the weights separate from noise.

        With large coefficients that nearly cancel, noise in the operators explains any y, and this is next to nothing.

        Parameters
        ----------
        scale
            σ² in units of the noise model, where that is not known.
        """
        moments = self.moment_equations(theta, rng=rng, draws=1)
        return float(moments.gram[0, 0] - scale * moments.noise[0, 0])

    def instrumental_equations(self, theta: ArrayLike) -> InstrumentalEquations:
        """A and c at θ with regressors of other times as instruments, summed over experiments."""
        vector = self.system.vector(theta)
        return InstrumentalEquations.total([instrumental_equations(part, vector) for part in self.parts])

    def noise_share(self, rng: Rng) -> NoiseShare:
        """How much of each operator is noise, by equation, summed over experiments."""
        pairs = zip(self.parts, rng.spawn(len(self.plans)), strict=True)
        return NoiseShare.of([noise_sizes(part, own) for part, own in pairs])

    def noise_estimates(
        self, theta: Array, times: Sequence[slice | Integers] | None = None
    ) -> tuple[dict[str, Array], ...]:
        """ε̂ by field, (T, n_dofs) each, for every experiment: what the residuals say about the noise of the states.

        Nonlinear operators can be linearised at û − ε̂, see ``assemble(linearise_at=...)``.

        Parameters
        ----------
        times
            Which times of every experiment, (K,) each; all by default.
        """
        one, chosen = self.weighting, times or [slice(None)] * len(self.parts)
        return tuple(
            noise_estimate(part, theta, one.weights(part, theta), one.estimates(part), own)
            for part, own in zip(self.parts, chosen, strict=True)
        )

    def density(
        self, theta: ArrayLike, *, gradient: bool = False, logdet: bool = True, change: bool = False
    ) -> Density:
        """Misfit and log-determinant at θ, summed over experiments.

        Parameters
        ----------
        gradient
            With respect to θ, exact.
        logdet
            False leaves it out, which saves the selected inverse.
        change
            Also Σ_k log |det C_kk|, which makes it a density of the data.
        """
        vector, of = self.system.vector(theta), self.weighting.density
        found = []
        for part in self.parts:
            found.append(of(part, vector, gradient=gradient, logdet=logdet, change=change))
        return Density.total(found)

    def check_change_of_variables(self) -> None:
        """Refuse where the residuals are not a change of variables from the data."""
        for part in self.parts:
            check_change_of_variables(part)

    def logdet_gradient(self, theta: ArrayLike) -> Array:
        """Gradient of log det Σ(θ), summed over blocks and experiments, (d,)."""
        return self.density(theta, gradient=True).logdet.gradient

    def log_density(self, theta: ArrayLike) -> float:
        """log p(r_θ | θ), with the log-determinant. An unknown residual variance is put at its maximum, q/n."""
        density = self.density(theta)
        q, n = max(density.q.value, np.finfo(float).tiny), density.n
        if self.scale_known:
            return -0.5 * (q + density.logdet.value + n * math.log(2 * math.pi))
        return -0.5 * (n + n * math.log(q / n) + density.logdet.value + n * math.log(2 * math.pi))


def residual_likelihood(
    system: ResidualSystem, noise: Noise | Sequence[Noise], weighting: Weighting | None = None
) -> ResidualLikelihood:
    """Bind a system to its noise (one model, or one per experiment) and a weighting (default: block)."""
    weighting = weighting or Block()
    if isinstance(weighting, type) or not hasattr(weighting, "normal_equations"):
        raise BvsiError(f"weighting: an instance such as Block() is needed, not {weighting!r}.")
    if any(not residuals.y.size for residuals in system.experiments):
        raise BvsiError(
            "data: no test function is zero at the boundary: at least 3 nodes along every axis are needed, or "
            "boundary conditions in the library, such as boundary=ZeroNeumann()."
        )
    models = noise_of_experiments(noise, len(system.experiments))
    pairs = zip(system.experiments, models, strict=True)
    plans = tuple(weighting.plan(residuals.structure, model) for residuals, model in pairs)
    return ResidualLikelihood(system, models, weighting, plans)
