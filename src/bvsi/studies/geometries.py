"""Equations found on meshes, uneven grids and from scattered sensors: rates over drawn cases.

``python -m bvsi.studies.geometries --cases hole sensors-300 --repeats 20 --seed 1 --out DIR`` draws bumps, places and
noise for every repeat, discovers the equation with the default method, and reports how often the operators are
right, |z| of the coefficients, coverage of 95% intervals, verdicts and error bars. With ``--size`` it measures CPU
seconds and memory on a large mesh, beside elements.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import write_whole
from bvsi.common.progress import Progress, progress_bar
from bvsi.data import Data, Grid, Mesh
from bvsi.data.scattered import mesh_through
from bvsi.discovery import Discovery, Method, discover
from bvsi.errors import BvsiError
from bvsi.likelihood import Block
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.residual import CrankNicolson
from bvsi.select import Sweep
from bvsi.spaces import Galerkin
from bvsi.studies.benchmarks.discovery.metrics import standard_scores
from bvsi.studies.problems.transport import Transport

Array = NDArray[np.float64]
Rng = np.random.Generator

_NOISE = 0.02
_COVERED = 1.96
_OTHERS = ("u**3", "dx(dx(u))", "dx(u**2)", "dy(u**2)", "laplacian(u**2)")


@dataclass(frozen=True)
class Place:
    """Where and when the field is measured, and what is looked for.

    Attributes
    ----------
    draw
        Data without noise.
    equation
        Coefficients.
    others
        Candidates beside the true operators.
    keep
        Whether the true operators are given.
    method
        None for the default.
    """

    draw: Callable[[Transport, Rng], Data]
    equation: Transport = field(default_factory=Transport)
    others: tuple[str, ...] = _OTHERS
    keep: bool = False
    method: Method | None = None


@dataclass(frozen=True)
class Repeat:
    """One repeat: what was found, z and relative error bars by true operator, verdict or refusal, CPU seconds."""

    case: str
    repeat: int
    names: tuple[str, ...]
    right: bool
    z: dict[str, float]
    relative: dict[str, float]
    verdict: str
    chi2: float
    seconds: float


def _lattice(h: float, low: Array, high: Array) -> Array:
    """Points of a lattice of equilateral triangles with side h in a box, (n, 2)."""
    rows = np.arange(low[1], high[1] + 1e-9, h * np.sqrt(3) / 2)
    lines = [np.arange(low[0] + 0.5 * h * (j % 2), high[0] + 1e-9, h) for j in range(len(rows))]
    return np.concatenate([np.stack([x, np.full(len(x), y)], axis=1) for x, y in zip(lines, rows, strict=True)])


def along(corners: Array, h: float) -> Array:
    """Points about h apart along a closed polygon (k, 2)."""
    parts = []
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        count = max(1, round(float(np.linalg.norm(b - a)) / h))
        parts.append(a + np.arange(count)[:, None] / count * (b - a))
    return np.concatenate(parts)


def _circle(centre: Sequence[float], radius: float, h: float) -> Array:
    angle = 2 * np.pi * np.arange(round(2 * np.pi * radius / h)) / round(2 * np.pi * radius / h)
    return np.asarray(centre) + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def triangles(outer: Array, inner: Array | None, h: float) -> Mesh:
    """Triangles about h wide inside one closed line of points and outside another."""
    from matplotlib.path import Path as Line
    from scipy.spatial import Delaunay, cKDTree

    edge = outer if inner is None else np.concatenate([outer, inner])

    def inside(points: Array) -> NDArray[np.bool_]:
        within = Line(outer).contains_points(points)
        return np.asarray(within if inner is None else within & ~Line(inner).contains_points(points))

    points = _lattice(h, outer.min(axis=0), outer.max(axis=0))
    points = points[inside(points) & (cKDTree(edge).query(points)[0] > 0.6 * h)]
    points = np.concatenate([edge, points])
    cells = Delaunay(points).simplices
    cells = cells[inside(points[cells].mean(axis=1))].astype(np.int64)
    used, cells = np.unique(cells, return_inverse=True)
    return Mesh(points[used], cells.reshape(-1, 3), "triangle")


_BOX = np.array([[0.0, 0], [2, 0], [2, 1], [0, 1]])
_L = np.array([[0.0, 0], [2, 0], [2, 0.8], [0.8, 0.8], [0.8, 2], [0, 2]])


def _solved(mesh: Callable[[], Mesh]) -> Callable[[Transport, Rng], Data]:
    """41 frames of the field with no flux through the edge of a mesh of triangles."""

    def draw(equation: Transport, rng: Rng) -> Data:
        times, place = np.linspace(0, 0.4, 41), mesh()
        return Data(times, {"u": equation.on_mesh(place.points, place.cells, times, rng)}, place)

    return draw


def _sampled(
    place: Callable[[Rng], Grid | Mesh], final: float = 0.4, frames: int = 41
) -> Callable[[Transport, Rng], Data]:
    """Frames of the field in open space."""

    def draw(equation: Transport, rng: Rng) -> Data:
        times, geometry = np.linspace(0, final, frames), place(rng)
        return Data(times, {"u": equation.at_points(geometry.points, times, rng)}, geometry)

    return draw


def _sensors(count: int) -> Callable[[Rng], Mesh]:
    return lambda rng: mesh_through(rng.uniform([0, 0], [2, 1], (count, 2)))[0]


def _quadrilaterals(rng: Rng) -> Mesh:
    import skfem

    mesh = skfem.MeshQuad.init_tensor(np.linspace(0, 2, 46), np.linspace(0, 1, 24))
    points = mesh.p.T.copy()
    inner = np.setdiff1d(np.arange(len(points)), mesh.boundary_nodes())
    points[inner] += rng.uniform(-0.01, 0.01, (inner.size, 2))
    return Mesh(points, mesh.t.T.astype(np.int64), "quad")


def _uneven(rng: Rng) -> Grid:
    steps = [rng.uniform(0.6, 1.4, n) for n in (45, 23)]
    x, y = (np.concatenate([[0.0], np.cumsum(s)]) / s.sum() for s in steps)
    return Grid(x=2 * x, y=y)


def _tetrahedra(rng: Rng) -> Mesh:
    import skfem

    mesh = skfem.MeshTet.init_tensor(*[np.linspace(0, 1, 17)] * 3)
    points = mesh.p.T.copy()
    inner = np.setdiff1d(np.arange(len(points)), mesh.boundary_nodes())
    points[inner] += rng.uniform(-0.012, 0.012, (inner.size, 3))
    return Mesh(points, mesh.t.T.astype(np.int64), "tetra")


def _hole() -> Mesh:
    return triangles(along(_BOX, 0.045), _circle((0.7, 0.5), 0.2, 0.045), 0.045)


_SOLID = Transport(v=(0.5, 0.2, -0.3), width=0.15, bumps=10)

CASES: Mapping[str, Place] = {
    "hole": Place(_solved(_hole)),
    "L": Place(_solved(lambda: triangles(along(_L, 0.05), None, 0.05))),
    "annulus": Place(
        _solved(lambda: triangles(_circle((0, 0), 1.0, 0.05), _circle((0, 0), 0.4, 0.05), 0.05)),
    ),
    "quadrilaterals": Place(_sampled(_quadrilaterals)),
    "uneven": Place(_sampled(_uneven)),
    "tetrahedra": Place(_sampled(_tetrahedra, 0.3, 31), _SOLID, ("u**3", "dx(dx(u))", "dx(u**2)")),
    **{f"sensors-{n}": Place(_sampled(_sensors(n), 1.0, 200), keep=True, others=()) for n in (600, 300, 150, 60)},
    "elements": Place(_solved(_hole), method=Method(tests=Galerkin())),
}


@lru_cache(maxsize=1)
def _drawn(name: str, state: int, seed: int) -> tuple[Data, Rng]:
    """Bumps at their places, and the generator that goes on with their noise."""
    rng = np.random.default_rng([seed, state, *name.encode()])
    return CASES[name].draw(CASES[name].equation, rng), rng


def repeat(name: str, number: int, seed: int, draws: int = 1) -> Repeat:
    """One drawn case: noise of its own, bumps and places of its own or those of some draws in a row."""
    case = CASES[name]
    clean, after = _drawn(name, number // draws, seed)
    first = number % draws == 0
    rng = copy.deepcopy(after) if first else np.random.default_rng([seed, number, draws, *name.encode()])
    truth = case.equation.truth
    level = _NOISE * float(np.sqrt(np.mean(clean.fields["u"] ** 2)))
    library = Library({"u": [*truth, *case.others]}, keep=list(truth) if case.keep else ())
    begin = time.process_time()
    try:
        found = discover(add_noise(clean, level, rng), library, method=case.method)
    except BvsiError as error:
        return Repeat(name, number, (), False, {}, {}, f"refused: {error}", np.nan, time.process_time() - begin)
    return _judged(name, number, found, truth, time.process_time() - begin)


def _judged(name: str, number: int, found: Discovery, truth: Mapping[str, float], seconds: float) -> Repeat:
    sd, z = dict(zip(found.names, found.sd, strict=True)), standard_scores(found, truth)
    relative = {o: float(sd[o] / abs(truth[o])) for o in z}
    right = set(found.names) == set(truth)
    return Repeat(name, number, tuple(found.names), right, z, relative, str(found.verdict), float(found.chi2), seconds)


@dataclass(frozen=True)
class MeshCost:
    """CPU seconds, the most memory so far in GB, and what was found."""

    method: str
    seconds: float
    memory: float
    names: tuple[str, ...]
    verdict: str


def size(seed: int, cells: int = 100) -> Iterator[MeshCost]:
    """Discovery on 201 × 101 nodes of second-order triangles, 20 frames, 8 operators: the default, then elements."""
    import skfem

    rng = np.random.default_rng(seed)
    corners = skfem.MeshTri.init_tensor(np.linspace(0, 2, cells + 1), np.linspace(0, 1, cells // 2 + 1))
    basis = skfem.Basis(corners, skfem.ElementTriP2())
    mesh = Mesh(basis.doflocs.T, basis.element_dofs.T.astype(np.int64), "triangle6")
    equation, times = Transport(), np.linspace(0, 0.4, 20)
    u = equation.at_points(mesh.points, times, rng)
    data = add_noise(Data(times, {"u": u}, mesh), _NOISE * float(np.sqrt(np.mean(u**2))), rng)
    library = Library({"u": [*equation.truth, *_OTHERS[:3]]})
    elements = Method(Galerkin(), CrankNicolson(), Block(), Sweep())
    for name, method in (("spline tests (default)", None), ("elements (P2, Crank–Nicolson, block, sweep)", elements)):
        begin = time.process_time()
        found = discover(data, library, method=method)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kilobytes on Linux
        yield MeshCost(name, time.process_time() - begin, most, tuple(found.names), str(found.verdict))


def summary(outcomes: Sequence[Repeat]) -> str:
    """Rates of one case, in words."""
    n, answered = len(outcomes), [o for o in outcomes if o.names]
    refused = f", refused {n - len(answered)}" if len(answered) < n else ""
    if not answered:
        return f"{outcomes[0].case}: refused {n} of {n} ({outcomes[0].verdict})"
    z = np.array([value for o in answered for value in o.z.values()])
    verdicts = ", ".join(f"{name} {count}" for name, count in Counter(o.verdict for o in answered).most_common())
    widest = max(o.relative.get("laplacian(u)", np.nan) for o in answered)
    return (
        f"{outcomes[0].case}: right {sum(o.right for o in answered)} of {n}{refused}; {verdicts}; "
        f"coverage {np.mean(np.abs(z) < _COVERED):.3f}, largest |z| {np.abs(z).max():.1f}; error bar of D up to "
        f"{100 * widest:.2g}%; {np.mean([o.seconds for o in answered]):.1f} CPU s each"
    )


def run(
    names: Sequence[str], repeats: int, seed: int, out: Path | None, progress: Progress, draws: int = 1
) -> list[Repeat]:
    """All repeats of some cases, with so many draws of the noise for one state; results so far are in ``out``."""
    outcomes = []
    for name in names:
        for number in range(repeats):
            outcomes.append(repeat(name, number, seed, draws))
            progress(len(outcomes), len(names) * repeats, "geometries")
        if out is not None:
            write_whole(out / f"geometries-{seed}.json", json.dumps([asdict(o) for o in outcomes], indent=1))
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1, help="of the noise for one state and set of places (default 1)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--size", action="store_true", help="cost on a large mesh instead of the cases")
    given = parser.parse_args(arguments)
    if given.size:
        for cost in size(given.seed):
            sys.stdout.write(
                f"{cost.method}: {cost.seconds:.0f} CPU s, at most {cost.memory:.2f} GB so far; {cost.verdict}: "
                f"{', '.join(cost.names)}\n"
            )
            sys.stdout.flush()
        return 0
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as progress:
        outcomes = run(given.cases, given.repeats, given.seed, given.out, progress, given.draws)
    for name in given.cases:
        sys.stdout.write(summary([o for o in outcomes if o.case == name]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
