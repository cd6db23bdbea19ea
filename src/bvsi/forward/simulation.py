"""Forward simulation of an equation given by a library and coefficients."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import DataError, OperatorError
from bvsi.forward.scheme import Stepper, ThetaScheme
from bvsi.forward.semidiscrete import semidiscrete
from bvsi.operators import Library
from bvsi.spaces import Galerkin

Array = NDArray[np.float64]

# Times closer than this fraction of the simulated time are the same.
_SAME_TIME = 1e-9


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
    t = _times(times, initial)
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


def _coefficients(library: Library, theta: ArrayLike | Mapping[str, float]) -> Array:
    """Coefficients in the order of the library, (d,)."""
    d = len(library)
    positions = [library.index(name) for name in theta] if isinstance(theta, Mapping) else list(range(d))
    values = _finite_numbers(list(theta.values()) if isinstance(theta, Mapping) else theta)
    if values is None or values.shape != (len(positions),):
        raise OperatorError(f"theta: needs {d} finite numbers, one per operator of the library, or numbers by name.")
    vector = np.zeros(d)
    vector[positions] = values
    return vector


def _times(times: ArrayLike, initial: Data) -> Array:
    """Output times, (T,)."""
    t = _finite_numbers(times)
    if t is None or t.ndim != 1 or len(t) < 2 or not np.all(np.diff(t) > 0):
        raise DataError(
            "times: at least two increasing finite output times are needed, the first that of the initial state."
        )
    start = float(initial.times[0])
    if abs(t[0] - start) > _SAME_TIME * (t[-1] - t[0]) + 4 * np.spacing(abs(start)):
        raise DataError(
            f"times: begin at {t[0]:g}, the initial state is at {start:g}; begin there, or give the initial state "
            "another time."
        )
    return t


def _finite_numbers(values: object) -> Array | None:
    """The values as an array of finite numbers, or None."""
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        return None
    return numbers if np.all(np.isfinite(numbers)) else None
