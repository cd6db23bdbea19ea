"""Small problems with a clear truth, and a path made by hand."""

from __future__ import annotations

import numpy as np

from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from bvsi.select import SelectionPath, Visited
from inference.cases import reaction_diffusion

TRUE = ("laplacian(u)", "u")
SPURIOUS = ("dx(u)", "x*u", "u**2")
LIBRARY = Library({"u": [*TRUE, *SPURIOUS]}, boundary=NoFlux())


def reaction_likelihood(sigma: float = 1e-3, seed: int = 0, *, known: bool = True, n: int = 13) -> ResidualLikelihood:
    """u_t = 0.1 u_xx − 0.8 u with three operators that are not there; own discretisation."""
    data, _ = reaction_diffusion(n=n, steps=10, sigma=sigma, seed=seed)
    return residual_likelihood(assemble(data, LIBRARY), IID(sigma) if known else UnknownScale())


def made_path() -> SelectionPath:
    """Three models: 10, 4 and 7."""

    def visited(names: tuple[str, ...], score: float, changed: str | None, candidates: dict[str, float]) -> Visited:
        refitted = frozenset([changed] if changed else [])
        return Visited(names, score, np.ones(len(names)), 1.0, changed, candidates, refitted)

    first = visited(("a", "b", "c"), 10.0, None, {})
    second = visited(("a", "b"), 4.0, "c", {"a": 90.0, "b": 30.0, "c": 4.0})
    third = visited(("a",), 7.0, "b", {"a": 70.0, "b": 7.0})
    return SelectionPath((first, second, third), "test criterion", "stopped: by hand.")


def ids(criterion) -> str:
    """Name of a criterion in the list of tests."""
    return type(criterion).__name__
