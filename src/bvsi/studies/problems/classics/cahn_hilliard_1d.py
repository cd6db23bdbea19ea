"""The Cahn–Hilliard equation on the line: a mixture separates, its mean is kept.

    u_t = (u³ − u)_xx − γ u_xxxx,   γ = 0.5,   on [0, 20π) periodic,   t ∈ [0, 20]

The free energy ∫ ¼(u² − 1)² + ½ γ u_x² falls. Interfaces are tanh(x/√(2γ)): 16 of the 256 nodes lie between −0.96 and
0.96. The start has the modes 1 … 16, 0.1 each at most, with phases of a fixed seed. Error with the defaults: 3e-8.
"""

from __future__ import annotations

import numpy as np

from bvsi.data import Data
from bvsi.studies.problems.classics.candidates import powers
from bvsi.studies.problems.classics.case import Classic
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled

GRADIENT_ENERGY = 0.5
BOX = Box(0.0, 20 * np.pi)
EQUATION = SemiLinear(lambda k: k**2 - GRADIENT_ENERGY * k**4, lambda k: -(k**2), lambda u: u**3, degree=3)

_MODES = 512
_STEP = 0.01
_SEED = 1


def simulate(nodes: int = 256, times: int = 201, final: float = 20.0) -> Data:
    """Accurate data at ``nodes`` nodes and ``times`` times in [0, final]."""
    (x,) = BOX.points(_MODES)
    rng = np.random.default_rng(_SEED)
    amplitude, phase = rng.uniform(0, 0.1, 16), rng.uniform(0, 2 * np.pi, 16)
    start = amplitude @ np.cos(np.outer(np.arange(1, 17), 2 * np.pi / BOX.length * x) + phase[:, None])
    t = np.linspace(0, final, times)
    return sampled({"u": EQUATION.solve(start, BOX, t, _STEP)}, t, BOX, nodes)


CASE = Classic(
    name="cahn_hilliard_1d",
    equation="u_t = (u³)_xx − u_xx − 0.5 u_xxxx",
    truth={"dx(dx(u**3))": 1.0, "dx(dx(u))": -1.0, "dx(dx(dx(dx(u))))": -GRADIENT_ENERGY},
    candidates={"u": powers("u", (3, 3, 3, 2, 2))},
    make=simulate,
)
