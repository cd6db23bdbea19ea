"""The residual system: all that inference needs to know of data, operators and discretisation.

r_k(θ) = y_k − Σ_i θ_i X_ki          C_kj(θ) = ∂r_k/∂û_j = a_kj M − b_kj G_j,      G_j = Σ_i θ_i J_i(û_j) − J_0(û_j)

J_0 belongs to known terms of the left side, which are in y; most equations have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.common.naming import position
from bvsi.errors import OperatorError
from bvsi.linalg import Pattern
from bvsi.residual.blur import Blur
from bvsi.residual.jacobians import JacobianSource, Matrix, Sensitivity, Slots, combined_sensitivity
from bvsi.residual.thinning import Thinned


@dataclass(frozen=True, eq=False)
class Structure:
    """What the residuals of one experiment share, whichever operators are kept.

    Attributes
    ----------
    pattern
        (N × n_u) of M and every J_i; N residuals per block, n_u = fields × degrees of freedom.
    given
        Values (nnz,) of M; None on nodal spaces, which have ``mass_at_nodes``.
    a, b
        Time stencil (K × T), sparse.
    coordinates
        Place of each residual (N, dim).
    equation_of_row
        Its equation, as an index into ``equations``.
    fields
        Measured fields, in the order in which they are stacked.
    n_dofs
        Unknowns of each.
    transfer
        Map P (n_dofs × nodes) from measured nodes to unknowns; None where they are the same.
    active
        (N, K), False where a residual depends on a value that was not measured: it is not used, its rows of y, X and C
        are zero, its row of the covariance is that of the identity. None where all are used. No block is empty.
    mass_at_nodes
        M as a Kronecker product, on nodal spaces.
    thinned
        Which nodes and times of the data the unknowns are, where the covariance is summed over some of them.
    lagged
        Whether operators read fields at earlier times: C_kj is then not a_kj M − b_kj G_j, and only sums are known.
    blur
        Kernels that are part of M, J, a and b, where noise is blurred: the unknowns are then the white noise ξ before.
    """

    pattern: Pattern
    given: Array | None
    a: Any
    b: Any
    coordinates: Array
    equations: tuple[str, ...]
    equation_of_row: Integers
    fields: tuple[str, ...]
    n_dofs: int
    times: Array
    transfer: Any | None
    active: Mask | None = None
    mass_at_nodes: Sensitivity | None = None
    thinned: Thinned | None = None
    blur: Blur | None = None
    lagged: bool = False

    @property
    def n_rows(self) -> int:
        """Residuals per block, N."""
        return self.pattern.shape[0]

    @property
    def n_state(self) -> int:
        """Unknowns per time, n_u."""
        return self.pattern.shape[1]

    @property
    def n_blocks(self) -> int:
        """Residual blocks, K."""
        return int(self.a.shape[0])

    @property
    def n_times(self) -> int:
        """Times, T."""
        return int(self.a.shape[1])

    @cached_property
    def M(self) -> Array:
        """M on the pattern, (nnz,)."""
        if self.given is not None:
            return self.given
        assert self.mass_at_nodes is not None
        return self.mass_at_nodes.values(0)

    @cached_property
    def mass(self) -> Sensitivity:
        """M as a sensitivity that is the same at all times."""
        if self.mass_at_nodes is not None:
            return self.mass_at_nodes
        return Sensitivity(self.pattern, (Matrix(Slots(self.pattern, np.arange(self.pattern.nnz)), self.M[None]),))

    @property
    def block_rows(self) -> Integers:
        """Residuals used in each block, (K,)."""
        if self.active is None:
            return np.full(self.n_blocks, self.n_rows)
        return np.asarray(self.active.sum(axis=0))

    @property
    def block_times(self) -> Array:
        """Time at which each block sits, Σ_j |b_kj| t_j / Σ_j |b_kj|, (K,)."""
        weight = abs(self.b)
        return np.asarray(weight @ self.times / np.asarray(weight.sum(axis=1)).ravel())

    def inactive(self, k: int) -> Integers:
        """Rows of block k that are not used."""
        return np.zeros(0, dtype=np.int64) if self.active is None else np.flatnonzero(~self.active[:, k])

    def only_active(self, values: Array) -> Array:
        """Values (N, K, …) with zeros where residuals are not used, in place."""
        if self.active is not None:
            values[~self.active] = 0.0
        return values


class _Batch(NamedTuple):
    """Operators of one source: positions, the numbers that they use there, and weights (numbers, operators)."""

    source: JacobianSource
    operators: list[int]
    numbers: list[int]
    weights: Array


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residual blocks of one experiment.

    Attributes
    ----------
    Z
        (N, K, 1 + d), y and X side by side, as the weighted sums over blocks want them.
    J
        One sensitivity per operator.
    left
        J_0, that of the known terms of the left side; None where these do not depend on what was measured.
    """

    structure: Structure
    Z: Array
    J: tuple[Sensitivity, ...]
    left: Sensitivity | None = None

    @property
    def y(self) -> Array:
        """Left sides y (N, K), a view: time terms, and known terms."""
        return self.Z[:, :, 0]

    @property
    def X(self) -> Array:
        """Operator terms X (N, K, d), a view."""
        return self.Z[:, :, 1:]

    @property
    def d(self) -> int:
        """Number of operators."""
        return int(self.Z.shape[2]) - 1

    @property
    def n(self) -> int:
        """Number of residuals used, at most N K."""
        return int(self.structure.block_rows.sum())

    @property
    def constant_jacobian(self) -> bool:
        """Whether all J_i are the same at all times."""
        return all(sensitivity.constant for sensitivity in (*self.J, *self._known))

    @property
    def _known(self) -> tuple[Sensitivity, ...]:
        return () if self.left is None else (self.left,)

    def left_terms(self, e: Array) -> Array:
        """What states e (n_u, T) make of the left side, Σ_j (a_kj M + b_kj J_0(û_j)) e_j, (N, K)."""
        terms = self.structure.mass.summed(self.structure.a, e)
        for known in self._known:
            terms += known.summed(self.structure.b, e)
        return self.structure.only_active(terms)

    def residual(self, theta: Array) -> Array:
        """r(θ) = y − X θ, (N, K)."""
        return self.Z @ residual_weights(theta)

    def jacobian(self, theta: Array, time: int) -> Array:
        """G_time = Σ_i θ_i J_i(û_time) − J_0(û_time) on the pattern, (nnz,)."""
        total = np.zeros(self.structure.pattern.nnz)
        for known in self._known:
            known.add(total, -1.0, time)
        for batch in self._batches:
            combined_sensitivity([self.J[n] for n in batch.operators], theta[batch.operators]).add(total, 1.0, time)
        for n in self._kept:
            self.J[n].add(total, float(theta[n]), time)
        return total

    def operators_on(self, time: int, V: Array) -> Array:
        """J_i(û_time) V of all operators for V (n_u, m), (N, m, d)."""
        out = np.empty((self.structure.n_rows, V.shape[1], self.d))
        for batch in self._batches:
            out[:, :, batch.operators] = batch.source.apply(batch.numbers, time, V) @ batch.weights
        for n in self._kept:
            out[:, :, n] = self.J[n].apply(time, V)
        return out

    def operators_inner(self, G: Array, time: int) -> Array:
        """⟨G, J_i(û_time)⟩ of all operators for values G (nnz,) on the pattern, (d,)."""
        out = np.empty(self.d)
        for batch in self._batches:
            out[batch.operators] = batch.source.inner(batch.numbers, G, time) @ batch.weights
        for n in self._kept:
            out[n] = self.J[n].inner(G, time)
        return out

    @cached_property
    def _kept(self) -> list[int]:
        """Operators that no source computes."""
        return [n for n, J in enumerate(self.J) if J.streamed() is None]

    @cached_property
    def _batches(self) -> list[_Batch]:
        """Operators that one source computes in one pass, source by source."""
        found: dict[JacobianSource, dict[int, Mapping[int, float]]] = {}
        for n, J in enumerate(self.J):
            if (streamed := J.streamed()) is not None:
                found.setdefault(streamed[0], {})[n] = streamed[1]
        batches = []
        for source, members in found.items():
            numbers = sorted({i for weights in members.values() for i in weights})
            weights = np.array([[own.get(i, 0.0) for own in members.values()] for i in numbers])
            batches.append(_Batch(source, list(members), numbers, weights))
        return batches

    def jacobians(self, theta: Array) -> Sensitivity:
        """G = Σ_i θ_i J_i − J_0 at all times."""
        return combined_sensitivity((*self.J, *self._known), np.append(theta, [-1.0] * len(self._known)))

    def combined(self, T: Array) -> Residuals:
        """Residuals as functions of η, θ = T η, for T (d, m): columns X T and sensitivities Σ_i T_ij J_i."""
        Z = np.concatenate([self.Z[:, :, :1], self.X @ T], axis=2)
        return replace(self, Z=Z, J=tuple(combined_sensitivity(self.J, column) for column in T.T))

    def some_blocks(self, blocks: Integers) -> Residuals:
        """Only some of the blocks, by index k; nothing is assembled again."""
        structure = self.structure
        active = None if structure.active is None else structure.active[:, blocks]
        few = replace(structure, a=structure.a[blocks], b=structure.b[blocks], active=active)
        return replace(self, structure=few, Z=self.Z[:, blocks])

    def of_equation(self, number: int) -> Residuals:
        """Only the residuals of one equation are used; nothing is assembled again."""
        structure, own = self.structure, self.structure.equation_of_row == number
        every = np.ones((structure.n_rows, structure.n_blocks), dtype=bool)
        active = (every if structure.active is None else structure.active) & own[:, None]
        alone = replace(structure, active=active)
        return replace(self, structure=alone, Z=alone.only_active(self.Z.copy()))

    def subset(self, columns: list[int]) -> Residuals:
        """Only some of the operators; nothing is assembled again."""
        return replace(self, Z=self.Z[:, :, [0, *(1 + i for i in columns)]], J=tuple(self.J[i] for i in columns))


