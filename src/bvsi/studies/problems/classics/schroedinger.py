"""The nonlinear Schrödinger equation as two real fields, ψ = u + iv: two solitons collide.

    i ψ_t + ½ ψ_xx + |ψ|² ψ = 0   on [−10, 10) periodic,   t ∈ [0, 6]
    u_t = −½ v_xx − (u² + v²) v,     v_t = ½ u_xx + (u² + v²) u

One soliton, a sech(a(x − wt)) e^{i(wx + ½(a² − w²)t)}, has amplitude a and speed w, here a multiple of 2π/20.
Error with the defaults: 1e-8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.studies.problems.classics.candidates import derivative
from bvsi.studies.problems.classics.case import Classic
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled

Array = NDArray[np.float64]
Complex = NDArray[Any]

BOX = Box(-10.0, 20.0)
EQUATION = SemiLinear(lambda k: -0.5j * k**2, lambda k: 1j + 0 * k, lambda psi: np.abs(psi) ** 2 * psi, degree=3)
SOLITONS = ((1.5, 3 * np.pi / 10, -4.0), (1.0, -3 * np.pi / 10, 4.0))
"""Amplitude, speed and place at the start."""

_MODES = 512
_STEP = 0.003


def soliton(x: Array, amplitude: float, speed: float) -> Complex:
    """a sech(ax) e^{iwx}: the soliton at the time when it is at 0."""
    value: Complex = amplitude / np.cosh(amplitude * x) * np.exp(1j * speed * x)
    return value


def simulate(nodes: int = 256, times: int = 201, final: float = 6.0) -> Data:
    """Accurate data at ``nodes`` nodes and ``times`` times in [0, final]."""
    (x,) = BOX.points(_MODES)
    t = np.linspace(0, final, times)
    start = np.sum([soliton(BOX.images(x) - place, a, w) for a, w, place in SOLITONS], axis=(0, 1))
    psi = EQUATION.solve(start, BOX, t, _STEP)
    return sampled({"u": psi.real, "v": psi.imag}, t, BOX, nodes)


_TERMS = (
    *("u", "v", "u**2", "u*v", "v**2", "u**3", "u**2*v", "u*v**2", "v**3"),
    *(derivative(field, order) for order in (1, 2) for field in ("u", "v")),
)

CASE = Classic(
    name="schroedinger",
    equation="u_t = −½ v_xx − u² v − v³,  v_t = ½ u_xx + u³ + u v²",
    truth={
        "u: dx(dx(v))": -0.5,
        "u: u**2*v": -1.0,
        "u: v**3": -1.0,
        "v: dx(dx(u))": 0.5,
        "v: u**3": 1.0,
        "v: u*v**2": 1.0,
    },
    candidates={"u": _TERMS, "v": _TERMS},
    make=simulate,
)
