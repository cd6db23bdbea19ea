"""The misfit around a point as a quadratic function, its minimum on any subset of the operators, and under constraints.

    Q(θ) = q − 2 gᵀ(θ−θ_0) + (θ−θ_0)ᵀ A (θ−θ_0),        A = H − σ²N

H is the Gauss–Newton matrix, and N is what noise adds to it. Let b = −½∇Q and c = Q at the point to which θ_0 moves
when the coefficients outside a model s go to zero. With P = A_ss⁻¹,

    θ_s = θ_0,s + P b_s           Q_s = c − b_sᵀ P b_s           V_s = σ² P S_ss P

Steps from θ_0 keep all digits. The removal of operator i from the minimum moves the others and raises the misfit by

    θ_j ← θ_j − P_ji θ_i / P_ii           ΔQ_i = θ_i² / P_ii

S is the covariance of the score ½∇Q = −Σ_k g_k in units of σ²: from the noise model, or from the scores of the blocks,

    S = Σ_{|l| ≤ L} (1 − |l|/(L+1)) Σ_k g_k g_{k+l}ᵀ        (Bartlett weights),

which also sees blocks where the discretisation fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.errors import BvsiError, RankError
from bvsi.infer.constraints import LinearConstraints, solve_program
from bvsi.infer.priors import BoundPrior
from bvsi.likelihood import ProfileEquations, ResidualLikelihood
from bvsi.linalg import ScaledCholesky

Model = tuple[int, ...]

#: Smallest eigenvalue of the scaled normal matrix that still counts: columns agree to 3e-7 of their size.
RANK_TOLERANCE = 1e-13
#: Share of noise, λ_max(H⁻¹σ²N), up to which a selection is always trusted: half of a combination is noise.
_MOST_NOISE = 0.5
#: Standard deviations of what noise adds to H, σ²N √(2/n), that A = H − σ²N has to be where the share is larger: KdV at
#: 100% noise, n = 2,800, has a share of 0.7, and estimates within 1.7 of their own error bars.
_CLEARLY = 8.0
#: Blocks further apart than this share no data in the stencils at hand.
SCORE_LAGS = 2

# Part of Q(0) below which a misfit is rounding: Q is a difference of numbers of that size.
_ROUNDING = 1e-14
# Parts of the largest weight of a lost combination: from the first on an operator is named as a member of it, from the
# second on it counts as equal to the largest. Not measured; they only shape the text of the error.
_MEMBER, _EQUAL = 0.05, 0.99


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Q of all models of d operators, around one point.

    Attributes
    ----------
    theta
        θ_0 (d,).
    q
        Q(θ_0).
    g
        −½∇Q(θ_0) (d,).
    A, H
        (d, d), without and with what noise adds.
    n
        Residuals.
    scale_known
        Whether Q has the scale of the noise.
    S, S_blocks
        (d, d) from the noise model and from the scores of the blocks; None where there are no error bars.
    precision
        Precision of a prior (d, d), which is part of A, S and S_blocks but not of q, g and H; None for a flat one.
    """

    names: tuple[str, ...]
    theta: Array
    q: float
    g: Array
    A: Array
    H: Array
    n: int
    scale_known: bool = True
    S: Array | None = None
    S_blocks: Array | None = None
    precision: Array | None = None

    def scale(self, q: float) -> float:
        """σ² in units of the noise model where the misfit is q."""
        return 1.0 if self.scale_known else q / self.n

    @property
    def noise_share(self) -> float:
        """λ_max(H⁻¹σ²N), the largest share of noise over all combinations of the operators; one where H is singular."""
        try:
            return noise_share(factorise(self.H, self.names).inverse(), self.H - self.A)
        except (RankError, np.linalg.LinAlgError):
            return 1.0

    @property
    def most_noise(self) -> float:
        """Share of noise beyond which operators are swamped: A is then not known well enough."""
        return max(_MOST_NOISE, 1 / (1 + _CLEARLY * math.sqrt(2 / self.n)))

    @property
    def swamped(self) -> bool:
        """Whether noise makes up too much of some combination of the operators."""
        return self.noise_share > self.most_noise

    def of(self, some: Sequence[int]) -> Self:
        """Q of some operators, with the coefficients of the others held at θ_0; without error bars."""
        s, both = np.array(some), np.ix_(some, some)
        own = replace(self, names=tuple(self.names[i] for i in some), theta=self.theta[s], g=self.g[s])
        return replace(own, A=self.A[both], H=self.H[both], S=None, S_blocks=None, precision=None)

    def solve(self, models: Sequence[Model], most_noise: float | None = None) -> tuple[Array, Array]:
        """θ_s (m, k) and Q_s (m,) of m models of one size k.

        Q is infinite where it means nothing: operators are alike, or a share of noise is more than ``most_noise``.
        """
        most_noise = self.most_noise if most_noise is None else most_noise
        s = np.array(models, dtype=np.int64)
        b, c = self._moved(s)
        B, kept, usable = self._diagonalised(s)
        usable &= kept.min(axis=1, initial=1.0) > 1 - most_noise
        kept = np.where(kept > 1 - most_noise, kept, 1.0)
        h = np.einsum("mij,mi->mj", B, np.take_along_axis(b, s, axis=1))
        Q = np.maximum(c - np.sum(h**2 / kept, axis=1), _ROUNDING * self._at_zero)
        theta = self.theta[s] + np.einsum("mij,mj->mi", B, h / kept)
        return theta, np.where(usable & np.isfinite(Q), Q, np.inf)

    def without_each(self, model: Model) -> Array:
        """Q of a model without each of its k operators, (k,), in one factorisation: Q_s + θ_i²/P_ii.

        Models that :meth:`solve` refuses are not seen; −∞ where A_ss is not positive definite, and nothing is known.
        """
        s = np.array([model], dtype=np.int64)
        b, c = self._moved(s)
        try:
            L, scale = (one[0] for one in _factors(self.A, s))
        except np.linalg.LinAlgError:
            return np.full(s.size, -np.inf)
        root = lapack.dtrtri(L, lower=1)[0] / scale[:, 0]
        h = root @ b[0][s[0]]
        theta = self.theta[s[0]] + root.T @ h
        Q = c[0] - h @ h + theta**2 / np.sum(root**2, axis=0)
        return np.asarray(np.maximum(Q, _ROUNDING * self._at_zero))

    def with_each(self, models: Sequence[Model], most_noise: float | None = None) -> Array:
        """Q of m models of one size with one operator more, each of the d in turn, (m, d), in a factorisation each. ::

            Q_s+j = Q_s − (b_j − A_js P b_s)² / a_j,      a_j = A_jj − A_js P A_sj

        It is infinite for operators of the model, and where :meth:`solve` refuses the larger model for sure: H_ss or
        A_ss is not positive definite, or a_j is less than 1 − ``most_noise`` of the same expression in H, which no
        model with smaller shares of noise can have. The other models that ``solve`` refuses are not seen.
        """
        most_noise = self.most_noise if most_noise is None else most_noise
        s = np.array(models, dtype=np.int64).reshape(len(models), -1)
        b, c = self._moved(s)
        try:
            half = _half_solved(self.A, s, np.concatenate([np.take_along_axis(b, s, 1)[:, :, None], self.A[s]], axis=2))
            noisy = _half_solved(self.H, s, self.H[s])
        except np.linalg.LinAlgError:  # of some of them
            if len(models) == 1:
                return np.full((1, len(self.names)), np.inf)
            return np.concatenate([self.with_each([model], most_noise) for model in models])
        h, half = half[:, :, 0], half[:, :, 1:]
        a, whole = (np.diag(M) - np.sum(B**2, axis=1) for M, B in ((self.A, half), (self.H, noisy)))
        possible = (a > 0) & (a > (1 - most_noise) * whole)
        np.put_along_axis(possible, s, values=False, axis=1)
        Q = (c - np.sum(h**2, axis=1))[:, None]
        Q = Q - (b - np.einsum("mk,mkd->md", h, half)) ** 2 / np.where(possible, a, 1.0)
        return np.where(possible, np.maximum(Q, _ROUNDING * self._at_zero), np.inf)

    def score_tests(self, model: Model, known: Model = ()) -> tuple[Array, Array]:
        """z_j² of each operator outside a model by its score, and the power of that test, both (d,). ::

            s_j = b_j − a b_s,   a = A_js P,     Var(s_j) = H_jj − 2 a H_sj + a H_ss aᵀ,     z_j² = s_j²/Var(s_j)
            a_j = A_jj − a A_sj,     power = a_j²/(A_jj|known Var(s_j))

        Where θ_j = 0 it is χ² with one degree of freedom, however much of the operator is noise; the predicted fall of
        Q, s_j²/a_j, is larger. An operator that explains E of the misfit beyond what is known, θ_j² A_jj|known = E, has
        z_j² of E times the power. H is the covariance of scores with stacked weights. Zero for operators of
        the model.

        Parameters
        ----------
        known
            Operators of the model that are there for sure; A_jj|known is A_jj with them projected out.
        """
        s = np.array([model], dtype=np.int64)
        (b,), (c,) = self._moved(s)
        own, (B,), (kept,) = s[0], *self._diagonalised(s)[:2]
        a = self.A[:, own] @ (B / np.maximum(kept, RANK_TOLERANCE)) @ B.T
        variance = np.diag(self.H) - 2 * np.sum(a * self.H[:, own], axis=1)
        variance = variance + np.einsum("di,ij,dj->d", a, self.H[np.ix_(own, own)], a)
        outside = ~np.isin(np.arange(len(self.names)), own) & (variance > _ROUNDING * np.diag(self.H))
        variance = np.where(outside, variance, 1.0)
        left, whole = np.diag(self.A) - np.sum(a * self.A[:, own], axis=1), np.diag(self.A)
        if known:
            k = np.array(known)
            whole = whole - np.sum(self.A[:, k] * np.linalg.solve(self.A[np.ix_(k, k)], self.A[k]).T, axis=1)
        seen = outside & (left > 0) & (whole > 0)
        squares = (b - a @ b[own]) ** 2 / (variance * self.scale(float(c)))
        power = left**2 / (np.where(seen, whole, 1.0) * variance)
        return np.where(outside, squares, 0.0), np.where(seen, power, 0.0)

    def _moved(self, s: Integers) -> tuple[Array, Array]:
        """b (m, d) and c (m,) of the models s (m, k): −½∇Q and Q at θ_0 with the operators outside s set to zero."""
        move = np.tile(-self.theta, (len(s), 1))
        np.put_along_axis(move, s, 0.0, axis=1)
        b = self.g - move @ self.A
        return b, self.q - move @ self.g - np.einsum("mi,mi->m", move, b)

    def minimum(self, names: Iterable[str]) -> Minimum:
        """The minimum with only these operators; with H for A where noise makes up all of a combination of them."""
        chosen = tuple(names)
        s = np.array([self.names.index(name) for name in chosen])
        B, kept, usable = (one[0] for one in self._diagonalised(s[None]))
        if not usable:
            factorise(self.H[np.ix_(s, s)], chosen)  # raises RankError, with the names
        most_noise = 1 - RANK_TOLERANCE
        theta, Q = (one[0] for one in self.solve([tuple(s)], most_noise))
        if self.A is not self.H and not (np.isfinite(Q) and _ROUNDING * self._at_zero < Q):
            return replace(self, A=self.H).minimum(chosen)
        P = (B / kept) @ B.T
        variance = np.full(len(s), np.nan)
        if self.S is not None and self.S_blocks is not None:
            both = [np.diag(sandwich(P, S[np.ix_(s, s)])) for S in (self.S, self.S_blocks)]
            variance = self.scale(float(Q)) * np.maximum(*both)
        return Minimum(theta, P, variance, float(Q), self.n, self.scale_known)

    @property
    def _at_zero(self) -> float:
        """Q(0)."""
        return float(self.q + self.theta @ (2 * self.g + self.A @ self.theta))

    def _diagonalised(self, s: Integers) -> tuple[Array, Array, Mask]:
        """B (m, k, k) with BᵀH_ssB = I and BᵀA_ssB = diag(kept), kept (m, k), and whether H_ss has full rank (m,).

        kept is one minus the share of noise of each combination. Models s: (m, k).
        """
        diagonal = np.diag(self.H)[s]
        scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        H, A = (M[s[:, :, None], s[:, None, :]] / scale[:, :, None] / scale[:, None, :] for M in (self.H, self.A))
        values, vectors = np.linalg.eigh(H)
        low, high = values.min(axis=1, initial=1.0), values.max(axis=1, initial=1.0)
        usable = (low > RANK_TOLERANCE * high) & (diagonal > 0).all(axis=1)
        root = vectors / np.sqrt(np.maximum(values, RANK_TOLERANCE))[:, None, :]
        kept, basis = np.linalg.eigh(root.transpose(0, 2, 1) @ A @ root)
        return root @ basis / scale[:, :, None], kept, usable


