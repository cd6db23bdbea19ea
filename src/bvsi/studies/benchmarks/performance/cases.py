"""Whole discoveries of larger cases, step by step: seconds of assembly, plan, selection with posterior, and check.

1D     Burgers, Korteweg–de Vries, with the defaults: spline tests
2D     Fokker–Planck, ten candidates, Q1; Cahn–Hilliard, thirty candidates, P2
3D     u_t = 0.1 ∇²u + u − u³ on a periodic cube, with the defaults
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RectBivariateSpline

from bvsi.data import Data, Grid, as_experiments
from bvsi.discovery import discover
from bvsi.discovery.method import Method, choose_method
from bvsi.errors import BvsiError
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, Noise, add_noise
from bvsi.noise.measurement import measure_all
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, Stencil, assemble
from bvsi.residual.assembly import Discretisation
from bvsi.spaces import Q1, Galerkin
from bvsi.studies.benchmarks.performance.timing import peak_memory_gb, timed
from bvsi.studies.problems import cahn_hilliard, fokker_planck
from bvsi.studies.problems.classics import CLASSICS

Array = NDArray[np.float64]

_SOLVED = 25  # elements per side up to which Cahn–Hilliard data are solved; beyond they are interpolated
_DIFFUSION = 0.1
_MODES = 2


@dataclass(frozen=True, eq=False)
class PreparedCase:
    """A discovery to be timed; None is left to the defaults."""

    data: Data
    library: Library
    truth: Mapping[str, float]
    noise: Noise | None = None
    discretisation: Discretisation | None = None
    stencil: Stencil | None = None
    check: bool = True


def fokker_planck_case(nx: int) -> PreparedCase:
    """The paper's data on n_x × n_x cells with ten candidates, without check."""
    case = fokker_planck.Case(nx=nx)
    return PreparedCase(
        fokker_planck.observed(case),
        fokker_planck.library(fokker_planck.CANDIDATES),
        fokker_planck.TRUTH,
        IID(case.sigma),
        Galerkin(Q1),
        BackwardEuler(),
        check=False,
    )


def cahn_hilliard_case(nx: int) -> PreparedCase:
    """The paper's data on n_x × n_x second-order elements with thirty candidates, without check."""
    case = cahn_hilliard.CahnHilliardCase(nx=nx)
    return PreparedCase(
        add_noise(_concentrations(case), case.sigma, np.random.default_rng(case.seed)),
        cahn_hilliard.library(case.treatment),
        cahn_hilliard.TRUTH,
        IID(case.sigma),
        Galerkin(case.element),
        case.stencil,
        check=False,
    )


def _concentrations(case: cahn_hilliard.CahnHilliardCase) -> Data:
    """Noise-free data; those on finer meshes are the solved ones through cubic splines: the cost is the same."""
    if case.nx <= _SOLVED:
        return cahn_hilliard.clean(case)
    solved = cahn_hilliard.clean(replace(case, nx=_SOLVED))
    coarse, fine = solved.geometry, case.grid
    assert isinstance(coarse, Grid)

    def finer(frame: Array) -> Array:
        return np.asarray(RectBivariateSpline(coarse.axes["x"], coarse.axes["y"], frame)(*fine.axes.values())).ravel()

    fields = {f: np.stack([finer(frame) for frame in solved.grid_field(f)]) for f in solved.names}
    return Data(times=solved.times, fields=fields, geometry=fine, auxiliary={})


def reaction_diffusion_case(n: int) -> PreparedCase:
    """u_t = 0.1 ∇²u + u − u³ on n³ nodes and 11 times, 1% noise."""
    library = Library({"u": ["u", "u**2", "u**3", "dx(u)", "dy(u)", "dz(u)", "laplacian(u)", "laplacian(u**2)"]})
    data = reaction_diffusion(n, np.linspace(0, 0.5, 11))
    sigma = 0.01 * float(np.sqrt(np.mean(data.fields["u"] ** 2)))
    noisy = add_noise(data, sigma, np.random.default_rng(0))
    return PreparedCase(noisy, library, {"u": 1.0, "u**3": -1.0, "laplacian(u)": _DIFFUSION})


