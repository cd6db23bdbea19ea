"""PySINDy's weak form with an oracle, where PySINDy is installed, on small fields with known equations."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.errors import MissingDependencyError
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.studies.benchmarks.discovery.metrics import largest_relative_error, true_positive_ratio
from bvsi.studies.benchmarks.discovery.peer import PySindy


@dataclass(frozen=True)
class Made:
    truth: dict
    candidates: dict
    name: str = "made"

    def library(self) -> Library:
        return Library(self.candidates)

    def noisy(self, level: float, seed: int) -> Data:
        raise NotImplementedError


HEAT = Made({"dx(dx(u))": 0.3, "dx(u)": -0.7}, {"u": ("dx(u)", "dx(dx(u))")})
ROTATION = Made({"u: dx(v)": 1.0, "v: dx(u)": 1.0}, {"u": ("dx(v)",), "v": ("dx(u)",)})


def heat(n: int = 64) -> Data:
    """u = Σ_k e^{−0.3k²t} sin(k(x − 0.7t) + k²)."""
    x, t = 2 * np.pi * np.arange(n) / n, np.linspace(0, 1, 60)[:, None]
    u = sum(np.exp(-0.3 * k**2 * t) * np.sin(k * (x - 0.7 * t) + k**2) for k in (1, 2, 3))
    return Data.from_arrays({"u": u}, times=t.ravel(), geometry=Grid(x=x, periodic="x"))


def waves(n: int = 64) -> Data:
    """u, v = f(x + t) ± g(x − t)."""
    x, t = 2 * np.pi * np.arange(n) / n, np.linspace(0, 2, 60)[:, None]
    f, g = np.sin(x + t) + np.cos(2 * (x + t)), np.sin(2 * (x - t) + 1) + 0.5 * np.cos(x - t)
    return Data.from_arrays({"u": f + g, "v": f - g}, times=t.ravel(), geometry=Grid(x=x, periodic="x"))


QUICK = PySindy(domains=60, thresholds=8)


def test_equations_that_its_library_lacks_are_left_out():
    assert QUICK.applies(HEAT)
    assert QUICK.applies(ROTATION)
    assert not QUICK.applies(Made({"dx(dx(u**3))": 1.0}, {"u": ("dx(dx(u**3))",)}))
    assert not QUICK.applies(Made({"div(p*grad(x))": 1.0}, {"p": ("div(p*grad(x))",)}))


def test_a_missing_package_is_told_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysindy", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "bvsi\[bench\]"'):
        _ = QUICK.settings


@pytest.mark.parametrize("case, data", [(HEAT, heat()), (ROTATION, waves())], ids=["one field", "two fields"])
def test_noise_free_equations_are_found(case, data):
    pytest.importorskip("pysindy")
    found = QUICK.estimate(case, data)
    assert set(found.theta) == set(found.truth)
    for name, value in found.truth.items():
        assert found.theta[name] == pytest.approx(value, rel=2e-2)


def test_the_places_are_seeded_and_the_global_generator_is_left_alone():
    pytest.importorskip("pysindy")
    noisy = add_noise(heat(), 0.05, np.random.default_rng(0))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (QUICK.estimate(HEAT, noisy).theta for _ in range(2))
    assert first == again
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_the_oracle_is_at_least_as_good_with_more_to_choose_from():
    """Higher TPR first, lower E∞ among equals."""
    pytest.importorskip("pysindy")
    noisy = add_noise(heat(), 0.3, np.random.default_rng(1))

    def rank(peer: PySindy) -> tuple[float, float]:
        found = peer.estimate(HEAT, noisy)
        return -true_positive_ratio(found.theta, found.truth), largest_relative_error(found.theta, found.truth)

    assert rank(QUICK) <= min(rank(replace(QUICK, windows=(window,))) for window in QUICK.windows)
