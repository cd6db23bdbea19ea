"""The complete Fokker–Planck study (sec:example_FP): selection, estimators, potential, beside the paper's table."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import png_bytes, write_whole
from bvsi.check import Check, Verdict, check_discovery
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid
from bvsi.discovery import equation_text
from bvsi.infer import Fit, Lagged, LeastSquares, Profile
from bvsi.likelihood import Block, ResidualLikelihood, residual_likelihood
from bvsi.noise import IID
from bvsi.noise.measurement import measure
from bvsi.predict import potential_map, predict_linear
from bvsi.residual import BackwardEuler, CrankNicolson, assemble
from bvsi.select import Backward, FStatistic, ProfileBIC, ResidualBIC, SelectionPath, Wald
from bvsi.setup import Setup
from bvsi.spaces import Galerkin, Lagrange
from bvsi.studies.problems import fokker_planck as problem
from bvsi.studies.reproduce import fokker_planck_hybrid as hybrid
from bvsi.studies.reproduce import page
from bvsi.studies.reproduce.fokker_planck_hybrid import Hybrid
from bvsi.studies.reproduce.summary import criteria, methods, path_rows

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

PAPER: dict[str, dict[str, Any]] = {
    "vsi": {"theta": (0.92, -5.03, -23.31, 0.99, 4.65), "error": 1.72, "mse_psi": 31.32},
    "lagged": {
        "theta": (0.93, -5.11, -24.38, 0.96, 4.85),
        "variance": (5.63e-7, 1.74e-5, 1.84e-4, 2.02e-6, 7.83e-6),
        "error": 0.65,
        "mse_psi": 8.49,
    },
}
"""tab:FP_parameters, in the order of the true operators."""

OTHER_CRITERIA = (ProfileBIC(), ResidualBIC(), FStatistic())


@dataclass(frozen=True, eq=False)
class FokkerPlanckStudy:
    """All that was computed."""

    case: problem.Case
    element: Lagrange
    data: Data
    path: SelectionPath
    other_paths: Mapping[str, SelectionPath]
    fits: Mapping[str, Fit]
    true_model: Mapping[str, Fit]
    potential: xr.Dataset
    truth: Array
    mse: Mapping[str, float]
    seconds: float
    check: Check
    hybrid: Hybrid | None = None


def run(
    case: problem.Case,
    element: Lagrange,
    progress: Progress = silent,
    *,
    all_criteria: bool = True,
    with_hybrid: bool = False,
) -> FokkerPlanckStudy:
    """Data, selection from ten operators, fits of the selected model, potential.

    The lagged fit has the paper's Gaussian prior; the profile fit is given without (``profile``) and with it.

    Parameters
    ----------
    with_hybrid
        Also the posterior with non-Gaussian priors, by particles and by NUTS.
    """
    data = problem.observed(case, progress)
    begin = time.perf_counter()
    stencil = CrankNicolson() if case.accurate_time else BackwardEuler()
    library = problem.library(problem.CANDIDATES)
    system = assemble(data, library, discretisation=Galerkin(element), stencil=stencil, progress=progress)
    likelihood = residual_likelihood(system, IID(case.sigma))
    path = Backward(Wald()).select(likelihood, keep=library.keep, progress=progress)
    others = {
        c.name: Backward(c).select(likelihood, keep=library.keep, progress=progress)
        for c in (OTHER_CRITERIA if all_criteria else ())
    }
    fits = _fits(likelihood.restrict(path.best.names), path.best.theta)
    known = _fits(likelihood.restrict(tuple(problem.TRUTH)), None)
    assert isinstance(data.geometry, Grid)
    axes = dict(data.geometry.axes)
    truth = potential_map(tuple(problem.TRUTH), axes)
    exact = np.tensordot(list(problem.TRUTH.values()), truth.values, axes=1)
    maps = {m: potential_map(f.names, axes) for m, f in fits.items()}
    mse = {m: float(np.mean((np.tensordot(f.theta, maps[m].values, axes=1) - exact) ** 2)) for m, f in fits.items()}
    assert fits["profile"].posterior is not None
    predicted = predict_linear(fits["profile"].posterior, maps["profile"])
    seconds = time.perf_counter() - begin
    selected = likelihood.restrict(path.best.names)
    measured = measure(data, IID(case.sigma), robust=False)
    rng = np.random.default_rng(0)
    setup = Setup((data,), (IID(case.sigma),), (measured.variance,), library, Galerkin(element), stencil, Block())
    judged = check_discovery(fits["profile"], setup, selected, path.best.theta, [measured], rng, progress)
    assert judged is not None
    particles = hybrid.run(selected, axes, exact, progress) if with_hybrid else None
    return FokkerPlanckStudy(
        case, element, data, path, others, fits, known, predicted, exact, mse, seconds, judged, particles
    )


def _fits(selected: ResidualLikelihood, start: Array | None) -> dict[str, Fit]:
    return {
        "vsi": LeastSquares().fit(selected.system),
        "lagged": Lagged().fit(selected, prior=problem.PRIOR),
        "profile": Profile().fit(selected, start=start),
        "profile_prior": Profile().fit(selected, prior=problem.PRIOR, start=start),
    }


def summary(study: FokkerPlanckStudy) -> dict[str, Any]:
    """The study as JSON values."""
    missing = {method: {"mse_psi": None} for method in study.true_model}
    return {
        "case": {**vars(study.case), "element": study.element.name},
        "methods": methods(study.fits, problem.error, {m: {"mse_psi": mse} for m, mse in study.mse.items()}),
        "true_model": methods(study.true_model, problem.error, missing),
        "path": path_rows(study.path),
        "other_criteria": criteria(study.other_paths),
        "seconds": study.seconds,
        "verdict": str(study.check.verdict),
        **({} if study.hybrid is None else {"hybrid": hybrid.summary(study.hybrid)}),
    }


def write(study: FokkerPlanckStudy, out: Path) -> Path:
    """Write result.json, the figures and index.html to a folder; returns the page."""
    page.save_result(out, summary(study))
    figures = draw(study, out)
    profile = study.fits["profile"]
    assert profile.posterior is not None
    sd = np.sqrt(profile.posterior.variance)
    pieces = [
        page.equation(equation_text(profile.names, profile.theta, sd, ["p"])),
        page.text(verdict_text(study)),
        page.text(f"{study.data!r}; σ = {study.case.sigma:g}, seed {study.case.seed}, {study.element.name}."),
        page.preformatted(comparison(study)),
        page.preformatted(str(study.path)),
        page.preformatted(str(study.check)),
    ]
    for name, path in study.other_paths.items():
        verdict = "the true five" if set(path.best.names) == set(problem.TRUTH) else f"{len(path.best.names)} operators"
        pieces.append(page.text(f"{name} selects {verdict}: {', '.join(path.best.names)}. {path.stopped}"))
    if study.hybrid is not None:
        pieces += hybrid.pieces(study.hybrid)
    pieces += [page.figure(path, caption) for path, caption in figures]
    pieces.append(page.text(f"{study.seconds:.1f} s without the forward solve."))
    return page.save_page(out, "Fokker–Planck: an equation and its potential from noisy data", pieces)


def verdict_text(study: FokkerPlanckStudy) -> str:
    """The verdict on the profile fit, and why the paper's data get it."""
    told = f"verdict: {study.check.verdict}. {study.check.advice}"
    if study.case.accurate_time or study.check.verdict is not Verdict.TIME:
        return told
    return (
        f"{told} Here the data come from backward Euler with the same step: that scheme fits them exactly, and with "
        "every second frame it does not, since their step is too long for the differential equation itself."
    )


