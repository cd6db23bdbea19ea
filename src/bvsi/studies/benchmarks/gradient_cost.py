"""Cost and accuracy of the gradient of the residual density.

    cost   seconds of value and gradient over seconds of the value alone, both measured in turn in one run
    error  max_i |θ_i ∂f/∂θ_i − D_i|/max_i |D_i|,    D_i a central difference per relative change of θ_i

for f = q, log det Σ and the change of variables Σ_k log |det C_kk|.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import write_whole
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.forward import simulate
from bvsi.likelihood import Density, ResidualLikelihood, ValueGradient, residual_likelihood
from bvsi.noise import IID, add_noise
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from bvsi.spaces import Q1, Q2, Galerkin
from bvsi.studies.problems import cahn_hilliard, fokker_planck

Array = NDArray[np.float64]
Row = dict[str, object]
Key = TypeVar("Key")

TERMS = ("q", "logdet", "change")
ELEMENTS = {"Q1": Q1, "Q2": Q2}
_UNTRUE = 1e-2  # coefficient of candidates that are not in the equation, so that their gradients are seen as well
_COST = (
    "{element} {terms:<32} value {value_min:.3f} s (median {value_median:.3f}), value and gradient {gradient_min:.3f} "
    "s (median {gradient_median:.3f}), ratio {ratio_min:.2f} (of medians {ratio_median:.2f})\n"
)
_ERROR = (
    "{case:<16} {operators:>2} operators; error of the gradient: q {q:.1e}, logdet {logdet:.1e}, change {change:.1e}\n"
)


@dataclass(frozen=True, eq=False)
class GradientProblem:
    """A likelihood and the coefficients (d,) at which its gradient is looked at."""

    likelihood: ResidualLikelihood
    theta: Array


def main(arguments: list[str] | None = None) -> int:
    """Time the gradient against the log-density on Fokker–Planck; compare it with differences on three equations."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.gradient_cost", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--nx", type=int, default=100, help="cells per side: 25, 50, 100, 200 or 400 (default 100)")
    parser.add_argument("--repeats", type=int, default=9, help="measurements of each (default 9)")
    options = parser.parse_args(arguments)
    try:
        costs = [row for element in ELEMENTS for row in measure(element, options.nx, options.repeats)]
    except BvsiError as problem:
        parser.error(str(problem))
    sys.stdout.write("".join(_COST.format(**row) for row in costs))
    errors: list[Row] = [
        {"case": name, "operators": len(problem.theta), **gradient_errors(problem)}
        for name, problem in ((name, make()) for name, make in SMALL.items())
    ]
    sys.stdout.write("".join(_ERROR.format(**row) for row in errors))
    write_whole(
        options.out / "gradient_cost.json", json.dumps({"nx": options.nx, "costs": costs, "errors": errors}, indent=1)
    )
    return 0


def measure(element: str, nx: int, repeats: int) -> list[Row]:
    """Seconds of the value and of value and gradient, without and with the change of variables."""
    case = fokker_planck.Case(nx)
    system = fokker_planck.residual_system(fokker_planck.observed(case), ELEMENTS[element])
    likelihood = residual_likelihood(system, IID(case.sigma))
    theta = np.array([fokker_planck.TRUTH[name] for name in system.names])

    def work(gradient: bool, change: bool) -> Callable[[], object]:
        return lambda: likelihood.density(theta, gradient=gradient, change=change)

    kinds = [(gradient, change) for change in (False, True) for gradient in (False, True)]
    seconds = in_turn({kind: work(*kind) for kind in kinds}, repeats)
    return [
        {
            "element": element,
            "terms": "misfit, log-determinant, change" if change else "misfit, log-determinant",
            **_cost(seconds[False, change], seconds[True, change]),
        }
        for change in (False, True)
    ]


def in_turn(works: Mapping[Key, Callable[[], object]], repeats: int) -> dict[Key, Array]:
    """Seconds of each work, (repeats,): one after another and all over again, so that a slow moment slows them all."""
    if repeats < 1:
        raise BvsiError(f"repeats: at least 1 is needed; got {repeats}.")
    for work in works.values():
        work()  # compile and load before the clock starts
    seconds = {key: np.empty(repeats) for key in works}
    for i in range(repeats):
        for key, work in works.items():
            begin = time.perf_counter()
            work()
            seconds[key][i] = time.perf_counter() - begin
    return seconds


