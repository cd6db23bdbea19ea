"""Where equations, fields and operators stand in the stacked residual: rows, columns, slots of one pattern.

Only residuals that depend on measured values can be used:

active_ik = no (n, j) with û_nj not measured and  (a_kj ≠ 0 and M_in ≠ 0)  or  (b_kj ≠ 0 and some J_in ≠ 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.common.jets import Jet
from bvsi.data import Data
from bvsi.errors import OperatorError
from bvsi.linalg import Pattern
from bvsi.operators import Library
from bvsi.residual.discrete import Blocks, reach_of
from bvsi.residual.jacobians import JacobianKind, Matrix, NodalTests, Scaled, Sensitivity, Slots
from bvsi.spaces import Reach, Space

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

Block: TypeAlias = tuple[str, str, Reach]
"""Equation, field, and how far the coupling reaches."""


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
        self._restricted = {
            (e, reach): space.reach(reach).restrict_rows(self.tests[e]) for e, reach in {(b[0], b[2]) for b in blocks}
        }
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
        ones, tests = np.ones((1, self.space.n_dofs)), (0,) * self.space.dim
        return Sensitivity(self.pattern, tuple(self._scaled(e, e, tests, ones) for e in self.equations))

    def sensitivity(self, operator: WeakOperator, J: Blocks, factor: float) -> Sensitivity:
        """factor · J of an operator in the rows of its equation."""
        terms: list[JacobianKind] = []
        for field, test, entries in J:
            if test is None:
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
            self._tests[key] = NodalTests(product, self._restricted[equation, "cells"][0], self.rows(equation).start)
        return Scaled(self.slots[equation, field, "cells"], self._tests[key], factor, self.column_start[field])

    def restrict(self, equation: str, values: NDArray[Any], reach: Reach = "cells") -> NDArray[Any]:
        """Values on the space's pattern of a reach → those in the rows of the equation."""
        if len(self.tests[equation]) == self.space.n_tests:
            return values
        return values[..., self._restricted[equation, reach][1]]

    def widen(self, equation: str, values: Array, reach: Reach) -> Array:
        """The adjoint of :meth:`restrict`: values (m,) in the rows of the equation → the space's pattern, else zero."""
        if len(self.tests[equation]) == self.space.n_tests:
            return values
        wide = np.zeros(self.space.reach(reach).nnz)
        wide[self._restricted[equation, reach][1]] = values
        return wide

    def _build(self, blocks: list[Block]) -> tuple[Pattern, dict[Block, Slots]]:
        rows, columns, lengths = [], [], []
        for equation, field, reach in blocks:
            pattern = self._restricted[equation, reach][0]
            rows.append(pattern.rows + self.rows(equation).start)
            columns.append(pattern.indices + self.column_start[field])
            lengths.append(pattern.nnz)
        shape = (int(self.row_start[-1]), len(self.fields) * self.space.n_dofs)
        pattern, positions = Pattern.from_coo(np.concatenate(rows), np.concatenate(columns), shape)
        slots = [Slots(pattern, own) for own in np.split(positions, np.cumsum(lengths)[:-1])]
        return pattern, dict(zip(blocks, slots, strict=True))


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


def active_residuals(pattern: Pattern, M: Array, a: Any, b: Any, missing: Array) -> Mask:
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
    """
    mass = pattern.matrix((M != 0).astype(float)) @ missing != 0
    operators = pattern.matrix(np.ones(pattern.nnz)) @ missing != 0
    lost = _ones(a) @ mass.T.astype(float) + _ones(b) @ operators.T.astype(float)
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
        reads = _ones(transfer)
        missing = [(reads @ one != 0).astype(float) for one in missing]
    stacked = np.concatenate(missing)
    return stacked if stacked.any() else None


def _ones(matrix: Any) -> Any:
    """One where a sparse matrix is not zero."""
    return sparse.csr_array((sparse.csr_array(matrix) != 0).astype(float))