@dataclass(frozen=True, eq=False)
class NoiseRatio(Quadratic):
    """Misfits over the noise of each model's own residual, at fixed weights W and around θ_0 = 0. ::

        Q_s = n cᵀGc / cᵀBc,      c = (1, −θ_s),      G = ZᵀWZ,   B = E[ζᵀWζ],   Z = [y, X]

    θ_s solves the moment equations. It is n for the right model, however wrong the size of the weights is; G − B alone
    falls to nothing where noise nearly hides a combination of operators.

    Attributes
    ----------
    noise
        B (1 + d, 1 + d).
    """

    noise: Array = field(kw_only=True)

    def of(self, some: Sequence[int]) -> Self:
        """That of some operators."""
        with_y = [0, *(i + 1 for i in some)]
        return replace(super().of(some), noise=self.noise[np.ix_(with_y, with_y)])

    def solve(self, models: Sequence[Model], most_noise: float | None = None) -> tuple[Array, Array]:
        """θ_s (m, k) and Q_s (m,) of m models of one size k."""
        theta, Q = super().solve(models, most_noise)
        s, (y, *_), B = np.array(models, dtype=np.int64), self.noise, self.noise[1:, 1:]
        own = y[0] - 2 * np.sum(theta * y[1:][s], axis=1)
        own = own + np.einsum("mi,mij,mj->m", theta, B[s[:, :, None], s[:, None, :]], theta)
        usable = np.isfinite(Q) & (own > 0)
        ratio = 1 + (np.where(usable, Q, 0.0) - y[0]) / np.where(usable, own, 1.0)
        return theta, np.where(usable, self.n * np.maximum(ratio, _ROUNDING), np.inf)

    def without_each(self, model: Model) -> Array:
        """Q of a model without each of its k operators, (k,)."""
        return self.solve([tuple(i for i in model if i != gone) for gone in model])[1]

    def with_each(self, models: Sequence[Model], most_noise: float | None = None) -> Array:
        """Q of m models of one size with one operator more, each of the d in turn, (m, d); infinite for their own."""
        Q = np.full((len(models), len(self.names)), np.inf)
        for row, model in zip(Q, models, strict=True):
            free = [i for i in range(len(row)) if i not in model]
            row[free] = self.solve([(*model, i) for i in free], most_noise)[1] if free else ()
        return Q


