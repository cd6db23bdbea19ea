"""The complete Cahn–Hilliard study (sec:example_CH): selection, posteriors, free-energy derivatives, paper's table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.discovery import equation_text
from bvsi.discovery.method import TreatmentCheck, with_treatment
from bvsi.errors import RankError
from bvsi.infer import Fit, Lagged, LeastSquares, Profile
from bvsi.infer.fit import misfit_excess
from bvsi.infer.gaussian_prior import column_prior
from bvsi.infer.posteriors import NormalInverseGammaPosterior
from bvsi.infer.priors import GaussianPrior, InverseGammaPrior
from bvsi.likelihood import Block, ResidualLikelihood, residual_likelihood
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Biharmonic, Library
from bvsi.predict import diffusion_potential_map, predict_linear
from bvsi.residual import ResidualSystem, assemble
from bvsi.select import Backward, ProfileBIC, ResidualBIC, SelectionPath, Sweep, Visited, Wald
from bvsi.setup import Setup
from bvsi.spaces import Galerkin, Lagrange
from bvsi.studies.problems import cahn_hilliard as problem
from bvsi.studies.problems.free_energy import FIELDS
from bvsi.studies.reproduce import page
from bvsi.studies.reproduce.cahn_hilliard_figures import draw
from bvsi.studies.reproduce.cahn_hilliard_table import comparison
from bvsi.studies.reproduce.summary import by_name, criteria, methods, path_rows

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

PRIOR = GaussianPrior({}, default=(0.0, 1.0))
"""θ ~ N(0, I) (eq:CH_parameters_prior)."""

NOISE_PRIOR = InverseGammaPrior(1.0, 1.0)
"""σ_u² ~ Inv-Gamma(1, 1) (eq:CH_unknown_noise_prior)."""

LAGGED = Lagged(tol=1e-4, max_iterations=25)
"""The paper's estimator, to the digits that are shown; its iteration is slow where noise is large."""

AXIS: Array = np.linspace(0, 1, 101)
"""Concentrations at which the free-energy derivatives are compared."""


@dataclass(frozen=True, eq=False)
class CahnHilliardStudy:
    """All that was computed.

    Attributes
    ----------
    fits
        Fits by method.
    predicted
        Known- and unknown-noise predictions of m ∂g_i/∂c_i by field.
    truth
        The same, exact.
    mse
        Mean squared error of these by method and field.
    """

    case: problem.CahnHilliardCase
    element: Lagrange
    data: Data
    library: Library
    check: TreatmentCheck
    path: SelectionPath
    other_paths: Mapping[str, SelectionPath]
    fits: Mapping[str, Fit]
    true_model: Mapping[str, Fit]
    predicted: Mapping[str, Mapping[str, xr.Dataset]]
    truth: Mapping[str, Array]
    mse: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, float]
    warnings: tuple[str, ...]


def run(
    case: problem.CahnHilliardCase,
    element: Lagrange | None = None,
    treatment: Biharmonic | None = None,
    progress: Progress = silent,
    *,
    residual_bic: bool = False,
) -> CahnHilliardStudy:
    """Data, selection from thirty operators, fits of the selected model, free-energy derivatives.

    Parameters
    ----------
    element, treatment
        By default those that suit the data; on Q2 the treatment of ∇⁴ that fits better.
    residual_bic
        Also eliminate by the paper's criterion, which takes minutes.
    """
    data = problem.observed(case, progress)
    begin = time.perf_counter()
    element = element or case.element
    library, check = _library(case, element, treatment, data, progress)
    system = assemble(data, library, discretisation=Galerkin(element), stencil=case.stencil, progress=progress)
    likelihood = residual_likelihood(system, IID(case.sigma))
    assembled = time.perf_counter()
    path = _selected(likelihood, library, progress)
    chosen = time.perf_counter()
    selected, start = likelihood.restrict(path.best.names), path.best.theta
    profile = Profile().fit(selected, start=start)
    inferred = time.perf_counter()
    fits = {**known_noise(selected, profile), **unknown_noise(selected.system, profile.theta)}
    others = {}
    if len(path.visited) > 1:
        others["profile BIC"] = Sweep(ProfileBIC()).select(likelihood, keep=library.keep, progress=progress)
    if residual_bic:
        others["residual BIC (paper)"] = Backward(ResidualBIC()).select(
            likelihood, keep=library.keep, progress=progress
        )
    true_model = dict(fits) if set(path.best.names) == set(problem.TRUTH) else _true_model(likelihood)
    truth = derivatives(problem.TRUTH)
    mse = {m: derivative_errors(by_name(fit)) for m, fit in fits.items()}
    predicted = {m: _predict(fits[m]) for m in ("profile", "unknown")}
    warnings = _warnings(profile, path, check)
    if case.data is problem.DataSet.PAPER:
        steps = ", ".join(f"{r:.1e}" for r in problem.step_residuals(case))
        warnings = (*warnings, f"the literal form is ill-posed: relative residual of the forward steps {steps}.")
    seconds = {
        "assembly": assembled - begin,
        "selection": chosen - assembled,
        "posterior": inferred - chosen,
        "comparisons": time.perf_counter() - inferred,
    }
    return CahnHilliardStudy(
        case, element, data, library, check, path, others, fits, true_model, predicted, truth, mse, seconds, warnings
    )


