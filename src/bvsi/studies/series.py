"""Systems without space found from noisy series, beside PySINDy: rates over drawn trajectories.

``python -m bvsi.studies.series --seed 1 --repeats 20 --noise 0.01 0.05 0.1 0.2 --out DIR`` draws new start and noise
for every repeat and looks for the equations among all monomials to degree 3. Noise is given in standard deviations of
each field. It reports TPR = TP/(TP + FN + FP), how often all operators are right, the median of the largest relative
error of a coefficient, coverage of 95% intervals of true operators, verdicts, and CPU time.

Where PySINDy is installed two of its methods stand beside it, on the same data and candidates: its default (differences
of the data) and its weak form. An oracle that knows the truth chooses threshold and ridge of STLSQ for the lowest error
of a coefficient.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import write_whole
from bvsi.common.progress import Progress, progress_bar
from bvsi.data import Data
from bvsi.discovery import discover
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.noise import add_noise
from bvsi.operators import Library, polynomials
from bvsi.studies.benchmarks.discovery.metrics import covered, largest_relative_error, true_positive_ratio
from bvsi.studies.benchmarks.discovery.peer import global_seed, pysindy_module

Array = NDArray[np.float64]
Rng = np.random.Generator

_DEGREE = 3
_THRESHOLDS = np.geomspace(1e-3, 10, 30)  # of PySINDy, from which an oracle chooses
_RIDGES = (0.05, 1e-12)  # of PySINDy: its default, and none
_WINDOWS = 200  # test functions of PySINDy's weak form, twice its default


@dataclass(frozen=True)
class System:
    """A system u_t = Σ θ_i F_i(u).

    Attributes
    ----------
    equations
        Coefficients θ by operator and field.
    low, high
        Box from which the start is drawn.
    final, count
        Time that is observed, and how many samples.
    settle
        Time before, which is not observed.
    functions
        Candidates beside the monomials, such as ``sin``.
    """

    equations: Mapping[str, Mapping[str, float]]
    low: tuple[float, ...]
    high: tuple[float, ...]
    final: float
    count: int
    settle: float = 0.0
    functions: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(self.equations)

    @property
    def truth(self) -> dict[str, float]:
        """Coefficients by the names that the library gives the operators."""
        return {self.named(f, text): value for f, own in self.equations.items() for text, value in own.items()}

    def named(self, field: str, text: str) -> str:
        """The name that the library gives an operator of the equation of a field."""
        return text if len(self.equations) == 1 else f"{field}: {text}"

    @property
    def library(self) -> Library:
        """All monomials to degree 3, and functions of the fields."""
        candidates = polynomials(self.fields, _DEGREE, functions=self.functions)
        return Library(dict.fromkeys(self.fields, candidates))

    @cached_property
    def _slope(self) -> Any:
        import sympy as sp

        symbols = sp.symbols(self.fields)
        names = dict(zip(self.fields, symbols, strict=True))
        sides = [sum(v * sp.sympify(text, names) for text, v in own.items()) for own in self.equations.values()]
        return sp.lambdify(symbols, sides)

    def draw(self, rng: Rng) -> Data:
        """A trajectory without noise."""
        from scipy.integrate import solve_ivp

        start, times = rng.uniform(self.low, self.high), np.linspace(0, self.final, self.count)
        solved = solve_ivp(
            lambda _, u: self._slope(*u),
            (-self.settle, self.final),
            np.atleast_1d(start),
            t_eval=times,
            method="DOP853",
            rtol=1e-10,
            atol=1e-10,
        )
        return Data.from_arrays(dict(zip(self.fields, solved.y, strict=True)), times=times)


SYSTEMS: Mapping[str, System] = {
    "lorenz": System(
        {"x": {"x": -10.0, "y": 10.0}, "y": {"x": 28.0, "y": -1.0, "x*z": -1.0}, "z": {"z": -8 / 3, "x*y": 1.0}},
        (-10, -10, 15), (10, 10, 35), 10.0, 1001, 2.0,
    ),
    "lotka-volterra": System(
        {"x": {"x": 1.0, "x*y": -0.5}, "y": {"y": -0.75, "x*y": 0.25}}, (2, 1), (5, 3), 25.0, 501,
    ),
    "fitzhugh-nagumo": System(
        {"v": {"1": 0.5, "v": 1.0, "v**3": -1 / 3, "w": -1.0}, "w": {"1": 0.056, "v": 0.08, "w": -0.064}},
        (-2, -0.5), (2, 1.5), 150.0, 1501,
    ),
    "roessler": System(
        {"x": {"y": -1.0, "z": -1.0}, "y": {"x": 1.0, "y": 0.2}, "z": {"1": 0.2, "z": -5.7, "x*z": 1.0}},
        (-5, -5, 0), (5, 5, 1), 60.0, 2001, 50.0,
    ),
    "logistic": System({"x": {"x": 1.0, "x**2": -0.5}}, (0.02,), (0.1,), 12.0, 501),
    "pendulum": System(
        {"x": {"y": 1.0}, "y": {"y": -0.1, "sin(x)": -1.0}}, (2.0, -0.3), (2.9, 0.3), 40.0, 801, 0.0, ("sin",),
    ),
    "hindmarsh-rose": System(
        {
            "x": {"1": 3.0, "x**2": 3.0, "x**3": -1.0, "y": 1.0, "z": -1.0},
            "y": {"1": 1.0, "x**2": -5.0, "y": -1.0},
            "z": {"1": 0.0384, "x": 0.024, "z": -0.006},
        },
        (-1.5, -5, 2.8), (1, 0, 3.3), 400.0, 4001, 100.0,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Trajectory:
    """One trajectory: what was found, TPR, largest relative error, coverage, z by true operator, verdict, CPU seconds.

    Attributes
    ----------
    doubted
        Whether the result names doubts, such as models that are nearly as good.
    peers
        TPR, largest relative error and CPU seconds of PySINDy by method; empty where it is not installed.
    """

    system: str
    noise: float
    repeat: int
    names: tuple[str, ...]
    tpr: float
    error: float
    covered: dict[str, bool]
    z: dict[str, float]
    verdict: str
    doubted: bool
    chi2: float
    seconds: float
    peers: dict[str, tuple[float, float, float]]

    @property
    def right(self) -> bool:
        """Whether all operators are the true ones."""
        return self.tpr == 1


def repeat(name: str, noise: float, number: int, seed: int) -> Trajectory:
    """One trajectory with its noise."""
    system = SYSTEMS[name]
    rng = np.random.default_rng([seed, number, *name.encode()])
    clean = system.draw(rng)
    data = add_noise(clean, {f: noise * float(np.std(u)) for f, u in clean.fields.items()}, rng)
    peers = _peers(system, data)
    begin, truth = time.process_time(), system.truth
    try:
        found = discover(data, system.library)
    except BvsiError as error:
        seconds = time.process_time() - begin
        refused = f"refused: {error}"
        return Trajectory(name, noise, number, (), 0.0, 1.0, {}, {}, refused, True, np.nan, seconds, peers)
    seconds = time.process_time() - begin
    theta, sd = (dict(zip(found.names, values, strict=True)) for values in (found.theta, found.sd))
    intervals = {o: (theta[o] - 1.96 * sd[o], theta[o] + 1.96 * sd[o]) for o in found.names}
    return Trajectory(
        name, noise, number, tuple(found.names),
        true_positive_ratio(found.names, truth), largest_relative_error(theta, truth),
        _plain(covered(intervals, truth)),
        {o: float((theta[o] - truth[o]) / sd[o]) for o in found.names if o in truth},
        str(found.verdict), bool(found.doubts), float(found.chi2), seconds, peers,
    )  # fmt: skip


def _plain(hits: Mapping[str, Any]) -> dict[str, bool]:
    return {name: bool(hit) for name, hit in hits.items()}


def _peers(system: System, data: Data) -> dict[str, tuple[float, float, float]]:
    """TPR, largest relative error and CPU seconds of PySINDy's methods, each with the best threshold and ridge."""
    try:
        ps = pysindy_module()
    except MissingDependencyError:
        return {}
    x = np.stack([data.fields[f][:, 0] for f in system.fields], axis=1)
    features: Any = ps.PolynomialLibrary(degree=_DEGREE)
    if system.functions:
        features = features + ps.CustomLibrary(
            [lambda u: np.sin(u)], [lambda u: f"sin({u})"]
        )  # of which it reads __code__

    def default() -> tuple[Any, Any]:
        return features.fit_transform(x), ps.FiniteDifference()(x, data.times)

    def weak() -> tuple[Any, Any]:
        library = ps.WeakPDELibrary(features, spatiotemporal_grid=data.times, K=_WINDOWS)
        library.fit([x])
        return library.transform([x])[0], library.convert_u_dot_integral(x)

    with global_seed(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thresholds that remove everything belong to the ladder
        return {made.__name__: _oracle(system, made) for made in (default, weak)}


def _oracle(system: System, made: Callable[[], tuple[Any, Any]]) -> tuple[float, float, float]:
    """TPR, error and CPU seconds of the fit of the ladder with the lowest error; ``made`` gives features and slopes."""
    ps, truth, begin = pysindy_module(), system.truth, time.process_time()
    texts = polynomials(system.fields, _DEGREE, functions=system.functions)
    Theta, V = (np.asarray(one, dtype=float) for one in made())
    # the triangular factor has the same normal equations in some dozens of rows
    Theta, V = np.split(np.linalg.qr(np.hstack([Theta, V]), mode="r"), [Theta.shape[1]], axis=1)
    found = []
    for ridge, threshold in itertools.product(_RIDGES, _THRESHOLDS):
        rows = np.atleast_2d(ps.STLSQ(threshold=float(threshold), alpha=ridge).fit(Theta, V).coef_)
        pairs = zip(system.fields, rows, strict=True)
        theta = {system.named(f, t): float(v) for f, row in pairs for t, v in zip(texts, row, strict=True) if v}
        found.append((largest_relative_error(theta, truth), -true_positive_ratio(theta, truth)))
    error, tpr = min(found)
    return -tpr, error, time.process_time() - begin


def summary(outcomes: Sequence[Trajectory]) -> str:
    """Rates of one system at one level of noise, in words."""
    n, first = len(outcomes), outcomes[0]
    inside = [hit for o in outcomes for hit in o.covered.values()]
    verdicts = ", ".join(f"{v.split(':')[0]} {c}" for v, c in Counter(o.verdict for o in outcomes).most_common())
    wrong = [o for o in outcomes if o.verdict == "consistent" and not o.right]
    alarmed = sum(o.right and o.verdict != "consistent" for o in outcomes)
    error = float(np.median([o.error for o in outcomes]))
    text = (
        f"{first.system} {100 * first.noise:g}%: TPR {np.mean([o.tpr for o in outcomes]):.3f}, right "
        f"{sum(o.right for o in outcomes)} of {n}, error {100 * error:.2g}%, "
        f"coverage {np.mean(inside) if inside else np.nan:.3f} of {len(inside)}; {verdicts}; {len(wrong)} wrong and "
        f"consistent ({sum(o.doubted for o in wrong)} with doubts), {alarmed} right and alarmed; "
        f"{np.mean([o.seconds for o in outcomes]):.1f} CPU s"
    )
    for peer in first.peers:
        tpr, theirs, seconds = (np.array([o.peers[peer][k] for o in outcomes]) for k in range(3))
        text += f"; PySINDy {peer} TPR {tpr.mean():.2f}, error {100 * np.median(theirs):.2g}%, {seconds.mean():.1f} s"
    return text


def run(
    names: Sequence[str], levels: Sequence[float], repeats: int, seed: int, progress: Progress
) -> Iterator[list[Trajectory]]:
    """All repeats of one system at one level of noise, for each of them; all systems of the first level first."""
    total = len(names) * len(levels) * repeats
    for done, (noise, name) in enumerate(itertools.product(levels, names)):
        outcomes = list[Trajectory]()
        for number in range(repeats):
            outcomes.append(repeat(name, noise, number, seed))
            progress(done * repeats + number + 1, total, "series")
        yield outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--noise", nargs="+", type=float, default=[0.01, 0.05, 0.1, 0.2])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    found = list[Trajectory]()
    with progress_bar() as progress:
        for outcomes in run(given.systems, given.noise, given.repeats, given.seed, progress):
            found += outcomes
            sys.stdout.write(summary(outcomes) + "\n")
            sys.stdout.flush()
            if given.out is not None:  # a run that is stopped leaves what it has
                given.out.mkdir(parents=True, exist_ok=True)
                write_whole(given.out / f"series-{given.seed}.json", json.dumps([asdict(o) for o in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
