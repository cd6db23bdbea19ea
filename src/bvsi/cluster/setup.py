"""From data, library and a Dask client to a likelihood on its workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from bvsi.cluster.building import Ingredients, Recipe, build, prepare
from bvsi.cluster.cutting import Cut, SplineRows, StencilRows, cuts, rows_of
from bvsi.cluster.likelihood import ClusterLikelihood, Extent, Seat
from bvsi.cluster.piece import Outline, outline
from bvsi.cluster.place import Workers
from bvsi.cluster.stored import Stored
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.likelihood import Block, Weighting
from bvsi.likelihood.equations import instrument_shift
from bvsi.noise import Noise
from bvsi.noise.models import noise_of_experiments, values_at
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, ResidualSystem, Stencil
from bvsi.residual.assembly import Discretisation, Variance, per_experiment
from bvsi.residual.thinning import Thinning
from bvsi.spaces import Galerkin

Source: TypeAlias = Data | Stored
"""An experiment: in memory, or in a file."""

# Pieces per thread. More would balance better when a worker dies; fewer share factorisations and cost fewer messages.
_PER_THREAD = 2
# Blocks of a piece, where there are enough for all threads: those that pieces share are then few.
_LEAST = 4
# Supports of a test function in time that a piece with tiles is long at least: λ–ω on 256² × 201 values has three,
# and tiles half as long on one machine too. With two such data were not cut, and a second worker had nothing to do.
_SUPPORTS = 1


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
    thin: Thinning | None = None,
    progress: Progress = silent,
) -> ClusterLikelihood:
    """The same as ``residual_likelihood(assemble(data, library), noise, weighting)``, assembled on the workers.

    The other arguments are those of :func:`bvsi.assemble` and :func:`bvsi.residual_likelihood`.

    An experiment is cut in time: with block weighting into about two pieces per thread of the cluster, with tiles into
    one per thread, of at least one support of a test function in time, each with tiles of its own. With stacked
    weighting, which couples all times, and with missing values it is one piece.

    Parameters
    ----------
    client
        A dask.distributed.Client.
    thin
        How covariances of many data are thinned, as for :func:`bvsi.assemble`.
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
        _Experiment(number, *parts, stencil, library.time_order, weighting, thin)
        for number, parts in enumerate(zip(experiments, models, variances, strict=True))
    ]
    pieces = [p for one in made for p in one.pieces(place.n_threads)]
    futures = _built(place, recipe, pieces)
    outlines: list[Outline] = place.one_by_one(place.calls(outline, [(future,) for future in futures]), "assembling")
    described = outlines[0].description
    for rows in (StencilRows, SplineRows):
        described = described.replace(rows.__name__, type(stencil).__name__)
    of = [[(p, o) for p, o in zip(pieces, outlines, strict=True) if p.experiment == one.number] for one in made]
    extents = tuple(_extent(one, [o for _, o in own]) for one, own in zip(made, of, strict=True))
    return ClusterLikelihood(
        ResidualSystem(library.names, (), described),
        models,
        weighting,
        (),
        place=place,
        pieces=tuple(futures),
        seats=tuple(seat for own in of for seat in _seats(own)),
        extents=extents,
        everything=library.names,
        costly=any(o.costly for o in outlines),
    )


def _seats(pieces: Sequence[tuple[_Wanted, Outline]]) -> list[Seat]:
    """Where the pieces of one experiment stand, and which times they share."""
    have, found, before = Counter(t for _, o in pieces for t in o.times.tolist()), [], set[float]()
    for wanted, own in pieces:
        shared = frozenset(t for t in own.times.tolist() if have[t] > 1)
        blocks = (0, len(own.block_rows)) if wanted.cut is None else wanted.cut.blocks
        found.append(Seat(wanted.experiment, blocks, shared, shared - before))
        before |= shared
    return found


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


@dataclass(frozen=True, eq=False)
class _Experiment:
    number: int
    source: Source
    noise: Noise
    variance: Variance
    stencil: Stencil
    time_order: int
    weighting: Weighting
    thin: Thinning | None

    @property
    def matrices(self) -> tuple[Any, Any]:
        """a, b (K × T)."""
        return self.stencil.matrices(self.source.times, self.time_order)

    @property
    def cuttable(self) -> bool:
        """Whether weights may be cut, and no block is dropped."""
        gaps = self.source.measured is not None if isinstance(self.source, Data) else bool(self.source.reading.missing)
        return not self.weighting.exact and not gaps

    def pieces(self, threads: int) -> list[_Wanted]:
        """Pieces in order of time, for so many threads."""
        a, b = self.matrices
        n = min(_PER_THREAD * threads, max(threads, a.shape[0] // _LEAST), a.shape[0])
        if self.weighting.couples_blocks:
            n = min(threads, a.shape[0] // (_SUPPORTS * instrument_shift(a, b)))
        if not self.cuttable or n <= 1:
            return [_Wanted(self.number, None, self._ingredients(None), None)]
        sample = self._ingredients(cuts(a, b, a.shape[0])[0])
        return [_Wanted(self.number, cut, self._ingredients(cut), sample) for cut in cuts(a, b, n)]

    def _thinning(self, cut: Cut | None) -> Thinning | None:
        """All pieces are thinned, or none: what counts is the size of the experiment."""
        if self.thin is None or cut is None:
            return self.thin
        some = self.source if isinstance(self.source, Data) else self.source.frames(0, 2, checked=False).data()
        many = len(some.fields) * some.n_nodes * len(self.source.times) >= self.thin.values
        return replace(self.thin, values=0) if many else None

    def _ingredients(self, cut: Cut | None) -> Ingredients:
        T = len(self.source.times)
        first, last = (0, T) if cut is None else cut.frames
        frames, label = slice(first, last), f"experiment {self.number}"
        if cut is not None:
            label += f" from block {cut.blocks[0]}"
        data = self.source.select_times(frames) if isinstance(self.source, Data) else self.source.frames(first, last)
        noise = self.noise if cut is None else self.noise.at(frames)
        variance = {f: values_at(np.asarray(v, dtype=float), frames) for f, v in self.variance.items()}
        stencil = self.stencil if cut is None else rows_of(self.stencil, self.source.times, self.time_order, cut)
        return Ingredients(data, stencil, noise, variance, self._thinning(cut), first, label)


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
