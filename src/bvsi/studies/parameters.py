"""Parameters inside operators, estimated and selected from noisy data: rates over drawn cases.

``python -m bvsi.studies.parameters --cases michaelis hill --repeats 20 --seed 1`` draws new initial states and noise
for every repeat, discovers the equation among candidates, and reports how often the operators are right, coverage of
the 95% intervals of coefficients and parameters, verdicts, and the CPU time over that with the parameters fixed at
their true values. 5% noise; 128 nodes × 101 frames, or 801 samples:

    michaelis   u_t = 0.2 ∇²u − u/(K + u),  K = 0.5
    hill        u_t = 0.2 ∇²u − 0.8 u + 2 uⁿ/(Kⁿ + uⁿ),  K = 1,  n = 3
    porous      u_t = 0.3 ∇²(uᵐ),  m = 2.5
    predator    x' = x − x²/3 − 1.5 x y/(K + x),  y' = −0.4 y + x y/(K + x),  K = 1 in both

    arrhenius   u_t = 0.2 ∇²u − k exp(−E/T) u,  k = 20,  E = 3,  six experiments of 31 frames with T from 0.8 to 1.3

    delay       u' = r u (1 − u(t − τ)),  r = 1.2,  τ = 1.6 (Hutchinson), on its cycle, with u², u³, u(t − τ) beside it
    apart       u_t = D_e ∇²u − u/(K_e + u) in two experiments,  D = 0.2 and 0.3,  K = 0.5 and 1

    product     as michaelis, u/(1 + a b u): only a·b is known, and it counts as right where that is said
    beyond      u_t = 0.2 ∇²u − u with u/(K + u), K between 5 and 5000: the data do not know K, and that has to be said
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.errors import BvsiError
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.operators.experiments import with_marks, written_out

Array = NDArray[np.float64]
Rng = np.random.Generator

_COVERED = 1.96
_NOISE = 0.05
_LENGTH, _NODES, _FRAMES, _SAMPLES = 20.0, 128, 101, 801
_WAVES = 4  # of an initial state
_TIMED = 5  # repeats whose model is fitted with fixed parameters too


@dataclass(frozen=True)
class ParameterProblem:
    """What is drawn, and what is looked for.

    Attributes
    ----------
    draw
        Data without noise.
    operators, parameters
        Candidates by equation, and bounds.
    truth
        Coefficients and parameters by name.
    said
        What has to be said of the parameters; empty where they are identified.
    per_experiment
        What differs by experiment.
    """

    draw: Callable[[Rng], Data | list[Data]]
    operators: Mapping[str, Sequence[str]]
    parameters: Mapping[str, tuple[float, float]]
    truth: Mapping[str, float]
    said: str = ""
    per_experiment: Sequence[str] = ()

    def library(self, *, fixed: int = 0) -> Library:
        """The candidates; with the true values of the parameters where they are fixed, of so many experiments."""
        free = Library(self.operators, parameters=self.parameters, per_experiment=self.per_experiment)
        if not fixed:
            return free
        free = written_out(free, fixed)
        at = free.at({name: self.truth.get(name, 1.0) for name in free.parameters})
        return Library({f: [o.syntax.text for o in at.of_equation(f)] for f in self.operators})


def _line(
    rate: Callable[[Array, Callable[[Array], Array]], Array], end: float, low: float, high: float
) -> Callable[[Rng], Data]:
    """Draws of u_t = rate(u, ∇²) on a periodic line from states between two values."""

    def draw(rng: Rng) -> Data:
        x = np.arange(_NODES) * _LENGTH / _NODES
        k = 2 * np.pi * np.fft.rfftfreq(_NODES, _LENGTH / _NODES)
        waves = [
            rng.standard_normal() * np.cos(2 * np.pi * m * x / _LENGTH + rng.uniform(0, 2 * np.pi))
            for m in range(1, _WAVES + 1)
        ]
        start = np.sum(waves, axis=0)
        start = low + (high - low) * (start - start.min()) / np.ptp(start)
        t = np.linspace(0, end, _FRAMES)

        def laplacian(w: Array) -> Array:
            return np.asarray(np.fft.irfft(-(k**2) * np.fft.rfft(w), _NODES))

        made = solve_ivp(
            lambda _, u: rate(u, laplacian), (0, end), start, method="LSODA", t_eval=t, rtol=1e-8, atol=1e-9
        )
        grid = Grid(x=x, periodic={"x": _LENGTH})
        return Data.from_arrays({"u": made.y.T}, times=t, geometry=grid)

    return draw


def _decay(k: float) -> Callable[[Array, Callable[[Array], Array]], Array]:
    return lambda u, laplacian: 0.2 * laplacian(u) - k * u


def _temperatures(rng: Rng) -> list[Data]:
    """Experiments at several temperatures, which are known fields of one value."""
    found = []
    for T in np.linspace(0.8, 1.3, 6):
        frames = _line(_decay(20 * float(np.exp(-3 / T))), 1.5, 0.5, 3.0)(rng).select_times(slice(None, None, 3))
        found.append(replace(frames, auxiliary={"T": np.full(_NODES, T)}))
    return found


def _apart(rng: Rng) -> list[Data]:
    """Two experiments with values of their own."""
    made = []
    for D, K in ((0.2, 0.5), (0.3, 1.0)):
        made.append(_line(lambda u, laplacian, D=D, K=K: D * laplacian(u) - u / (K + u), 4.0, 0.5, 3.0)(rng))  # type: ignore[misc]
    return [with_marks(one, number, len(made)) for number, one in enumerate(made)]


def _delay(rng: Rng) -> Data:
    """Hutchinson's equation by Runge–Kutta steps, with what was before them half-way between its steps."""
    step, r, back = 0.005, 1.2, 320  # a delay of 1.6
    first, count = round(rng.uniform(30, 40) / step), round(40 / step)
    u = np.full(back + first + count + 1, rng.uniform(0.3, 1.5))
    for i in range(back, len(u) - 1):
        past = u[i - back], 0.5 * (u[i - back] + u[i - back + 1]), u[i - back + 1]
        k1 = r * u[i] * (1 - past[0])
        k2 = r * (u[i] + 0.5 * step * k1) * (1 - past[1])
        k3 = r * (u[i] + 0.5 * step * k2) * (1 - past[1])
        k4 = r * (u[i] + step * k3) * (1 - past[2])
        u[i + 1] = u[i] + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return Data.from_arrays({"u": u[back + first :: 10]}, times=np.linspace(0, 40, _SAMPLES), geometry=Grid())


