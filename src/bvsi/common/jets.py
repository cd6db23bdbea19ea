"""What weak terms are made of, shared by operators and spaces: derivatives, sides of facets, and measures."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

#: Derivative orders per coordinate: ``(2, 0)`` is ∂²/∂x² in two dimensions.
MultiIndex: TypeAlias = tuple[int, ...]


class Sided(NamedTuple):
    """∂^index on a facet between cells, seen from the + (1) or the − (−1) cell; normals point from + to −."""

    index: MultiIndex  # type: ignore[assignment]  # hides tuple.index
    side: int


#: What can be evaluated of a function at a quadrature point: a derivative, on interior facets from one side.
Jet: TypeAlias = MultiIndex | Sided

#: Over the cells, over the facets between two cells, over the boundary.
Where: TypeAlias = Literal["cells", "facets", "boundary"]

MEASURES: tuple[Where, ...] = ("cells", "facets", "boundary")


def order(jet: Jet) -> int:
    """Order of the derivative."""
    return sum(jet.index) if isinstance(jet, Sided) else sum(jet)
