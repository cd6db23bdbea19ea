"""The parts of our figures: scales, axes, marks. Colours come from the page, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.app.report.markup import Markup, element

Array = NDArray[np.float64]
Kind = Literal["linear", "symlog", "log"]

CHARACTER = 6.1
"""Width of a character at the size of the figures' labels, 11 units."""

_LINEAR_TO = 10.0


@dataclass(frozen=True)
class Scale:
    """From values to places: low → start, high → end.

    Parameters
    ----------
    kind
        ``symlog`` is linear up to 10 and logarithmic beyond.
    """

    low: float
    high: float
    start: float
    end: float
    kind: Kind = "linear"

    def __call__(self, values: ArrayLike) -> Array:
        """Places of values."""
        low, high = self._bent(self.low), self._bent(self.high)
        share = (self._bent(values) - low) / (high - low)
        return np.asarray(self.start + share * (self.end - self.start))

    def at(self, value: float) -> float:
        """Place of one value."""
        return float(self(value))

    def _bent(self, values: ArrayLike) -> Array:
        v = np.asarray(values, dtype=float)
        if self.kind == "log":
            return np.asarray(np.log(np.maximum(v, np.finfo(float).tiny)))
        return v if self.kind == "linear" else np.asarray(np.sign(v) * np.log1p(np.abs(v) / _LINEAR_TO))

    def ticks(self, count: int = 5) -> list[float]:
        """Round values within the range."""
        if self.kind == "linear":
            return round_values(self.low, self.high, count)
        lowest = 0 if self.kind == "symlog" else math.ceil(math.log10(self.low) - 1e-9)
        powers = range(lowest, math.floor(math.log10(max(self.high, 1e-300)) + 1e-9) + 1)
        values = [10.0**p for p in powers if self.kind == "log" or p >= 1]
        every = max(1, math.ceil(len(values) / count))
        chosen = values[::every]
        return [0.0, *chosen] if self.kind == "symlog" else chosen or [self.low, self.high]


def round_values(low: float, high: float, count: int) -> list[float]:
    """About ``count`` multiples of 1, 2 or 5 times a power of ten from low to high."""
    rough = (high - low) / max(count, 1)
    unit = 10.0 ** math.floor(math.log10(rough)) if rough > 0 and math.isfinite(rough) else 1.0
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough * (1 - 1e-9) or m == 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [n * step for n in range(first, min(last, first + 20) + 1)]


def padded(values: ArrayLike, share: float = 0.05) -> tuple[float, float]:
    """Smallest and largest finite value with some room; never equal."""
    v = np.asarray(values, dtype=float)
    v = v[np.isfinite(v)]
    if not v.size:
        return 0.0, 1.0
    low, high = float(v.min()), float(v.max())
    room = share * (high - low) if high > low else 0.5 * abs(high) or 0.5
    return low - room, high + room


def short_number(value: float) -> str:
    """A number for a tick: 0.25, 3e5, −2; a dash for what is none."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.3g}"
    mantissa, _, exponent = text.partition("e")
    return (f"{mantissa}e{int(exponent)}" if exponent else mantissa).replace("-", "−")


def path_data(x: ArrayLike, y: ArrayLike) -> str:
    """A line through points; it is broken where one is not finite."""
    pieces, pen = [], "M"
    for a, b in zip(np.asarray(x, dtype=float).tolist(), np.asarray(y, dtype=float).tolist(), strict=True):
        if math.isfinite(a) and math.isfinite(b):
            pieces.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(pieces)


def dots_data(x: ArrayLike, y: ArrayLike) -> str:
    """Points as one path of strokes without length, which round line ends show as dots."""
    pairs = zip(np.asarray(x, dtype=float).tolist(), np.asarray(y, dtype=float).tolist(), strict=True)
    return "".join(f"M{a:.1f} {b:.1f}h0" for a, b in pairs if math.isfinite(a) and math.isfinite(b))


def text(words: object, x: float, y: float, **attributes: object) -> Markup:
    """A label."""
    return element("text", words, x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def clipped(words: str, width: float) -> str:
    """A label cut to a width, with an ellipsis."""
    most = max(3, int(width / CHARACTER))
    return words if len(words) <= most else words[: most - 1] + "…"


def label_width(labels: Sequence[str], most: float) -> float:
    """Room that labels need."""
    return min(most, max((CHARACTER * len(label) for label in labels), default=0.0)) + 6


def svg(width: float, height: float, *children: object, label: str, class_: str = "chart") -> Markup:
    """A figure that fills the width it is given and says what it shows."""
    box = f"0 0 {width:g} {height:g}"
    title = element("title", label)
    return element("svg", title, *children, viewBox=box, class_=class_, role="group", aria_label=label)


def axes(x: Scale, y: Scale, x_label: str, y_label: str, *, x_ticks: Sequence[float] | None = None) -> Markup:
    """Axes with ticks and light lines across; y runs upwards, so that ``y.start`` is the bottom."""
    parts = []
    left, right = min(x.start, x.end), max(x.start, x.end)
    for value in y.ticks():
        place = y.at(value)
        parts.append(line(left, place, right, place, class_="rule"))
        parts.append(text(short_number(value), left - 5, place + 4, text_anchor="end"))
    for value in x.ticks() if x_ticks is None else x_ticks:
        place = x.at(value)
        parts.append(line(place, y.start, place, y.start + 4, class_="axis"))
        parts.append(text(short_number(value), place, y.start + 16, text_anchor="middle"))
    parts.append(line(left, y.start, right, y.start, class_="axis"))
    parts.append(text(x_label, 0.5 * (left + right), y.start + 32, text_anchor="middle", class_="label"))
    parts.append(text(y_label, left - 42, y.end - 10, class_="label"))
    return element("g", *parts, class_="axes", aria_hidden="true")


def figure(drawing: object, caption: object, *, class_: str = "") -> Markup:
    """A drawing with its caption."""
    return element("figure", drawing, element("figcaption", caption), class_=class_ or None)