def _selected(likelihood: ResidualLikelihood, library: Library, progress: Progress) -> SelectionPath:
    """Selection from the dictionary; the true operators, with the reason, where the data cannot distinguish it."""
    try:
        return Sweep(Wald()).select(likelihood, keep=library.keep, progress=progress)
    except RankError as lost:
        fit = Profile().fit(likelihood.restrict(tuple(problem.TRUTH)), start=list(problem.TRUTH.values()))
        only = Visited.of(fit, 0.0, None, {}, frozenset())
        reason = f"Not decided: no selection is possible, the true operators are shown. {lost}"
        return SelectionPath((only,), Wald().name, "stopped: nothing was selected.", reason)


def _true_model(likelihood: ResidualLikelihood) -> dict[str, Fit]:
    model = likelihood.restrict(tuple(problem.TRUTH))
    return known_noise(model, Profile().fit(model, start=list(problem.TRUTH.values())))


def _library(
    case: problem.CahnHilliardCase, element: Lagrange, treatment: Biharmonic | None, data: Data, progress: Progress
) -> tuple[Library, TreatmentCheck]:
    """The dictionary with the treatment asked for, that of the data's own solver, or the one that fits better."""
    if treatment is not None or (element == case.element and not case.spectral):
        return problem.library(treatment or case.treatment), TreatmentCheck()
    setup = Setup((data,), (IID(case.sigma),), ({},), problem.library(), Galerkin(element), case.stencil, Block())
    chosen, check = with_treatment(setup, progress)
    return chosen.library, check


def known_noise(model: ResidualLikelihood, profile: Fit) -> dict[str, Fit]:
    """VSI, the paper's estimator and the profile estimator, the last two with a flat prior and with N(0, I)."""
    start = profile.theta
    return {
        "vsi": LeastSquares().fit(model.system),
        "lagged": LAGGED.fit(model, prior=PRIOR, start=start),
        "lagged_flat": LAGGED.fit(model, start=start),
        "profile": profile,
        "profile_prior": Profile().fit(model, prior=PRIOR, start=start),
    }


def unknown_noise(system: ResidualSystem, start: Array) -> dict[str, Fit]:
    """Normal-inverse-gamma posteriors.

    unknown: a weak prior whose scale follows the columns of X, and p(σ²) ∝ 1/σ²: the default.
    unknown_literal: eq:CH_unknown_noise_prior, θ | σ² ~ N(0, σ²I) and Inv-Gamma(1, 1).
    unknown_table: θ ~ N(0, I) not scaled by σ², which is what the table's column shows.
    """
    model = residual_likelihood(system, UnknownScale())
    weak = column_prior(model, start)
    literal = LAGGED.fit(model, prior=PRIOR, noise_prior=NOISE_PRIOR, start=start)
    swamped = NOISE_PRIOR.beta / (NOISE_PRIOR.alpha + 0.5 * system.n - 1)  # β_0/(α − 1): the data's ½rᵀWr is far less
    unscaled = GaussianPrior({}, default=(0.0, 1.0 / swamped))
    return {
        "unknown": Profile().fit(model, prior=weak, start=start),
        "unknown_literal": literal,
        "unknown_table": LAGGED.fit(model, prior=unscaled, noise_prior=NOISE_PRIOR, start=start),
    }


