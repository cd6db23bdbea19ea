"""Steady problems, vector equations and other coordinates, found from noisy data: rates over drawn cases.

``python -m bvsi.studies.steady --cases poisson darcy-mesh --repeats 10 --seed 1`` draws new fields and noise for every
repeat, discovers the equation with the default method, and reports how often the operators are right, |z| of the
coefficients, coverage of 95% intervals and verdicts. One frame each, 2% noise:

    poisson      f = −1.5 ∇²u + 30 u
    darcy        f = 0.7 ∇·(k ∇u), two materials with k = 1 and 5 on either side of a line that is drawn
    elasticity   −f = λ ∇(∇·u) + 2μ ∇·ε(u), λ = 1.2, μ = 0.8, one coefficient for both components

``…-mesh`` are the same on triangles. ``navier-stokes``: u_t = −∇·(u ⊗ u) − ∇p + ν ∇²u, 5% noise, p known, twelve
invariant candidates of which each has one coefficient. ``fokker-planck-polar``: p_t = D ∇²p + c ∇·(p x) from data on
(r, phi), 5% noise. ``wave``, ``klein-gordon``, ``beam``, ``heat``, ``burgers``, ``kdv``: on a ring with 5% noise,
where the order of the time derivative is left open and has to be found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data, Grid, Mesh
from bvsi.discovery import discover
from bvsi.errors import BvsiError
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.operators.vectors import isotropic
from bvsi.studies.benchmarks.discovery.metrics import standard_scores
from bvsi.studies.geometries import triangles
from bvsi.studies.problems.etdrk4 import ETDRK4

Array = NDArray[np.float64]
Rng = np.random.Generator

_COVERED = 1.96
_NODES = 64  # along an axis of the unit square
_SPACING = 1 / 50  # of triangles
_WAVES = 5  # that a field is the sum of
_HIGHEST = 8.0  # wave number of these, some 1.3 periods
_HARDER = 5.0  # k of the second material
_LAMBDA, _MU = 1.2, 0.8
_NU = 0.05
_DIFFUSION, _DRIFT = 0.1, 0.8
_MODES, _FRAMES = 48, 41  # of the flow
_RING_NODES, _RING_FRAMES, _RING_MODES = 64, 81, 4  # of the cases whose order is left open
_STEPS = 200  # of a solution with a nonlinear term, between two frames


@dataclass(frozen=True)
class Problem:
    """What is drawn, and what is looked for: data without noise, library, true coefficients, noise over the signal.

    ``order`` is that of the time derivative.
    """

    draw: Callable[[Rng], Data]
    library: Library
    truth: Mapping[str, float]
    noise: float = 0.02
    order: int = 1


@dataclass(frozen=True)
class Outcome:
    """One repeat: whether operators and order are right, z by true operator, verdict or refusal, CPU seconds."""

    case: str
    names: tuple[str, ...]
    right: bool
    order: int
    z: tuple[float, ...]
    verdict: str
    chi2: float
    seconds: float


def unit_square(*, mesh: bool) -> Grid | Mesh:
    """64² nodes, or triangles a fiftieth wide."""
    if not mesh:
        x = np.linspace(0, 1, _NODES)
        return Grid(x=x, y=x)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    line = np.concatenate(
        [a + np.arange(50)[:, None] / 50 * (b - a) for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)]
    )
    return triangles(line, None, _SPACING)


def poisson(rng: Rng, *, mesh: bool = False) -> Data:
    """Waves u and f = −1.5 ∇²u + 30 u."""
    geometry = unit_square(mesh=mesh)
    u, f = np.zeros(geometry.n_nodes), np.zeros(geometry.n_nodes)
    for _ in range(_WAVES):
        k, phase, size = rng.uniform(1, _HIGHEST, 2), rng.uniform(0, 2 * np.pi), rng.normal()
        wave = size * np.sin(geometry.points @ k + phase)
        u += wave
        f += (1.5 * float(k @ k) + 30.0) * wave
    return Data(np.zeros(1), {"u": u[None]}, geometry, {"f": f})


def darcy(rng: Rng, *, mesh: bool = False) -> Data:
    """Two materials: u = Σ h(s) g(t) with s across and t along the line s = 0, k h' the same on both sides."""
    geometry = unit_square(mesh=mesh)
    angle, offset = rng.uniform(0, np.pi), rng.uniform(-0.1, 0.1)
    across = np.array([np.cos(angle), np.sin(angle)])
    s, t = (geometry.points - 0.5) @ across - offset, (geometry.points - 0.5) @ np.array([-across[1], across[0]])
    k = np.where(s < 0, 1.0, _HARDER)
    u, f = np.zeros(geometry.n_nodes), np.zeros(geometry.n_nodes)
    for _ in range(_WAVES):
        a, b, p, q = *rng.uniform(2, _HIGHEST, 2), *rng.uniform(0, 2 * np.pi, 2)
        kh, g = np.sin(a * s + p) - np.sin(p), rng.normal() * np.sin(b * t + q)
        u += kh / k * g
        f += 0.7 * (-(a**2) * np.sin(a * s + p) - b**2 * kh) * g
    return Data(np.zeros(1), {"u": u[None]}, geometry, {"f": f, "k": k})


