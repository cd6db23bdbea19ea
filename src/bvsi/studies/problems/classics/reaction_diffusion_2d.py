"""λ–ω reaction and diffusion in the plane: spiral waves, as one complex field ψ = u + iv.

    ψ_t = D ∇²ψ + (1 − |ψ|²) ψ − iβ |ψ|² ψ,   D = 1, β = 1,   on [0, 20)² periodic,   t ∈ [0, 12]
    u_t = D ∇²u + u − (u² + v²) u + β (u² + v²) v,     v_t = D ∇²v + v − (u² + v²) v − β (u² + v²) u

The zeros of ψ are the cores of the spirals; in a periodic box as many turn left as right. Cores are about √D wide,
three spacings of 64 nodes per side. Error with the defaults: 1e-7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.studies.problems.cache import cached
from bvsi.studies.problems.classics.case import Classic
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled

Array = NDArray[np.float64]

DIFFUSION = 1.0
ROTATION = 1.0
BOX = Box(0.0, 20.0, dim=2)
EQUATION = SemiLinear(
    lambda kx, ky: 1 - DIFFUSION * (kx**2 + ky**2),
    lambda kx, ky: -(1 + ROTATION * 1j) + 0 * kx * ky,
    lambda psi: np.abs(psi) ** 2 * psi,
    degree=3,
)

_MODES = 96
_STEP = 0.0125


def simulate(nodes: int = 64, times: int = 61, final: float = 12.0) -> Data:
    """Accurate data at ``nodes`` nodes per side and ``times`` times in [0, final]."""
    x, y = (2 * np.pi / BOX.length * s for s in BOX.points(_MODES))
    start = np.sin(x) + 0.4 * np.cos(2 * y + 1) + 1j * (np.sin(y) - 0.3 * np.cos(x + y))
    t = np.linspace(0, final, times)

    def make() -> dict[str, Array]:
        psi = EQUATION.solve(start, BOX, t, _STEP)
        return {"u": psi.real, "v": psi.imag}

    settings = {"version": 1, "modes": _MODES, "step": _STEP, "times": t.tolist()}
    return sampled(cached("classic-reaction-diffusion-2d", settings, make, keys=["u", "v"]), t, BOX, nodes)


_TERMS = (
    *("u", "v", "u**2", "u*v", "v**2", "u**3", "u**2*v", "u*v**2", "v**3"),
    *("laplacian(u)", "laplacian(v)"),
)

CASE = Classic(
    name="reaction_diffusion_2d",
    equation="u_t = ∇²u + u − u³ − u v² + u² v + v³,  v_t = ∇²v + v − u² v − v³ − u³ − u v²",
    truth={
        "u: laplacian(u)": DIFFUSION,
        "u: u": 1.0,
        "u: u**3": -1.0,
        "u: u*v**2": -1.0,
        "u: u**2*v": ROTATION,
        "u: v**3": ROTATION,
        "v: laplacian(v)": DIFFUSION,
        "v: v": 1.0,
        "v: u**2*v": -1.0,
        "v: v**3": -1.0,
        "v: u**3": -ROTATION,
        "v: u*v**2": -ROTATION,
    },
    candidates={"u": (*_TERMS, "dx(u)", "dy(u)"), "v": (*_TERMS, "dx(v)", "dy(v)")},
    make=simulate,
)
