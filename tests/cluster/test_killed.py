"""A worker that is killed in the middle of the work changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.cluster import cluster_likelihood, piece

from .cluster_cases import CASES
from .conftest import started
from .test_cluster_tiles import on


@pytest.fixture(scope="module")
def mortals():
    """A cluster of its own, of which workers die: the one of the folder serves other tests."""
    with started(3) as client:
        yield client


def doom(ended: Path) -> None:
    """On a worker: the first of all that is asked for sums of a piece ends at once, and leaves everything as it is."""
    of = piece.Piece.of

    def asked(self, model):
        try:
            ended.touch(exist_ok=False)
        except FileExistsError:  # another one did
            return of(self, model)
        os._exit(1)

    piece.Piece.of = asked


def left(client) -> set[int]:
    """The processes of workers."""
    return set(client.run(os.getpid).values())


def kill_one_of(client, folder) -> set[int]:
    """The processes of workers, of which one ends in the middle of what it is asked for next."""
    client.run(doom, folder / "ended")
    return left(client)


def test_the_result_is_the_same(mortals, tmp_path):
    case, local = CASES["temporal tests"], CASES["temporal tests"].local()
    thetas = [case.theta * scale for scale in np.linspace(0.5, 2, 5)]
    found = []
    remote = cluster_likelihood(mortals, case.data, case.library, case.noise, stencil=case.stencil)
    for number, theta in enumerate(thetas):
        if number == 2:
            before = kill_one_of(mortals, tmp_path)
        found.append(remote.profile_equations(theta, rng=np.random.default_rng(1)))
    assert len(before - left(mortals)) == 1
    for one, theta in zip(found, thetas, strict=True):
        expected = local.profile_equations(theta, rng=np.random.default_rng(1))
        for a, b in ((one.equations.H, expected.equations.H), (one.S, expected.S), (one.N, expected.N)):
            assert_allclose(a, b, rtol=0, atol=1e-10 * np.abs(b).max())
        assert_allclose(one.scores[0], expected.scores[0], rtol=0, atol=1e-10 * np.abs(expected.scores[0]).max())


def test_stretches_with_tiles_are_the_same(mortals, tmp_path):
    theta = np.array([0.01, 0.02, -0.01, 0.02, 0.03])
    found = []
    mortals.wait_for_workers(3)
    remote = on(mortals)
    assert len(remote.seats) > 2
    for round_ in range(2):
        if round_:
            before = kill_one_of(mortals, tmp_path)
        found.append(remote.profile_equations(theta, rng=np.random.default_rng(1)))
    assert len(before - left(mortals)) == 1
    for name in ("S", "N"):
        assert_allclose(getattr(found[1], name), getattr(found[0], name), rtol=1e-12)
    assert_allclose(found[1].equations.H, found[0].equations.H, rtol=1e-12)
