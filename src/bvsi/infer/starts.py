"""Starting points of the iterations: a table that is tried in order, and how each of its points is made.

Least squares attenuates a noisy operator towards zero. Weights computed from that small coefficient ignore the noise
that it causes, so that later iterations cannot leave the neighbourhood of zero (a plateau of Q). :func:`dominant`
therefore takes weights in which, per equation, only the noisy operator with the highest derivative is not zero:

    i*(e) = argmax {ρ_ei : ν_ei > 0.1},     θ_i* = κ (n_e/n_ei*)^½,  all others 0;     θ = H(θ*)⁻¹ XᵀW(θ*)y

ν is the share of noise in an operator and ρ its roughness (:mod:`bvsi.likelihood.products`). The operator is κ times
as strong as balances the noise of the left side: the weights are right wherever its noise rules. The estimate
depends little on κ; a few larger ones are tried while they lower the misfit. A known source has no noise, Σ is then
θ_i*² times one matrix, and any θ_i* does. :func:`instrumental` is consistent at any
noise level, but it has no error bars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Rng
from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.infer.constraints import LinearConstraints, project
from bvsi.infer.fit import CHI2_FACTOR, misfit_excess
from bvsi.infer.priors import BoundPrior
from bvsi.infer.quadratic import factorise
from bvsi.infer.vsi import LeastSquares
from bvsi.likelihood import ResidualLikelihood

# Relative ridge of a metric: operators that are alike are no obstacle to a projection.
_RIDGE = 1e-12
# Dominant weights (none of these values is measured by itself): κ to begin with,
KAPPA = 1e4
# the factor between one κ and the next,
STRONGER = 100.0
# how many there are at most,
_STRENGTHS = 4
# the part of the misfit that a stronger one has to reach,
_WORTH = 0.95
# the share of noise from which on an operator is noisy, or half of the largest share where that is less,
_MUCH = 0.1
# and the relative weight that settles what these weights hardly determine; it would otherwise be rounding of large θ*.
_SETTLES = 1e-8
PLATEAU = (
    "This is a plateau, where noise is taken for misfit: another estimate fits far better. Do not trust this one; "
    "leave the start out, or use Profile()."
)


@dataclass(frozen=True)
class Starts:
    """When another start is tried, and when two of them disagree.

    The values came with the estimator, which docs/paper.md (section 9) measures; they are not measured one by one.

    Parameters
    ----------
    pilot
        Blocks of each experiment that are enough for a rough estimate.
    noisy
        Share of noise in H beyond which Q may have several minima.
    together, apart
        Standard deviations below which two estimates are one, and beyond which they are two.
    continuation
        The shares of smoothing on the way from the lagged to the profile equations.
    corrections
        Gauss–Newton steps at each of them.
    plateau
        Standard deviations of χ²/n above one that call for another estimate.
    lower
        The part of Q which that has to reach to show a plateau.
    seed
        Of the draws of noise that decide about starts, so that they are reproducible.
    """

    pilot: int = 10
    noisy: float = 0.1
    together: float = 0.1
    apart: float = 5.0
    continuation: tuple[float, ...] = (0.25, 0.5, 0.75, 0.9)
    corrections: int = 4
    plateau: float = 5.0
    lower: float = 0.9
    seed: int = 0


class Enough(Enum):
    """When no further start of a table is tried, with the best estimate so far."""

    SETTLED = "it converged with the misfit of the stated noise, and little of H is noise"
    AGREED = "it settled, or all starts so far end there and little of H is noise"
    PLAUSIBLE = "it converged with the misfit of the stated noise"
    NEVER = "all starts are tried"


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """A row of the table: a name, how θ is made (None where it cannot be), and whether to continue after it."""

    name: str
    theta: Callable[[], Array | None]
    enough: Enough = Enough.NEVER


def dominant(likelihood: ResidualLikelihood, prior: BoundPrior, rng: Rng | None = None, factor: float = KAPPA) -> Array:
    """θ (d,) with the weights of the noisiest operators, which are made stronger while that lowers the misfit.

    Parameters
    ----------
    rng
        As for :func:`balance`.
    factor
        κ to begin with.
    """
    balanced = balance(likelihood, rng)
    best, lowest = _weighted(likelihood, prior, factor * balanced)
    for power in range(1, _STRENGTHS):
        if likelihood.scale_known and lowest < CHI2_FACTOR:
            break
        try:
            theta, chi2 = _weighted(likelihood, prior, factor * STRONGER**power * balanced)
        except (RankError, NotPositiveDefiniteError):
            break
        if chi2 > _WORTH * lowest:
            break
        best, lowest = theta, chi2
    return best


def balance(likelihood: ResidualLikelihood, rng: Rng | None = None) -> Array:
    """θ* (d,) for κ = 1, with one operator per equation: the roughest of those with much noise.

    In a series none is rougher than another, and the one that carries noise most evenly over time is taken.

    Parameters
    ----------
    rng
        For the draw of noise (default: seed 0).
    """
    noise = likelihood.noise_share(np.random.default_rng(0) if rng is None else rng)
    theta = np.zeros(likelihood.system.d)
    for y, X, share, rough, even in zip(noise.y, noise.X, noise.share, noise.roughness, noise.even, strict=True):
        rank = even if even.any() else np.where(share > min(_MUCH, share.max() / 2), rough, 0.0)
        i = int(np.argmax(rank))
        if X[i] > 0:
            theta[i] = np.sqrt((y or 1.0) / X[i])
    return theta


def _weighted(likelihood: ResidualLikelihood, prior: BoundPrior, theta: Array) -> tuple[Array, float]:
    """Estimate with the weights at θ, and the misfit Q/n with its own weights."""
    equations = likelihood.normal_equations(theta)
    ridge = _SETTLES * np.diag(np.diag(equations.H))
    solver = factorise(equations.H + prior.precision + ridge, likelihood.names)
    estimate = theta + solver.solve(equations.g + prior.gradient(theta) - ridge @ theta)
    own = likelihood.normal_equations(estimate)
    return estimate, own.q / own.n


def instrumental(likelihood: ResidualLikelihood, prior: BoundPrior) -> Array | None:
    """A(θ_l) θ_{l+1} = c(θ_l) from the least-squares estimate, (d,), or None where instruments do not determine it.

    The weights are brought up to date four times at most, or until no coefficient changes by more than 5%.
    """
    try:
        theta = LeastSquares().fit(likelihood).theta
    except RankError:
        theta = prior.mean
    for _ in range(4):
        try:
            updated = _updated(likelihood, prior, theta)
        except (BvsiError, np.linalg.LinAlgError):
            return None
        if not np.all(np.isfinite(updated)):
            return None
        settled = np.all(np.abs(updated - theta) <= 0.05 * np.abs(updated))
        theta = updated
        if settled:
            break
    return theta


def _updated(likelihood: ResidualLikelihood, prior: BoundPrior, theta: Array) -> Array:
    equations = likelihood.instrumental_equations(theta)
    A, c = equations.A + prior.precision, equations.c + prior.precision @ prior.mean
    row, column = np.linalg.norm(A, axis=1), np.linalg.norm(A, axis=0)
    if not (row.all() and column.all()):
        raise np.linalg.LinAlgError
    scale_row, scale_column = 1 / np.sqrt(row), 1 / np.sqrt(column)
    return np.asarray(scale_column * np.linalg.solve(scale_row[:, None] * A * scale_column, scale_row * c))


def start_vector(likelihood: ResidualLikelihood, start: ArrayLike | Mapping[str, float]) -> Array:
    """First θ as a vector (d,); a mapping by name leaves the others at zero."""
    system = likelihood.system
    if not isinstance(start, Mapping):
        return system.vector(start)
    theta: list[object] = [0.0] * system.d
    for name, value in start.items():
        theta[system.index(name)] = value
    return system.vector(np.array(theta))


def feasible(likelihood: ResidualLikelihood, theta: Array, constraints: LinearConstraints | None) -> Array:
    """θ where it is allowed, else the nearest allowed one in the metric XᵀW(θ)X."""
    if not constraints or constraints.satisfied(theta, tol=0.0):
        return theta
    H = likelihood.normal_equations(theta).H
    ridge = _RIDGE * np.diag(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    return project(theta, constraints, H + ridge)


def lagged_start(
    likelihood: ResidualLikelihood, prior: BoundPrior, constraints: LinearConstraints | None
) -> tuple[Array, tuple[str, ...], str]:
    """Least squares; where its misfit is large, or of unknown scale, the dominant weights if they fit better.

    Where noise swamps an operator, least squares is the edge of a plateau from which the iteration does not come back.
    Returns θ (d,), the names of the starts tried, and that of the one kept.
    """
    plain, weighted, rules = "least squares", "dominant", Starts()
    try:
        theta = LeastSquares().fit(likelihood).theta
    except RankError:
        if not (prior.precision.any() or (constraints and constraints.equality.any())):
            raise
        return prior.mean, (plain, "prior mean"), "prior mean"  # prior or equalities settle what the data leave open
    if not likelihood.weighting.uses_noise:
        return theta, (plain,), plain
    few = likelihood.pilot(rules.pilot) or likelihood  # some of the blocks are enough to choose a start
    equations = few.normal_equations(theta)
    if likelihood.scale_known and equations.q < CHI2_FACTOR * equations.n:
        return theta, (plain,), plain
    try:
        other = dominant(few, prior, np.random.default_rng(rules.seed))
        better = few.normal_equations(other).q < equations.q
    except (RankError, NotPositiveDefiniteError):
        better = False
    return (other, (plain, weighted), weighted) if better else (theta, (plain, weighted), plain)


def on_plateau(
    likelihood: ResidualLikelihood,
    prior: BoundPrior,
    estimate: Array,
    q: float,
    constraints: LinearConstraints | None,
    rules: Starts = Starts(),
) -> bool:
    """Whether an estimate with the misfit q = rᵀWr is stuck: noise does not explain q, and `dominant` is far below q.

    Under constraints its estimate counts only where they allow it: they may well cost misfit. Some of the blocks are
    enough to see that.
    """
    n = likelihood.n
    if not likelihood.scale_known or not misfit_excess(q / n, n, sds=rules.plateau, least=0.0):
        return False
    try:
        if (few := likelihood.pilot(rules.pilot)) is not None:
            likelihood, q = few, few.normal_equations(estimate).q
        theta = dominant(likelihood, prior, np.random.default_rng(rules.seed))
        if constraints and not constraints.satisfied(theta):
            return False
        return bool(likelihood.normal_equations(theta).q < rules.lower * q)
    except (RankError, NotPositiveDefiniteError):
        return False
