"""A Fokker–Planck equation with quadratic potential: a Gaussian density moves, turns and spreads; analytic.

    p_t = D ∇²p + ∇·(p∇ψ),   ψ = ½ (x − c)ᵀ A (x − c),   on [−5, 5]²,   t ∈ [0, 2]

p is the density of an Ornstein–Uhlenbeck process, N(m(t), S(t)) with S_∞ = D A⁻¹ and

    m = c + e^{−At} (m₀ − c),     S = S_∞ + e^{−At} (S₀ − S_∞) e^{−At}

On the boundary p is below 1e-9 of its maximum: no flux. The standard deviations are three or more of the spacings of 64
nodes per side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from bvsi.data import Data, Grid
from bvsi.operators import NoFlux
from bvsi.studies.problems.classics.case import Classic

Array = NDArray[np.float64]

DIFFUSION = 0.3
STIFFNESS = np.array([[0.8, 0.2], [0.2, 1.2]])
CENTRE = np.array([0.75, 0.5])
MEAN = np.array([-1.5, -1.0])
COVARIANCE = np.array([[0.24, 0.05], [0.05, 0.27]])
"""m₀ and S₀."""


def moments(t: float) -> tuple[Array, Array]:
    """Mean m (2,) and covariance S (2, 2) at time t."""
    decay = expm(-STIFFNESS * t)
    settled = DIFFUSION * np.linalg.inv(STIFFNESS)
    return CENTRE + decay @ (MEAN - CENTRE), settled + decay @ (COVARIANCE - settled) @ decay


def simulate(nodes: int = 64, times: int = 51, final: float = 2.0) -> Data:
    """Exact data at ``nodes`` nodes per side and ``times`` times in [0, final]."""
    axis = np.linspace(-5, 5, nodes)
    grid = Grid(x=axis, y=axis)
    t = np.linspace(0, final, times)
    means, covariances = map(np.stack, zip(*map(moments, t), strict=True))
    offset = grid.points - means[:, None]
    exponent = np.einsum("tni,tij,tnj->tn", offset, np.linalg.inv(covariances), offset, optimize=True)
    p = np.exp(-0.5 * exponent) / (2 * np.pi * np.sqrt(np.linalg.det(covariances)))[:, None]
    return Data.from_arrays({"p": p}, times=t, geometry=grid)


def _coefficients() -> dict[str, float]:
    """ψ = ½ xᵀAx − (Ac)ᵀx + constant, term by term."""
    slope = -STIFFNESS @ CENTRE
    potential = {
        "x": slope[0],
        "y": slope[1],
        "x**2": STIFFNESS[0, 0] / 2,
        "x*y": STIFFNESS[0, 1],
        "y**2": STIFFNESS[1, 1] / 2,
    }
    return {"laplacian(p)": DIFFUSION, **{f"div(p*grad({text}))": float(value) for text, value in potential.items()}}


_TRUTH = _coefficients()

CASE = Classic(
    name="fokker_planck_2d",
    equation="p_t = 0.3 ∇²p + ∇·(p∇(0.4 x² + 0.2 xy + 0.6 y² − 0.7 x − 0.75 y))",
    truth=_TRUTH,
    candidates={
        "p": (
            *_TRUTH,
            *(f"div(p*grad({text}))" for text in ("x**3", "x**2*y", "x*y**2", "y**3")),
            *("laplacian(p**2)", "p"),
        )
    },
    make=simulate,
    boundary=NoFlux(),
)
