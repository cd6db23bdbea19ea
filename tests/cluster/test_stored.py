"""Workers read the frames of their own pieces from a Zarr store."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bvsi
from bvsi.app.readers import Reading
from bvsi.cluster import Stored, cluster_likelihood, sources
from bvsi.errors import DataError
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.residual import BackwardEuler, assemble

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


def test_discoveries_read_the_file_where_it_is_the_same(client, store):
    data, options = waves(TIMES), {"noise": IID(SIGMA), "method": bvsi.Method(stencil=BackwardEuler()), "check": False}
    assert sources([data], [data], [Stored(store)]) == [Stored(store)]
    found = bvsi.discover(data, LIBRARY, client=client, stored=[Stored(store)], **options)
    expected = bvsi.discover(data, LIBRARY, **options)
    assert found.names == expected.names
    assert_allclose(found.theta, expected.theta, rtol=1e-8)


def test_other_data_are_sent(store):
    data = waves(TIMES)
    replaced = data.with_fields({"u": data.fields["u"] + 1})
    assert sources([replaced], [data], [Stored(store)]) == [replaced]
    for other in (data.select_times(slice(1, None)), data.subsample(2)):
        assert sources([other], [other], [Stored(store)]) == [other]
    with pytest.raises(DataError, match="stored: one"):
        sources([data, data], [data, data], [Stored(store)])


def test_another_file_is_refused(store):
    wrong = waves(TIMES).with_fields({"u": waves(TIMES, seed=9).fields["u"]})
    (source,) = sources([wrong], [wrong], [Stored(store)])
    with pytest.raises(DataError, match="holds other values"):
        source.frames(3, 6).data()


def test_no_file(client):
    with pytest.raises(DataError):
        cluster_likelihood(client, Stored("nowhere.zarr"), LIBRARY, IID(SIGMA))
