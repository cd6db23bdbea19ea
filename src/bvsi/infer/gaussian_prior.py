"""Any prior as the Gaussian that closed-form updates take, and its support as constraints.

θ ~ N(μ_0, Σ_0) of the same mean and variance, or quartiles where there is no variance (sec:hybrid_constraints)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array
from bvsi.errors import BvsiError, RankError
from bvsi.infer.constraints import AnyConstraints, LinearConstraints, as_linear
from bvsi.infer.priors import (
    BoundPrior,
    ColumnScale,
    Flat,
    GaussianPrior,
    JointNormal,
    Normal,
    Prior,
    PriorDensity,
    PriorFactor,
)
from bvsi.infer.vsi import LeastSquares
from bvsi.likelihood import ResidualLikelihood

AnyPrior = GaussianPrior | Prior | None


def prior_density(prior: AnyPrior, likelihood: ResidualLikelihood, *, in_units: bool = False) -> PriorDensity:
    """The prior for the operators of a likelihood; None is flat.

    Operators that take the default :class:`ColumnScale` get the information of the data at the least-squares estimate.

    Parameters
    ----------
    in_units
        Of σ², where that is unknown, as closed forms want it; otherwise of the coefficients themselves.
    """
    names = likelihood.names
    if prior is None:
        return PriorDensity(names, (PriorFactor(np.arange(len(names)), Flat()),), names)
    if isinstance(prior, GaussianPrior):
        return prior.prior.bind(names)
    if not isinstance(prior, Prior):
        raise BvsiError(f"prior: Prior({{...}}) or GaussianPrior({{...}}) is needed, not {prior!r}.")
    return prior.bind(names, _information(likelihood, in_units) if prior.needs_information(names) else None)


def matched(prior: AnyPrior, likelihood: ResidualLikelihood) -> PriorDensity | None:
    """The prior for a closed-form update, None where it is flat; refused where its units do not fit the noise."""
    if prior is None:
        return None
    in_units = isinstance(prior, Prior) and (prior.terms or not isinstance(prior.default, ColumnScale | Flat))
    if in_units and not likelihood.scale_known:
        raise BvsiError(
            "prior: with unknown noise, closed-form updates take a prior in units of σ²; use GaussianPrior for that, "
            "state the noise, or use Maximum(), SVGD() or NUTS(), whose priors are of the coefficients themselves."
        )
    return prior_density(prior, likelihood, in_units=True)


def bound(density: PriorDensity | None, d: int) -> BoundPrior:
    """The Gaussian that stands for a prior of d coefficients."""
    return BoundPrior(np.zeros(d), np.zeros((d, d))) if density is None else density.gaussian


def replaced_text(density: PriorDensity | None) -> str:
    """Which priors a closed form replaces by Gaussians; empty where all are Gaussian or flat."""
    if density is None:
        return ""
    other = [
        name
        for factor in density.factors
        if not isinstance(factor.law, Normal | JointNormal | Flat)
        for name in (density.names[i] for i in factor.positions)
    ]
    if not other:
        return ""
    listed = ", ".join(map(repr, other))
    return f"Gaussians stand for the priors of {listed}; Maximum(), SVGD() and NUTS() take these as they are."


def with_support(
    constraints: AnyConstraints, prior: PriorDensity | None, names: tuple[str, ...]
) -> LinearConstraints | None:
    """The constraints together with the support of the prior; None where there are none."""
    if prior is None or not (np.isfinite(prior.lower).any() or np.isfinite(prior.upper).any()):
        return None if constraints is None else as_linear(constraints, names)
    linear = as_linear(constraints, names)
    return linear.with_bounds(prior.lower, prior.upper, [f"support of the prior of {name!r}" for name in prior.names])


def _information(likelihood: ResidualLikelihood, in_units: bool) -> Array:
    try:
        theta = LeastSquares().fit(likelihood).theta
    except RankError:
        theta = np.zeros(likelihood.system.d)
    equations = likelihood.normal_equations(theta)
    return np.asarray(np.diag(equations.H) / (1.0 if in_units else likelihood.noise_scale(equations)))


def column_prior(likelihood: ResidualLikelihood, theta: ArrayLike, weight: float = 1e-10) -> GaussianPrior:
    """The prior with the weights W(θ) of a first estimate θ.

    Parameters
    ----------
    weight
        w, information of the prior relative to that of the data on an operator alone. Where operators are nearly alike
        the data know little of each, so that w has to be far below 1/n to be weak.
    """
    scale, information = ColumnScale(weight), np.diag(likelihood.normal_equations(theta).H)
    laws = zip(likelihood.names, map(scale.law, information.tolist()), strict=True)
    return GaussianPrior({name: (0.0, law.variance) for name, law in laws if np.isfinite(law.variance)})
