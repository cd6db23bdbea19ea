"""The Allen–Cahn equation: two phases form, with interfaces between them, and small regions vanish.

    u_t = ε u_xx + c (u − u³),   ε = 0.003, c = 5,   on [−1, 1) periodic,   t ∈ [0, 1]

An interface is tanh(x/ℓ), ℓ = √(2ε/c) = 0.035: 18 of the 256 nodes lie between −0.96 and 0.96. Error with the
defaults: 1e-8.
"""

from __future__ import annotations

import numpy as np

from bvsi.data import Data
from bvsi.studies.problems.classics.candidates import powers
from bvsi.studies.problems.classics.case import Classic
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled

DIFFUSION = 0.003
RATE = 5.0
BOX = Box(-1.0, 2.0)
EQUATION = SemiLinear(lambda k: RATE - DIFFUSION * k**2, lambda k: -RATE + 0 * k, lambda u: u**3, degree=3)

_MODES = 512
_STEP = 0.005


def simulate(nodes: int = 256, times: int = 101, final: float = 1.0) -> Data:
    """Accurate data at ``nodes`` nodes and ``times`` times in [0, final]."""
    (x,) = BOX.points(_MODES)
    start = 0.1 + 0.3 * np.sin(np.pi * x) + 0.4 * np.cos(3 * np.pi * x) - 0.3 * np.sin(4 * np.pi * x + 1)
    t = np.linspace(0, final, times)
    return sampled({"u": EQUATION.solve(start, BOX, t, _STEP)}, t, BOX, nodes)


CASE = Classic(
    name="allen_cahn",
    equation="u_t = 0.003 u_xx + 5 u − 5 u³",
    truth={"dx(dx(u))": DIFFUSION, "u": RATE, "u**3": -RATE},
    candidates={"u": powers("u", (3, 3, 3, 3))},
    make=simulate,
)