def elasticity(rng: Rng, *, mesh: bool = False) -> Data:
    """Waves of displacement, and the load that holds them: −f = (λ + μ) ∇(∇·u) + μ ∇²u."""
    geometry = unit_square(mesh=mesh)
    u, f = np.zeros((2, geometry.n_nodes)), np.zeros((2, geometry.n_nodes))
    for _ in range(_WAVES):
        k, phase, size = rng.uniform(-_HIGHEST, _HIGHEST, 2), rng.uniform(0, 2 * np.pi), rng.normal(size=2)
        wave = np.sin(geometry.points @ k + phase)
        u += size[:, None] * wave
        f += ((_LAMBDA + _MU) * k * float(k @ size) + _MU * float(k @ k) * size)[:, None] * wave
    return Data(np.zeros(1), {"ux": u[:1], "uy": u[1:]}, geometry, {"fx": f[0], "fy": f[1]})


def flow(rng: Rng) -> Data:
    """Decaying vortices on [0, 2π)², t ∈ [0, 4]: velocities, and the pressure ∇²p = −∂_i∂_j(u_i u_j)."""
    n, shape = _MODES, (_MODES, _MODES)
    kx, ky = np.meshgrid(np.fft.fftfreq(n, 1 / n), np.fft.rfftfreq(n, 1 / n), indexing="ij")
    k2 = kx**2 + ky**2
    inverse = np.divide(1.0, k2, out=np.zeros_like(k2), where=k2 > 0)
    kept = np.maximum(np.abs(kx), ky) < n / 3

    def real(c: NDArray[np.complex128]) -> Array:
        return np.asarray(np.fft.irfft2(c, shape))

    def velocities(c: NDArray[np.complex128]) -> tuple[Array, Array]:
        return real(1j * ky * inverse * c), real(-1j * kx * inverse * c)

    def transport(c: NDArray[np.complex128]) -> NDArray[np.complex128]:
        u, v = velocities(c)
        w = real(c)
        return np.asarray(-1j * kept * (kx * np.fft.rfft2(u * w) + ky * np.fft.rfft2(v * w)))

    c = np.fft.rfft2(rng.standard_normal(shape)) * ((k2 > 0) & (k2 <= 9))
    c *= 2.0 / np.sqrt(np.mean(real(c) ** 2))
    times = np.linspace(0, 4, _FRAMES)
    step, fields = ETDRK4.of(-_NU * k2, (times[1] - times[0]) / 10), {name: list[Array]() for name in ("ux", "uy", "p")}
    for number in range(_FRAMES):
        c = step.advance(c, 10, transport) if number else c
        u, v = velocities(c)
        stress = (
            kx**2 * np.fft.rfft2(u * u) + 2 * kx * ky * np.fft.rfft2(u * v) + ky**2 * np.fft.rfft2(v * v)
        ) * inverse
        for name, values in zip(fields, (u, v, -real(stress)), strict=True):
            fields[name].append(values.ravel())
    x = 2 * np.pi * np.arange(n) / n
    u, v, p = (np.array(values) for values in fields.values())
    return Data(times, {"ux": u, "uy": v}, Grid(x=x, y=x, periodic=("x", "y")), {"p": p})


