"""``bvsi run``: a study from its file to its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bvsi.app.cli.folder import check_folder
from bvsi.app.cli.limits import AllowOutside, MaxMemory, with_limits
from bvsi.app.cli.options import Json, Quiet, Scheduler, TlsCa, TlsCert, TlsKey, cluster, say, shown_progress

if TYPE_CHECKING:
    from bvsi.app.study.run import Finished, Inputs
    from bvsi.discovery import Discovery


def run(
    study: Annotated[Path, typer.Argument(help="The study file.", show_default=False)] = Path("study.toml"),
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; default: that of the study.", show_default=False)
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check-only", help="Check the study against its data; compute nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and estimate time and memory; compute nothing.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Seconds for what follows equation and verdict; default: that of the study, 60.",
            show_default=False,
        ),
    ] = None,
    scheduler: Scheduler = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    allow_outside: AllowOutside = False,
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Discover the equation of a study.

    Selects operators, infers coefficients, checks; prints equation and verdict and writes result and report. Then it
    forecasts, where the verdict allows it, within a budget of seconds.

    Everything is checked before it is computed. Interrupted, the same command continues where it stopped; results
    appear when they are complete.
    """
    from bvsi.app.study import load_study

    loaded = load_study(study)  # before what only running needs is imported: faults of the file are reported at once
    loaded = with_limits(loaded, max_memory, allow_outside=allow_outside)
    from bvsi.app.study import FollowUp, read_inputs, run_study

    if out is not None:
        check_folder(out)
    security = (tls_ca, tls_cert, tls_key)
    with cluster(scheduler, security, quiet=quiet) as client, shown_progress(quiet=quiet or as_json) as progress:
        if check_only or dry_run:
            inputs = read_inputs(loaded, progress=progress)
            words = [*(repr(one) for one in inputs.data), repr(inputs.library), *inputs.notes]
            lines, outlook = _outlook(inputs) if dry_run else ([], {})
            valid = {"data": words, "valid": True, **outlook}
            say("\n".join([*words, *lines, "The study can be run."]), valid, as_json=as_json, quiet=quiet)
            return

        def answered(found: Discovery, folder: Path) -> None:
            progress(0, None, "")  # clear the bars away
            if not as_json:
                say(f"{found}\nresult: {folder}\n", {}, as_json=False, quiet=quiet)
                sys.stdout.flush()

        wanted = FollowUp(loaded.settings.output.budget if budget is None else budget)
        try:
            finished = run_study(loaded, out=out, client=client, progress=progress, answered=answered, wanted=wanted)
        except KeyboardInterrupt:
            sys.stderr.write(f"interrupted; bvsi run {study} continues where it stopped\n")
            raise typer.Exit(130) from None
    say_followed(finished, as_json=as_json, quiet=quiet)


def forecast(
    study: Annotated[Path, typer.Argument(help="The study file.", show_default=False)] = Path("study.toml"),
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; default: that of the study.", show_default=False)
    ] = None,
    budget: Annotated[float, typer.Option(min=1.0, help="Seconds that it may take.")] = 600.0,
    allow_outside: AllowOutside = False,
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add the forecast to a result.

    Simulates the equation with posterior draws and compares it with frames that were held out, also where bvsi run
    skipped that or ran out of time. Equation and verdict come from the earlier run.
    """
    from bvsi.app.study import FollowUp, load_study, run_study

    loaded = with_limits(load_study(study), max_memory, allow_outside=allow_outside)
    if out is not None:
        check_folder(out)
    with shown_progress(quiet=quiet or as_json) as progress:
        wanted = FollowUp(budget, frozenset({"forecast"}))
        finished = run_study(loaded, out=out, progress=progress, wanted=wanted)
    say_followed(finished, as_json=as_json, quiet=quiet)


def say_followed(finished: Finished, *, as_json: bool, quiet: bool) -> None:
    """Forecast, notes, and where the report is; for programs everything."""
    from bvsi.app.study.summary import summary

    record = {**summary(finished.found, finished.notes), "report": str(finished.report)}
    lines = [] if finished.found.forecast is None else [finished.found.forecast.text]
    if finished.found.refined is not None:
        lines.append(f"by forward solves: {finished.found.refined.equation}")
        lines += [f"doubt: {doubt}" for doubt in finished.found.refined.doubts]
    lines += [f"note: {note}" for note in finished.notes]
    if finished.taken:
        what = " and ".join(finished.taken)
        lines.append(f"{what}: from an earlier run on this machine with the same data and settings")
    say("\n".join([*lines, f"report: {finished.report}"]), record, as_json=as_json, quiet=quiet)


def _outlook(inputs: Inputs) -> tuple[list[str], dict[str, Any]]:
    """What a run would do, and the memory that it takes: lines for people, and a record."""
    from bvsi.app.study.run import memory_of

    found = memory_of(inputs)
    method = found.choice.method
    chosen = {
        "method": found.choice.reason,
        "tests": repr(method.tests),
        "stencil": repr(method.stencil),
        "weighting": type(method.weighting).__name__,
        "selection": type(method.selection).__name__,
    }
    shapes = " + ".join(f"{K} blocks × {N}" for K, N in zip(found.blocks, found.rows, strict=True))
    residuals = sum(K * N for K, N in zip(found.blocks, found.rows, strict=True))
    lines = ["", *(f"{name}: {told}" for name, told in chosen.items())]
    seconds = found.seconds(sum(values.size for data in inputs.data for values in data.fields.values()))
    budget = inputs.study.settings.output.budget if inputs.study.settings.forecast.enabled else 0.0
    lines += [f"residuals: {shapes} = {residuals}, with {found.operators} operators", ""]
    lines += [
        f"time: about {seconds:.0f} s of one core until equation and verdict, good to a factor of three, and longer "
        f"where the candidates do not fit; then up to {budget:g} s for the forecast",
        str(found),
        "",
    ]
    numbers = {"residuals": list(found.rows), "blocks": list(found.blocks), "operators": found.operators}
    return lines, {**chosen, **numbers, "seconds": seconds, "memory": found.record()}
