"""What every Cholesky factor offers, the checks that they share, and factors of dense matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
from numpy.typing import ArrayLike
from scipy.linalg import blas, lapack, solve_triangular

from bvsi.common.arrays import Array, Integers, Rng
from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.linalg.machine import single_threaded_blas
from bvsi.linalg.pattern import Pattern

# Right-hand sides solved at once: all at once is 1.6 times slower, one by one 4 times.
BLOCK = 64
# Columns of a panel of a banded matrix, about: with 138 blocks of 105 rows, five below, a factor in panels of one block
# takes 0.16 s, of two 0.20 and of five 0.27.
_PANEL = 100


class Factor(Protocol):
    """``P A Pᵀ = L Lᵀ``: a factorised symmetric positive definite matrix, (n, n)."""

    def logdet(self) -> float:
        """``log det A = 2 Σ_i log L_ii``."""

    def solve(self, B: ArrayLike) -> Array:
        """``A⁻¹ B``; B (n,) or (n, m), the result has its shape."""

    def whiten(self, B: ArrayLike) -> Array:
        """``R B`` with ``RᵀR = A⁻¹`` (R = L⁻¹P), at half the price of a solve; B (n,) or (n, m).

        ``(RB)ᵀ(RC) = BᵀA⁻¹C``. The rows of the result are in the elimination order of the factor, not in
        that of A: use whitened arrays of one factor with each other only. The result is in C order.
        """

    def whiten_transposed(self, Y: ArrayLike) -> Array:
        """``Rᵀ Y``: of a whitened Y = R B it makes ``A⁻¹ B``, the other half of a solve; Y (n,) or (n, m)."""

    def draws(self, n: int, rng: Rng) -> tuple[Array, Array] | None:
        """Draws b of N(0, A), and ``A⁻¹ b``, (rows, n) each; None where they are not quicker than a solve."""
        del n, rng
        return None

    def selected_inverse(self) -> Array:
        """Entries of A⁻¹ on the pattern of A, (nnz,) in its slot order."""


def check_pattern(pattern: Pattern) -> None:
    """A pattern to factorise is square, structurally symmetric and has its whole diagonal."""
    n, columns = pattern.shape
    if n != columns or n == 0:
        raise BvsiError(f"a matrix to factorise must be square and not empty; its shape is {pattern.shape}")
    transposed, _ = pattern.transpose
    same = np.array_equal(transposed.indptr, pattern.indptr)
    if not same or not np.array_equal(transposed.indices, pattern.indices):
        raise BvsiError("a pattern to factorise must be symmetric; build it from the entries of A and of Aᵀ")
    absent = np.flatnonzero(pattern.locate(np.arange(n), np.arange(n)) < 0)
    if len(absent):
        raise BvsiError(
            f"{len(absent)} diagonal entries are not in the pattern, the first in row {absent[0]}: a matrix "
            "without them cannot be positive definite; add the diagonal to the pattern"
        )


def check_values(values: ArrayLike, pattern: Pattern, label: str) -> Array:
    """Values as a float64 array of shape (nnz,), all finite."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != (pattern.nnz,):
        raise BvsiError(f"values of {label} must have shape ({pattern.nnz},); it is {array.shape}")
    check_finite(array, pattern.rows, label)
    return array


def check_finite(entries: Array, rows: Integers | range, label: str) -> None:
    """Refuse entries of some rows that are not finite; of a diagonal, others that are not spoil a pivot."""
    finite = np.isfinite(entries)
    if not finite.all():
        row = int(rows[int(finite.argmin())])
        raise NotPositiveDefiniteError(
            f"{label}: {int((~finite).sum())} entries are NaN or infinite, the first in row {row}. "
            "Look for NaN in the data, for overflow, or for coefficients that have diverged.",
            label,
            row,
        )


def check_pivots(pivots: Array, diagonal: Array, rows: Integers, label: str) -> None:
    """Refuse a factor unless every pivot has ``L_ii² > 10 √n ε A_ii``, ε = 2.2e-16.

    The pivot of row i is A_ii less what the earlier rows explain of it, and rounding leaves an error of a few
    √n ε A_ii in that difference when the kernel is spread evenly (constants, as in a pure Neumann problem). A
    pivot below the bound has no correct digit: the matrix is singular as far as double precision can tell,
    even where it came out positive by chance. Every row is compared with its own diagonal entry, so that
    unknowns of very different scale do not fail. It is a safeguard, not a proof: a singular matrix whose
    kernel is small in the last rows eliminated can pass with a larger pivot.

    Parameters
    ----------
    pivots: (n,) L_ii² in elimination order.
    diagonal: (n,) A_ii in the same order.
    rows: (n,) row of A in the same order.
    label: name of the matrix in the error.
    """
    bound = 10.0 * np.sqrt(len(pivots)) * np.finfo(np.float64).eps * diagonal
    good = (pivots > bound) & np.isfinite(pivots)
    if not good.all():
        k = int(np.flatnonzero(~good)[0])
        raise not_positive_definite(label, int(rows[k]), float(diagonal[k]), float(pivots[k]))