def comparison(study: FokkerPlanckStudy) -> str:
    """The table beside tab:FP_parameters."""
    shown = ("vsi", "lagged", "profile")
    head = f"{'':<20} {'truth':>8} {'VSI':>9} {'paper':>7} {'lagged':>9} {'paper':>7} {'profile':>9} {'sd':>8}"
    rows = [head]
    profile = study.fits["profile"]
    assert profile.posterior is not None
    sd = dict(zip(profile.names, np.sqrt(profile.posterior.variance), strict=True))
    for name in dict.fromkeys((*problem.TRUTH, *study.path.best.names)):
        found = [dict(zip(study.fits[m].names, study.fits[m].theta, strict=True)).get(name, 0.0) for m in shown]
        paper = [_paper(m, name) for m in shown[:2]]
        rows.append(
            f"{name:<20} {problem.TRUTH.get(name, 0.0):>8.2f} {found[0]:>9.3f} {paper[0]:>7} {found[1]:>9.3f}"
            f" {paper[1]:>7} {found[2]:>9.4f} {sd.get(name, math.nan):>8.1e}"
        )
    for label, values, key in (
        ("‖θ − truth‖", {m: problem.error(study.fits[m]) for m in shown}, "error"),
        ("MSE(ψ)", study.mse, "mse_psi"),
    ):
        rows.append(
            f"{label:<20} {'':>8} {values['vsi']:>9.3f} {PAPER['vsi'][key]:>7} {values['lagged']:>9.3f}"
            f" {PAPER['lagged'][key]:>7} {values['profile']:>9.4f}"
        )
    return "\n".join(rows)


