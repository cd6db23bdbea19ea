"""Several measurements of one experiment: their mean, and its noise from their scatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bvsi.data import Data
from bvsi.errors import DataError
from bvsi.noise.models import Diagonal
from bvsi.noise.signal import smoothed


def from_replicates(measurements: Sequence[Data]) -> tuple[Data, Diagonal]:
    """Mean of R measurements of the same experiment, and the noise of that mean, per field, node and time. ::

        û = Σ_r û_r / R,        Var(û) = ⟨Σ_r (û_r − û)² / (R − 1)⟩ / R

    ⟨·⟩ is a mean over neighbours in time and space, weights 1, 4, 6, 4, 1 along each: a scatter of few values says
    little by itself. Use it as ``data, noise = from_replicates([...]); discover(data, library, noise=noise)``.

    Parameters
    ----------
    measurements
        At least two, at the same times and nodes, complete.
    """
    if len(measurements) < 2:
        raise DataError("measurements: at least two are needed; one alone has no scatter. Leave noise= out instead.")
    first = measurements[0]
    for other in measurements[1:]:
        same = other.names == first.names and np.array_equal(other.times, first.times)
        if not same or not np.array_equal(other.geometry.points, first.geometry.points):
            raise DataError(
                "measurements: all need the same fields, times and nodes; give others to discover one by one."
            )
    if any(one.measured is not None for one in measurements):
        raise DataError("measurements: values are missing; fill them, or give the measurements to discover one by one.")
    mean, sigma = {}, {}
    for name in first.names:
        values = np.stack([one.fields[name] for one in measurements])
        mean[name] = values.mean(axis=0)
        variance = smoothed(values.var(axis=0, ddof=1), first.geometry) / len(values)
        if not variance.max() > 0:
            raise DataError(f"measurements: those of {name!r} are all the same; they are copies, not measurements.")
        sigma[name] = np.sqrt(np.maximum(variance, 1e-12 * variance.max()))
    return first.with_fields(mean), Diagonal(sigma)
