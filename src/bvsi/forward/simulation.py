"""Forward simulation of an equation given by a library and coefficients."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from bvsi.data import Data
from bvsi.errors import DataError, OperatorError
from bvsi.forward.scheme import Stepper, ThetaScheme
from bvsi.forward.semidiscrete import semidiscrete
from bvsi.operators import Library
from bvsi.progress import Progress, silent
from bvsi.spaces import Galerkin


def simulate(
    library: Library,
    theta: ArrayLike | Mapping[str, float],
    initial: Data,
    times: ArrayLike,
    *,
    discretisation: Galerkin | None = None,
    scheme: ThetaScheme | None = None,
    progress: Progress = silent,
) -> Data:
    """Solve u_t = Σ_i θ_i F_i(u) from the first frame of ``initial``.

    library: operators and boundary conditions.
    theta: coefficients in the order of the library, or by name (operators left out get zero).
    initial: its first time is the initial state; its geometry is that of the simulation.
    times: output times, increasing; the first is that of the initial state.
    discretisation: element; scheme: time stepping, by default one backward-Euler step per output time.
    """
    coefficients = _coefficients(library, theta)
    t = _times(times)
    stepper = Stepper(
        semidiscrete(initial, library, coefficients, discretisation or Galerkin()), scheme or ThetaScheme()
    )
    fields = stepper.system.layout.fields
    u = np.concatenate([initial.fields[f][0] for f in fields])
    frames = [u]
    for k, (start, interval) in enumerate(zip(t[:-1], np.diff(t), strict=True)):
        u = stepper.advance(u, float(start), float(interval))
        frames.append(u)
        progress(k + 1, len(t) - 1, "simulating")
    stacked = np.stack(frames)
    n = initial.n_nodes
    values = {f: stacked[:, i * n : (i + 1) * n] for i, f in enumerate(fields)}
    return Data(times=t, fields=values, geometry=initial.geometry, auxiliary=initial.auxiliary)


def _coefficients(library: Library, theta: ArrayLike | Mapping[str, float]) -> np.ndarray:
    if isinstance(theta, Mapping):
        vector = np.zeros(len(library))
        for name, value in theta.items():
            vector[library.index(name)] = value
    else:
        vector = np.asarray(theta, dtype=float)
    if vector.shape != (len(library),) or not np.all(np.isfinite(vector)):
        raise OperatorError(f"theta: needs {len(library)} finite numbers, one per operator of the library.")
    return vector


def _times(times: ArrayLike) -> np.ndarray:
    t = np.asarray(times, dtype=float)
    if t.ndim != 1 or len(t) < 2 or not np.all(np.diff(t) > 0):
        raise DataError("times: at least two increasing output times are needed, the first that of the initial state.")
    return t
