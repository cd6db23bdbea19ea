"""Whether stated probabilities of operators are right, in residual space: reliability over drawn equations.

``python -m bvsi.studies.structures --seed 0`` draws u_t = 0.2 ∇²u − u u_x + Σ_i θ_i F_i, F among u, u², u³ and u_x,
each there in a fifth of the draws, with coefficients from the prior that is stated, θ ~ N(0, g A⁻¹): of the size of
some of their error bars. 128 nodes × 61 frames with 10% noise. P(in) with that prior, and with the usual one, which
expects larger coefficients, is compared with how often operators are there.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

from bvsi.common.arrays import Array, Rng
from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.studies.assay import reliability, reliability_figure

KEPT = ("laplacian(u)", "u*dx(u)")
"""Operators that are always there."""
EXTRA = ("u", "u**2", "u**3", "dx(u)")
"""Those of which some are."""
ODDS = 0.25
"""That an operator is there."""
G = 100.0
"""g of the prior: coefficients of about ten error bars."""
_CORE = np.array([0.2, -1.0])
_LENGTH, _NODES, _TIMES = 20.0, 128, np.linspace(0.0, 3.0, 61)
_NOISE = 0.1
_WAVES = 4  # of an initial state


def solved(start: Array, extra: Array) -> Data:
    """u with coefficients of the extra operators, by Fourier series in space."""
    k = 2 * np.pi * np.fft.rfftfreq(_NODES, _LENGTH / _NODES)

    def rate(_: float, u: Array) -> Array:
        hat = np.fft.rfft(u)
        ux, uxx = np.fft.irfft(1j * k * hat, _NODES), np.fft.irfft(-(k**2) * hat, _NODES)
        terms = np.array([uxx, u * ux, u, u**2, u**3, ux])
        return np.asarray(np.append(_CORE, extra) @ terms)

    made = solve_ivp(rate, _TIMES[[0, -1]], start, t_eval=_TIMES, rtol=1e-7, atol=1e-9)
    x = np.linspace(0, _LENGTH, _NODES, endpoint=False)
    return Data(_TIMES, {"u": made.y.T}, Grid(x=x, periodic={"x": _LENGTH}))


def state(rng: Rng) -> Array:
    """Some waves of the size one."""
    x, m = 2 * np.pi * np.arange(_NODES) / _NODES, np.arange(1, _WAVES + 1)[:, None]
    u = rng.standard_normal(_WAVES) @ np.cos(m * x + rng.uniform(0, 2 * np.pi, _WAVES)[:, None])
    return np.asarray(u / np.std(u))


def noisy(data: Data, rng: Rng) -> Data:
    """With the noise of the study."""
    u = data.fields["u"]
    return data.with_fields({"u": u + _NOISE * rng.standard_normal(u.shape)})


def trial(rng: Rng) -> list[tuple[float, float, bool]]:
    """P(in) with the prior of the draw and with the usual one, and whether it is in, of each extra operator."""
    start = state(rng)
    every = Library({"u": [*KEPT, *EXTRA]}, keep=[*KEPT, *EXTRA])
    base = discover(noisy(solved(start, np.zeros(len(EXTRA))), rng), every, noise=IID(_NOISE), check=False)
    at = [base.names.index(name) for name in EXTRA]
    inside = rng.random(len(EXTRA)) < ODDS / (1 + ODDS)
    A = np.linalg.inv(base.posterior.covariance[np.ix_(at, at)])[np.ix_(inside, inside)]
    theta = np.zeros(len(EXTRA))
    theta[inside] = rng.multivariate_normal(np.zeros(inside.sum()), G * np.linalg.inv(A)) if inside.any() else ()
    library = Library({"u": [*KEPT, *EXTRA]}, keep=list(KEPT))
    found = discover(noisy(solved(start, theta), rng), library, noise=IID(_NOISE), check=False)
    drawn, usual = found.inclusion(math.sqrt(G / found.residuals), ODDS), found.inclusion()
    return [(drawn[name], usual[name], bool(own)) for name, own in zip(EXTRA, inside, strict=True)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Reliability of P(in) in residual space."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.structures", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=0, help="decides equations and noise (default 0)")
    parser.add_argument("--runs", type=int, default=100, help="equations (default 100)")
    parser.add_argument("--figure", type=Path, help="file for the reliability diagram, such as p_in.svg")
    chosen = parser.parse_args(arguments)
    stated = []
    for run in range(chosen.runs):
        stated += trial(np.random.default_rng([chosen.seed, run]))
        for drawn, usual, there in stated[-len(EXTRA) :]:
            sys.stderr.write(f"{run} {drawn:.4f} {usual:.4f} {there}\n")
    both = {
        "prior of the draws": [(p, there) for p, _, there in stated],
        "usual prior": [(p, there) for _, p, there in stated],
    }
    for what, pairs in both.items():
        sys.stdout.write(f"## {what}\n\n{reliability(pairs, both=False)}\n")
    if chosen.figure is not None:
        reliability_figure(both, chosen.figure)


if __name__ == "__main__":
    main()
