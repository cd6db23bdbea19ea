"""Discoveries with given equations: nothing is fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bvsi.data import Data, Grid
from bvsi.discovery import Discovery
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.operators import Library, Vocabulary
from bvsi.select import SelectionPath, Visited
from discovery.discovery_cases import made

X = np.linspace(0, 2 * np.pi, 64, endpoint=False)
LINE = Grid(x=X, periodic="x")


def discovery(library: Library, theta: dict[str, float], words: Vocabulary) -> Discovery:
    """A discovery of all operators of a library, with these coefficients by name."""
    names = library.names
    mean = np.array([theta[name] for name in names])
    posterior = GaussianPosterior(names, mean, np.diag(np.linspace(1, 2, len(names)) * 1e-6))
    return replace(
        made(),
        fields=tuple(library.equations),
        candidates=names,
        posterior=posterior,
        score_sd=np.sqrt(posterior.variance),
        path=SelectionPath((Visited(names, 0.0, mean, 1.0, None, {}, frozenset()),), "Wald", "stopped."),
        time_order=library.time_order,
        left={f: library.left(f).text for f in library.equations if library.left(f).text},
        words=words,
        texts=library.texts,
    )


def one_field(texts: list[str], grid: Grid = LINE, *, field: str = "u", auxiliary=(), **options) -> Discovery:
    """u_t = Σ_i (i + 1)/2 · (−1)^i F_i."""
    library = Library({field: texts}, **options)
    theta = {name: (-1) ** i * (i + 1) / 2 for i, name in enumerate(library.names)}
    words = Vocabulary(grid.names, (field,), tuple(auxiliary), grid.coordinates)
    return discovery(library, theta, words)


def lorenz() -> Discovery:
    library = Library({"x": ["x", "y"], "y": ["x", "y", "x*z"], "z": ["z", "x*y"]})
    values = [-10.0, 10.0, 28.0, -1.0, -1.0, -8 / 3, 1.0]
    return discovery(library, dict(zip(library.names, values, strict=True)), Vocabulary((), ("x", "y", "z")))


def data_of(found: Discovery, values: np.ndarray, grid: Grid) -> Data:
    return Data.from_arrays({found.fields[0]: np.stack([values, values])}, times=[0.0, 1.0], geometry=grid)
