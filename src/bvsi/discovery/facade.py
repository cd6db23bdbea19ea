"""The facade: data and library in, equation with error bars out. Composition only."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.check import Check
from bvsi.cluster import Stored, check_client, cluster_likelihood, sources
from bvsi.common.naming import matches
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, as_experiments
from bvsi.discovery.checking import check_discovery, with_bias
from bvsi.discovery.frames import Frames, frames_of
from bvsi.discovery.method import Asked, Method, Selection, choose_method
from bvsi.discovery.relinearise import relinearised
from bvsi.discovery.result import Discovery
from bvsi.discovery.screening import check_arguments, check_ends, check_found, check_worth
from bvsi.discovery.submodel import assembled
from bvsi.discovery.ties import needed, ties_of
from bvsi.discovery.treatment import TreatmentCheck, with_treatment
from bvsi.errors import BvsiError
from bvsi.infer import NUTS, SVGD, Fit, Lagged, Maximum, Profile
from bvsi.infer.constraints import AnyConstraints, LinearConstraints, as_linear
from bvsi.infer.fit import CHI2_FACTOR, misfit_excess
from bvsi.infer.gaussian_prior import prior_density
from bvsi.infer.priors import GaussianPrior, InverseGammaPrior, Prior
from bvsi.likelihood import ResidualLikelihood, Weighting, residual_likelihood
from bvsi.noise import Noise, UnknownScale
from bvsi.noise.measurement import Measurement, measure_all
from bvsi.operators import Library
from bvsi.residual import Stencil, assemble
from bvsi.residual.assembly import Discretisation
from bvsi.select import SelectionPath, Sweep
from bvsi.spaces import Galerkin

Array = NDArray[np.float64]
Estimator = Profile | Lagged | Maximum | SVGD | NUTS


def discover(
    data: Data | Sequence[Data],
    library: Library,
    *,
    noise: Noise | Sequence[Noise] | None = None,
    robust: bool | None = None,
    discretisation: Discretisation | None = None,
    stencil: Stencil | None = None,
    weighting: Weighting | None = None,
    selection: Selection | None = None,
    estimator: Estimator | None = None,
    prior: Prior | GaussianPrior | None = None,
    constraints: AnyConstraints = None,
    relinearise: int = 0,
    check: bool = True,
    client: Any = None,
    stored: Sequence[Stored] | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress = silent,
) -> Discovery:
    """Select the operators that the data support, infer their coefficients, and check that the answer can be trusted.

    data: one experiment, or several of the same physics; library: candidates, those to keep, boundary conditions.
    noise: model of the observation noise; left out, filters measure it and the fit refines its level.
    robust: whether outliers get Student-t weights; by default where there are more than noise explains.
    discretisation: ``SplineTests()`` or ``Galerkin()``; by default spline tests on uniform grids, where no operator
        needs a derivative of the data, else elements: Q2 where the grid has whole Q2 elements, else Q1, and on meshes
        their own degree. The result says which, and why.
    stencil: by default temporal test functions with spline tests, Crank–Nicolson with elements.
    weighting: by default ``Stacked()`` with spline tests, ``Block()`` with elements.
    selection: by default ``BestSubset()`` with stacked weighting, else ``Sweep()``, elimination with the Wald criterion
        on the quadratic model of the misfit; ``Backward()`` refits at every step.
    ``biharmonic(...)`` on Q2, where the library leaves its treatment open, gets the one that fits better.
    estimator, prior: for the posterior of the selected model; by default the profile estimator with a flat prior.
    constraints: texts such as ``"laplacian(u) > 0"`` or ``"laplacian(c1) == laplacian(c2)"``. Operators that equalities
        tie together are selected together; inequalities hold in the posterior.
    relinearise: how often the selected operators are linearised anew, at states smoothed by their own residual, before
        the last fit; it matters where nonlinear operators meet large noise.
    check: whether the fit is repeated on coarser samplings and with other test functions, for the verdict.
    client: a ``dask.distributed.Client``: selection and posterior are then worked out on its cluster, with the same
        result to rounding. Noise is measured and the answer checked here, with the selected operators only.
    stored: with a client, the files of the experiments, one each: workers then read their frames themselves, unless
        outliers were replaced or the data were coarsened.
    rng: for draws of the noise in the check and for samplers, by default ``numpy.random.default_rng(0)``. Every step
        starts from a copy of it, so that its numbers do not depend on the other steps.
    """
    begin = time.perf_counter()
    rng = np.random.default_rng(0) if rng is None else rng
    check_arguments(data, library)
    if client is not None:
        check_client(client)
    elif stored is not None:
        raise BvsiError("stored: files are read by the workers of a cluster; give client= too, or leave it out.")
    _check_prior(prior, library)
    if estimator is not None and not isinstance(estimator, Estimator):
        raise BvsiError(f"estimator: Profile(), Lagged(), Maximum(), SVGD() or NUTS() is needed, not {estimator!r}.")
    allowed = as_linear(constraints, library.names)
    check_worth(as_experiments(data), tuple(library.equations))
    measured = measure_all(as_experiments(data), noise, robust=robust, rng=rng)
    for one in measured:
        check_ends(one.data)  # outliers would hide it
    method = choose_method(measured, library, Asked(discretisation, stencil, weighting, selection))

    def likelihood_of(candidates: Library) -> ResidualLikelihood:
        return _likelihood(measured, as_experiments(data), candidates, method, client, stored, progress)

    library, treated = _treated(measured, library, method, None if client is None else likelihood_of, progress)
    likelihood = likelihood_of(library)
    ties = ties_of(allowed)
    keep = ties.keep([*library.keep, *needed(allowed)])
    path = ties.path(method.selection.select(ties.likelihood(likelihood), keep=keep, progress=progress))
    selected = likelihood.restrict(path.best.names)
    limits = allowed.restrict(selected.names)
    here = selected if client is None else None  # with residuals at hand, for what needs more than sums
    for _ in range(_count(relinearise)):
        here = here or _here(measured, library, method, selected.names)
        here = selected = relinearised(measured, here, path.best.theta, library, method)
    level = _level_prior(measured, path) if selected.scale_known else None
    estimator = estimator or Profile()
    found = path.best.fit if _estimates_with(method.selection, estimator) else None
    if found is None or prior is not None or limits or relinearise or level is not None:
        found = _fit(estimator, selected, path.best.theta, prior, limits, level, copy.deepcopy(rng), progress)
    fit = found
    if not keep:
        check_found(path.best.fit or fit, len(library.names), [m.data for m in measured], tuple(library.equations))
    if selected.scale_known:  # in units of the noise as it was measured or stated, not as the fit refines it
        fit = replace(fit, chi2=fit.equations.q / fit.equations.n)
    judged = pictures = None
    if check:
        here = here or _here(measured, library, method, selected.names)
        pictures = frames_of([m.data for m in measured], here, fit.theta, rng=copy.deepcopy(rng))
        # constraints hide what moves, so that the free fit is looked at, unless they cause a misfit of their own
        contradicted = bool(limits) and misfit_excess(fit.chi2, selected.n)
        subject = fit if contradicted else path.best.fit
        judged = check_discovery(
            subject,
            here,
            path.best.theta,
            measured,
            library,
            method,
            progress,
            held=contradicted,
            rng=copy.deepcopy(rng),
        )
    if judged is not None and fit.posterior is not None:
        fit = replace(fit, posterior=with_bias(fit.posterior, judged, limits))
    settings = {
        "discretisation": likelihood.system.description,
        "method": method.reason,
        "noise": "; ".join(m.told for m in measured),
        "weighting": repr(method.weighting),
        "selection": repr(method.selection),
        "estimator": repr(estimator),
        "prior": "flat" if prior is None else str(prior_density(prior, selected)),
        "constraints": "; ".join(allowed.texts),
        **({"biharmonic": str(treated)} if treated.chi2 else {}),
    }
    return _result(library, fit, path, likelihood.rows, settings, judged, pictures, time.perf_counter() - begin)


def _estimates_with(selection: Selection, estimator: Estimator) -> bool:
    """Whether a selection fits what it selects with this very estimator, so that its fit is the one wanted."""
    return isinstance(selection, Sweep) and getattr(selection.criterion, "estimator", None) == estimator


def _count(relinearise: int) -> int:
    if not isinstance(relinearise, int) or relinearise < 0:
        raise BvsiError(f"relinearise: a number of times, 0 or more, is needed; got {relinearise!r}.")
    return relinearise


def _treated(
    measured: Sequence[Measurement],
    library: Library,
    method: Method,
    elsewhere: Callable[[Library], ResidualLikelihood] | None,
    progress: Progress,
) -> tuple[Library, TreatmentCheck]:
    """The library with the treatment of ∇⁴ that fits better, where elements need one."""
    if not isinstance(method.discretisation, Galerkin):
        return library, TreatmentCheck()
    return with_treatment(
        [m.data for m in measured],
        library,
        _noise(measured, method),
        discretisation=method.discretisation,
        stencil=method.stencil,
        weighting=method.weighting,
        elsewhere=elsewhere,
        progress=progress,
    )


def _noise(measured: Sequence[Measurement], method: Method) -> list[Noise]:
    """One noise model per experiment; with elements the filters give its shape, and the fit its level."""
    if method.splines or not all(m.error for m in measured):
        return [m.noise for m in measured]
    return [UnknownScale(m.noise) for m in measured]


def _likelihood(
    measured: Sequence[Measurement],
    data: Sequence[Data],
    library: Library,
    method: Method,
    client: Any,
    stored: Sequence[Stored] | None,
    progress: Progress,
) -> ResidualLikelihood:
    if client is not None:
        return cluster_likelihood(
            client,
            sources([m.data for m in measured], data, stored),
            library,
            _noise(measured, method),
            weighting=method.weighting,
            discretisation=method.discretisation,
            stencil=method.stencil,
            variance=[m.variance for m in measured],
            progress=progress,
        )
    system = assemble(
        [m.data for m in measured],
        library,
        discretisation=method.discretisation,
        stencil=method.stencil,
        variance=[m.variance for m in measured],
        progress=progress,
    )
    return residual_likelihood(system, _noise(measured, method), method.weighting)


def _here(
    measured: Sequence[Measurement], library: Library, method: Method, names: tuple[str, ...]
) -> ResidualLikelihood:
    """The likelihood of the selected operators on this machine."""
    system = assembled(
        [m.data for m in measured],
        library,
        names,
        discretisation=method.discretisation,
        stencil=method.stencil,
        variance=[m.variance for m in measured],
    )
    return residual_likelihood(system, _noise(measured, method), method.weighting)


def _fit(
    estimator: Estimator,
    selected: ResidualLikelihood,
    theta: Array,
    prior: Prior | GaussianPrior | None,
    constraints: LinearConstraints,
    level: InverseGammaPrior | None,
    rng: np.random.Generator,
    progress: Progress,
) -> Fit:
    """The posterior of the selected model; estimators that are not closed forms find their own start.

    level: what filters know of the noise, where the fit may refine it.
    """
    if isinstance(estimator, Profile | Lagged) and level is not None and prior is None:
        unknown = replace(selected, noise=tuple(UnknownScale(model) for model in selected.noise))
        return estimator.fit(unknown, constraints=constraints, noise_prior=level, start=theta, progress=progress)
    if isinstance(estimator, Profile | Lagged):
        return estimator.fit(selected, prior=prior, constraints=constraints, start=theta, progress=progress)
    if isinstance(estimator, SVGD | NUTS):
        return estimator.fit(selected, prior=prior, constraints=constraints, rng=rng, progress=progress)
    return estimator.fit(selected, prior=prior, constraints=constraints, progress=progress)


def _level_prior(measured: Sequence[Measurement], path: SelectionPath) -> InverseGammaPrior | None:
    """Inverse-gamma prior of the noise variance over that of the filters; weak where the misfit contradicts them."""
    error = max(m.error for m in measured)
    if not error:
        return None
    chi2 = path.best.chi2
    if np.isfinite(chi2) and chi2 > CHI2_FACTOR:
        return InverseGammaPrior()
    alpha = 2 + 1 / (2 * error) ** 2  # relative sd of σ² is twice that of σ
    return InverseGammaPrior(alpha, alpha - 1)


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
    library: Library,
    fit: Fit,
    path: SelectionPath,
    rows: tuple[int, ...],
    settings: dict[str, str],
    judged: Check | None,
    pictures: Frames | None,
    seconds: float,
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
        check=judged,
        time_order=library.time_order,
        frames=pictures,
    )