def _half_solved(M: Array, s: Integers, B: Array) -> Array:
    """L⁻¹B (m, k, j) of m models s (m, k), where M_ss = L Lᵀ up to scaling; an error where one is not so."""
    L, scale = _factors(M, s)
    return np.asarray(np.linalg.solve(L, B / scale))


def _factors(M: Array, s: Integers) -> tuple[Array, Array]:
    """L (m, k, k) and D (m, k, 1) with M_ss = D L Lᵀ D; an error where one is not so."""
    diagonal = np.diag(M)[s]
    if not np.all(diagonal > 0):
        raise np.linalg.LinAlgError("noise makes up all of an operator")
    scale = np.sqrt(diagonal)[:, :, None]
    scaled = M[s[:, :, None], s[:, None, :]] / scale / scale.transpose(0, 2, 1)
    return np.asarray(np.linalg.cholesky(scaled), dtype=np.float64), scale


@dataclass(frozen=True, eq=False)
class Minimum:
    """The minimum of the misfit on the operators of one model.

    Attributes
    ----------
    theta
        (k,).
    inverse
        P (k, k).
    q
        The misfit there, of n residuals.
    scale_known
        Whether q has the scale of the noise.
    variance
        (k,) the larger of those from the noise model and from the scores of the blocks; NaN without error bars.
    """

    theta: Array
    inverse: Array
    variance: Array
    q: float
    n: int
    scale_known: bool

    @property
    def growth(self) -> Array:
        """ΔQ_i = θ_i²/P_ii for the removal of each operator, (k,)."""
        return np.asarray(self.theta**2 / np.diag(self.inverse))

    @property
    def misfit_change(self) -> Array:
        """Change of the misfit part of a score: ΔQ, or n log(1 + ΔQ/Q) where the noise level is estimated, (k,)."""
        return self.growth if self.scale_known else self.n * np.log1p(self.growth / self.q)

    def removal_step(self, i: int) -> Array:
        """Change of θ when operator i is removed, (k,): −P_:i θ_i/P_ii."""
        return np.asarray(-self.inverse[:, i] * self.theta[i] / self.inverse[i, i])


