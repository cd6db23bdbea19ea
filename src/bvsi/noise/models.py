"""Observation noise: û_j = u_j + ε_j, ε_j ~ N(0, Σ_u,j), independent between times.

A noise model is stated at the measured nodes; it is carried to the unknowns by the same map P as the data,
``Σ_u = P Σ Pᵀ``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.errors import NoiseError
from bvsi.residual import Structure

#: Which times: a slice, or integers in increasing order.
Frames: TypeAlias = slice | Integers

# Values of noise that come of one generator, where a time has fewer: to make one takes as long as 2,000 values, and
# series have a few values at thousands of times (Lorenz, 1,001 times: 2 of 9 CPU s were spent on making them).
_DRAWN = 64


@dataclasses.dataclass(frozen=True, eq=False)
class StateCovariance:
    """Σ_u at every time: ``distinct[label[j]]`` is that of time j.

    Attributes
    ----------
    distinct
        Each a vector of variances (n_u,) where diagonal, or a sparse symmetric matrix (n_u × n_u).
    roots
        R with R Rᵀ = Σ_u of each: a vector where diagonal, or a sparse matrix (n_u × anything).
    label
        (T,); times with one label share their covariance, and so their factorisation.
    first
        Number of the first time in the experiment, of which these may be a part.
    """

    distinct: tuple[Any, ...]
    roots: tuple[Any, ...]
    label: Integers
    first: int = 0

    @property
    def diagonal(self) -> bool:
        """Whether all are diagonal."""
        return all(not sparse.issparse(s) for s in self.distinct)

    def at(self, columns: Integers, times: Integers) -> StateCovariance:
        """That of some unknowns at some times."""
        used, label = np.unique(self.label[times], return_inverse=True)
        some = [self.distinct[n][columns] for n in used]
        distinct = tuple(s[:, columns] if sparse.issparse(s) else s for s in some)
        return StateCovariance(distinct, tuple(self.roots[n][columns] for n in used), label, self.first + int(times[0]))

    def logdet(self, time: int) -> float:
        """log det Σ_u at a time."""
        covariance = self.distinct[int(self.label[time])]
        if not sparse.issparse(covariance):
            return float(np.log(covariance).sum())
        return float(np.log(np.abs(scipy.sparse.linalg.splu(sparse.csc_array(covariance)).U.diagonal())).sum())

    def sample(self, time: int, rng: np.random.Generator) -> Array:
        """One draw of ε at a time, (n_u,)."""
        root = self.roots[int(self.label[time])]
        xi = rng.standard_normal(root.shape[-1])
        draw: Array = root @ xi if sparse.issparse(root) else root * xi
        return draw

    def draw(self, rng: np.random.Generator) -> Array:
        """One draw of ε, (n_u, T), from one generator: for what is never cut into parts."""
        if not self.diagonal:
            return np.stack([self.sample(j, rng) for j in range(len(self.label))], axis=1)
        roots = np.stack(self.roots)
        return np.asarray((roots[self.label] * rng.standard_normal((len(self.label), roots.shape[1]))).T)

    def draws(self, rng: np.random.Generator) -> list[Array]:
        """One draw of ε at every time, (n_u,) each; every few times have a generator of their own.

        The draw of a time is then the same however an experiment is cut into parts.
        """
        seed, times = int(rng.integers(2**63)), range(self.first, self.first + len(self.label))
        together = _DRAWN // max(1, len(self.distinct[0])) if self.diagonal else 1
        if together <= 1:
            return [self.sample(j, np.random.default_rng([seed, time])) for j, time in enumerate(times)]
        root, groups = np.stack(self.roots)[self.label], range(times.start // together, times[-1] // together + 1)
        shape = (together, root.shape[1])
        xi = np.concatenate([np.random.default_rng([seed, group]).standard_normal(shape) for group in groups])
        begin = times.start - groups.start * together
        return list(root * xi[begin : begin + len(times)])


class Noise(Protocol):
    """A model of the observation noise."""

    @property
    def scale_known(self) -> bool:
        """Whether the size of the noise is known, or only its shape."""

    def covariance(self, structure: Structure) -> StateCovariance:
        """Σ_u at the unknowns of one experiment."""

    def at(self, frames: Frames, nodes: Mask | None = None) -> Noise:
        """The same noise at some times and nodes of the experiment.

        Parameters
        ----------
        frames
            Frames which times.
        nodes
            Nodes which nodes, (nodes,), by default all.
        """


@dataclasses.dataclass(frozen=True)
class IID:
    """One known standard deviation for all fields, nodes and times: Σ = σ² I."""

    sigma: float
    scale_known: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _positive_number(self.sigma, "sigma")

    def covariance(self, structure: Structure) -> StateCovariance:
        """σ² at every node."""
        return _per_time(structure, np.full((1, _n_nodes(structure) * len(structure.fields)), self.sigma))

    def at(self, frames: Frames, nodes: Mask | None = None) -> IID:
        """The same everywhere."""
        del frames, nodes
        return self


@dataclasses.dataclass(frozen=True)
class PerField:
    """One known standard deviation per field."""

    sigma: Mapping[str, float]
    scale_known: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for field, value in _mapping(self.sigma, "sigma").items():
            _positive_number(value, f"sigma[{field!r}]")

    def covariance(self, structure: Structure) -> StateCovariance:
        """σ_f² at every node of field f."""
        values = [_of_field(self.sigma, f) for f in structure.fields]
        return _per_time(structure, np.repeat(np.array(values, dtype=float), _n_nodes(structure))[None])

    def at(self, frames: Frames, nodes: Mask | None = None) -> PerField:
        """The same everywhere."""
        del frames, nodes
        return self


@dataclasses.dataclass(frozen=True, eq=False)
class PerTime:
    """One known standard deviation per time, (T,), for all fields."""

    sigma: ArrayLike
    scale_known: ClassVar[bool] = True

    def covariance(self, structure: Structure) -> StateCovariance:
        """σ_j² at every node."""
        sigma = _positive(self.sigma, "sigma")
        if sigma.shape != (structure.n_times,):
            raise NoiseError(f"sigma: one per time is needed, {structure.n_times}; it has shape {sigma.shape}.")
        return _per_time(structure, np.repeat(sigma[:, None], _n_nodes(structure) * len(structure.fields), axis=1))

    def at(self, frames: Frames, nodes: Mask | None = None) -> PerTime:
        """Those of the times."""
        del nodes
        return PerTime(_positive(self.sigma, "sigma")[frames])


@dataclasses.dataclass(frozen=True, eq=False)
class Diagonal:
    """Known standard deviations per field and node, (nodes,), or per field, time and node, (T, nodes).

    Attributes
    ----------
    gain
        Size of one count in units of the field, by field, where noise is that of counts; such noise is skewed.
    """

    sigma: Mapping[str, ArrayLike]
    gain: Mapping[str, float] = dataclasses.field(default_factory=dict)
    scale_known: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _mapping(self.sigma, "sigma")

    def covariance(self, structure: Structure) -> StateCovariance:
        """Their squares on the diagonal."""
        n, T = _n_nodes(structure), structure.n_times
        parts = []
        for field in structure.fields:
            sigma = np.atleast_2d(_positive(_of_field(self.sigma, field), f"sigma[{field!r}]"))
            if sigma.shape not in ((1, n), (T, n)):
                raise NoiseError(
                    f"sigma[{field!r}]: shape ({n},) for each node or ({T}, {n}) for each time and node is needed; "
                    f"it has shape {sigma.shape}."
                )
            parts.append(sigma)
        rows = max(len(part) for part in parts)
        return _per_time(structure, np.concatenate([np.broadcast_to(p, (rows, n)) for p in parts], axis=1))

    def at(self, frames: Frames, nodes: Mask | None = None) -> Diagonal:
        """Those of the times and nodes."""
        sigma = {f: values_at(np.asarray(s, dtype=float), frames, nodes) for f, s in self.sigma.items()}
        return Diagonal(sigma, self.gain)


@dataclasses.dataclass(frozen=True, eq=False)
class Covariance:
    """A known sparse covariance, the same at all times.

    Attributes
    ----------
    matrix
        Symmetric positive definite (fields·nodes × fields·nodes), fields in the order of the data; or one matrix (nodes
        × nodes) per field.
    """

    matrix: Any
    scale_known: ClassVar[bool] = True

    def covariance(self, structure: Structure) -> StateCovariance:
        """P Σ Pᵀ."""
        matrix = self.stacked(structure.fields, _n_nodes(structure))
        P = _stacked_transfer(structure)
        root = square_root(matrix)
        label = np.zeros(structure.n_times, dtype=np.int64)
        if P is None:
            return StateCovariance((matrix,), (root,), label)
        return StateCovariance((sparse.csr_array(P @ matrix @ P.T),), (sparse.csr_array(P @ root),), label)

    def stacked(self, fields: Sequence[str], n: int) -> Any:
        """Σ of fields one after the other at n nodes each, sparse (s, s)."""
        if not isinstance(self.matrix, Mapping):
            return _checked(self.matrix, n * len(fields), "matrix")
        blocks = [_checked(_of_field(self.matrix, f), n, f"matrix[{f!r}]") for f in fields]
        return sparse.csr_array(sparse.block_diag(blocks, format="csr"))

    def variances(self, fields: Sequence[str], n: int) -> dict[str, Array]:
        """Its diagonal (n,) by field."""
        return dict(zip(fields, np.split(self.stacked(fields, n).diagonal(), len(fields)), strict=True))

    def at(self, frames: Frames, nodes: Mask | None = None) -> Covariance:
        """Rows and columns of the nodes."""
        del frames
        if nodes is None:
            return self
        if isinstance(self.matrix, Mapping):
            return Covariance({f: _submatrix(m, nodes, f"matrix[{f!r}]") for f, m in self.matrix.items()})
        return Covariance(_submatrix(self.matrix, nodes, "matrix"))


@dataclasses.dataclass(frozen=True)
class UnknownScale:
    """Σ = σ² · shape with σ² unknown, to be estimated with the coefficients.

    Parameters
    ----------
    shape
        Noise model that gives the relative sizes; by default the same for all.
    """

    shape: Noise = dataclasses.field(default_factory=lambda: IID(1.0))
    scale_known: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_model(self.shape, "shape")

    def covariance(self, structure: Structure) -> StateCovariance:
        """The shape, without σ²."""
        return self.shape.covariance(structure)

    def at(self, frames: Frames, nodes: Mask | None = None) -> UnknownScale:
        """That of the shape."""
        return UnknownScale(self.shape.at(frames, nodes))


def noise_of_experiments(noise: Noise | Sequence[Noise], n: int) -> tuple[Noise, ...]:
    """One noise model for each of n experiments; a single one serves all."""
    several = isinstance(noise, Sequence) and not isinstance(noise, str)
    models: tuple[Any, ...] = tuple(noise) if several else (noise,) * n  # type: ignore[arg-type]
    if len(models) != n:
        raise NoiseError(f"noise: {len(models)} models for {n} experiments; give one, or one each.")
    for model in models:
        check_model(model, "noise")
    if len({model.scale_known for model in models}) > 1:
        raise NoiseError("noise: the scale has to be known for all experiments or for none.")
    return models


def state_covariance(noise: Noise, structure: Structure) -> StateCovariance:
    """Σ_u at the unknowns of one experiment, which may be averages at some of its nodes and times."""
    thinned = structure.thinned
    if thinned is None:
        return noise.covariance(structure)
    times = sparse.csr_array((structure.n_blocks, thinned.time.n))
    every = noise.covariance(dataclasses.replace(structure, n_dofs=thinned.n_nodes, a=times, thinned=None))
    label, rows = np.zeros(structure.n_times, dtype=np.int64), np.stack(every.distinct)
    if len(rows) > 1:
        label, rows = np.arange(structure.n_times), thinned.time.cells @ rows[every.label]
    variance = thinned.share * thinned.means(rows.T).T
    return StateCovariance(tuple(variance), tuple(np.sqrt(variance)), label)


def values_at(values: Array, frames: Frames, nodes: Mask | None = None) -> Array:
    """Variances or standard deviations of one field at some times and nodes.

    Parameters
    ----------
    values
        One for all, (), per node, (nodes,), or per time and node, (T, nodes); a T of 1 stands for all times.
    """
    some = values[frames] if values.ndim == 2 and len(values) > 1 else values
    return some if nodes is None or not values.ndim else some[..., nodes]


def _submatrix(matrix: Any, nodes: Mask, name: str) -> Any:
    """Rows and columns of the nodes (n,), of one field or of several that follow each other."""
    if not sparse.issparse(matrix) or matrix.shape[0] % len(nodes):
        raise NoiseError(f"{name}: a sparse matrix with a row for each of {len(nodes)} nodes and field is needed.")
    kept = np.flatnonzero(np.tile(nodes, matrix.shape[0] // len(nodes)))
    return sparse.csr_array(matrix)[kept][:, kept]


def _n_nodes(structure: Structure) -> int:
    return structure.n_dofs if structure.transfer is None else int(structure.transfer.shape[1])


def _stacked_transfer(structure: Structure) -> Any | None:
    if structure.transfer is None:
        return None
    return sparse.csr_array(sparse.kron(sparse.eye_array(len(structure.fields)), structure.transfer, format="csr"))


def _per_time(structure: Structure, sigma: Array) -> StateCovariance:
    """From standard deviations (1 or T, fields·nodes); equal times are found and share one covariance."""
    places: dict[bytes, int] = {}  # by the rows themselves: sorting whole rows takes longer than all the rest
    label = np.array([places.setdefault(row.tobytes(), len(places)) for row in sigma], dtype=np.int64)
    distinct = sigma[np.unique(label, return_index=True)[1]]
    P = _stacked_transfer(structure)
    labels = np.array(np.broadcast_to(label, (structure.n_times,)))
    if P is None:
        return StateCovariance(tuple(row**2 for row in distinct), tuple(distinct), labels)
    roots = tuple(sparse.csr_array(P * row) for row in distinct)
    return StateCovariance(tuple(sparse.csr_array(R @ R.T) for R in roots), roots, labels)


def square_root(matrix: Any) -> Any:
    """Sparse R with R Rᵀ = matrix, from an LDLᵀ factorisation; a matrix that is not positive definite is refused."""
    options = {"SymmetricMode": True}
    lu = scipy.sparse.linalg.splu(
        sparse.csc_array(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
    )
    pivots = lu.U.diagonal()
    if not np.array_equal(lu.perm_r, lu.perm_c) or not np.all(pivots > 0):
        raise NoiseError("matrix: a covariance must be positive definite; add a small number to its diagonal.")
    L = sparse.csr_array(lu.L @ sparse.diags_array(np.sqrt(pivots)))
    return L[np.array(lu.perm_r, dtype=np.int64)]


def check_model(model: object, name: str) -> None:
    """Refuse what is not a noise model, by the name of the argument."""
    if isinstance(model, type) or not all(hasattr(model, method) for method in ("covariance", "at")):
        raise NoiseError(f"{name}: an instance of a noise model is needed, such as IID(1e-3), not {model!r}.")


def _mapping(values: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise NoiseError(f"{name}: a mapping by field is needed, such as {{'u': 1e-3}}, not {type(values).__name__}.")
    return values


def _positive_number(value: ArrayLike, name: str) -> None:
    if _positive(value, name).ndim:
        raise NoiseError(f"{name}: one number is needed; PerField, PerTime and Diagonal take several.")


def _positive(values: ArrayLike, name: str) -> Array:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise NoiseError(f"{name}: a standard deviation is a positive number, not {values!r}.") from None
    if not np.all(np.isfinite(array)) or not np.all(array > 0):
        raise NoiseError(
            f"{name}: standard deviations must be positive and finite. For data without noise state how far they "
            "can be trusted, for example IID(1e-6), or use the least-squares estimator."
        )
    return array


def _of_field(values: Mapping[str, Any], field: str) -> Any:
    if field not in values:
        raise NoiseError(f"noise: field {field!r} has none; given are {', '.join(values)}.")
    return values[field]


def _checked(matrix: Any, n: int, name: str) -> Any:
    if not sparse.issparse(matrix):
        raise NoiseError(f"{name}: a SciPy sparse matrix is needed, not {type(matrix).__name__}.")
    if matrix.shape != (n, n):
        raise NoiseError(f"{name}: shape ({n}, {n}) is needed; it is {matrix.shape}.")
    matrix = sparse.csr_array(matrix)
    if not np.all(np.isfinite(matrix.data)) or not np.all(matrix.diagonal() > 0):
        raise NoiseError(f"{name}: entries must be finite and variances on the diagonal positive.")
    if abs(matrix - matrix.T).max() > 1e-12 * abs(matrix).max():
        raise NoiseError(f"{name}: a covariance must be symmetric; pass (A + A.T)/2 if the difference is rounding.")
    return matrix
