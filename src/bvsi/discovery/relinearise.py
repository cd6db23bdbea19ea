"""Operators linearised at smoothed states û − ε̂ instead of the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bvsi.discovery.method import Method
from bvsi.discovery.submodel import assembled
from bvsi.errors import BvsiError
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise.measurement import Measurement
from bvsi.operators import Library

Array = NDArray[np.float64]


def relinearised(
    measured: Sequence[Measurement], likelihood: ResidualLikelihood, theta: Array, library: Library, method: Method
) -> ResidualLikelihood:
    """The likelihood of the same operators, values at the data and Jacobians at û − ε̂(θ)."""
    if any(part.residuals.structure.transfer is not None for part in likelihood.parts):
        raise BvsiError("relinearise: needs data on the nodes of the space; leave it out, or Galerkin(on=...).")
    smooth = []
    for m, noise in zip(measured, likelihood.noise_estimates(theta), strict=True):
        fields = {f: v - noise[f] if f in noise else v for f, v in m.data.fields.items()}
        smooth.append(m.data.with_fields(fields))
    system = assembled(
        [m.data for m in measured],
        library,
        likelihood.names,
        discretisation=method.discretisation,
        stencil=method.stencil,
        variance=[m.variance for m in measured],
        linearise_at=smooth,
    )
    return residual_likelihood(system, likelihood.noise, likelihood.weighting)
