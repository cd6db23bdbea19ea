"""Unknown functions inside operators, estimated from noisy data: rates over drawn cases.

``python -m bvsi.studies.functions --cases step bump --repeats 20 --seed 1`` draws functions, initial states and noise
for every repeat, and discovers the equation among ``u``, ``u**2``, ``dx(u)`` and ``u*dx(u)``. It reports which
part of the domain that the data visited the 95% band covers, whether constants are found to be constant, verdicts, and
the CPU time over that with the function fixed at the true one. 5% noise, 128 nodes × 101 frames on a line of length 10:

    step        u_t = (k(x) u_x)_x − 0.3 u,  k = 0.5 and 1.5 on either side of a place between 3 and 7
    bump        k = 0.6 + 0.8 exp(−(x − x_0)²/1.28)
    flat        k = 1
    porous      u_t = (D(u) u_x)_x − 0.3 u,  D = 0.2 + 0.3 u²
    sigmoid     D = 0.3 + 0.7/(1 + exp(−6 (u − 1)))
    even        D = 0.6

    sensors     u_t = ∇·(k(x) ∇u) on 2 × 1, k = 0.04 and 0.08 on either side of a place between 0.7 and 1.3; 150 sensors
                at random places, 100 frames, 2% noise; the step nearest to the estimate is within a sensor's spacing
    plane       u_t = ∇·(k(x, y) ∇u) on 40 × 40 nodes, 41 frames, a bump in k
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from bvsi.data import Data, Grid
from bvsi.data.scattered import mesh_through
from bvsi.discovery import Discovery, discover
from bvsi.errors import BvsiError
from bvsi.noise import add_noise
from bvsi.operators import Library

Array = NDArray[np.float64]
Rng = np.random.Generator
Function = Callable[..., Array]

_LENGTH, _NODES, _FRAMES, _DECAY = 10.0, 128, 101, 0.3
_WAVES = 6  # of an initial state
_FINE = 4  # cells of the solution in the place of one
_TIMED = 5  # repeats whose model is fitted with a fixed function too
_SENSORS, _SPACING = 150, (2.0 / 150) ** 0.5


@dataclass(frozen=True)
class FunctionProblem:
    """What is drawn, and what is looked for.

    Attributes
    ----------
    draw
        Data without noise, the true function, and the place of its step; NaN where it has none.
    of
        Variables of the function.
    noise
        Relative to the standard deviation of the field.
    others
        Further candidates.
    constant
        Whether the function is constant.
    """

    draw: Callable[[Rng], tuple[Data, Function, float]]
    of: tuple[str, ...] = ("x",)
    noise: float = 0.05
    others: tuple[str, ...] = ("u", "u**2", "dx(u)", "u*dx(u)")
    constant: bool = False

    @property
    def library(self) -> Library:
        """The candidates."""
        return Library({"u": ["div(k*grad(u))", *self.others]}, unknown={"k": self.of})


def _state(x: Array, rng: Rng, low: float, high: float) -> Array:
    """A sum of waves between two values."""
    phases = [(rng.standard_normal(), rng.uniform(0, 2 * np.pi)) for _ in range(_WAVES)]
    w = np.sum([a * np.cos(np.pi * (m + 1) * x / _LENGTH + p) for m, (a, p) in enumerate(phases)], axis=0)
    return np.asarray(low + (high - low) * (w - w.min()) / np.ptp(w))


def _sampled(u: Array, cells: int, times: Array) -> Data:
    """Every so many cells, at the face between two of them."""
    i = np.arange(_NODES) * cells + cells // 2
    x = i * _LENGTH / (_NODES * cells)
    return Data.from_arrays({"u": 0.5 * (u[:, i - 1] + u[:, i])}, times=times, geometry=Grid(x=x))


def _modes(k: Function, x_faces: Array, x_cells: Array, wave: float) -> tuple[Array, Array]:
    """Eigenvalues and vectors of (k u_x)_x − wave² k u by finite volumes, without flux at the ends."""
    between = k(x_faces) / (x_cells[1] - x_cells[0]) ** 2
    A = np.diag(-np.append(between, 0) - np.append(0, between) - wave**2 * k(x_cells))
    values, vectors = np.linalg.eigh(A + np.diag(between, 1) + np.diag(between, -1))
    return np.asarray(values, dtype=np.float64), np.asarray(vectors, dtype=np.float64)


def _line(function: Callable[[Rng], tuple[Function, float]]) -> Callable[[Rng], tuple[Data, Function, float]]:
    """Diffusion with k(x) on a line."""

    def draw(rng: Rng) -> tuple[Data, Function, float]:
        k, place = function(rng)
        n = _NODES * _FINE
        h, t = _LENGTH / n, np.linspace(0, 2, _FRAMES)
        x: Array = (np.arange(n, dtype=np.float64) + 0.5) * h
        values, vectors = _modes(k, np.asarray(np.arange(1, n) * h, dtype=np.float64), x, 0.0)
        u = np.asarray((np.exp((values - _DECAY) * t[:, None]) * (vectors.T @ _state(x, rng, 0, 2))) @ vectors.T)
        return _sampled(u, _FINE, t), k, place

    return draw


def _nonlinear(D: Function) -> Callable[[Rng], tuple[Data, Function, float]]:
    """Diffusion with D(u) on a line."""

    def draw(rng: Rng) -> tuple[Data, Function, float]:
        n, t = _NODES * 2, np.linspace(0, 2, _FRAMES)
        h = _LENGTH / n
        x: Array = (np.arange(n, dtype=np.float64) + 0.5) * h

        def rate(_: float, u: Array) -> Array:
            flux = D(0.5 * (u[1:] + u[:-1])) * np.diff(u) / h
            return np.asarray(np.diff(np.concatenate([[0.0], flux, [0.0]])) / h - _DECAY * u)

        settings = {"method": "LSODA", "lband": 1, "uband": 1, "rtol": 1e-8, "atol": 1e-9}
        made = solve_ivp(rate, (0, 2), _state(x, rng, 0.2, 2), t_eval=t, **settings)
        return _sampled(made.y.T, 2, t), D, np.nan

    return draw


def _step(rng: Rng) -> tuple[Function, float]:
    place, (a, b) = rng.uniform(3, 7), rng.permutation([0.5, 1.5])
    return lambda x: np.where(x < place, a, b), place


def _bump(rng: Rng) -> tuple[Function, float]:
    place = rng.uniform(3, 7)
    return lambda x: 0.6 + 0.8 * np.exp(-((x - place) ** 2) / 1.28), np.nan


def _sensors(rng: Rng) -> tuple[Data, Function, float]:
    """A step in k(x) on a plane: one line for every wave across, each with its own modes."""
    place, (a, b) = rng.uniform(0.7, 1.3), rng.permutation([0.04, 0.08])

    def k(x: Array) -> Array:
        return np.asarray(np.where(x < place, a, b))

    mesh, _ = mesh_through(rng.uniform([0, 0], [2, 1], (_SENSORS, 2)))
    n, t = 400, np.linspace(0, 1, 100)
    x = (np.arange(n) + 0.5) * 2 / n
    u = np.zeros((len(t), mesh.n_nodes))
    for across in range(3):
        phases = [(rng.standard_normal(), rng.uniform(0, 2 * np.pi)) for _ in range(5)]
        start = np.sum([c * np.cos(p * np.pi * x / 2 + phase) for p, (c, phase) in enumerate(phases)], axis=0)
        values, vectors = _modes(k, np.arange(1, n) * 2 / n, x, across * np.pi)
        line = (np.exp(values * t[:, None]) * (vectors.T @ start)) @ vectors.T
        along = np.array([np.interp(mesh.points[:, 0], x, row) for row in line])
        u += along * np.cos(across * np.pi * mesh.points[:, 1])
    return Data(t, {"u": u}, mesh), k, place


def _plane(rng: Rng) -> tuple[Data, Function, float]:
    """A bump in k(x, y), by finite volumes."""
    place, n = rng.uniform(0.35, 0.65, 2), 80
    h = 1 / n
    x = (np.arange(n) + 0.5) * h

    def k(x: Array, y: Array) -> Array:
        return np.asarray(0.02 + 0.03 * np.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / 0.05))

    X, Y = np.meshgrid(x, x, indexing="ij")
    along, across = k(X[:-1] + h / 2, Y[:-1]), k(X[:, :-1], Y[:, :-1] + h / 2)
    start = np.sum([rng.standard_normal() * np.cos(p * np.pi * X + rng.uniform(0, 6)) * np.cos(q * np.pi * Y)
                    for p in range(4) for q in range(4)], axis=0)  # fmt: skip

    def rate(_: float, v: Array) -> Array:
        u = v.reshape(n, n)
        out = np.zeros_like(u)
        fx, fy = along * np.diff(u, axis=0) / h**2, across * np.diff(u, axis=1) / h**2
        out[:-1] += fx
        out[1:] -= fx
        out[:, :-1] += fy
        out[:, 1:] -= fy
        return out.ravel()

    t = np.linspace(0, 1, 41)
    u = solve_ivp(rate, (0, 1), start.ravel(), t_eval=t, rtol=1e-7, atol=1e-8).y.T.reshape(-1, n, n)
    u = 0.25 * (u[:, ::2, ::2] + u[:, 1::2, ::2] + u[:, ::2, 1::2] + u[:, 1::2, 1::2])  # means over 2 × 2 cells
    axis = x.reshape(-1, 2).mean(axis=1)
    return Data.from_arrays({"u": u}, times=t, geometry=Grid(x=axis, y=axis)), k, np.nan


CASES: dict[str, FunctionProblem] = {
    "step": FunctionProblem(_line(_step)),
    "bump": FunctionProblem(_line(_bump)),
    "flat": FunctionProblem(_line(lambda _: (np.ones_like, np.nan)), constant=True),
    "porous": FunctionProblem(_nonlinear(lambda u: 0.2 + 0.3 * u**2), ("u",)),
    "sigmoid": FunctionProblem(_nonlinear(lambda u: 0.3 + 0.7 / (1 + np.exp(-6 * (u - 1)))), ("u",)),
    "even": FunctionProblem(_nonlinear(lambda u: 0.6 + 0 * u), ("u",), constant=True),
    "sensors": FunctionProblem(_sensors, noise=0.02, others=("u",)),
    "plane": FunctionProblem(_plane, ("x", "y"), noise=0.02, others=("u", "u**2")),
}


@dataclass(frozen=True)
class FunctionRun:
    """One draw.

    Attributes
    ----------
    covered
        Part of the domain that the data visited in which the band holds the function; NaN of a constant.
    constant
        Whether it was found to be constant.
    off
        Distance from the place of the step to that of the step nearest to the estimate.
    others
        Further operators that were selected.
    """

    covered: float
    constant: bool
    off: float
    others: tuple[str, ...]
    verdict: str
    seconds: float
    fixed_seconds: float


def repeat(name: str, number: int, seed: int, *, timed: bool = True) -> FunctionRun:
    """Draw a case and discover it."""
    problem = CASES[name]
    rng = np.random.default_rng([seed, list(CASES).index(name), number])
    clean, truth, place = problem.draw(rng)
    data = add_noise(clean, {"u": problem.noise * float(np.std(clean.fields["u"]))}, rng)
    begin = time.process_time()
    try:
        found = discover(data, problem.library)
    except BvsiError as error:
        return FunctionRun(np.nan, False, np.nan, (), f"no answer: {error}", time.process_time() - begin, np.nan)
    seconds = time.process_time() - begin
    covered, off = (np.nan, np.nan) if not found.functions else _judged(found, clean, truth, place)
    fixed = _fixed_seconds(problem, data, truth) if timed else np.nan
    others = tuple(found.names[i] for i in found.shown if "k*" not in found.names[i])
    constant = any(f.constant for f in found.functions)
    return FunctionRun(covered, constant, off, others, found.verdict, seconds, fixed)


def _judged(found: Discovery, clean: Data, truth: Function, place: float) -> tuple[float, float]:
    """Coverage over what the data visited, and how far off the step is."""
    of = found.functions[0].function.of
    points = None if of != ("u",) else {"u": np.linspace(clean.fields["u"].min(), clean.fields["u"].max(), 201)}
    band = found.function("k", points)
    axes = np.meshgrid(*(band[v].values for v in of), indexing="ij")
    true = truth(*axes)
    covered = float(np.mean((band["lower"].values <= true) & (true <= band["upper"].values)))
    if not np.isfinite(place):
        return covered, np.nan
    return covered, abs(_located(axes[0], band["mean"].values, band["variance"].values) - place)


def _located(x: Array, mean: Array, variance: Array) -> float:
    """The place of the step that is nearest to an estimate, by least squares weighted with its error bars."""
    w = 1 / variance
    misfits = []
    for i in range(1, len(x)):
        sides = (slice(0, i), slice(i, None))
        misfits.append(sum(float(w[s] @ (mean[s] - np.average(mean[s], weights=w[s])) ** 2) for s in sides))
    return float(x[1 + int(np.argmin(misfits))])


def _fixed_seconds(problem: FunctionProblem, data: Data, truth: Function) -> float:
    """CPU seconds with the function fixed at the spline nearest to the true one."""
    given = problem.library.located([data], {})
    function = given.unknown["k"]
    axes = np.meshgrid(*function.axes().values(), indexing="ij")
    points = np.stack([a.ravel() for a in axes], axis=1)
    c = np.linalg.lstsq(function.design(points), truth(*axes).ravel(), rcond=None)[0]
    begin = time.process_time()
    discover(data, given.with_functions({"k": function.tree(np.asarray(c, dtype=np.float64))}))
    return time.process_time() - begin


def summary(name: str, outcomes: Sequence[FunctionRun]) -> str:
    """One line of a case."""
    problem = CASES[name]
    verdicts = {verdict: sum(o.verdict == verdict for o in outcomes) for verdict in {o.verdict for o in outcomes}}
    ratios = [o.seconds / o.fixed_seconds for o in outcomes if np.isfinite(o.fixed_seconds)]
    flat, n = sum(o.constant for o in outcomes), len(outcomes)
    told = f"constant {flat} of {n}" if problem.constant else f"covered {np.nanmean([o.covered for o in outcomes]):.3f}"
    if name == "sensors":
        within = sum(o.off <= _SPACING for o in outcomes)
        told += f", step within {_SPACING:.3f} in {within} of {n} (largest {np.nanmax([o.off for o in outcomes]):.3f})"
    wanted = ("u",) if problem.others[0] == "u" and name not in ("sensors", "plane") else ()
    right = sum(o.others == wanted for o in outcomes)
    return (
        f"{name}: {told}; other operators right {right} of {n}; {verdicts}; median CPU "
        f"{np.median([o.seconds for o in outcomes]):.1f} s, {np.median(ratios) if ratios else np.nan:.1f} times that "
        "with a fixed function"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print a line for each repeat and case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=[*CASES], default=[*CASES])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    outcomes: dict[str, list[FunctionRun]] = {name: [] for name in given.cases}
    for number in range(given.repeats):  # all cases have as many, wherever it is cut off
        for name in given.cases:
            one = repeat(name, number, given.seed, timed=number < _TIMED)
            outcomes[name].append(one)
            told = "constant" if one.constant else f"covered {one.covered:.3f}"
            place = f", step off by {one.off:.3f}" if np.isfinite(one.off) else ""
            others = ", ".join(one.others) or "nothing"
            times = f"{one.seconds:.1f} CPU s, fixed {one.fixed_seconds:.1f}"
            sys.stdout.write(f"{name} {number}: {told}{place}; {one.verdict}; beside it {others}; {times}\n")
            sys.stdout.flush()
    for name in given.cases:
        sys.stdout.write(summary(name, outcomes[name]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
