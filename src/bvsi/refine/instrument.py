"""What an instrument makes of a field: blur, averages over bins and exposures, noise that is alike at neighbours.

    û_j = Σ_q w_q H u(t_j + s_q) + ε_j,     (H u)(x_i) = Σ_q w_q u(x_i + s_q),     Σ_q w_q = 1
    Cov ε = D ρ D,     D² = diag(v),     ρ = ρ_t ⊗ ρ_x ⊗ ρ_y …,     ρ_a = exp(−h²/4w_a²)

Along every axis a kernel is a Gaussian, a box, or one after the other; it is summed over places that are closer than
the nodes where the equation is solved, so that waves that it hides stay hidden. On grids H is a product over axes.
Directions in which the noise is far smaller than white noise of its level are left out of ρ⁻¹: no kernel is known so
well that what it leaves there could be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg
from scipy.special import roots_legendre

from bvsi.common.arrays import Array, Mask
from bvsi.data import Data, Grid, Mesh
from bvsi.data.smoothness import along
from bvsi.errors import BvsiError
from bvsi.noise import Covariance, Noise
from bvsi.noise.correlation import shape_of, widths_of
from bvsi.noise.models import square_root
from bvsi.spaces.domain import Domain
from bvsi.spaces.reconstruction import reconstruction
from bvsi.spaces.spline_tests import USUAL_RECONSTRUCTION


class RefineError(BvsiError):
    """The equation cannot be fitted by forward solves; the message says why, and what would help."""


Widths = Mapping[str, float]

_ENDS = 3.5  # standard deviations at which a Gaussian ends: 5e-4 of it are beyond
_FINE = 0.5  # step between places of a kernel, by its standard deviation and by the distance of nodes, at most
_PER_NODE = 3  # places in a box by distance of nodes, at least: Gauss's rule is then exact for all that nodes resolve
_IN_TIME = 3  # the same of an exposure, within which a field changes little
_OUTSIDE = 1e-3  # part of a kernel outside of the domain beyond which a value is left out of the fit: its error
_BEYOND = 4  # nodes of a periodic axis that are repeated at its ends, for local polynomials
# Variance of noise along a direction, by that of white noise, below which the direction is left out. Kernels are known
# to 0.08 in the correlation of neighbours (noise/correlation.py), which is 0.16 of the density at the shortest waves.
_LEAST = 0.2
_ROUNDING = 1e-9  # part of the largest eigenvalue below which one is zero
_MOST = 8e7  # values by derivatives that are held at once where noise is alike in time: 2 GB


def check_instrument(data: Data, on: Grid | Mesh | None, blur: Widths | None, bins: Widths | None) -> None:
    """Refuse kernels that the data cannot have, and another place for what is known at their nodes only."""
    geometry, kernel, box = data.geometry, blur or {}, bins or {}
    _check_kernels(kernel, box, geometry.names)
    exposure(float(box.get("time", 0.0)), data.times)
    curved = isinstance(geometry, Grid) and geometry.coordinates != "cartesian"
    if curved and any(width for name, width in (*kernel.items(), *box.items()) if name != "time"):
        raise RefineError(f"blur, bins: cartesian axes are needed, these are {geometry.coordinates}.")
    if not isinstance(on, Grid | Mesh | None):
        raise RefineError(f"on: a Grid or a Mesh is needed, such as Grid(x=...), not {on!r}.")
    if on is not None and on.names != geometry.names:
        raise RefineError(f"on: has the axes {', '.join(on.names)}, the data have {', '.join(geometry.names)}.")
    if on is not None and data.auxiliary:
        raise RefineError("on: known fields are at the nodes of the data only; leave `on` out.")


def _check_kernels(blur: Widths, bins: Widths, names: Sequence[str]) -> None:
    """Refuse kernels of axes that the data do not have, and widths that are none."""
    for argument, widths, allowed in (("blur", blur, names), ("bins", bins, [*names, "time"])):
        if not isinstance(widths, Mapping):
            raise RefineError(f"{argument}: widths by axis are needed, such as {{'x': 0.05}}; got {widths!r}.")
        for axis, width in widths.items():
            if axis == "time" and argument == "blur":
                raise RefineError("blur: time has no kernel; write the length of an exposure as bins={'time': ...}.")
            if axis not in allowed:
                raise RefineError(f"{argument}: the data have no axis {axis!r}; they have {', '.join(allowed)}.")
            if not (isinstance(width, (int, float)) and np.isfinite(width) and width >= 0):
                raise RefineError(f"{argument}[{axis!r}]: a number of at least 0 is needed, not {width!r}.")


def exposure(length: float, times: Array) -> tuple[Array, Array]:
    """Offsets (q,) from the times of the frames, in their middle, and weights (q,) of an exposure."""
    if not length:
        return np.zeros(1), np.ones(1)
    shortest = float(np.diff(times).min(initial=np.inf))
    if length > shortest:
        raise RefineError(f"bins['time']: an exposure of {length:g} is longer than the {shortest:g} between frames.")
    places, weights = roots_legendre(_IN_TIME)
    return 0.5 * length * places, 0.5 * weights


def observed_by(on: Grid | Mesh, geometry: Grid | Mesh, blur: Widths, bins: Widths) -> tuple[Any, Mask]:
    """H (n, N) from where an equation is solved to the nodes of the data, and which of these (n,) see the domain only.

    None in place of H where both are the same and nothing is blurred.
    """
    kernels = [(float(blur.get(name, 0)), float(bins.get(name, 0))) for name in geometry.names]
    every = np.ones(geometry.n_nodes, dtype=bool)
    if any(map(any, kernels)) and isinstance(on, Grid) and isinstance(geometry, Grid):
        parts = [
            _along_axis(on, name, geometry.axes[name], *kernel) for name, kernel in zip(on.names, kernels, strict=True)
        ]
        share = reduce(np.multiply.outer, [inside for _, inside in parts]).ravel()
        return reduce(lambda A, B: sparse.kron(A, B, format="csr"), [A for A, _ in parts]), share > 1 - _OUTSIDE
    if any(map(any, kernels)):
        return _around(Domain.of(on), geometry.points, kernels)
    if on is geometry:
        return None, every
    domain = Domain.of(on)
    try:
        cells = domain.cells_at(geometry.points)
    except BvsiError as error:
        raise RefineError(f"on: does not hold all places of the data; {error}") from error
    return reconstruction(domain, cells, geometry.points[:, None], USUAL_RECONSTRUCTION), every


def _kernel(sd: float, width: float, step: float) -> tuple[Array, Array]:
    """Places (q,) and weights (q,) of a Gaussian and a box, one after the other, on nodes with some distance."""
    places: Array = np.zeros(1)
    weights: Array = np.ones(1)
    if sd > 0:
        h = _FINE * min(sd, step)
        m = int(np.ceil(_ENDS * sd / h))
        places = h * np.arange(-m, m + 1, dtype=float)
        weights = np.exp(-0.5 * (places / sd) ** 2)
    if width > 0:
        own, box = roots_legendre(int(np.ceil(_PER_NODE * max(1.0, width / step))))
        places = np.add.outer(places, 0.5 * width * own).ravel()
        weights = np.multiply.outer(weights, box).ravel()
    return places, weights / weights.sum()


def _along_axis(on: Grid, name: str, x: Array, sd: float, width: float) -> tuple[Any, Array]:
    """H of one axis, (n, N), and the part of every kernel that lies on it, (n,)."""
    nodes, period = on.axes[name], on.periods.get(name)
    column = np.arange(len(nodes))
    s, w = _kernel(sd, width, float(np.median(np.diff(nodes))))
    places = x[:, None] + s
    if period is not None:
        places = nodes[0] + (places - nodes[0]) % period
        column = np.concatenate([column[-_BEYOND:], column, column[:_BEYOND]])
        turns = np.repeat([-1.0, 0.0, 1.0], [_BEYOND, len(nodes), _BEYOND])
        nodes = nodes[column] + period * turns
    slack = _ROUNDING * np.ptp(nodes)
    inside = (places >= nodes[0] - slack) & (places <= nodes[-1] + slack)
    axis: dict[str, Any] = {name: nodes}
    domain, at = Domain.of(Grid(**axis)), np.clip(places[inside], nodes[0], nodes[-1])[:, None]
    R = reconstruction(domain, domain.cells_at(at), at[:, None], USUAL_RECONSTRUCTION)
    R = R @ sparse.csr_array((np.ones(len(column)), (np.arange(len(column)), column)))
    return _summed(inside, w, R)


def _around(domain: Domain, points: Array, kernels: Sequence[tuple[float, float]]) -> tuple[Any, Mask]:
    """H of a mesh, and which of the points (n, dim) see the domain only."""
    rules = [_kernel(*kernel, step) for kernel, step in zip(kernels, domain.spacing, strict=True)]
    s = np.array(list(product(*(places for places, _ in rules))))
    w = reduce(np.multiply.outer, [weights for _, weights in rules]).ravel()
    places = (points[:, None] + s).reshape(-1, domain.dim)
    cells = domain.cells_at(places, outside=-1)
    at = places[cells >= 0]
    R = reconstruction(domain, cells[cells >= 0], at[:, None], USUAL_RECONSTRUCTION)
    H, share = _summed((cells >= 0).reshape(len(points), -1), w, R)
    return H, share > 1 - _OUTSIDE


def _summed(inside: Mask, weights: Array, R: Any) -> tuple[Any, Array]:
    """Σ_q w_q of the rows of R, one for each place that is inside, (n, q); and Σ w inside (n,)."""
    share = inside @ weights
    row, q = np.nonzero(inside)
    sums = sparse.csr_array((weights[q] / share[row], (row, np.arange(len(row)))), shape=(len(inside), len(row)))
    return sparse.csr_array(sums @ R), share


@dataclass(frozen=True, eq=False)
class Correlated:
    """ρ⁻¹ of noise that is alike at neighbours.

    Attributes
    ----------
    time
        ρ_t⁻¹ (T, T); None where times are independent.
    axes
        ρ_a⁻¹ (n_a, n_a) of every axis, on the directions that the noise has.
    fields
        How many have them.
    matrix
        ρ (s, s), sparse, where that was stated in their place; else None.
    rank
        Directions of all values, and of those at one time.
    """

    time: Array | None
    axes: tuple[Array, ...]
    fields: int
    matrix: Any
    rank: tuple[int, int]
    _held: dict[bytes, Any] = field(default_factory=dict)

    @staticmethod
    def of(noise: Noise, data: Data, fields: Sequence[str]) -> Correlated | None:
        """That of a model; None where its values are independent."""
        shape, widths = shape_of(noise), {name: w for name, w in widths_of(noise).items() if w}
        n = data.n_nodes
        if isinstance(shape, Covariance):
            rows = np.concatenate([np.arange(n) + n * data.names.index(f) for f in fields])
            rho = _unit(shape.stacked(data.names, n)[rows][:, rows])
            square_root(rho)  # refuses one that is not positive definite
            return Correlated(None, (), len(fields), rho, (data.n_times * rho.shape[0], rho.shape[0]))
        if not widths:
            return None
        grid = data.geometry
        if not isinstance(grid, Grid):
            raise RefineError("noise: blurred noise needs a grid; for a mesh state noise=Covariance(...).")
        time, T = (None, data.n_times) if "time" not in widths else _inverse(data.times, widths["time"], None)
        pairs = [_inverse(x, widths.get(name, 0.0), grid.periods.get(name)) for name, x in grid.axes.items()]
        at_once = len(fields) * int(np.prod([rank for _, rank in pairs]))
        if time is not None and data.n_times * n * len(fields) * min(n, 400) > _MOST:
            raise RefineError("noise: data with noise alike in time are too many; keep every second frame or node.")
        return Correlated(time, tuple(A for A, _ in pairs), len(fields), None, (T * at_once, at_once))

    def solve(self, X: Array, known: Mask) -> Array:
        """ρ⁻¹ X (s, p) at one time, of the values that are known (s,); zero at the others."""
        if self.matrix is not None:
            Y = np.zeros_like(X)
            Y[known] = self._at(known).solve(X[known])
            return Y
        Y = self._product(X)
        if not known.all():  # what is not known may be anything: its directions are taken out
            columns, inverse, _ = self._at(known)
            Y -= columns @ (inverse @ Y[~known])
        return Y

    def count(self, known: Mask) -> int:
        """Directions that the values (T, s) have."""
        if self.matrix is not None:
            return int(np.count_nonzero(known))
        return self.rank[0] - sum(int(self._at(frame)[2]) for frame in known if not frame.all())

    def _product(self, X: Array) -> Array:
        cube = X.reshape(self.fields, *(len(A) for A in self.axes), -1)
        for axis, A in enumerate(self.axes, start=1):
            cube = along(A, cube, axis)
        return np.ascontiguousarray(cube).reshape(X.shape)

    def _at(self, known: Mask) -> Any:
        """Factors of ρ of known values; or columns of ρ⁻¹ of the others, the inverse of their block, and its rank."""
        key = known.tobytes()
        if key not in self._held:
            if self.matrix is not None:
                self._held[key] = scipy.sparse.linalg.splu(sparse.csc_array(self.matrix[known][:, known]))
            else:
                gone = np.flatnonzero(~known)
                columns = self._product(np.eye(len(known))[:, gone])
                self._held[key] = (columns, *_pseudo_inverse(columns[gone], _ROUNDING))
        return self._held[key]


def _inverse(x: Array, width: float, period: float | None) -> tuple[Array, int]:
    """ρ⁻¹ (n, n) along an axis, and its rank."""
    h = np.abs(np.subtract.outer(x, x))
    h = h if period is None else np.minimum(h, period - h)
    return _pseudo_inverse(np.exp(-(h**2) / (4 * width**2)) if width else np.eye(len(x)), _LEAST)


def _pseudo_inverse(A: Array, least: float) -> tuple[Array, int]:
    """A⁻¹ on eigenvectors whose eigenvalues are at least a part of the mean, and their number."""
    values, Q = np.linalg.eigh(A)
    kept = values > least * np.mean(values)
    return np.asarray((Q[:, kept] / values[kept]) @ Q[:, kept].T), int(np.count_nonzero(kept))


def _unit(matrix: Any) -> Any:
    """With ones on the diagonal."""
    scale = sparse.diags_array(1 / np.sqrt(matrix.diagonal()))
    return sparse.csr_array(scale @ matrix @ scale)
