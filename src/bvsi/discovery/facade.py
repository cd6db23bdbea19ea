"""The facade: data and library in, equation with error bars out. Composition only."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from bvsi.data import Data, Grid, as_experiments
from bvsi.discovery.result import Discovery
from bvsi.discovery.treatment import with_treatment
from bvsi.errors import BvsiError
from bvsi.inference import Fit, GaussianPrior, Profile
from bvsi.likelihood import Block, Noise, UnknownScale, Weighting, residual_likelihood
from bvsi.operators import Library
from bvsi.progress import Progress, silent
from bvsi.residual import CrankNicolson, Stencil, assemble
from bvsi.selection import Backward, SelectionPath, Sweep
from bvsi.spaces import Q1, Q2, Galerkin


def discover(
    data: Data | Sequence[Data],
    library: Library,
    *,
    noise: Noise | Sequence[Noise] | None = None,
    discretisation: Galerkin | None = None,
    stencil: Stencil | None = None,
    weighting: Weighting | None = None,
    selection: Backward | Sweep | None = None,
    estimator: Profile | None = None,
    prior: GaussianPrior | None = None,
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
    """
    begin = time.perf_counter()
    experiments = as_experiments(data)
    discretisation = discretisation or default_discretisation(experiments)
    stencil, weighting, selection = stencil or CrankNicolson(), weighting or Block(), selection or Sweep()
    noise = noise if noise is not None else UnknownScale()
    _check_prior(prior, library)
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
    path = selection.select(likelihood, keep=library.keep, progress=progress)
    selected = likelihood.restrict(path.best.names)
    fit = (estimator or Profile()).fit(selected, prior=prior, start=path.best.theta, progress=progress)
    settings = {
        "discretisation": system.description,
        "noise": repr(noise),
        "weighting": repr(weighting),
        "selection": repr(selection),
        "prior": repr(prior),
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


def _check_prior(prior: GaussianPrior | None, library: Library) -> None:
    for name in {} if prior is None else prior.terms:
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
