"""Equations and numbers as people write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def with_uncertainty(value: float, sd: float) -> str:
    """0.0998(4): the value to the digit of its standard deviation, which stands in brackets."""
    if not math.isfinite(sd) or sd <= 0:
        return f"{value:.6g}"
    place = math.floor(math.log10(sd))
    digit = round(sd / 10.0**place)
    if digit == 10:
        place, digit = place + 1, 1
    if place > 0:
        return f"{round(value / 10.0**place) * 10**place:.0f}({digit * 10**place})"
    return f"{value:.{-place}f}({digit})"


def equation_text(names: Sequence[str], theta: Array, sd: Array, fields: Sequence[str], time_order: int = 1) -> str:
    """One line per equation: ``u_t = 0.0998(4) laplacian(u) − 1.002(6) u*dx(u)``; ``u_tt`` of second order in time."""
    lines = []
    for field in fields:
        prefix = "" if len(fields) == 1 else f"{field}: "
        terms = []
        for name, value, s in zip(names, theta, sd, strict=True):
            if name.startswith(prefix):
                sign = "−" if value < 0 else "+"
                terms.append(f"{sign} {with_uncertainty(abs(value), s)} {name.removeprefix(prefix)}")
        right = " ".join(terms).removeprefix("+ ") or "0"
        lines.append(f"{field}_{'t' * time_order} = {right}")
    return "\n".join(lines)
