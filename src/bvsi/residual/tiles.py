"""Tiles of residuals: neighbouring test functions in space and time, with all the data that they touch.

    τ = F_1 × … × F_d × blocks,        data of τ = N_1 × … × N_d × times,        Σ_τ n_τ 1_τ = 1

F_a: functions along axis a, N_a: the nodes that they touch. The residuals of a tile are those of a smaller experiment,
with the rows, unknowns, blocks and times that are its own. On meshes there is one axis, all functions of the plane.

Along an axis a tile shares some functions with the next. What two tiles share is a tile that counts n_τ = −1, so that
sums over tiles count every residual once. Where residuals given those of the shared tile do not depend on the ones
beyond it, Σ⁻¹ is such a sum of Σ_ττ⁻¹; without shared tiles it would have to be block-diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers
from bvsi.linalg import Kronecker, Pattern
from bvsi.residual.jacobians import NodalTests, Scaled, Sensitivity, Slots
from bvsi.residual.system import Residuals, Structure

# Numbers in the Jacobian of an operator up to which its tiles are kept, 8 MB; bounds memory.
_KEPT = 1_000_000


@dataclass(frozen=True, eq=False)
class Tile:
    """Some of the residuals of an experiment, by index, and the data that they touch.

    Attributes
    ----------
    functions, axes
        Functions F_a and nodes N_a by axis.
    rows, blocks
        Residuals (m,) and blocks of the experiment.
    nodes, columns
        Nodes, and unknowns of all fields there.
    times
        Times; all where operators read earlier ones.
    structure
        The structure of these residuals.
    count
        How often it counts, one or minus one.
    """

    functions: tuple[Integers, ...]
    axes: tuple[Integers, ...]
    rows: Integers
    blocks: Integers
    nodes: Integers
    columns: Integers
    times: Integers
    structure: Structure
    count: int = 1
    _slots_made: dict[Slots, Slots] = field(default_factory=dict, repr=False)
    _tests_made: dict[NodalTests, NodalTests] = field(default_factory=dict, repr=False)
    _kept: WeakKeyDictionary[Sensitivity, Sensitivity] = field(default_factory=WeakKeyDictionary, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None}  # it cannot be sent, and is made again

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _kept=WeakKeyDictionary())

    @staticmethod
    def of(structure: Structure, functions: Sequence[Integers], blocks: Integers, count: int = 1) -> Tile:
        """Of functions by axis, at some blocks."""
        assert structure.mass_at_nodes is not None
        terms = structure.mass_at_nodes.at_nodes()
        sizes = [A.shape for A in terms[0].tests.product.factors]
        box = np.ravel_multi_index(np.ix_(*functions), [m for m, _ in sizes]).ravel()
        places = [(term.tests.rows.start, term.tests.product.places[box]) for term in terms]
        rows = np.concatenate([start + own[own >= 0] for start, own in places])
        if len(sizes) == structure.coordinates.shape[1]:
            pairs = zip(terms[0].tests.product.factors, functions, strict=True)
            axes = tuple(_touched(A, f) for A, f in pairs)
        else:  # one axis for all functions of a mesh
            axes = (np.unique(structure.pattern.restrict_rows(rows)[0].indices % structure.n_dofs),)
        nodes = np.ravel_multi_index(np.ix_(*axes), [n for _, n in sizes]).ravel()
        columns = (structure.n_dofs * np.arange(len(structure.fields))[:, None] + nodes).ravel()
        a, b = structure.a[blocks], structure.b[blocks]
        times = np.arange(structure.n_times) if structure.lagged else np.unique((abs(a) + abs(b)).indices)
        active = None if structure.active is None else structure.active[np.ix_(rows, blocks)]
        own = replace(
            structure,
            pattern=_some(structure.pattern, rows, columns),
            a=a[:, times],
            b=b[:, times],
            coordinates=structure.coordinates[rows],
            equation_of_row=structure.equation_of_row[rows],
            n_dofs=len(nodes),
            times=structure.times[times],
            active=None if active is None or active.all() else active,
            mass_at_nodes=None,
        )
        tile = Tile(tuple(functions), axes, rows, blocks, nodes, columns, times, own, count)
        return replace(tile, structure=replace(own, mass_at_nodes=tile.sensitivity(structure.mass_at_nodes)))

    def residuals(self, whole: Residuals) -> Residuals:
        """The residuals of the tile."""
        Z = whole.Z[np.ix_(self.rows, self.blocks)]
        made: dict[int, Array] = {}
        left = None if whole.left is None else self.sensitivity(whole.left, made)
        return Residuals(self.structure, Z, tuple(self.sensitivity(J, made) for J in whole.J), left)

    def sensitivity(self, whole: Sensitivity, made: dict[int, Array] | None = None) -> Sensitivity:
        """J_i in the rows, unknowns and times of the tile; small ones are kept.

        Parameters
        ----------
        made
            Factors of the tile by the identity of those of the whole: what is shared there is shared here.
        """
        if whole in self._kept:
            return self._kept[whole]
        made = {} if made is None else made
        terms = tuple(term.of_some(self._scaled(term.at_nodes(), made)) for term in whole.terms)
        own = Sensitivity(self.structure.pattern, terms, whole.scale)
        if sum(term.at_nodes().factor.size for term in whole.terms) <= _KEPT:
            self._kept[whole] = own
        return own

    def _scaled(self, term: Scaled, made: dict[int, Array]) -> Scaled:
        times = np.zeros(1, dtype=np.int64) if term.constant else self.times
        first = term.first // term.factor.shape[1] * len(self.nodes)
        if id(term.factor) not in made:
            made[id(term.factor)] = term.factor[np.ix_(times, self.nodes)]
        return Scaled(self._slots(term.slots), self._tests(term.tests), made[id(term.factor)], first)

    def _slots(self, whole: Slots) -> Slots:
        """The same record for the same slots, so that terms on them add up."""
        if whole not in self._slots_made:
            self._slots_made[whole] = Slots(self.structure.pattern, partial(_some_slots, whole, self.rows))
        return self._slots_made[whole]

    def _tests(self, whole: NodalTests) -> NodalTests:
        if whole not in self._tests_made:
            first, stop = whole.rows.start, whole.rows.stop
            start, local = int(np.searchsorted(self.rows, first)), self.rows[(self.rows >= first) & (self.rows < stop)]
            factors = [A[f][:, n] for A, f, n in zip(whole.product.factors, self.functions, self.axes, strict=True)]
            kept = None
            if whole.product.rows is not None:
                sizes = [A.shape[0] for A in whole.product.factors]
                box = np.ravel_multi_index(np.ix_(*self.functions), sizes).ravel()
                kept = np.flatnonzero(np.isin(box, whole.product.rows))
            product = Kronecker(Kronecker.of(factors).factors, kept)
            pattern = _some(whole.pattern, local - first, self.nodes)
            self._tests_made[whole] = NodalTests(product, pattern, slice(start, start + len(local)))
        return self._tests_made[whole]


def tiles_of(structure: Structure, rows: float, shared: float) -> tuple[Tile, ...]:
    """Tiles of at most so many residuals, as long in all directions, in widths of a function; () for one tile.

    One tile is what spaces get whose tests are not given at the nodes.

    Parameters
    ----------
    shared
        Part of a tile, along an axis that is cut, which it shares with the next; none on meshes.
    """
    if structure.mass_at_nodes is None or structure.n_rows * structure.n_blocks <= rows:
        return ()
    tests = structure.mass_at_nodes.at_nodes()[0].tests.product
    axes = [_Axis.of(A) for A in tests.factors]
    if len(axes) < structure.coordinates.shape[1]:  # one axis for all functions of a mesh
        if tests.rows is not None:
            return ()
        axes[0] = replace(axes[0], places=structure.coordinates[: axes[0].n])
    axes.append(_Axis.of(abs(structure.a) + abs(structure.b)))
    cuts, sizes = [1] * len(axes), [float(axis.n) for axis in axes]
    while len(structure.equations) * math.prod(sizes) > rows and max(sizes) > 1:
        longest = max(range(len(axes)), key=lambda a: axes[a].length(sizes[a]) * (sizes[a] > 1))
        cuts[longest] += 1
        sizes[longest] = axes[longest].size(cuts[longest], shared)
    found = []
    for *functions, blocks in product(*(axis.pieces(c, shared) for axis, c in zip(axes, cuts, strict=True))):
        count = blocks[1] * math.prod(n for _, n in functions)
        found.append(Tile.of(structure, [index for index, _ in functions], blocks[0], count))
    return tuple(tile for tile in found if tile.structure.active is None or tile.structure.active.any())


@dataclass(frozen=True, eq=False)
class _Axis:
    """Functions along an axis: their places (m, dim), how many of them overlap one on a side, whether ends meet."""

    places: Array
    width: float
    periodic: bool

    @staticmethod
    def of(A: Any) -> _Axis:
        """Of functions whose values at the points are the rows of A (m × n)."""
        there = sparse.csr_array(abs(sparse.csr_array(A)) > 0).astype(np.float64)
        overlaps, m = there @ there.T, int(A.shape[0])
        width = float(np.diff(overlaps.indptr).max() + 1) / 2
        return _Axis(np.arange(m, dtype=float)[:, None], width, m > 2 * width and overlaps[0, m - 1] > 0)

    @property
    def n(self) -> int:
        """Number of functions."""
        return len(self.places)

    def length(self, size: float) -> float:
        """Length of so many functions in widths of one; along one of the directions of a plane."""
        dim = self.places.shape[1]
        return float(size ** (1 / dim) / max(1.0, ((2 * self.width - 1) ** (1 / dim) + 1) / 2))

    def size(self, pieces: int, shared: float) -> float:
        """Functions of one of so many pieces."""
        shared = 0.0 if self.places.shape[1] > 1 else shared
        return min(self.n, self.n / (pieces * (1 - shared) + (0.0 if self.periodic else shared)))

    def pieces(self, pieces: int, shared: float) -> list[tuple[Integers, int]]:
        """Functions of each piece, and how often it counts."""
        size = self.size(pieces, shared)
        if size >= self.n:
            return [(np.arange(self.n), 1)]
        if self.places.shape[1] > 1:
            return [(piece, 1) for piece in _bisected(np.arange(self.n), self.places, pieces)]
        common = int(shared * size)
        starts = np.linspace(0, self.n - (0 if self.periodic else common), pieces + 1).round().astype(np.int64)
        found = [(first, last + common, 1) for first, last in pairwise(starts)]
        if common:
            found += [(first, first + common, -1) for first in starts[0 if self.periodic else 1 : -1]]
        return [(np.sort(np.arange(first, last) % self.n), count) for first, last, count in found]


def _bisected(index: Integers, places: Array, pieces: int) -> list[Integers]:
    """So many pieces, as even as can be: cut across the longest direction, again and again."""
    if pieces == 1:
        return [np.sort(index)]
    order = index[np.argsort(places[index, int(np.argmax(np.ptp(places[index], axis=0)))], kind="stable")]
    first = pieces // 2
    at = len(index) * first // pieces
    return [*_bisected(order[:at], places, first), *_bisected(order[at:], places, pieces - first)]


def _touched(A: Any, functions: Integers) -> Integers:
    """Nodes where some of the functions of an axis, the rows of A (m × n), are not zero, and those next to them.

    Patterns hold the ends of a support as well. All nodes for all functions.
    """
    n = int(A.shape[1])
    if len(functions) == A.shape[0]:
        return np.arange(n)
    there = np.flatnonzero(abs(A[functions]).sum(axis=0))
    return np.unique(np.concatenate([there - 1, there, there + 1]) % n).astype(np.int64)


def _some(pattern: Pattern, rows: Integers, columns: Integers) -> Pattern:
    """Some rows of a pattern, and the columns, sorted, which hold all their entries; when they are first asked for."""

    def made() -> Pattern:
        few = pattern.restrict_rows(rows)[0]
        return Pattern((len(rows), len(columns)), few.indptr, np.searchsorted(columns, few.indices))

    return Pattern.deferred((len(rows), len(columns)), made)


def _some_slots(whole: Slots, rows: Integers) -> Integers:
    """Where the slots in some rows of a pattern stand among those of these rows."""
    position, kept = np.full(whole.pattern.nnz, -1, dtype=np.int64), whole.pattern.restrict_rows(rows)[1]
    position[kept] = np.arange(len(kept))
    own = position[whole.index]
    return np.asarray(own[own >= 0])
