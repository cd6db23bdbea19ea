"""Operators that need a derivative of the data: right terms, coverage and verdicts over noise seeds.

    KPZ             u_t = ν ∇²u + λ/2 |∇u|²              in 1D and 2D
    Hamilton–Jacobi u_t = ν u_xx − √(1 + u_x²)
    thin film       u_t = −c ∂_x(u³ u_xxx)

All are periodic, from a random smooth state, solved by Fourier modes and ETDRK4 (error below 1e-8 with the defaults);
KPZ in the plane is also sampled on triangles, an uneven grid and at scattered sensors, whose period nobody knows.
``discover`` has its default settings and about ten candidates. The last case is KPZ without ``dx(u)**2`` among them,
which must not be called consistent.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import write_whole
from bvsi.common.progress import progress_bar
from bvsi.data import Data, Grid, Mesh
from bvsi.data.scattered import mesh_through
from bvsi.discovery import discover
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.studies.geometries import along, triangles
from bvsi.studies.problems.classics.spectral import Box
from bvsi.studies.problems.etdrk4 import ETDRK4

Array = NDArray[np.float64]
Spectrum = NDArray[Any]

BOX = Box(0.0, 2 * np.pi)
PLANE = Box(0.0, 2 * np.pi, dim=2)
LEVELS = (0.01, 0.05, 0.1)
"""Noise in units of the RMS of the field."""

_LINE = ("u", "u**2", "dx(u)", "dx(u**2)", "dx(u**3)", "dx(dx(dx(u)))", "dx(dx(dx(dx(u))))", "1")


@dataclass(frozen=True, eq=False)
class DerivativeProblem:
    """One equation: linear symbol Λ(k²), the rest as a function of û(k) and the wave numbers, data and candidates.

    Attributes
    ----------
    start
        Mean and standard deviation of the first state.
    modes, waves
        Modes per side of the solver, and the highest wave number of the first state.
    place
        Where the field is measured; by default on the uniform periodic grid.
    """

    name: str
    truth: Mapping[str, float]
    candidates: tuple[str, ...]
    linear: Callable[[Array], Array]
    rest: Callable[[Spectrum, tuple[Array, ...]], Array]
    box: Box = BOX
    start: tuple[float, float] = (0.0, 1.0)
    nodes: int = 256
    modes: int = 512
    waves: int = 3
    times: int = 101
    final: float = 1.0
    levels: tuple[float, ...] = LEVELS
    place: Callable[[np.random.Generator], Grid | Mesh] | None = None

    def data(self, rng: np.random.Generator) -> Data:
        """Data without noise, from a random first state."""
        n, dim = self.modes, self.box.dim
        counts = np.fft.fftfreq(n, 1 / n)
        k = tuple(2 * np.pi / self.box.length * m for m in np.meshgrid(*[counts] * dim, indexing="ij", sparse=True))
        kept = np.prod(np.broadcast_arrays(*(np.abs(m) < n / 3 for m in k)), axis=0)
        square = sum(m**2 for m in k)
        t = np.linspace(0, self.final, self.times)
        count = int(np.ceil((t[1] - t[0]) / _STEP))
        stepper = ETDRK4.of(self.linear(np.asarray(square)), (t[1] - t[0]) / count)
        c = np.fft.fftn(self._first(rng)) * kept
        geometry = self.box.grid(self.nodes) if self.place is None else self.place(rng)
        every = (slice(None, None, n // self.nodes),) * dim

        def sampled(c: Spectrum) -> Array:
            return np.fft.ifftn(c).real[every] if self.place is None else _at_points(c, k, geometry.points)

        states = [sampled(c)]
        for _ in t[1:]:
            c = stepper.advance(c, count, lambda c: kept * np.fft.fftn(self.rest(c, k)))
            states.append(sampled(c))
        return Data.from_arrays({"u": np.array(states)}, times=t, geometry=geometry)

    def _first(self, rng: np.random.Generator) -> Array:
        """Σ_m a_m cos(m·x + φ_m)/(1 + |m|²) over 0 < |m| ≤ waves, shifted and scaled."""
        x, total = self.box.points(self.modes), np.zeros([self.modes] * self.box.dim)
        for index in np.ndindex(*[2 * self.waves + 1] * self.box.dim):
            m = np.array(index) - self.waves
            if 0 < m @ m <= self.waves**2:
                phase = sum(a * b for a, b in zip(m, x, strict=True)) + rng.uniform(0, 2 * np.pi)
                total = total + rng.standard_normal() * np.cos(phase) / (1 + m @ m)
        mean, sd = self.start
        return np.asarray(mean + sd * total / total.std())


_STEP = 2e-3


def _at_points(c: Spectrum, k: tuple[Array, ...], points: Array) -> Array:
    """Σ_k c_k exp(ik·x) at points (n, 2) of a field with modes c in the plane."""
    x, y = (np.exp(1j * np.outer(p, m.ravel())) for p, m in zip(points.T, k, strict=True))
    return np.asarray(np.sum((x @ c) * y, axis=1).real / c.size)


def _gradient(c: Spectrum, k: tuple[Array, ...]) -> list[Array]:
    return [np.fft.ifftn(1j * m * c).real for m in k]


def _film(c: Spectrum, k: tuple[Array, ...]) -> Array:
    """−c ∂_x((u³ − 1) u_xxx): what the linear part leaves."""
    u, third = np.fft.ifftn(c).real, np.fft.ifftn((1j * k[0]) ** 3 * c).real
    return np.asarray(-FILM * np.fft.ifftn(1j * k[0] * np.fft.fftn((u**3 - 1) * third)).real)


VISCOSITY, GROWTH, FILM = 0.1, 1.0, 0.02

KPZ = DerivativeProblem(
    "KPZ",
    {"dx(dx(u))": VISCOSITY, "dx(u)**2": GROWTH / 2},
    ("dx(dx(u))", "dx(u)**2", *_LINE),
    lambda k2: -VISCOSITY * k2,
    lambda c, k: GROWTH / 2 * np.asarray(sum(g**2 for g in _gradient(c, k))),
)
KPZ_PLANE = DerivativeProblem(
    "KPZ in the plane",
    {"laplacian(u)": 2 * VISCOSITY, "dot(grad(u), grad(u))": GROWTH / 2},
    ("laplacian(u)", "dot(grad(u), grad(u))", "u", "u**2", "u**3", "dx(u)", "dy(u)", "dx(u**2)", "dy(u**2)",
     "laplacian(u**2)", "1"),
    lambda k2: -2 * VISCOSITY * k2,
    KPZ.rest,
    PLANE,
    nodes=48,
    modes=96,
    waves=2,
    times=31,
)  # fmt: skip
HAMILTON_JACOBI = DerivativeProblem(
    "Hamilton–Jacobi",
    {"dx(dx(u))": VISCOSITY, "sqrt(1 + dx(u)**2)": -1.0},
    ("dx(dx(u))", "sqrt(1 + dx(u)**2)", *_LINE),
    KPZ.linear,
    lambda c, k: -np.sqrt(1 + _gradient(c, k)[0] ** 2),
)
THIN_FILM = DerivativeProblem(
    "thin film",
    {"div(u**3*grad(laplacian(u)))": -FILM},
    ("div(u**3*grad(laplacian(u)))", "div(u**3*grad(u))", "u*dx(dx(u))", "dx(u)**2", "dx(dx(u))", *_LINE),
    lambda k2: -FILM * k2**2,
    _film,
    start=(1.0, 0.15),
    levels=(0.002, 0.005, 0.01),
)
WITHOUT = DerivativeProblem("KPZ without dx(u)**2", KPZ.truth, ("dx(dx(u))", *_LINE), KPZ.linear, KPZ.rest)
_SQUARE = 2 * np.pi * np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
_SPACING = 0.19  # half as many nodes as the uniform grid has


def _uneven(rng: np.random.Generator) -> Grid:
    steps = rng.uniform(0.6, 1.4, (2, round(2 * np.pi / _SPACING)))
    x, y = (2 * np.pi * np.concatenate([[0.0], np.cumsum(s)]) / s.sum() for s in steps)
    return Grid(x=x, y=y)


def _sensors(rng: np.random.Generator) -> Mesh:
    return mesh_through(rng.uniform(0, 2 * np.pi, (round((2 * np.pi / _SPACING) ** 2), 2)))[0]


TRIANGLES = replace(
    KPZ_PLANE,
    name="KPZ on triangles",
    times=21,
    levels=(0.01, 0.05),
    place=lambda _: triangles(along(_SQUARE, _SPACING), None, _SPACING),
)
CASES = {
    "kpz": KPZ,
    "kpz-2d": KPZ_PLANE,
    "hamilton-jacobi": HAMILTON_JACOBI,
    "thin-film": THIN_FILM,
    "without": WITHOUT,
    "kpz-triangles": TRIANGLES,
    "kpz-uneven": replace(TRIANGLES, name="KPZ on an uneven grid", place=_uneven),
    "kpz-sensors": replace(TRIANGLES, name="KPZ at sensors", place=_sensors),
}


def main(arguments: list[str] | None = None) -> int:
    """Discover equations with products of derivatives for many noise seeds."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.data_derivatives", description=main.__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"by default all of {', '.join(CASES)}")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--seed", type=int, default=0, help="seed of states and noise (default 0)")
    parser.add_argument("--seeds", type=int, default=20, help="data sets per case and level (default 20)")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.cases if name not in CASES]:
        parser.error(f"{unknown[0]}: no such case; known are {', '.join(CASES)}")
    rows = []
    with progress_bar() as progress:
        for name in options.cases or CASES:
            case = CASES[name]
            clean = case.data(np.random.default_rng(options.seed))
            for place, level in enumerate(case.levels):
                runs = []
                for number in range(options.seeds):
                    runs.append(run(case, clean, level, np.random.default_rng([options.seed, place, number])))
                    progress(number + 1, options.seeds, f"{case.name}, {level:.1%} noise")
                rows.append(summary(case, level, runs))
                sys.stdout.write(_line(rows[-1]))
                sys.stdout.flush()
    write_whole(options.out / "data_derivatives.json", json.dumps({"seed": options.seed, "rows": rows}, indent=1))
    return 0


