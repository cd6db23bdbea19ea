"""Numbers that stand for what was not measured are named, and legitimate data are left alone."""

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.data._given import _End
from bvsi.errors import DataError

T, X = np.linspace(0, 1, 11), np.linspace(0, 1, 20)
SMOOTH = np.sin(3 * X + T[:, None])


def data(u, **more):
    return Data.from_arrays({"u": u}, times=T, geometry=Grid(x=X), **more)


def with_fill(value, count=7, u=SMOOTH):
    spoilt = np.array(u)
    spoilt.flat[np.random.default_rng(0).choice(u.size, count, replace=False)] = value
    return spoilt


FILLS = [
    9.96921e36,
    float(np.float32(9.969209968386869e36)),
    -9999,
    -999.0,
    1e20,
    float(np.float32(1e20)),
    -1e30,
    -32768,
]


@pytest.mark.parametrize("value", FILLS)
def test_a_well_known_fill_value_is_named_with_its_number_and_the_remedy(value):
    with pytest.raises(DataError, match=r"field 'u' holds the value .* 7 times.*missing='nan'") as caught:
        data(with_fill(value))
    assert f"{value:.6g}" in str(caught.value)


def test_one_of_them_is_enough():
    with pytest.raises(DataError, match="1 times"):
        data(with_fill(-9999, 1))


def test_a_number_nobody_knows_is_found_when_it_is_absurd_and_repeated():
    with pytest.raises(DataError, match=r"-7.77e\+08 3 times"):
        data(with_fill(-7.77e8, 3))
    data(with_fill(-7.77e8, 1))  # one wild value is an outlier, which is weighted down


def test_integers_have_fill_values_too():
    counts = np.random.default_rng(0).poisson(50, SMOOTH.shape).astype(np.int16)
    with pytest.raises(DataError, match="-32768 4 times"):
        data(with_fill(-32768, 4, counts))


def test_fill_values_that_are_declared_as_not_measured_do_not_matter():
    spoilt = with_fill(-9999)
    assert Data(T, {"u": spoilt}, Grid(x=X), measured={"u": spoilt != -9999}).measured is not None
    assert data(np.where(spoilt == -9999, np.nan, spoilt), missing="nan").measured is not None


RNG = np.random.default_rng(1)
LEGITIMATE = {
    "counts with zeros": RNG.poisson(0.02, SMOOTH.shape),
    "bright droplets on black": np.where(SMOOTH > 0.9, 1000 + RNG.normal(size=SMOOTH.shape), 0.0),
    "a saturated camera": np.minimum(np.round(4e4 * (1 + SMOOTH)), 65535),
    "another saturated camera": np.minimum(np.exp(7 * (1 + SMOOTH)), 9999),
    "plateaus": np.where(SMOOTH > 0.5, 1.0, 1e-7 * RNG.normal(size=SMOOTH.shape) + 0.1),
    "two phases": np.where(SMOOTH > 0, 1.0, -1.0),
    "a binary image": np.where(SMOOTH > 0.5, 65535, 0),
    "seeds on a trace": np.where(SMOOTH > 0.95, 1.0, 1e-9 * (1 + RNG.random(SMOOTH.shape))),
    "a lone seed": np.where(SMOOTH.max() == SMOOTH, 1.0, 0.0),
    "zero": np.zeros_like(SMOOTH),
    "one constant": np.full_like(SMOOTH, -999.0),
    "large units": 1e20 * (1 + 0.1 * SMOOTH),
    "temperatures near 1000": np.round(999 + 3 * SMOOTH),
    "a rare event": with_fill(25.0, 2),
}


@pytest.mark.parametrize("what", LEGITIMATE)
def test_legitimate_data_are_taken(what):
    assert data(LEGITIMATE[what]).n_times == len(T)


@pytest.mark.parametrize("slab", [1, 7, 10**6])
def test_ends_are_those_of_all_slabs(monkeypatch, slab):
    """Lowest and highest value, how often they occur, and the next ones, whatever the slabs; NaN are ignored."""
    monkeypatch.setattr("bvsi.data._arrays._SLAB", slab)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 4, (12, 3)).astype(float)
        values[rng.uniform(size=values.shape) < 0.3] = np.nan
        mask = rng.uniform(size=values.shape) < 0.8
        seen = values[np.isfinite(values) & mask]
        low, high = _End.of(values, mask, 1.0), _End.of(values, mask, -1.0)
        distinct, count = np.unique(seen, return_counts=True)
        assert (low.value, low.count, high.value, high.count) == (distinct[0], count[0], distinct[-1], count[-1])
        assert (low.next, high.next) == ((distinct[1], distinct[-2]) if len(distinct) > 1 else (None, None))
