"""The porous medium equation: Barenblatt's solution, which spreads with a sharp edge; analytic.

    p_t = ∇²(p²)   on [−4, 4]²,   t ∈ [1, 4]
    p = t^{−1/2} (C − |x|² / (16 t^{1/2}))₊,   C = 1/4,   mass 8πC²,   edge at |x|² = 16 C t^{1/2}

p is not smooth at the edge, where its gradient jumps: the equation holds there in the weak sense only, and derivatives
of the data, differences or Fourier series, are wrong near it whatever the resolution. Beyond it p is zero: no flux.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data, Grid
from bvsi.operators import NoFlux
from bvsi.studies.problems.classics.case import Classic

Array = NDArray[np.float64]

HEIGHT = 0.25
START = 1.0


def barenblatt(points: Array, t: Array) -> Array:
    """p at points (n, 2) and times (T,), as (T, n)."""
    root = np.sqrt(t)[:, None]
    p: Array = np.maximum(HEIGHT - np.sum(points**2, axis=1) / (16 * root), 0) / root
    return p


def simulate(nodes: int = 64, times: int = 61, final: float = 4.0) -> Data:
    """Exact data at ``nodes`` nodes per side and ``times`` times in [1, final]."""
    axis = np.linspace(-4, 4, nodes)
    grid = Grid(x=axis, y=axis)
    t = np.linspace(START, final, times)
    return Data.from_arrays({"p": barenblatt(grid.points, t)}, times=t, geometry=grid)


CASE = Classic(
    name="porous_medium",
    equation="p_t = ∇²(p²)",
    truth={"laplacian(p**2)": 1.0},
    candidates={
        "p": (
            *("p", "p**2", "p**3", "dx(p)", "dy(p)", "p*dx(p)", "p*dy(p)"),
            *("laplacian(p)", "laplacian(p**2)", "laplacian(p**3)"),
            *("div(p*grad(x**2))", "div(p*grad(y**2))"),
        )
    },
    make=simulate,
    boundary=NoFlux(),
)
