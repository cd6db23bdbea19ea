"""A discovery in short: for people's spreadsheets and other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from bvsi.discovery import Discovery

_COLUMNS = ["operator", "mean", "sd", "low", "high", "probability"]


def summary(found: Discovery, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Equation, verdict and coefficients as JSON values."""
    return {
        "equation": found.equation.splitlines(),
        "verdict": found.verdict,
        "advice": found.advice,
        "chi2": _number(found.chi2),
        "coefficients": [
            {key: value if isinstance(value, str) else _number(value) for key, value in row.items()}
            for row in _rows(found)
        ],
        "candidates": list(found.candidates),
        "forecast": None if found.forecast is None else found.forecast.text,
        "refined": None if found.refined is None else found.refined.text,
        "doubts": list(found.doubts),
        "notes": list(notes),
    }


def coefficients_csv(found: Discovery) -> str:
    """The table of coefficients, numbers in full."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS + ["unit"] * bool(found.units), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_rows(found))
    return stream.getvalue()


def _rows(found: Discovery) -> list[dict[str, Any]]:
    inclusion = found.inclusion()
    return [
        {"operator": name, "mean": float(mean), "sd": float(sd), "low": float(low), "high": float(high),
         "probability": float(inclusion[name]), **({"unit": found.units[name]} if found.units else {})}
        for name, mean, sd, (low, high) in zip(
            found.names, found.theta, found.sd, found.posterior.interval(), strict=True
        )
    ]  # fmt: skip


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return float(value) if np.isfinite(value) else None
