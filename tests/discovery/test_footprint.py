"""Predicted memory: sizes are those of the real thing, and what is measured stays within what is predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery import fit_sizes as sizes_module
from bvsi.discovery.fit_sizes import fit_sizes
from bvsi.discovery.footprint import PROGRAM, STAGES, predict_footprint
from bvsi.discovery.machine_memory import MachineMemory
from bvsi.likelihood import Block, Stacked, residual_likelihood
from bvsi.likelihood.stacked import StackedPlan
from bvsi.linalg import analyse
from bvsi.linalg.supernodal_backend import SupernodalAnalysis
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, TemporalTests, assemble, columns
from bvsi.spaces import Q1, Galerkin, SplineTests
from bvsi.studies.benchmarks.memory import Case, held

NONLINEAR = Library({"u": ["laplacian(u)", "u**2", "laplacian(u**3)"], "v": ["laplacian(v)", "u*v"]})
LINEAR = Library({"u": ["laplacian(u)", "u", "v"], "v": ["laplacian(v)"]})


def plane(shape: tuple[int, int] = (20, 18), times: int = 24) -> Data:
    """Two fields of noise on a plane that is periodic in x."""
    rng = np.random.default_rng(0)
    grid = Grid(x=np.arange(shape[0]) / shape[0], y=np.linspace(0, 1, shape[1]), periodic={"x": 1.0})
    fields = {name: rng.standard_normal((times, *shape)) for name in ("u", "v")}
    return Data.from_arrays(fields, times=np.linspace(0, 1, times), geometry=grid)


@pytest.mark.parametrize("library, keep", [(LINEAR, 2e8), (NONLINEAR, 2e8), (NONLINEAR, 0.0)])
def test_sizes_on_elements_are_those_of_the_assembly(
    library: Library, keep: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "KEEP_BYTES", keep)
    data, how = plane(), {"discretisation": Galerkin(Q1), "stencil": BackwardEuler()}
    (one,) = fit_sizes([data], library, [IID(0.1)], weighting=Block(), **how).experiments
    (real,) = assemble(data, library, **how).experiments
    plan = residual_likelihood(assemble(data, library, **how), IID(0.1), Block()).plans[0]
    assert plan is not None
    analysis = analyse(plan.pattern, coordinates=real.structure.coordinates)
    assert isinstance(analysis, SupernodalAnalysis)
    assert real.Z.nbytes == one.assembly.Z
    assert one.shape.entries == real.structure.pattern.nnz
    factor = analysis.factor(np.where(plan.pattern.rows == plan.pattern.indices, 1.0, 0.0))
    assert one.weights.factor == factor.L.nbytes + 8 * analysis.symbolic.stack_size
    assert one.weights.groups == len(plan.groups(real))
    arrays = [e for J in real.J for _, e in J.blocks if isinstance(e, np.ndarray)]
    kept = sum(e.nbytes + 8 * e.shape[-1] for e in arrays)  # entries with their columns
    assert one.assembly.jacobians == pytest.approx(kept, rel=0.3)  # boundary rows too
    assert one.assembly.streamed == (library is NONLINEAR and not keep)


@pytest.mark.parametrize("gap", [1.2, 2.5])
def test_sizes_on_splines_are_those_of_the_assembly_and_products_of_axes(
    gap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, how = plane(), {"discretisation": SplineTests(gap, 6), "stencil": TemporalTests(5, 2.0)}
    (one,) = fit_sizes([data], NONLINEAR, [IID(0.1)], weighting=Stacked(), **how).experiments
    system = assemble(data, NONLINEAR, **how)
    plan = residual_likelihood(system, IID(0.1), Stacked()).plans[0]
    assert isinstance(plan, StackedPlan)
    assert system.experiments[0].Z.nbytes == one.assembly.Z
    assert one.weights.factor == (plan.factor_memory if plan.direct else 0.0)
    factors = sum(e.factor.nbytes for J in system.experiments[0].J for _, e in J.blocks)
    assert one.assembly.jacobians == factors
    monkeypatch.setattr(sizes_module, "MOST_ANALYSED", 0)
    (axes,) = fit_sizes([data], NONLINEAR, [IID(0.1)], weighting=Stacked(), **how).experiments
    assert axes.shape == one.shape
    assert axes.assembly == one.assembly
    assert axes.weights.values == pytest.approx(one.weights.values)
    assert one.weights.factor <= axes.weights.factor


def test_stages_add_up_and_the_check_comes_on_top() -> None:
    footprint = predict_footprint(plane(), NONLINEAR, noise=IID(0.1))
    bare = predict_footprint(plane(), NONLINEAR, noise=IID(0.1), check=False)
    for stage in STAGES:
        assert footprint.at(stage) == sum(p.bytes for p in footprint.parts if stage in p.stages)
        assert (footprint.at(stage) > bare.at(stage)) == (stage == "checking")
    assert footprint.peak >= bare.peak > 0
    assert footprint.record()["stages"]["checking"] == footprint.at("checking")


def test_more_frames_and_operators_take_more() -> None:
    how = {"noise": IID(0.1), "discretisation": Galerkin(Q1), "stencil": BackwardEuler()}
    few = predict_footprint(plane(), LINEAR, **how)
    assert predict_footprint(plane(times=48), LINEAR, **how).peak > few.peak
    more = Library({"u": [*("laplacian(u)", "u", "v"), "dx(u)", "dy(u)", "dx(v)"], "v": ["laplacian(v)"]})
    assert predict_footprint(plane(), more, **how).peak > few.peak


def test_too_little_memory_is_told_with_what_to_do() -> None:
    footprint = predict_footprint(plane(), LINEAR, noise=IID(0.1))
    assert "fewer operators" in replace(footprint, machine=MachineMemory(1e9, 1e6)).warning
    assert "warning" in str(replace(footprint, machine=MachineMemory(1e9, 1e6)))
    assert not replace(footprint, machine=MachineMemory(1e9, footprint.peak + 2 * PROGRAM)).warning
    unknown = replace(footprint, machine=MachineMemory(None, None))
    assert not unknown.warning
    assert "machine" not in str(unknown)


def test_memory_here_is_what_the_system_says() -> None:
    here = MachineMemory.here()
    assert here.total is None or here.total > 1e8
    assert here.free is None or here.total is None or 0 < here.free <= here.total


def test_prediction_is_held() -> None:
    for found in held([Case("burgers", 128), Case("fokker_planck", 20, defaults=False)]):
        assert found.predicted / 3 < found.measured < found.predicted, found.label
