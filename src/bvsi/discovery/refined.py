"""What fits by forward solves found: structures with their probabilities, averages, agreement with the weak form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bvsi.check.verdict import ENOUGH_FRAMES
from bvsi.common.arrays import Array
from bvsi.common.naming import without_equation
from bvsi.discovery.result import INFLUENCE, equation_text, with_uncertainty
from bvsi.infer.fit import Reason
from bvsi.predict.mixture import Averaged, Mixture
from bvsi.refine import ForwardFit

# Probability of a difference between both spaces, or of a misfit, by chance, below which there is a doubt.
_DOUBTED = 0.01
MISFIT = 1e-3  # see above: noise levels are known to a few percent only
# Nodes where the equation is solved, by node of the data, beyond which the state between them is a matter of its prior:
# of one draw of 40 sensors on 307 nodes coefficients were off by up to 3.2 standard deviations.
_SPARSE = 3.0
# Standard deviations by which the estimated error of the solution may move a coefficient: of the density of Fokker and
# Planck in 5 frames the estimate was 0.37 of the error.
_UNSOLVED = 0.2
# Standard deviation over that of the prior beyond which a coefficient is a matter of its prior, and below which it is
# one of the data; the same of the variance of a mode, and of the standard deviation of a state by its size.
_PRIOR, _DATA = 0.5, 0.1
# Standard deviations of the correlation of neighbouring residuals beyond which noise is not independent: once in 10⁶.
_ALIKE = 5.0
# Variance of the finest modes of a state between sensors over that of the widest, by its most likely law, beyond which
# the state is not resolved. At wrong coefficients it was 0.9, at the right ones 7e-5 and less (2 draws of 40 sensors).
_ROUGHEST = 0.1
_TIED = 1e-9  # 1 − |ρ| of coefficients that equalities tie together
_SHOWN = 0.01  # probability of operators that the text shows, and ten times that of structures


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
        z = np.divide(np.abs(self.difference), self.sd, out=np.zeros_like(self.sd), where=self.sd > 0)
        worst = int(np.argmax(z))
        told = f"{self.names[worst]} by {z[worst]:.1f} standard deviations"
        if not self.doubted:
            return f"Weak form and forward solves agree (p = {self.p_value:.2g}); they differ most in {told}."
        return f"Weak form and forward solves disagree (p = {self.p_value:.2g}), most in {told}. {self.cause}"


@dataclass(frozen=True, eq=False)
class PredictedExperiment:
    """The measurements of one experiment beside what all structures together predict of them.

    Attributes
    ----------
    times
        (T,), forecasts included.
    points
        Places (n, dim).
    values
        By field, (T, n); NaN where nothing was measured.
    mean, statistics, structure
        Predictions by field, (T, n), and their standard deviations within structures, and between them.
    noise
        Standard deviations of one measurement there: of replicates, their scatter.
    alike
        Correlation of neighbouring residuals by ``place`` and ``time``, in standard deviations of independent ones;
        empty where noise was not taken for independent.
    """

    times: Array
    points: Array
    values: Mapping[str, Array]
    mean: Mapping[str, Array]
    statistics: Mapping[str, Array]
    structure: Mapping[str, Array]
    noise: Mapping[str, Array]
    alike: Mapping[str, float] = field(default_factory=dict)

    def residual(self, name: str) -> Array:
        """(T, n), in units of the noise."""
        return np.asarray((self.values[name] - self.mean[name]) / self.noise[name])

    def sd(self, name: str) -> Array:
        """Of a new measurement, (T, n)."""
        parts = (self.statistics[name], self.structure[name], self.noise[name])
        return np.asarray(np.sqrt(sum(own**2 for own in parts)))


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
        Operators of neighbours of probable structures that were not fitted, for time.
    agreement
        With the weak form; None where that has no estimate of the same operators.
    experiments
        Measurements beside predictions.
    parameters
        Those of the candidates that are numbers inside of operators, not coefficients.
    """

    fields: tuple[str, ...]
    candidates: tuple[str, ...]
    models: tuple[ForwardFit, ...]
    refused: tuple[tuple[tuple[str, ...], str], ...]
    left_out: tuple[tuple[str, ...], ...]
    agreement: SpacesCompared | None
    seconds: float
    experiments: tuple[PredictedExperiment, ...] = ()
    parameters: tuple[str, ...] = ()

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
        return any(len(values) < ENOUGH_FRAMES for values in self.best.predictions)

    @property
    def few_sensors(self) -> bool:
        """Whether the state between the places of the data is a matter of its prior."""
        pairs = zip(self.best.initial, self.best.predictions, strict=True)
        return any(len(own) > _SPARSE * values.shape[1] for own, values in pairs)

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

    def mixture(self, wider: float = 1.0) -> Mixture:
        """Structures, with their posteriors and probabilities."""
        names, laws = (tuple(getattr(m, what) for m in self.models) for what in ("names", "posterior"))
        return Mixture(self.candidates, names, self.probabilities(wider), laws)

    def inclusion(self) -> dict[str, float]:
        """P(in) by operator: the probability of the structures that have it.

        Among those that were fitted, and those without one of their operators that were not, for time, with the
        evidence that follows from the larger fit (:meth:`~bvsi.refine.ForwardFit.evidence_without`).
        """
        guessed = evidence_of(self.left_out, self.models)
        names = (*(fit.names for fit in self.models), *guessed)
        logs = np.array([*(fit.log_evidence for fit in self.models), *guessed.values()])
        p = np.exp(logs - logs.max())
        return Mixture(self.candidates, names, p / p.sum(), (None,) * len(names)).inclusion()

    def average(self, quantity: str | Callable[[dict[str, float]], float], **options: Any) -> Averaged:
        """A coefficient by name, or a function of all coefficients: :meth:`bvsi.predict.mixture.Mixture.average`."""
        return self.mixture().average(quantity, **options)

    def predicted(self, number: int = 0) -> tuple[Array, Array, Array]:
        """Values (T, s) of one experiment over all structures, and their sd of statistics and of structure.

        Fields one after the other; the last frames are forecasts where times ``later`` were given.
        """
        one = self.experiments[number]
        mean, statistics, structure = (
            np.concatenate([by_field[f] for f in self.fields], axis=1)
            for by_field in (one.mean, one.statistics, one.structure)
        )
        return mean, statistics, structure

    @property
    def equation(self) -> str:
        """The most probable structure."""
        fit = self.best
        rows = list(zip(fit.names, fit.posterior.mean, np.sqrt(fit.posterior.variance), strict=True))
        names, *numbers = zip(*(row for row in rows if row[0] not in self.parameters), strict=True)
        theta, sd = (np.array(own) for own in numbers)
        inside = [
            f"{without_equation(name)} = {with_uncertainty(value, sd)}"
            for name, value, sd in rows
            if name in self.parameters
        ]
        return "\n".join([equation_text(names, theta, sd, self.fields), *inside])

    @property
    def identified(self) -> str:
        """Which coefficients, and which part of the initial states, the data tell, and which are their priors."""
        ratio = dict(zip(self.best.names, self.best.narrowed, strict=True))
        weak = {name: r for name, r in ratio.items() if r > _DATA}
        said = [
            f"{name} is {'no more' if r > _PRIOR else 'little more'} than its prior ({r:.2g})"
            for name, r in weak.items()
        ]
        told = "; ".join(said) or f"the data determine all ({max(ratio.values()):.1g} at most)"
        words = [f"Coefficients, standard deviation over that of the prior: {told}."]
        states = zip(self.best.initial, self.best.initial_sd, self.best.prior_part, strict=True)
        for number, (state, sd, part) in enumerate(states):
            name = "Initial state" + (f" of experiment {number + 1}" if len(self.best.initial) > 1 else "")
            relative = sd / (np.sqrt(np.mean(state**2)) or 1.0)
            text = f"{name}: the data tell {np.count_nonzero(part < _PRIOR)} of {len(part)} modes"
            text += ", smoothness alone the others" if np.any(part >= _PRIOR) else ""
            text += f"; its standard deviation is {np.median(relative):.1%} of its size in the middle"
            wide = float(np.mean(relative > _DATA))
            words.append(text + (f", and more than {_DATA:.0%} at {wide:.0%} of the nodes." if wide else "."))
        return " ".join(words)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the answer may be wrong."""
        fit, found = self.best, []
        if not fit.status.converged:
            found.append(f"Forward solves: {fit.status.message}")
        if fit.p_value < MISFIT:
            found.append(
                f"The equation does not fit the measurements (χ² per degree of freedom {fit.chi2:.2f}, p = "
                f"{fit.p_value:.1g}): an operator is missing, or the noise is larger than stated, which would make "
                f"error bars {math.sqrt(fit.chi2):.2g} times as wide"
                + (", or experiments differ: fit them one by one." if len(fit.initial) > 1 else ".")
            )
        if fit.solve_error > _UNSOLVED:
            found.append(
                f"The nodes are too far apart for the solution: its error moves a coefficient by {fit.solve_error:.1f} "
                "standard deviations; leave out frames with the narrowest features, or measure at more nodes."
            )
        alike = {name for one in self.experiments for name, score in one.alike.items() if score > _ALIKE}
        if alike:
            found.append(
                f"Residuals of neighbours in {' and '.join(sorted(alike))} are alike, so that error bars are too "
                "small: the noise is correlated, which noise=Blurred(...) or Covariance(...) states, or an operator is "
                "missing."
            )
        if fit.roughness > _ROUGHEST:
            found.append(
                "The initial field between the sensors is as rough as its modes can be (variance of the finest over "
                f"that of the widest {fit.roughness:.2g}): probably a wrong minimum, in which waves that no sensor "
                "sees make up for wrong coefficients. Bound the coefficients (constraints=), or use more sensors."
            )
        found += [told for told in (self._noted, self._unequal) if told]
        if self.few_sensors:
            found.append(
                "The field between the sensors is known by its smoothness alone: error bars of coefficients that "
                "depend on it, such as those of growth, may be too small."
            )
        prior = [name for name, r in zip(fit.names, fit.narrowed, strict=True) if r > _PRIOR]
        if prior:
            found.append(
                f"The measurements hardly say anything of {', '.join(prior)}: the interval is that of the prior."
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
    def _noted(self) -> str:
        """What tells that another minimum fits as well, or of a prior with a corner there; empty where none does."""
        status = self.best.status
        return status.message if status.converged and status.reasons & {Reason.AMBIGUOUS, Reason.NOT_PEAKED} else ""

    @property
    def _unequal(self) -> str:
        """What tells that the evidences of some structures cannot be compared; empty where all can."""
        counts = sorted({sum(map(len, fit.prior_part)) for fit in self.models})
        if len(counts) == 1:
            return ""
        return (
            "Probabilities of linear and nonlinear structures cannot be compared: their initial states have "
            f"{counts[-1]} and {counts[0]} modes; refine the linear ones and the others in separate calls."
        )

    @property
    def text(self) -> str:
        """Equation, averaged coefficients and structures."""
        chances, wide = self.probabilities(), [self.probabilities(factor) for factor in INFLUENCE]
        mixture = self.mixture()
        inclusion = self.inclusion()
        lines = [f"by forward solves: {self.equation}"]
        lines += [f"χ² per degree of freedom {self.best.chi2:.3g}, {self.best.count} values", ""]
        for name in self.candidates:
            if inclusion[name] > _SHOWN:
                mean, statistics, structure = mixture.moments(name)
                lines.append(
                    f"{name} = {mean:.4g} ± {statistics:.2g} (statistics) ± {structure:.2g} (structure), "
                    f"P(in) = {inclusion[name]:.3f}"
                )
        lines += ["", f"{'P':>6}  {'prior × 1/4':>11}  {'× 4':>6}  {'χ²/ν':>6}  structure"]
        for fit, p, narrow, broad in zip(self.models, chances, *wide, strict=True):
            if max(p, narrow, broad) > 0.1 * _SHOWN:
                lines.append(f"{p:>6.3f}  {narrow:>11.3f}  {broad:>6.3f}  {fit.chi2:>6.2f}  {' + '.join(fit.names)}")
        lines += [f"{len(self.left_out)} neighbouring structures were not fitted, for time."] if self.left_out else []
        lines += [f"not fitted: {' + '.join(names)}: {reason}" for names, reason in self.refused]
        lines += [self.best.status.message, self.identified]
        lines += [] if self.agreement is None else [str(self.agreement)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text


def evidence_of(structures: Iterable[Sequence[str]], fits: Sequence[ForwardFit]) -> dict[tuple[str, ...], float]:
    """log p(û | m) of structures that were not fitted: the largest that follows from fits of more operators.

    These are fits of one operator more, or of several that equalities tie to each other.
    """
    found = dict[tuple[str, ...], float]()
    for names in map(tuple, structures):
        larger = [
            (fit, [name for name in fit.names if name not in names]) for fit in fits if set(names) < set(fit.names)
        ]
        logs = [fit.evidence_without(more[0]) for fit, more in larger if _together(fit, more)]
        if logs and math.isfinite(max(logs)):
            found[names] = max(logs)
    return found


def _together(fit: ForwardFit, names: Sequence[str]) -> bool:
    """Whether one coefficient determines the others."""
    at = [fit.names.index(name) for name in names]
    V = fit.posterior.covariance[np.ix_(at, at)] if len(at) > 1 else np.ones((1, 1))
    sd = np.sqrt(np.diag(V))
    return bool((np.abs(V) >= (1 - _TIED) * np.outer(sd, sd)).all())
