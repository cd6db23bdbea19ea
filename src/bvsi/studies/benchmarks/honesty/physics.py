"""Equations with drawn coefficients and drawn states, solved far more accurately than any noise.

waves     u_t = −c u_x + D u_xx − r u                           a line, periodic
burgers   u_t = −a u u_x + ν u_xx                               a line, periodic
fisher    u_t = D u_xx + r u − s u²,   u > 0                    a line, periodic
chaos     u_t = −a u u_x − u_xx − u_xxxx                        a line, periodic (Kuramoto–Sivashinsky)
walls     u_t = D u_xx − r u                                    a line, no flux through the ends
plane     u_t = D ∇²u − v·∇u + r u − s u²,   u > 0              a part of the plane, on a grid or on triangles
layer     a_t = D a_xx − k a b²,   b_t = D b_xx − 2 k a b²      [0, 1], no flux through the ends
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from bvsi.data import Data, Grid
from bvsi.operators import Library
from bvsi.studies.geometries import along, triangles
from bvsi.studies.problems.classics.candidates import powers
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled
from bvsi.studies.problems.transport import Transport

Array = NDArray[np.float64]
Rng = np.random.Generator

# Modes of the solvers on a line; twice as many change the fields by less than 1e-7.
_MODES = 384
# Cosines of the layer; half as many again change it by less than 1e-7.
_COSINES = 64


@dataclass(frozen=True)
class NodesAndFrames:
    """How many nodes along an axis, and how many frames."""

    nodes: int
    frames: int


@dataclass(frozen=True, eq=False)
class Drawn:
    """One experiment without noise, its equation, and the candidates.

    Attributes
    ----------
    truth
        Coefficients by the names of the library.
    candidates
        Operators by field, the true ones among them.
    """

    data: Data
    truth: Mapping[str, float]
    candidates: Mapping[str, tuple[str, ...]]

    def library(self, missing: str = "") -> Library:
        """All candidates, or all but one of the true ones."""
        return Library({field: [o for o in own if o != missing] for field, own in self.candidates.items()})


@dataclass(frozen=True)
class Physics:
    """How an equation is drawn.

    Attributes
    ----------
    sampling
        That resolves it well.
    positive
        Whether the field is, as counts are.
    """

    draw: Callable[[Rng, NodesAndFrames], Drawn]
    sampling: NodesAndFrames
    positive: bool = False


def _waves_of(x: Array, length: float, modes: int, rng: Rng) -> Array:
    """A sum of the first waves of a periodic axis with drawn heights and phases, of RMS one."""
    k = np.arange(1, modes + 1)
    height, phase = rng.uniform(0.4, 1.0, modes) / np.sqrt(k), rng.uniform(0, 2 * np.pi, modes)
    u = height @ np.cos(2 * np.pi / length * k[:, None] * x + phase[:, None])
    return np.asarray(u / np.sqrt(np.mean(u**2)))


def _on_line(
    equation: SemiLinear, start: Callable[[Array], Array], box: Box, final: float, step: float, sampling: NodesAndFrames
) -> Data:
    (x,), times = box.points(_MODES), np.linspace(0, final, sampling.frames)
    return sampled({"u": equation.solve(start(x), box, times, step)}, times, box, sampling.nodes)


_LINE = {"u": powers("u", (3, 3, 3, 2))}


def waves(rng: Rng, sampling: NodesAndFrames) -> Drawn:
    """Advection, diffusion and decay."""
    c, D, r = float(rng.uniform(0.6, 1.4) * rng.choice([-1, 1])), rng.uniform(0.04, 0.12), rng.uniform(0.1, 0.4)
    equation = SemiLinear(lambda k: -1j * c * k - D * k**2 - r, lambda k: 0 * k, np.square, degree=2)
    box = Box(0.0, 2 * np.pi)
    data = _on_line(equation, lambda x: _waves_of(x, box.length, 5, rng), box, 2.0, 0.05, sampling)
    return Drawn(data, {"dx(u)": -c, "dx(dx(u))": D, "u": -r}, _LINE)


def burgers(rng: Rng, sampling: NodesAndFrames) -> Drawn:
    """Waves that steepen into fronts."""
    a, nu = rng.uniform(0.7, 1.3), rng.uniform(0.08, 0.2)
    equation = SemiLinear(lambda k: -nu * k**2, lambda k: -0.5j * a * k, np.square, degree=2)
    box = Box(0.0, 12.0)
    data = _on_line(equation, lambda x: 0.7 * _waves_of(x, box.length, 4, rng), box, 5.0, 0.01, sampling)
    return Drawn(data, {"u*dx(u)": -a, "dx(dx(u))": nu}, _LINE)


def fisher(rng: Rng, sampling: NodesAndFrames) -> Drawn:
    """Growth to a drawn capacity, with diffusion, from a positive state."""
    D, r, s = rng.uniform(0.05, 0.15), rng.uniform(0.8, 1.4), rng.uniform(0.8, 1.4)
    equation = SemiLinear(lambda k: -D * k**2 + r, lambda k: -s + 0 * k, np.square, degree=2)
    box = Box(0.0, 10.0)

    def start(x: Array) -> Array:
        return np.asarray(0.35 * np.exp(0.8 * _waves_of(x, box.length, 6, rng)))

    data = _on_line(equation, start, box, 3.0, 0.02, sampling)
    return Drawn(data, {"dx(dx(u))": D, "u": r, "u**2": -s}, _LINE)


def chaos(rng: Rng, sampling: NodesAndFrames) -> Drawn:
    """Kuramoto–Sivashinsky from its attractor."""
    a, box = rng.uniform(0.8, 1.2), Box(0.0, 48.0)
    equation = SemiLinear(lambda k: k**2 - k**4, lambda k: -0.5j * a * k, np.square, degree=2)
    (x,), times = box.points(_MODES), np.linspace(0, 30, sampling.frames)
    begun = equation.solve(_waves_of(x, box.length, 6, rng), box, np.array([0.0, 60.0]), 0.05)[-1]
    data = sampled({"u": equation.solve(begun, box, times, 0.05)}, times, box, sampling.nodes)
    truth = {"u*dx(u)": -a, "dx(dx(u))": -1.0, "dx(dx(dx(dx(u))))": -1.0}
    return Drawn(data, truth, {"u": powers("u", (3, 3, 3, 2, 2))})


def walls(rng: Rng, sampling: NodesAndFrames) -> Drawn:
    """Diffusion and decay between walls, by cosines."""
    D, r, length = rng.uniform(0.1, 0.4), rng.uniform(0.1, 0.4), 8.0
    k, height = np.pi / length * np.arange(6), rng.uniform(0.3, 1.0, 6) * rng.choice([-1, 1], 6)
    times, x = np.linspace(0, 3, sampling.frames), np.linspace(0, length, sampling.nodes)
    u = (height * np.exp(-np.outer(times, D * k**2 + r))) @ np.cos(np.outer(k, x))
    data = Data.from_arrays({"u": u}, times=times, geometry=Grid(x=x))
    return Drawn(data, {"dx(dx(u))": D, "u": -r}, _LINE)


_PLANE = ("u**3", "dx(dx(u))", "dx(u**2)", "dy(u**2)", "laplacian(u**2)")


def _transport(rng: Rng) -> Transport:
    D, v = rng.uniform(0.015, 0.03), rng.uniform(0.3, 0.6, 2) * rng.choice([-1, 1], 2)
    return Transport(float(D), (float(v[0]), float(v[1])), float(rng.uniform(0.6, 1)), float(rng.uniform(0.6, 1)))


def plane(rng: Rng, sampling: NodesAndFrames) -> Drawn:
    """Bumps on a uniform grid."""
    equation, times = _transport(rng), np.linspace(0, 0.4, sampling.frames)
    grid = Grid(x=np.linspace(0, 2, 2 * sampling.nodes), y=np.linspace(0, 1, sampling.nodes))
    u = equation.at_points(grid.points, times, rng)
    return Drawn(Data(times, {"u": u}, grid), equation.truth, {"u": (*equation.truth, *_PLANE)})


def mesh(rng: Rng, sampling: NodesAndFrames) -> Drawn:
    """Bumps on triangles, with a hole."""
    equation, times, h = _transport(rng), np.linspace(0, 0.4, sampling.frames), 1.0 / sampling.nodes
    box = np.array([[0.0, 0], [2, 0], [2, 1], [0, 1]])
    angle = np.arange(0, 2 * np.pi, 5 * h)
    hole = rng.uniform([0.5, 0.4], [1.5, 0.6]) + 0.2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    place = triangles(along(box, h), hole, h)
    u = equation.at_points(place.points, times, rng)
    return Drawn(Data(times, {"u": u}, place), equation.truth, {"u": (*equation.truth, *_PLANE)})


def layer(rng: Rng, sampling: NodesAndFrames) -> Drawn:
    """Two species that react in a layer at one end, ten to twenty nodes wide; no flux through the ends."""
    D, k = rng.uniform(0.001, 0.002), rng.uniform(0.2, 1.0)
    x, order = (np.arange(_COSINES) + 0.5) / _COSINES, np.pi * np.arange(_COSINES)
    inverse = np.linalg.inv(np.cos(np.outer(x, order)))
    second = (np.cos(np.outer(x, order)) * -(order**2)) @ inverse
    a0 = 1 + 0.2 * np.cos(np.pi * x * rng.integers(1, 3)) * rng.uniform(0.5, 1)
    b0 = rng.uniform(1.0, 1.5) * np.exp(-((x / rng.uniform(0.06, 0.1)) ** 2))

    def rate(_: float, both: Array) -> Array:
        a, b = both.reshape(2, -1)
        return np.concatenate([D * second @ a - k * a * b**2, D * second @ b - 2 * k * a * b**2])

    times, nodes = np.linspace(0, 2, sampling.frames), np.linspace(0, 1, sampling.nodes)
    found = solve_ivp(rate, (0, 2), np.concatenate([a0, b0]), "LSODA", times, rtol=1e-9, atol=1e-11).y
    there = np.cos(np.outer(nodes, order)) @ inverse
    a, b = (np.ascontiguousarray((there @ one).T) for one in found.reshape(2, _COSINES, -1))
    own = ("a", "b", "a*b", "a*b**2", "a**2*b", "a**2", "b**2")
    truth = {"a: dx(dx(a))": D, "a: a*b**2": -k, "b: dx(dx(b))": D, "b: a*b**2": -2 * k}
    candidates = {name: (f"dx(dx({name}))", f"dx({name})", *own) for name in ("a", "b")}
    return Drawn(Data.from_arrays({"a": a, "b": b}, times=times, geometry=Grid(x=nodes)), truth, candidates)


PHYSICS: Mapping[str, Physics] = {
    "waves": Physics(waves, NodesAndFrames(96, 61)),
    "burgers": Physics(burgers, NodesAndFrames(128, 61)),
    "fisher": Physics(fisher, NodesAndFrames(96, 51), positive=True),
    "chaos": Physics(chaos, NodesAndFrames(128, 91)),
    "walls": Physics(walls, NodesAndFrames(96, 61)),
    "plane": Physics(plane, NodesAndFrames(32, 31), positive=True),
    "mesh": Physics(mesh, NodesAndFrames(22, 31), positive=True),
    "layer": Physics(layer, NodesAndFrames(201, 61), positive=True),
}
"""By name."""
