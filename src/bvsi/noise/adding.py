"""Synthetic measurement noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bvsi.data.data import Data
from bvsi.errors import DataError


def add_noise(data: Data, sigma: float | Mapping[str, float], rng: np.random.Generator) -> Data:
    """New data û = u + σ ε with independent standard normal ε for every value; auxiliary fields stay exact.

    Every field draws its ε in the order of the fields whatever its σ, so that the noise of one field does not
    change when the σ of another is set to zero.

    data: the exact data u.
    sigma: standard deviation σ ≥ 0 of all fields, or of each field by name.
    rng: source of randomness, ``numpy.random.default_rng(seed)``.
    """
    if not isinstance(rng, np.random.Generator):
        raise DataError(f"rng is a {type(rng).__name__}; pass numpy.random.default_rng(seed)")
    sigmas = dict(sigma) if isinstance(sigma, Mapping) else dict.fromkeys(data.names, sigma)
    if set(sigmas) != set(data.names):
        raise DataError(
            f"sigma is given for {', '.join(sigmas) or 'none'}, the fields are {', '.join(data.names)}; "
            "name each field once, with 0 for none"
        )
    for name, value in sigmas.items():
        if not (np.isreal(value) and np.isfinite(value) and value >= 0):
            raise DataError(f"sigma of field {name!r} is {value!r}; give a finite standard deviation, at least 0")
    noisy = {name: u + sigmas[name] * rng.standard_normal(u.shape) for name, u in data.fields.items()}
    return data.with_fields(noisy)
