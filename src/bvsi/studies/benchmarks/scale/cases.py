"""The cases of the benchmark: data, truth, ten candidates, and as many as the WSINDy paper had.

    λ–ω reaction–diffusion   2 × 256² × 201     181 candidates in each equation
    porous medium            200² × 128          65
    sine–Gordon              403 × 129 × 205     73
    vorticity                324 × 149 × 201     50, velocities known
    Kuramoto–Sivashinsky     256 × 301, 512 × 160   43
    reaction–diffusion       64³ × 40            ten only
    library                  64² × 51            75 in each of two equations

Numbers of candidates and sizes are those of Messenger and Bortz (J. Comput. Phys. 443, 2021), equations and data are
our own. In the equation of a field all candidates are ∂^α f.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.studies.benchmarks.performance.cases import reaction_diffusion
from bvsi.studies.benchmarks.scale import solvers
from bvsi.studies.benchmarks.scale.terms import Integrand, Term, monomial, monomials, pure, under
from bvsi.studies.problems.classics import kuramoto_sivashinsky, porous_medium, reaction_diffusion_2d
from bvsi.studies.problems.classics.case import Classic

Array = NDArray[np.float64]
Size = tuple[tuple[int, ...], int]
"""Nodes by axis, and times."""
Terms = Mapping[str, tuple[Term, ...]]
Truth = Mapping[str, Mapping[Term, float]]
Maker = Callable[[tuple[int, ...], int], Data]

SIZES = ("full", "small", "tiny")
NOISE = 0.05
"""Of the RMS of each field."""


@dataclass(frozen=True, eq=False)
class ScaleCase:
    """An equation with accurate data at several sizes.

    Attributes
    ----------
    sizes
        Nodes and times by name of the size.
    make
        Noise-free data of so many nodes and times.
    truth
        Coefficients by equation and term.
    few, many
        Candidates by equation; no ``many`` where there is nothing to compare with.
    peer
        The truth as PySINDy can express it; empty where it cannot.
    """

    name: str
    sizes: Mapping[str, Size]
    make: Maker
    truth: Truth
    few: Terms
    many: Terms = field(default_factory=dict)
    time_order: int = 1
    peer: Mapping[str, float] = field(default_factory=dict)

    def noisy(self, size: Size, seed: int) -> Data:
        """Data with noise of 5% of the RMS of each field."""
        data = self.make(*size)
        sigma = {name: NOISE * float(np.sqrt(np.mean(u**2))) for name, u in data.fields.items()}
        return add_noise(data, sigma, np.random.default_rng(seed))

    def library(self, terms: Terms) -> Library:
        """Candidates as texts."""
        return Library({f: [term.text for term in own] for f, own in terms.items()}, time_order=self.time_order)

    def peer_case(self) -> Classic:
        """The case as PySINDy sees it."""
        make = next(iter(self.sizes.values()))
        return Classic(self.name, "", self.peer, dict.fromkeys(self.truth, ()), lambda: self.make(*make))

    def coefficients(self) -> dict[str, float]:
        """The truth by the names of the library."""
        alone = len(self.truth) == 1
        return {
            term.text if alone else f"{equation}: {term.text}": value
            for equation, terms in self.truth.items()
            for term, value in terms.items()
        }


_U, _V, _P, _W = (monomial(**{name: 1}) for name in "uvpw")
_NONE = (0, 0)
_PLANE = (_NONE, (1, 0), (0, 1), (2, 0), (0, 2))
_CONSTANT = Integrand()


def _lambda_omega(diffusion: float) -> Truth:
    """u_t = D ∇²u + u − (u² + v²)(u − v),   v_t = D ∇²v + v − (u² + v²)(v + u)."""
    cubes = [Term(f, _NONE) for f in (monomial(u=3), monomial(u=2, v=1), monomial(u=1, v=2), monomial(v=3))]
    signs = {"u": (-1.0, 1.0, -1.0, 1.0), "v": (-1.0, -1.0, -1.0, -1.0)}
    return {
        name: {
            Term(own, _NONE): 1.0,
            Term(own, (2, 0)): diffusion,
            Term(own, (0, 2)): diffusion,
            **dict(zip(cubes, signs[name], strict=True)),
        }
        for name, own in (("u", _U), ("v", _V))
    }


def _with(truth: Truth, **others: tuple[Term, ...]) -> Terms:
    """The true terms of every equation, and others."""
    return {equation: (*terms, *others[equation]) for equation, terms in truth.items()}


def _lambda_omega_case(name: str, sizes: Mapping[str, Size], make: Maker, diffusion: float, many: Terms) -> ScaleCase:
    truth = _lambda_omega(diffusion)
    more = {
        own: (Term(monomial(**{own: 2}), _NONE), Term(monomial(u=1, v=1), _NONE), Term(monomial(**{own: 1}), (1, 0)))
        for own in "uv"
    }
    peer = {"u": ("v", 1.0), "v": ("u", -1.0)}
    named: dict[str, float] = {}
    for own, (other, turn) in peer.items():
        named |= {f"{own}: laplacian({own})": diffusion, f"{own}: {own}": 1.0, f"{own}: {own}**3": -1.0}
        named |= {f"{own}: {own}*{other}**2": -1.0, f"{own}: {own}**2*{other}": turn, f"{own}: {other}**3": turn}
    return ScaleCase(name, sizes, make, truth, _with(truth, **more), many, peer=named)


_SPIRALS = under(monomials("uv", 5), pure(2, 4))
LAMBDA_OMEGA = _lambda_omega_case(
    "lambda_omega",
    {"full": ((256, 256), 201), "small": ((128, 128), 101), "tiny": ((48, 48), 31)},
    solvers.lambda_omega,
    solvers.DIFFUSION,
    dict.fromkeys("uv", (Term(_CONSTANT, _NONE), *_SPIRALS)),
)
_QUARTIC = under(monomials("uv", 4), _PLANE) + under(monomials("uv", 2), [(1, 1)])
LIBRARY = _lambda_omega_case(
    "library",
    {"full": ((64, 64), 51), "small": ((64, 64), 51), "tiny": ((32, 32), 31)},
    lambda shape, times: reaction_diffusion_2d.simulate(shape[0], times, 10.0),
    reaction_diffusion_2d.DIFFUSION,
    dict.fromkeys("uv", _QUARTIC),
)

_MIXED = (*((a, b) for a in range(4) for b in range(4) if a + b <= 3), (4, 0), (0, 4), (2, 2))
_SPREADING = {"p": {Term(monomial(p=2), (2, 0)): 1.0, Term(monomial(p=2), (0, 2)): 1.0}}
POROUS_MEDIUM = ScaleCase(
    "porous_medium",
    {"full": ((200, 200), 128), "small": ((100, 100), 64), "tiny": ((40, 40), 24)},
    lambda shape, times: porous_medium.simulate(shape[0], times),
    _SPREADING,
    _with(
        _SPREADING,
        p=(
            *under([_P, monomial(p=2), monomial(p=3)], [_NONE]),
            *under([_P], [(1, 0), (0, 1), (2, 0), (0, 2)]),
            Term(monomial(p=3), (2, 0)),
        ),
    ),
    {"p": under([monomial(p=k) for k in range(1, 6)], _MIXED)},
)

_SWINGS = {"u": {Term(_U, (2, 0)): 1.0, Term(_U, (0, 2)): 1.0, Term(Integrand((("u", 1),), "sin"), _NONE): -1.0}}
_WAVES = tuple(Integrand((("u", m),), wave) for m in (1, 2) for wave in ("sin", "cos"))
SINE_GORDON = ScaleCase(
    "sine_gordon",
    {"full": ((403, 129), 205), "small": ((201, 65), 103), "tiny": ((80, 26), 41)},
    solvers.sine_gordon,
    _SWINGS,
    _with(
        _SWINGS,
        u=(
            *under([_U, monomial(u=2), monomial(u=3), *_WAVES[1:3]], [_NONE]),
            *under([_U], [(1, 0), (0, 1)]),
        ),
    ),
    {"u": (Term(_CONSTANT, _NONE), *under([*(monomial(u=k) for k in range(1, 5)), *_WAVES], pure(2, 4)))},
    time_order=2,
)

_CARRIED = {
    "w": {
        Term(_W, (2, 0)): solvers.VISCOSITY,
        Term(_W, (0, 2)): solvers.VISCOSITY,
        Term(monomial(u=1, w=1), (1, 0)): -1.0,
        Term(monomial(v=1, w=1), (0, 1)): -1.0,
    }
}
VORTICITY = ScaleCase(
    "vorticity",
    {"full": ((324, 149), 201), "small": ((162, 75), 101), "tiny": ((64, 30), 31)},
    solvers.vorticity,
    _CARRIED,
    _with(
        _CARRIED,
        w=(
            *under([_W, monomial(w=2), monomial(u=1, w=1), monomial(v=1, w=1)], [_NONE]),
            *under([_W], [(1, 0), (0, 1)]),
        ),
    ),
    {"w": under([f for f in monomials("wuv", 3) if dict(f.powers).get("w")], _PLANE)},
)

_CHAOS = {"u": {Term(monomial(u=2), (1,)): -0.5, Term(_U, (2,)): -1.0, Term(_U, (4,)): -1.0}}


def _kuramoto_sivashinsky(name: str, size: Size, interval: float) -> ScaleCase:
    return ScaleCase(
        name,
        {"full": size, "small": size, "tiny": ((128,), 61)},
        lambda shape, times: kuramoto_sivashinsky.simulate(shape[0], times, interval * (times - 1)),
        _CHAOS,
        _with(
            _CHAOS,
            u=(
                *under([_U, monomial(u=2), monomial(u=3)], [(0,)]),
                *under([_U], [(1,), (3,)]),
                *under([monomial(u=2)], [(2,), (3,)]),
            ),
        ),
        {"u": (Term(_CONSTANT, (0,)), *under([monomial(u=k) for k in range(1, 7)], pure(1, 6)))},
        peer={"u*dx(u)": -1.0, "dx(dx(u))": -1.0, "dx(dx(dx(dx(u))))": -1.0},
    )


_CUBE = {
    "u": {
        Term(_U, (0, 0, 0)): 1.0,
        Term(monomial(u=3), (0, 0, 0)): -1.0,
        **{Term(_U, alpha): 0.1 for alpha in pure(3, 2)[2::2]},
    }
}
CUBE = ScaleCase(
    "cube",
    {"full": ((64, 64, 64), 40), "small": ((32, 32, 32), 20), "tiny": ((16, 16, 16), 16)},
    lambda shape, times: reaction_diffusion(shape[0], np.linspace(0, 2, times)),
    _CUBE,
    _with(
        _CUBE,
        u=(Term(monomial(u=2), (0, 0, 0)), *under([_U], pure(3, 1)[1:]), Term(monomial(u=2), (2, 0, 0))),
    ),
)

CASES: Mapping[str, ScaleCase] = {
    case.name: case
    for case in (
        LAMBDA_OMEGA,
        POROUS_MEDIUM,
        SINE_GORDON,
        VORTICITY,
        _kuramoto_sivashinsky("ks_256", ((256,), 301), 0.5),
        _kuramoto_sivashinsky("ks_512", ((512,), 160), 0.4),
        CUBE,
        LIBRARY,
    )
}
"""By name."""


def case(name: str) -> ScaleCase:
    """One of the cases, refused with the names of all where there is none."""
    if name not in CASES:
        raise BvsiError(f"cases: {name!r} is none of {', '.join(CASES)}.")
    return CASES[name]
