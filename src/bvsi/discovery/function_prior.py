"""What is known of unknown functions beforehand, and how probable data make it.

With the scores s of the data, of mean Aθ and covariance S, what the data tell is I = AᵀS⁻¹A and b = AᵀS⁻¹s. The
coefficients c of a function are Gaussian, smooth to an unknown degree, of differences of the first to third order:

    p(c | λ) ∝ exp(−½ λ cᵀKc),    −2 log p(data | λ) = log |I + P| − log |P| − bᵀ(I + P)⁻¹b + …,   P = λK

Order and λ are those of the lowest value. A function of one variable may have steps besides, at places between the
knots and of several widths: h_j are the coefficients of the spline nearest to one, P⁻¹ = (λK)⁻¹ + Σ_j s² p_j h_j h_jᵀ.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.special

from bvsi.common.arrays import Array, Rng
from bvsi.errors import RankError
from bvsi.infer.priors import BoundPrior
from bvsi.likelihood import ResidualLikelihood
from bvsi.operators.functions import MOST_RATIO, UnknownFunction

# Decades of the strengths λ that are compared, relative to what the data know of the constant; each step between them
# is halved so many times around the best.
_WEAKEST, _STRONGEST, _HALVINGS = -9, 5, 3
# Orders of differences that are compared. With the third a function may be curved everywhere: with two alone
# D = 0.2 + 0.3 u² was too low by 1.2 standard deviations at the largest u, where data are few (mean over 30 draws, seed
# 994), with three by 0.3.
ORDERS = (1, 2, 3)
# Decade from which on what is beside steps is as good as constant; not measured.
_CONSTANT = 2
# Steps of a function at most, and 2 log of the evidence that one is worth (odds of 1 : 20).
_STEPS, _WORTH = 4, 6.0
# Part of the largest step from which on one is a jump of stretched coordinates, and intervals from its end to where k
# is that of its sides. Not measured; jumps in the place of steps took draw 10 of seed 2121021 from 0.60 to 0.81.
_MAIN, _SIDES = 0.2, 2.0
# Probability below which a step is not there.
_NO_STEP = 1e-4
#: What is known beforehand of the constant, relative to what the data know: 0.01 standard deviations at |z| = 1000.
VAGUE = 1e-5
# Decades between the strengths over which a prior is averaged, and the part of what is known of a combination of
# coefficients below which a prior says nothing about it.
_AVERAGED, _NEXT_TO_NOTHING = 0.5, 1e-7
# Relative ridge of S, whose smallest eigenvalues are rounding.
_RIDGE = 1e-12


@dataclass(frozen=True, eq=False)
class FunctionColumns:
    """A function among the columns of a likelihood.

    Attributes
    ----------
    known
        What is known of it by name, (mean, variance), or None.
    flux
        Whether it is the factor of a flux, k in ``div(k*grad(u))``. Where it has a step, so has the slope of u.
    """

    name: str
    label: str
    function: UnknownFunction
    columns: list[int]
    known: tuple[float, float] | None = None
    flux: bool = False

    def precision(self, one: FunctionPrior) -> Array:
        """P, with a vague constant, jumps and what is known beforehand, (M, M)."""
        M = self.function.size
        P = one.strength * self.roughness[one.order] + np.full((M, M), one.vague / M)
        if one.steps is not None:
            L = np.linalg.cholesky(P)
            U, sizes, _ = np.linalg.svd(L.T @ one.steps)
            sizes = np.append(sizes, np.zeros(M - len(sizes)))
            root = L @ (U / np.sqrt(1 + sizes**2))  # (P⁻¹ + HHᵀ)⁻¹ = L (1 + LᵀHHᵀL)⁻¹ Lᵀ
            P = root @ root.T
        return np.asarray(P + (np.eye(M) / self.known[1] if self.known else 0.0))

    def steps(self, own: Array) -> tuple[Array, Array]:
        """Steps that it may have, as place, width and ratio of both sides (J, 3), and their splines by one (M, J).

        Parameters
        ----------
        own
            Estimate of the coefficients, which gives the ratios, (M,).
        """
        places = self.function.steps
        ratios = self.function.ratios(own, places) if self.flux else np.ones(len(places))
        steps = np.column_stack([places, ratios])
        return steps, self.function.nearest(steps)

    def stretched(self, x: Array, own: Array, prior: FunctionPrior) -> Array:
        """ξ = ∫ dx/k at places x (n,), as long as x: where k has a step, u has a kink, but none as a function of ξ.

        Steps of k are jumps here, since nodes do not resolve how wide they are.

        Parameters
        ----------
        own
            Estimate of the coefficients, (M,).
        """
        low, high = self.function.low[0], self.function.high[0]
        h, k = (high - low) / self.function.intervals[0], self.function.design(np.clip(x, low, high)[:, None]) @ own
        sharp, left = k.copy(), sorted(prior.listed, key=lambda row: -row[3])
        least = _MAIN * left[0][3] if left else 0.0
        while left and left[0][3] > least:
            reach = left[0][1] / 2 + _SIDES * h
            near = np.array([row for row in left if abs(row[0] - left[0][0]) <= reach])
            place = float(np.average(near[:, 0], weights=near[:, 3]))
            sides, there = np.interp([place - reach, place + reach], x, k), np.abs(x - place) <= reach
            sharp[there] = np.where(x[there] < place, *sides)
            left = [row for row in left if abs(row[0] - left[0][0]) > reach]
        slow = 1 / np.maximum(sharp, sharp.max() / MOST_RATIO)
        xi = np.append(0.0, np.cumsum(slow[1:] + slow[:-1]))
        return np.asarray(x[0] + np.ptp(x) * xi / xi[-1])

    @property
    def jumps(self) -> bool:
        """Whether it may jump: a function of one variable, and not periodic."""
        return len(self.function.of) == 1 and not self.function.periodic[0]

    @cached_property
    def roughness(self) -> dict[int, Array]:
        """K by order of differences."""
        return {order: self.function.roughness(order) for order in ORDERS}

    @property
    def mean(self) -> float:
        """What it is beforehand."""
        return self.known[0] if self.known else 0.0


@dataclass(frozen=True, eq=False)
class FunctionPrior:
    """What is known of a function beforehand.

    Attributes
    ----------
    order, strength, vague
        Order of differences, λ, and the precision of the constant.
    steps
        Coefficients of steps, times their standard deviations, (M, J).
    told
        Place, width, ratio of both sides and mean squared size of these, times the probability to be there, (J, 4).
    count
        How many steps there are.
    """

    order: int
    strength: float
    vague: float
    steps: Array | None = None
    told: Array | None = None
    count: int = 0

    @property
    def listed(self) -> tuple[tuple[float, ...], ...]:
        """``told``, as a result has it."""
        return () if self.told is None else tuple(tuple(row) for row in self.told.tolist())

    def stepped(self, steps: Array, told: Array) -> FunctionPrior:
        """The same with one step more, wherever it is."""
        if self.steps is not None and self.told is not None:
            steps, told = np.hstack([self.steps, steps]), np.vstack([self.told, told])
        return replace(self, steps=steps, told=told, count=self.count + 1)


@dataclass(frozen=True, eq=False)
class Information:
    """What the data tell of θ: log p = bᵀθ − ½ θᵀIθ + …, and the scale of the noise in units of its model."""

    I: Array  # noqa: E741 (information)
    b: Array
    scale: float = 1.0

    @staticmethod
    def of(A: Array, s: Array, S: Array, scale: float) -> Information:
        """From scores s of mean Aθ and covariance S in units of ``scale``."""
        size = np.sqrt(np.maximum(np.diag(S), _RIDGE * np.diag(S).max()))
        values, vectors = np.linalg.eigh(S / np.outer(size, size))
        root = vectors / np.sqrt(np.maximum(values, _RIDGE * values[-1]))
        half = root.T @ (np.column_stack([A, s]) / size[:, None])
        return Information(half[:, :-1].T @ half[:, :-1] / scale, half[:, :-1].T @ half[:, -1] / scale, scale)

    @staticmethod
    def by_moments(likelihood: ResidualLikelihood, theta: Array, rng: Rng) -> Information:
        """From moment equations with the weights of an estimate."""
        moments = likelihood.moment_equations(theta, rng=copy.deepcopy(rng), draws=1)
        scale = likelihood.noise_scale(likelihood.normal_equations(theta))
        clean = moments.gram - scale * moments.noise
        return Information.of(clean[1:, 1:], clean[1:, 0], moments.gram[1:, 1:], scale)

    def smooth(
        self, groups: Sequence[FunctionColumns], *, steps: bool = True
    ) -> tuple[dict[str, FunctionPrior], dict[str, float]]:
        """The best prior of every function, one after the other, and 2 log of its evidence over that of a constant.

        Parameters
        ----------
        steps
            Whether functions may have steps.
        """
        vague = {g.name: VAGUE * float(self.I[np.ix_(g.columns, g.columns)].mean()) * g.function.size for g in groups}
        chosen = {g.name: FunctionPrior(2, vague[g.name] / VAGUE * 1e-3, vague[g.name]) for g in groups}
        gains: dict[str, float] = {}
        for _ in range(1 if len(groups) == 1 else 3):
            for g in groups:

                def value(one: FunctionPrior, g: FunctionColumns = g) -> float:
                    return self.surprise(groups, chosen | {g.name: one})

                unit = vague[g.name] / VAGUE
                places = [(order, float(d)) for order in ORDERS for d in range(_WEAKEST, _STRONGEST + 1)]
                tried = {p: value(FunctionPrior(p[0], unit * 10 ** p[1], vague[g.name])) for p in places}
                flat, step = tried[1, float(_STRONGEST)], 1.0
                for _ in range(_HALVINGS):
                    order, decade = min(tried, key=lambda p: tried[p])
                    step /= 2
                    for near in (decade - step, decade + step):
                        tried[order, near] = value(FunctionPrior(order, unit * 10**near, vague[g.name]))
                order, decade = min(tried, key=lambda p: tried[p])
                chosen[g.name], lowest = FunctionPrior(order, unit * 10**decade, vague[g.name]), tried[order, decade]
                gains[g.name] = flat - lowest
                for _ in range(_STEPS if steps and g.jumps else 0):
                    found, stepped = self._stepped(groups, chosen, g, unit)
                    if found > lowest - _WORTH:
                        break
                    gains[g.name] = flat - found
                    # with steps where they are probable, evidence counts what the data said about their places
                    lowest, chosen[g.name] = value(stepped), stepped
        return chosen, gains

    def _stepped(
        self, groups: Sequence[FunctionColumns], smooth: Mapping[str, FunctionPrior], g: FunctionColumns, unit: float
    ) -> tuple[float, FunctionPrior]:
        """The best prior of a function with one step more, wherever it is, and −2 log p(data) with it.

        A step a ~ N(0, s²) at one of m places, h its column: with the score and information of a beside the others,

            −2 Δ log p = log(1 + s²i) − s² z²/(1 + s²i),     z = hᵀ(b − IVb),   i = hᵀ(I − IVI)h,   V = (I + P)⁻¹

        s is the size of the function. The prior has the variance s² p_j at each place, p_j how probable it is.
        """
        before, own = smooth[g.name], self.estimate(self.prior(groups, smooth))[g.columns]
        size2 = max(float(np.mean(own**2)), np.finfo(float).tiny)
        steps, H = g.steps(own)
        told = self.I[:, g.columns] @ H
        # beside a step a function is smoother, if anything; at the strongest it is as good as constant
        first = math.floor(math.log10(before.strength / unit)) - 1
        decades = range(min(max(_WEAKEST, first), _CONSTANT), _CONSTANT + 1)
        best: tuple[float, FunctionPrior] = (math.inf, before)
        for order in ORDERS[:2]:  # with steps it need not be curved everywhere
            for decade in decades:
                one = replace(before, order=order, strength=unit * 10.0**decade)
                prior = self.prior(groups, {**smooth, g.name: one})
                root, size = self._factor(prior.precision)
                left = self.b - self.I @ prior.mean
                half = scipy.linalg.solve_triangular(root, np.column_stack([told, left]) / size[:, None], lower=True)
                i = np.maximum(np.sum(H * told[g.columns], axis=0) - np.sum(half[:, :-1] ** 2, axis=0), 0.0)
                z = H.T @ left[g.columns] - half[:, :-1].T @ half[:, -1]
                change = np.log1p(size2 * i) - size2 * z**2 / (1 + size2 * i)
                total = self.surprise(groups, {**smooth, g.name: one})
                value = total + 2 * math.log(len(change)) - 2 * float(scipy.special.logsumexp(-0.5 * change))
                if value < best[0]:
                    p, narrowed = scipy.special.softmax(-0.5 * change), size2 / (1 + size2 * i)
                    there = p > _NO_STEP
                    spread = p * ((narrowed * z) ** 2 + narrowed)
                    more = (H * np.sqrt(size2 * p))[:, there], np.column_stack([steps, spread])[there]
                    best = value, one.stepped(*more)
        return best

    def averaged(
        self, groups: Sequence[FunctionColumns], smooth: Mapping[str, FunctionPrior], g: FunctionColumns, most: float
    ) -> tuple[Array, Array]:
        """Mean (M,) and precision (M, M) of the one Gaussian prior that stands for all orders and strengths.

        p(c | data) = Σ_λ w_λ N(m_λ, V_λ) with w_λ ∝ p(data | λ) and V_λ = (I + P_λ)⁻¹ has a mean m and a covariance V,
        which are those with the prior

            P = V⁻¹ − I,     P μ = V⁻¹ m − b

        I and b are those of c alone, the other coefficients integrated out. Where strengths disagree by more than the
        data leave open, P would be negative, and is next to zero.

        Parameters
        ----------
        smooth
            Priors of all functions; those of others are held, and so are the steps of this one.
        most
            Strength at most.
        """
        chosen, mean = smooth[g.name], np.full(g.function.size, g.mean)
        I, b = self._alone(groups, smooth, g)  # noqa: E741 (information)
        moments, surprises = [], []
        for order in ORDERS:
            for decade in np.arange(_WEAKEST, _STRONGEST + 1, _AVERAGED):
                strength = min(chosen.vague / VAGUE * 10**decade, most)
                P = g.precision(replace(chosen, order=order, strength=strength))
                root, size = _factor(I + P)
                m = scipy.linalg.cho_solve((root, True), (b + P @ mean) / size) / size
                moments.append((m, scipy.linalg.cho_solve((root, True), np.diag(1 / size)) / size[:, None]))
                volume = 2 * np.log(np.diag(root) * size).sum() - np.linalg.slogdet(P)[1]
                surprises.append(volume - (b - I @ mean) @ (m - mean))
        w = scipy.special.softmax(-0.5 * np.array(surprises))
        m = np.sum([a * one for a, (one, _) in zip(w, moments, strict=True)], axis=0)
        V = np.sum([a * (own + np.outer(one - m, one - m)) for a, (one, own) in zip(w, moments, strict=True)], axis=0)
        # in units of I + P at the chosen prior, so that what is next to nothing is a small number
        root, size = _factor(I + g.precision(replace(chosen, strength=min(chosen.strength, most))))
        half = size[:, None] * root
        inverse = scipy.linalg.solve_triangular(half, np.eye(len(m)), lower=True)
        values, vectors = np.linalg.eigh(np.linalg.inv(half.T @ V @ half) - inverse @ I @ inverse.T)
        wide = half @ vectors
        P = (wide * np.maximum(values, _NEXT_TO_NOTHING)) @ wide.T
        return m + np.linalg.solve(P, I @ m - b), P

    def _alone(
        self, groups: Sequence[FunctionColumns], smooth: Mapping[str, FunctionPrior], g: FunctionColumns
    ) -> tuple[Array, Array]:
        """I and b of a function's coefficients, the others integrated out with their priors."""
        prior, c = self.prior(groups, smooth), g.columns
        rest = [i for i in range(len(self.b)) if i not in {*c}]
        if not rest:
            return self.I[np.ix_(c, c)], self.b[c]
        known = prior.precision[np.ix_(rest, rest)]
        root, size = _factor(self.I[np.ix_(rest, rest)] + known)
        left = np.column_stack([self.I[np.ix_(rest, c)], self.b[rest] + known @ prior.mean[rest]]) / size[:, None]
        half = scipy.linalg.solve_triangular(root, left, lower=True)
        own, told = half[:, :-1], half[:, -1]
        return self.I[np.ix_(c, c)] - own.T @ own, self.b[c] - own.T @ told

    def prior(self, groups: Sequence[FunctionColumns], smooth: Mapping[str, FunctionPrior]) -> BoundPrior:
        """The functions' priors together, flat for everything else."""
        mean, P = np.zeros(len(self.b)), np.zeros_like(self.I)
        for g in groups:
            one = smooth[g.name]
            mean[g.columns] = g.mean
            P[np.ix_(g.columns, g.columns)] = g.precision(one)
        return BoundPrior(mean, P)

    def surprise(self, groups: Sequence[FunctionColumns], smooth: Mapping[str, FunctionPrior]) -> float:
        """−2 log p(data | λ), up to a constant."""
        prior = self.prior(groups, smooth)
        own = sum(np.linalg.slogdet(prior.precision[np.ix_(g.columns, g.columns)])[1] for g in groups)
        root, size = self._factor(prior.precision)
        z = scipy.linalg.solve_triangular(root, (self.b - self.I @ prior.mean) / size, lower=True)
        return float(2 * np.log(np.diag(root) * size).sum() - own - z @ z)

    def estimate(self, prior: BoundPrior) -> Array:
        """(I + P)⁻¹ (b + P μ)."""
        root, size = self._factor(prior.precision)
        return np.asarray(scipy.linalg.cho_solve((root, True), (self.b + prior.precision @ prior.mean) / size) / size)

    def _factor(self, P: Array) -> tuple[Array, Array]:
        return _factor(self.I + P)


def _factor(A: Array) -> tuple[Array, Array]:
    """Lower factor of a scaled matrix, and the scales s (d,): A = s L Lᵀ s."""
    size = np.sqrt(np.maximum(np.diag(A), np.finfo(float).tiny))
    try:
        return np.asarray(np.linalg.cholesky(A / np.outer(size, size) + 1e-13 * np.eye(len(size)))), size
    except np.linalg.LinAlgError:
        raise RankError("unknown: the data do not tell a function from the other operators.", ()) from None
