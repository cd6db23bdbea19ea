"""Discovery from datasets of xarray and tables of pandas."""

from __future__ import annotations

import numpy as np
import pytest

import bvsi.app.accessors  # noqa: F401
from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.errors import BvsiError, DataError
from bvsi.noise import add_noise
from bvsi.operators import Library

CANDIDATES = {"u": ["dx(dx(u))", "dx(u)", "u"]}


def advected() -> Data:
    """u_t = 0.3 u_xx − u_x."""
    x, t = np.arange(32) * 2 * np.pi / 32, np.linspace(0, 1, 25)[:, None]
    u = sum(np.exp(-0.3 * k**2 * t) * np.sin(k * (x - t)) / k for k in (1, 2, 3))
    clean = Data.from_arrays({"u": u}, times=t.ravel(), geometry=Grid(x=x, periodic="x"))
    return add_noise(clean, 0.01, np.random.default_rng(0))


def test_datasets_arrays_and_tables_give_what_discover_gives():
    data = advected()
    expected = discover(data, Library(CANDIDATES), check=False)
    dataset = data.to_xarray()
    table = dataset.to_dataframe().reset_index().sample(frac=1, random_state=0)
    found = [
        dataset.bvsi.discover(CANDIDATES, time="time", check=False),
        dataset["u"].bvsi.discover(Library(CANDIDATES), time="time", check=False),
        table.bvsi.discover(CANDIDATES, time="time", places=["x"], periodic="x", check=False),
    ]
    for one in found:
        assert one.names == expected.names
        np.testing.assert_allclose(one.theta, expected.theta, rtol=1e-9)


def test_series():
    t = np.linspace(0, 6, 200)
    noise = 0.01 * np.random.default_rng(0).standard_normal((2, 200))
    import pandas as pd

    table = pd.DataFrame({"t": t, "a": np.cos(t) + noise[0], "b": -np.sin(t) + noise[1]})
    found = table.bvsi.discover({"a": ["a", "b"], "b": ["a", "b"]}, time="t", check=False)
    assert found.coefficient("a: b") == pytest.approx(1, abs=0.02)
    assert found.coefficient("b: a") == pytest.approx(-1, abs=0.02)
    data = table.bvsi.data(time="t")
    assert data.names == ("a", "b")


def test_tables_that_are_no_grids_are_refused():
    import pandas as pd

    table = pd.DataFrame({"t": [0.0, 0.0, 1.0, 1.0], "x": [0.1, 0.5, 0.2, 0.7], "u": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(DataError, match="no column 'y'"):
        table.bvsi.data(time="t", places=["y"])
    with pytest.raises(DataError, match="two rows"):
        table.bvsi.data(time="t")
    scattered = pd.DataFrame(np.random.default_rng(0).uniform(size=(40, 4)), columns=["t", "x", "y", "u"])
    with pytest.raises(DataError, match="no grid"):
        scattered.bvsi.data(time="t", places=["x", "y"])
    with pytest.raises(BvsiError):
        table.bvsi.discover({"u": ["u"]}, time="t", places=["x"])
