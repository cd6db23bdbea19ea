"""Where equations, fields and operators stand in the stacked residual: rows, columns, slots of one pattern.

Only residuals that depend on measured values can be used:

active_ik = no (n, j) with û_nj not measured and  (a_kj ≠ 0 and M_in ≠ 0)  or  (b_kj ≠ 0 and some J_in ≠ 0)

On nodal spaces M and every J are zero where the test function is. Test functions are therefore as wide as the mask lets
them:

    n(g): residuals (m, k) whose box of nodes and frames holds no missing value      V(g) = n(g) Π_a g_a

A residual stands for a gap g_a of every axis, so that V is the number of values that all of them describe. On a Fisher
front of which a moving band is seen, error bars follow V^(−1/2) within 20% over a factor 50 of V, whatever the gaps.
Gaps are therefore the widest with nearly the largest V that few enough residuals have, or nearly that which the gaps
wanted would have, in proportion, if nothing was missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.common.naming import Jet
from bvsi.data import Data, Grid
from bvsi.data.smoothness import along
from bvsi.errors import DataError, OperatorError
from bvsi.linalg import Pattern
from bvsi.operators import Library
from bvsi.operators.vocabulary import lag_of
from bvsi.residual.discrete import Blocks, reach_of
from bvsi.residual.jacobians import Delayed, JacobianKind, Matrix, NodalTests, Scaled, Sensitivity, Slots
from bvsi.residual.stencils import TemporalTests
from bvsi.spaces import Reach, Space
from bvsi.spaces.spline_tests import SplineTests, axis_tests

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator


# Part of the largest entry below which one is the rounding of zero: a spline of degree 5 is 1e-62 of its maximum where
# a node misses a knot by 1e-12 of a gap.
_ROUNDING = 1e-50

#: Equation, field, and how far the coupling reaches.
Block: TypeAlias = tuple[str, str, Reach]


class Layout:
    """Where equations and fields stand in the stacked system.

    Rows: for each equation its test functions (those on the boundary left out where they have to vanish, their
    neighbours too where an operator keeps inside). Columns: for each field all unknowns. Blocks (equation, field,
    reach) exist where an operator, or M, needs them.

    Parameters
    ----------
    tests
        Test functions by equation, where they are not to be all that can be used.
    """

    def __init__(
        self,
        library: Library,
        operators: tuple[WeakOperator, ...],
        space: Space,
        tests: Mapping[str, Integers] | None = None,
    ) -> None:
        self.space = space
        used = {operator.equation for operator in operators}
        self.equations = tuple(e for e in library.equations if e in used)
        read = {field for operator in operators for field in operator.reads}
        self.fields = tuple(f for f in operators[0].words.fields if f in read or f in self.equations)
        self.tests = dict(tests or {e: _tests(library, e, operators, space) for e in self.equations})
        self.row_start = _starts([len(self.tests[e]) for e in self.equations])
        self.column_start = {f: i * space.n_dofs for i, f in enumerate(self.fields)}
        blocks: list[Block] = [(e, e, "cells") for e in self.equations]
        blocks += [(o.equation, f, reach_of(o)) for o in operators for f in o.reads]
        self._made: dict[tuple[str, Reach], tuple[Pattern, Integers]] = {}
        self.pattern, self.slots = self._build(list(dict.fromkeys(blocks)))
        self._tests: dict[tuple[str, Jet], NodalTests] = {}

    def rows(self, equation: str) -> slice:
        """Rows of an equation."""
        position = self.equations.index(equation)
        return slice(self.row_start[position], self.row_start[position + 1])

    def mass(self) -> Array:
        """Mass matrix M of all equations on the pattern, (nnz,)."""
        M = np.zeros(self.pattern.nnz)
        for equation in self.equations:
            M[self.slots[equation, equation, "cells"].index] = self.restrict(equation, self.space.mass)
        return M

    def mass_at_nodes(self) -> Sensitivity:
        """M of a nodal space, as a sensitivity."""
        return Sensitivity(self.pattern, self.mass_terms())

    def mass_terms(self) -> tuple[JacobianKind, ...]:
        """M, one term for every equation."""
        if self.space.nodal:
            ones, tests = np.ones((1, self.space.n_dofs)), (0,) * self.space.dim
            return tuple(self._scaled(e, e, tests, ones) for e in self.equations)
        values = {e: self.restrict(e, np.asarray(self.space.mass))[None] for e in self.equations}
        return tuple(Matrix(self.slots[e, e, "cells"], values[e]) for e in self.equations)

    def sensitivity(
        self, operator: WeakOperator, J: Blocks, factor: float, shifts: Mapping[str, Any] | None = None
    ) -> Sensitivity:
        """factor · J of an operator in the rows of its equation.

        Parameters
        ----------
        shifts
            L by name, of fields at earlier times.
        """
        terms: list[JacobianKind] = []
        for field, test, entries in J:
            lag = lag_of(field)
            if lag is not None and test is not None:
                assert shifts is not None
                terms.append(Delayed(self._scaled(operator.equation, lag[0], test, entries), shifts[field]))
            elif test is None:
                reach = reach_of(operator)
                slots = self.slots[operator.equation, field, reach]
                terms.append(Matrix(slots, self.restrict(operator.equation, entries, reach)))
            else:
                terms.append(self._scaled(operator.equation, field, test, entries))
        return Sensitivity(self.pattern, tuple(terms), factor)

    def _scaled(self, equation: str, field: str, test: Jet, factor: Array) -> Scaled:
        """A term on a nodal space in the rows of the equation; the same tests for the same derivative."""
        key = (equation, test)
        if key not in self._tests:
            product = self.space.tests_at_nodes(test)
            if len(self.tests[equation]) < self.space.n_tests:
                product = product.restricted(self.tests[equation])
            self._tests[key] = NodalTests(product, self._rows_of(equation, "cells"), self.rows(equation))
        return Scaled(self.slots[equation, field, "cells"], self._tests[key], factor, self.column_start[field])

    def restrict(self, equation: str, values: NDArray[Any], reach: Reach = "cells") -> NDArray[Any]:
        """Values on the space's pattern of a reach → those in the rows of the equation."""
        if len(self.tests[equation]) == self.space.n_tests:
            return values
        return values[..., self._restricted(equation, reach)[1]]

    def widen(self, equation: str, values: Array, reach: Reach) -> Array:
        """The adjoint of :meth:`restrict`: values (m,) in the rows of the equation → the space's pattern, else zero."""
        if len(self.tests[equation]) == self.space.n_tests:
            return values
        wide = np.zeros(self.space.reach(reach).nnz)
        wide[self._restricted(equation, reach)[1]] = values
        return wide

    def _restricted(self, equation: str, reach: Reach) -> tuple[Pattern, Integers]:
        """The space's pattern of a reach in the rows of an equation, and its slots there."""
        return _restricted(self.space, self.tests[equation], self._made, equation, reach)

    def _rows_of(self, equation: str, reach: Reach) -> Pattern:
        """That pattern, when it is first asked for."""
        given = (self.space, self.tests[equation], self._made, equation, reach)  # ``self`` would be a cycle
        return Pattern.deferred((len(self.tests[equation]), self.space.n_dofs), lambda: _restricted(*given)[0])

    def _build(self, blocks: list[Block]) -> tuple[Pattern, dict[Block, Slots]]:
        """Pattern of all blocks, and the slots of each; on nodal spaces, when they are first asked for."""
        starts = {e: self.rows(e).start for e in self.equations}
        shape = (int(self.row_start[-1]), len(self.fields) * self.space.n_dofs)
        space, tests, kept, column_start = self.space, self.tests, self._made, self.column_start

        @cache
        def made() -> tuple[Pattern, list[Integers]]:
            rows, columns, lengths = [], [], []
            for equation, field, reach in blocks:
                pattern = _restricted(space, tests[equation], kept, equation, reach)[0]
                rows.append(pattern.rows + starts[equation])
                columns.append(pattern.indices + column_start[field])
                lengths.append(pattern.nnz)
            pattern, positions = Pattern.from_coo(np.concatenate(rows), np.concatenate(columns), shape)
            return pattern, np.split(positions, np.cumsum(lengths)[:-1])

        if not self.space.nodal:
            pattern, slots = made()
            return pattern, {block: Slots(pattern, own) for block, own in zip(blocks, slots, strict=True)}
        deferred = Pattern.deferred(shape, lambda: made()[0])
        return deferred, {block: Slots(deferred, _nth(made, n)) for n, block in enumerate(blocks)}


