"""What a likelihood is made of: experiments, their noise, candidate operators, test functions and weights.

Everything that fits the same physics in another way asks the same record: fewer data (:meth:`Setup.at`), other test
functions or operators (:meth:`Setup.with_`), some of the operators (:meth:`Setup.likelihood`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bvsi.common.arrays import Array, Mask
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid, Mesh
from bvsi.data._arrays import taken
from bvsi.data.scattered import coarser
from bvsi.errors import BvsiError
from bvsi.likelihood import ResidualLikelihood, Weighting, residual_likelihood
from bvsi.noise import Noise
from bvsi.noise.correlation import correlated, gain_of_counts, widths_of, without_blur
from bvsi.noise.models import Frames, values_at
from bvsi.operators import Library
from bvsi.residual import Stencil, TemporalTests, assemble
from bvsi.residual.assembly import Discretisation, discretise_library
from bvsi.residual.background_widths import BACKGROUND
from bvsi.residual.thinning import THINNING, Thinning
from bvsi.residual.widths import aligned_gap
from bvsi.spaces import SplineTests, is_uniform

#: Some nodes of a geometry, and which of them, (nodes,); None for all.
Place = tuple[Grid | Mesh, Mask | None]

ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Setup:
    """Data, noise, library, tests and weights.

    Attributes
    ----------
    data
        Experiments.
    noise
        The model of each.
    variance
        Variance of the noise by field, of each, a number or (T, nodes).
    library
        Candidate operators.
    tests, stencil
        Test functions in space and time.
    weighting
        The choice of W.
    client
        Client of a cluster on which likelihoods are assembled, None for this machine.
    sources
        What its workers read.
    """

    data: tuple[Data, ...]
    noise: tuple[Noise, ...]
    variance: tuple[Mapping[str, Array], ...]
    library: Library
    tests: Discretisation
    stencil: Stencil
    weighting: Weighting
    client: Any = None
    sources: Sequence[Any] = ()

    def with_(self, **changes: Any) -> Setup:
        """The same with other values of some fields."""
        return replace(self, **changes)

    @property
    def here(self) -> Setup:
        """The same on this machine."""
        return self if self.client is None else replace(self, client=None, sources=())

    def likelihood(
        self,
        names: Sequence[str] | None = None,
        *,
        linearise_at: Sequence[Data] | None = None,
        thin: Thinning = THINNING,
        progress: Progress = silent,
    ) -> ResidualLikelihood:
        """The likelihood of all operators, or of some in the order given.

        Parameters
        ----------
        linearise_at
            States at which Jacobians are taken, by default the data.
        thin
            How covariances of many data are thinned, where noise is independent.
        """
        if self.client is not None:
            whole = self._on_cluster(progress)
            return whole if names is None else whole.restrict(tuple(names))
        system = assemble(
            self.data,
            self.library if names is None else self.library.subset(names),
            discretisation=self.tests,
            stencil=self.stencil,
            variance=self.variance,
            linearise_at=linearise_at,
            thin=None if any(map(correlated, self.noise)) else thin,
            blur=[widths_of(noise) for noise in self.noise],
            gain=[gain_of_counts(noise) for noise in self.noise],
            progress=progress,
        )
        if names is not None:  # a library that is left with one equation drops its field from the names; here they stay
            columns = sorted(self.library.index(name) for name in names)
            system = replace(system, names=tuple(self.library.names[i] for i in columns)).subset(tuple(names))
        return residual_likelihood(system, self.noise, self.weighting)

    def relinearised(
        self, likelihood: ResidualLikelihood, theta: Array, rounds: int = 1, progress: Progress = silent
    ) -> ResidualLikelihood:
        """A likelihood of this setup with Jacobians taken at the states û − ε̂(θ), which its residuals smooth.

        ε − ε̂ is not correlated with the residuals, and neither are the weights then: with Jacobians at û the mean of a
        quadratic operator is off by tr(F'' P Σ_u), P Σ_u the covariance of ε̂.
        """
        for _ in range(rounds):
            if any(part.residuals.structure.transfer is not None for part in likelihood.parts):
                raise BvsiError("relinearise: needs data on the nodes of the space; leave it out, or Galerkin(on=...).")
            noise = likelihood.noise_estimates(theta)
            smooth = [
                data.with_fields({f: v - own[f] if f in own else v for f, v in data.fields.items()})
                for data, own in zip(self.data, noise, strict=True)
            ]
            likelihood = self.here.likelihood(likelihood.names, linearise_at=smooth, progress=progress)
        return likelihood

    def bent_by_noise(self, likelihood: ResidualLikelihood, names: Sequence[str]) -> bool:
        """Whether Jacobians of some of these operators at the data make others of the noise.

        Those that take derivatives of the data do, and those with an F'' that depends on the data: tr(F'' P Σ_u) of u³
        is like u then, and of u² u_x like u_x, where that of u² and u u_x is one number, or none. On a cluster, with
        costly data, and with data that are moved to other nodes, only the first count.
        """
        if not isinstance(self.tests, SplineTests):
            return False
        nodal = not (likelihood.costly or self.client) and all(
            part.residuals.structure.transfer is None for part in likelihood.parts
        )
        operators, _ = discretise_library(self.data[0], self.library.subset(names), self.tests)
        derived = self.tests.reach is not None
        return any((nodal and operator.curved) or (derived and operator.on_data) for operator in operators)

    def _on_cluster(self, progress: Progress) -> ResidualLikelihood:
        from bvsi.cluster import cluster_likelihood  # it reads files, and most machines have no cluster

        return cluster_likelihood(
            self.client,
            self.sources or self.data,
            self.library,
            tuple(map(without_blur, self.noise)),
            weighting=self.weighting,
            discretisation=self.tests,
            stencil=self.stencil,
            variance=self.variance,
            thin=None if any(map(correlated, self.noise)) else THINNING,
            progress=progress,
        )

    def at(self, frames: slice = ALL, nodes: Mapping[str, slice] | None = None) -> Setup:
        """The same at some frames and nodes: data, noise and gaps between knots, which are counted in frames and nodes.

        Parameters
        ----------
        frames
            Frames which times of every experiment.
        nodes
            Nodes which nodes of a grid, by axis; axes left out stay as they are.
        """
        if not nodes:
            return self._at(frames, [(data.geometry, None) for data in self.data], self.tests)
        places = [_part(data.geometry, nodes) for data in self.data]
        factors = {name: 1 / cut.step for name, cut in nodes.items() if (cut.step or 1) > 1}  # as wide as before
        return self._at(frames, places, _scaled_tests(self.tests, places[0][0], factors))

    def coarser(self) -> tuple[Setup, float] | None:
        """The same at fewer nodes of meshes, and how much farther apart they are; None where that is impossible."""
        places: list[Place] = []
        for data in self.data:
            found = coarser(data.geometry) if isinstance(data.geometry, Mesh) else None
            if found is None:
                return None
            places.append(found)
        ratio = min(float(np.mean(mask)) ** (-1 / mesh.dim) for mesh, mask in places if mask is not None)
        factors = dict.fromkeys(self.data[0].geometry.names, 1 / ratio)
        return self._at(ALL, places, _scaled_tests(self.tests, places[0][0], factors)), ratio

    def _at(self, frames: slice, places: Sequence[Place], tests: Discretisation) -> Setup:
        """The same at some frames, and at the nodes of other geometries."""
        thinned = tuple(_thinned(data, frames, place) for data, place in zip(self.data, places, strict=True))
        kept = [_kept(*pair, frames) for pair in zip(self.data, thinned, strict=True)]
        masks = [mask for _, mask in places]
        return replace(
            self.here,
            data=thinned,
            noise=tuple(noise.at(own, mask) for noise, own, mask in zip(self.noise, kept, masks, strict=True)),
            variance=tuple(
                {f: values_at(np.asarray(v, dtype=float), own, mask) for f, v in variance.items()}
                for variance, own, mask in zip(self.variance, kept, masks, strict=True)
            ),
            tests=tests,
            stencil=scaled_stencil(self.stencil, 1 / (frames.step or 1), thinned[0]),
        )


def scaled_gaps(tests: SplineTests, factors: Mapping[str, float], geometry: Grid | Mesh) -> SplineTests:
    """Gaps times a factor by axis, for the nodes of a geometry; axes without a factor keep theirs."""
    gaps = {name: tests.gap_of(name) * factors.get(name, 1.0) for name in geometry.names}
    if not (isinstance(geometry, Grid) and is_uniform(geometry)):
        return replace(tests, gap={n: max(BACKGROUND.narrowest, g) if n in factors else g for n, g in gaps.items()})
    for name, n in zip(geometry.names, geometry.shape, strict=True):
        if name in factors and tests.degree is not None:
            gaps[name] = aligned_gap(gaps[name], n, tests.degree, periodic=name in geometry.periods, least=1)
    return replace(tests, gap=gaps)


def scaled_stencil(stencil: Stencil, factor: float, data: Data) -> Stencil:
    """Test functions in time, with gaps times a factor, for the times of some data; differences stay what they are."""
    if not isinstance(stencil, TemporalTests) or factor == 1:
        return stencil
    gap = aligned_gap(factor * stencil.gap, data.n_times, stencil.degree, narrower=factor < 1, least=1)
    return replace(stencil, gap=gap)


def _scaled_tests(tests: Discretisation, grid: Grid | Mesh, factors: Mapping[str, float]) -> Discretisation:
    """Gaps, and the reach of derivatives of the data, times a factor by axis."""
    if not isinstance(tests, SplineTests) or not factors:
        return tests
    if tests.reach is not None:
        tests = replace(tests, reach={name: tests.reach_of(name) * factors.get(name, 1.0) for name in grid.names})
    return scaled_gaps(tests, factors, grid)


def _part(grid: Grid | Mesh, nodes: Mapping[str, slice]) -> Place:
    """Some of the nodes of a grid, and which they are."""
    assert isinstance(grid, Grid)
    cuts = tuple(nodes.get(name, ALL) for name in grid.names)
    kept = np.zeros(grid.shape, dtype=bool)
    kept[cuts] = True
    axes = {name: axis[cut] for (name, axis), cut in zip(grid.axes.items(), cuts, strict=True)}
    return grid.on(axes), kept.ravel()


def _thinned(data: Data, frames: slice, place: Place) -> Data:
    """Data at some frames and nodes; a bounded axis may lose its last node."""
    if frames != ALL:
        data = data.select_times(frames)
    geometry, mask = place
    if mask is None:
        return data
    fields = {name: taken(values, ALL, mask) for name, values in data.fields.items()}
    known = {name: values[..., mask] for name, values in data.auxiliary.items()}
    measured = None if data.measured is None else {name: m[:, mask] for name, m in data.measured.items()}
    return Data(data.times, fields, geometry, known, measured)


def _kept(data: Data, thinned: Data, frames: slice) -> Frames:
    """Frames, less those in which nothing was measured at the nodes that are left: thinned data do not have them."""
    there = np.flatnonzero(np.isin(data.times, thinned.times))
    return frames if len(there) == len(data.times[frames]) else there
