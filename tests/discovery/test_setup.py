"""The one record behind every fit: some of its operators, some of its data, other parts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.data._arrays import mapped as mapped_file
from bvsi.discovery.method import choose_method
from bvsi.noise import Diagonal, PerTime
from bvsi.noise.measurement import measure
from bvsi.operators import Library
from bvsi.setup import Setup
from discovery.exact_cases import BURGERS, ROTATION, burgers, noisy, rotation

SIGMA = 0.01


def setup_of(data, library: Library = BURGERS, noise=None) -> Setup:
    return choose_method([measure(data, noise)], library).setup


@pytest.mark.parametrize("data, library", [(burgers(), BURGERS), (rotation(), ROTATION)], ids=["one", "two fields"])
def test_some_operators_are_those_of_the_whole_in_the_order_asked_for(data, library):
    setup = setup_of(noisy(data, SIGMA), library)
    names = tuple(reversed(library.names))[::2]
    some, whole = setup.likelihood(names), setup.likelihood().restrict(names)
    assert some.names == whole.names == names
    for one, other in zip(some.parts, whole.parts, strict=True):
        assert_allclose(one.residuals.Z, other.residuals.Z, rtol=1e-12, atol=1e-14)


def test_one_equation_of_several_keeps_the_name_of_its_field():
    setup = setup_of(noisy(rotation(), SIGMA), ROTATION)
    names = tuple(name for name in ROTATION.names if name.startswith("u: "))
    assert setup.likelihood(names).names == names


def test_other_parts_leave_the_record_as_it_was():
    setup = setup_of(noisy(burgers(), SIGMA))
    other = setup.with_(library=BURGERS.subset(BURGERS.names[:2]))
    assert setup.library is BURGERS
    assert other.likelihood().names == BURGERS.names[:2]
    assert other.data is setup.data
    with pytest.raises(dataclasses.FrozenInstanceError):
        setup.data = ()


def test_half_of_the_data_have_half_of_the_noise_model_and_gaps_as_wide_as_before():
    data = noisy(burgers(), SIGMA)
    sigma = np.linspace(0.005, 0.02, len(data.times))
    setup = setup_of(data, noise=PerTime(sigma))
    half = setup.at(slice(None, None, 2), {"x": slice(None, None, 2)})
    assert_array_equal(half.noise[0].sigma, sigma[::2])
    assert_array_equal(half.data[0].fields["u"], data.fields["u"][::2, ::2])
    before, after = (one.stencil.gap * np.diff(one.data[0].times[:2])[0] for one in (setup, half))
    assert_allclose(after, before, rtol=0.5)
    spread = np.linspace(1, 2, data.fields["u"].size).reshape(data.fields["u"].shape)
    uneven = setup.with_(noise=(Diagonal({"u": spread}),)).at(slice(0, 9), {"x": slice(1, None, 3)})
    assert_array_equal(uneven.noise[0].sigma["u"], spread[:9, 1::3])


def test_parts_of_a_mapped_file_are_mapped_files(tmp_path):
    data = noisy(burgers(), SIGMA)
    u = data.fields["u"]
    u.tofile(tmp_path / "u")
    mapped = data.with_fields({"u": np.memmap(tmp_path / "u", dtype=float, mode="r", shape=u.shape)})
    setup = setup_of(data).with_(data=(mapped,))
    for frames, nodes in ((slice(None, None, 2), None), (slice(None), {"x": slice(None, None, 2)})):
        part = setup.at(frames, nodes).data[0].fields["u"]
        assert_array_equal(part, u[frames][:, :: 1 if nodes is None else 2])
        assert mapped_file(part) is not None
