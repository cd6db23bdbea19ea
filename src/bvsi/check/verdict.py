"""The verdict of a check, and what to do about it."""

from __future__ import annotations

import enum


class Verdict(enum.Enum):
    """What a check of a fit found."""

    CONSISTENT = "consistent"
    NOISE = "noise model wrong"
    TIME = "under-resolved in time"
    SPACE = "under-resolved in space"
    OPERATOR = "missing operator"

    def __str__(self) -> str:
        return self.value


ADVICE = {
    Verdict.CONSISTENT: "Nothing to do: the equation explains the data up to their noise.",
    Verdict.NOISE: (
        "Do not trust the error bars. Leave the noise out, so that it is measured, or state what fits the data: "
        "PerField() for another level, Diagonal() where it varies, Covariance() where it is correlated."
    ),
    Verdict.TIME: (
        "Do not trust the coefficients. Give more frames per unit of time; without them, use wider test functions in "
        "time, TemporalTests(gap=...) or time_gap in a study, or drop the times where the fields change fastest."
    ),
    Verdict.SPACE: (
        "Do not trust the coefficients. Give data on a finer grid; without them, use wider test functions, "
        "SplineTests(gap=...) or gap in a study, or a higher element, Galerkin(Q2), or leave out the places with the "
        "steepest fields."
    ),
    Verdict.OPERATOR: (
        "Do not trust the coefficients. Add operators to the library: the misfit is more than noise, and it does not "
        "come from the resolution of the data."
    ),
}
"""What to do, one or two sentences."""


_UNTRIED = {
    Verdict.CONSISTENT: "The equation explains the data up to their noise, but too few data to try with every second "
    "one leave the resolution in {where} unchecked: compare with finer data before you rely on the error bars.",
    Verdict.OPERATOR: "Do not trust the coefficients: the misfit is more than noise. Either the library lacks an "
    "operator, or the data are too coarse in {where}, which could not be tried; give finer data, or more operators.",
}


def advice_for(verdict: Verdict, untried: tuple[str, ...]) -> str:
    """What to do, where no other discretisation could be tried in some of time and space."""
    return _UNTRIED[verdict].format(where=" and ".join(untried)) if untried and verdict in _UNTRIED else ADVICE[verdict]
