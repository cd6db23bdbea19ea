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
    from bvsi.app.study.run import Inputs


def run(
    study: Annotated[Path, typer.Argument(help="The study file.", show_default=False)] = Path("study.toml"),
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; default: that of the study.", show_default=False)
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check-only", help="Check the study against its data, compute nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be done and how much memory it takes, compute nothing.")
    ] = False,
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

    Selects operators, infers coefficients, checks, forecasts; writes result and report.

    Everything is checked before it is computed. Interrupted, the same command goes on where it was; results appear when
    they are whole.
    """
    from bvsi.app.study import load_study

    loaded = load_study(study)  # before what only running needs is imported: faults of the file are told at once
    loaded = with_limits(loaded, max_memory, allow_outside=allow_outside)
    from bvsi.app.study import read_inputs, run_study
    from bvsi.app.study.summary import summary

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
        try:
            finished = run_study(loaded, out=out, client=client, progress=progress)
        except KeyboardInterrupt:
            sys.stderr.write(f"interrupted; bvsi run {study} goes on where it was\n")
            raise typer.Exit(130) from None
    record = {**summary(finished.found, finished.notes), "report": str(finished.report)}
    notes = [f"note: {note}" for note in finished.notes]
    if finished.taken:
        what = " and ".join(finished.taken)
        notes.append(f"{what}: from an earlier run on this machine with the same data and settings")
    forecast = [] if finished.found.forecast is None else [finished.found.forecast.text]
    text = "\n\n".join([str(finished.found), *forecast, "\n".join([*notes, f"report: {finished.report}"])])
    say(text, record, as_json=as_json, quiet=quiet)


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
    lines += [f"residuals: {shapes} = {residuals}, with {found.operators} operators", "", str(found), ""]
    numbers = {"residuals": list(found.rows), "blocks": list(found.blocks), "operators": found.operators}
    return lines, {**chosen, **numbers, "memory": found.record()}
