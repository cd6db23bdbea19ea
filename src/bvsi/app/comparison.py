"""Posteriors of several methods side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bvsi.common.arrays import Array, Mask
from bvsi.common.naming import matches
from bvsi.errors import BvsiError
from bvsi.infer.posteriors.closed_form import Posterior, check_level

if TYPE_CHECKING:
    import xarray as xr


class NamedEstimate(Protocol):
    """A fit, a discovery: names, coefficients (d,), and a posterior where the method has one."""

    @property
    def names(self) -> tuple[str, ...]:
        """Operators, d of them."""

    @property
    def theta(self) -> Array:
        """Coefficients (d,)."""

    @property
    def posterior(self) -> Posterior | None:
        """Their posterior."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """m methods over the union of their d operators.

    Attributes
    ----------
    methods
        m labels.
    names
        d operators.
    mean, sd, lower, upper
        (m, d), NaN where a method lacks the operator; a method without posterior has means only.
    level
        Level of the intervals.
    reference
        The method that the others are measured against.
    truth
        (d,), zero for operators that it does not name; None where it is not known.
    """

    methods: tuple[str, ...]
    names: tuple[str, ...]
    mean: Array
    sd: Array
    lower: Array
    upper: Array
    level: float
    reference: str
    truth: Array | None = None

    @property
    def shift(self) -> Array:
        """(mean − mean of the reference) / √(sd² + sd² of the reference), (m, d).

        The joint standard deviation of results from different data. Results from the same data share their noise, and
        are nearer to each other than that. A method without a posterior counts as exact.
        """
        r = self.methods.index(self.reference)
        return _ratio(self.mean - self.mean[r], np.hypot(np.nan_to_num(self.sd), self.sd[r]))

    @property
    def variance_ratio(self) -> Array:
        """Variance / variance of the reference, (m, d)."""
        return _ratio(self.sd, self.sd[self.methods.index(self.reference)]) ** 2

    @property
    def z(self) -> Array | None:
        """(mean − truth) / sd, (m, d); None where the truth is not known."""
        return None if self.truth is None else _ratio(self.mean - self.truth, self.sd)

    @property
    def covers(self) -> Mask | None:
        """Intervals (m, d) that hold the truth, false where there is none; None where the truth is not known."""
        return None if self.truth is None else (self.lower <= self.truth) & (self.truth <= self.upper)

    @property
    def table(self) -> str:
        """One line per operator and method."""
        interval = f"{100 * self.level:g}% interval"
        head = ["operator", "method", "mean", "sd", interval, "shift/joint sd", "variance ratio"]
        lines = [head if self.truth is None else [*head, "truth", "z"]]
        for i, name in enumerate(self.names):
            lines += [self._line(i, m, name) for m in range(len(self.methods))]
        widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
        left = [c < 2 for c in range(len(widths))]
        aligned = [
            [cell.ljust(w) if first else cell.rjust(w) for cell, w, first in zip(line, widths, left, strict=True)]
            for line in lines
        ]
        return "\n".join("  ".join(line).rstrip() for line in aligned)

    def _line(self, i: int, m: int, name: str) -> list[str]:
        known = np.isfinite(self.lower[m, i])
        interval = f"[{self.lower[m, i]:.5g}, {self.upper[m, i]:.5g}]" if known else "–"
        numbers = [(self.mean, ".5g"), (self.sd, ".2g"), (self.shift, "+.2f"), (self.variance_ratio, ".3g")]
        mean, sd, shift, ratio = (_number(values[m, i], form) for values, form in numbers)
        line = [name if m == 0 else "", self.methods[m], mean, sd, interval, shift, ratio]
        if self.truth is None or self.z is None:
            return line
        return [*line, _number(float(self.truth[i]), ".5g") if m == 0 else "", _number(self.z[m, i], "+.2f")]

    def to_dataset(self) -> xr.Dataset:
        """All numbers by ``estimator`` and ``operator``; ``method`` would clash with an argument of xarray."""
        import xarray as xr

        plane = ("estimator", "operator")
        parts = ("mean", "sd", "lower", "upper", "shift", "variance_ratio")
        variables = {name: (plane, getattr(self, name)) for name in parts}
        if self.truth is not None:
            variables |= {"z": (plane, self.z), "covers": (plane, self.covers)}
        labels = {"estimator": list(self.methods), "operator": list(self.names)}
        dataset = xr.Dataset(variables, labels, {"level": self.level, "reference": self.reference})
        return dataset if self.truth is None else dataset.assign(truth=("operator", self.truth))

    def __str__(self) -> str:
        return f"compared with {self.reference}\n{self.table}"


def compare(
    posteriors: Mapping[str, Posterior | NamedEstimate],
    *,
    truth: Mapping[str, float] | None = None,
    reference: str | None = None,
    level: float = 0.95,
) -> Comparison:
    """Methods side by side, over all operators that any of them or the truth has.

    Parameters
    ----------
    posteriors
        Label → posterior, fit or discovery.
    reference
        Label of the one to measure against, by default the first.
    truth
        Coefficient by operator, all others are taken to be zero.
    """
    if not posteriors:
        raise BvsiError("posteriors: at least one is needed.")
    reference = next(iter(posteriors)) if reference is None else reference
    if reference not in posteriors:
        raise BvsiError(f"reference: {reference!r} is not among the methods {', '.join(map(repr, posteriors))}.")
    check_level(level)
    columns = [_columns(label, entry, level) for label, entry in posteriors.items()]
    names = tuple(dict.fromkeys(name for column in columns for name in column))
    names, true = _with_truth(names, truth)
    absent = np.full(4, np.nan)
    numbers = np.array([[column.get(name, absent) for name in names] for column in columns])
    mean, sd, lower, upper = np.moveaxis(numbers, 2, 0)
    return Comparison(tuple(posteriors), names, mean, sd, lower, upper, level, reference, true)


def _columns(label: str, entry: Posterior | NamedEstimate, level: float) -> dict[str, Array]:
    """name → mean, sd, lower, upper."""
    law: Any = getattr(entry, "posterior", entry)
    theta: Any = getattr(entry, "theta", None)
    try:
        if law is None:
            values = np.column_stack([theta, np.full((len(theta), 3), np.nan)])
        else:
            values = np.column_stack([law.mean, np.sqrt(law.variance), law.interval(level)])
    except (AttributeError, TypeError):
        raise BvsiError(
            f"posteriors: {label!r} is a {type(entry).__name__}; a posterior, a fit or a discovery is needed."
        ) from None
    return dict(zip(entry.names, values, strict=True))


def _with_truth(names: tuple[str, ...], truth: Mapping[str, float] | None) -> tuple[tuple[str, ...], Array | None]:
    """The names and the truth for them; true operators that no method has are added."""
    if truth is None:
        return names, None
    values = dict.fromkeys(names, 0.0)
    for name, value in truth.items():
        if not np.isfinite(value):
            raise BvsiError(f"truth: the coefficient of {name!r} has to be finite; got {value}.")
        found = matches(name, names)
        if len(found) > 1:
            raise BvsiError(f"truth: {name!r} stands in several equations; write {names[found[0]]!r}.")
        values[names[found[0]] if found else name] = float(value)
    return tuple(values), np.array(list(values.values()))


def _ratio(a: Array, b: Array) -> Array:
    """a/b, NaN where b is zero."""
    return np.asarray(np.divide(a, b, out=np.full(np.broadcast(a, b).shape, np.nan), where=b != 0))


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "–"
