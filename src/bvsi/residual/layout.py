"""Where equations, fields and operators stand in the stacked residual: rows, columns, slots of one pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bvsi.common.jets import Jet
from bvsi.errors import OperatorError
from bvsi.linalg import Pattern
from bvsi.operators import Library, WeakOperator
from bvsi.residual.discrete import NodalTerm, reach_of
from bvsi.residual.sensitivity import NodalTests, Scaled, Sensitivity
from bvsi.spaces import Reach, Space

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

Block: TypeAlias = tuple[str, str, Reach]
"""Equation, field, and how far the coupling reaches."""


class Layout:
    """Where equations and fields stand in the stacked system.

    Rows: for each equation its test functions (those on the boundary left out where they have to vanish, their
    neighbours too where an operator keeps inside).
    Columns: for each field all unknowns. Blocks (equation, field, reach) exist where an operator, or M, needs them.

    tests: test functions by equation, where they are not to be all that can be used.
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
        self._placed: dict[tuple[str, Jet], NodalTests] = {}

    def rows(self, equation: str) -> slice:
        """Rows of an equation."""
        position = self.equations.index(equation)
        return slice(self.row_start[position], self.row_start[position + 1])

    def mass(self) -> Array:
        """Mass matrix M of all equations on the pattern, (nnz,)."""
        M = np.zeros(self.pattern.nnz)
        for equation in self.equations:
            M[self.slots[equation, equation, "cells"]] = self.restrict(equation, self.space.mass)
        return M

    def placed(self, equation: str, field: str, entries: NodalTerm) -> Scaled:
        """A term on a nodal space in the rows of the equation; the same tests for the same derivative."""
        key = (equation, entries.test)
        if key not in self._placed:
            product = self.space.tests_at_nodes(entries.test)
            if len(self.tests[equation]) < self.space.n_tests:
                product = product.restricted(self.tests[equation])
            self._placed[key] = NodalTests(product, self._restricted[equation, "cells"][0], self.rows(equation).start)
        return Scaled(self._placed[key], entries.factor, self.column_start[field])

    def mass_at_nodes(self) -> Sensitivity:
        """M of a nodal space, as a sensitivity."""
        zero = NodalTerm((0,) * self.space.dim, np.ones((1, self.space.n_dofs)))
        blocks = [(self.slots[e, e, "cells"], self.placed(e, e, zero)) for e in self.equations]
        return Sensitivity(self.pattern, tuple(blocks))

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

    def _build(self, blocks: list[Block]) -> tuple[Pattern, dict[Block, Integers]]:
        rows, columns, lengths = [], [], []
        for equation, field, reach in blocks:
            pattern = self._restricted[equation, reach][0]
            rows.append(pattern.rows + self.rows(equation).start)
            columns.append(pattern.indices + self.column_start[field])
            lengths.append(pattern.nnz)
        shape = (int(self.row_start[-1]), len(self.fields) * self.space.n_dofs)
        pattern, positions = Pattern.from_coo(np.concatenate(rows), np.concatenate(columns), shape)
        return pattern, dict(zip(blocks, np.split(positions, np.cumsum(lengths)[:-1]), strict=True))


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
