"""The Korteweg–de Vries equation: a fast soliton overtakes a slow one.

    u_t = −6 u u_x − u_xxx   on [−30, 30) periodic,   t ∈ [0, 20],   u(x, 0) = Σ_c soliton(x − x_c, c)

One soliton, ½ c sech²(½√c (x − ct)), keeps its shape and has speed c. Error with the defaults: 2e-8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.studies.problems.cache import cached
from bvsi.studies.problems.classics.candidates import powers
from bvsi.studies.problems.classics.case import Classic
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled

Array = NDArray[np.float64]

BOX = Box(-30.0, 60.0)
EQUATION = SemiLinear(lambda k: 1j * k**3, lambda k: -3j * k, np.square, degree=2)
SOLITONS = ((2.0, -18.0), (0.6, -3.0))
"""Speed and place at the start."""

_MODES = 384
_STEP = 0.0025


def soliton(x: Array, c: float) -> Array:
    """½ c sech²(½√c x): the soliton of speed c at the time when it is at 0."""
    value: Array = 0.5 * c / np.cosh(0.5 * np.sqrt(c) * x) ** 2
    return value


def simulate(nodes: int = 512, times: int = 201, final: float = 20.0) -> Data:
    """Accurate data at ``nodes`` nodes and ``times`` times in [0, final]."""
    (x,) = BOX.points(_MODES)
    t = np.linspace(0, final, times)
    start = np.sum([soliton(BOX.images(x) - place, c) for c, place in SOLITONS], axis=(0, 1))
    settings = {"version": 1, "modes": _MODES, "step": _STEP, "times": t.tolist()}
    fields = cached("classic-kdv", settings, lambda: {"u": EQUATION.solve(start, BOX, t, _STEP)}, keys=["u"])
    return sampled(fields, t, BOX, nodes)


CASE = Classic(
    name="kdv",
    equation="u_t = −6 u u_x − u_xxx",
    truth={"u*dx(u)": -6.0, "dx(dx(dx(u)))": -1.0},
    candidates={"u": powers("u", (3, 3, 3, 3))},
    make=simulate,
)
