"""Workers read the frames of their own pieces from a Zarr store."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.cluster import Stored, cluster_likelihood
from bvsi.errors import DataError
from bvsi.likelihood import IID, residual_likelihood
from bvsi.readers import Reading
from bvsi.residual import assemble

from .cluster_cases import LIBRARY, SIGMA, TIMES, waves

pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "waves.zarr"
    waves(TIMES).to_xarray().to_zarr(path, encoding={"u": {"chunks": (3, 20)}}, consolidated=False)
    return path


def test_frames(store):
    stored = Stored(store)
    assert_array_equal(stored.times, TIMES)
    some = stored.frames(4, 9).data()
    assert_array_equal(some.times, TIMES[4:9])
    assert_array_equal(some.fields["u"], waves(TIMES).fields["u"][4:9])
    with pytest.raises(DataError, match="it has 17"):
        stored.frames(4, 18)


def test_a_selection(store):
    stored = Stored(store, Reading(select={"time": (0.2, 0.8)}))
    inside = TIMES[(TIMES >= 0.2) & (TIMES <= 0.8)]
    assert_array_equal(stored.times, inside)
    assert_array_equal(stored.frames(0, 2).data().times, inside[:2])


def test_the_same_sums(client, store):
    local = residual_likelihood(assemble(waves(TIMES), LIBRARY), IID(SIGMA))
    remote = cluster_likelihood(client, Stored(store), LIBRARY, IID(SIGMA))
    theta = np.full(local.d, 0.01)
    one, other = (x.profile_equations(theta, rng=np.random.default_rng(0)) for x in (remote, local))
    assert_allclose(one.S, other.S, rtol=0, atol=1e-10 * np.abs(other.S).max())
    assert_allclose(one.equations.H, other.equations.H, rtol=0, atol=1e-10 * np.abs(other.equations.H).max())


def test_no_file(client):
    with pytest.raises(DataError):
        cluster_likelihood(client, Stored("nowhere.zarr"), LIBRARY, IID(SIGMA))
