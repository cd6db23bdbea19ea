"""A piece of an experiment on a worker, and what it is asked for. Results are sums over its own blocks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bvsi.common.arrays import Array, Integers, Rng
from bvsi.likelihood import Density, InstrumentalEquations, NormalEquations, ProfileEquations, ResidualLikelihood
from bvsi.likelihood.block import Weighting
from bvsi.likelihood.covariance import Part
from bvsi.likelihood.equations import MomentEquations, Neighbours, check_change_of_variables, instrumental_equations
from bvsi.likelihood.products import NoiseSizes, moment_equations, noise_sizes


@dataclass(frozen=True, eq=False)
class PieceModel:
    """Which operators, with which weights, on which blocks of a piece.

    Attributes
    ----------
    names
        Names of the operators.
    T
        θ of all operators = T η where operators are tied together, (d, m), else None.
    blocks
        Some of the blocks there, by index; None for all.
    """

    names: tuple[str, ...]
    T: Array | None
    weighting: Weighting
    blocks: Integers | None = None

    def of(self, likelihood: ResidualLikelihood) -> ResidualLikelihood:
        """The likelihood of this model, from that of all operators and blocks."""
        some = likelihood if self.blocks is None else likelihood.some_blocks([self.blocks])
        own = some.restrict(self.names) if self.T is None else some.combined(self.T, self.names)
        return replace(own, weighting=self.weighting)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal models."""
        arrays = (None if values is None else values.tobytes() for values in (self.T, self.blocks))
        return (self.names, self.weighting, *arrays)


@dataclass(frozen=True, eq=False)
class Piece:
    """Residual blocks of one experiment, all operators.

    Attributes
    ----------
    own
        Its likelihood.
    label
        For messages.
    """

    own: ResidualLikelihood
    label: str
    _last: list[tuple[tuple[object, ...], Piece]] = field(default_factory=list, repr=False)

    def of(self, model: PieceModel) -> Piece:
        """The piece of a model. The last one is kept, since the same model is asked for many times in a row."""
        key = model.key
        for known, piece in list(self._last):
            if known == key:
                return piece
        piece = replace(self, own=model.of(self.own), _last=[])
        self._last[:] = [(key, piece)]
        return piece

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": []}

    @property
    def part(self) -> Part:
        """Residuals and plan of the own blocks."""
        return replace(self.own.parts[0], label=self.label)

    @property
    def weighting(self) -> Weighting:
        """The choice of W."""
        return self.own.weighting


@dataclass(frozen=True, eq=False)
class Outline:
    """What the caller knows of a piece: N, residuals used in each own block (K,), times, and the rest in words.

    Attributes
    ----------
    costly
        Whether estimates to a hundredth of a standard deviation have to do.
    """

    rows: int
    block_rows: NDArray[np.int64]
    times: Array
    costly: bool
    description: str


def outline(piece: Piece) -> Outline:
    """Sizes of a piece."""
    structure, costly = piece.part.residuals.structure, piece.own.weighting.uses_noise and piece.own.costly
    return Outline(structure.n_rows, structure.block_rows, structure.times, costly, piece.own.system.description)


def pilot(piece: Piece, model: PieceModel, pieces: int) -> tuple[Part, ...]:
    """Some tiles of a piece, one of so many of its experiment, as experiments of their own."""
    own = piece.of(model)
    return own.weighting.pilot(own.part, pieces)


def normal(piece: Piece, model: PieceModel, theta: Array) -> NormalEquations:
    """H, g, q."""
    own = piece.of(model)
    return own.weighting.normal_equations(own.part, theta)


def cheap_slope(piece: Piece, model: PieceModel) -> bool:
    """Whether q and ∇q cost far less than H."""
    return piece.of(model).own.slope_is_cheap


def slope_near(piece: Piece, model: PieceModel, theta: Array, near: Array) -> Array | None:
    """−½∇Q at θ with the factors of a θ close by; None where that would be no gain."""
    own = piece.of(model)
    return own.weighting.slope_near(own.part, theta, near)


def profile(
    piece: Piece,
    model: PieceModel,
    theta: Array,
    smoothing: float,
    rng: Rng | None,
    spread: bool,
    shared: frozenset[float],
) -> tuple[ProfileEquations, Mapping[float, Array]]:
    """H, g, q and scores; with an rng N, S but for the times that other pieces have as well, and V at these."""
    own, rng = piece.of(model), copy.deepcopy(rng)  # in one process pieces would share a generator
    times = own.part.residuals.structure.times
    local = frozenset(j for j, t in enumerate(times.tolist()) if t in shared) if rng is not None and spread else ()
    found = own.weighting.profile_equations(
        own.part, theta, smoothing=smoothing, rng=rng, spread=spread, shared=frozenset(local)
    )
    return replace(found, V={}), {float(times[j]): V for j, V in found.V.items()}


def first_of(pair: tuple[ProfileEquations, Mapping[float, Array]]) -> ProfileEquations:
    """What goes to the caller: V stays among the workers."""
    return pair[0]


def spread_together(
    piece: Piece,
    model: PieceModel,
    first: frozenset[float],
    found: Sequence[tuple[ProfileEquations, Mapping[float, Array]]],
) -> Array:
    """What the times that this piece is the first to have add to S, (d, d).

    Parameters
    ----------
    found
        Of all pieces with such times.
    """
    part = piece.of(model).part
    S = np.zeros((part.residuals.d, part.residuals.d))
    for j, time in enumerate(part.residuals.structure.times.tolist()):
        V = sum(by_time[time] for _, by_time in found if time in by_time) if time in first else 0.0
        if isinstance(V, np.ndarray):
            S += V.T @ part.covariance.noise_times(j, V)
    return S


def moments(piece: Piece, model: PieceModel, theta: Array, rng: Rng, draws: int) -> MomentEquations:
    """ZᵀWZ and what noise adds to it."""
    own = piece.of(model)
    weights = own.weighting.weights(own.part, theta)
    return moment_equations(own.part, theta, weights, rng=copy.deepcopy(rng), draws=draws)


def share(piece: Piece, model: PieceModel, rng: Rng) -> NoiseSizes:
    """How much of each operator is noise."""
    return noise_sizes(piece.of(model).part, copy.deepcopy(rng))


def density(piece: Piece, model: PieceModel, theta: Array, gradient: bool, logdet: bool, change: bool) -> Density:
    """Misfit, log-determinant, change of variables."""
    own = piece.of(model)
    return own.weighting.density(own.part, theta, gradient=gradient, logdet=logdet, change=change)


def check_change(piece: Piece, model: PieceModel) -> None:
    """Refuse where residuals are not a change of variables."""
    check_change_of_variables(piece.of(model).part)


def lend(piece: Piece, model: PieceModel, first: int, last: int) -> Array:
    """Regressors of some own blocks, (N, last − first, d), for the instruments of another piece."""
    return np.ascontiguousarray(piece.of(model).part.residuals.X[:, first:last])


def instruments(
    piece: Piece, model: PieceModel, theta: Array, before: Sequence[Array], after: Sequence[Array], shift: int
) -> InstrumentalEquations:
    """A and c.

    Parameters
    ----------
    before, after
        Regressors of the blocks on both sides, in order of time.
    shift
        Of the experiment; zero where the piece is all of it.
    """
    own = piece.of(model)
    if not shift:
        return instrumental_equations(own.part, theta)
    nothing = own.part.residuals.X[:, :0]
    left, right = (np.concatenate([nothing, *some], axis=1) for some in (before, after))
    return instrumental_equations(own.part, theta, Neighbours(left, right, shift))
