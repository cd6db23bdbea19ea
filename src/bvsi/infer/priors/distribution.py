"""What every univariate distribution offers, and what most of them share."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError

Array = NDArray[np.float64]
Matched = Literal["moments", "quartiles"]

REAL = (int, float, np.integer, np.floating)

LIMIT = 1e150
"""Largest parameter, and its inverse the smallest scale: squares and precisions stay finite."""


@runtime_checkable
class Distribution(Protocol):
    """A distribution of one coefficient θ."""

    @property
    def lower(self) -> float:
        """Lower end of the support."""

    @property
    def upper(self) -> float:
        """Upper end of the support."""

    @property
    def kink(self) -> float | None:
        """Where the density has a corner −|θ − kink|/kink_scale in its logarithm, if it has."""

    @property
    def kink_scale(self) -> float:
        """Scale of the corner; infinite where there is none."""

    @property
    def mean(self) -> float:
        """Mean of the matching Gaussian."""

    @property
    def variance(self) -> float:
        """Variance of the matching Gaussian; infinite where the density is flat."""

    @property
    def matched_by(self) -> Matched:
        """Whether the matching Gaussian has the same mean and variance, or the same median and quartiles."""

    def logpdf(self, x: Array) -> Array:
        """log p(x), elementwise; −∞ outside the support."""

    def gradient(self, x: Array) -> Array:
        """d log p/dx, elementwise; 0 at a corner and outside the support."""

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws, (size,)."""


class Smooth:
    """No corner; mean and variance exist."""

    @property
    def kink(self) -> float | None:
        """There is none."""
        return None

    @property
    def kink_scale(self) -> float:
        """∞."""
        return np.inf

    @property
    def matched_by(self) -> Matched:
        """By mean and variance."""
        return "moments"

    def __str__(self: _Parametric) -> str:
        values = ", ".join(f"{getattr(self, entry.name):.4g}" for entry in fields(self))
        return f"{type(self).__name__}({values})"


class RealLine(Smooth):
    """As :class:`Smooth`, on the whole real line."""

    @property
    def lower(self) -> float:
        """−∞."""
        return -np.inf

    @property
    def upper(self) -> float:
        """∞."""
        return np.inf


class _Parametric(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def check_parameters(law: _Parametric, *positive: str) -> None:
    """Refuse parameters that are no finite numbers; those named in ``positive`` have to be positive."""
    for entry in fields(law):
        number = check_number(f"{type(law).__name__}: {entry.name}", getattr(law, entry.name), entry.name in positive)
        object.__setattr__(law, entry.name, number)  # small NumPy integers would overflow in squares


def check_number(label: str, value: object, positive: bool) -> float:
    """The value as a float."""
    lowest = 1 / LIMIT if positive else -LIMIT
    if isinstance(value, REAL) and not isinstance(value, bool) and lowest <= value <= LIMIT:
        return float(value)
    wanted = f"a positive number from {1 / LIMIT:.0e} to {LIMIT:.0e}" if positive else "a finite number"
    raise BvsiError(f"{label} has to be {wanted}, not {value!r}.")
