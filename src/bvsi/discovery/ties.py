"""Selection with coefficients that constraints tie together: operators that move together come and go together.

    θ = T η;     selection sees the operators of η, with columns X T; the result is written in θ again

η are some of the coefficients themselves, so that they keep their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bvsi.common.naming import position
from bvsi.common.progress import Progress
from bvsi.infer.constraints import LinearConstraints
from bvsi.likelihood import ResidualLikelihood
from bvsi.select import SelectionPath, Visited

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ties:
    """Operators that equalities tie together: θ = T η.

    Attributes
    ----------
    names
        d operators.
    T
        (d, m).
    free
        Names of η.
    """

    names: tuple[str, ...]
    T: Array
    free: tuple[str, ...]

    def selected(
        self,
        select: Callable[..., SelectionPath],
        likelihood: ResidualLikelihood,
        *,
        keep: Iterable[str],
        progress: Progress,
    ) -> SelectionPath:
        """The path of a selection among η, with the models written in θ."""
        path = select(likelihood.combined(self.T, self.free), keep=self.keep(keep), progress=progress)
        return replace(path, visited=tuple(self._visited(v) for v in path.visited))

    def keep(self, names: Iterable[str]) -> list[str]:
        """Names of η on which the given operators depend."""
        rows = [position(name, self.names) for name in names]
        return [free for free, column in zip(self.free, self.T.T, strict=True) if column[rows].any()]

    def _visited(self, visited: Visited) -> Visited:
        T = self.T[:, [self.free.index(name) for name in visited.names]]
        rows = np.flatnonzero(T.any(axis=1))
        return replace(visited, names=tuple(self.names[i] for i in rows), theta=T[rows] @ visited.theta, fit=None)


def ties_of(constraints: LinearConstraints) -> Ties | None:
    """The ties among operators that homogeneous equalities make; None where there are none."""
    affine = constraints.ties()
    return None if affine is None else Ties(constraints.names, affine.T, affine.free_names)


def needed(constraints: LinearConstraints) -> list[str]:
    """Operators that some constraint forces to be non-zero; selection must keep them."""
    rows = constraints.A[(constraints.lower > 0) | (constraints.upper < 0)]
    return [name for name, column in zip(constraints.names, rows.T, strict=True) if column.any()]
