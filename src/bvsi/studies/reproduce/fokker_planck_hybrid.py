"""The Fokker–Planck study with non-Gaussian priors (sec:example_FP_hybrid), checked against NUTS on the same target."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.comparison import Comparison, compare
from bvsi.app.files import png_bytes, write_whole
from bvsi.common.progress import Progress, silent
from bvsi.infer import NUTS, SVGD, Fit, Lagged, ResidualDensity
from bvsi.infer.nuts import sampler_available
from bvsi.infer.priors import Laplace, LogNormal, Prior
from bvsi.likelihood import ResidualLikelihood
from bvsi.predict import potential_map, predict_linear
from bvsi.studies.problems import fokker_planck as problem
from bvsi.studies.reproduce import page
from bvsi.studies.reproduce.summary import by_name, methods

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

PRIOR = Prior({"laplacian(p)": LogNormal(1, 0.25)}, Laplace(0, 1))
"""eq:FP_hybrid_priors."""

PARTICLES = 20

_ERROR, _MSE = "‖θ − truth‖", "MSE(ψ)"

PAPER: dict[str, Any] = {
    "theta": (0.93, -5.11, -24.39, 0.96, 4.85),
    "variance": (5.61e-6, 2.71e-4, 3.00e-3, 2.69e-5, 1.25e-4),
    "error": 0.64,
    "mse_psi": 7.89,
}
"""The B-VSI-Hybrid columns of tab:FP_parameters, in the order of the true operators."""


@dataclass(frozen=True, eq=False)
class Hybrid:
    """Fits with the priors above.

    Attributes
    ----------
    fits
        ``lagged`` with moment-matched priors; ``hybrid``, the particles; ``NUTS``, chains on the same target, absent
        where nutpie is; ``unbiased``, particles on the calibrated profile objective.
    potential
        Predictive mean and variance of ψ from the particles.
    mse
        Mse of its mean, by method.
    """

    fits: Mapping[str, Fit]
    comparison: Comparison
    potential: xr.Dataset
    mse: Mapping[str, float]
    seconds: float


def run(
    selected: ResidualLikelihood,
    axes: Mapping[str, Array],
    truth: Array,
    progress: Progress = silent,
    *,
    seed: int = 0,
    nuts: NUTS | None = None,
) -> Hybrid:
    """All fits of the selected model.

    Parameters
    ----------
    truth
        The true potential on the grid of ``axes``.
    nuts
        Settings of the reference, but for its objective.
    """
    begin = time.perf_counter()
    rng = np.random.default_rng(seed)
    paper = ResidualDensity()
    lagged = Lagged().fit(selected, prior=PRIOR, progress=progress)
    fits = {
        "lagged": lagged,
        "hybrid": SVGD(PARTICLES, paper).fit(selected, prior=PRIOR, start=lagged, rng=rng, progress=progress),
        "unbiased": SVGD(PARTICLES).fit(selected, prior=PRIOR, rng=rng, progress=progress),
    }
    if sampler_available():
        sampler = replace(nuts or NUTS(draws=400, tune=150), objective=paper)
        fits["NUTS"] = sampler.fit(selected, prior=PRIOR, start=lagged, rng=rng, progress=progress)
    Phi = potential_map(selected.names, axes)
    mse = {m: float(np.mean((np.tensordot(f.theta, Phi.values, axes=1) - truth) ** 2)) for m, f in fits.items()}
    posterior = fits["hybrid"].posterior
    assert posterior is not None
    comparison = compare(fits, truth=problem.TRUTH, reference="NUTS" if "NUTS" in fits else "hybrid")
    return Hybrid(fits, comparison, predict_linear(posterior, Phi), mse, time.perf_counter() - begin)


def summary(hybrid: Hybrid) -> dict[str, Any]:
    """The study as JSON values."""
    extra: dict[str, dict[str, Any]] = {m: {"mse_psi": mse} for m, mse in hybrid.mse.items()}
    result = {"methods": methods(hybrid.fits, problem.error, extra), "seconds": hybrid.seconds}
    if "NUTS" in hybrid.fits:
        result["variance_over_nuts"] = {m: _over_nuts(hybrid, _variances(hybrid.fits[m])) for m in hybrid.fits}
        result["paper_variance_over_nuts"] = _over_nuts(hybrid, _paper_variances())
    return result


def table(hybrid: Hybrid) -> str:
    """The B-VSI-Hybrid columns beside the paper's and NUTS."""
    columns = _columns(hybrid)
    labels = [*hybrid.fits["hybrid"].names, _ERROR, _MSE]
    rows = [f"{'':<20}" + "".join(f" {head:>9}" for head, _, _ in columns)]
    for label in labels:
        cells = (f"{values[label]:{form}}" if label in values else "" for _, values, form in columns)
        rows.append(f"{label:<20}" + "".join(f" {cell:>9}" for cell in cells))
    return "\n".join(rows)


