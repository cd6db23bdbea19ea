"""Burgers' equation: a hump that steepens into a front.

u_t = −u u_x + ν u_xx,   ν = 0.1,   on [−8, 8) periodic,   u(x, 0) = e^{−(x+2)²},   t ∈ [0, 10]

Error with the defaults: 3e-9.
"""

from __future__ import annotations

import numpy as np

from bvsi.data import Data
from bvsi.studies.problems.classics.candidates import powers
from bvsi.studies.problems.classics.case import Classic
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled

VISCOSITY = 0.1
BOX = Box(-8.0, 16.0)
EQUATION = SemiLinear(lambda k: -VISCOSITY * k**2, lambda k: -0.5j * k, np.square, degree=2)

_MODES = 512
_STEP = 0.01


def simulate(nodes: int = 256, times: int = 101, final: float = 10.0) -> Data:
    """Accurate data at ``nodes`` nodes and ``times`` times in [0, final]."""
    (x,) = BOX.points(_MODES)
    t = np.linspace(0, final, times)
    return sampled({"u": EQUATION.solve(np.exp(-((x + 2) ** 2)), BOX, t, _STEP)}, t, BOX, nodes)


CASE = Classic(
    name="burgers",
    equation="u_t = −u u_x + 0.1 u_xx",
    truth={"u*dx(u)": -1.0, "dx(dx(u))": VISCOSITY},
    candidates={"u": powers("u", (3, 3, 3, 3))},
    make=simulate,
)