def _paper(method: str, name: str) -> str:
    names = list(problem.TRUTH)
    return f"{PAPER[method]['theta'][names.index(name)]:.2f}" if name in names else ""


def draw(study: FokkerPlanckStudy, out: Path) -> list[tuple[Path, str]]:
    """The figures of the study; files and captions."""
    from matplotlib.figure import Figure

    from bvsi.app import plot

    assert isinstance(study.data.geometry, Grid)
    x, y = study.data.geometry.axes["x"], study.data.geometry.axes["y"]
    made: list[tuple[Path, str]] = []

    def save(figure: Figure, name: str, caption: str) -> None:
        write_whole(out / f"{name}.png", png_bytes(figure, dpi=110, bbox_inches="tight"))
        made.append((out / f"{name}.png", caption))

    figure = Figure(figsize=(15, 4.4), layout="constrained")
    axes = figure.subplots(1, 3)
    title = f"noisy density p at t = {study.data.times[10]:g}"
    plot.scalar_map(axes[0], x, y, study.data.grid_field("p")[10], title=title)
    mean = study.potential["mean"].values
    plot.contour_map(axes[1], x, y, mean, study.truth, title="recovered potential ψ")
    shown = {"lagged (the paper's), 95%": study.fits["lagged"], "profile, 95%": study.fits["profile"]}
    plot.coefficient_errors(axes[2], shown, problem.TRUTH)
    save(figure, "overview", "One noisy frame, recovered potential (truth dashed), errors of the coefficients.")

    figure = Figure(figsize=(15, 3.6), layout="constrained")
    for ax, frame in zip(figure.subplots(1, 4), (0, 5, 10, 50), strict=True):
        values = study.data.grid_field("p")[frame]
        plot.scalar_map(ax, x, y, values, title=f"p at t = {study.data.times[frame]:.2g}")
    save(figure, "data", "The noisy density at four times.")

    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    plot.selection_path(figure.subplots(), study.path)
    save(figure, "path", "Elimination of operators: Wald criterion above that of the selected model.")

    figure = Figure(figsize=(7, 5.5), layout="constrained")
    profile = study.fits["profile"]
    assert profile.posterior is not None
    plot.covariance_matrix(figure.subplots(), profile.posterior)
    save(figure, "covariance", "Posterior covariance of the coefficients, coloured by correlation (profile).")

    figure = Figure(figsize=(16, 4.2), layout="constrained")
    axes = figure.subplots(1, 3)
    plot.contour_map(axes[0], x, y, study.truth, title="true potential ψ")
    plot.contour_map(axes[1], x, y, study.potential["mean"].values, study.truth, title="predictive mean of ψ")
    plot.scalar_map(axes[2], x, y, study.potential["variance"].values, title="predictive variance of ψ")
    save(figure, "potential", "True potential, predictive mean with the truth dashed, predictive variance.")

    if study.hybrid is not None:
        made += hybrid.draw(study.hybrid, {"x": x, "y": y}, study.truth, out)
    return made