def _maps(names: tuple[str, ...]) -> dict[str, xr.DataArray]:
    return {f: diffusion_potential_map(names, f, dict.fromkeys(FIELDS, AXIS)) for f in FIELDS}


def derivatives(theta: Mapping[str, float]) -> dict[str, Array]:
    """m ∂g_i/∂c_i by field on the unit square, the mean taken off."""
    return {f: np.tensordot(list(theta.values()), Phi.values, axes=1) for f, Phi in _maps(tuple(theta)).items()}


def derivative_errors(theta: Mapping[str, float]) -> dict[str, float]:
    """Mean squared error of m ∂g_i/∂c_i by field on the unit square, means taken off."""
    truth = derivatives(problem.TRUTH)
    return {f: float(np.mean((found - truth[f]) ** 2)) for f, found in derivatives(theta).items()}


def _predict(fit: Fit) -> dict[str, xr.Dataset]:
    assert fit.posterior is not None
    return {f: predict_linear(fit.posterior, Phi) for f, Phi in _maps(fit.names).items()}


def _warnings(fit: Fit, path: SelectionPath, check: TreatmentCheck) -> tuple[str, ...]:
    found = [] if fit.status.converged else [fit.status.message]
    if misfit_excess(fit.chi2, fit.equations.n):
        found.append(
            f"discretisation: χ²/n = {fit.chi2:.3g} is more than the noise explains; a finer mesh, another element, or "
            "another treatment of ∇⁴ is needed, and the error bars are too small."
        )
    if path.doubts:
        found.append(path.doubts)
    if check.chi2:
        found.append(f"∇⁴ by {check}.")
    return tuple(found)


def summary(study: CahnHilliardStudy) -> dict[str, Any]:
    """The study as JSON values."""
    extra: dict[str, dict[str, Any]] = {}
    for method, by_field in study.mse.items():
        extra[method] = {f"mse_g{i + 1}": by_field[f] for i, f in enumerate(FIELDS)}
        posterior = study.fits[method].posterior
        if isinstance(posterior, NormalInverseGammaPosterior):
            extra[method]["shape"] = dict(zip(posterior.names, np.diag(posterior.shape).tolist(), strict=True))
    known = study.true_model["profile"].posterior
    assert known is not None
    return {
        "case": {**vars(study.case), "element": study.element.name, "biharmonic": _treatment(study.library)},
        "methods": methods(study.fits, _error, extra),
        "true_model": methods(study.true_model, _error, {}),
        "exact": set(study.path.best.names) == set(problem.TRUTH),
        "mahalanobis": problem.mahalanobis(known),
        "decided": study.path.decided,
        "warnings": list(study.warnings),
        "path": path_rows(study.path),
        "other_criteria": criteria(study.other_paths),
        "seconds": dict(study.seconds),
    }


def _treatment(library: Library) -> str:
    return "automatic" if library.biharmonic is None else library.biharmonic.name


def _error(fit: Fit) -> float:
    return problem.error(by_name(fit))


def seconds_text(study: CahnHilliardStudy) -> str:
    """How long each part took."""
    return ", ".join(f"{part} {seconds:.1f}" for part, seconds in study.seconds.items())


def write(study: CahnHilliardStudy, out: Path) -> Path:
    """Write result.json, the figures and index.html to a folder; returns the page."""
    page.save_result(out, summary(study))
    figures = draw(study, out)
    profile = study.fits["profile"]
    assert profile.posterior is not None
    sd = np.sqrt(profile.posterior.variance)
    case = study.case
    pieces = [
        page.equation(equation_text(profile.names, profile.theta, sd, FIELDS)),
        page.text(
            f"{study.data!r}; data set {case.data.value}, σ = {case.sigma:g}, seed {case.seed}, initial state "
            f"{case.initial}, {study.element.name}, ∇⁴ by {_treatment(study.library)}."
        ),
        *(page.text(f"Note: {warning}") for warning in study.warnings),
        page.preformatted(comparison(study.fits, study.mse)),
        page.preformatted(str(study.path)),
        *(page.text(f"{name} selects {len(p.best.names)}. {p.stopped}") for name, p in study.other_paths.items()),
        *(page.figure(path, caption) for path, caption in figures),
        page.text(f"Seconds without the forward solve: {seconds_text(study)}."),
    ]
    return page.save_page(out, "Cahn–Hilliard: a free energy from noisy data", pieces)
