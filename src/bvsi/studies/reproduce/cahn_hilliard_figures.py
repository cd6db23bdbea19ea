"""Figures of the Cahn–Hilliard study, as in the paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bvsi.app.files import png_bytes, write_whole
from bvsi.studies.problems.cahn_hilliard import CahnHilliardCase, DataSet, clean
from bvsi.studies.problems.free_energy import FIELDS, MOBILITY, chemical, energy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bvsi.studies.reproduce.cahn_hilliard import CahnHilliardStudy

_TITLES = {"profile": "known noise", "unknown": "unknown noise"}


def draw(study: CahnHilliardStudy, out: Path) -> list[tuple[Path, str]]:
    """Draw all; files and captions."""
    made = []
    literal = {"boundary": boundary(study.case)} if study.case.data is DataSet.PAPER else {}
    for name, (figure, caption) in {
        **literal,
        "energy": _energy(study),
        "data": _data(study),
        "path": _path(study),
        "covariance": _covariance(study, "profile"),
        "predictive": _predictive(study, "profile"),
        "covariance-unknown": _covariance(study, "unknown"),
        "predictive-unknown": _predictive(study, "unknown"),
    }.items():
        write_whole(out / f"{name}.png", png_bytes(figure, dpi=110, bbox_inches="tight"))
        made.append((out / f"{name}.png", caption))
    return made


def boundary(case: CahnHilliardCase) -> tuple[Figure, str]:
    """What the boundary facets of the biharmonic do: c1 at t = 5 from one initial state, by three solvers."""
    from matplotlib.figure import Figure

    from bvsi.app import plot

    x, y = case.grid.axes["x"], case.grid.axes["y"]
    figure = Figure(figsize=(16, 4.2), layout="constrained")
    titles = {
        DataSet.PAPER: "interior facets only (the paper's form)",
        DataSet.IMPOSED: "with boundary facets",
        DataSet.STATED: "independent spectral solver",
    }
    for ax, (data, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        solved = clean(replace(case, data=data))
        plot.scalar_map(ax, x, y, solved.grid_field(FIELDS[0])[-1], title=f"c1 at t = 5, {title}")
    return (
        figure,
        "Without boundary facets ∇c·n is free, and the fields separate from the boundary long before they should.",
    )


def _visited(study: CahnHilliardStudy) -> tuple[np.ndarray, np.ndarray]:
    return study.data.fields[FIELDS[0]].ravel(), study.data.fields[FIELDS[1]].ravel()


def _energy(study: CahnHilliardStudy) -> tuple[Figure, str]:
    from matplotlib.figure import Figure

    from bvsi.app import plot

    axis = np.linspace(0, 1, 101)
    c1, c2 = np.meshgrid(axis, axis, indexing="ij")
    figure = Figure(figsize=(16, 4.4), layout="constrained")
    values = (energy(c1, c2), *chemical(c1, c2))
    titles = ("energy $g$", r"$\partial g/\partial c_1$", r"$\partial g/\partial c_2$")
    for ax, value, title in zip(figure.subplots(1, 3), values, titles, strict=True):
        plot.concentration_map(ax, axis, axis, value, _visited(study), title=title)
    return figure, "The energy that generates the data, its derivatives, and the concentrations that the data visit."


def _data(study: CahnHilliardStudy) -> tuple[Figure, str]:
    from matplotlib.figure import Figure

    from bvsi.app import plot

    times, grid = study.data.times, study.case.grid
    x, y = grid.axes["x"], grid.axes["y"]
    frames = np.linspace(0, len(times) - 1, 4).round().astype(int)
    figure = Figure(figsize=(16, 7.4), layout="constrained")
    axes = figure.subplots(2, 4)
    for row, field in zip(axes, FIELDS, strict=True):
        for ax, frame in zip(row, frames, strict=True):
            values = study.data.grid_field(field)[frame]
            plot.scalar_map(ax, x, y, values, title=f"{field} at t = {times[frame]:.3g}")
    return figure, "The noisy concentrations at four times."


def _path(study: CahnHilliardStudy) -> tuple[Figure, str]:
    from matplotlib.figure import Figure

    from bvsi.app import plot

    figure = Figure(figsize=(8, 4.6), layout="constrained")
    plot.selection_path(figure.subplots(), study.path)
    return figure, "Elimination of operators: Wald criterion above that of the selected model."


def _covariance(study: CahnHilliardStudy, method: str) -> tuple[Figure, str]:
    from matplotlib.figure import Figure

    from bvsi.app import plot

    posterior = study.fits[method].posterior
    assert posterior is not None
    size = 2 + 0.55 * len(posterior.names)
    figure = Figure(figsize=(size + 3, size + 1), layout="constrained")
    plot.covariance_matrix(figure.subplots(), posterior)
    return figure, f"Posterior covariance of the coefficients, coloured by correlation ({_TITLES[method]})."


def _predictive(study: CahnHilliardStudy, method: str) -> tuple[Figure, str]:
    from matplotlib.figure import Figure

    from bvsi.app import plot

    figure = Figure(figsize=(16, 8.6), layout="constrained")
    axes = figure.subplots(2, 3)
    for row, (i, field) in zip(axes, enumerate(FIELDS, start=1), strict=True):
        predicted = study.predicted[method][field]
        axis = predicted[FIELDS[0]].values
        name = rf"$\partial g_{i}/\partial c_{i}$"
        mean, variance = predicted["mean"].values / MOBILITY, predicted["variance"].values / MOBILITY**2
        shown = (
            (mean, f"predictive mean of {name}"),
            (np.log10(np.maximum(variance, 1e-300)), f"log10 of the predictive variance of {name}"),
            (mean - study.truth[field] / MOBILITY, f"mean minus truth, {name}"),
        )
        for ax, (values, title) in zip(row, shown, strict=True):
            plot.concentration_map(ax, axis, axis, values, _visited(study), title=title)
    return figure, f"Free-energy derivatives, mean over the square taken off ({_TITLES[method]})."
