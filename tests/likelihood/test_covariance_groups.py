"""Blocks with equal covariance share one factorisation; blocks with another never do."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data
from bvsi.likelihood import Block, plan_covariance, sensitivities
from bvsi.likelihood.covariance import Part
from bvsi.linalg import Analysis, Factor
from bvsi.noise import IID, Diagonal, Noise, PerTime
from bvsi.operators import Library, NoFlux
from bvsi.residual import BDF2, CrankNicolson, Residuals, Stencil, assemble
from inference.cases import UNIFORM, dense_covariance, smooth_1d

LINEAR = Library({"u": ["laplacian(u)", "u"]}, boundary=NoFlux())
NONLINEAR = Library({"u": ["laplacian(u)", "u*dx(u)"]}, boundary=NoFlux())
MOVING = Library({"u": ["laplacian(u)", "t*u"]}, boundary=NoFlux())
THETA = np.array([0.02, -0.6])

ALTERNATING = np.concatenate([[0.0], np.cumsum(np.tile([0.1, 0.25], 4))])
GROWING = np.cumsum(0.1 * 1.2 ** np.arange(7))


@dataclass
class Counting:
    """An analysis that counts its factorisations."""

    inner: Analysis
    labels: list[str] = field(default_factory=list)

    def factor(self, values: np.ndarray, *, label: str) -> Factor:
        self.labels.append(label)
        return self.inner.factor(values, label=label)


def counted(residuals: Residuals, noise: Noise) -> int:
    """Factorisations that one evaluation of the normal equations takes."""
    plan = plan_covariance(residuals.structure, noise)
    counting = Counting(plan.analysis)
    vars(plan)["analysis"] = counting
    Block().normal_equations(Part(residuals, plan, "experiment 0"), THETA)
    assert len(counting.labels) == len(plan.groups(residuals))
    return len(counting.labels)


def residuals_of(times: np.ndarray, library: Library = LINEAR, stencil: Stencil | None = None) -> Residuals:
    return assemble(smooth_1d(7, times), library, stencil=stencil).experiments[0]


def test_equal_steps_share_one_factorisation():
    assert counted(residuals_of(UNIFORM), IID(0.1)) == 1


@pytest.mark.parametrize("stencil", [CrankNicolson(), BDF2()], ids=lambda s: type(s).__name__)
def test_equal_steps_share_one_factorisation_with_every_stencil(stencil):
    assert counted(residuals_of(UNIFORM, stencil=stencil), IID(0.1)) == 1


@pytest.mark.parametrize("times", [np.linspace(0, 0.3, 32), 7.3 + np.linspace(0, 1, 51), 0.1 * np.arange(40)])
def test_steps_that_differ_by_rounding_are_equal(times):
    assert len(np.unique(np.diff(times))) > 1
    assert counted(residuals_of(times), IID(0.1)) == 1


def test_two_alternating_steps_take_two():
    assert counted(residuals_of(ALTERNATING), IID(0.1)) == 2


def test_alternating_steps_with_three_times_per_block_take_two():
    assert counted(residuals_of(ALTERNATING, stencil=BDF2()), IID(0.1)) == 2


def test_steps_that_all_differ_take_one_each():
    assert counted(residuals_of(GROWING), IID(0.1)) == 6


def test_steps_that_differ_in_the_sixth_digit_are_not_equal():
    times = np.array([0, 1, 2, 3 + 1e-6, 4 + 1e-6])
    assert counted(residuals_of(times), IID(0.1)) == 2


def test_noise_that_differs_at_every_time_takes_one_each():
    assert counted(residuals_of(UNIFORM), PerTime(np.linspace(1, 2, 6))) == 5


def test_noise_that_comes_back_is_recognised():
    # pairs of noise levels (s, s'): (1, 1), (1, 2), (2, 1), (1, 1), (1, 2)
    assert counted(residuals_of(UNIFORM), PerTime([1.0, 1.0, 2.0, 1.0, 1.0, 2.0])) == 3


def test_noise_equal_at_all_times_but_stated_per_time_takes_one():
    assert counted(residuals_of(UNIFORM), PerTime(np.full(6, 0.1))) == 1
    assert counted(residuals_of(UNIFORM), Diagonal({"u": np.full((6, 7), 0.1)})) == 1


def test_noise_per_node_takes_one():
    assert counted(residuals_of(UNIFORM), Diagonal({"u": np.linspace(1, 2, 7)})) == 1


def test_nonlinear_operators_take_one_per_block():
    assert counted(residuals_of(UNIFORM, NONLINEAR), IID(0.1)) == 5


def test_the_linear_part_of_a_nonlinear_library_takes_one():
    system = assemble(smooth_1d(7, UNIFORM), Library({"u": ["laplacian(u)", "u", "u**2"]}, boundary=NoFlux()))
    assert counted(system.subset(["laplacian(u)", "u"]).experiments[0], IID(0.1)) == 1


def test_coefficients_that_change_in_time_take_one_per_block():
    assert counted(residuals_of(UNIFORM, MOVING), IID(0.1)) == 5


@pytest.mark.parametrize("moving, groups", [(False, 1), (True, 5)])
def test_auxiliary_fields_count_only_where_they_change_in_time(moving, groups):
    plain = smooth_1d(7, UNIFORM)
    known = 1 + np.arange(42.0).reshape(6, 7) / 42
    data = Data(plain.times, plain.fields, plain.geometry, {"c": known if moving else known[0]})
    library = Library({"u": ["laplacian(u)", "c*u"]}, boundary=NoFlux())
    assert counted(assemble(data, library).experiments[0], IID(0.1)) == groups


@pytest.mark.parametrize("library", [LINEAR, NONLINEAR, MOVING], ids=["linear", "nonlinear", "moving"])
@pytest.mark.parametrize("times", [UNIFORM, ALTERNATING, GROWING], ids=["uniform", "alternating", "growing"])
@pytest.mark.parametrize("stencil", [None, CrankNicolson(), BDF2()], ids=["BE", "CN", "BDF2"])
def test_blocks_of_one_group_have_one_covariance(library, times, stencil):
    residuals = residuals_of(times, library, stencil)
    sigma = np.where(np.arange(len(times)) % 3, 1.0, 2.0)
    plan = plan_covariance(residuals.structure, PerTime(sigma))
    state = sigma[:, None, None] ** 2 * np.eye(7)
    expected = dense_covariance(residuals, THETA, state)
    seen = []
    for blocks in plan.groups(residuals):
        k = int(blocks[0])
        first = plan.pattern.matrix(plan.diagonal_block(k, *sensitivities(residuals, THETA, k))).toarray()
        for k in blocks:
            assert_allclose(first, expected[k, k], rtol=0, atol=1e-8 * np.abs(first).max())
        seen.extend(blocks)
    assert sorted(seen) == list(range(residuals.structure.n_blocks))
