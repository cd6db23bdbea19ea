"""``bvsi reproduce``: the paper's studies."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from bvsi.app.cli.folder import Out, check_folder

reproduce = typer.Typer(no_args_is_help=True, help="The paper's studies, with tables, figures and a page.")


class Element(enum.StrEnum):
    """Elements on the given grid nodes."""

    Q1 = "Q1"
    Q2 = "Q2"


class PosteriorKind(enum.StrEnum):
    """Priors of the Fokker–Planck study."""

    gaussian = "gaussian"
    hybrid = "hybrid"


class SecondOrder(enum.StrEnum):
    """Second-order elements on the given grid nodes."""

    P2 = "P2"
    Q2 = "Q2"


class ConcentrationData(enum.StrEnum):
    """Data sets of the Cahn–Hilliard study."""

    neumann = "neumann"
    paper = "paper"
    independent = "independent"
    stated = "stated"
    imposed = "imposed"


class Treatment(enum.StrEnum):
    """Treatments of ∇⁴."""

    mixed = "mixed"
    interior_penalty = "interior-penalty"


@reproduce.command("fokker-planck")
def fokker_planck(
    out: Out = Path("fokker-planck"),
    nx: Annotated[int, typer.Option(help="Cells per side: a divisor of 400.")] = 50,
    sigma: Annotated[float, typer.Option(help="Standard deviation of the noise.")] = 1e-3,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    element: Annotated[Element, typer.Option(help="Element on the given nodes.")] = Element.Q2,
    accurate_time: Annotated[bool, typer.Option(help="Data solved accurately in time.")] = False,
    posterior: Annotated[
        PosteriorKind,
        typer.Option(help="hybrid adds non-Gaussian priors: particles, and NUTS to check them (minutes)."),
    ] = PosteriorKind.gaussian,
) -> None:
    """Selection from ten operators, VSI and both B-VSI estimators, potential; beside the paper's table."""
    from bvsi import spaces
    from bvsi.common.progress import progress_bar
    from bvsi.studies.problems.fokker_planck import Case
    from bvsi.studies.reproduce import fokker_planck as study
    from bvsi.studies.reproduce import fokker_planck_hybrid as hybrid_study

    check_folder(out)
    case = Case(nx, sigma, seed, accurate_time)
    with progress_bar() as progress:
        hybrid = posterior is PosteriorKind.hybrid
        result = study.run(case, getattr(spaces, element.value), progress, with_hybrid=hybrid)
    index = study.write(result, out)
    sys.stdout.write(f"{study.comparison(result)}\n\n{result.path}\n")
    if result.hybrid is not None:
        sys.stdout.write("\n".join(["", hybrid_study.table(result.hybrid), *hybrid_study.verdict(result.hybrid), "\n"]))
    for name, path in result.other_paths.items():
        sys.stdout.write(f"{name} selects {len(path.best.names)}: {', '.join(path.best.names)}\n")
    sys.stdout.write(f"{result.seconds:.1f} s\nresult: {out / 'result.json'}\npage: {index}\n")


@reproduce.command("cahn-hilliard")
def cahn_hilliard(
    out: Out = Path("cahn-hilliard"),
    data: Annotated[
        ConcentrationData, typer.Option(help="Which data; see the documentation.")
    ] = ConcentrationData.neumann,
    nx: Annotated[int, typer.Option(help="Second-order elements per side.")] = 25,
    sigma: Annotated[float, typer.Option(help="Standard deviation of the noise.")] = 1e-3,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    initial: Annotated[int, typer.Option(help="Seed of the initial state.")] = 0,
    element: Annotated[SecondOrder | None, typer.Option(help="Element; default: what suits the data.")] = None,
    biharmonic: Annotated[
        Treatment | None, typer.Option(help="Treatment of ∇⁴; default: the data's own, or the one that fits better.")
    ] = None,
    residual_bic: Annotated[bool, typer.Option(help="Also select by the paper's criterion (minutes).")] = False,
) -> None:
    """Selection from thirty operators, posteriors with known and unknown noise, free-energy derivatives."""
    from bvsi import operators, spaces
    from bvsi.common.progress import progress_bar
    from bvsi.studies.problems.cahn_hilliard import CahnHilliardCase, DataSet
    from bvsi.studies.reproduce import cahn_hilliard as study
    from bvsi.studies.reproduce.cahn_hilliard_table import comparison

    check_folder(out)
    case = CahnHilliardCase(DataSet(data.value), nx, sigma, seed, initial)
    treatments: dict[str, operators.Biharmonic] = {
        "mixed": operators.Mixed(),
        "interior-penalty": operators.InteriorPenalty(),
    }
    with progress_bar() as progress:
        result = study.run(
            case,
            None if element is None else getattr(spaces, element.value),
            None if biharmonic is None else treatments[biharmonic.value],
            progress,
            residual_bic=residual_bic,
        )
    index = study.write(result, out)
    sys.stdout.write(f"{comparison(result.fits, result.mse)}\n\n{result.path}\n")
    for name, path in result.other_paths.items():
        sys.stdout.write(f"{name} selects {len(path.best.names)}: {', '.join(path.best.names)}\n")
    for warning in result.warnings:
        sys.stdout.write(f"note: {warning}\n")
    sys.stdout.write(f"seconds: {study.seconds_text(result)}\nresult: {out / 'result.json'}\npage: {index}\n")


@reproduce.command()
def ablation(
    out: Out = Path("ablation"),
    seeds: Annotated[int, typer.Option(min=1, help="Noise seeds per case.")] = 3,
    largest: Annotated[int, typer.Option(help="Largest n_x of 25, 50, 100, 200.")] = 200,
    element: Annotated[Element | None, typer.Option(help="Element; default: Q2 where cells pair, else Q1.")] = None,
) -> None:
    """Error against noise level and resolution, true model; continues where it was interrupted."""
    from bvsi import spaces
    from bvsi.common.progress import progress_bar
    from bvsi.studies.reproduce import ablation as study

    check_folder(out)
    sizes = tuple(nx for nx in study.SIZES if nx <= largest)
    with progress_bar() as progress:
        chosen = None if element is None else getattr(spaces, element.value)
        rows = study.run(out, seeds=seeds, sizes=sizes, element=chosen, progress=progress)
    index = study.write(rows, out)
    sys.stdout.write(f"{study.table(rows)}\npage: {index}\n")
