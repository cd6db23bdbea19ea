"""W = Σ(θ)⁻¹ of all residuals by conjugate gradients, where a Cholesky factor of Σ would be too large.

With C = [c | L], L the square part of C at the newest time of each block, block lower triangular:

    Σ = c Σ_0 cᵀ + L Σ_u Lᵀ,      preconditioner  L⁻ᵀ D⁻¹ L⁻¹,      D = diag Σ_u

One substitution forward in time and one backward. With diagonal noise the preconditioned matrix is the identity plus
what the first states add, which the equation damps: a few dozen iterations, whatever the number of times. Where the
residuals have no such L (temporal or spline test functions), the preconditioner is blockdiag(Σ_kk)⁻¹, or for spline
tests on grids that of the time terms, which is a Kronecker product for each equation:

    Σ ≈ (a diag(σ̄_j²) aᵀ) ⊗ (A_1 A_1ᵀ) ⊗ … ⊗ (A_d A_dᵀ)

A_a: test functions along axis a at the nodes, σ̄_j²: mean noise variance at a time. What operators add is not much
larger than the time terms where the tests resolve the dynamics, so that conjugate gradients need some dozens of steps,
each of them axis by axis; no matrix is larger than that of one axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import splu

from bvsi.common.arrays import Array
from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.likelihood.covariance import Part, Weights, block_solver, stencil_row
from bvsi.likelihood.equations import check_change_of_variables
from bvsi.likelihood.products import SpaceTime
from bvsi.linalg import Kronecker

# Relative residual at which conjugate gradients stop; not measured.
TOL = 1e-10
# Steps after which conjugate gradients give up; not measured.
MAX_ITERATIONS = 2000
# Added to the small matrices, relative to their largest entry: functions that hardly differ would blow up rounding.
_RIDGE = 1e-12


@dataclass(frozen=True, eq=False)
class Iterative:
    """W as a solver without a factor."""

    product: Weights
    preconditioner: Weights
    label: str

    @staticmethod
    def of(part: Part, theta: Array, products: SpaceTime) -> Iterative:
        """For Σ(θ) of an experiment."""
        label = f"residual covariance of {part.label}"
        return Iterative(products.covariance, _preconditioner(part, theta, products, label), label)

    def solve(self, B: Array) -> Array:
        """W B for B (N, K, m)."""
        return conjugate_gradients(self.product, self.preconditioner, B, label=self.label)

    def grams(self, some: Sequence[Array], *, weighted: bool = False) -> tuple[list[Array], Array]:
        """ZᵀWZ of each and W Z of the first."""
        del weighted  # it is there
        solved = [self.solve(Z) for Z in some]
        found = [np.einsum("nki,nkj->ij", Z, WZ, optimize=True) for Z, WZ in zip(some, solved, strict=True)]
        return [np.asarray(0.5 * (gram + gram.T)) for gram in found], solved[0]

    def slope(self) -> Array:
        """Refused, as the log-determinant is."""
        return np.full(0, self.logdet())

    def white(self, Z: Array) -> Array | None:
        """None: there is no root of W."""
        del Z
        return None

    def logdet(self, *, needed: bool = True) -> float:
        """NaN where it is not needed, else refused."""
        if not needed:
            return math.nan
        raise BvsiError(
            f"the log-determinant of the {self.label} takes a Cholesky factor, which is larger than max_memory or slow "
            "to make: use Stacked(max_memory=math.inf), or what needs none, such as Profile() and ProfileBIC()."
        )


def conjugate_gradients(
    product: Weights,
    preconditioner: Weights,
    B: Array,
    *,
    label: str,
    tol: float = TOL,
    max_iterations: int = MAX_ITERATIONS,
) -> Array:
    """A⁻¹B for symmetric positive definite A, every column of B (N, K, m) with a step length of its own.

    Parameters
    ----------
    tol
        On √(rᵀPr)/√(bᵀPb), r the residual of the system and P the preconditioner.
    """
    X, R = np.zeros_like(B), B
    Z = preconditioner(R)
    direction, size = Z, _inner(R, Z)
    goal = tol**2 * size
    for _ in range(max_iterations):
        active = size > goal
        if not active.any():
            return X
        image = product(direction)
        curvature = _inner(direction, image)
        if not np.all(curvature[active] > 0):
            break
        step = np.divide(size, curvature, out=np.zeros_like(size), where=active)
        X = X + step * direction
        R = R - step * image
        Z = preconditioner(R)
        following = _inner(R, Z)
        direction = Z + np.divide(following, size, out=np.zeros_like(size), where=active) * direction
        size = np.where(active, following, 0.0)
    raise NotPositiveDefiniteError(
        f"{label}: conjugate gradients did not reach a relative residual of {tol:g} in {max_iterations} iterations; it "
        "is close to singular. Raise Stacked(max_memory=...) to factorise it, or use Block() weighting.",
        label,
        -1,
    )


def _inner(A: Array, B: Array) -> Array:
    return np.asarray(np.einsum("nkm,nkm->m", A, B))


def _preconditioner(part: Part, theta: Array, products: SpaceTime, label: str) -> Weights:
    if _triangular(part):
        return Substitution(part, products, label)
    return KroneckerPreconditioner.of(part) or block_solver(part, theta, keep=True)


def _triangular(part: Part) -> bool:
    """Whether every block has one new time, later than those before, and as many residuals as unknowns."""
    try:
        check_change_of_variables(part)
    except BvsiError:
        return False
    structure = part.residuals.structure
    newest = [stencil_row(structure, k)[0][-1] for k in range(structure.n_blocks)]
    return bool(np.all(np.diff(newest) > 0))


class Substitution:
    """L⁻ᵀ D⁻¹ L⁻¹: the linearised equation solved forward in time, and its adjoint backward.

    Attributes
    ----------
    own
        LU factor of C_kk of each block; links: (k, l, C_kl at the newest time of block l), l < k, by k.
    """

    def __init__(self, part: Part, products: SpaceTime, label: str) -> None:
        self.products, self.label = products, label
        structure = part.residuals.structure
        rows = [stencil_row(structure, k) for k in range(structure.n_blocks)]
        block_of = {int(times[-1]): k for k, (times, _, _) in enumerate(rows)}
        self._matrices: dict[tuple[float, float, int], Any] = {}
        factors: dict[tuple[float, float, int], Any] = {}
        self.own: list[Any] = []
        self.older: list[list[tuple[int, Any]]] = []
        self.younger: list[list[tuple[int, Any]]] = [[] for _ in rows]
        for k, (times, a, b) in enumerate(rows):
            *before, newest = zip(times.tolist(), a.tolist(), b.tolist(), strict=True)
            key = self._key(*newest)
            if key not in factors:
                factors[key] = self._factor(newest)
            self.own.append(factors[key])
            self.older.append([(block_of[one[0]], self._matrix(one)) for one in before if one[0] in block_of])
            for one in before:
                if one[0] in block_of:
                    self.younger[block_of[one[0]]].append((k, self._matrix(one).T))
        self.scale = np.stack([_variances(part, int(times[-1])) for times, _, _ in rows], axis=1)

    def __call__(self, R: Array) -> Array:
        """L⁻ᵀ D⁻¹ L⁻¹ R for R (N, K, m)."""
        Z = self._forward(R)
        Z /= self.scale[:, :, None]
        return self._backward(Z)

    def _forward(self, R: Array) -> Array:
        """L⁻¹ R."""
        Z = np.empty((self.scale.shape[0], *R.shape[1:]))
        for k, (factor, older) in enumerate(zip(self.own, self.older, strict=True)):
            Z[:, k] = factor.solve(R[:, k] - sum(C @ Z[:, m] for m, C in older))
        return Z

    def _backward(self, Z: Array) -> Array:
        """L⁻ᵀ Z."""
        R = np.empty_like(Z)
        for k in range(len(self.own) - 1, -1, -1):
            R[:, k] = self.own[k].solve(Z[:, k] - sum(C @ R[:, m] for m, C in self.younger[k]), trans="T")
        return R

    def _key(self, time: int, a: float, b: float) -> tuple[float, float, int]:
        """What C_kj = a M − b G_j is made of."""
        return a, b, time if b and not self.products.G.constant else -1

    def _matrix(self, entry: tuple[int, float, float]) -> Any:
        key = self._key(*entry)
        if key not in self._matrices:
            time, a, b = entry
            pattern, structure = self.products.residuals.structure.pattern, self.products.residuals.structure
            values = a * structure.M
            if b:
                values = values - b * self.products.G.values(time)
            self._matrices[key] = pattern.matrix(values)
        return self._matrices[key]

    def _factor(self, entry: tuple[int, float, float]) -> Any:
        try:
            return splu(sparse.csc_array(self._matrix(entry)), permc_spec="MMD_AT_PLUS_A")
        except RuntimeError:
            raise NotPositiveDefiniteError(
                f"{self.label}: the equation cannot be solved for the state at time {entry[0]}, its matrix is "
                "singular. Coefficients may have diverged: use another start, or Block() weighting.",
                self.label,
                -1,
            ) from None


def _variances(part: Part, time: int) -> Array:
    """Diagonal of Σ_u at a time, (n_u,)."""
    noise = part.covariance.noise
    covariance = noise.distinct[int(noise.label[time])]
    return np.asarray(covariance.diagonal() if sparse.issparse(covariance) else covariance)


@dataclass(frozen=True, eq=False)
class _Equation:
    """One equation: its rows, and the inverses over space, of the tests that are kept, and time."""

    rows: slice
    space: Kronecker
    time: Array

    def inverse_times(self, R: Array) -> Array:
        """P⁻¹R for R (rows, K, m); tests that are left out count as zero."""
        K, m = R.shape[1:]
        full = np.ascontiguousarray(R).reshape(-1, K * m)
        if self.space.rows is not None:
            full = np.zeros((self.space.shape[1], K * m))
            full[self.space.rows] = R.reshape(-1, K * m)
        return np.asarray(np.matmul(self.time, (self.space @ full).reshape(-1, K, m)))


@dataclass(frozen=True, eq=False)
class KroneckerPreconditioner:
    """R ↦ P⁻¹R for residuals R (N, K, m)."""

    equations: tuple[_Equation, ...]

    @staticmethod
    def of(part: Part) -> KroneckerPreconditioner | None:
        """For tests at nodes with diagonal noise; None for all others."""
        structure, noise = part.residuals.structure, part.covariance.noise
        if structure.mass_at_nodes is None or not noise.diagonal:
            return None
        a, equations = structure.a.toarray(), []
        for entries in structure.mass_at_nodes.at_nodes():
            tests = entries.tests.product
            means = np.array([variances[entries.columns].mean() for variances in noise.distinct])
            space = Kronecker(tuple(_inverse(_gram(A)) for A in tests.factors), tests.rows)
            time = _inverse((a * means[noise.label]) @ a.T)
            equations.append(_Equation(entries.tests.rows, space, time))
        return KroneckerPreconditioner(tuple(equations))

    def __call__(self, R: Array) -> Array:
        """P⁻¹R."""
        out = np.empty_like(R)
        for equation in self.equations:
            out[equation.rows] = equation.inverse_times(R[equation.rows])
        return out


def _gram(A: Any) -> Array:
    dense = A.toarray() if sparse.issparse(A) else A
    return np.asarray(dense @ dense.T)


def _inverse(G: Array) -> Array:
    ridge = _RIDGE * float(np.abs(G).max()) * np.eye(len(G))
    inverse = np.linalg.inv(G + ridge)
    return np.asarray(0.5 * (inverse + inverse.T))
