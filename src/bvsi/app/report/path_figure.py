"""The path of a selection as a figure: every point says which operator came or went."""

from __future__ import annotations

import math

import numpy as np

from bvsi.app.plot.selection import highest_shown
from bvsi.app.report.equation import operator_label
from bvsi.app.report.markup import Markup, download, element
from bvsi.app.report.svg import Scale, axes, figure, path_data, short_number, svg
from bvsi.select import SelectionPath, Visited

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 400.0, 280.0, 50.0, 30.0, 42.0


def path_figure(path: SelectionPath, fields: tuple[str, ...]) -> Markup:
    """Criterion above the selected model against the number of operators.

    Parameters
    ----------
    fields
        Fields with an equation. Short lines are models one step aside; the selected one is orange.
    """
    best = path.best
    x, y = _scales(path)
    told = [_told(path, place, fields) for place in range(len(path.visited))]
    sizes = np.array([len(v.names) for v in path.visited], dtype=float)
    rises = np.array([v.score - best.score for v in path.visited])
    marks = [mark for v in path.visited for mark in _candidates(v, best.score, x, y, fields)]
    line = element("path", d=path_data(x(sizes), y(rises)), class_="curve a")
    points = [
        _point(x.at(size), y.at(rise), words, selected=v is best)
        for v, size, rise, words in zip(path.visited, sizes.tolist(), rises.tolist(), told, strict=True)
        if math.isfinite(rise)
    ]
    label = f"Selection path: {path.criterion} above the selected model, by number of operators"
    frame = axes(x, y, "operators in the model", f"{path.criterion}, above the selected model", x_ticks=_whole(sizes))
    drawing = svg(_WIDTH, _HEIGHT, frame, *marks, line, *points, label=label)
    chosen = next(words for v, words in zip(path.visited, told, strict=True) if v is best)
    live = element("p", chosen, class_="told", aria_live="polite")
    words = (
        "Point at a model, or move to it with the Tab key, to see which operator was added or removed. Short lines: "
    )
    numbers = [[len(v.names), v.score, v.chi2, " ".join(v.names)] for v in path.visited]
    data = download("selection.csv", ["operators", path.criterion, "chi2/n", "names"], numbers)
    return figure(
        element("div", drawing, live, data, class_="tell"), words + f"models one step aside. {sentence(path.stopped)}"
    )


def sentence(words: str) -> str:
    """Words with a capital in front."""
    return words[:1].upper() + words[1:]


def change_text(path: SelectionPath, place: int, fields: tuple[str, ...]) -> str:
    """What led to a model: ``added ∇²u``, ``removed u²``, ``start``."""
    if path.visited[place].changed is None:
        return "start"
    now, before = path.visited[place].names, path.visited[place - 1].names if place else ()
    added, removed = [n for n in now if n not in before], [n for n in before if n not in now]
    told = [
        f"{verb} {', '.join(operator_label(name, fields) for name in names)}"
        for verb, names in (("added", added), ("removed", removed))
        if names
    ]
    return "; ".join(told) or "start"


def _told(path: SelectionPath, place: int, fields: tuple[str, ...]) -> str:
    v = path.visited[place]
    score = f"{v.score:.2f}".replace("-", "−")
    count = f"{len(v.names)} operator{'s' if len(v.names) != 1 else ''}"
    mark = " (selected)" if v is path.best else f" ({short_number(v.score - path.best.score)} above the selected model)"
    return f"{count}, {change_text(path, place, fields)}: {path.criterion} {score}{mark}, χ²/n {v.chi2:.3g}"


def _scales(path: SelectionPath) -> tuple[Scale, Scale]:
    """Sizes in the order of the path, from left to right; rises on a scale that shows small and large ones."""
    sizes = [len(v.names) for v in path.visited]
    scores = [s for v in path.visited for s in (v.score, *v.candidates.values())]
    rises = np.array([s - path.best.score for s in scores if math.isfinite(s)])
    start, end = _LEFT + 10, _WIDTH - 14
    if sizes[-1] < sizes[0]:
        start, end = end, start
    top = max(1.0, min(1.2 * float(rises.max()), highest_shown(path))) if rises.size else 1.0
    low, high = min(sizes), max(max(sizes), min(sizes) + 1)
    # candidates may be better by the closed form than the model that was taken in the end
    bottom = min(0.0, float(rises.min())) if rises.size else 0.0
    return Scale(low, high, start, end), Scale(bottom, top, _HEIGHT - _BOTTOM - 8, _TOP, "symlog")


def _whole(sizes: np.ndarray) -> list[float]:
    low, high = int(sizes.min()), int(sizes.max())
    return [float(v) for v in range(low, high + 1, max(1, math.ceil((high - low) / 8)))]


def _candidates(v: Visited, best: float, x: Scale, y: Scale, fields: tuple[str, ...]) -> list[Markup]:
    """Models one step from the last one that were not taken."""
    marks, place = [], x.at(len(v.names))
    for name, score in v.candidates.items():
        if name != v.changed and math.isfinite(score):
            words = f"{operator_label(name, fields)} instead: {short_number(score - best)} above the selected model"
            at = max(y.at(score - best), y.end)
            title = element("title", words)
            marks.append(element("path", title, d=f"M{place - 4:.1f} {at:.1f}h8", class_="candidate", data_told=words))
    return marks


def _point(x: float, y: float, words: str, *, selected: bool) -> Markup:
    return element(
        "circle",
        element("title", words),
        cx=x,
        cy=y,
        r=7 if selected else 5,
        class_="model selected" if selected else "model",
        tabindex="0",
        role="img",
        aria_label=words,
        data_told=words,
    )