def _positive(A: Array, H: Array) -> Array:
    """A without combinations in which noise makes up more than all of H: a prior knows these better than the data."""
    size = np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(A / np.outer(size, size))
    if values[0] > 0:
        return A
    root = vectors * size[:, None]
    return np.asarray((root * np.maximum(values, 0.0)) @ root.T)


def expanded(
    likelihood: ResidualLikelihood, theta: Array, profile: ProfileEquations, prior: BoundPrior | None = None
) -> Quadratic:
    """The misfit around θ from its profile equations there, which need N, so an rng; without S no error bars."""
    assert profile.N is not None
    equations = profile.equations
    precision = np.zeros_like(profile.N) if prior is None else prior.precision
    scale = likelihood.noise_scale(equations)  # N is drawn from the noise model as it is stated
    blocks = score_covariance(profile.scores) / scale if profile.scores else profile.S
    S, S_blocks = (None if own is None else own + precision for own in (profile.S, blocks))
    A = equations.H - scale * profile.N
    return Quadratic(
        likelihood.names,
        theta,
        equations.q,
        equations.g,
        precision + (_positive(A, equations.H) if precision.any() else A),
        equations.H,
        equations.n,
        likelihood.scale_known,
        S,
        S_blocks,
        precision if precision.any() else None,
    )