def _predator(rng: Rng) -> Data:
    t = np.linspace(0, 40, _SAMPLES)

    def rate(_: float, v: Array) -> list[float]:
        eaten = v[0] * v[1] / (1 + v[0])
        return [v[0] - v[0] ** 2 / 3 - 1.5 * eaten, eaten - 0.4 * v[1]]

    start = [rng.uniform(1, 2), rng.uniform(0.4, 0.8)]
    made = solve_ivp(rate, (0, 40), start, t_eval=t, rtol=1e-9, atol=1e-10).y
    return Data.from_arrays({"x": made[0], "y": made[1]}, times=t, geometry=Grid())


_REST = ("laplacian(u)", "u", "u**2", "dx(u)", "u*dx(u)")
_SATURATING = _line(lambda u, laplacian: 0.2 * laplacian(u) - u / (0.5 + u), 4.0, 0.5, 3.0)

CASES: dict[str, ParameterProblem] = {
    "michaelis": ParameterProblem(
        _SATURATING,
        {"u": (*_REST, "u**3", "u/(K + u)")},
        {"K": (0.05, 5.0)},
        {"laplacian(u)": 0.2, "u/(K + u)": -1.0, "K": 0.5},
    ),
    "hill": ParameterProblem(
        _line(lambda u, laplacian: 0.2 * laplacian(u) + 2 * u**3 / (1 + u**3) - 0.8 * u, 5.0, 0.2, 3.0),
        {"u": (*_REST, "u**n/(K**n + u**n)")},
        {"K": (0.2, 5.0), "n": (1.0, 6.0)},
        {"laplacian(u)": 0.2, "u": -0.8, "u**n/(K**n + u**n)": 2.0, "K": 1.0, "n": 3.0},
    ),
    "porous": ParameterProblem(
        _line(lambda u, laplacian: 0.3 * laplacian(u**2.5), 6.0, 0.4, 2.0),
        {"u": ("laplacian(u**m)", "u", "u**2", "dx(u)", "u*dx(u)")},
        {"m": (1.0, 4.0)},
        {"laplacian(u**m)": 0.3, "m": 2.5},
    ),
    "predator": ParameterProblem(
        _predator,
        {"x": ("x", "x**2", "y", "x*y", "x*y/(K + x)"), "y": ("y", "y**2", "x", "x*y", "x*y/(K + x)")},
        {"K": (0.1, 10.0)},
        {
            "x: x": 1.0,
            "x: x**2": -1 / 3,
            "x: x*y/(K + x)": -1.5,
            "y: y": -0.4,
            "y: x*y/(K + x)": 1.0,
            "x: K": 1.0,
            "y: K": 1.0,
        },
    ),
    "arrhenius": ParameterProblem(
        _temperatures,
        {"u": ("laplacian(u)", "u", "u**2", "dx(u)", "exp(-E/T)*u")},
        {"E": (0.5, 10.0)},
        {"laplacian(u)": 0.2, "exp(-E/T)*u": -20.0, "E": 3.0},
    ),
    "delay": ParameterProblem(
        _delay,
        {"u": ("1", "u", "u**2", "u**3", "lag(u, tau)", "u*lag(u, tau)")},
        {"tau": (0.4, 4.0)},
        {"u": 1.2, "u*lag(u, tau)": -1.2, "tau": 1.6},
    ),
    "apart": ParameterProblem(
        _apart,
        {"u": ("laplacian(u)", "u", "u**2", "dx(u)", "u/(K + u)")},
        {"K": (0.05, 5.0)},
        {
            "laplacian(u)*experiment_1": 0.2,
            "laplacian(u)*experiment_2": 0.3,
            "u/(K + u)": -1.0,
            "K_1": 0.5,
            "K_2": 1.0,
        },
        per_experiment=("K", "laplacian(u)"),
    ),
    "product": ParameterProblem(
        _SATURATING,
        {"u": ("laplacian(u)", "u**2", "dx(u)", "u/(1 + a*b*u)")},
        {"a": (0.2, 10.0), "b": (0.2, 10.0)},
        {"laplacian(u)": 0.2, "u/(1 + a*b*u)": -2.0},
        said="only a·b",
    ),
    "beyond": ParameterProblem(
        _line(lambda u, laplacian: 0.2 * laplacian(u) - u, 2.0, 0.5, 3.0),
        {"u": ("laplacian(u)", "dx(u)", "u*dx(u)", "u/(K + u)")},
        {"K": (5.0, 5000.0)},
        {"laplacian(u)": 0.2},
        said="K is not identified",
    ),
}


