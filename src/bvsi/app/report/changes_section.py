"""What changed since the last run in the same folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bvsi.app.report.markup import Markup, element
from bvsi.app.report.svg import short_number
from bvsi.discovery import Discovery

# Shift in joint standard deviations below which a coefficient counts as the same: rounding on another machine.
_SAME = 0.005


def changes(found: Discovery, before: Mapping[str, Any]) -> list[str]:
    """Sentences on what differs from an earlier summary, as ``summary.json`` has it; empty where nothing does."""
    lines = []
    verdict, equation = before.get("verdict"), before.get("equation")
    if isinstance(verdict, str) and verdict != found.verdict:
        lines.append(f"The verdict was {verdict!r}, and is {found.verdict!r} now.")
    earlier = _coefficients(before)
    added = [name for name in found.names if name not in earlier]
    removed = [name for name in earlier if name not in found.names]
    lines += [f"New in the equation: {', '.join(added)}."] if earlier and added else []
    lines += [f"No longer in the equation: {', '.join(removed)}."] if removed else []
    lines += [f"{name}: {text}" for name, text in _shifts(found, earlier).items()]
    if lines and isinstance(equation, list):
        lines.append(f"Before: {'; '.join(map(str, equation))}")
    return lines


def _coefficients(before: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation by operator; other entries are skipped, since files may be changed."""
    rows = before.get("coefficients")
    found = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            name, mean, sd = (row.get(key) for key in ("operator", "mean", "sd"))
            if isinstance(name, str) and isinstance(mean, int | float) and isinstance(sd, int | float):
                found[name] = (float(mean), float(sd))
    return found


def _shifts(found: Discovery, earlier: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Coefficients that moved, with the shift in joint standard deviations."""
    told = {}
    for name, mean, sd in zip(found.names, found.theta.tolist(), found.sd.tolist(), strict=True):
        if name not in earlier:
            continue
        before, spread = earlier[name]
        joint = math.hypot(sd, spread)
        shift = (mean - before) / joint if joint > 0 else 0.0
        if abs(shift) > _SAME or (joint == 0 and mean != before):
            told[name] = f"{short_number(before)} → {short_number(mean)}, {shift:+.2g} joint sd".replace("-", "−")
    return told


def changes_section(found: Discovery, before: Mapping[str, Any]) -> Markup:
    """A list, or that nothing changed."""
    lines = changes(found, before) or ["Nothing: equation, coefficients and verdict are the same."]
    return element(
        "section",
        element("h2", "Since the last run"),
        element("ul", *(element("li", line) for line in lines)),
        id="changes",
    )