def carried_over(whole: Quadratic, here: Quadratic) -> Quadratic:
    """The excess of the block-score covariance over the model covariance, transported from one θ to another. ::

        S_blocks ← T S_blocks,0 Tᵀ,     T = L L_0⁻¹,     S = L Lᵀ,     S_0 = L_0 L_0ᵀ

    At the estimate of a smaller model the scores of a missing operator have a mean, which S from these scores takes for
    scatter: z² would stay below a third of the number of blocks, however much the operator is needed. At the estimate
    of all operators they have none. S itself where it is singular.
    """
    assert whole.S is not None
    assert whole.S_blocks is not None
    assert here.S is not None
    try:
        to, start = factorise(here.S, here.names), factorise(whole.S, here.names)
    except (RankError, np.linalg.LinAlgError):
        return replace(here, S_blocks=here.S)
    T = to.scale[:, None] * np.linalg.solve(start.L.T, to.L.T).T / start.scale
    carried = T @ whole.S_blocks @ T.T
    return replace(here, S_blocks=np.asarray(0.5 * (carried + carried.T)))


def noise_share(inverse: Array, N: Array) -> float:
    """λ_max(H⁻¹N): the largest share of noise over all combinations of operators; inverse is H⁻¹."""
    return float(np.linalg.eigvals(inverse @ N).real.max(initial=0.0))


def sandwich(inverse: Array, S: Array) -> Array:
    """H⁻¹ S H⁻¹, symmetric; inverse is H⁻¹."""
    covariance = inverse @ S @ inverse
    return np.asarray(0.5 * (covariance + covariance.T))


def score_covariance(scores: tuple[Array, ...]) -> Array:
    """S from the block scores of each experiment, (K, d) each."""
    d = scores[0].shape[1]
    total = np.zeros((d, d))
    for g in scores:
        total += g.T @ g
        for lag in range(1, min(SCORE_LAGS, len(g) - 1) + 1):
            cross = g[lag:].T @ g[:-lag]
            total += (1 - lag / (SCORE_LAGS + 1)) * (cross + cross.T)
    return total


def factorise(H: Array, names: tuple[str, ...]) -> ScaledCholesky:
    """Factor a normal matrix H (d, d); :class:`RankError` where the data do not determine all coefficients."""
    scale = np.sqrt(np.maximum(np.diag(H), 0.0))
    if not np.all(np.isfinite(H)):
        raise RankError("the normal equations have entries that are not finite; look for overflow in the data.", ())
    idle = tuple(name for name, s in zip(names, scale, strict=True) if s == 0)
    if idle:
        raise RankError(
            f"operators that vanish on these data: {_listed(idle)}. Their coefficients cannot be known; remove them.",
            tuple((name,) for name in idle),
        )
    scaled = H / scale[:, None] / scale
    eigenvalues, vectors = np.linalg.eigh(scaled)
    lost = eigenvalues <= RANK_TOLERANCE * eigenvalues[-1]
    if lost.any():
        raise _rank_error(vectors[:, lost] / scale[:, None], vectors[:, lost], names)
    return ScaledCholesky(scale, np.asarray(np.linalg.cholesky(scaled), dtype=np.float64))