def run(case: DerivativeProblem, clean: Data, level: float, rng: np.random.Generator) -> dict[str, Any]:
    """One data set: what was selected, z-scores of true coefficients that were, whether intervals cover, verdict."""
    begin = time.process_time()
    sigma = level * float(np.sqrt(np.mean(np.square(clean.fields["u"]))))
    found = discover(add_noise(clean, sigma, rng), Library({"u": list(case.candidates)}))
    intervals = dict(zip(found.names, zip(found.theta, found.sd, found.posterior.interval(), strict=True), strict=True))
    own = [(intervals[name], value) for name, value in case.truth.items() if name in intervals]
    return {
        "names": found.names,
        "right": set(found.names) == set(case.truth),
        "z": [float((theta - value) / sd) for (theta, sd, _), value in own],
        "covered": [bool(low <= value <= high) for (_, _, (low, high)), value in own],
        "verdict": found.verdict,
        "chi2": found.chi2,
        "seconds": time.process_time() - begin,
    }


def summary(case: DerivativeProblem, level: float, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Rates over the runs of one case and level."""
    covered = [one for r in runs for one in r["covered"]]
    right = [r["z"] for r in runs if r["right"]]
    return {
        "case": case.name,
        "level": level,
        "runs": len(runs),
        "right": sum(r["right"] for r in runs),
        "coverage": float(np.mean(covered)) if covered else None,
        "consistent": sum(r["verdict"] == "consistent" for r in runs),
        "bias": np.mean(right, axis=0).tolist() if right else [],
        "spread": np.std(right, axis=0).tolist() if right else [],
        "seconds": float(np.mean([r["seconds"] for r in runs])),
        "of_each": runs,
    }


def _line(row: dict[str, Any]) -> str:
    coverage = "–" if row["coverage"] is None else f"{row['coverage']:.3f}"
    z = ", ".join(f"{b:.2f} ± {s:.2f}" for b, s in zip(row["bias"], row["spread"], strict=True))
    return (
        f"{row['case']}, {row['level']:.1%} noise: right {row['right']}/{row['runs']}, coverage {coverage}, consistent "
        f"{row['consistent']}/{row['runs']}, z {z}, {row['seconds']:.1f} s each\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
