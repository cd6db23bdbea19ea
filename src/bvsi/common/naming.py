"""Names that mean something in operators, operators looked up by name, and what weak terms are made of.

Spaces do not count in a name, and the equation may be left out where it is clear. Operators and spaces share the
derivatives, sides of facets and measures of weak terms.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from bvsi.common.arrays import Array
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


#: Derivative orders per coordinate: ``(2, 0)`` is ∂²/∂x² in two dimensions.
MultiIndex: TypeAlias = tuple[int, ...]


class Sided(NamedTuple):
    """∂^index on a facet between cells, seen from the + (1) or the − (−1) cell; normals point from + to −."""

    index: MultiIndex  # type: ignore[assignment]  # hides tuple.index
    side: int


class Weighted(tuple[int, ...]):
    """Derivative orders of a test function that is multiplied by a known function of the coordinates, w(x) ∂^α v.

    Where data are few, w is taken at the points of quadrature, not at the nodes.

    Attributes
    ----------
    weight
        w, of points (n, dim), (n,); two that are equal are the same function.
    """

    weight: Callable[[Array], Array]

    def __new__(cls, index: MultiIndex, weight: Callable[[Array], Array]) -> Weighted:
        """α and w."""
        made = super().__new__(cls, index)
        made.weight = weight
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weighted) and super().__eq__(other) and self.weight == other.weight

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple(self), self.weight))

    def __reduce__(self) -> tuple[object, ...]:
        return Weighted, (tuple(self), self.weight)


#: What can be evaluated of a function at a quadrature point: a derivative, on interior facets from one side.
Jet: TypeAlias = MultiIndex | Sided

#: Over the cells, over the facets between two cells, over the boundary.
Where: TypeAlias = Literal["cells", "facets", "boundary"]

MEASURES: tuple[Where, ...] = ("cells", "facets", "boundary")


def order(jet: Jet) -> int:
    """Order of the derivative."""
    return sum(jet.index) if isinstance(jet, Sided) else sum(jet)
