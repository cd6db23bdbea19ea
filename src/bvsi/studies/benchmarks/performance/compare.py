"""All ways to the coefficients of the paper's Fokker–Planck data side by side, in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.discovery import Discovery, discover
from bvsi.errors import MissingDependencyError
from bvsi.forward import simulate
from bvsi.infer import LeastSquares
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.studies.benchmarks.performance import cases, literal
from bvsi.studies.benchmarks.performance.bare import bare, lagged
from bvsi.studies.benchmarks.performance.observation_map import observation_map
from bvsi.studies.benchmarks.performance.ours import Agreement, agreement, assembled, own_method, paper_algorithm
from bvsi.studies.benchmarks.performance.peer import TenFeatures
from bvsi.studies.benchmarks.performance.timing import best_of, timed
from bvsi.studies.problems import fokker_planck

_WARM = 10


@dataclass(frozen=True)
class ComparedRow:
    """One way: a key for programs, a label for people, seconds (None where it could not be run), and a note.

    Parameters
    ----------
    extrapolated
        Whether the seconds were reckoned from a part of the work.
    same
        Whether the result is that of the literal way, None where it is not meant to be, or where that was cut short.
    """

    key: str
    label: str
    seconds: float | None
    note: str = ""
    extrapolated: bool = False
    same: bool | None = None


@dataclass(frozen=True)
class CompareSettings:
    """Settings of the comparison.

    Parameters
    ----------
    limit
        Seconds for the literal way, beyond which the models that are left are extrapolated.
    peer
        Whether PySINDy takes part.
    repeats
        Repeats of what takes less than seconds.
    map_iterations
        Map iterations at most, of the MAP.
    defaults
        Whether ``discover`` is also run with nothing stated.
    """

    limit: float = 1200.0
    peer: bool = True
    repeats: int = 3
    map_iterations: int = 30
    defaults: bool = True


@dataclass(frozen=True, eq=False)
class ComparedProblem:
    """The data of one size with the ten candidates."""

    case: fokker_planck.Case
    data: Data

    @staticmethod
    def of(nx: int, progress: Progress = silent) -> ComparedProblem:
        """The paper's noise level."""
        case = fokker_planck.Case(nx=nx)
        return ComparedProblem(case, fokker_planck.observed(case, progress))

    @property
    def library(self) -> Any:
        """A library made again, so that every way pays for the reading of its texts."""
        return fokker_planck.library(fokker_planck.CANDIDATES)


def compare(nx: int, settings: CompareSettings, progress: Progress = silent) -> dict[str, Any]:
    """Rows of all ways at one size, as JSON values."""
    problem = ComparedProblem.of(nx, progress)
    ways: list[Callable[[], list[ComparedRow]]] = [
        lambda: _elimination(problem, settings, progress),
        lambda: _own(problem, settings),
        lambda: _forward(problem, settings, progress),
        lambda: _bare(problem, settings),
        *([lambda: [_peer(problem)]] if settings.peer else []),
    ]
    rows = []
    for number, way in enumerate(ways):
        progress(number, len(ways), f"ways, n_x = {nx}")
        rows += way()
    progress(len(ways), len(ways), f"ways, n_x = {nx}, done")
    return {"nx": nx, "nodes": problem.data.n_nodes, "rows": [asdict(row) for row in rows]}


def warm_up(peer: bool) -> None:
    """Load and compile everything once, on few nodes, and in part only."""
    settings = CompareSettings(limit=0.0, peer=peer, repeats=1, map_iterations=1, defaults=False)
    compare(_WARM, settings)
    cases.warm_up()  # spline tests


def _elimination(problem: ComparedProblem, settings: CompareSettings, progress: Progress) -> list[ComparedRow]:
    """(a) the literal way, and (b1) the same algorithm by bvsi."""
    data, library, sigma = problem.data, problem.library, problem.case.sigma
    assembly, system = timed(lambda: assembled(data, library))
    selected = literal.select(literal.Dense.of(system, sigma), library.keep, limit=settings.limit, progress=progress)
    return [*_literal_rows(selected, assembly), *_paper_rows(problem, settings, selected)]


def _literal_rows(selected: literal.LiteralSelection, assembly: float) -> list[ComparedRow]:
    clock, cut = selected.clock, selected.skipped > 0
    per = clock.seconds / clock.evaluations
    note = f"{selected.fits} fits, {clock.evaluations} evaluations of {per:.3g} s; {len(selected.best.names)} operators"
    if cut:
        note += f"; {selected.skipped} fits extrapolated, and the steps after them left out"
    bare_note = "as if the products C Σ_u Cᵀ cost nothing: dense Cholesky and solves alone"
    every = f"each of the {selected.blocks} covariances formed and factorised, as the paper does"
    return [
        ComparedRow(
            "literal", "paper's way, dense, one covariance for all times", assembly + selected.seconds, note, cut
        ),
        ComparedRow("literal_cholesky", "  its Cholesky and solves", selected.seconds_without_forming, bare_note, cut),
        ComparedRow(
            "literal_blocks", "paper's way, dense, every time", assembly + selected.seconds_every_block, every, True
        ),
    ]


