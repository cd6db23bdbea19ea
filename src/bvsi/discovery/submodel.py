"""The selected operators assembled anew: on other data, with other test functions, or linearised elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.operators import Library
from bvsi.residual import ResidualSystem, Stencil, assemble
from bvsi.residual.assembly import Discretisation

Array = NDArray[np.float64]


def assembled(
    data: Sequence[Data],
    library: Library,
    names: tuple[str, ...],
    *,
    discretisation: Discretisation,
    stencil: Stencil,
    variance: Sequence[Mapping[str, Array]],
    linearise_at: Sequence[Data] | None = None,
) -> ResidualSystem:
    """The system of the named operators, in that order and under these names.

    A library that is left with one equation drops the name of the field from those of its operators; here they stay.
    """
    system = assemble(
        data,
        library.subset(names),
        discretisation=discretisation,
        stencil=stencil,
        variance=variance,
        linearise_at=linearise_at,
    )
    ordered = tuple(library.names[i] for i in sorted(library.index(name) for name in names))
    return replace(system, names=ordered).subset(names)
