"""Names that mean something in operators, and operators looked up by name.

Spaces do not count in a name, and the equation may be left out where it is clear.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from bvsi.errors import OperatorError

#: Names of the space axes, in this order.
COORDINATE_NAMES: tuple[str, ...] = ("x", "y", "z")
#: Axes of coordinates, in this order; theta is the angle from the pole.
COORDINATES: dict[str, tuple[str, ...]] = {
    "cartesian": COORDINATE_NAMES,
    "polar": ("r", "phi"),
    "cylindrical": ("r", "phi", "z"),
    "spherical": ("r", "theta", "phi"),
}
#: Names of axes in any coordinates.
AXIS_NAMES = tuple(dict.fromkeys(name for names in COORDINATES.values() for name in names))
FUNCTION_NAMES = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "erf")
DERIVATIVES = ("grad", "div", "dot", "laplacian", "biharmonic", "dx", "dy", "dz")
CONSTANT_NAMES = ("pi",)


def system_of(axes: Iterable[str]) -> str:
    """The coordinates of axes with these names; empty where these leave it open.

    So do r alone, polar or spherical, and theta without phi, which many call the angle in the plane.
    """
    names = set(axes)
    if "theta" in names and "phi" not in names:
        return ""
    fitting = [system for system, own in COORDINATES.items() if names <= set(own)]
    return fitting[0] if len(fitting) == 1 or "cartesian" in fitting or names == {"r", "phi"} else ""


def squeeze(name: str) -> str:
    """A name without white space."""
    return "".join(name.split())


def plain_name(name: str) -> str:
    """A name as part of a file name."""
    return re.sub(r"[^\w.-]+", "_", name)


def matches(name: str, names: Sequence[str]) -> list[int]:
    """Positions of a name: exact ones, else those that agree but for the equation in front (``"u: …"``)."""
    wanted = squeeze(name)
    exact = [i for i, known in enumerate(names) if squeeze(known) == wanted]
    return exact or [i for i, known in enumerate(names) if squeeze(known).split(":", 1)[-1] == wanted]


def resolve(wanted: Iterable[str], names: Sequence[str]) -> list[str]:
    """The known names that are meant."""
    return [names[position(name, names)] for name in wanted]


def position(name: str, names: Sequence[str]) -> int:
    """Position of a name; an unknown one is refused with the nearest known."""
    found = matches(name, names)
    if len(found) == 1:
        return found[0]
    if found:
        raise OperatorError(f"operator {name!r} stands in several equations; write {names[found[0]]!r}.")
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(names)}."
    raise OperatorError(f"operator {name!r} is not among the operators; {hint}")


def without_equation(name: str) -> str:
    """The operator of a coefficient's name: ``"dx(u)"`` of ``"u: dx(u)"``, or the name as it is."""
    return name.split(": ", 1)[-1]
