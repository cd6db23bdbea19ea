"""The Kuramoto–Sivashinsky equation: chaos in space and time.

    u_t = −u u_x − u_xx − u_xxxx   on [0, 32π) periodic

The data begin after the transient, 60 time units after cos(x/16)(1 + sin(x/16)) + ½ sin(3x/16 + 1), and go on for 100.
The last term breaks the symmetry u(x) = −u(16π − x). Errors grow as in all chaos: another step, or another computer,
gives another trajectory in the end, of the same equation. Error over one interval of the defaults: 1e-7.
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

BOX = Box(0.0, 32 * np.pi)
EQUATION = SemiLinear(lambda k: k**2 - k**4, lambda k: -0.5j * k, np.square, degree=2)
TRANSIENT = 60.0

_MODES = 384
_STEP = 0.0125


def simulate(nodes: int = 512, times: int = 251, final: float = 100.0) -> Data:
    """Accurate data at ``nodes`` nodes and ``times`` times in [0, final], counted from the end of the transient."""
    (x,) = BOX.points(_MODES)
    t = np.linspace(0, final, times)
    start = np.cos(x / 16) * (1 + np.sin(x / 16)) + 0.5 * np.sin(3 * x / 16 + 1)

    def make() -> dict[str, Array]:
        developed = EQUATION.solve(start, BOX, np.array([0, TRANSIENT]), _STEP)[-1]
        return {"u": EQUATION.solve(developed, BOX, t, _STEP)}

    settings = {"version": 1, "modes": _MODES, "step": _STEP, "transient": TRANSIENT, "times": t.tolist()}
    return sampled(cached("classic-kuramoto-sivashinsky", settings, make, keys=["u"]), t, BOX, nodes)


CASE = Classic(
    name="kuramoto_sivashinsky",
    equation="u_t = −u u_x − u_xx − u_xxxx",
    truth={"u*dx(u)": -1.0, "dx(dx(u))": -1.0, "dx(dx(dx(dx(u))))": -1.0},
    candidates={"u": powers("u", (3, 3, 3, 2, 2))},
    make=simulate,
)