def _columns(hybrid: Hybrid) -> list[tuple[str, Mapping[str, float], str]]:
    """Heads, values by row, and formats."""
    columns: list[tuple[str, Mapping[str, float], str]] = [("truth", problem.TRUTH, ".2f")]
    paper = {**dict(zip(problem.TRUTH, PAPER["theta"], strict=True)), _ERROR: PAPER["error"], _MSE: PAPER["mse_psi"]}
    for method in ("hybrid", "unbiased", "NUTS"):
        if method not in hybrid.fits:
            continue
        fit = hybrid.fits[method]
        scores = {_ERROR: problem.error(fit), _MSE: hybrid.mse[method]}
        columns += [(method, {**by_name(fit), **scores}, ".4f"), ("variance", _variances(fit), ".2e")]
        if method == "hybrid":
            columns += [("paper", paper, ".2f"), ("variance", _paper_variances(), ".2e")]
    return columns


def verdict(hybrid: Hybrid) -> list[str]:
    """How far the particles and the paper's variances are from NUTS on the same target."""
    told = [f"hybrid: {hybrid.fits['hybrid'].status.message}"]
    if "NUTS" not in hybrid.fits:
        return [*told, "NUTS was left out: pip install 'bvsi[mcmc]'."]
    ours = list(_over_nuts(hybrid, _variances(hybrid.fits["hybrid"])).values())
    paper = list(_over_nuts(hybrid, _paper_variances()).values())
    told.append(f"NUTS: {hybrid.fits['NUTS'].status.message}")
    told.append(f"Variances of the {PARTICLES} particles over those of NUTS: {min(ours):.2f} to {max(ours):.2f}.")
    told.append(
        f"The paper's variances over those of NUTS on the same target: {min(paper):.1f} to {max(paper):.1f}; they are "
        "not those of this posterior."
        if paper
        else "The model selected here is not the paper's."
    )
    return told


def pieces(hybrid: Hybrid) -> list[str]:
    """Text for the page."""
    return [
        page.text(
            "Priors LogNormal(1, 0.25) and Laplace(0, 1): lagged fit with their moments, then particles on the full "
            "residual density (hybrid); NUTS samples the same target; unbiased: particles on the calibrated profile "
            "objective."
        ),
        page.preformatted(table(hybrid)),
        *map(page.text, verdict(hybrid)),
        page.preformatted(str(hybrid.comparison)),
    ]


def draw(hybrid: Hybrid, axes: Mapping[str, Array], truth: Array, out: Path) -> list[tuple[Path, str]]:
    """The figures; files and captions."""
    from matplotlib.figure import Figure

    from bvsi.app import plot

    x, y = axes["x"], axes["y"]
    particles = hybrid.fits["hybrid"].posterior
    assert particles is not None
    figures: dict[str, tuple[Figure, str]] = {}
    figure = Figure(figsize=(7, 5.5), layout="constrained")
    plot.covariance_matrix(figure.subplots(), particles)
    figures["hybrid_covariance"] = figure, "Covariance of the particles (fig:FP_SVGD_covariance)."
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot.contour_map(left, x, y, hybrid.potential["mean"].values, truth, title="predictive mean of ψ, particles")
    plot.scalar_map(right, x, y, hybrid.potential["variance"].values, title="predictive variance of ψ, particles")
    figures["hybrid_potential"] = figure, "Monte Carlo predictive potential, truth dashed (fig:FP_SVGD_predictive)."
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    plot.posterior_comparison(figure.subplots(), hybrid.comparison)
    figures["hybrid_comparison"] = figure, "Posteriors side by side."
    for name, (figure, _) in figures.items():
        write_whole(out / f"{name}.png", png_bytes(figure, dpi=110, bbox_inches="tight"))
    return [(out / f"{name}.png", caption) for name, (_, caption) in figures.items()]


def _variances(fit: Fit) -> dict[str, float]:
    assert fit.posterior is not None
    return dict(zip(fit.names, fit.posterior.variance.tolist(), strict=True))


def _paper_variances() -> dict[str, float]:
    return dict(zip(problem.TRUTH, PAPER["variance"], strict=True))


def _over_nuts(hybrid: Hybrid, variances: Mapping[str, float]) -> dict[str, float]:
    reference = _variances(hybrid.fits["NUTS"])
    return {name: variances[name] / reference[name] for name in reference if name in variances}