def _rank_error(combinations: Array, weights: Array, names: tuple[str, ...]) -> RankError:
    """Name, for every lost dimension, the operators in it and the combination that vanishes."""
    # a basis in which every vector has one operator of its own, so that separate groups are not mixed
    pivots = scipy.linalg.qr(weights.T, mode="r", pivoting=True)[1][: weights.shape[1]]
    mix = np.linalg.inv(weights[pivots])
    combinations, weights = combinations @ mix, weights @ mix
    groups, texts = [], []
    for v, w in zip(combinations.T, weights.T, strict=True):
        members = np.flatnonzero(np.abs(w) > _MEMBER * np.abs(w).max())
        heavy = members[np.abs(w[members]) > _EQUAL * np.abs(w).max()]  # the first of equal ones, whatever the rounding
        v = v / v[heavy[0]]
        groups.append(tuple(names[i] for i in members))
        texts.append(" + ".join(f"{v[i]:.3g}·[{names[i]}]" for i in members) + " ≈ 0")
    return RankError(
        "operators that these data cannot tell apart: "
        + "; ".join(texts)
        + ". Remove one of each group, give a prior, or add data with another initial state.",
        tuple(groups),
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)


@dataclass(frozen=True, eq=False)
class ConstrainedSolver:
    """Steps s with the matrix H (d, d) under constraints (eq:constrained_lagged_update). ::

        s = argmin ½ sᵀHs − gᵀs   subject to   l ≤ A(θ + s) ≤ u

    Equalities are solved for, θ = c + Tη, and leave H_η = TᵀHT; inequalities make it a quadratic program where the step
    without them would violate one. Make it with :func:`constrained`.

    Attributes
    ----------
    reduced
        Factor of H_η = TᵀHT.
    """

    H: Array
    constraints: LinearConstraints
    reduced: ScaledCholesky

    def free(self, theta: Array, g: Array) -> Array:
        """θ + s (d,) with the equalities only."""
        affine, _ = self.constraints.reduced
        eta = affine.eta(theta)
        return affine.theta(eta + self.reduced.solve(self._slope(theta, g)))

    def update(self, theta: Array, g: Array) -> Array:
        """θ + s (d,) with all constraints."""
        affine, inside = self.constraints.reduced
        free = self.free(theta, g)
        if not inside or inside.satisfied(affine.eta(free), tol=0.0):
            return free
        eta = affine.eta(theta)
        shift = inside.A @ eta
        moved = replace(inside, lower=inside.lower - shift, upper=inside.upper - shift)
        step = solve_program(affine.T.T @ self.H @ affine.T, self._slope(theta, g), moved)
        return self.constraints.clipped(affine.theta(eta + step))

    def inverse(self) -> Array:
        """T H_η⁻¹ Tᵀ (d, d)."""
        T = self.constraints.reduced[0].T
        return np.asarray(T @ self.reduced.inverse() @ T.T)

    def _slope(self, theta: Array, g: Array) -> Array:
        """Tᵀ(g − H s_0) with the step s_0 that brings θ onto the equalities."""
        affine, _ = self.constraints.reduced
        return np.asarray(affine.T.T @ (g - self.H @ (affine.theta(affine.eta(theta)) - theta)))


#: θ + s with all constraints (``update``) and with the equalities only (``free``), and the inverse of H.
Solver = ConstrainedSolver | ScaledCholesky


def constrained(H: Array, constraints: LinearConstraints | None, names: tuple[str, ...]) -> Solver:
    """A solver; :class:`RankError` where the data do not determine all coefficients that are left."""
    if not constraints:
        return factorise(H, names)
    affine, _ = constraints.reduced
    if not affine.free_names:
        raise BvsiError("constraints: they fix every coefficient, so that nothing is left to infer; relax one of them.")
    return ConstrainedSolver(H, constraints, factorise(affine.T.T @ H @ affine.T, affine.free_names))
