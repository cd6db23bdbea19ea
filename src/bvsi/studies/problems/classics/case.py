"""A benchmark equation with accurate data: the truth, the candidates, and how the data are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bvsi.data import Data
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.operators.boundary import BoundaryCondition


@dataclass(frozen=True, eq=False)
class Classic:
    """u_t = Σ_i θ_i F_i(u), with θ known and data that do not come from bvsi's own discretisation.

    Attributes
    ----------
    name
        For tables.
    equation
        For people.
    truth
        Name of an operator in ``library()`` → coefficient; operators left out have coefficient 0.
    candidates
        Field → operators of its equation, the true ones included.
    make
        Noise-free data; nodes, times and final time are its arguments where they can be chosen.
    boundary
        Condition of all fields; None where the domain is periodic.
    """

    name: str
    equation: str
    truth: Mapping[str, float]
    candidates: Mapping[str, tuple[str, ...]]
    make: Callable[..., Data]
    boundary: BoundaryCondition | None = None

    def data(self) -> Data:
        """Noise-free data, made once."""
        return self._data

    def library(self) -> Library:
        """All candidates."""
        return Library(self.candidates, boundary=self.boundary)

    def noisy(self, level: float, seed: int) -> Data:
        """û = u + level · RMS(u) · ε per field, ε standard normal from ``default_rng(seed)``.

        Parameters
        ----------
        level
            0.1 is what papers call 10% noise.
        """
        data = self.data()
        sigma = {field: level * float(np.sqrt(np.mean(u**2))) for field, u in data.fields.items()}
        return add_noise(data, sigma, np.random.default_rng(seed))

    @cached_property
    def _data(self) -> Data:
        return self.make()
