"""Weight α/h_E of the jumps of normal derivatives in the C0 interior-penalty form of fourth-order operators.

    α = 2 C max_K ½ Σ_{E ⊂ ∂K} h_E |E|/|K|          h_E = |E|^(1/(dim − 1))

C is the constant of the trace inequality ‖w‖²_E ≤ C |E|/|K| ‖w‖²_K for second derivatives w. Then
Σ_E h_E ‖{w}‖²_E ≤ (α/2) Σ_K ‖w‖²_K over interior facets, which makes the form coercive with a safety of two; facets
of the boundary, where nothing is averaged, use up at most that. In one dimension h_E is the mean length of the
adjoining elements. One α per mesh: 8 on right isosceles triangles, 16 on squares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvsi.spaces.element import Element

Array = NDArray[np.float64]

_SAFETY = 2.0


def facet_size(area: Array, dim: int) -> Array:
    """h_E = |E|^(1/(dim − 1)), dim ≥ 2."""
    return np.asarray(area ** (1 / (dim - 1)))


def penalty_constant(element: Element, dim: int, around: Array) -> float:
    """α = 2 C max_K ½ s_K with s_K = Σ_{E ⊂ ∂K} h_E |E|/|K| given for every element, ``around`` (n_el,)."""
    return float(_SAFETY * element.trace_constant(dim) * 0.5 * around.max())
