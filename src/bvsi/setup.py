"""What a likelihood is made of: experiments, their noise, candidate operators, test functions and weights.

Everything that fits the same physics in another way asks the same record: fewer data (:meth:`Setup.at`), other test
functions or operators (:meth:`Setup.with_`), some of the operators (:meth:`Setup.likelihood`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid
from bvsi.likelihood import ResidualLikelihood, Weighting, residual_likelihood
from bvsi.noise import Noise
from bvsi.noise.models import values_at
from bvsi.operators import Library
from bvsi.residual import Stencil, TemporalTests, assemble
from bvsi.residual.assembly import Discretisation
from bvsi.spaces import SplineTests

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

ALL = slice(None)

# A gap between knots is one step of the data at least: narrower test functions would be more than the data.
_NARROWEST = 1.0
# From this many steps on the quadrature error |sin(πg)/(πg)|^(p + 1) is negligible for every gap g.
_WIDE = 4.0


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
        progress: Progress = silent,
    ) -> ResidualLikelihood:
        """The likelihood of all operators, or of some in the order given.

        Parameters
        ----------
        linearise_at
            States at which Jacobians are taken, by default the data.
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
            progress=progress,
        )
        if names is not None:  # a library that is left with one equation drops its field from the names; here they stay
            columns = sorted(self.library.index(name) for name in names)
            system = replace(system, names=tuple(self.library.names[i] for i in columns)).subset(tuple(names))
        return residual_likelihood(system, self.noise, self.weighting)

    def _on_cluster(self, progress: Progress) -> ResidualLikelihood:
        from bvsi.cluster import cluster_likelihood  # it reads files, and most machines have no cluster

        return cluster_likelihood(
            self.client,
            self.sources or self.data,
            self.library,
            self.noise,
            weighting=self.weighting,
            discretisation=self.tests,
            stencil=self.stencil,
            variance=self.variance,
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
        cut = dict(nodes or {})
        masks = [_mask(data, cut) if cut else None for data in self.data]
        return replace(
            self.here,
            data=tuple(_thinned(data, frames, cut) for data in self.data),
            noise=tuple(noise.at(frames, mask) for noise, mask in zip(self.noise, masks, strict=True)),
            variance=tuple(
                {f: values_at(np.asarray(v, dtype=float), frames, mask) for f, v in variance.items()}
                for variance, mask in zip(self.variance, masks, strict=True)
            ),
            tests=_narrower_tests(self.tests, self.data[0], cut),
            stencil=_narrower_stencil(self.stencil, frames),
        )


def aligned_gap(gap: float) -> float:
    """A gap near this one for which sums over steps are integrals: below four steps whole numbers of them."""
    return max(_NARROWEST, gap if gap >= _WIDE else float(round(gap)))


def scaled_gaps(tests: SplineTests, factors: Mapping[str, float], names: Sequence[str]) -> SplineTests:
    """Gaps times a factor by axis, aligned; axes without a factor keep theirs.

    Parameters
    ----------
    names
        All axes.
    """
    gaps = {name: tests.gap_of(name) for name in names}
    return replace(tests, gap={n: aligned_gap(g * factors[n]) if n in factors else g for n, g in gaps.items()})


def _narrower_tests(tests: Discretisation, data: Data, nodes: Mapping[str, slice]) -> Discretisation:
    """Test functions as wide as before, on some of the nodes."""
    factors = {name: 1 / (cut.step or 1) for name, cut in nodes.items() if (cut.step or 1) > 1}
    if not isinstance(tests, SplineTests) or not factors:
        return tests
    return scaled_gaps(tests, factors, data.geometry.names)


def _narrower_stencil(stencil: Stencil, frames: slice) -> Stencil:
    """Test functions in time as wide as before, at some of the frames."""
    if not isinstance(stencil, TemporalTests) or (frames.step or 1) == 1:
        return stencil
    return replace(stencil, gap=max(_NARROWEST, stencil.gap / frames.step))


def _cuts(grid: Grid, nodes: Mapping[str, slice]) -> tuple[slice, ...]:
    return tuple(nodes.get(name, ALL) for name in grid.names)


def _mask(data: Data, nodes: Mapping[str, slice]) -> Mask:
    """Which nodes of a grid are kept, (nodes,)."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    kept = np.zeros(grid.shape, dtype=bool)
    kept[_cuts(grid, nodes)] = True
    return kept.ravel()


def _thinned(data: Data, frames: slice, nodes: Mapping[str, slice]) -> Data:
    """Data at some frames and nodes; a bounded axis may lose its last node."""
    if frames != ALL:
        data = data.select_times(frames)
    if not nodes:
        return data
    grid, mask = data.geometry, _mask(data, nodes)
    assert isinstance(grid, Grid)
    axes = {name: axis[cut] for (name, axis), cut in zip(grid.axes.items(), _cuts(grid, nodes), strict=True)}
    fields = {name: values[:, mask] for name, values in data.fields.items()}
    known = {name: values[..., mask] for name, values in data.auxiliary.items()}
    measured = None if data.measured is None else {name: m[:, mask] for name, m in data.measured.items()}
    return Data(data.times, fields, Grid(periodic=grid.periods, **axes), known, measured)
