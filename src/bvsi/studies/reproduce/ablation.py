"""The ablation study (sec:ablation_study): error against noise and resolution, true model, three estimators.

Each case is one line of ``rows.jsonl``; a study that was interrupted continues where it stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from bvsi.app.files import png_bytes, write_whole
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.infer import Lagged, LeastSquares, Profile
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.spaces import Q1, Q2, Lagrange
from bvsi.studies.problems import fokker_planck as problem
from bvsi.studies.reproduce import page

SIGMAS = (1e-5, 10**-4.5, 1e-4, 10**-3.5, 1e-3, 10**-2.5, 1e-2)
SIZES = (25, 50, 100, 200)

Row = dict[str, Any]


def run(
    out: Path, *, seeds: int, sizes: tuple[int, ...], element: Lagrange | None = None, progress: Progress = silent
) -> list[Row]:
    """All cases that are not yet in ``out/rows.jsonl``, coarse grids first; returns all rows asked for.

    Parameters
    ----------
    element
        By default Q2 where the grid has whole Q2 elements, else Q1, the same for all three estimators.
    """
    if not sizes or seeds < 1:
        raise BvsiError(
            f"sizes: no resolution to run; choose among {', '.join(map(str, SIZES))}, with at least one seed."
        )
    out.mkdir(parents=True, exist_ok=True)
    store = out / "rows.jsonl"
    rows = _read(store)
    done = {_key(row) for row in rows}
    cases = [(nx, sigma, seed) for nx in sorted(sizes) for sigma in SIGMAS for seed in range(seeds)]
    for number, (nx, sigma, seed) in enumerate(cases):
        progress(number, len(cases), f"ablation, n_x = {nx}, σ = {sigma:.1e}, seed {seed}")
        chosen = element or default_element(nx)
        if (chosen.name, nx, sigma, seed) in done:
            continue
        row = measure(problem.Case(nx=nx, sigma=sigma, seed=seed), chosen)
        _append(store, row)
        rows.append(row)
    progress(len(cases), len(cases), "ablation, done")
    wanted = {((element or default_element(case[0])).name, *case) for case in cases}
    return [row for row in rows if _key(row) in wanted]


def default_element(nx: int) -> Lagrange:
    """Q2 where the cells pair up, else Q1."""
    return Q1 if nx % 2 else Q2


def measure(case: problem.Case, element: Lagrange) -> Row:
    """Errors of the three estimators on one data set."""
    system = problem.residual_system(problem.observed(case), element)
    likelihood = residual_likelihood(system, IID(case.sigma))
    vsi = LeastSquares().fit(system)
    lagged = Lagged(tol=1e-4).fit(likelihood, start=vsi.theta)
    fits = {"vsi": vsi, "lagged": lagged, "profile": Profile().fit(likelihood)}
    return {
        "element": element.name,
        "nx": case.nx,
        "sigma": case.sigma,
        "seed": case.seed,
        "error": {method: problem.error(fit) for method, fit in fits.items()},
        "chi2": {method: fit.chi2 for method, fit in fits.items()},
        "converged": {method: fit.status.converged for method, fit in fits.items()},
    }


def write(rows: list[Row], out: Path) -> Path:
    """Figure, table and page; returns the page."""
    from matplotlib.figure import Figure

    from bvsi.app import plot

    figure = Figure(figsize=(10, 5), layout="constrained")
    plot.ablation(figure.subplots(), rows)
    image = out / "ablation.png"
    write_whole(image, png_bytes(figure, dpi=110))
    body = [
        page.figure(image, "Error of the coefficients by noise level and resolution; median and range over seeds."),
        page.preformatted(table(rows)),
    ]
    index = out / "index.html"
    write_whole(index, page.page("Ablation: noise level and resolution", body))
    return index


def table(rows: list[Row]) -> str:
    """Median errors by σ and n_x."""
    lines = [f"{'σ':>9} {'n_x':>5} {'VSI':>9} {'lagged':>9} {'profile':>9} {'χ²/n':>8} {'seeds':>6}"]
    for sigma in sorted({row["sigma"] for row in rows}):
        for nx in sorted({row["nx"] for row in rows}):
            here = [row for row in rows if row["sigma"] == sigma and row["nx"] == nx]
            if here:
                middle = {m: median([row["error"][m] for row in here]) for m in ("vsi", "lagged", "profile")}
                chi2 = median([row["chi2"]["profile"] for row in here])
                errors = " ".join(f"{middle[m]:>9.4f}" for m in ("vsi", "lagged", "profile"))
                lines.append(f"{sigma:>9.2e} {nx:>5} {errors} {chi2:>8.3g} {len(here):>6}")
    return "\n".join(lines)


def _key(row: Row) -> tuple[str, int, float, int]:
    return row["element"], row["nx"], row["sigma"], row["seed"]


def _append(store: Path, row: Row) -> None:
    """Add a line; one that an interruption cut off before is ended first."""
    whole = not store.exists() or store.read_bytes()[-1:] in (b"", b"\n")
    with store.open("a", encoding="utf-8") as file:
        file.write(("" if whole else "\n") + json.dumps(row) + "\n")


def _read(store: Path) -> list[Row]:
    """Rows of earlier runs; a line cut off by an interruption is left out."""
    rows = []
    for line in store.read_text(encoding="utf-8").splitlines() if store.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows
