"""Posteriors of several structures, with their probabilities, and what they say together of a quantity.

E[q] = Σ_m P(m) E[q | m],     Var q = Σ_m P(m) Var(q | m) + Σ_m P(m) (E[q | m] − E[q])²
                                    (statistics)                 (structure)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi.common.arrays import Array, Rng
from bvsi.errors import BvsiError
from bvsi.infer.posteriors import Posterior, check_level
from bvsi.predict.push import aligned

if TYPE_CHECKING:
    import xarray as xr

# Probability below which a structure is left out of predictions: it would move them by less than their rounding.
_LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class Averaged:
    """A quantity over all structures that have it.

    Attributes
    ----------
    statistics, structure
        Standard deviations within structures, and between them.
    interval
        95%, from weighted draws.
    probability
        That of the structures that have it.
    """

    mean: float
    statistics: float
    structure: float
    interval: tuple[float, float]
    probability: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.statistics:.2g} (statistics) ± {self.structure:.2g} (structure)"


@dataclass(frozen=True, eq=False)
class Mixture:
    """Structures with their probabilities, which add up to one.

    Attributes
    ----------
    candidates
        All operators.
    names
        Operators of each structure; one without any leaves the fields as they are.
    probabilities
        (m,).
    posteriors
        Of the coefficients of each; None of one without any, and where none is known.
    """

    candidates: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    probabilities: Array
    posteriors: tuple[Posterior | None, ...]

    def inclusion(self) -> dict[str, float]:
        """P(in) by operator: the probability of the structures that have it."""
        pairs = list(zip(self.names, self.probabilities, strict=True))
        return {name: float(sum(p for own, p in pairs if name in own)) for name in self.candidates}

    def moments(self, name: str) -> tuple[float, float, float]:
        """Mean of a coefficient over the structures that have it, and its sd of statistics and of structure."""
        parts = [(law, p) for law, p in self._counted(every_one=True) if law is not None and name in law.names]
        p = np.array([own for _, own in parts])
        p = p / p.sum() if p.sum() > 0 else np.full(len(p), 1 / len(p))
        means, variances = (
            np.array([getattr(law, what)[law.names.index(name)] for law, _ in parts]) for what in ("mean", "variance")
        )
        mean = float(p @ means)
        return mean, float(p @ variances) ** 0.5, float(p @ (means - mean) ** 2) ** 0.5

    def average(
        self, quantity: str | Callable[[dict[str, float]], float], *, size: int = 2000, rng: Rng | None = None
    ) -> Averaged:
        """A coefficient by name, over the structures that have it, or a function of all coefficients by name.

        Parameters
        ----------
        quantity
            Operators that a structure lacks have the coefficient zero; NaN where the quantity does not exist.
        size
            Draws of each structure, with ``rng``, by default seed 0.
        """
        named, every = isinstance(quantity, str), self._labels
        values, weights, source = [], [], np.random.default_rng(0) if rng is None else rng
        for law, p in self._counted(every_one=named):
            if isinstance(quantity, str) and (law is None or quantity not in law.names):
                continue
            draws = self._draws(law, size, source)
            made = draws[:, every.index(quantity)] if isinstance(quantity, str) else _mapped(quantity, every, draws)
            if np.all(np.isfinite(made)):
                values.append(made)
                weights.append(p)
        if not values:
            raise BvsiError(f"average: no structure has {quantity if named else 'this quantity'}.")
        mean, within, between, ends = _summed(np.array(values), np.array(weights), (0.025, 0.975))
        low, high = map(float, ends)
        return Averaged(float(mean), float(within) ** 0.5, float(between) ** 0.5, (low, high), sum(weights))

    def predict(
        self,
        quantity: xr.DataArray | Callable[[dict[str, float]], xr.DataArray],
        *,
        level: float = 0.95,
        size: int = 1000,
        rng: Rng,
    ) -> xr.Dataset:
        """Mean, variance and credible band of a quantity, and its variances of statistics and of structure.

        Parameters
        ----------
        quantity
            A linear map with a dimension ``operator``, or a function of the coefficients by name, of one shape.
            Operators that a structure lacks have the coefficient zero.
        size
            Draws of each structure.
        """
        import xarray as xr

        check_level(level)
        if size < 2:
            raise BvsiError(f"size: at least two draws are needed, got {size}.")
        counted = self._counted()
        draws = [self._draws(law, size, rng) for law, _ in counted]
        if callable(quantity):
            like = quantity(dict(zip(self._labels, draws[0][0].tolist(), strict=True)))
            values = np.array([_mapped(quantity, self._labels, own) for own in draws])
        else:
            Phi = aligned(quantity, tuple(str(name) for name in quantity["operator"].values))
            columns = [self._labels.index(str(name)) for name in quantity["operator"].values]
            like = Phi.isel(operator=0)
            values = np.array([np.tensordot(own[:, columns], Phi.transpose("operator", ...), axes=1) for own in draws])
        tail = 0.5 * (1 - level)
        mean, within, between, ends = _summed(values, np.array([p for _, p in counted]), (tail, 1 - tail))
        found = {"mean": mean, "variance": within + between, "lower": ends[0], "upper": ends[1]}
        found |= {"statistics": within, "structure": between}
        labelled = {key: like.copy(data=value) for key, value in found.items()}
        return xr.Dataset(labelled, attrs={"level": level, "method": f"{size} draws of {len(counted)} structures"})

    @property
    def _labels(self) -> tuple[str, ...]:
        """Operators, and parameters inside of them."""
        laws = (law.names for law in self.posteriors if law is not None)
        return tuple(dict.fromkeys((*self.candidates, *(name for names in laws for name in names))))

    def _counted(self, *, every_one: bool = False) -> list[tuple[Posterior | None, float]]:
        """Posteriors and probabilities of the structures that count; None of one without operators."""
        parts = [
            (law, float(p))
            for own, law, p in zip(self.names, self.posteriors, self.probabilities, strict=True)
            if law is not None or not own
        ]
        return [(law, p) for law, p in parts if every_one or p > _LEAST] or parts[:1]

    def _draws(self, law: Posterior | None, size: int, rng: Rng) -> Array:
        """Coefficients (size, labels), zero of those that a structure lacks."""
        found = np.zeros((size, len(self._labels)))
        if law is not None:
            found[:, [self._labels.index(name) for name in law.names]] = law.sample(size, rng)
        return found


def _mapped(function: Callable[[dict[str, float]], Any], labels: Sequence[str], draws: Array) -> Array:
    """Values (size, ...) of a function of coefficients by name."""
    rows = [np.asarray(function(dict(zip(labels, row.tolist(), strict=True))), dtype=float) for row in draws]
    return np.array(rows)


def _summed(values: Array, weights: Array, quantiles: tuple[float, float]) -> tuple[Array, Array, Array, list[Array]]:
    """Mean, variances within and between, and quantiles, over structures and draws (m, size, ...)."""
    m, size = values.shape[:2]
    p = weights / weights.sum() if weights.sum() > 0 else np.full(m, 1 / m)
    means, mean = values.mean(axis=1), np.tensordot(p, values.mean(axis=1), axes=1)
    within, between = np.tensordot(p, values.var(axis=1), axes=1), np.tensordot(p, (means - mean) ** 2, axes=1)
    every = values.reshape(m * size, *values.shape[2:])
    ordered = np.sort(every, axis=0)
    reached = np.cumsum(np.repeat(p / size, size)[np.argsort(every, axis=0)], axis=0)
    ends = [np.take_along_axis(ordered, np.argmax(reached >= q, axis=0)[None], axis=0)[0] for q in quantiles]
    return mean, within, between, ends