def gradient_errors(problem: GradientProblem, step: float = 1e-4) -> dict[str, float]:
    """Largest error of each gradient, in units of its largest component; all per relative change of a coefficient.

    D_i = (8 (f(θ + h) − f(θ − h)) − (f(θ + 2h) − f(θ − 2h)))/(12 step),    h = step |θ_i| e_i
    """
    likelihood, theta = problem.likelihood, problem.theta
    size = np.abs(theta)

    def values(i: int, steps: int) -> Array:
        shifted = theta + steps * step * size[i] * np.eye(len(theta))[i]
        return np.array([term.value for term in _terms(likelihood.density(shifted, change=True))])

    expected = np.array(
        [(8 * (values(i, 1) - values(i, -1)) - (values(i, 2) - values(i, -2))) / (12 * step) for i in range(len(theta))]
    )
    found = np.array([size * term.gradient for term in _terms(likelihood.density(theta, gradient=True, change=True))]).T
    errors = np.abs(found - expected).max(axis=0) / np.abs(expected).max(axis=0)
    return dict(zip(TERMS, errors.tolist(), strict=True))


def small_fokker_planck() -> GradientProblem:
    """All ten operators on 12 × 12 cells."""
    system = assemble(
        add_noise(fokker_planck.forward_solve(12, accurate_time=False), 1e-3, np.random.default_rng(0)),
        fokker_planck.library(fokker_planck.CANDIDATES),
    )
    return _near_the_truth(residual_likelihood(system, IID(1e-3)), fokker_planck.TRUTH)


def small_burgers() -> GradientProblem:
    """u_t = ν u_xx − u u_x on 24 cells; the Jacobian of u u_x changes from step to step."""
    x, times = np.linspace(0, 1, 25), np.linspace(0, 0.4, 9)
    library = Library({"u": ["laplacian(u)", "u*dx(u)"]}, boundary=NoFlux())
    start = np.repeat([1 + np.cos(np.pi * x)], 2, axis=0)
    truth = {"laplacian(u)": 0.05, "u*dx(u)": -1.0}
    clean = simulate(library, truth, Data(times=times[:2], fields={"u": start}, geometry=Grid(x=x)), times)
    system = assemble(add_noise(clean, 1e-2, np.random.default_rng(0)), library)
    return _near_the_truth(residual_likelihood(system, IID(1e-2)), truth)


def small_cahn_hilliard() -> GradientProblem:
    """All thirty operators on 4 × 4 elements of second order, three steps."""
    case = cahn_hilliard.CahnHilliardCase(nx=4)
    data = cahn_hilliard.observed(case)
    system = assemble(
        replace(data, times=data.times[:4], fields={name: values[:4] for name, values in data.fields.items()}),
        cahn_hilliard.library(case.treatment),
        discretisation=Galerkin(case.element),
        stencil=case.stencil,
    )
    return _near_the_truth(residual_likelihood(system, IID(case.sigma)), cahn_hilliard.TRUTH)


SMALL: dict[str, Callable[[], GradientProblem]] = {
    "Fokker–Planck": small_fokker_planck,
    "Burgers": small_burgers,
    "Cahn–Hilliard": small_cahn_hilliard,
}
"""The three equations on few cells."""


def _near_the_truth(likelihood: ResidualLikelihood, truth: Mapping[str, float]) -> GradientProblem:
    return GradientProblem(likelihood, np.array([1.01 * truth.get(name, _UNTRUE) for name in likelihood.names]))


def _terms(density: Density) -> tuple[ValueGradient, ValueGradient, ValueGradient]:
    return density.q, density.logdet, density.change


def _cost(value: Array, gradient: Array) -> dict[str, float]:
    """Smallest and median seconds, and their ratios."""
    row: dict[str, float] = {}
    for name, of in (("min", np.min), ("median", np.median)):
        row |= {f"value_{name}": float(of(value)), f"gradient_{name}": float(of(gradient))}
        row[f"ratio_{name}"] = row[f"gradient_{name}"] / row[f"value_{name}"]
    return row


if __name__ == "__main__":
    raise SystemExit(main())