def reaction_diffusion(n: int, times: Array, substeps: int = 10) -> Data:
    """Solution on the periodic cube [0, 2π)³ from a few random waves.

    Strang splitting with both parts exact: waves decay by e^{−0.1 k² h}, and u' = u − u³ gives
    u e^h/√(1 + u²(e^{2h} − 1)).
    """
    axis = 2 * np.pi * np.arange(n) / n
    rng = np.random.default_rng(0)
    grids = np.meshgrid(axis, axis, axis, indexing="ij")
    u = np.zeros((n, n, n))
    for _ in range(12):
        k, phase = rng.integers(-_MODES, _MODES + 1, 3), rng.uniform(0, 2 * np.pi)
        u += 0.3 * np.cos(sum(int(m) * x for m, x in zip(k, grids, strict=True)) + phase)
    waves = np.meshgrid(*[np.fft.fftfreq(n, 1 / n)] * 2, np.fft.rfftfreq(n, 1 / n), indexing="ij")
    k2 = sum(w**2 for w in waves)
    frames = [u]
    for interval in np.diff(times):
        h = float(interval) / substeps
        decay = np.exp(-0.5 * _DIFFUSION * h * k2)
        for _ in range(substeps):
            u = np.fft.irfftn(decay * np.fft.rfftn(u), s=u.shape, axes=(0, 1, 2))
            u = u * np.exp(h) / np.sqrt(1 + u**2 * np.expm1(2 * h))
            u = np.fft.irfftn(decay * np.fft.rfftn(u), s=u.shape, axes=(0, 1, 2))
        frames.append(u)
    grid = Grid(x=axis, y=axis, z=axis, periodic=dict.fromkeys("xyz", 2 * np.pi))
    return Data.from_arrays({"u": np.stack(frames)}, times=times, geometry=grid)


def classic_case(name: str) -> Callable[[int], PreparedCase]:
    """A classic equation on so many nodes, 1% noise, everything left to the defaults."""

    def prepare(nodes: int) -> PreparedCase:
        case = replace(CLASSICS[name], make=lambda: CLASSICS[name].make(nodes=nodes))
        return PreparedCase(case.noisy(0.01, seed=0), case.library(), case.truth)

    return prepare


CASES: Mapping[str, Callable[[int], PreparedCase]] = {
    "burgers": classic_case("burgers"),
    "kdv": classic_case("kdv"),
    "fokker_planck": fokker_planck_case,
    "cahn_hilliard": cahn_hilliard_case,
    "reaction_diffusion_3d": reaction_diffusion_case,
}
"""Case by name; its argument is the number of nodes or cells along an axis."""


def measure(name: str, size: int) -> dict[str, Any]:
    """One discovery; seconds by step, memory in GB.

    Assembly and plan are measured once more on their own, since ``discover`` does not separate them. What is before
    the first report of the check, less these two, is noise measurement, selection and posterior.
    """
    if name not in CASES:
        raise BvsiError(f"name: {name!r} is none of {', '.join(CASES)}.")
    prepared = CASES[name](size)
    checking: list[float] = []

    def note(done: float, total: float | None, what: str) -> None:
        del done, total
        if what.startswith("checking") and not checking:
            checking.append(time.perf_counter())

    begin = time.perf_counter()
    found = discover(
        prepared.data,
        prepared.library,
        noise=prepared.noise,
        method=Method(tests=prepared.discretisation, stencil=prepared.stencil),
        check=prepared.check,
        progress=note,
    )
    end = time.perf_counter()
    peak = peak_memory_gb()
    assembly, planning = _prepare(prepared)
    before = (checking[0] if checking else end) - begin
    return {
        "name": name,
        "size": size,
        "nodes": prepared.data.n_nodes,
        "times": len(prepared.data.times),
        "candidates": len(prepared.library),
        "method": found.settings["discretisation"],
        "assembly": assembly,
        "planning": planning,
        "selection": max(0.0, before - assembly - planning),
        "check": end - checking[0] if checking else None,
        "total": end - begin,
        "peak_gb": peak,
        "exact": set(found.names) == set(prepared.truth),
        "operators": len(found.names),
    }


def _prepare(prepared: PreparedCase) -> tuple[float, float]:
    """Seconds of assembly and of the plan of the covariance."""
    measured = measure_all(as_experiments(prepared.data), prepared.noise, robust=None)
    method = Method(tests=prepared.discretisation, stencil=prepared.stencil)
    setup = choose_method(measured, prepared.library, method).setup
    assembly, system = timed(
        lambda: assemble(
            [m.data for m in measured],
            prepared.library,
            discretisation=setup.tests,
            stencil=setup.stencil,
            variance=[m.variance for m in measured],
        )
    )
    return assembly, timed(lambda: residual_likelihood(system, [m.noise for m in measured], setup.weighting))[0]


def warm_up() -> None:
    """Compile and load everything once on small data: elements and splines."""
    data = add_noise(CLASSICS["burgers"].make(nodes=64, times=21), 0.01, np.random.default_rng(0))
    library = Library({"u": ["u*dx(u)", "dx(dx(u))"]})
    discover(data, library)
    elements = Method(tests=Galerkin(Q1), stencil=BackwardEuler())
    discover(data, library, noise=IID(0.01), method=elements, check=False)