def known_fields(operators: tuple[WeakOperator, ...]) -> tuple[str, ...]:
    """Auxiliary fields that operators read."""
    used = {f for o in operators for t in o.terms for f, _ in o.words.jets(t.integrand).values()}
    return tuple(name for name in operators[0].words.auxiliary if name in used)


def _restricted(
    space: Space, tests: Integers, kept: dict[tuple[str, Reach], tuple[Pattern, Integers]], equation: str, reach: Reach
) -> tuple[Pattern, Integers]:
    """The space's pattern of a reach in the rows of some tests, and its slots there, made once."""
    if (equation, reach) not in kept:
        kept[equation, reach] = space.reach(reach).restrict_rows(tests)
    return kept[equation, reach]


def _nth(made: Callable[[], tuple[Pattern, list[Integers]]], n: int) -> Callable[[], Integers]:
    """What gives the slots of the n-th block."""
    return lambda: made()[1][n]


def _tests(library: Library, equation: str, operators: tuple[WeakOperator, ...], space: Space) -> Integers:
    every = np.arange(space.n_tests)
    steep = [o for o in operators if o.equation == equation and library.keeps_inside(o)]
    if steep:
        return _inner_tests(steep[0], space)
    return np.setdiff1d(every, space.boundary_tests) if library.condition(equation).tests_vanish else every


