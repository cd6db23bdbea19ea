"""The facade: data and library in, equation with error bars out. Composition only."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bvsi.constraints import AnyConstraints, LinearConstraints, as_linear
from bvsi.data import Data, Grid, as_experiments
from bvsi.discovery.result import Discovery
from bvsi.discovery.ties import needed, ties_of
from bvsi.discovery.treatment import with_treatment
from bvsi.errors import BvsiError
from bvsi.inference import NUTS, SVGD, Fit, Lagged, Maximum, Profile
from bvsi.inference.gaussian_prior import prior_density
from bvsi.likelihood import Block, Noise, ResidualLikelihood, UnknownScale, Weighting, residual_likelihood
from bvsi.naming import matches
from bvsi.operators import Library
from bvsi.priors import GaussianPrior, Prior
from bvsi.progress import Progress, silent
from bvsi.residual import CrankNicolson, Stencil, assemble
from bvsi.selection import Backward, SelectionPath, Sweep
from bvsi.spaces import Q1, Q2, Galerkin

Array = NDArray[np.float64]
Estimator = Profile | Lagged | Maximum | SVGD | NUTS


def discover(
    data: Data | Sequence[Data],
    library: Library,
    *,
    noise: Noise | Sequence[Noise] | None = None,
    discretisation: Galerkin | None = None,
    stencil: Stencil | None = None,
    weighting: Weighting | None = None,
    selection: Backward | Sweep | None = None,
    estimator: Estimator | None = None,
    prior: Prior | GaussianPrior | None = None,
    constraints: AnyConstraints = None,
    progress: Progress = silent,
) -> Discovery:
    """Select the operators that the data support, and infer their coefficients.

    data: one experiment, or several of the same physics; library: candidates, those to keep, boundary conditions.
    noise: model of the observation noise; left out, its level is estimated.
    discretisation: by default Q2 where the grid has whole Q2 elements, else Q1; on meshes their own degree.
    stencil: by default Crank–Nicolson. weighting: by default block.
    selection: by default ``Sweep()``, elimination with the Wald criterion on the quadratic model of the misfit, the
        result refitted and checked; ``Backward()`` refits at every step.
    ``biharmonic(...)`` on Q2, where the library leaves its treatment open, gets the one that fits better.
    estimator, prior: for the posterior of the selected model; by default the profile estimator with a flat prior.
    constraints: texts such as ``"laplacian(u) > 0"`` or ``"laplacian(c1) == laplacian(c2)"``. Operators that equalities
        tie together are selected together; inequalities hold in the posterior.
    """
    begin = time.perf_counter()
    experiments = as_experiments(data)
    discretisation = discretisation or default_discretisation(experiments)
    stencil, weighting, selection = stencil or CrankNicolson(), weighting or Block(), selection or Sweep()
    noise = noise if noise is not None else UnknownScale()
    _check_prior(prior, library)
    if estimator is not None and not isinstance(estimator, Estimator):
        raise BvsiError(f"estimator: Profile(), Lagged(), Maximum(), SVGD() or NUTS() is needed, not {estimator!r}.")
    allowed = as_linear(constraints, library.names)
    library, checked = with_treatment(
        experiments,
        library,
        noise,
        discretisation=discretisation,
        stencil=stencil,
        weighting=weighting,
        progress=progress,
    )
    system = assemble(experiments, library, discretisation=discretisation, stencil=stencil, progress=progress)
    likelihood = residual_likelihood(system, noise, weighting)
    ties = ties_of(allowed)
    keep = ties.keep([*library.keep, *needed(allowed)])
    path = ties.path(selection.select(ties.likelihood(likelihood), keep=keep, progress=progress))
    selected = likelihood.restrict(path.best.names)
    fit = _fit(estimator or Profile(), selected, path.best.theta, prior, allowed.restrict(selected.names), progress)
    settings = {
        "discretisation": system.description,
        "noise": repr(noise),
        "weighting": repr(weighting),
        "selection": repr(selection),
        "estimator": repr(estimator or Profile()),
        "prior": "flat" if prior is None else str(prior_density(prior, selected)),
        "constraints": "; ".join(allowed.texts),
        **({"biharmonic": str(checked)} if checked.chi2 else {}),
    }
    rows = tuple(part.structure.n_rows for part in system.experiments)
    return _result(library, fit, path, rows, settings, time.perf_counter() - begin)


def default_discretisation(experiments: Sequence[Data]) -> Galerkin:
    """Q2 on grids whose axes all have whole pairs of cells, else Q1; on meshes the element that the nodes make."""
    geometries = [experiment.geometry for experiment in experiments]
    if not all(isinstance(g, Grid) for g in geometries):
        return Galerkin()
    whole = all(_pairs(g, name) for g in geometries if isinstance(g, Grid) for name in g.names)
    return Galerkin(Q2 if whole else Q1)


def _pairs(grid: Grid, axis: str) -> bool:
    periodic = axis in grid.periods
    cells = len(grid.axes[axis]) - (0 if periodic else 1)
    return cells % 2 == 0 and cells >= (4 if periodic else 2)


def _fit(
    estimator: Estimator,
    selected: ResidualLikelihood,
    theta: Array,
    prior: Prior | GaussianPrior | None,
    constraints: LinearConstraints,
    progress: Progress,
) -> Fit:
    """The posterior of the selected model; estimators that are not closed forms find their own start."""
    if isinstance(estimator, Profile | Lagged):
        return estimator.fit(selected, prior=prior, constraints=constraints, start=theta, progress=progress)
    return estimator.fit(selected, prior=prior, constraints=constraints, progress=progress)


def _check_prior(prior: Prior | GaussianPrior | None, library: Library) -> None:
    """Refuse names that no operator has, and in a joint prior those that several have."""
    if not isinstance(prior, Prior | GaussianPrior | None):
        raise BvsiError(f"prior: Prior({{...}}) or GaussianPrior({{...}}) is needed, not {prior!r}.")
    for key in () if prior is None else prior.terms:
        for name in (key,) if isinstance(key, str) else key:
            if isinstance(key, str) and matches(name, library.names):
                continue
            try:
                library.index(name)
            except BvsiError as error:
                raise BvsiError(f"prior: {error}") from None


def _result(
    library: Library, fit: Fit, path: SelectionPath, rows: tuple[int, ...], settings: dict[str, str], seconds: float
) -> Discovery:
    assert fit.posterior is not None
    sd = np.sqrt(fit.posterior.variance)
    return Discovery(
        fields=tuple(library.equations),
        candidates=library.names,
        posterior=fit.posterior,
        chi2=fit.chi2,
        chi2_blocks=fit.chi2_blocks,
        block_rows=rows,
        score_sd=sd if fit.score_covariance is None else np.sqrt(np.diag(fit.score_covariance)),
        status=fit.status,
        path=path,
        settings=settings,
        seconds=seconds,
    )