def _paper_rows(
    problem: ComparedProblem, settings: CompareSettings, selected: literal.LiteralSelection
) -> list[ComparedRow]:
    rows = []
    for key, label, refit_all in (
        ("paper", "bvsi, the paper's algorithm", False),
        ("paper_refit", "bvsi, the paper's algorithm, every model refitted", True),
    ):
        seconds, found = best_of(
            1 if refit_all else settings.repeats,
            lambda refit_all=refit_all: paper_algorithm(  # type: ignore[misc]
                problem.data, problem.library, problem.case.sigma, refit_all=refit_all
            ),
        )
        # what was cut short has no selected model: the fits of all operators are compared
        cut = bool(selected.skipped)
        alike = agreement(found.full, selected.full) if cut else agreement(found.best, selected.best)
        note = f"{found.fits} fits; {len(found.best.names)} operators; {_told(alike)}" + cut * ", of all ten compared"
        rows.append(ComparedRow(key, label, seconds, note, same=None if cut and alike.same else alike.same))
    return rows


def _told(alike: Agreement) -> str:
    if not alike.model:
        return "not those of the literal way"
    return f"coefficients differ by {alike.theta:.0e}, covariance by {alike.covariance:.0e}"


def _own(problem: ComparedProblem, settings: CompareSettings) -> list[ComparedRow]:
    """(b2) bvsi's own method with the paper's discretisation, and (b3) with nothing stated."""
    data, sigma = problem.data, problem.case.sigma
    seconds, own = best_of(settings.repeats, lambda: own_method(data, problem.library, sigma))
    rows = [ComparedRow("own", "bvsi, discover: Q1, backward Euler, no check", seconds, _found(own))]
    if settings.defaults:
        seconds, default = timed(lambda: discover(data, problem.library))
        rows.append(ComparedRow("default", "bvsi, discover with its defaults and check", seconds, _found(default)))
    return rows


def _found(result: Discovery) -> str:
    true = set(result.names) == set(fokker_planck.TRUTH)
    return f"{len(result.names)} operators{', the true ones' if true else ''}"


def _forward(problem: ComparedProblem, settings: CompareSettings, progress: Progress) -> list[ComparedRow]:
    """(d) one forward solve, and the estimate that is made of many."""
    data, sigma = problem.data, problem.case.sigma
    seconds, _ = best_of(
        settings.repeats, lambda: simulate(fokker_planck.library(), fokker_planck.TRUTH, data, data.times)
    )
    library, grid = problem.library, data.geometry
    density = np.repeat(fokker_planck.initial_density(grid.points)[None], 2, axis=0)
    initial = Data(times=data.times[:2], fields={"p": density}, geometry=grid, auxiliary={})
    prior = fokker_planck.PRIOR.bind(library.names)

    def estimate() -> Any:
        start = LeastSquares().fit(assembled(data, library)).theta
        return observation_map(
            data, library, initial, sigma, prior, start, max_iterations=settings.map_iterations, progress=progress
        )

    mapped, found = timed(estimate)
    how = "converged" if found.converged else "not converged"
    note = f"{found.solves} forward solves in {found.iterations} iterations, {how}; χ²/n = {found.chi2:.3g}"
    return [
        ComparedRow(
            "forward", "one forward solve, five operators", seconds, f"{len(data.times) - 1} backward-Euler steps"
        ),
        ComparedRow("map", "MAP in the space of observations, all ten", mapped, note),
    ]


def _bare(problem: ComparedProblem, settings: CompareSettings) -> list[ComparedRow]:
    """(e) one lagged iteration of all operators beside the linear algebra in it."""
    system = assembled(problem.data, problem.library)
    likelihood = residual_likelihood(system, IID(problem.case.sigma))
    start = LeastSquares().fit(system).theta
    fits = [lagged(likelihood, start) for _ in range(settings.repeats)]
    least = bare(likelihood, fits[0][2].theta, settings.repeats)
    columns = system.experiments[0].Z[0].size
    return [
        ComparedRow("iteration", "one lagged iteration, all ten", min(fit[1] for fit in fits)),
        ComparedRow("bare", "bare linear algebra of it", least.seconds, f"one factorisation, {columns} solves"),
        ComparedRow("bare_half", "  with half a solve", least.half, "L⁻¹Z, the least that weighted sums need"),
    ]


def _peer(problem: ComparedProblem) -> ComparedRow:
    label = "PySINDy, weak form, as many candidates"
    method = TenFeatures()
    try:
        version = method.settings["pysindy"]
    except MissingDependencyError:
        return ComparedRow("peer", label, None, "not installed: pip install 'bvsi[bench]'")
    try:
        seconds, candidates = timed(lambda: method.candidates(problem.data))
    except ValueError as error:  # of its own, where a window has fewer than two nodes
        return ComparedRow("peer", label, None, f"{version}: {error}")
    note = (
        f"{version}; {candidates} features, {method.domains_2d} test functions; its features cannot express the truth"
    )
    return ComparedRow("peer", label, seconds, note)
