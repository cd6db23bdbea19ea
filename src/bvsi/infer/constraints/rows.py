"""Rows l ≤ A θ ≤ u with their texts, and rows that say the same in parallel merged into the tightest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SAME = 1e-13
"""Relative difference of coefficients below which rows are parallel, and of bounds below which they are one."""


class Rows(NamedTuple):
    """A (m, d), lower (m,), upper (m,), m texts."""

    A: Array
    lower: Array
    upper: Array
    texts: tuple[str, ...]

    def take(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> Rows:
        """Some of the rows, by position or mask."""
        chosen = np.arange(len(self.A))[which]
        return Rows(self.A[which], self.lower[which], self.upper[which], tuple(self.texts[i] for i in chosen))


def stacked(parts: Sequence[Rows]) -> Rows:
    """All rows, one part after the other."""
    return Rows(
        np.concatenate([part.A for part in parts]),
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
        tuple(text for part in parts for text in part.texts),
    )


def simple(rows: Rows) -> Rows:
    """Rows with one operator divided by its coefficient, so that they are bounds on θ_i itself."""
    single = (rows.A != 0).sum(axis=1) == 1
    return scaled(rows, np.where(single, rows.A.sum(axis=1), 1.0))


def scaled(rows: Rows, divisor: Array) -> Rows:
    """Rows divided by numbers (m,) that are not zero; a negative one swaps the bounds."""
    lower, upper = rows.lower / divisor, rows.upper / divisor
    swap = divisor < 0
    return Rows(
        rows.A / divisor[:, None] + 0.0,
        np.where(swap, upper, lower) + 0.0,
        np.where(swap, lower, upper) + 0.0,
        rows.texts,
    )


def merged(rows: Rows) -> Rows:
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


def _tightest(rows: Rows) -> Rows:
    """One row for rows with the same coefficients."""
    below, above = int(rows.lower.argmax()), int(rows.upper.argmin())
    lower, upper = rows.lower[below], rows.upper[above]
    # whoever merges has checked that the rows can hold together: what is below this, or negative, is rounding
    if np.isfinite(lower) and np.isfinite(upper) and upper - lower <= _SAME * max(abs(lower), abs(upper)):
        lower = upper = 0.5 * (lower + upper)
    giving = [rows.texts[i] for i, bound in ((below, lower), (above, upper)) if np.isfinite(bound)]
    text = "; ".join(dict.fromkeys(giving))
    return Rows(rows.A[:1], np.array([lower]), np.array([upper]), (text,))
