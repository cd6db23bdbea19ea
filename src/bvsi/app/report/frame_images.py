"""Images inside the page: PNG with a palette, as data addresses."""

from __future__ import annotations

import base64
import io
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bvsi.app.report.markup import Markup, element
from bvsi.app.report.svg import short_number

Array = NDArray[np.float64]

_COLOURS = 255
_CLEAR = 255  # the palette's last entry: where there is no value


def film(images: Array, low: float, high: float, colours: str) -> str:
    """Images (K, rows, columns) one below the other, as the address of one PNG; NaN is transparent."""
    stacked = images.reshape(-1, images.shape[-1])
    scaled = (stacked - low) / (high - low) * (_COLOURS - 1)
    indices = np.clip(np.nan_to_num(np.round(scaled), nan=0.0), 0, _COLOURS - 1).astype(np.uint8)
    indices[~np.isfinite(stacked)] = _CLEAR
    from PIL import Image

    picture = Image.frombytes("P", (indices.shape[1], indices.shape[0]), indices.tobytes())
    picture.putpalette(_palette(colours))
    out = io.BytesIO()
    picture.save(out, "png", transparency=_CLEAR, optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


@cache
def _palette(colours: str) -> bytes:
    return bytes(np.vstack([_rgb(colours, _COLOURS), [[128, 128, 128]]]).astype(np.uint8).ravel())


def _rgb(colours: str, count: int) -> NDArray[np.uint8]:
    """Colours of a map, (count, 3)."""
    from matplotlib import colormaps

    rgba = colormaps[colours](np.linspace(0, 1, count))
    return np.asarray(np.round(255 * rgba[:, :3]), dtype=np.uint8)


def colour_bar(low: float, high: float, colours: str) -> Markup:
    """The colours from low to high, with both numbers."""
    stops = ", ".join(f"rgb({r} {g} {b})" for r, g, b in _rgb(colours, 9).tolist())
    strip = element("span", class_="strip", style=f"background: linear-gradient(90deg, {stops})")
    return element("span", short_number(low), strip, short_number(high), class_="colours")


def picture(source: str, frames: int, proportion: float, words: str, *extra: Markup, smooth: bool = False) -> Markup:
    """A window onto a film of ``frames`` images; ``proportion`` is width over height of one.

    Parameters
    ----------
    smooth
        Whether pixels are blended, for functions that are; data show what was measured.
    """
    shape = f"aspect-ratio: {min(max(proportion, 0.4), 3.0):.3f}"
    film_height = f"height: {100 * frames}%; --frames: {frames}"
    image = element("img", src=source, alt=words, style=film_height)
    return element("div", image, *extra, class_="film smooth" if smooth else "film", style=shape)
