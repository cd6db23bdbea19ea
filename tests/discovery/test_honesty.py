"""What is said where data cannot tell: static fields, few frames, meshes that cannot be thinned, outliers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from skfem import MeshTri

from bvsi.data import Data, Mesh
from bvsi.discovery import Discovery, Method, discover
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Library, ZeroNeumann
from bvsi.spaces import Galerkin
from discovery.exact_cases import BURGERS, BURGERS_TRUTH, burgers, noisy, ring

LIBRARY = Library({"u": ["dx(u)", "laplacian(u)", "u", "u**2"]})
TRUTH = {"dx(u)": -0.5, "laplacian(u)": 0.1}


def travelling(times: int, span: float = 2.0, seed: int = 0) -> Data:
    """u_t = −½ u_x + 0.1 u_xx on a ring, mode by mode."""
    grid, t = ring(64), np.linspace(0, span, times)[:, None]
    modes = ((1, 1.0, 0.0), (2, 0.7, 1.0), (4, 0.5, 2.0))
    u = sum(a * np.exp(-0.1 * k**2 * t) * np.cos(k * (grid.axes["x"] - 0.5 * t) + p) for k, a, p in modes)
    return noisy(Data(t[:, 0], {"u": u}, grid), 0.01, seed)


def distance(found: Discovery) -> float:
    """Largest |z| of the true coefficients; infinite where the operators are not the right ones."""
    if set(found.names) != set(TRUTH):
        return np.inf
    return max(
        abs(found.coefficient(name) - value) / found.sd[found.names.index(name)] for name, value in TRUTH.items()
    )


def test_few_frames_give_right_answers_with_right_error_bars() -> None:
    cases = product((5, 6, 7, 8), (1.0, 3.0), (0, 1, 2))
    runs = [discover(travelling(frames, span, seed), LIBRARY) for frames, span, seed in cases]
    z = np.array([distance(found) for found in runs])
    consistent = np.array([found.verdict == "consistent" for found in runs])
    assert np.sum(z < 3) >= 22
    assert np.sum(consistent & (z > 4)) <= 2
    assert np.sum(consistent) >= 16


@pytest.mark.parametrize("frames", [5, 6, 7, 8])
def test_frames_that_are_too_far_apart_are_said_to_be(frames) -> None:
    # the shortest wave turns by more than half a period between two frames
    found = discover(travelling(frames, 3.0 * frames), LIBRARY)
    assert found.verdict == "under-resolved in time"


def test_data_without_noise_are_no_trouble() -> None:
    found = discover(burgers(), BURGERS)
    assert found.verdict == "consistent"
    assert found.check is not None
    assert "no noise to speak of" in found.check.advice
    for name, value in BURGERS_TRUTH.items():
        i = found.names.index(name)
        assert abs(found.theta[i] - value) < 3 * found.sd[i] < 0.01  # widened by the discretisation


def test_a_missing_operator_shows_without_noise() -> None:
    found = discover(burgers(), BURGERS.subset(["u*dx(u)", "u", "dx(u)"]))
    assert found.verdict == "missing operator"


def test_elements_on_a_coarse_mesh_are_called_so_and_spline_tests_are_right() -> None:
    tri = MeshTri.init_tensor(np.linspace(0, 1, 13), np.linspace(0, 1, 13))
    (x, y), t = tri.p, np.linspace(0, 0.05, 21)[:, None]
    modes = ((1, 0, 1.0), (2, 1, 0.5), (0, 2, 0.3))
    u = sum(
        a * np.exp(-(np.pi**2) * (k * k + m * m) * t) * np.cos(k * np.pi * x) * np.cos(m * np.pi * y)
        for k, m, a in modes
    )
    data = noisy(Data(t[:, 0], {"u": u}, Mesh(tri.p.T, tri.t.T, "triangle")), 1e-3)
    library = Library({"u": ["laplacian(u)", "u", "u**2"]}, boundary=ZeroNeumann())
    found = discover(data, library)
    assert found.verdict == "consistent"
    assert found.names == ("laplacian(u)",)
    assert abs(found.theta[0] - 1) < 3 * found.sd[0]
    coarse = discover(data, library, method=Method(tests=Galerkin()))
    assert coarse.verdict != "consistent"  # the mesh is too coarse for this noise
    assert coarse.check is not None
    assert any("fewer nodes" in reason for reason in coarse.check.reasons), coarse.check.reasons


@pytest.mark.parametrize("noise", [None, UnknownScale(), IID(0.01)], ids=["measured", "unknown", "stated"])
def test_outliers_are_weighted_down_whatever_is_known_of_the_noise(noise: UnknownScale | IID | None) -> None:
    data, rng = travelling(41), np.random.default_rng(1)
    u = np.array(data.fields["u"])
    u.flat[rng.choice(u.size, 30, replace=False)] += rng.choice([-1.0, 1.0], 30)
    found = discover(data.with_fields({"u": u}), LIBRARY, noise=noise)
    assert set(found.names) == set(TRUTH)
    for name, value in TRUTH.items():
        assert abs(found.coefficient(name) - value) < 4 * found.sd[found.names.index(name)]
    assert len(found.settings["noise"]) < 200


def test_the_probability_of_an_operator_agrees_with_its_interval() -> None:
    found = discover(travelling(41), Library({"u": ["dx(u)", "laplacian(u)", "u"]}, keep=["u"]), check=False)
    low, high = found.posterior.interval()[found.names.index("u")]
    assert low < 0 < high
    probability = found.inclusion()
    assert probability["u"] < 0.2
    assert probability["laplacian(u)"] > 0.999
    assert f"{probability['u']:.3f}" in next(row for row in found.table.splitlines() if row.startswith("u "))
