"""From data, library and a Dask client to a likelihood on its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bvsi.cluster.building import Ingredients, Recipe, build, prepare
from bvsi.cluster.cutting import Cut, StencilRows, cuts
from bvsi.cluster.likelihood import ClusterLikelihood, Extent, Seat
from bvsi.cluster.piece import Outline, outline
from bvsi.cluster.place import Workers
from bvsi.cluster.stored import Stored
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.likelihood import Block, Weighting
from bvsi.noise import Noise
from bvsi.noise.models import noise_of_experiments, values_at
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, ResidualSystem, Stencil
from bvsi.residual.assembly import Discretisation, Variance, per_experiment
from bvsi.spaces import Galerkin

Array = NDArray[np.float64]
Source: TypeAlias = Data | Stored
"""An experiment: in memory, or in a file."""

# Pieces per thread. More would balance better when a worker dies; fewer share factorisations and cost fewer messages.
_PER_THREAD = 2
# Blocks of a piece, where there are enough for all threads: those that pieces share are then few.
_LEAST = 4


def cluster_likelihood(
    client: Any,
    data: Source | Sequence[Source],
    library: Library,
    noise: Noise | Sequence[Noise],
    *,
    weighting: Weighting | None = None,
    discretisation: Discretisation | None = None,
    stencil: Stencil | None = None,
    variance: Variance | Sequence[Variance] | None = None,
    progress: Progress = silent,
) -> ClusterLikelihood:
    """The same as ``residual_likelihood(assemble(data, library), noise, weighting)``, assembled on the workers.

    The other arguments are those of :func:`bvsi.assemble` and :func:`bvsi.residual_likelihood`.

    With block weighting an experiment is cut in time, into about two pieces per thread of the cluster. With stacked
    weighting, which couples all times, with missing values, and with noise models of the user's own, it is one piece.

    Parameters
    ----------
    client
        A dask.distributed.Client.
    data
        Experiments in memory, of which every worker gets its frames, or :class:`Stored` ones, of which it reads them.
    """
    place = Workers.of(client, progress)
    experiments = _experiments(data)
    stencil, weighting = stencil or BackwardEuler(), weighting or Block()
    models = noise_of_experiments(noise, len(experiments))
    variances = per_experiment(variance, len(experiments))
    recipe = Recipe(library, discretisation or Galerkin(), weighting)
    made = [
        _Experiment(number, *parts, stencil, library.time_order, weighting)
        for number, parts in enumerate(zip(experiments, models, variances, strict=True))
    ]
    pieces = [p for one in made for p in one.pieces(place.n_threads)]
    futures = _built(place, recipe, pieces)
    outlines: list[Outline] = place.one_by_one(place.calls(outline, [(future,) for future in futures]), "assembling")
    described = outlines[0].description.replace(StencilRows.__name__, type(stencil).__name__)
    owners = tuple(p.experiment for p in pieces)
    extents = tuple(_extent(one, [o for o, e in zip(outlines, owners, strict=True) if e == one.number]) for one in made)
    return ClusterLikelihood(
        ResidualSystem(library.names, (), described),
        models,
        weighting,
        (),
        place=place,
        pieces=tuple(futures),
        seats=tuple(p.seat(len(o.block_rows)) for p, o in zip(pieces, outlines, strict=True)),
        extents=extents,
        everything=library.names,
    )


@dataclass(frozen=True, eq=False)
class _Wanted:
    """A piece to be made, of which experiment and from what.

    Attributes
    ----------
    cut
        None where it is all of it.
    sample
        A first block.
    """

    experiment: int
    cut: Cut | None
    ingredients: Ingredients
    sample: Ingredients | None

    def seat(self, n_blocks: int) -> Seat:
        """Where it stands.

        Parameters
        ----------
        n_blocks
            Its own blocks, where it is all of them.
        """
        if self.cut is None:
            return Seat(self.experiment, (0, n_blocks))
        return Seat(self.experiment, self.cut.blocks, self.cut.shared, self.cut.first)


@dataclass(frozen=True, eq=False)
class _Experiment:
    number: int
    source: Source
    noise: Noise
    variance: Variance
    stencil: Stencil
    time_order: int
    weighting: Weighting

    @property
    def matrices(self) -> tuple[Any, Any]:
        """a, b (K × T)."""
        return self.stencil.matrices(self.source.times, self.time_order)

    @property
    def cuttable(self) -> bool:
        """Whether blocks do not couple, and none is dropped."""
        gaps = self.source.measured is not None if isinstance(self.source, Data) else bool(self.source.reading.missing)
        return not self.weighting.couples_blocks and not gaps

    def pieces(self, threads: int) -> list[_Wanted]:
        """Pieces in order of time, for so many threads."""
        a, b = self.matrices
        n = min(_PER_THREAD * threads, max(threads, a.shape[0] // _LEAST), a.shape[0])
        if not self.cuttable or n == 1:
            return [_Wanted(self.number, None, self._ingredients(None, self.stencil), None)]
        (first, *_) = cuts(a, b, a.shape[0])
        sample = self._ingredients(first, StencilRows.of(a, b, first))
        return [
            _Wanted(self.number, cut, self._ingredients(cut, StencilRows.of(a, b, cut)), sample)
            for cut in cuts(a, b, n)
        ]

    def _ingredients(self, cut: Cut | None, stencil: Stencil) -> Ingredients:
        T = len(self.source.times)
        first, last = (0, T) if cut is None else cut.frames
        frames, label = slice(first, last), f"experiment {self.number}"
        if cut is not None:
            label += f" from block {cut.blocks[0]}"
        data = self.source.select_times(frames) if isinstance(self.source, Data) else self.source.frames(first, last)
        noise = self.noise if cut is None else self.noise.at(frames)
        variance = {f: values_at(np.asarray(v, dtype=float), frames) for f, v in self.variance.items()}
        return Ingredients(data, stencil, noise, variance, cut, label)


def _built(place: Workers, recipe: Recipe, pieces: Sequence[_Wanted]) -> list[Any]:
    """Futures of the pieces, neighbours on the same worker; what those of an experiment share is made once."""
    prepared: dict[int, Any] = {}
    seats = [address for address, n in place.threads.items() for _ in range(n)]
    futures = []
    for number, wanted in enumerate(pieces):
        if wanted.sample is not None and wanted.experiment not in prepared:
            prepared[wanted.experiment] = place.call_on(None, prepare, recipe, wanted.sample)
        shared = prepared.get(wanted.experiment)
        seat = seats[number * len(seats) // len(pieces)]
        futures.append(place.call_on(seat, build, recipe, wanted.ingredients, shared))
    return futures


def _extent(one: _Experiment, outlines: Sequence[Outline]) -> Extent:
    a, b = one.matrices if len(outlines) > 1 else (None, None)
    return Extent(outlines[0].rows, np.concatenate([o.block_rows for o in outlines]), a, b)


def _experiments(data: Source | Sequence[Source]) -> tuple[Source, ...]:
    found = (data,) if isinstance(data, Data | Stored) else tuple(data)
    if not found or not all(isinstance(one, Data | Stored) for one in found):
        raise BvsiError("data: Data or Stored(path), or a list of these, one per experiment, is needed.")
    return found
