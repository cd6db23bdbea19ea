"""Linear constraints on coefficients, by operator name, and bound to a list of operators.

They become rows l ≤ A θ ≤ u with their texts; rows that say the same in parallel are merged into the tightest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array, Mask
from bvsi.common.naming import position
from bvsi.errors import BvsiError, InfeasibleError
from bvsi.infer.constraints.feasibility import TOLERANCE, Affine, check_feasible, solve_equalities
from bvsi.infer.constraints.text import comparisons
from bvsi.infer.constraints.text import rows as rows_of

# Coefficients below this share of the terms that they were made from are rounding.
_CONSTANT = 1e-11
# Relative difference of coefficients below which rows are parallel, and of bounds below which they are one.
_SAME = 1e-13


Bound = tuple[float | None, float | None]


@dataclass(frozen=True, init=False)
class Constraints:
    """Linear constraints by operator name, such as ``Constraints("laplacian(p) > 0", "0 <= u <= 5", "a == b")``.

    Parameters
    ----------
    texts
        See :mod:`bvsi.infer.constraints.text`; < means the same as <=.
    bounds
        Name → (lower, upper), None for no bound.
    """

    texts: tuple[str, ...]
    bounds: Mapping[str, Bound]

    def __init__(self, *texts: str, bounds: Mapping[str, Bound] | None = None) -> None:
        for text in texts:
            comparisons(text)  # malformed texts are refused where they are written
        object.__setattr__(self, "texts", texts)
        object.__setattr__(self, "bounds", {name: _bound(name, pair) for name, pair in (bounds or {}).items()})

    def bind(self, names: tuple[str, ...]) -> LinearConstraints:
        """Rows for a list of operators; :class:`InfeasibleError` where they cannot hold together."""
        found = [(text, row) for text in self.texts for row in rows_of(text, names)]
        eye = np.eye(len(names))
        written = ConstraintRows(
            np.array([row[0] for _, row in found]).reshape(-1, len(names)),
            np.array([row[1] for _, row in found]),
            np.array([row[2] for _, row in found]),
            tuple(text for text, _ in found),
        )
        bounded = ConstraintRows(
            eye[[position(name, names) for name in self.bounds]],
            np.array([-math.inf if low is None else low for low, _ in self.bounds.values()]),
            np.array([math.inf if high is None else high for _, high in self.bounds.values()]),
            tuple(bound_text(name, *pair) for name, pair in self.bounds.items()),
        )
        return _consistent(names, stacked([written, bounded]))


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """lower ≤ A θ ≤ upper.

    A row with one operator is divided by its coefficient: it is a bound on θ_i itself.

    Attributes
    ----------
    names
        d operators.
    A
        (m, d).
    lower, upper
        (m,), ±inf where there is no bound.
    texts
        m, for messages.
    """

    names: tuple[str, ...]
    A: Array
    lower: Array
    upper: Array
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        m, d = len(self.texts), len(self.names)
        if self.A.shape != (m, d) or self.lower.shape != (m,) or self.upper.shape != (m,):
            raise BvsiError(
                f"constraints: {m} texts and {d} names need A ({m}, {d}) and bounds ({m},); "
                f"got {self.A.shape}, {self.lower.shape}, {self.upper.shape}."
            )
        if not np.isfinite(self.A).all() or (m and not self.A.any(axis=1).all()):
            raise BvsiError("constraints: every row of A needs finite coefficients, not all zero.")
        if not ((self.lower <= self.upper) & (self.lower < math.inf) & (self.upper > -math.inf)).all():
            raise BvsiError("constraints: lower ≤ upper is needed in every row, and no NaN.")
        for label, value in simple(self.rows)._asdict().items():
            object.__setattr__(self, label, value)

    def __len__(self) -> int:
        return len(self.texts)

    def __bool__(self) -> bool:
        return len(self) > 0

    @cached_property
    def equality(self) -> Mask:
        """Rows (m,) with lower = upper."""
        return np.asarray(self.lower == self.upper)

    @cached_property
    def single(self) -> Mask:
        """Rows (m,) with one operator: bounds."""
        return np.asarray((self.A != 0).sum(axis=1) == 1)

    @property
    def rows(self) -> ConstraintRows:
        """The rows without the names."""
        return ConstraintRows(self.A, self.lower, self.upper, self.texts)

    def restrict(self, names: Sequence[str]) -> LinearConstraints:
        """Constraints of a model with some of the operators, in any order; the other coefficients are zero."""
        chosen = [position(name, self.names) for name in names]
        rows = self.rows._replace(A=self.A[:, chosen])
        rows = _without_constants(rows, np.zeros(len(self)), "in a model without its operators; keep them")
        return _consistent(tuple(self.names[i] for i in chosen), rows)

    def with_bounds(self, lower: Array, upper: Array, texts: Sequence[str]) -> LinearConstraints:
        """Further bounds lower ≤ θ ≤ upper, each (d,), ±inf where there is none, with d texts."""
        every = ConstraintRows(np.eye(len(self.names)), lower, upper, tuple(texts))
        return self.joined(every.take(np.isfinite(lower) | np.isfinite(upper)))

    def joined(self, further: ConstraintRows) -> LinearConstraints:
        """These and further rows; :class:`InfeasibleError` where they cannot hold together."""
        return _consistent(self.names, stacked([self.rows, further]))

    def satisfied(self, theta: ArrayLike, tol: float = 1e-9) -> Mask:
        """Whether no row of θ (…, d) is violated by more than tol · Σ_j |a_ij θ_j|, which has the units of the row."""
        point = np.asarray(theta, dtype=np.float64)
        return np.asarray((self.excess(point) <= tol * (np.abs(point) @ np.abs(self.A).T)).all(axis=-1))

    def slack(self, theta: Array) -> Array:
        """min(Aθ − l, u − Aθ), (…, m): negative where a row is violated."""
        value = theta @ self.A.T
        return np.asarray(np.minimum(value - self.lower, self.upper - value))

    def excess(self, theta: Array) -> Array:
        """max(l − Aθ, Aθ − u, 0), (…, m)."""
        return np.maximum(-self.slack(theta), 0.0)

    def inside(self, theta: Array, margin: float) -> Mask:
        """Which of θ (…, d) satisfy the inequalities: bounds exactly, sums with the slack margin · Σ_j |a_ij θ_j|."""
        room = np.where(self.single, 0.0, margin) * (np.abs(theta) @ np.abs(self.A).T)
        return np.asarray(((self.slack(theta) >= room) | self.equality).all(axis=-1))

    def affine(self) -> Affine:
        """The solutions of the equality rows, θ = offset + T η."""
        return self._affine

    @cached_property
    def _affine(self) -> Affine:
        return self._solved(self.equality)

    @cached_property
    def reduced(self) -> tuple[Affine, LinearConstraints]:
        """The solutions of the equality rows, and the inequality rows for their parameters."""
        return self._affine, self.inequalities_in(self._affine)

    def clipped(self, theta: Array) -> Array:
        """θ (…, d) with bounds on single coefficients kept to the last bit, where only rounding violates them."""
        rows = self.rows.take(self.single)
        column = rows.A.argmax(axis=1)
        lower, upper = np.full(len(self.names), -math.inf), np.full(len(self.names), math.inf)
        np.maximum.at(lower, column, rows.lower)
        np.minimum.at(upper, column, rows.upper)
        return np.clip(theta, lower, upper)

    def ties(self) -> Affine | None:
        """The solutions θ = T η of the equality rows with right-hand side zero; None where there are no such rows."""
        homogeneous = self.equality & (self.lower == 0)
        return self._solved(homogeneous) if homogeneous.any() else None

    def _solved(self, which: Mask) -> Affine:
        rows = self.rows.take(which)
        return solve_equalities(rows.A, rows.lower, self.names, rows.texts)

    def rows_in(self, affine: Affine) -> ConstraintRows:
        """All m rows for η of an affine set: lower − A offset ≤ (A T) η ≤ upper − A offset."""
        B = self.A @ affine.T
        B[np.abs(B) <= _CONSTANT * (np.abs(self.A) @ np.abs(affine.T))] = 0.0
        shift = self.A @ affine.offset
        return ConstraintRows(B, self.lower - shift, self.upper - shift, self.texts)

    def inequalities_in(self, affine: Affine) -> LinearConstraints:
        """The inequality rows for η of ``affine()``, parallel ones merged.

        ConstraintRows that become constant are checked and left out.
        """
        rows, size = self.rows_in(affine), np.abs(self.A) @ np.abs(affine.offset)
        when = "together with the equalities; relax one of them"
        moved = _without_constants(rows.take(~self.equality), size[~self.equality], when)
        return LinearConstraints(affine.free_names, *merged(simple(moved)))


#: What stands for constraints in arguments.
AnyConstraints = Constraints | LinearConstraints | Sequence[str] | str | None


def as_linear(constraints: AnyConstraints, names: tuple[str, ...]) -> LinearConstraints:
    """Constraints in any form, for a list of operators; None is no constraint."""
    if constraints is None:
        return LinearConstraints(names, np.zeros((0, len(names))), np.zeros(0), np.zeros(0), ())
    if isinstance(constraints, LinearConstraints):
        return constraints if constraints.names == names else constraints.restrict(names)
    if isinstance(constraints, str):
        constraints = (constraints,)
    if not isinstance(constraints, Constraints | Sequence):
        raise BvsiError(f"constraints: texts or Constraints(...) are needed, not {type(constraints).__name__}.")
    wanted = constraints if isinstance(constraints, Constraints) else Constraints(*constraints)
    return wanted.bind(names)


def bound_text(name: str, lower: float | None, upper: float | None) -> str:
    """A bound as a constraint text."""
    front = "" if lower is None else f"{lower:.12g} <= "
    back = "" if upper is None else f" <= {upper:.12g}"
    return f"{front}{name}{back}"


def _bound(name: object, pair: object) -> Bound:
    """A pair (lower, upper) of numbers or None; infinities mean None."""
    if not isinstance(name, str):
        raise BvsiError(f"bounds: the name of an operator is needed, not {name!r}.")
    try:
        low, high = (None if value is None else float(value) for value in pair)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise BvsiError(
            f"bounds of {name!r}: a pair (lower, upper) of numbers or None is needed, not {pair!r}."
        ) from None
    low, high = None if low == -math.inf else low, None if high == math.inf else high
    given = [value for value in (low, high) if value is not None]
    if not given or not all(math.isfinite(value) for value in given):
        raise BvsiError(f"bounds of {name!r}: at least one finite bound is needed, and no NaN; got {pair!r}.")
    return low, high


def _consistent(names: tuple[str, ...], rows: ConstraintRows) -> LinearConstraints:
    """Constraints from rows, refused where they cannot hold together; parallel ones are merged."""
    rows = simple(rows)
    check_feasible(*rows)
    return LinearConstraints(names, *merged(rows))


def _without_constants(rows: ConstraintRows, size: Array, when: str) -> ConstraintRows:
    """Rows that still have coefficients; the others have to hold for 0, to rounding of terms of the given size (m,)."""
    constant = np.asarray(~rows.A.any(axis=1))
    broken = np.flatnonzero(constant & ((rows.lower > TOLERANCE * size) | (rows.upper < -TOLERANCE * size)))
    if len(broken):
        text = rows.texts[broken[0]]
        raise InfeasibleError(f"constraints: {text!r} cannot hold {when}.", (text,))
    return rows.take(~constant)


class ConstraintRows(NamedTuple):
    """A (m, d), lower (m,), upper (m,), m texts."""

    A: Array
    lower: Array
    upper: Array
    texts: tuple[str, ...]

    def take(self, which: NDArray[np.intp] | Mask) -> ConstraintRows:
        """Some of the rows, by position or mask."""
        chosen = np.arange(len(self.A))[which]
        return ConstraintRows(self.A[which], self.lower[which], self.upper[which], tuple(self.texts[i] for i in chosen))


def stacked(parts: Sequence[ConstraintRows]) -> ConstraintRows:
    """All rows, one part after the other."""
    return ConstraintRows(
        np.concatenate([part.A for part in parts]),
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
        tuple(text for part in parts for text in part.texts),
    )


def simple(rows: ConstraintRows) -> ConstraintRows:
    """Rows with one operator divided by its coefficient, so that they are bounds on θ_i itself."""
    single = (rows.A != 0).sum(axis=1) == 1
    return scaled(rows, np.where(single, rows.A.sum(axis=1), 1.0))


def scaled(rows: ConstraintRows, divisor: Array) -> ConstraintRows:
    """Rows divided by numbers (m,) that are not zero; a negative one swaps the bounds."""
    lower, upper = rows.lower / divisor, rows.upper / divisor
    swap = divisor < 0
    return ConstraintRows(
        rows.A / divisor[:, None] + 0.0,
        np.where(swap, upper, lower) + 0.0,
        np.where(swap, lower, upper) + 0.0,
        rows.texts,
    )


def merged(rows: ConstraintRows) -> ConstraintRows:
    """Parallel rows merged: the largest lower and the smallest upper bound, with the texts that give them."""
    if not len(rows.A):
        return rows
    leading = rows.A[np.arange(len(rows.A)), (rows.A != 0).argmax(axis=1)]
    directions = rows.A / leading[:, None]
    groups: list[list[int]] = []
    for i, direction in enumerate(directions):
        near = np.abs(directions[[group[0] for group in groups]] - direction) <= _SAME * np.abs(direction)
        alike = np.flatnonzero(near.all(axis=1)) if groups else np.empty(0, dtype=int)
        if len(alike):
            groups[alike[0]].append(i)
        else:
            groups.append([i])
    parts = []
    for group in groups:
        first = leading[group[0]]
        parts.append(_tightest(scaled(rows.take(np.array(group)), leading[group] / first)))
    return stacked(parts)


def _tightest(rows: ConstraintRows) -> ConstraintRows:
    """One row for rows with the same coefficients."""
    below, above = int(rows.lower.argmax()), int(rows.upper.argmin())
    lower, upper = rows.lower[below], rows.upper[above]
    # whoever merges has checked that the rows can hold together: what is below this, or negative, is rounding
    if np.isfinite(lower) and np.isfinite(upper) and upper - lower <= _SAME * max(abs(lower), abs(upper)):
        lower = upper = 0.5 * (lower + upper)
    giving = [rows.texts[i] for i, bound in ((below, lower), (above, upper)) if np.isfinite(bound)]
    text = "; ".join(dict.fromkeys(giving))
    return ConstraintRows(rows.A[:1], np.array([lower]), np.array([upper]), (text,))
