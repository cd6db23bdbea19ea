"""Data sets with known truth, made when asked for: classic equations, and systems without space. ::

case = bvsi.app.datasets.load("burgers", noise=0.1, seed=1)
found = bvsi.discover(case.data, case.library)
found.names, case.truth
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.studies.problems.classics import CLASSICS
from bvsi.studies.series import SYSTEMS


@dataclass(frozen=True, eq=False)
class KnownCase:
    """Data whose equation is known.

    Attributes
    ----------
    data
        With the noise that was asked for.
    library
        Candidates, the true ones among them.
    truth
        Coefficients by operator of the library; those that are left out are zero.
    """

    name: str
    data: Data
    library: Library
    truth: Mapping[str, float]


def names() -> tuple[str, ...]:
    """What can be loaded."""
    return (*CLASSICS, *SYSTEMS)


def load(name: str, *, noise: float = 0.0, seed: int = 0) -> KnownCase:
    """A data set by name.

    Parameters
    ----------
    noise
        Standard deviation of white noise over the RMS of each field; 0.1 is what papers call 10% noise.
    seed
        Of the noise; of a system without space also of its start.
    """
    if name not in names():
        raise BvsiError(f"datasets: there is no {name!r}; known are {', '.join(names())}.")
    if not 0 <= noise < float("inf"):
        raise BvsiError(f"noise: a number of at least 0 is needed, such as 0.1; got {noise!r}.")
    rng = np.random.default_rng(seed)
    if name in CLASSICS:
        data, library, truth = CLASSICS[name].data(), CLASSICS[name].library(), CLASSICS[name].truth
    else:
        data, library, truth = SYSTEMS[name].draw(rng), SYSTEMS[name].library, SYSTEMS[name].truth
    sigma = {field: noise * float(np.sqrt(np.mean(u**2))) for field, u in data.fields.items()}
    return KnownCase(name, add_noise(data, sigma, rng) if noise else data, library, dict(truth))
