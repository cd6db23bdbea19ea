"""The estimate of memory grows with the sizes that it follows from, and a measured peak is near it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bvsi.app.study.memory import COSTS, estimate_memory, free_memory
from bvsi.data import Data, Grid
from bvsi.discovery import Method
from bvsi.infer import NUTS
from bvsi.likelihood import Isotropic, Stacked
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, TemporalTests, assemble
from bvsi.spaces import Q1, Galerkin, SplineTests
from bvsi.studies.benchmarks.memory import MemoryCase, held

LIBRARY = Library({"u": ["laplacian(u)", "u", "v"], "v": ["laplacian(v)"]})
KINDS: dict[str, Method] = {
    "elements": Method(tests=Galerkin(Q1), stencil=BackwardEuler()),
    "splines": Method(tests=SplineTests(1.5, 6), stencil=TemporalTests(5, 2.0)),
    "isotropic": Method(tests=Galerkin(Q1), stencil=BackwardEuler(), weighting=Isotropic()),
    "gradients": Method(tests=SplineTests(1.5, 6), stencil=TemporalTests(5, 2.0), weighting=Stacked(max_memory=0)),
}


def plane(shape: tuple[int, int] = (20, 18), times: int = 24) -> Data:
    """Two fields of noise on a plane that is periodic in x."""
    rng = np.random.default_rng(0)
    grid = Grid(x=np.arange(shape[0]) / shape[0], y=np.linspace(0, 1, shape[1]), periodic={"x": 1.0})
    fields = {name: rng.standard_normal((times, *shape)) for name in ("u", "v")}
    return Data.from_arrays(fields, times=np.linspace(0, 1, times), geometry=grid)


@pytest.mark.parametrize("kind", KINDS)
def test_more_nodes_times_and_operators_take_more(kind: str) -> None:
    how = {"noise": IID(0.1), "method": KINDS[kind]}
    least = estimate_memory(plane(), LIBRARY, **how)
    more = Library({"u": ["laplacian(u)", "u", "v", "dx(u)", "dy(u)"], "v": ["laplacian(v)"]})
    for larger in (
        estimate_memory(plane((28, 24)), LIBRARY, **how),
        estimate_memory(plane(times=48), LIBRARY, **how),
        estimate_memory(plane(), more, **how),
    ):
        assert larger.peak > least.peak
        assert all(larger.parts[name] >= least.parts[name] for name in least.parts)


@pytest.mark.parametrize("kind", ["elements", "splines"])
def test_sizes_are_those_of_the_assembly(kind: str) -> None:
    method = KINDS[kind]
    memory = estimate_memory(plane(), LIBRARY, noise=IID(0.1), method=method)
    (real,) = assemble(plane(), LIBRARY, discretisation=method.tests, stencil=method.stencil).experiments
    (N,), (K,) = memory.rows, memory.blocks
    assert real.Z.shape[0] <= N <= 1.3 * real.Z.shape[0]  # those without a use, such as on a boundary, count too
    assert real.Z.shape[1] == K
    assert memory.operators == real.d


def test_check_and_gradients_come_on_top_and_conjugate_gradients_need_no_factor() -> None:
    how = {"noise": IID(0.1), "method": KINDS["splines"]}
    bare = estimate_memory(plane(), LIBRARY, check=False, **how)
    assert estimate_memory(plane(), LIBRARY, **how).peak > bare.peak
    sampled = {**how, "method": replace(KINDS["splines"], estimator=NUTS())}
    assert estimate_memory(plane(), LIBRARY, check=False, **sampled).peak > bare.peak
    assert not estimate_memory(plane(), LIBRARY, noise=IID(0.1), method=KINDS["gradients"]).parts["Cholesky factors"]


def test_too_little_memory_is_told_with_what_to_do() -> None:
    memory = estimate_memory(plane(), LIBRARY, noise=IID(0.1))
    assert "fewer operators" in replace(memory, free=1e6).warning
    assert "warning" in str(replace(memory, free=1e6))
    assert not replace(memory, free=memory.peak + 2 * COSTS.program).warning
    unknown = replace(memory, free=None)
    assert not unknown.warning
    assert "free" not in str(unknown)


def test_free_memory_is_what_the_system_says() -> None:
    free = free_memory()
    assert free is None or free > 1e6


def test_measured_peaks_are_near_the_estimate(full_size: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BVSI_CACHE", str(full_size))
    for found in held([MemoryCase("burgers", 256), MemoryCase("fokker_planck", 20, defaults=False)]):
        assert found.predicted / 3 < found.measured < 2 * found.predicted, found.label
