"""bvsi as a method of the benchmark, on a small field with a known equation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.studies.benchmarks.discovery.ours import Bvsi
from bvsi.studies.benchmarks.discovery.store import Store
from bvsi.studies.benchmarks.discovery.study import Plan, run


@dataclass(frozen=True)
class Heat:
    """u_t = 0.3 u_xx − u, u = Σ_k e^{−(0.3k² + 1)t} sin(kx + k²)."""

    name: str = "heat"
    truth: dict = field(default_factory=lambda: {"laplacian(u)": 0.3, "u": -1.0})
    candidates: dict = field(default_factory=lambda: {"u": ("laplacian(u)", "u", "u**2", "dx(u)")})

    def library(self) -> Library:
        return Library(self.candidates)

    def noisy(self, level: float, seed: int) -> Data:
        x, t = 2 * np.pi * np.arange(48) / 48, np.linspace(0, 1, 41)[:, None]
        u = sum(np.exp(-(0.3 * k**2 + 1) * t) * np.sin(k * x + k**2) for k in (1, 2, 3))
        data = Data.from_arrays({"u": u}, times=t.ravel(), geometry=Grid(x=x, periodic="x"))
        return add_noise(data, level * float(np.sqrt(np.mean(u**2))), np.random.default_rng(seed))


def test_a_run_holds_what_bvsi_found(tmp_path):
    (found,) = run(Plan([Heat()], [Bvsi()], levels=[0.01], seeds=1), Store(tmp_path))
    assert found.error is None
    assert found.tpr == 1.0
    assert found.e_inf < 0.1
    assert set(found.covered) == set(Heat().truth)
    assert found.theta["laplacian(u)"] == pytest.approx(0.3, rel=0.1)
    assert found.seconds > 0
    assert Store(tmp_path).get(found.key) == found
