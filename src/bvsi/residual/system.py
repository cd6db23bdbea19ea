"""The residual system: all that inference needs to know of data, operators and discretisation.

r_k(θ) = y_k − Σ_i θ_i X_ki          C_kj(θ) = ∂r_k/∂û_j = a_kj M − b_kj Σ_i θ_i J_i(û_j)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import OperatorError
from bvsi.linalg import Pattern
from bvsi.naming import position

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Structure:
    """What the residuals of one experiment share, whichever operators are kept.

    pattern: (N × n_u) of M and every J_i; N residuals per block, n_u = fields × degrees of freedom.
    M: values (nnz,); a, b: time stencil (K × T), sparse.
    coordinates: place of each residual (N, dim); equation_of_row: its equation, as an index into ``equations``.
    fields: measured fields, in the order in which they are stacked; n_dofs: unknowns of each.
    transfer: map P (n_dofs × nodes) from measured nodes to unknowns; None where they are the same.
    """

    pattern: Pattern
    M: Array
    a: Any
    b: Any
    coordinates: Array
    equations: tuple[str, ...]
    equation_of_row: NDArray[np.int64]
    fields: tuple[str, ...]
    n_dofs: int
    times: Array
    transfer: Any | None

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


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """J_i(û_j) of one operator, on some slots of the structure's pattern.

    blocks: (slots, values) with ascending slots and values (len(slots),) where constant in time, else (T, len(slots)).
    scale: number in front of all values; operators that differ by a number share them.
    """

    pattern: Pattern
    blocks: tuple[tuple[NDArray[np.int64], Array], ...]
    scale: float = 1.0

    @property
    def constant(self) -> bool:
        """Whether J_i is the same at all times."""
        return all(values.ndim == 1 for _, values in self.blocks)

    def add(self, total: Array, scale: float, time: int) -> None:
        """Add scale · J_i(û_time) to values (nnz,) on the pattern, in place."""
        for slots, values in self.blocks:
            total[slots] += (self.scale * scale) * (values if values.ndim == 1 else values[time])

    def values(self, time: int) -> Array:
        """J_i(û_time) on the whole pattern, (nnz,)."""
        total = np.zeros(self.pattern.nnz)
        self.add(total, 1.0, time)
        return total

    def inner(self, G: Array, time: int) -> float:
        """⟨G, J_i(û_time)⟩ for values G (nnz,) on the pattern."""
        sums = (float(G[slots] @ (values if values.ndim == 1 else values[time])) for slots, values in self.blocks)
        return self.scale * sum(sums)

    def apply(self, time: int, V: Array) -> Array:
        """J_i(û_time) V for V (n_u, m), (N, m)."""
        total: Array = np.zeros((self.pattern.shape[0], V.shape[1]))
        for (_, values), (indptr, indices) in zip(self.blocks, self._structures, strict=True):
            entries = values if values.ndim == 1 else values[time]
            total += sparse.csr_array((entries, indices, indptr), shape=self.pattern.shape) @ V
        return self.scale * total

    @cached_property
    def _structures(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
        """CSR structure of each block: its slots are ascending, so its rows are in order."""
        counts = [np.bincount(self.pattern.rows[slots], minlength=self.pattern.shape[0]) for slots, _ in self.blocks]
        starts = [np.concatenate([[0], np.cumsum(c)]) for c in counts]
        return tuple(
            (start, self.pattern.indices[slots]) for start, (slots, _) in zip(starts, self.blocks, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residual blocks of one experiment.

    Z: (N, K, 1 + d), y and X side by side, as the weighted sums over blocks want them; J: one sensitivity per operator.
    """

    structure: Structure
    Z: Array
    J: tuple[Sensitivity, ...]

    @property
    def y(self) -> Array:
        """Time terms y (N, K), a view."""
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
        """Number of residuals, N K."""
        return int(self.Z.shape[0] * self.Z.shape[1])

    @property
    def constant_jacobian(self) -> bool:
        """Whether all J_i are the same at all times."""
        return all(sensitivity.constant for sensitivity in self.J)

    def residual(self, theta: Array) -> Array:
        """r(θ) = y − X θ, (N, K)."""
        return self.Z @ residual_weights(theta)

    def jacobian(self, theta: Array, time: int) -> Array:
        """Σ_i θ_i J_i(û_time) on the pattern, (nnz,)."""
        total = np.zeros(self.structure.pattern.nnz)
        for coefficient, sensitivity in zip(theta, self.J, strict=True):
            sensitivity.add(total, float(coefficient), time)
        return total

    def combined(self, T: Array) -> Residuals:
        """Residuals as functions of η, θ = T η, for T (d, m): columns X T and sensitivities Σ_i T_ij J_i."""
        Z = np.concatenate([self.Z[:, :, :1], self.X @ T], axis=2)
        return replace(self, Z=Z, J=tuple(combined_sensitivity(self.J, column) for column in T.T))

    def subset(self, columns: list[int]) -> Residuals:
        """Only some of the operators; nothing is assembled again."""
        return replace(self, Z=self.Z[:, :, [0, *(1 + i for i in columns)]], J=tuple(self.J[i] for i in columns))


def combined_sensitivity(J: Sequence[Sensitivity], weights: Array) -> Sensitivity:
    """Σ_i w_i J_i."""
    used = [(one, float(w)) for one, w in zip(J, weights, strict=True) if w]
    if len(used) == 1:
        (one, w) = used[0]
        return replace(one, scale=w * one.scale)
    blocks = tuple((slots, (w * one.scale) * values) for one, w in used for slots, values in one.blocks)
    return Sensitivity(J[0].pattern, blocks)


def residual_weights(theta: Array) -> Array:
    """(1, −θ): the combination of [y, X] that is the residual."""
    return np.concatenate([[1.0], -theta])


@dataclass(frozen=True, eq=False)
class ResidualSystem:
    """Residuals of all experiments, for one list of operators.

    names: coefficient names, d of them; experiments: one set of residuals each; description: for people.
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
        return f"ResidualSystem: {self.d} operators, {sizes} residuals; {self.description}"
