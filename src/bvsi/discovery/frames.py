"""Pictures of a fit: the data, the states that satisfy the equation, and what is left, at a few times and nodes.

    fit:  û − ε̂,  ε̂ = Σ_u Cᵀ W r            residual:  (W r)_i / sd((W r)_i)

The standardised residual is that of one test function given all the others, in standard deviations of what the noise
makes of it; those are taken from draws of the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data, Grid
from bvsi.likelihood import ResidualLikelihood
from bvsi.likelihood.covariance import Part
from bvsi.noise.level import observed

Array = NDArray[np.float64]

_DRAWS = 24  # the sd of 24 draws is known to 15%, enough for a picture; not measured
# Nodes per axis and frames that are kept, by dimension; together about 64,000 values a field.
_NODES = {0: 1, 1: 256, 2: 96, 3: 24}
_FRAMES = {0: 4096, 1: 256, 2: 12, 3: 6}  # see above; of a series as many as a picture can show
_MESH_NODES = 20_000  # nodes of a mesh beyond which only one frame is kept


@dataclass(frozen=True, eq=False)
class ExperimentFrames:
    """One experiment.

    Attributes
    ----------
    times
        (K,).
    points
        (n, dim).
    axes
        Coordinates by name where the nodes are a grid in C order, else None.
    cells
        (m, corners) of a mesh, else None.
    data, fit
        Data and fit by field, (K, n); fit is empty where the unknowns are not the nodes.
    residual_times
        (R,) centres of the blocks.
    residual_points
        Residual points by equation, (m, dim).
    residual
        Residual by equation, (R, m).
    """

    times: Array
    points: Array
    axes: Mapping[str, Array] | None
    cells: NDArray[np.int64] | None
    data: Mapping[str, Array]
    fit: Mapping[str, Array]
    residual_times: Array
    residual_points: Mapping[str, Array]
    residual: Mapping[str, Array] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Nodes along each axis of a grid."""
        return None if self.axes is None else tuple(len(axis) for axis in self.axes.values())


@dataclass(frozen=True, eq=False)
class Frames:
    """One set of pictures per experiment."""

    experiments: tuple[ExperimentFrames, ...]


def frames_of(
    data: Sequence[Data], likelihood: ResidualLikelihood, theta: Array, *, rng: np.random.Generator
) -> Frames:
    """Pictures of the fit with coefficients θ (d,)."""
    noise = likelihood.noise_estimates(theta, [_thinned(one)[0] for one in data])
    return Frames(
        tuple(
            _experiment(one, part, likelihood, theta, estimate, rng)
            for one, part, estimate in zip(data, likelihood.parts, noise, strict=True)
        )
    )


def _experiment(
    data: Data,
    part: Part,
    likelihood: ResidualLikelihood,
    theta: Array,
    estimate: Mapping[str, Array],
    rng: np.random.Generator,
) -> ExperimentFrames:
    structure = part.residuals.structure
    times, nodes, axes = _thinned(data)
    at = np.ix_(times, nodes)
    seen = {f: observed(data, f)[at] for f in data.names}
    fit = {} if structure.transfer is not None else {f: seen[f] - e[:, nodes] for f, e in estimate.items()}
    w = _standardised(part, likelihood, theta, rng)
    rows = {name: structure.equation_of_row == i for i, name in enumerate(structure.equations)}
    return ExperimentFrames(
        times=data.times[times],
        points=data.geometry.points[nodes],
        axes=axes,
        cells=None if isinstance(data.geometry, Grid) else np.asarray(data.geometry.cells),
        data=seen,
        fit=fit,
        residual_times=structure.block_times,
        residual_points={name: structure.coordinates[chosen] for name, chosen in rows.items()},
        residual={name: w[chosen].T for name, chosen in rows.items()},
    )


def _thinned(data: Data) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, Array] | None]:
    """Times and nodes to keep, and the axes of what is kept on a grid; meshes keep all their nodes."""
    geometry = data.geometry
    dim = len(geometry.names)
    times = _every(data.n_times, _FRAMES[dim])
    if not isinstance(geometry, Grid):
        frames = times if data.n_nodes <= _MESH_NODES else times[:: len(times)]
        return frames, np.arange(data.n_nodes), None
    kept = [np.arange(n)[:: -(-n // _NODES[dim])] for n in geometry.shape]
    index: Any = np.ix_(*kept)
    nodes = np.arange(geometry.n_nodes).reshape(geometry.shape)[index].ravel()
    return times, nodes, {name: axis[k] for (name, axis), k in zip(geometry.axes.items(), kept, strict=True)}


def _every(n: int, most: int) -> NDArray[np.int64]:
    """At most so many of 0 … n − 1, evenly spread, with both ends."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def _standardised(part: Part, likelihood: ResidualLikelihood, theta: Array, rng: np.random.Generator) -> Array:
    """W r in standard deviations of draws, (N, K); NaN for residuals that are not used."""
    structure = part.residuals.structure
    weigh = likelihood.weighting.weights(part, theta)
    r = part.residuals.residual(theta)
    w, squares = weigh(r[:, :, None])[:, :, 0], np.zeros(r.shape)
    for _, drawn in likelihood.weighting.draws(part, theta, weigh, _DRAWS, rng):
        squares += np.square(drawn).sum(axis=2)
    spread = np.sqrt(squares / _DRAWS)
    used = spread > 0 if structure.active is None else structure.active & (spread > 0)
    return np.where(used, w / np.where(used, spread, 1.0), np.nan)
