"""A small study file, and data for it."""

from pathlib import Path

import numpy as np
import pytest

from bvsi.app.study import StudyError, load_study
from bvsi.data import Data, Grid

BASE = """title = "Burgers"

[data]
file = "run.nc"
fields = ["u"]

[library.equations]
u = [
  "laplacian(u)",  # diffusion
  "u*dx(u)",
  "u",
]
"""


def written(folder: Path, text: str, *, base: str = BASE) -> Path:
    """The study with more text at its end."""
    path = folder / "study.toml"
    path.write_text(base + text, encoding="utf-8")
    return path


def refused(folder: Path, text: str, *, base: str = BASE) -> StudyError:
    """The error that a study gives; its message never has more than one line per fault."""
    path = written(folder, text, base=base)
    with pytest.raises(StudyError) as caught:
        load_study(path)
    lines, count = str(caught.value).splitlines(), len(caught.value.problems)
    assert lines[0] == f"{path}: {count} error{'s' if count > 1 else ''}."
    assert len(lines) == 1 + count
    assert all(line.isprintable() for line in lines)
    return caught.value


def wave(fields: tuple[str, ...] = ("u",), nodes: int = 32, frames: int = 21) -> Data:
    """Travelling waves on a periodic line."""
    x, t = np.arange(nodes) * 2 * np.pi / nodes, np.linspace(0, 1, frames)
    values = {name: np.sin(x[None] - (i + 1) * t[:, None]) for i, name in enumerate(fields)}
    return Data.from_arrays(values, times=t, geometry=Grid(x=x, periodic="x"), dims=("time", "x"))
