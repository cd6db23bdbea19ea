"""Groups of ArviZ that need the data: observed_data, posterior_predictive, log_likelihood, prior.

The residuals at the estimate and the smoothed regressors make a linear model of the left sides, whose misfit is that of
the profile estimator to second order:

    y = r(θ̂) + X̃ θ̂,      y | θ ~ N(X̃ θ, Σ(θ̂)),      X̃ = X − J ε̂,   W = Σ⁻¹
    ζ_i(θ) = [W (y − X̃ θ)]_i / √W_ii,      log p_i(θ) = −½ ζ_i² − ½ log 2π

ζ_i is residual i given all others, in its standard deviations: what is left out one at a time where observations are
correlated. The volume term ½ log W_ii is left out, as the profile estimator leaves out the log-determinant: it would
reward models for the noise that their operators carry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi.app.posterior_storage import CHAINS, arviz_installed, as_arviz, to_dataset
from bvsi.common.arrays import Array, Rng
from bvsi.data import Data, as_experiments
from bvsi.discovery.functions import of_found
from bvsi.discovery.method import choose_method, with_treatment
from bvsi.discovery.parameters import at_estimate
from bvsi.errors import BvsiError
from bvsi.infer.lagged import prior_density
from bvsi.likelihood import ResidualLikelihood
from bvsi.likelihood.covariance import Part
from bvsi.likelihood.products import SpaceTime
from bvsi.noise import Noise
from bvsi.noise.measurement import measure_all
from bvsi.operators import Library
from bvsi.operators.families import by_experiment

if TYPE_CHECKING:
    import xarray as xr

    from bvsi.discovery import Discovery

# Residuals at most: √W_ii takes one solve each. Dense weights of so many take a minute; not measured further.
_MOST = 10_000
# Columns that are solved for together, as elsewhere.
_COLUMNS = 64


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The linear model of one experiment; n residuals that are used.

    Attributes
    ----------
    y, slope
        Left sides (n,) and smoothed regressors X̃ (n, d).
    zeta, zeta_slope
        ζ at θ̂ (n,), and −∂ζ/∂θ (n, d).
    products
        Draws of the noise of the residuals come from them.
    used
        Which residuals are used (N, K).
    """

    y: Array
    slope: Array
    zeta: Array
    zeta_slope: Array
    products: SpaceTime
    used: np.ndarray


def linear_model(likelihood: ResidualLikelihood, part: Part, theta: Array) -> LinearModel:
    """The linear model at θ̂ (d,)."""
    structure, residuals = part.residuals.structure, part.residuals
    products, weigh = SpaceTime(part, theta), likelihood.weighting.weights(part, theta)
    used = np.ones((structure.n_rows, structure.n_blocks), dtype=bool)
    used = used if structure.active is None else structure.active.copy()
    r = residuals.residual(theta)
    w = weigh(r[:, :, None])[:, :, 0]
    slope = residuals.X - products.operators(products.spread(w))
    root = np.sqrt(_diagonal(weigh, used))
    weighted = weigh(slope)
    return LinearModel(
        y=r[used] + slope[used] @ theta,
        slope=slope[used],
        zeta=w[used] / root,
        zeta_slope=weighted[used] / root[:, None],
        products=products,
        used=used,
    )


def _diagonal(weigh: Any, used: np.ndarray) -> Array:
    """W_ii of the residuals that are used, (n,), by solves with unit vectors."""
    places = np.argwhere(used)
    found = np.empty(len(places))
    for start in range(0, len(places), _COLUMNS):
        some = places[start : start + _COLUMNS]
        unit = np.zeros((*used.shape, len(some)))
        unit[some[:, 0], some[:, 1], np.arange(len(some))] = 1.0
        found[start : start + len(some)] = weigh(unit)[some[:, 0], some[:, 1], np.arange(len(some))]
    return found


