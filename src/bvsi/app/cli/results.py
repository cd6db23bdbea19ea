"""``bvsi report``, ``predict``, ``export``, ``simulate``, ``refine``, ``compare``: what follows from a result."""

from __future__ import annotations

from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bvsi.app.cli.limits import AllowOutside, MaxMemory, with_limits
from bvsi.app.cli.options import Json, Quiet, Result, check_file, free_to_write, result_file, say, shown_progress
from bvsi.errors import BvsiError

if TYPE_CHECKING:
    import xarray as xr

Format = Literal["sympy", "latex", "numpy", "jax", "pypde", "ufl", "dedalus", "modelingtoolkit", "csv"]
Level = Annotated[float, typer.Option(min=0.01, max=0.9999, help="Probability of the intervals.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def report(
    result: Result,
    out: Annotated[Path | None, typer.Option(help="The page to write; default: report.html beside the result.")] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a result again."""
    from bvsi.app.files import write_whole
    from bvsi.app.readers.source import readable
    from bvsi.app.study.outputs import written
    from bvsi.app.study.result_folder import REPORT, extras_beside, pages
    from bvsi.discovery import Discovery

    path = result_file(result)
    page = out or path.with_name(REPORT)
    check_file(page, option="--out")
    if out is None and page.exists() and REPORT not in written(path.parent) and not force:
        raise BvsiError(f"{page} exists and was not written by bvsi; name another page with --out, or --force.")
    with readable(path, "a result of bvsi"):
        extras = extras_beside(path)
        text = pages(Discovery.load(path), {**extras, "title": title or extras["title"]})[REPORT]
    write_whole(page, text)
    say(f"report: {page}", {"report": str(page)}, as_json=as_json, quiet=quiet)


def predict(
    result: Result,
    expression: Annotated[
        str, typer.Argument(help="Of coefficients, operators in brackets: '2*[laplacian(u)]/[u]', also of axes.")
    ] = "",
    potential: Annotated[
        bool, typer.Option("--potential", help="The potential of the drift operators div(p*grad(f)) instead.")
    ] = False,
    axis: Annotated[list[str], typer.Option(help="A variable of the quantity: x=-1:1:41. May be repeated.")] = [],  # noqa: B006
    level: Level = 0.95,
    averaged: Annotated[
        bool, typer.Option("--averaged", help="Over all structures by their probability, not of the selected one.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="NetCDF or CSV file to write.", show_default=False)] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict a quantity, with its uncertainty.

    An expression of the coefficients, or the potential of the drift.
    """
    import numpy as np

    from bvsi.app.readers.source import readable
    from bvsi.app.study.prediction import axis_of, predict_text, written
    from bvsi.discovery import Discovery

    if potential and not axis:
        raise BvsiError("--potential: a function of which axes? Give them, such as --axis x=-1:1:41 --axis y=-1:1:41.")
    if bool(expression) == potential:
        raise BvsiError("predict: give an expression such as '2*[laplacian(u)]', or --potential, one of the two.")
    if out is not None:
        free_to_write(out, force=force, option="--out")
    path = result_file(result)
    with readable(path, "a result of bvsi"):
        wanted, axes = None if potential else expression, dict(map(axis_of, axis))
        draws = np.random.default_rng(0)
        quantity = predict_text(Discovery.load(path), wanted, axes, level=level, rng=draws, averaged=averaged)
    if out is not None:
        written(quantity, out)
    where = f"\nfile: {out}" if out is not None else ""
    say(f"{_table(quantity)}{where}", quantity.to_dict(), as_json=as_json, quiet=quiet)


def export(
    result: Result,
    to: Annotated[Format, typer.Option("--to", help="Language or format to write.")] = "sympy",
    draws: Annotated[
        int, typer.Option(min=0, max=10_000, help="Draws of the posterior, for numpy, jax, modelingtoolkit and csv.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the equation as a program.

    For SymPy, NumPy, JAX, py-pde, UFL (FEniCS, Firedrake), Dedalus or ModelingToolkit; as LaTeX; or as a table.
    """
    from bvsi.app.exports.scripts import PROGRAMS, drawn_program
    from bvsi.app.files import write_whole
    from bvsi.app.readers.source import readable
    from bvsi.discovery import Discovery

    if out is not None:
        free_to_write(out, force=force, option="--out")
    path = result_file(result)
    with readable(path, "a result of bvsi"):
        found = Discovery.load(path)
        text = drawn_program(found, to, draws, seed) if draws else PROGRAMS[to](found)
    if out is not None:
        write_whole(out, text)
    told = text.rstrip() if out is None else f"file: {out}"
    say(told, {"to": to, "text": text, "file": None if out is None else str(out)}, as_json=as_json, quiet=quiet)


def simulate(
    study: Annotated[Path, typer.Argument(help="The study file; it must have been run.")] = Path("study.toml"),
    result: Annotated[Path | None, typer.Option(help="Another result.nc or folder.", show_default=False)] = None,
    draws: Annotated[int, typer.Option(min=2, max=1000, help="Posterior draws that are simulated.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    out: Annotated[Path, typer.Option(help="NetCDF file, or NAME.pvd for VTU files.")] = Path("simulation.nc"),
    force: Force = False,
    allow_outside: AllowOutside = False,
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Solve the discovered equation.

    From the first frame of the data, with posterior draws.
    """
    from bvsi.app.study import load_study
    from bvsi.app.study.simulation import simulate_study

    free_to_write(out, force=force, option="--out")
    frames = sorted(out.parent.glob(f"{escape(out.stem)}_[0-9]*.vtu")) if out.suffix == ".pvd" else []
    if frames and not force:
        raise BvsiError(f"--out: {frames[0]} exists already; choose another name, or overwrite it with --force.")
    with shown_progress(quiet=quiet or as_json) as progress:
        loaded, given = load_study(study), None if result is None else result_file(result)
        loaded = with_limits(loaded, max_memory, allow_outside=allow_outside)
        made = simulate_study(loaded, given, draws=draws, seed=seed, out=out, progress=progress)
    say(f"{made.text}\nfile: {out}", {**made.record(), "file": str(out)}, as_json=as_json, quiet=quiet)


def refine(
    study: Annotated[Path, typer.Argument(help="The study file, which must have been run, or its result.")] = Path(
        "study.toml"
    ),
    result: Annotated[Path | None, typer.Option(help="Another result.nc or folder.", show_default=False)] = None,
    budget: Annotated[float, typer.Option(min=1.0, help="Seconds after which no structure is begun.")] = 300.0,
    out: Annotated[Path, typer.Option(help="NetCDF file for the result with these fits.")] = Path("refined.nc"),
    force: Force = False,
    allow_outside: AllowOutside = False,
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit the equation and its rivals by forward solves.

    Of a study that has been run, or of the folder of its result. Where frames are few: coefficients, initial state, and
    how probable each structure is. Interrupted, or out of its budget, it goes on where it ended when it is called
    again.
    """
    from bvsi.app.study.result_folder import load_with_result
    from bvsi.app.study.simulation import refine_study

    free_to_write(out, force=True, option="--out")  # what is there already is gone on with
    with shown_progress(quiet=quiet or as_json) as progress:
        loaded, beside = load_with_result(study)
        given = beside if result is None else result_file(result)
        loaded = with_limits(loaded, max_memory, allow_outside=allow_outside)
        found = refine_study(loaded, given, out, budget=budget, force=force, progress=progress)
    assert found.refined is not None
    said = "\n".join([f"by the weak form: {found.equation}", found.refined.text, f"file: {out}"])
    record = {"equation": found.refined.equation, "inclusion": found.refined.inclusion(), "file": str(out)}
    say(said, {**record, "doubts": list(found.refined.doubts)}, as_json=as_json, quiet=quiet)


def compare(
    a: Annotated[Path, typer.Argument(help="A result, or its folder.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="Another one.", show_default=False)],
    level: Level = 0.95,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Put two results side by side.

    Coefficients, error bars, and how many standard deviations lie between them.
    """
    from bvsi.app.comparison import compare as compare_posteriors
    from bvsi.app.readers.source import readable
    from bvsi.discovery import Discovery

    if str(a) == str(b):
        raise BvsiError("compare: both names are the same result; give two different ones.")
    with readable(f"{a} or {b}", "a result of bvsi"):
        found = {str(path): Discovery.load(result_file(path)) for path in (a, b)}
        table = compare_posteriors(found, level=level)
    verdicts = [f"{name}: {one.verdict}" for name, one in found.items()]
    record = {name: {"verdict": one.verdict, "equation": one.equation} for name, one in found.items()}
    coefficients = {name: dict(zip(one.names, map(float, one.theta), strict=True)) for name, one in found.items()}
    text = "\n".join([*(f"{name}\n  {one.equation}" for name, one in found.items()), "", str(table), "", *verdicts])
    say(text, {**record, "coefficients": coefficients}, as_json=as_json, quiet=quiet)


def _table(quantity: xr.Dataset) -> str:
    """A number with its interval, or the range of a function and of its bands."""
    mean, lower, upper = (quantity[name] for name in ("mean", "lower", "upper"))
    if mean.ndim == 0:
        parts = [
            f" ± {float(quantity[name]) ** 0.5:.2g} ({name})"
            for name in ("statistics", "structure")
            if name in quantity
        ]
        return f"{float(mean):.6g}{''.join(parts)}, interval [{float(lower):.6g}, {float(upper):.6g}]"
    axes = ", ".join(f"{name} ({n})" for name, n in mean.sizes.items())
    return (
        f"a function of {axes}: mean from {float(mean.min()):.4g} to {float(mean.max()):.4g}, "
        f"half width of the band at most {float((upper - lower).max()) / 2:.3g}; write it with --out"
    )