def not_positive_definite(
    label: str, row: int, diagonal: float, pivot: float | None = None
) -> NotPositiveDefiniteError:
    """The error that names matrix and row and says what to do."""
    singular = pivot is not None and pivot > 0
    state = "singular to working precision" if singular else "not positive definite"
    size = "its pivot is not positive" if pivot is None else f"its pivot is {pivot:.3g}"
    return NotPositiveDefiniteError(
        f"{label} is {state}: elimination broke down at row {row}, where {size} and the diagonal entry "
        f"{diagonal:.3g}. The row depends linearly on earlier ones, or carries no noise. Remove redundant "
        "rows (constrained or duplicated unknowns), or give every unknown noise of its own by adding a "
        "positive number to the diagonal.",
        label,
        row,
    )


def as_columns(B: ArrayLike, n: int) -> Array:
    """Right-hand sides as a float64 array of shape (n, m); a vector becomes one column."""
    if sparse.issparse(B):
        raise BvsiError("right-hand sides must be dense; the solution of a sparse one is dense, so pass B.toarray()")
    array = np.asarray(B, dtype=np.float64)
    columns = array[:, None] if array.ndim == 1 else array
    if columns.ndim != 2 or len(columns) != n:
        raise BvsiError(f"right-hand sides must have shape ({n},) or ({n}, m); it is {array.shape}")
    return columns


def blocks(m: int) -> list[slice]:
    """The m columns in blocks of :data:`BLOCK`."""
    return [slice(start, min(start + BLOCK, m)) for start in range(0, m, BLOCK)]


def by_blocks(B: ArrayLike, take: Integers, put: Any, *steps: Callable[[Array], Array]) -> Array:
    """``out[put] = steps(B[take])``, a block of columns at a time, with one thread of BLAS; out has the shape of B."""
    columns = as_columns(B, len(take))
    out = np.empty(columns.shape)
    with single_threaded_blas():
        for block in blocks(columns.shape[1]):
            X = columns[:, block][take]  # one gather; `take` would copy the block first
            for step in steps:
                X = step(X)
            out[put, block] = X
    return out.reshape(np.shape(B))


@dataclass(frozen=True, eq=False)
class DenseFactor(Factor):
    """``A = UᵀU``; U (n, n) upper triangular, in Fortran order.

    Attributes
    ----------
    pattern
        Makes the pattern on which the inverse is wanted.
    """

    U: Array
    pattern: Callable[[], Pattern]

    @staticmethod
    def of(A: Array, pattern: Callable[[], Pattern], *, label: str = "matrix") -> DenseFactor:
        """Factorise A (n, n) in C order, in place; its lower triangle is read. Errors are those of sparse matrices."""
        diagonal = A.diagonal().copy()
        check_finite(diagonal, range(len(A)), label)
        U, info = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        if info > 0:
            raise not_positive_definite(label, info - 1, float(diagonal[info - 1]))
        check_pivots(U.diagonal() ** 2, diagonal, np.arange(len(A)), label)
        return DenseFactor(U, pattern)

    def logdet(self) -> float:
        """``2 Σ_i log U_ii``."""
        return float(2.0 * np.log(self.U.diagonal()).sum())

    def solve(self, B: ArrayLike) -> Array:
        """``A⁻¹ B``."""
        columns = as_columns(B, len(self.U))
        X, _ = lapack.dpotrs(self.U, columns, lower=0)
        return np.asarray(np.ascontiguousarray(X).reshape(np.shape(B)))

    def whiten(self, B: ArrayLike) -> Array:
        """``U⁻ᵀ B``."""
        whitened = solve_triangular(self.U, as_columns(B, len(self.U)), trans="T", check_finite=False)
        return np.asarray(np.ascontiguousarray(whitened).reshape(np.shape(B)))

    def whiten_transposed(self, Y: ArrayLike) -> Array:
        """``U⁻¹ Y``."""
        solved = solve_triangular(self.U, as_columns(Y, len(self.U)), check_finite=False)
        return np.asarray(np.ascontiguousarray(solved).reshape(np.shape(Y)))

    def draws(self, n: int, rng: Rng) -> tuple[Array, Array]:
        """``Uᵀ z`` and ``U⁻¹ z``, z white."""
        z = rng.standard_normal((len(self.U), n))
        return np.ascontiguousarray(blas.dtrmm(1.0, self.U, z, trans_a=1)), self.whiten_transposed(z)

    def selected_inverse(self) -> Array:
        """Entries of A⁻¹ on the pattern."""
        pattern = self.pattern()
        inverse, _ = lapack.dpotri(self.U, lower=0)
        rows, columns = np.minimum(pattern.rows, pattern.indices), np.maximum(pattern.rows, pattern.indices)
        return np.asarray(inverse[rows, columns])