@dataclass(frozen=True)
class ParameterRun:
    """One draw: whether the operators are right, z by name, what is said of the parameters, verdict, CPU seconds."""

    right: bool
    z: Mapping[str, float]
    said: str
    verdict: str
    seconds: float
    fixed_seconds: float


def repeat(name: str, number: int, seed: int, *, timed: bool = True) -> ParameterRun:
    """Draw a case and discover it."""
    problem = CASES[name]
    rng = np.random.default_rng([seed, list(CASES).index(name), number])
    clean = problem.draw(rng)
    data = [
        add_noise(one, {f: _NOISE * float(np.std(v)) for f, v in one.fields.items()}, rng)
        for one in (clean if isinstance(clean, list) else [clean])
    ]
    seconds = []
    for fixed in (True, False) if timed and not problem.said else (False,):
        begin = time.process_time()
        try:
            found = discover(data, problem.library(fixed=len(data) if fixed else 0))
        except BvsiError as error:
            return ParameterRun(False, {}, "", f"no answer: {error}", time.process_time() - begin, np.nan)
        seconds.append(time.process_time() - begin)
    said = " ".join(found.doubts)
    values = dict(zip(found.names, zip(found.theta, found.sd, strict=True), strict=True))
    z = {key: (values[key][0] - true) / values[key][1] for key, true in problem.truth.items() if key in values}
    right = problem.said in said if problem.said else {*found.names} == {*problem.truth}
    return ParameterRun(right, z, said, found.verdict, seconds[-1], seconds[0] if len(seconds) > 1 else np.nan)


def summary(name: str, outcomes: Sequence[ParameterRun]) -> str:
    """One line of a case."""
    right = [one for one in outcomes if one.right]
    by_name = [f"{key} {np.mean([abs(o.z[key]) < _COVERED for o in right]):.2f}" for key in CASES[name].truth if right]
    z = np.array([value for one in right for key, value in one.z.items() if key != "y: K"])
    verdicts = {verdict: sum(o.verdict == verdict for o in outcomes) for verdict in {o.verdict for o in outcomes}}
    ratios = [o.seconds / o.fixed_seconds for o in outcomes if np.isfinite(o.fixed_seconds)]
    ratio = np.median(ratios) if ratios else np.nan
    covered = (
        "" if CASES[name].said else f"covered {np.mean(np.abs(z) < _COVERED):.3f} of {len(z)} ({', '.join(by_name)})"
    )
    return (
        f"{name}: right {len(right)} of {len(outcomes)}; {covered}; {verdicts}; median CPU "
        f"{np.median([o.seconds for o in outcomes]):.1f} s, {ratio:.1f} times that with fixed parameters"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print a line for each repeat and case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=[*CASES], default=[*CASES])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    outcomes: dict[str, list[ParameterRun]] = {name: [] for name in given.cases}
    for number in range(given.repeats):  # all cases have as many, wherever it is cut off
        for name in given.cases:
            one = repeat(name, number, given.seed, timed=number < _TIMED)
            outcomes[name].append(one)
            z = ", ".join(f"{key} {value:+.2f}" for key, value in one.z.items())
            right = "right" if one.right else "wrong"
            times = f"{one.seconds:.1f} CPU s, fixed {one.fixed_seconds:.1f}"
            sys.stdout.write(f"{name} {number}: {right}, {one.verdict}, z {z}; {times}. {one.said}\n")
            sys.stdout.flush()
    for name in given.cases:
        sys.stdout.write(summary(name, outcomes[name]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
