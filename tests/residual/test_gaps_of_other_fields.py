"""An equation reads all fields at a node: where one of them is missing its residuals are not used."""

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.operators import Library

T = np.linspace(0, 30, 301)
TRUTH = {"u": {"v": 1.0}, "v": {"u": -1.0, "u**2*v": -0.5, "v": 0.5}}  # van der Pol
LIBRARY = {f: ["u", "v", "u**2", "u*v", "v**2", "u**3", "u**2*v", "u*v**2", "v**3"] for f in "uv"}


def oscillator(seed):
    from scipy.integrate import solve_ivp

    y = solve_ivp(lambda t, y: [y[1], -y[0] + 0.5 * (1 - y[0] ** 2) * y[1]], (0, 30), [2, 0], t_eval=T, rtol=1e-9).y
    return y + 0.02 * np.random.default_rng(seed).standard_normal(y.shape)


def with_holes(junk, seed=0, grid=None):
    """Both fields with a hole of 20 frames, at different times."""
    u, v = oscillator(seed)
    fields = {"u": u[:, None].copy(), "v": v[:, None].copy()}
    measured = {name: np.ones((len(T), 1), dtype=bool) for name in fields}
    for name, begin in (("u", 90), ("v", 180)):
        fields[name][begin : begin + 20] = junk
        measured[name][begin : begin + 20] = False
    return Data(T, fields, Grid() if grid is None else grid, measured=measured)


def test_what_stands_in_a_hole_of_another_field_does_not_matter():
    one, other = (discover(with_holes(junk), Library(LIBRARY)) for junk in (0.0, 1e3))
    assert one.names == other.names
    np.testing.assert_allclose(one.theta, other.theta, rtol=1e-6)
    np.testing.assert_allclose(one.sd, other.sd, rtol=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_holes_at_different_places_leave_the_answer_right(seed):
    found = discover(with_holes(0.0, seed), Library(LIBRARY))
    truth = {f"{f}: {name}": value for f, own in TRUTH.items() for name, value in own.items()}
    assert set(found.names) == set(truth)
    z = [(t - truth[n]) / s for n, t, s in zip(found.names, found.theta, found.sd, strict=True)]
    assert np.max(np.abs(z)) < 4
    assert found.chi2 < 1.4