def densities(rng: Rng) -> Data:
    """Gaussian densities that drift to the origin, on a ring: m(t) = m e^{−ct}, s²(t) = D/c + (s² − D/c) e^{−2ct}."""
    r, phi = np.linspace(0.4, 2.4, 48), 2 * np.pi * np.arange(64) / 64
    grid, times = Grid(r=r, phi=phi, coordinates="polar", periodic="phi"), np.linspace(0, 1.5, 41)
    p = np.zeros((len(times), grid.n_nodes))
    x = grid.points[:, :1] * np.stack([np.cos(grid.points[:, 1]), np.sin(grid.points[:, 1])], axis=1)
    decay = np.exp(-_DRIFT * times)[:, None]
    for _ in range(3):
        place, angle, width = rng.uniform(0.8, 2.0), rng.uniform(0, 2 * np.pi), rng.uniform(0.3, 0.5)
        mean = place * np.array([np.cos(angle), np.sin(angle)])
        s2 = _DIFFUSION / _DRIFT + (width**2 - _DIFFUSION / _DRIFT) * decay**2
        p += np.exp(-np.sum((x[None] - decay[:, :, None] * mean) ** 2, axis=2) / (2 * s2)) / (2 * np.pi * s2)
    return Data(times, {"p": p}, grid)


def ring(rng: Rng, *, linear: Callable[[NDArray[Any]], NDArray[Any]], order: int = 1, steepening: float = 0.0) -> Data:
    """u_t, or u_tt, = Λu − s u u_x on [0, 2π), t ∈ [0, 2]: some waves, each with its own phase, and Λ(ik)."""
    x = 2 * np.pi * np.arange(_RING_NODES) / _RING_NODES
    times, k = np.linspace(0, 2, _RING_FRAMES), np.fft.rfftfreq(_RING_NODES, 1 / _RING_NODES)
    drawn = (k > 0) & (k <= _RING_MODES)
    c, moving = (drawn * (rng.standard_normal(k.shape) + 1j * rng.standard_normal(k.shape)) for _ in range(2))
    rate = linear(1j * k)
    if order == 2:
        phase = np.sqrt(-rate.real) * times[:, None]
        states = c * np.cos(phase) + moving * np.sin(phase)
    else:
        kept = k < _RING_NODES / 3

        def transport(one: NDArray[np.complex128]) -> NDArray[np.complex128]:
            return np.asarray(-0.5j * steepening * k * kept * np.fft.rfft(np.fft.irfft(one, _RING_NODES) ** 2))

        c = c / np.sqrt(np.mean((_RING_NODES * np.fft.irfft(c, _RING_NODES)) ** 2))
        step, c = ETDRK4.of(rate, (times[1] - times[0]) / _STEPS), _RING_NODES * c
        found = [c]
        for _ in times[1:]:
            found.append(step.advance(found[-1], _STEPS, transport))
        states = np.array(found)
    return Data(times, {"u": np.fft.irfft(states, _RING_NODES)}, Grid(x=x, periodic=("x",)))


_PLANE = {"u": ("ux", "uy")}
_POISSON = Library({"u": ["laplacian(u)", "u", "u**2", "u**3", "dx(u)", "dy(u)", "1"]}, left="f")
_DARCY = Library({"u": ["div(k*grad(u))", "u", "u**2", "dx(u)", "dy(u)", "k*u", "k", "1"]}, left="f")
_ELASTIC = Library(
    {"u": ["grad(div(u))", "div(symgrad(u))", "u", "dot(u, u)*u", "grad(dot(u, u))", "div(outer(u, u))"]},
    vectors={**_PLANE, "f": ("fx", "fy")},
    left="-f",
)
_DRIFTS = [f"div(p*grad({potential}))" for potential in ("r**2", "r**4", "phi", "log(r)")]
_RING = Library({"p": ["laplacian(p)", *_DRIFTS, "dr(dr(p))", "laplacian(p**2)", "p", "p**2", "1"]})
_FLOW = Library({"u": isotropic("u", ["p"])}, vectors=_PLANE)
_OPEN = Library(
    {"u": ["u", "dx(u)", "laplacian(u)", "dx(dx(dx(u)))", "biharmonic(u)", "u**2", "u**3", "u*dx(u)"]}, time_order=None
)