def predictive_groups(
    found: Discovery,
    data: Data | Sequence[Data],
    library: Library,
    *,
    noise: Noise | Sequence[Noise] | None = None,
    prior: Any = None,
    size: int = 2000,
    rng: Rng | None = None,
) -> dict[str, xr.Dataset]:
    """The groups by name, ``posterior`` among them; arguments as :func:`bvsi.discover` had them.

    Variables are called ``left`` and have a dimension ``residual``; those that are drawn have ``chain`` and ``draw``
    too. Results can be compared where they have the same test functions: pass ``method=found.method`` to the other.

    Parameters
    ----------
    prior
        Of the discovery, where it had one; a flat prior has no draws.
    size, rng
        Draws of the posterior, and for all draws, by default seed 0.
    """
    import xarray as xr

    rng = np.random.default_rng(0) if rng is None else rng
    likelihood, origin = likelihood_of(found, data, library, noise, rng)
    estimate = found.theta - origin
    if likelihood.n > _MOST:
        raise BvsiError(f"to_arviz: {likelihood.n} residuals are more than {_MOST}; give every second frame or node.")
    scale = math.sqrt(likelihood.noise_scale(likelihood.normal_equations(estimate)))
    models = [linear_model(likelihood, part, estimate) for part in likelihood.parts]
    posterior = to_dataset(found.posterior, size=size, rng=rng)
    theta = posterior["theta"].values
    step = theta - found.theta
    zeta = np.concatenate([m.zeta - step @ m.zeta_slope.T for m in models], axis=-1) / scale
    drawn = np.concatenate(
        [(theta - origin) @ m.slope.T + scale * _noise(m, theta.shape[:2], rng) for m in models], axis=-1
    )
    places = {"chain": posterior["chain"], "draw": posterior["draw"]}
    dims = ("chain", "draw", "residual")
    groups = {
        "posterior": posterior,
        "log_likelihood": xr.Dataset({"left": (dims, -0.5 * zeta**2 - 0.5 * math.log(2 * math.pi))}, places),
        "posterior_predictive": xr.Dataset({"left": (dims, drawn)}, places),
        "observed_data": xr.Dataset({"left": ("residual", np.concatenate([m.y for m in models]))}),
    }
    if prior is not None:
        groups["prior"] = _prior(prior_density(prior, likelihood), posterior, rng)
    return groups


def to_arviz(found: Discovery, data: Data | Sequence[Data], library: Library, **options: Any) -> Any:
    """:func:`predictive_groups` as the installed ArviZ takes them, for ``loo``, ``compare`` and ``plot_ppc``."""
    arviz_installed()
    groups = predictive_groups(found, data, library, **options)
    return as_arviz(groups, groups["posterior"].attrs)


def _prior(density: Any, posterior: xr.Dataset, rng: Rng) -> xr.Dataset:
    """Draws of the prior, as many as of the posterior."""
    each = posterior.sizes["draw"]
    drawn = density.sample(CHAINS * each, rng).reshape(CHAINS, each, -1)
    return (
        posterior.isel(chain=[0] * CHAINS)
        .assign_coords(chain=np.arange(CHAINS))
        .assign(theta=(("chain", "draw", "operator"), drawn))
    )


def _noise(model: LinearModel, shape: tuple[int, ...], rng: Rng) -> Array:
    """Draws of the residuals' noise C ε, (*shape, n)."""
    drawn = [model.products.sensitivity(model.products.draw(rng))[model.used] for _ in range(math.prod(shape))]
    return np.stack(drawn).reshape(*shape, -1)


def likelihood_of(
    found: Discovery, data: Data | Sequence[Data], library: Library, noise: Any = None, rng: Rng | None = None
) -> tuple[ResidualLikelihood, Array]:
    """The likelihood of the selected operators with the method of the discovery, and κ_0 of parameters, (d,).

    The data are those of the discovery, or others.
    """
    if found.method is None or found.method.weighting is None or not found.method.weighting.uses_noise:
        raise BvsiError("to_arviz: the method of this result is not kept, or takes no noise; discover it again.")
    if len(library.orders) > 1:
        library = library.with_(time_order=found.time_order)
    library, experiments = by_experiment(library, as_experiments(data))
    library = of_found(library, found.functions, expanded=True)
    missing = [name for name in found.names if name not in (*library.names, *found.parameters)]
    if missing:
        raise BvsiError(f"library: it has no operator {missing[0]!r}; give that of the discovery.")
    origin = np.zeros(len(found.names))
    if found.parameters:
        library, origin = at_estimate(library, found)
    rng = np.random.default_rng(0) if rng is None else rng
    measured = measure_all(experiments, noise, robust=True, rng=rng)
    setup, _ = with_treatment(choose_method(measured, library, found.method).setup)
    return setup.likelihood(found.names), origin
