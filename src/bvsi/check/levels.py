"""Thresholds of the check in one record."""

from __future__ import annotations

from dataclasses import dataclass

from bvsi.infer.fit import OPEN, SEEN


@dataclass(frozen=True)
class CheckLevels:
    """Thresholds of the check. Probabilities are p-values, frequencies are in cycles per step of the data.

    Values without a run named here were not measured one by one; ``docs/trust.md`` measures what they do together.

    Parameters
    ----------
    alarm
        p below which a test or a comparison with a better discretisation starts an alarm; there are about ten.
    alone
        The same for correlated residuals, which have to be an alarm without any other sign.
    why
        p below which a test gives the cause, once there is an alarm.
    noise
        p of tests of the noise by itself. These see what signal is left in the data too, and need strong evidence.
    surely
        p below which an estimate surely moves with fewer data or a lower element. Of 90 right answers on classic
        equations, coarse and fine, 2 had such a comparison, and a better discretisation spoke for both.
    perhaps
        p below which an estimate perhaps moves with a better discretisation.
    unresolved, suspect
        Highest frequencies beyond which data cannot be, or may not be, resolved; 0.5 is the limit.
    fast
        Highest frequency below which data are resolved, whatever else is wrong.
    far_below
        χ²/n below which the noise is overstated, whatever else there is.
    filter_error
        Relative error of noise levels that filters measure, at least.
    floor
        Part of the covariance of the fit that two estimates may differ by without either being efficient.
    noisy_move
        Standard deviations of a difference that noise may make, and that do not count as bias.
    first_steps
        ratio² − 1, Richardson's rule for half the resolution and second order, where data are not resolved.
    odds
        Odds of the selected model over the best one without one of its operators, below which it is not decided;
        with odds of one or less nothing is asked of other models.
    seen
        Part of the signal in the time terms that the weights of a model have to see, so that it explains anything.
    bias, unexplained
        Effect of a bias, and share of y, that are trouble in data without noise.
    """

    alarm: float = 1e-3
    alone: float = 1e-4
    why: float = 1e-2
    noise: float = 1e-5
    surely: float = 1e-6
    perhaps: float = 2e-2
    unresolved: float = 0.4
    suspect: float = 0.25
    fast: float = 0.15
    far_below: float = 0.5
    filter_error: float = 0.03
    floor: float = 0.15
    noisy_move: float = 2.5
    first_steps: float = 3.0
    odds: float = OPEN
    seen: float = SEEN
    bias: float = 0.01
    unexplained: float = 1e-3


LEVELS = CheckLevels()