@dataclass(frozen=True)
class Bands:
    """Where the lower triangle of a matrix of K × K blocks of N rows stands that has β blocks below the diagonal.

    Some columns of blocks are a panel: a square D on the diagonal, and below it B, the β blocks of rows that follow,
    each stored by columns. Every panel is an array of its own: memory that was used before serves again, while one
    array of 70 MB is new to the system each time, which took up to 0.2 s.

    Attributes
    ----------
    N, K, below
        Rows of a block, blocks, and β.
    """

    N: int
    K: int
    below: int

    @property
    def width(self) -> int:
        """Blocks of a panel."""
        return max(1, _PANEL // self.N)

    @property
    def n(self) -> int:
        """Rows."""
        return self.N * self.K

    @cached_property
    def panels(self) -> tuple[tuple[int, int, int, int], ...]:
        """First row, columns c, rows m of B, and numbers before D (c, c), behind which B (m, c) is."""
        found, place = [], 0
        for k in range(0, self.K, self.width):
            c = self.N * min(self.width, self.K - k)
            m = self.N * min(self.below, max(0, self.K - k - self.width))
            found.append((k * self.N, c, m, place))
            place += c * (c + m)
        return tuple(found)

    @property
    def size(self) -> int:
        """Numbers that are stored."""
        _, c, m, place = self.panels[-1]
        return place + c * (c + m)

    def block(self, k: Integers, l: Integers) -> tuple[Integers, Integers]:  # noqa: E741
        """Where the first entry of the blocks in rows l ≥ k and columns k stands, and how far apart columns are."""
        first, c, m, place = np.array(self.panels).T[:, k // self.width]
        row, column = l * self.N - first, k * self.N - first
        inside = row < c
        apart = np.where(inside, c, m)
        return place + np.where(inside, row, c**2 + row - c) + column * apart, apart

    def diagonal(self, values: Sequence[Array]) -> Array:
        """The diagonal, (n,)."""
        return np.concatenate([own[: c * c : c + 1] for own, (_, c, _, _) in zip(values, self.panels, strict=True)])

    def places(self, rows: Integers, columns: Integers) -> Integers:
        """Where entries stand among those of all panels, rows ≥ columns."""
        start, apart = self.block(columns // self.N, rows // self.N)
        return np.asarray(start + columns % self.N * apart + rows % self.N)

    def zeros(self) -> list[Array]:
        """All panels, zero."""
        return [np.zeros(c * (c + m)) for _, c, m, _ in self.panels]

    def panel(self, values: Sequence[Array], number: int) -> tuple[slice, slice, Array, Array]:
        """Rows of a panel and those below it, D and B, as views."""
        first, c, m, _ = self.panels[number]
        D, B = values[number][: c * c].reshape(c, c).T, values[number][c * c :].reshape(c, m).T
        return slice(first, first + c), slice(first + c, first + c + m), D, B


@dataclass(frozen=True, eq=False)
class BandedFactor(Factor):
    """``A = L Lᵀ`` of a matrix of blocks near the diagonal, by dense panels: no order, no analysis, nothing compiled.

    Attributes
    ----------
    L
        D and B of every panel.
    pattern
        Makes the pattern on which the inverse is wanted.
    """

    bands: Bands
    L: Sequence[Array]
    pattern: Callable[[], Pattern]

    @staticmethod
    def of(bands: Bands, A: Sequence[Array], pattern: Callable[[], Pattern], *, label: str = "matrix") -> BandedFactor:
        """Factorise A, by panels, in place. Errors are those of sparse matrices."""
        diagonal, U = bands.diagonal(A), np.zeros((bands.panels[0][2],) * 2, order="F")
        check_finite(diagonal, range(bands.n), label)
        for number in range(len(bands.panels)):
            rows, _, D, B = bands.panel(A, number)
            c, m = len(D), len(B)
            s = min(c, len(U))  # U, what the panels before take away, has rows that this panel does not know yet
            D[:s, :s] += U[:s, :s]
            B[: len(U) - s, :s] += U[s:, :s]
            D[:], info = lapack.dpotrf(D, lower=1, clean=1, overwrite_a=1)
            if info > 0:
                row = rows.start + info - 1
                raise not_positive_definite(label, row, float(diagonal[row]))
            if m:
                following = np.zeros((m, m), order="F")
                following[: len(U) - s, : len(U) - s] = U[s:, s:]
                B[:] = blas.dtrsm(1.0, D, B, side=1, lower=1, trans_a=1, overwrite_b=1)
                U = blas.dsyrk(-1.0, B, beta=1.0, c=following, lower=1, overwrite_c=1)
        check_pivots(bands.diagonal(A) ** 2, diagonal, np.arange(bands.n), label)
        return BandedFactor(bands, A, pattern)

    def logdet(self) -> float:
        """``2 Σ_i log L_ii``."""
        return float(2.0 * np.log(self.bands.diagonal(self.L)).sum())

    def solve(self, B: ArrayLike) -> Array:
        """``L⁻ᵀ L⁻¹ B``."""
        return self.whiten_transposed(self.whiten(B))

    def whiten(self, B: ArrayLike) -> Array:
        """``L⁻¹ B``."""
        X = np.array(as_columns(B, self.bands.n), order="C")
        for number in range(len(self.bands.panels)):
            rows, below, D, under = self.bands.panel(self.L, number)
            X[rows] = blas.dtrsm(1.0, D, X[rows], lower=1)
            X[below] -= under @ X[rows]
        return X.reshape(np.shape(B))

    def whiten_transposed(self, Y: ArrayLike) -> Array:
        """``L⁻ᵀ Y``."""
        X = np.array(as_columns(Y, self.bands.n), order="C")
        for number in reversed(range(len(self.bands.panels))):
            rows, below, D, under = self.bands.panel(self.L, number)
            X[rows] = blas.dtrsm(1.0, D, X[rows] - under.T @ X[below], lower=1, trans_a=1)
        return X.reshape(np.shape(Y))

    def draws(self, n: int, rng: Rng) -> tuple[Array, Array]:
        """``L z`` and ``L⁻ᵀ z``, z white."""
        z = rng.standard_normal((self.bands.n, n))
        drawn = np.zeros_like(z)
        for number in range(len(self.bands.panels)):
            rows, below, D, under = self.bands.panel(self.L, number)
            drawn[rows] += D @ z[rows]
            drawn[below] += under @ z[rows]
        return drawn, self.whiten_transposed(z)

    def selected_inverse(self) -> Array:
        """Entries of A⁻¹ on the pattern: Z_RJ = −Z_RR Y, Z_JJ = (D Dᵀ)⁻¹ − Yᵀ Z_RJ, Y = B D⁻¹, R the rows below J."""
        Z, pattern, last = self.bands.zeros(), self.pattern(), np.zeros((0, 0))
        for number in reversed(range(len(self.bands.panels))):
            _, _, D, B = self.bands.panel(self.L, number)
            own, under = self.bands.panel(Z, number)[2:]
            Y = blas.dtrsm(1.0, D, B, side=1, lower=1)
            under[:] = -last[: len(B), : len(B)] @ Y
            half = solve_triangular(D, np.eye(len(D)), lower=True, check_finite=False)
            own[:] = half.T @ half - Y.T @ under
            last = np.block([[own, under.T], [under, last[: len(B), : len(B)]]])
        rows, columns = np.maximum(pattern.rows, pattern.indices), np.minimum(pattern.rows, pattern.indices)
        return np.asarray(np.concatenate(Z)[self.bands.places(rows, columns)])


@dataclass(frozen=True, eq=False)
class ScaledCholesky:
    """H = S L Lᵀ S, S = diag(H)^½.

    Attributes
    ----------
    scale
        (d,) the diagonal of S.
    L
        (d, d), lower triangular.
    """

    scale: Array
    L: Array

    def solve(self, g: Array) -> Array:
        """H⁻¹ g."""
        inner = scipy.linalg.cho_solve((self.L, True), g / self.scale)
        return np.asarray(inner / self.scale)

    def update(self, theta: Array, g: Array) -> Array:
        """θ + H⁻¹ g."""
        return np.asarray(theta + self.solve(g))

    free = update

    def inverse(self) -> Array:
        """H⁻¹, symmetric."""
        inner = scipy.linalg.cho_solve((self.L, True), np.eye(len(self.scale)))
        inverse = inner / self.scale[:, None] / self.scale
        return np.asarray(0.5 * (inverse + inverse.T))

    def whiten_rows(self, A: Array) -> Array:
        """A S⁻¹ L⁻ᵀ, for rows A (m, d)."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, (A / self.scale).T, lower=True).T)
