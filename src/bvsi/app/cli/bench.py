"""``bvsi bench``: benchmarks that anyone can repeat."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bvsi.app.cli.folder import Out, check_folder
from bvsi.app.cli.options import Scheduler, cluster
from bvsi.errors import BvsiError

if TYPE_CHECKING:
    from bvsi.studies.problems.classics import Classic

bench = typer.Typer(no_args_is_help=True, help="Benchmarks, with tables and figures.")


@bench.command()
def discovery(
    out: Out = Path("bench-discovery"),
    cases: Annotated[str, typer.Option(help="Names of cases, separated by commas; default: all.")] = "",
    levels: Annotated[
        str, typer.Option(help="Noise levels in percent of the RMS, separated by commas.")
    ] = "0,1,10,20,50,100",
    seeds: Annotated[int, typer.Option(min=1, help="Noise seeds per level.")] = 5,
    peer_windows: Annotated[
        str,
        typer.Option(help="Sizes of PySINDy's test functions that the oracle may choose from: parts of an axis."),
    ] = "20",
    peer_domains: Annotated[int, typer.Option(min=10, help="Number of PySINDy's test functions in 1D.")] = 500,
    no_peer: Annotated[bool, typer.Option("--no-peer", help="Leave PySINDy out.")] = False,
    public_only: Annotated[
        bool, typer.Option("--public-only", help="Only the public data sets, where their files are present.")
    ] = False,
    scheduler: Scheduler = None,
) -> None:
    """Classic equations at growing noise, bvsi beside PySINDy with an oracle; continues where it was interrupted.

    Runs of the same version and settings in the folder are not repeated: after changes of the code choose another.
    """
    chosen_levels = _levels(levels)
    check_folder(out)

    from bvsi.common.progress import progress_bar
    from bvsi.studies.benchmarks.discovery import report, study
    from bvsi.studies.benchmarks.discovery.method import BenchmarkMethod
    from bvsi.studies.benchmarks.discovery.ours import Bvsi
    from bvsi.studies.benchmarks.discovery.peer import PySindy
    from bvsi.studies.benchmarks.discovery.store import Store
    from bvsi.studies.problems.classics import CLASSICS, public_cases

    known = public_cases() if public_only else {**public_cases(), **CLASSICS}
    methods: list[BenchmarkMethod] = (
        [Bvsi()]
        if no_peer
        else [Bvsi(), PySindy(domains=peer_domains, windows=_numbers(peer_windows, "--peer-windows"))]
    )
    for method in methods:
        _ = method.settings  # a missing package is reported before the work begins
    plan = study.Plan(_cases(cases, known), methods, chosen_levels, seeds)
    with cluster(scheduler, quiet=False) as client, progress_bar() as progress:
        runs = study.run(plan, Store(out), client=client, progress=progress)
    written = report.write(runs, out)
    _show(written.table, written.files)


@bench.command()
def performance(
    out: Out = Path("bench-performance"),
    sizes: Annotated[
        str, typer.Option(help="Cells per side of the comparison with the paper's dense way, separated by commas.")
    ] = "25,50",
    large: Annotated[
        bool, typer.Option("--large/--no-large", help="Also n_x = 400, Cahn–Hilliard 50 and 100, a cube of 40³ nodes.")
    ] = False,
    skip_peer: Annotated[bool, typer.Option("--skip-peer", help="Leave PySINDy out.")] = False,
    quick: Annotated[bool, typer.Option("--quick", hidden=True, help="Tiny sizes, to see that it runs.")] = False,
) -> None:
    """What discovery costs beside the paper's dense way, PySINDy, forward solves and the bare linear algebra.

    Everything is measured in one run and given as ratios; so is the growth with nodes, times and operators.
    """
    check_folder(out)
    cells = _whole_numbers(sizes, "--sizes")

    from bvsi.common.progress import progress_bar
    from bvsi.studies.benchmarks.performance import report
    from bvsi.studies.benchmarks.performance.run import RunPlan, run

    plan = RunPlan.quick(cells, peer=not skip_peer) if quick else RunPlan.of(cells, large=large, peer=not skip_peer)
    with progress_bar() as progress:
        record = run(plan, progress)
    written = report.write(record, out)
    _show(written.text, written.files)


@bench.command()
def scale(
    out: Out = Path("bench-scale"),
    size: Annotated[str, typer.Option(help="full, as published; small, half as long; or tiny.")] = "small",
    cases: Annotated[str, typer.Option(help="Names of cases, separated by commas; default: all.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    cache: Annotated[Path | None, typer.Option(help="Folder in which the data are kept between runs.")] = None,
    growth: Annotated[bool, typer.Option("--growth/--no-growth", help="Growth with the number of values too.")] = True,
    cpu_limit: Annotated[float, typer.Option(min=0, help="CPU seconds for one measurement; 0 for no limit.")] = 1800,
    memory_limit: Annotated[float, typer.Option(min=0, help="GB for one measurement; 0 for no limit.")] = 12,
) -> None:
    """Discoveries at the sizes that others publish, beside plain weak-form least squares in NumPy and PySINDy.

    Spirals, porous medium, sine–Gordon, vorticity, Kuramoto–Sivashinsky, a cube; with ten candidates and with dozens.
    Each measurement is printed when it ends, and the files then have it.
    """
    check_folder(out)

    from bvsi.common.progress import progress_bar
    from bvsi.studies.benchmarks.scale import report
    from bvsi.studies.benchmarks.scale.cases import CASES
    from bvsi.studies.benchmarks.scale.run import ScalePlan, run

    names = tuple(name.strip() for name in cases.split(",") if name.strip()) or tuple(CASES)
    plan = ScalePlan(size, names, seed=seed, growth=growth, cache=cache, cpu_limit=cpu_limit, memory_limit=memory_limit)
    with progress_bar() as progress:
        for record in run(plan, progress):
            written = report.write(record, out)
            sys.stdout.write(f"{report.latest(record)}\n")
            sys.stdout.flush()
    _show(f"\n{written.text}", written.files)


@bench.command()
def honesty(
    out: Out = Path("bench-honesty"),
    cases: Annotated[str, typer.Option(help="Names of cases, separated by semicolons; default: all.")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each case.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of equations, states and noise.")] = 0,
) -> None:
    """How often "consistent" stands beside a wrong answer, and an alarm beside a right one; drawn by the seed.

    White, blurred, multiplied, counted and quantised noise, outliers, clean data, missing operators, too few nodes and
    frames, boundary layers, meshes. Runs of the same seed in the folder are not repeated: after changes of the code
    choose another.
    """
    check_folder(out)

    from bvsi.common.progress import progress_bar
    from bvsi.studies.benchmarks.honesty import report
    from bvsi.studies.benchmarks.honesty.cases import CASES
    from bvsi.studies.benchmarks.honesty.run import run_cases

    chosen = _chosen([name.strip() for name in cases.split(";") if name.strip()], CASES)
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as progress:
        runs = list(run_cases(chosen, repeats, seed, out / "honesty.jsonl", progress))
    written = report.write(runs, seed, out)
    _show(written.text, written.files)


@bench.command()
def mdbench(
    data: Annotated[Path, typer.Option(help="Folder with data sets, NAME/NAME.npz and NAME/NAME_snr_20.npz.")],
    out: Out = Path("bench-mdbench"),
    cases: Annotated[str, typer.Option(help="Names of data sets without noise level, separated by commas.")] = "",
    examples: Annotated[
        bool, typer.Option("--examples", help="Write small data sets of our own to --data first.")
    ] = False,
) -> None:
    """Data sets in the layout of MDBench, ODE and PDE: its scores (test error, complexity, time), and ours beside them.

    An equation is discovered from the first 80% of the times with the operators that init would suggest.
    """
    check_folder(out)

    from bvsi.common.progress import progress_bar
    from bvsi.studies.benchmarks.mdbench import run, write_examples

    if examples:
        write_examples(data)
    with progress_bar() as progress:
        written = run(data, out, [name.strip() for name in cases.split(",") if name.strip()], progress)
    _show(written.text, written.files)


def _show(text: str, files: Iterable[Path]) -> None:
    """The table, and where the files are."""
    sys.stdout.write(f"{text}\n" + "".join(f"{path.name}: {path}\n" for path in files))


def _cases(text: str, known: Mapping[str, Classic]) -> list[Classic]:
    """The cases named, or all."""
    if not known:
        raise BvsiError("--public-only: no public data sets found; set BVSI_DATA to the folder with burgers.mat.")
    return [known[name] for name in _chosen([name.strip() for name in text.split(",") if name.strip()], known)]


def _chosen(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Some names of cases, each once, or all where none is given."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(known)}."
            raise BvsiError(f"--cases: there is no case {name!r}; {hint}")
    return list(dict.fromkeys(names or known))


def _levels(text: str) -> list[float]:
    """Percentages as shares of the RMS."""
    return [level / 100 for level in _numbers(text, "--levels")]


def _numbers(text: str, option: str) -> tuple[float, ...]:
    """Numbers with commas between, each once."""
    try:
        return tuple(dict.fromkeys(float(number) for number in text.split(",") if number.strip()))
    except ValueError:
        raise BvsiError(f"{option} {text}: numbers with commas between are needed, such as 0,1,10.") from None


def _whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers with commas between, each once."""
    numbers = _numbers(text, option)
    if not numbers or not all(number.is_integer() and number > 0 for number in numbers):
        raise BvsiError(f"{option} {text}: whole numbers with commas between are needed, such as 25,50.")
    return tuple(int(number) for number in numbers)
