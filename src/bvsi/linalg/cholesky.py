"""Sparse Cholesky factorisation: analyse a pattern once, factorise many value sets.

analysis = analyse(pattern, coordinates=nodes)
factor   = analysis.factor(values, label="residual covariance")
factor.logdet(), factor.solve(B), factor.whiten(B), factor.selected_inverse()
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from bvsi.errors import MissingDependencyError
from bvsi.linalg.cholmod_backend import Cholmod
from bvsi.linalg.factor import Analysis, Backend, Factor, check_pattern
from bvsi.linalg.ordering import minimum_degree, nested_dissection
from bvsi.linalg.pattern import Pattern
from bvsi.linalg.superlu_backend import SuperLU
from bvsi.linalg.supernodal_backend import Supernodal

__all__ = [
    "Analysis",
    "Backend",
    "Cholmod",
    "Factor",
    "SuperLU",
    "Supernodal",
    "analyse",
    "available_backends",
]


def available_backends() -> tuple[Backend, ...]:
    """Back ends that work in this installation, fastest first; :func:`analyse` takes the first by default."""
    backends: tuple[Backend, ...] = (Supernodal(), Cholmod(), SuperLU())
    return tuple(backend for backend in backends if backend.available())


def analyse(pattern: Pattern, *, coordinates: ArrayLike | None = None, backend: Backend | None = None) -> Analysis:
    """Symbolic analysis of ``P A Pᵀ = L Lᵀ`` for all symmetric positive definite A on a pattern.

    Parameters
    ----------
    pattern: symmetric, (n, n), with its whole diagonal.
    coordinates: (n, dim) place of every unknown. With them the order of elimination is geometric nested
        dissection, which is the better one on grids and meshes; without, minimum degree.
    backend: default the fastest available. ``analysis.backend`` tells which one it is.
    """
    check_pattern(pattern)
    chosen = available_backends()[0] if backend is None else backend
    if not chosen.available():
        raise MissingDependencyError(
            f"the Cholesky back end {chosen.name!r} is not available here: {chosen.remedy}; "
            "or leave `backend` out to take the fastest that is"
        )
    permutation = minimum_degree(pattern) if coordinates is None else nested_dissection(pattern, coordinates)
    return chosen.analyse(pattern, permutation)