def _of_both(truth: Mapping[str, float]) -> dict[str, float]:
    return {f"{part}: {name}": value for name, value in truth.items() for part in _PLANE["u"]}


_SHAPES = {
    "poisson": (poisson, _POISSON, {"laplacian(u)": -1.5, "u": 30.0}),
    "darcy": (darcy, _DARCY, {"div(k*grad(u))": 0.7}),
    "elasticity": (elasticity, _ELASTIC, _of_both({"grad(div(u))": _LAMBDA, "div(symgrad(u))": 2 * _MU})),
}
# Λ(ik), the strength of u u_x, coefficients, the order
_RINGS = {
    "wave": (lambda d: 1.5 * d**2, 0.0, {"laplacian(u)": 1.5}, 2),
    "klein-gordon": (lambda d: d**2 - 2.0, 0.0, {"laplacian(u)": 1.0, "u": -2.0}, 2),
    "beam": (lambda d: -0.25 * d**4, 0.0, {"biharmonic(u)": -0.25}, 2),
    "heat": (lambda d: 0.2 * d**2, 0.0, {"laplacian(u)": 0.2}, 1),
    "burgers": (lambda d: 0.1 * d**2, 1.0, {"laplacian(u)": 0.1, "u*dx(u)": -1.0}, 1),
    "kdv": (lambda d: -0.1 * d**3, 1.0, {"dx(dx(dx(u)))": -0.1, "u*dx(u)": -1.0}, 1),
}
_NAVIER_STOKES = _of_both({"div(outer(u, u))": -1.0, "grad(p)": -1.0, "laplacian(u)": _NU})

CASES: dict[str, Problem] = {
    **{name: Problem(draw, library, truth) for name, (draw, library, truth) in _SHAPES.items()},
    **{
        f"{name}-mesh": Problem(partial(draw, mesh=True), library, truth)
        for name, (draw, library, truth) in _SHAPES.items()
    },
    "navier-stokes": Problem(flow, _FLOW, _NAVIER_STOKES, noise=0.05),
    "fokker-planck-polar": Problem(
        densities, _RING, {"laplacian(p)": _DIFFUSION, "div(p*grad(r**2))": _DRIFT / 2}, noise=0.05
    ),
    **{
        name: Problem(partial(ring, linear=linear, order=order, steepening=steep), _OPEN, truth, 0.05, order)
        for name, (linear, steep, truth, order) in _RINGS.items()
    },
}


def repeat(name: str, number: int, seed: int) -> Outcome:
    """Draw, add noise, discover."""
    problem = CASES[name]
    rng = np.random.default_rng([seed, list(CASES).index(name), number])
    exact = problem.draw(rng)
    sigma = {f: problem.noise * float(np.sqrt(np.mean(u**2))) for f, u in exact.fields.items()}
    begin = time.process_time()
    try:
        found = discover(add_noise(exact, sigma, rng), problem.library)
    except BvsiError as error:
        return Outcome(name, (), False, 0, (), f"refused: {error}", np.nan, time.process_time() - begin)
    z, order = tuple(standard_scores(found, problem.truth).values()), found.time_order
    right = set(found.names) == set(problem.truth) and order == problem.order
    return Outcome(name, found.names, right, order, z, found.verdict, found.chi2, time.process_time() - begin)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Rates of one case, in words."""
    z = np.abs([value for one in outcomes for value in one.z])
    verdicts = ", ".join(f"{name} {count}" for name, count in Counter(one.verdict for one in outcomes).most_common())
    covered = f"coverage {np.mean(z < _COVERED):.3f}, largest |z| {z.max():.1f}; " if len(z) else ""
    return (
        f"{outcomes[0].case}: right {sum(one.right for one in outcomes)} of {len(outcomes)}; {verdicts}; {covered}"
        f"{np.mean([one.seconds for one in outcomes]):.1f} CPU s each"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    for name in given.cases:
        outcomes = [repeat(name, number, given.seed) for number in range(given.repeats)]
        sys.stdout.write(summary(outcomes) + "\n")
        for one in outcomes:
            if not one.right:
                sys.stdout.write(f"  wrong: {', '.join(one.names)}, order {one.order} ({one.verdict})\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