def residual_weights(theta: Array) -> Array:
    """(1, −θ): the combination of [y, X] that is the residual."""
    return np.concatenate([[1.0], -theta])


@dataclass(frozen=True, eq=False)
class ResidualSystem:
    """Residuals of all experiments, for one list of operators.

    Attributes
    ----------
    names
        Coefficient names, d of them.
    experiments
        One set of residuals each.
    description
        For people.
    """

    names: tuple[str, ...]
    experiments: tuple[Residuals, ...]
    description: str = ""

    @property
    def n(self) -> int:
        """Number of residuals over all experiments."""
        return sum(e.n for e in self.experiments)

    @property
    def d(self) -> int:
        """Number of operators."""
        return len(self.names)

    def index(self, name: str) -> int:
        """Column of an operator name; spaces do not count."""
        return position(name, self.names)

    def subset(self, names: Iterable[str]) -> ResidualSystem:
        """The system restricted to the named operators, in the order given: slicing, no assembly."""
        columns = [self.index(name) for name in names]
        if not columns:
            raise OperatorError("names: at least one operator is needed.")
        if len(set(columns)) != len(columns):
            raise OperatorError("names: an operator is named twice.")
        if columns == list(range(self.d)):
            return self
        kept = tuple(self.names[i] for i in columns)
        return replace(self, names=kept, experiments=tuple(e.subset(columns) for e in self.experiments))

    def combined(self, T: Array, names: tuple[str, ...]) -> ResidualSystem:
        """The system of η with θ = T η, T (d, m), and m names: operators that move together become one."""
        return replace(self, names=names, experiments=tuple(e.combined(T) for e in self.experiments))

    def vector(self, theta: ArrayLike) -> Array:
        """A coefficient vector (d,), checked."""
        try:
            vector = np.asarray(theta, dtype=float)
        except (TypeError, ValueError):
            vector = np.empty(0)
        if vector.shape != (self.d,) or not np.all(np.isfinite(vector)):
            raise OperatorError(f"theta: needs {self.d} finite numbers, one per operator ({', '.join(self.names)}).")
        return vector

    def residual(self, theta: ArrayLike) -> tuple[Array, ...]:
        """r(θ) of each experiment, (N, K)."""
        vector = self.vector(theta)
        return tuple(e.residual(vector) for e in self.experiments)

    def __repr__(self) -> str:
        sizes = " + ".join(f"{e.structure.n_blocks} × {e.structure.n_rows}" for e in self.experiments)
        used = "" if all(e.structure.active is None for e in self.experiments) else f" ({self.n} used)"
        return f"ResidualSystem: {self.d} operators, {sizes} residuals{used}; {self.description}"
