"""What is said where data cannot tell: static fields, few frames, meshes that cannot be thinned, outliers."""

from __future__ import annotations

import numpy as np
import pytest
from skfem import MeshTri

from bvsi.data import Data, Mesh
from bvsi.discovery import discover
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Library, ZeroNeumann
from discovery.exact_cases import BURGERS, BURGERS_TRUTH, burgers, noisy, ring

LIBRARY = Library({"u": ["dx(u)", "laplacian(u)", "u", "u**2"]})
TRUTH = {"dx(u)": -0.5, "laplacian(u)": 0.1}


def travelling(times: int) -> Data:
    """u_t = −½ u_x + 0.1 u_xx on a ring, mode by mode."""
    grid, t = ring(64), np.linspace(0, 2, times)[:, None]
    modes = ((1, 1.0, 0.0), (2, 0.7, 1.0), (4, 0.5, 2.0))
    u = sum(a * np.exp(-0.1 * k**2 * t) * np.cos(k * (grid.axes["x"] - 0.5 * t) + p) for k, a, p in modes)
    return noisy(Data(t[:, 0], {"u": u}, grid), 0.01)


def test_five_frames_are_checked_in_time() -> None:
    assert discover(travelling(5), LIBRARY).verdict == "under-resolved in time"


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


def test_where_space_cannot_be_tried_the_advice_says_so() -> None:
    tri = MeshTri.init_tensor(np.linspace(0, 1, 13), np.linspace(0, 1, 13))
    (x, y), t = tri.p, np.linspace(0, 0.05, 21)[:, None]
    modes = ((1, 0, 1.0), (2, 1, 0.5), (0, 2, 0.3))
    u = sum(
        a * np.exp(-(np.pi**2) * (k * k + m * m) * t) * np.cos(k * np.pi * x) * np.cos(m * np.pi * y)
        for k, m, a in modes
    )
    data = noisy(Data(t[:, 0], {"u": u}, Mesh(tri.p.T, tri.t.T, "triangle")), 1e-3)
    found = discover(data, Library({"u": ["laplacian(u)", "u", "u**2"]}, boundary=ZeroNeumann()))
    assert found.verdict != "consistent"  # the mesh is too coarse for this noise
    assert found.check is not None
    assert "too coarse in space, which could not be tried" in found.check.advice
    assert not any("nodes" in reason for reason in found.check.reasons)


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