def _inner_tests(operator: WeakOperator, space: Space) -> Integers:
    """Test functions that share no cell with one that does not vanish on the boundary."""
    near = space.pattern.rows[np.isin(space.pattern.indices, space.boundary_tests)]
    inner = np.setdiff1d(np.arange(space.n_tests), near)
    if not len(inner):
        raise OperatorError(
            f"operator {operator.name!r}: with its derivatives only test functions away from the boundary can be used, "
            f"and {space.name} has none; use a finer grid or mesh, or biharmonic(...) and ZeroNeumann() if that holds."
        )
    return inner


def _starts(lengths: list[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def active_residuals(
    pattern: Pattern, M: Array, a: Any, b: Any, missing: Array, *, nodal: bool = False, fields: int = 1
) -> Mask:
    """active, (N, K).

    Parameters
    ----------
    pattern
        (N × n_u) of M and every J.
    M
        Its values (nnz,).
    a, b
        Time stencil (K × T).
    missing
        One where an unknown was not measured, else zero, (n_u, T).
    nodal
        Whether M is zero at the nodes where every J is; J may read other fields there.
    fields
        Number of them; their unknowns stand one after the other.
    """
    touches, reads = touched(pattern.matrix(M)), pattern.matrix(np.ones(pattern.nnz))
    mass = touches @ missing != 0
    operators = (_at_nodes_of(touches, reads, fields) if nodal else reads) @ missing != 0
    lost = touched(a) @ mass.T.astype(float) + touched(b) @ operators.T.astype(float)
    return np.asarray(lost.T == 0)


def _at_nodes_of(touches: Any, reads: Any, fields: int) -> Any:
    """What is read of any field at the nodes that a test function touches, (N, n_u)."""
    n = touches.shape[1] // fields
    nodes = sum(touches[:, k * n : (k + 1) * n] for k in range(fields))
    return sparse.hstack([nodes] * fields, format="csr").multiply(reads != 0)


def missing_unknowns(data: Data, fields: tuple[str, ...], transfer: Any | None) -> Array | None:
    """One where an unknown depends on a value that was not measured, (n_u, T); None where all were.

    Parameters
    ----------
    transfer
        Map P (n_dofs × nodes) from nodes to unknowns; None where they are the same.
    """
    if data.measured is None:
        return None
    missing = [(~data.measured[field]).T.astype(float) for field in fields]
    if transfer is not None:
        reads = touched(transfer)
        missing = [(reads @ one != 0).astype(float) for one in missing]
    stacked = np.concatenate(missing)
    return stacked if stacked.any() else None


def touched(matrix: Any) -> Any:
    """One where a sparse matrix is not zero, nor the rounding of one."""
    matrix = abs(sparse.csr_array(matrix))
    return sparse.csr_array((matrix > _ROUNDING * matrix.max()).astype(float))


# Volume that wider gaps may lose, as a part of the largest: 12% in error bars.
_KEPT = 0.8
# Up to here gaps are whole numbers of steps, for which sums are integrals; wider ones shrink by a third at a time.
_WHOLE = 4


def gaps_in_mask(
    gaps: Mapping[str, float], experiments: Sequence[Data], degrees: tuple[int, int], *, fewest: int, most: int
) -> dict[str, float]:
    """Gaps by axis, ``time`` first if at all, for data of which values are missing; at most those given.

    Parameters
    ----------
    degrees
        Of the splines in space and in time.
    fewest, most
        Residuals that there should be.
    """
    ladder = {name: _narrower(gap) for name, gap in gaps.items()}
    options = [dict(zip(ladder, some, strict=True)) for some in product(*ladder.values())]
    n = np.sum([list(_counts(data, ladder, degrees)) for data in experiments], axis=0)
    volume = n * np.array([np.prod(list(some.values())) for some in options])
    whole = float(np.prod(list(gaps.values()))) * sum(_without_mask(data, gaps, degrees) for data in experiments)
    if n.max() < fewest:
        raise DataError(_too_few(int(n.max()), fewest, experiments[0], degrees))
    enough = (n >= fewest) & (n <= max(most, n[n >= fewest].min()))
    enough &= volume >= _KEPT * min(float(volume[enough].max()), whole)
    return options[int(np.argmin(np.where(enough, n, np.inf)))]


def count_in_mask(data: Data, tests: SplineTests, stencil: TemporalTests | None, degree: int) -> int:
    """Residuals of one equation on a uniform grid that touch no missing value.

    Parameters
    ----------
    stencil
        None without test functions in time.
    degree
        Of the splines in space.
    """
    time = {} if stencil is None else {"time": [stencil.gap]}
    gaps = {**time, **{name: [tests.gap_of(name)] for name in data.geometry.names}}
    return next(_counts(data, gaps, (degree, stencil.degree if stencil else 0)))


def _without_mask(data: Data, gaps: Mapping[str, float], degrees: tuple[int, int]) -> float:
    """Residuals of one experiment if nothing was missing, times the share of what was measured."""
    (count,) = _counts(replace(data, measured=None), {name: [gap] for name, gap in gaps.items()}, degrees)
    return count * float(1 - _missing(data).mean())


def _narrower(gap: float) -> list[float]:
    """A gap, and narrower ones."""
    found = [gap]
    while found[-1] * 2 / 3 > _WHOLE:
        found.append(found[-1] * 2 / 3)
    return found + [float(whole) for whole in range(_WHOLE, 0, -1) if whole < found[-1]]


def _counts(data: Data, ladder: Mapping[str, Sequence[float]], degrees: tuple[int, int]) -> Iterator[int]:
    """Residuals of one experiment that touch no missing value, for every combination of gaps, the last fastest."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    axes = [
        [_touched(data, name, gap, degrees[name == "time"]).astype(np.float32) for gap in some]
        for name, some in ladder.items()
    ]
    every = [] if "time" in ladder else [[sparse.eye_array(data.n_times, format="csr")]]
    return _nested(_missing(data).reshape(-1, *grid.shape), [*every, *axes])


def _missing(data: Data) -> Mask:
    """Where a field was not measured, (T, nodes)."""
    missing = np.zeros((data.n_times, data.n_nodes), dtype=bool)
    for mask in (data.measured or {}).values():
        missing |= ~mask
    return missing


def _touched(data: Data, name: str, gap: float, degree: int) -> Any:
    """One where a function of an axis touches a node or frame of it, (functions × nodes)."""
    assert isinstance(data.geometry, Grid)
    if name == "time":
        a, b = TemporalTests(degree, gap).matrices(data.times)
        return touched(abs(a) + abs(b))
    return touched(axis_tests(data.geometry, name, gap, degree))


def _nested(missing: Mask, axes: Sequence[Sequence[Any]]) -> Iterator[int]:
    """Boxes without a missing value; the first axis is summed over and what is left of it goes to the end."""
    if not axes:
        yield int(np.count_nonzero(~missing))
        return
    for functions in axes[0]:
        hit = along(functions, missing.astype(np.float32), 0) > 0
        yield from _nested(np.moveaxis(hit, 0, -1), axes[1:])


def _too_few(found: int, fewest: int, data: Data, degrees: tuple[int, int]) -> str:
    share = _missing(data).mean()
    nodes = " × ".join(str(degrees[0]) for _ in data.geometry.names)
    return (
        f"measured: {share:.0%} of the values are missing, and only {found} test functions fit between them, where "
        f"{fewest} are needed; the narrowest take a box of {nodes} nodes in {degrees[1]} successive frames in which "
        "every value was measured. Give data with larger measured regions, finer sampling, or fill the gaps yourself"
    )
