"""Data sets with known truth, made when asked for: classic equations, systems without space, simulated situations. ::

case = bvsi.datasets.load("burgers", noise=0.1, seed=1)
found = bvsi.discover(case.data, case.library)
found.names, case.truth
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.noise import Noise, add_noise, from_counts
from bvsi.operators import Library
from bvsi.studies import assay
from bvsi.studies.problems.classics import CLASSICS
from bvsi.studies.problems.situations import SITUATIONS
from bvsi.studies.series import SYSTEMS

_ASSAY = "assay"


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
    noise
        Model of the noise where replicates determine it, for ``discover(noise=...)``; None elsewhere: it is measured.
    units
        Of fields, coordinates and time, for ``discover(units=...)``; empty where there are none.
    """

    name: str
    data: Data
    library: Library
    truth: Mapping[str, float]
    noise: Noise | None = None
    units: Mapping[str, str] = field(default_factory=dict)


def names() -> tuple[str, ...]:
    """What can be loaded."""
    return (*CLASSICS, *SYSTEMS, *SITUATIONS, _ASSAY)


def load(name: str, *, noise: float | None = None, seed: int = 0) -> KnownCase:
    """A data set by name.

    ``frap`` (a bleached disc, photons), ``traffic`` (loops of a ring road), ``video`` (dye on a 12-bit film) and
    ``assay`` (a scratch assay, five frames of cell counts, for :meth:`bvsi.Discovery.refine`) have the noise of their
    instruments, and coefficients that the seed draws.

    Parameters
    ----------
    noise
        Standard deviation of white noise over the RMS of each field; 0.1 is what papers call 10% noise. Left out, none,
        or that of the instrument.
    seed
        Of the noise; of a system without space also of its start, of a situation of everything.
    """
    if name not in names():
        raise BvsiError(f"datasets: there is no {name!r}; known are {', '.join(names())}.")
    if noise is not None and not 0 <= noise < float("inf"):
        raise BvsiError(f"noise: a number of at least 0 is needed, such as 0.1; got {noise!r}.")
    rng = np.random.default_rng(seed)
    if name == _ASSAY:
        return _assay(noise, rng)
    units: Mapping[str, str] = {}
    if name in SITUATIONS:
        made = SITUATIONS[name](rng)
        data, library, truth, units = made.clean, made.library, made.truth, made.units
        if noise is None:
            return KnownCase(name, made.data, library, truth, units=units)
    elif name in CLASSICS:
        data, library, truth = CLASSICS[name].data(), CLASSICS[name].library(), CLASSICS[name].truth
    else:
        data, library, truth = SYSTEMS[name].draw(rng), SYSTEMS[name].library, SYSTEMS[name].truth
    sigma = {field: (noise or 0.0) * float(np.sqrt(np.mean(u**2))) for field, u in data.fields.items()}
    return KnownCase(name, add_noise(data, sigma, rng) if noise else data, library, dict(truth), units=units)


def _assay(noise: float | None, rng: np.random.Generator) -> KnownCase:
    """Replicates of one seeding density, averaged, with the noise estimated from them."""
    if noise is not None:
        raise BvsiError("noise: cells of an assay are counted; leave it out.")
    made = assay.assay(float(rng.choice(assay.SEEDINGS)), rng)
    data, counted = from_counts(made.wells)
    D, r, K = (made.truth[name] for name in assay.QUANTITIES)
    truth = {"laplacian(u)": D, "u": r, "u**2": -r / K}
    units = {"u": "count", "x": "µm", "t": "h"}
    return KnownCase(_ASSAY, data, assay.library((*assay.FISHER, "laplacian(u**2)", "u**3")), truth, counted, units)
