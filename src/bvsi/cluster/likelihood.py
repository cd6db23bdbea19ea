"""The residual likelihood of pieces that live on workers.

    H = Σ_p H_p,   g = Σ_p g_p,   q = Σ_p q_p,   S = Σ_p S_p, …        p: pieces, some blocks of one experiment each

An evaluation is one task per piece. θ and the names of the operators go out; sums of d × d numbers, and q and scores by
block, come back. Everything is added in the order of the pieces, so that a sum depends on how the experiments are cut,
in its last digits, but not on who was first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bvsi.cluster import piece
from bvsi.cluster.piece import PieceModel
from bvsi.cluster.place import Here, Place
from bvsi.common.arrays import Array, Integers, Rng
from bvsi.errors import BvsiError
from bvsi.likelihood import Density, InstrumentalEquations, NormalEquations, ProfileEquations, ResidualLikelihood
from bvsi.likelihood.covariance import Part
from bvsi.likelihood.equations import MomentEquations, instrument_shift
from bvsi.likelihood.products import NoiseShare
from bvsi.likelihood.stacked import telling
from bvsi.noise import IID, UnknownScale

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Extent:
    """One experiment: residuals per block N, those used in each block (K,), and its stencil (K × T) where it is cut."""

    rows: int
    block_rows: Integers
    a: Any
    b: Any

    @property
    def shift(self) -> int:
        """Shift L of its instruments; zero where it is not cut, since its one piece knows it."""
        return 0 if self.a is None else instrument_shift(self.a, self.b)

    def some_blocks(self, chosen: Integers) -> Extent:
        """That of some blocks."""
        a, b = (None if rows is None else rows[chosen] for rows in (self.a, self.b))
        return Extent(self.rows, self.block_rows[chosen], a, b)


@dataclass(frozen=True)
class Seat:
    """Where a piece stands: its experiment, and its blocks there.

    Attributes
    ----------
    shared
        Times that other pieces have as well.
    first
        Those of them that no earlier piece has.
    """

    experiment: int
    blocks: tuple[int, int]
    shared: frozenset[float] = frozenset()
    first: frozenset[float] = frozenset()


@dataclass(frozen=True, eq=False)
class ClusterLikelihood(ResidualLikelihood):
    """Likelihood whose residuals are elsewhere; make it with :func:`bvsi.cluster.cluster_likelihood`.

    The system has names and a description, and no experiments.

    Attributes
    ----------
    place
        Where the pieces are.
    pieces
        One future each, or themselves.
    seats
        Where they stand, in order.
    extents
        One per experiment.
    everything
        Names of all operators of the pieces.
    costly
        Whether estimates to a hundredth of a standard deviation have to do.
    T
        θ of all operators = T η where operators are tied together, (d, m), else None.
    chosen
        Blocks of each experiment that count, by index; None for all.
    """

    place: Place
    pieces: tuple[Any, ...]
    seats: tuple[Seat, ...]
    extents: tuple[Extent, ...]
    everything: tuple[str, ...]
    costly: bool = False
    T: Array | None = None
    chosen: tuple[Integers, ...] | None = None

    def __repr__(self) -> str:
        return (
            f"ClusterLikelihood({self.d} operators, {len(self.extents)} experiments in {len(self.pieces)} pieces, "
            f"{self.n} residuals; {self.system.description}; weighting={self.weighting!r})"
        )

    @property
    def n(self) -> int:
        """Number of residuals used, over all experiments."""
        return sum(int(extent.block_rows.sum()) for extent in self.extents)

    @property
    def rows(self) -> tuple[int, ...]:
        """Residuals per block of each experiment, N."""
        return tuple(extent.rows for extent in self.extents)

    @property
    def block_rows(self) -> tuple[Integers, ...]:
        """Residuals used in each block of each experiment, (K,)."""
        return tuple(extent.block_rows for extent in self.extents)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Refused: they are on the workers."""
        raise BvsiError("this needs the residuals themselves, which are on the workers; leave out client.")

    @property
    def evolves(self) -> bool:
        """Always: steady problems stay on this machine."""
        return True

    @property
    def slope_is_cheap(self) -> bool:
        """Whether q and ∇q cost far less than H, on every worker."""
        return all(self._sum(piece.cheap_slope))

    def restrict(self, names: Iterable[str]) -> ClusterLikelihood:
        """The likelihood of a model with only the named operators; workers do the same when they are next asked."""
        names = list(names)
        T = None if self.T is None else self.T[:, [self.system.index(name) for name in names]]
        return replace(self, system=self.system.subset(names), T=T)

    def combined(self, T: Array, names: tuple[str, ...]) -> ClusterLikelihood:
        """The likelihood of η with θ = T η, T (d, m), and m names."""
        if self.T is None:
            full = np.zeros((len(self.everything), T.shape[1]))
            full[[self.everything.index(name) for name in self.names]] = T
        else:
            full = self.T @ T
        return replace(self, system=self.system.combined(T, names), T=full)

    def some_blocks(self, chosen: Sequence[Integers]) -> ClusterLikelihood:
        """The likelihood of some blocks of each experiment, by index; workers do the same when they are next asked."""
        before = [np.arange(len(extent.block_rows)) for extent in self.extents] if self.chosen is None else self.chosen
        extents = tuple(extent.some_blocks(some) for extent, some in zip(self.extents, chosen, strict=True))
        now = tuple(blocks[some] for blocks, some in zip(before, chosen, strict=True))
        return replace(self, extents=extents, chosen=now)

    def some_tiles(self) -> ResidualLikelihood | None:
        """The likelihood of some tiles, which are brought here: searching them is no work for several."""
        number = [len(own) for own in self._by_experiment(self.pieces)]
        found = self._sums(piece.pilot, [(number[seat.experiment],) for seat in self.seats])
        some = [[part for own in of for part in own] for of in self._by_experiment(found)]
        return self._on_tiles([[own[i] for i in telling([part.residuals.X for part in own])] for own in some])

    def slope_near(self, theta: Array, near: Array) -> Array | None:
        """−½∇Q at θ with the factors that the workers have; None where one of them has none."""
        found = self._sum(piece.slope_near, self.vector(theta), self.vector(near))
        return None if any(one is None for one in found) else np.asarray(np.sum(found, axis=0))

    def each(
        self, work: Callable[[ResidualLikelihood, Item], Result], items: Iterable[Item], *, threads: bool = False
    ) -> list[Result]:
        """work(likelihood, item) for every item, each a task; pieces go to the worker that does it.

        A single item stays here, so that its evaluations are spread over the workers. So do a few whose evaluations
        take seconds, where every thread has a piece: pieces then need not travel, and all are as busy.
        """
        chosen, spread = list(items), self.costly and len(self.pieces) >= self.place.n_threads
        if len(chosen) == 1 or (spread and not threads):
            return [work(self, item) for item in chosen]
        model = UnknownScale() if not self.noise[0].scale_known else IID(1.0)
        # pieces have the noise; of it the likelihood itself knows only whether its scale is known
        light = replace(self, pieces=(), place=Here(), noise=(model,) * len(self.noise))
        pieces = list(self.pieces)
        calls = self.place.calls(_apply, [(work, item, light, pieces) for item in chosen])
        return self.place.values(calls, f"{len(chosen)} models or chains")

    def normal_equations(self, theta: ArrayLike) -> NormalEquations:
        """H, g and q at θ with W = W(θ), summed over pieces."""
        found: list[NormalEquations] = self._sum(piece.normal, self.vector(theta))
        return _normal(self._by_experiment(found))

    def profile_equations(
        self, theta: ArrayLike, *, smoothing: float = 1.0, rng: Rng | None = None, spread: bool = True
    ) -> ProfileEquations:
        """H, g, q and scores at θ with smoothed regressors, summed over pieces; S and N where given an rng.

        For what times of several pieces add to S workers exchange V.
        """
        own = [None] * len(self.extents) if rng is None else rng.spawn(len(self.extents))
        vector, calls = self.vector(theta), self.place.calls
        arguments = [(vector, smoothing, own[seat.experiment], spread, seat.shared) for seat in self.seats]
        opened = calls(piece.profile, self._asked(arguments))
        together = []
        for one, seat in zip(self.pieces, self.seats, strict=True):
            if seat.first and rng is not None and spread:
                pairs = zip(opened, self.seats, strict=True)
                parts = [o for o, s in pairs if s.experiment == seat.experiment and s.shared & seat.first]
                together.append((one, self._model(seat), seat.first, parts))
        wanted = [*calls(piece.first_of, [(one,) for one in opened]), *calls(piece.spread_together, together)]
        results, n = self.place.values(wanted), len(self.pieces)
        joined = [
            replace(
                ProfileEquations.total(some),
                equations=_normal([[p.equations for p in some]]),
                scores=_joined([score for p in some for score in p.scores]),
            )
            for some in self._by_experiment(results[:n])
        ]
        total = ProfileEquations.total(joined)
        return total if total.S is None else replace(total, S=sum(results[n:], start=total.S))

    def moment_equations(self, theta: ArrayLike, *, rng: Rng, draws: int = 4) -> MomentEquations:
        """ZᵀWZ with W = W(θ) and what noise adds to it, summed over pieces."""
        own = rng.spawn(len(self.extents))
        arguments = [(self.vector(theta), own[seat.experiment], draws) for seat in self.seats]
        return MomentEquations.total(self._sums(piece.moments, arguments))

    def instrumental_equations(self, theta: ArrayLike) -> InstrumentalEquations:
        """A and c at θ with regressors of other times as instruments, which pieces lend to each other."""
        vector, blocks = self.vector(theta), [self._blocks(seat) for seat in self.seats]
        shifts = [extent.shift for extent in self.extents]
        arguments = []
        for seat, (first, last) in zip(self.seats, blocks, strict=True):
            e, shift = seat.experiment, shifts[seat.experiment]
            before, after = self._lent(e, first - shift, first), self._lent(e, last, last + shift)
            arguments.append((vector, before, after, shift))
        return InstrumentalEquations.total(self._sums(piece.instruments, arguments))

    def noise_share(self, rng: Rng) -> NoiseShare:
        """How much of each operator is noise, by equation, summed over pieces."""
        own = rng.spawn(len(self.extents))
        return NoiseShare.of(self._sums(piece.share, [(own[seat.experiment],) for seat in self.seats]))

    def density(
        self, theta: ArrayLike, *, gradient: bool = False, logdet: bool = True, change: bool = False
    ) -> Density:
        """Misfit and log-determinant at θ, summed over pieces; arguments as of the likelihood on one machine."""
        return Density.total(self._sum(piece.density, self.vector(theta), gradient, logdet, change))

    def check_change_of_variables(self) -> None:
        """Refuse where the residuals are not a change of variables from the data."""
        self._sum(piece.check_change)

    def _model(self, seat: Seat) -> PieceModel:
        """What a piece is asked for."""
        if self.chosen is None:
            return PieceModel(self.names, self.T, self.weighting)
        chosen, (first, last) = self.chosen[seat.experiment], seat.blocks
        blocks = chosen[(chosen >= first) & (chosen < last)] - first
        return PieceModel(self.names, self.T, self.weighting, blocks)

    def _blocks(self, seat: Seat) -> tuple[int, int]:
        """Own blocks of a piece, first and last + 1, counted among those that are chosen."""
        if self.chosen is None:
            return seat.blocks
        first, last = np.searchsorted(self.chosen[seat.experiment], seat.blocks)
        return int(first), int(last)

    def _sum(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """function(piece, model, *args) of every piece."""
        return self._sums(function, [args] * len(self.pieces))

    def _sums(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self.place.values(self.place.calls(function, self._asked(arguments)))

    def _asked(self, arguments: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Piece and model in front of what else each piece is given."""
        triples = zip(self.pieces, self.seats, arguments, strict=True)
        return [(one, self._model(seat), *args) for one, seat, args in triples]

    def _lent(self, experiment: int, first: int, last: int) -> list[Any]:
        """Regressors of the blocks first ≤ k < last of an experiment, from the pieces that own them."""
        wanted = []
        for one, seat in zip(self.pieces, self.seats, strict=True):
            k0, k1 = self._blocks(seat)
            begin, end = max(first, k0), min(last, k1)
            if seat.experiment == experiment and begin < end:
                wanted.append((one, self._model(seat), begin - k0, end - k0))
        return self.place.calls(piece.lend, wanted)

    def _by_experiment(self, found: Sequence[Result]) -> list[list[Result]]:
        sorted_out: list[list[Result]] = [[] for _ in self.extents]
        for seat, result in zip(self.seats, found, strict=True):
            sorted_out[seat.experiment].append(result)
        return sorted_out


def _normal(by_experiment: Sequence[Sequence[NormalEquations]]) -> NormalEquations:
    """Sum over pieces, q by block in order of time within each experiment."""
    q = tuple(np.concatenate([blocks for one in some for blocks in one.q_blocks]) for some in by_experiment)
    return NormalEquations.total([one for some in by_experiment for one in some], q)


def _joined(scores: Sequence[Array]) -> tuple[Array, ...]:
    """Scores of the blocks of an experiment in order of time, (K, d); stacked weighting has none."""
    return (np.concatenate(scores),) if scores else ()


def _apply(work: Callable[..., Any], item: Any, light: ClusterLikelihood, pieces: list[Any]) -> Any:
    """One item on a worker, with all pieces at hand."""
    return work(replace(light, pieces=tuple(pieces)), item)
