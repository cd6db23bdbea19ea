"""The residual likelihood: a residual system, its noise and a weighting, bound together.

−log p(r_θ | θ) = ½ rᵀWr − ½ log det W + ½ n log 2π        (eq:theta_dependent_negative_log_likelihood)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import BvsiError
from bvsi.likelihood.covariance import CovariancePlan, Part
from bvsi.likelihood.density import Density
from bvsi.likelihood.instruments import InstrumentalEquations, instrumental_equations
from bvsi.likelihood.moments import MomentEquations
from bvsi.likelihood.noise import Noise, noise_of_experiments
from bvsi.likelihood.noise_share import NoiseShare, noise_share
from bvsi.likelihood.normal_equations import NormalEquations
from bvsi.likelihood.profile_equations import ProfileEquations
from bvsi.likelihood.stacked import Stacked
from bvsi.likelihood.weighting import Block, Weighting
from bvsi.residual import ResidualSystem

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ResidualLikelihood:
    """Likelihood of the residuals; make it with :func:`residual_likelihood`.

    plans: one per experiment, shared by every restriction to fewer operators.
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

    def __repr__(self) -> str:
        return f"ResidualLikelihood({self.system!r}, noise={self.noise[0]!r}, weighting={self.weighting!r})"

    def restrict(self, names: Iterable[str]) -> ResidualLikelihood:
        """The likelihood of a model with only the named operators; nothing is planned or assembled again."""
        return replace(self, system=self.system.subset(names))

    @property
    def parts(self) -> tuple[Part, ...]:
        """Residuals and covariance plan of each experiment."""
        pairs = zip(self.system.experiments, self.plans, strict=True)
        return tuple(Part(residuals, plan, f"experiment {i}") for i, (residuals, plan) in enumerate(pairs))

    def normal_equations(self, theta: ArrayLike) -> NormalEquations:
        """H, g and q at θ with W = W(θ), summed over experiments."""
        vector = self.system.vector(theta)
        sums = [self.weighting.normal_equations(part, vector) for part in self.parts]
        return NormalEquations.total(sums, tuple(q for one in sums for q in one.q_blocks))

    def profile_equations(
        self, theta: ArrayLike, *, smoothing: float = 1.0, rng: np.random.Generator | None = None
    ) -> ProfileEquations:
        """H, g, q and scores at θ with smoothed regressors, summed over experiments; S and N where given an rng."""
        vector = self.system.vector(theta)
        return ProfileEquations.total(
            [self.weighting.profile_equations(part, vector, smoothing=smoothing, rng=rng) for part in self.parts]
        )

    def moment_equations(self, theta: ArrayLike, *, rng: np.random.Generator, draws: int = 4) -> MomentEquations:
        """ZᵀWZ with W = W(θ) and what noise adds to it, summed over experiments; of Stacked() weighting."""
        vector = self.system.vector(theta)
        if not isinstance(self.weighting, Stacked):
            raise BvsiError("moment equations need Stacked() weighting.")
        of = self.weighting.moment_equations
        return MomentEquations.total([of(part, vector, rng=rng, draws=draws) for part in self.parts])

    def instrumental_equations(self, theta: ArrayLike) -> InstrumentalEquations:
        """A and c at θ with regressors of other times as instruments, summed over experiments."""
        vector = self.system.vector(theta)
        sums = [instrumental_equations(part, vector) for part in self.parts]
        return InstrumentalEquations(np.asarray(sum(e.A for e in sums)), np.asarray(sum(e.c for e in sums)))

    def noise_share(self, rng: np.random.Generator) -> NoiseShare:
        """How much of each operator is noise, by equation, summed over experiments."""
        sums = [noise_share(part, rng) for part in self.parts]
        return NoiseShare(
            *(np.sum([getattr(s, field) for s in sums], axis=0) for field in ("y", "X", "smooth", "size"))
        )

    def density(
        self, theta: ArrayLike, *, gradient: bool = False, logdet: bool = True, change: bool = False
    ) -> Density:
        """Misfit and log-determinant at θ, summed over experiments.

        gradient: with respect to θ, exact. logdet: False leaves it out, which saves the selected inverse.
        change: also Σ_k log |det C_kk|, which makes it a density of the data.
        """
        vector, of = self.system.vector(theta), self.weighting.density
        parts = [of(part, vector, gradient=gradient, logdet=logdet, change=change) for part in self.parts]
        return Density.total(parts)

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
    models = noise_of_experiments(noise, system)
    pairs = zip(system.experiments, models, strict=True)
    plans = tuple(weighting.plan(residuals.structure, model) for residuals, model in pairs)
    return ResidualLikelihood(system, models, weighting, plans)
