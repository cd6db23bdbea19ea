"""The cases of the benchmark: what is measured, how, and which verdicts are right.

Equation, coefficients, state and noise are drawn again for every run, so that nothing can be tuned to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bvsi.check import Verdict
from bvsi.studies.benchmarks.honesty.observing import (
    Observing,
    blurred,
    counted,
    exact,
    multiplied,
    outlying,
    pixels,
    quantised,
    sensors,
    single,
    uneven,
    white,
)
from bvsi.studies.benchmarks.honesty.physics import NodesAndFrames

_ALL = ("waves", "burgers", "fisher", "chaos")
_POSITIVE = ("fisher", "plane")


@dataclass(frozen=True)
class HonestyCase:
    """One kind of data.

    Attributes
    ----------
    physics
        Equations that are drawn from.
    observing
        What the instrument makes of the field.
    causes
        Verdicts that name what is wrong with these data; by default that they may be too few to decide.
    sampling
        Nodes and frames; None for what resolves the equation.
    missing
        Operator that the library lacks, by equation.
    """

    physics: tuple[str, ...]
    observing: Observing
    causes: tuple[Verdict, ...] = (Verdict.UNDECIDED,)
    sampling: NodesAndFrames | None = None
    missing: Mapping[str, str] | None = None


_OPERATOR = (Verdict.OPERATOR,)
_NOISE, _TIME, _SPACE = ((cause, Verdict.UNDECIDED) for cause in (Verdict.NOISE, Verdict.TIME, Verdict.SPACE))
_TWO = white(0.02)


def _frames(count: int, *physics: str) -> HonestyCase:
    return HonestyCase(physics or ("waves", "fisher"), _TWO, _TIME, NodesAndFrames(96, count))


def _nodes(count: int) -> HonestyCase:
    return HonestyCase(("waves", "burgers"), _TWO, _SPACE, NodesAndFrames(count, 61))


def _without(**missing: str) -> HonestyCase:
    return HonestyCase(tuple(missing), _TWO, _OPERATOR, missing=missing)


CASES: Mapping[str, HonestyCase] = {
    **{f"white {p}%": HonestyCase(_ALL, white(p / 100)) for p in (1, 10, 20, 50, 100)},
    "walls, white 2%": HonestyCase(("walls",), _TWO),
    "plane, white 5%": HonestyCase(("plane",), white(0.05)),
    "mesh, white 2%": HonestyCase(("mesh",), _TWO, _SPACE),
    "blurred in space": HonestyCase(("waves", "burgers"), blurred(0.05, space=1.5), _NOISE),
    "blurred in time": HonestyCase(("waves", "burgers"), blurred(0.05, time=1.5), _NOISE),
    "blurred in both": HonestyCase(("waves", "burgers"), blurred(0.05, space=1.5, time=1.5), _NOISE),
    **{f"multiplied {p}%": HonestyCase(_POSITIVE, multiplied(p / 100), _NOISE) for p in (5, 10)},
    **{f"{n} counts": HonestyCase(_POSITIVE, counted(n), _NOISE) for n in (5, 20, 100)},
    **{f"8 bits, σ = {s}": HonestyCase(("waves", "fisher"), quantised(s), _NOISE) for s in (0.3, 1, 3)},
    **{f"outliers {q}%": HonestyCase(("waves", "burgers"), outlying(q / 100), _NOISE) for q in (1, 5)},
    "uneven in time and space": HonestyCase(("waves", "burgers", "plane", "walls"), uneven(0.05), _NOISE),
    "uneven sensors": HonestyCase(("waves", "burgers", "mesh", "walls"), sensors(0.05), _NOISE),
    "wrong pixels 1%": HonestyCase(("waves", "burgers", "plane", "walls"), pixels(0.01), _NOISE),
    "clean": HonestyCase(_ALL, exact()),
    "clean, single precision": HonestyCase(_ALL, single()),
    "advection missing": _without(waves="dx(u)", burgers="u*dx(u)"),
    "diffusion missing": _without(waves="dx(dx(u))", burgers="dx(dx(u))", fisher="dx(dx(u))"),
    "reaction missing": _without(waves="u", fisher="u**2"),
    "fourth order missing": _without(chaos="dx(dx(dx(dx(u))))"),
    **{f"{n} nodes": _nodes(n) for n in (48, 24, 14)},
    "31 frames": HonestyCase(("chaos",), _TWO, _TIME, NodesAndFrames(128, 31)),
    "boundary layer": HonestyCase(("layer",), white(0.01), _SPACE),
    **{f"{n} frames": _frames(n) for n in (5, 7, 9, 15)},
    **{f"walls, {n} frames": _frames(n, "walls") for n in (5, 7)},
}
"""By name."""
