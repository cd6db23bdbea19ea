"""Where equations, fields and operators stand in the stacked residual: rows, columns, slots of one pattern.

Only residuals that depend on measured values can be used:

active_ik = no (n, j) with û_nj not measured and  (a_kj ≠ 0 and M_in ≠ 0)  or  (b_kj ≠ 0 and some J_in ≠ 0)

On nodal spaces M and every J are zero where the test function is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.common import Array, Integers, Mask
from bvsi.common.naming import Jet
from bvsi.data import Data
from bvsi.errors import OperatorError
from bvsi.linalg import Pattern
from bvsi.operators import Library
from bvsi.operators.vocabulary import lag_of
from bvsi.residual.discrete import Blocks, reach_of
from bvsi.residual.jacobians import Delayed, JacobianKind, Matrix, NodalTests, Scaled, Sensitivity, Slots
from bvsi.spaces import Reach, Space

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


def active_residuals(pattern: Pattern, M: Array, a: Any, b: Any, missing: Array, *, nodal: bool = False) -> Mask:
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
        Whether M is zero where every J is.
    """
    mass = touched(pattern.matrix(M)) @ missing != 0
    operators = mass if nodal else pattern.matrix(np.ones(pattern.nnz)) @ missing != 0
    lost = touched(a) @ mass.T.astype(float) + touched(b) @ operators.T.astype(float)
    return np.asarray(lost.T == 0)


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
