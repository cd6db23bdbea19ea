"""What weak terms are made of, shared by operators and spaces: derivatives, sides of facets, and measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from bvsi.common.arrays import Array

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
