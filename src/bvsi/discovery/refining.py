"""From residual to observation space: the selected equation and its rivals fitted by forward solves, and averaged.

P(m) ∝ p(û | m),     E[q] = Σ_m P(m) E[q | m],     Var q = Σ_m P(m) Var(q | m) + Σ_m P(m) (E[q | m] − E[q])²
                                                         (statistics)                 (structure)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from bvsi.common.arrays import Array, Rng
from bvsi.common.progress import OutOfTimeError, Progress, silent
from bvsi.data import Data, Grid, Mesh, as_experiments
from bvsi.discovery.result import equation_text
from bvsi.errors import BvsiError, InfeasibleError
from bvsi.infer.constraints import AnyConstraints, LinearConstraints, as_linear
from bvsi.linalg import single_threaded_blas
from bvsi.noise import Noise
from bvsi.operators import Library
from bvsi.refine import ForwardFit, ForwardModel, Measurements, RefineError, fit_forward

if TYPE_CHECKING:
    from bvsi.discovery.result import Discovery

# Structures that are fitted at most, and the difference of scores up to which rivals of the weak form are: odds of 150.
_MOST, _RIVALS = 40, 10.0
# Odds against the most probable structure up to which the neighbours of a structure are fitted (Occam's window).
_WINDOW = 20.0
# log-likelihood by which a smaller structure may fit better: what iterations leave when they end.
_LOWER = 0.1
# Probability of a difference between both spaces, or of a misfit, by chance, below which there is a doubt.
_DOUBTED = 0.01
_MISFIT = 1e-3  # see above: noise levels are known to a few percent only
# Frames below which temporal test functions have no room, so that the weak form differences the data in time.
_FEW_FRAMES = 12
# Nodes where the equation is solved, by node of the data, beyond which the state between them is a matter of its prior:
# of one draw of 40 sensors on 307 nodes coefficients were off by up to 3.2 standard deviations.
_SPARSE = 3.0
_SHOWN = 0.01  # probability of operators that the text shows, and ten times that of structures
# Factors by which the prior of the coefficients is made wider and narrower, to show what it does.
INFLUENCE = (0.25, 4.0)


@dataclass(frozen=True, eq=False)
class SpacesCompared:
    """The weak form's estimate beside that of forward solves, for the same operators.

    Attributes
    ----------
    difference
        Weak form minus forward solves, (d,).
    sd
        Standard deviations of that difference, (d,).
    p_value
        Probability of as large a difference by chance.
    """

    names: tuple[str, ...]
    difference: Array
    sd: Array
    p_value: float
    cause: str

    @property
    def doubted(self) -> bool:
        """Whether noise does not explain the difference."""
        return self.p_value < _DOUBTED

    def __str__(self) -> str:
        worst = int(np.argmax(np.abs(self.difference / self.sd)))
        told = f"{self.names[worst]} by {abs(self.difference[worst] / self.sd[worst]):.1f} standard deviations"
        if not self.doubted:
            return f"Weak form and forward solves agree (p = {self.p_value:.2g}); they differ most in {told}."
        return f"Weak form and forward solves disagree (p = {self.p_value:.2g}), most in {told}. {self.cause}"


@dataclass(frozen=True, eq=False)
class Averaged:
    """A quantity over all structures that have it.

    Attributes
    ----------
    statistics, structure
        Standard deviations within structures, and between them.
    interval
        95%, from weighted draws.
    probability
        That of the structures that have it.
    """

    mean: float
    statistics: float
    structure: float
    interval: tuple[float, float]
    probability: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.statistics:.2g} (statistics) ± {self.structure:.2g} (structure)"


@dataclass(frozen=True, eq=False)
class Refined:
    """Equations fitted to the measurements by forward solves.

    Attributes
    ----------
    fields
        Fields with an equation.
    candidates
        All operators.
    models
        One fit for each structure, the most probable first.
    refused
        Structures that could not be fitted, with the reason.
    left_out
        Neighbours of probable structures that were not fitted, for time.
    agreement
        With the weak form; None where that has no estimate of the same operators.
    """

    fields: tuple[str, ...]
    candidates: tuple[str, ...]
    models: tuple[ForwardFit, ...]
    refused: tuple[tuple[tuple[str, ...], str], ...]
    left_out: int
    agreement: SpacesCompared | None
    seconds: float

    @property
    def selected(self) -> float | None:
        """Probability of the structure that the weak form selected; None where it was not fitted."""
        names = None if self.agreement is None else set(self.agreement.names)
        return next(
            (float(p) for m, p in zip(self.models, self.probabilities(), strict=True) if set(m.names) == names), None
        )

    @property
    def best(self) -> ForwardFit:
        """The most probable structure."""
        return self.models[0]

    @property
    def few_frames(self) -> bool:
        """Whether the frames are too few for temporal test functions, so that the weak form differences them."""
        return any(len(values) < _FEW_FRAMES for values in self.best.predictions)

    def probabilities(self, wider: float = 1.0) -> Array:
        """Of each structure among those fitted, all equal beforehand.

        Parameters
        ----------
        wider
            Factor on the standard deviations of the prior of the coefficients.
        """
        logs = np.array([fit.evidence_with(wider) for fit in self.models])
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def inclusion(self) -> dict[str, float]:
        """P(in) by operator: the probability of the structures that have it."""
        pairs = list(zip(self.models, self.probabilities(), strict=True))
        return {name: float(sum(p for m, p in pairs if name in m.names)) for name in self.candidates}

    def average(
        self, quantity: str | Callable[[dict[str, float]], float], *, size: int = 2000, rng: Rng | None = None
    ) -> Averaged:
        """A coefficient by name, over the structures that have it, or a function of all coefficients by name.

        Parameters
        ----------
        quantity
            Operators that a structure lacks have the coefficient zero; NaN where the quantity does not exist.
        size
            Draws of each structure, with ``rng``, by default seed 0.
        """
        draws = np.random.default_rng(0) if rng is None else rng
        values, weights = [], []
        for fit, weight in zip(self.models, self.probabilities(), strict=True):
            if isinstance(quantity, str) and quantity not in fit.names:
                continue
            own = _values(fit, quantity, self.candidates, size, draws)
            if np.all(np.isfinite(own)):
                values.append(own)
                weights.append(float(weight))
        if not values:
            raise BvsiError(f"average: no structure has {quantity if isinstance(quantity, str) else 'this quantity'}.")
        every, p = np.array(values), np.array(weights) / sum(weights)
        means, mean = every.mean(axis=1), float(p @ every.mean(axis=1))
        order = np.argsort(every, axis=None)
        reached = np.cumsum(np.repeat(p / size, size)[order])
        low, high = (float(every.ravel()[order][np.searchsorted(reached, q)]) for q in (0.025, 0.975))
        within, between = float(p @ every.var(axis=1)), float(p @ (means - mean) ** 2)
        return Averaged(mean, within**0.5, between**0.5, (low, high), sum(weights))

    def moments(self, name: str) -> tuple[float, float, float]:
        """Mean of a coefficient over the structures that have it, and its sd of statistics and of structure."""
        pairs = [(m, p) for m, p in zip(self.models, self.probabilities(), strict=True) if name in m.names]
        p = np.array([own for _, own in pairs])
        p = p / p.sum() if p.sum() > 0 else np.full(len(p), 1 / len(p))
        means = np.array([m.posterior.mean[m.names.index(name)] for m, _ in pairs])
        within = np.array([m.posterior.variance[m.names.index(name)] for m, _ in pairs])
        mean = float(p @ means)
        return mean, float(p @ within) ** 0.5, float(p @ (means - mean) ** 2) ** 0.5

    def predicted(self, number: int = 0) -> tuple[Array, Array, Array]:
        """Values (T + L, s) of one experiment over all structures, and their sd of statistics and of structure.

        The last L frames are forecasts. A result that was loaded has the most probable structure only.
        """
        pairs = [(m, p) for m, p in zip(self.models, self.probabilities(), strict=True) if len(m.predictions) > number]
        p = np.array([own for _, own in pairs])[:, None, None]
        values = np.array([m.predictions[number] for m, _ in pairs])
        within = np.array([m.spreads[number] ** 2 for m, _ in pairs])
        mean = np.sum(p * values, axis=0) / p.sum()
        between = np.sum(p * (values - mean) ** 2, axis=0) / p.sum()
        return mean, np.sqrt(np.sum(p * within, axis=0) / p.sum()), np.sqrt(between)

    @property
    def equation(self) -> str:
        """The most probable structure."""
        fit = self.best
        return equation_text(fit.names, fit.posterior.mean, np.sqrt(fit.posterior.variance), self.fields)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the answer may be wrong."""
        fit, found = self.best, []
        if not fit.status.converged:
            found.append(f"Forward solves: {fit.status.message}")
        if fit.p_value < _MISFIT:
            found.append(
                f"The equation does not fit the measurements (χ² per degree of freedom {fit.chi2:.2f}, p = "
                f"{fit.p_value:.1g}): an operator is missing, or the noise is larger than stated."
            )
        if any(len(own) > _SPARSE * v.shape[1] for own, v in zip(fit.initial, fit.predictions, strict=True)):
            found.append(
                "The field between the sensors is known by its smoothness alone: error bars of coefficients that depend "
                "on it, such as those of growth, may be too small."
            )
        if self.selected is not None and not self.selected > _DOUBTED:
            found.append(
                f"By forward solves the structure that the weak form selected has probability {self.selected:.2g}; "
                f"the most probable one is {' + '.join(fit.names)}."
            )
        if self.agreement is not None and self.agreement.doubted:
            found.append(str(self.agreement))
        return tuple(found)

    @property
    def text(self) -> str:
        """Equation, averaged coefficients and structures."""
        chances, wide = self.probabilities(), [self.probabilities(factor) for factor in INFLUENCE]
        inclusion = self.inclusion()
        lines = [f"by forward solves: {self.equation}", f"χ² per degree of freedom {self.best.chi2:.3g}", ""]
        for name in self.candidates:
            if inclusion[name] > _SHOWN:
                mean, statistics, structure = self.moments(name)
                lines.append(
                    f"{name} = {mean:.4g} ± {statistics:.2g} (statistics) ± {structure:.2g} (structure), "
                    f"P(in) = {inclusion[name]:.3f}"
                )
        lines += ["", f"{'P':>6}  {'prior × 1/4':>11}  {'× 4':>6}  {'χ²/ν':>6}  structure"]
        for fit, p, narrow, broad in zip(self.models, chances, *wide, strict=True):
            if max(p, narrow, broad) > 0.1 * _SHOWN:
                lines.append(f"{p:>6.3f}  {narrow:>11.3f}  {broad:>6.3f}  {fit.chi2:>6.2f}  {' + '.join(fit.names)}")
        lines += [f"{self.left_out} neighbouring structures were not fitted, for time."] if self.left_out else []
        lines += [f"not fitted: {' + '.join(names)}: {reason}" for names, reason in self.refused]
        lines += [] if self.agreement is None else [str(self.agreement)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text


def _values(
    fit: ForwardFit,
    quantity: str | Callable[[dict[str, float]], float],
    candidates: Sequence[str],
    size: int,
    rng: Rng,
) -> Array:
    draws = fit.posterior.sample(size, rng)
    if isinstance(quantity, str):
        return np.asarray(draws[:, fit.names.index(quantity)])
    nothing = dict.fromkeys(candidates, 0.0)
    return np.array([quantity({**nothing, **dict(zip(fit.names, map(float, row), strict=True))}) for row in draws])


@single_threaded_blas()
def refine(
    data: Data | Sequence[Data],
    library: Library,
    found: Discovery | None = None,
    *,
    noise: Noise | Sequence[Noise | None] | None = None,
    constraints: AnyConstraints = None,
    structures: Sequence[Sequence[str]] | None = None,
    on: Grid | Mesh | None = None,
    later: ArrayLike = (),
    budget: float = 300.0,
    progress: Progress = silent,
) -> Refined:
    """Fit equations to the measurements by forward solves: coefficients, initial states, probabilities of structures.

    Parameters
    ----------
    data
        Experiments that share the coefficients; every one has an initial state of its own.
    library
        Candidates; boundary conditions have to be declared where axes are not periodic.
    found
        What the weak form selected, where to begin; by default all operators of the library.
    noise
        As in ``discover``. ``SignalNoise(b=...)`` for counts has its variance at the prediction.
    structures
        Operators of the equations to compare. By default what was selected, its rivals, and, beside those
        that are probable, all with one operator more or less.
    on
        Where the equations are solved; by default at the nodes of the data. For sensors, a mesh of the domain: the
        initial field between them is inferred with its smoothness.
    later
        Times after the last of the data for which predictions are made, with the others in ``predicted``.
    budget
        Seconds after which no further structure is begun, and one under way is given up; the first is always fitted.
    """
    begin = time.perf_counter()
    if library.parameters or library.unknown:
        listed = ", ".join((*library.parameters, *library.unknown))
        raise RefineError(f"refine: {listed} inside operators cannot be fitted; write numbers in their places.")
    experiments = as_experiments(data)
    models = list(noise) if isinstance(noise, Sequence) else [noise] * len(experiments)
    if len(models) != len(experiments):
        raise RefineError(f"noise: {len(models)} models for {len(experiments)} experiments; give one, or one each.")
    fields = tuple(f for f in experiments[0].names if f in library.equations)
    measured = [Measurements.of(one, own, fields, on, later) for one, own in zip(experiments, models, strict=True)]
    limits = None if constraints is None else as_linear(constraints, library.names)
    if limits is not None and limits.equality.any():
        raise RefineError("refine: constraints that are equalities cannot be used; write inequalities.")
    search = _Structures(library, measured, limits, found, lambda: _watch(search, begin + budget, progress))
    first = [tuple(names) for names in structures] if structures is not None else search.given()
    search.fit(first[0])  # refused with the reason
    while (names := search.next(first, further=structures is None)) is not None:
        if time.perf_counter() - begin > budget or len(search.tried) >= _MOST:
            break
        try:
            search.fit(names, tolerant=True)
        except OutOfTimeError:
            break
    fits = sorted(search.fits.values(), key=lambda fit: -fit.log_evidence)
    left = len(search.waiting(first, further=structures is None))
    agreement = None if found is None else _agreement(found, search.fits, measured[0])
    seconds = time.perf_counter() - begin
    return Refined(fields, library.names, tuple(fits), tuple(search.refused), left, agreement, seconds)


def _watch(search: _Structures, end: float, progress: Progress) -> None:
    """Report to whoever waits, and end the fit under way where its time is over and another one is there."""
    if search.fits and time.perf_counter() > end:
        raise OutOfTimeError("fitting structures by forward solves")
    progress(len(search.tried), None, "fitting structures by forward solves")


class _Structures:
    """Structures that were fitted, and which to fit next; ``watch`` is called before every solve."""

    def __init__(
        self,
        library: Library,
        measured: Sequence[Measurements],
        limits: LinearConstraints | None,
        found: Discovery | None,
        watch: Callable[[], None],
    ) -> None:
        self._library, self._measured, self._limits, self._found = library, measured, limits, found
        self._watch = watch
        self.fits: dict[frozenset[str], ForwardFit] = {}
        self.refused: list[tuple[tuple[str, ...], str]] = []

    @property
    def tried(self) -> set[frozenset[str]]:
        """All that were begun."""
        return set(self.fits) | {frozenset(names) for names, _ in self.refused}

    def given(self) -> list[tuple[str, ...]]:
        """What the weak form selected, and its rivals."""
        if self._found is None:
            return [self._library.names]
        path = self._found.path
        near = [v for v in path.visited if v.score < path.best.score + _RIVALS]
        ranked = [self._found.names, *(v.names for v in sorted(near, key=lambda v: v.score))]
        return [names for names in dict.fromkeys(ranked) if names]

    def fit(self, names: Sequence[str], *, tolerant: bool = False) -> None:
        """Fit one structure; with ``tolerant`` one that cannot be is noted and left out."""
        some = self._library.subset(names)
        key = frozenset(names)
        try:
            limits = self._limits.restrict(some.names) if self._limits else None
            model = replace(ForwardModel.of(self._measured, some, limits), watch=self._watch)
            self.fits[key] = self._best_of_two(model)
        except (RefineError, InfeasibleError) as error:
            if not tolerant:
                raise
            self.refused.append((tuple(names), str(error)))

    def _best_of_two(self, model: ForwardModel) -> ForwardFit:
        """The fit from smoothed data; again from a smaller structure's where that fits better: a local minimum."""
        weak = self._found
        given = [dict(zip(weak.names, weak.theta, strict=True))] if weak and set(model.names) <= set(weak.names) else []
        fit = fit_forward(model, [np.array([values[name] for name in model.names]) for values in given])
        smaller = [one for names, one in self.fits.items() if names < set(model.names)]
        better = max(smaller, key=lambda one: one.log_likelihood, default=fit)
        if better.log_likelihood <= fit.log_likelihood + _LOWER:
            return fit
        values = dict(zip(better.names, better.theta, strict=True))
        other = fit_forward(model, [np.array([values.get(name, 0.0) for name in model.names])], better)
        return max(fit, other, key=lambda one: one.log_likelihood)

    def _ranked(self) -> list[ForwardFit]:
        return sorted(self.fits.values(), key=lambda fit: -fit.log_evidence)

    def waiting(self, first: Sequence[tuple[str, ...]], *, further: bool) -> list[tuple[str, ...]]:
        """Structures not yet begun: those given, then the neighbours of probable ones."""
        every = [*first, *(self._neighbours() if further else ())]
        return [names for names in every if frozenset(names) not in self.tried]

    def next(self, first: Sequence[tuple[str, ...]], *, further: bool) -> tuple[str, ...] | None:
        """The structure to fit next; None where all were."""
        left = self.waiting(first, further=further)
        return left[0] if left else None

    def _neighbours(self) -> list[tuple[str, ...]]:
        """Probable structures without one operator, or with one more; those that are kept stay."""
        ranked = self._ranked()
        likely = [fit for fit in ranked if fit.log_evidence > ranked[0].log_evidence - math.log(_WINDOW)]
        free = [name for name in self._library.names if name not in self._library.keep]
        changed = [set(fit.names) ^ {name} for fit in likely for name in free]
        return [tuple(name for name in self._library.names if name in one) for one in changed if one]


def _agreement(found: Discovery, fits: dict[frozenset[str], ForwardFit], data: Measurements) -> SpacesCompared | None:
    """Both estimates of the operators that were selected.

    Where forward solves are efficient, Cov(θ_w − θ_f) = Cov θ_w − Cov θ_f (Hausman). In every direction it is taken for
    no less than Cov θ_f: both have errors of approximation.
    """
    fit = fits.get(frozenset(found.names))
    if fit is None:
        return None
    order = [found.names.index(name) for name in fit.names]
    weak = found.posterior.covariance[np.ix_(order, order)]
    own, difference = fit.posterior.covariance, found.theta[order] - fit.posterior.mean
    try:
        L = np.linalg.cholesky(own)
    except np.linalg.LinAlgError:
        return None
    ratio, Q = np.linalg.eigh(
        scipy.linalg.solve_triangular(L, scipy.linalg.solve_triangular(L, weak, lower=True).T, lower=True)
    )
    variance = np.maximum(ratio - 1, 1.0)
    z = Q.T @ scipy.linalg.solve_triangular(L, difference, lower=True)
    sd = np.sqrt(np.diag((L @ Q * variance) @ (L @ Q).T))
    p_value = float(chdtrc(len(z), float(np.sum(z**2 / variance))))
    return SpacesCompared(fit.names, difference, sd, p_value, _cause(fit, data))


def _cause(fit: ForwardFit, data: Measurements) -> str:
    """The likely cause of a disagreement."""
    if data.data.n_times < _FEW_FRAMES:
        return (
            f"{data.data.n_times} frames are too few for the weak form, which differences them in time: trust the "
            "forward solves."
        )
    if fit.p_value < _MISFIT:
        return "Neither fits: an operator is missing, or the noise is not what was stated."
    return "The nodes may not resolve the fields: compare with every second node, or with finer data."
