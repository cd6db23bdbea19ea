"""Symmetric positive definite test matrices of many patterns, small enough for dense algebra."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sparse

from bvsi.linalg import Pattern


def band(n: int, width: int, *, periodic: bool = False) -> sparse.csr_array:
    """Ones within `width` of the diagonal."""
    i = np.arange(n)
    distance = np.abs(i[:, None] - i[None, :])
    if periodic:
        distance = np.minimum(distance, n - distance)
    return sparse.csr_array((distance <= width).astype(float))


def star(n: int) -> sparse.csr_array:
    """Five-point stencil on an n × n grid."""
    one, identity = band(n, 1), sparse.eye_array(n)
    return sparse.csr_array(sparse.kron(one, identity) + sparse.kron(identity, one))


def box(width: int, *sides: int, periodic: bool = False) -> sparse.csr_array:
    """Box stencil on a tensor grid."""
    A = sparse.csr_array(np.ones((1, 1)))
    for n in sides:
        A = sparse.csr_array(sparse.kron(A, band(n, width, periodic=periodic)))
    return A


def grid(*sides: int) -> np.ndarray:
    """Coordinates of a tensor grid, (n, dim)."""
    axes = np.meshgrid(*(np.linspace(0.0, 1.0, n) for n in sides), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


def arrow(n: int) -> sparse.csr_array:
    A = sparse.lil_array(sparse.eye_array(n))
    A[0, :] = 1.0
    A[:, 0] = 1.0
    return sparse.csr_array(A)


def random_graph(n: int, degree: float, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    A = sparse.random_array((n, n), density=degree / n, rng=rng)
    return sparse.csr_array(A + A.T + sparse.eye_array(n))


def shuffled(A: sparse.csr_array, seed: int = 1) -> sparse.csr_array:
    p = np.random.default_rng(seed).permutation(A.shape[0])
    return sparse.csr_array(sparse.csr_array(A)[p][:, p])


STRUCTURES: dict[str, Callable[[], sparse.csr_array]] = {
    "chain": lambda: band(60, 1),
    "5-point": lambda: star(12),
    "9-point": lambda: box(1, 11, 13),
    "25-point": lambda: box(2, 12, 11),
    "periodic": lambda: box(1, 12, 10, periodic=True),
    "3d": lambda: box(1, 6, 5, 7),
    "random": lambda: random_graph(150, 3.0),
    "arrow": lambda: arrow(80),
    "dense": lambda: sparse.csr_array(np.ones((70, 70))),
    "diagonal": lambda: sparse.csr_array(sparse.eye_array(50)),
    "disconnected": lambda: sparse.csr_array(sparse.block_diag([star(6), band(20, 2), np.ones((1, 1))])),
    "one": lambda: sparse.csr_array(np.ones((1, 1))),
    "shuffled": lambda: shuffled(box(2, 12, 11)),
}


def pattern_of(name: str) -> Pattern:
    return Pattern.from_matrix(STRUCTURES[name]())


def definite_values(pattern: Pattern, seed: int = 0) -> np.ndarray:
    """Random symmetric values of either sign, positive definite by their diagonal; scales vary by row."""
    rng = np.random.default_rng(seed)
    A = pattern.matrix(rng.standard_normal(pattern.nnz))
    S = pattern.gather(A + A.T)
    on_diagonal = pattern.rows == pattern.indices
    row_sums = np.bincount(pattern.rows, weights=np.abs(S), minlength=pattern.shape[0])
    S[on_diagonal] = 0.7 * row_sums + 0.1
    low = np.linalg.eigvalsh(pattern.matrix(S).toarray()).min()
    S[on_diagonal] += max(0.0, 0.2 - low)
    scale = 10.0 ** rng.uniform(-2, 2, pattern.shape[0])
    return S * scale[pattern.rows] * scale[pattern.indices]
