"""A worker that is killed in the middle of the work changes nothing."""

from __future__ import annotations

import os

import numpy as np
from numpy.testing import assert_allclose

from bvsi.cluster import cluster_likelihood, piece

from .cluster_cases import CASES
from .conftest import started


def doom() -> None:
    """On a worker: it ends at once, and leaves everything as it is, when it is next asked for sums of a piece."""
    piece.Piece.of = lambda *_: os._exit(1)


def test_the_result_is_the_same():
    case, local = CASES["temporal tests"], CASES["temporal tests"].local()
    thetas = [case.theta * scale for scale in np.linspace(0.5, 2, 5)]
    found = []
    with started(3) as client:
        remote = cluster_likelihood(client, case.data, case.library, case.noise, stencil=case.stencil)
        workers = client.run(os.getpid)
        doomed = min(workers)
        for number, theta in enumerate(thetas):
            if number == 2:
                client.run(doom, workers=[doomed])
            found.append(remote.profile_equations(theta, rng=np.random.default_rng(1)))
        assert workers[doomed] not in client.run(os.getpid).values()
    for one, theta in zip(found, thetas, strict=True):
        expected = local.profile_equations(theta, rng=np.random.default_rng(1))
        for a, b in ((one.equations.H, expected.equations.H), (one.S, expected.S), (one.N, expected.N)):
            assert_allclose(a, b, rtol=0, atol=1e-10 * np.abs(b).max())
        assert_allclose(one.scores[0], expected.scores[0], rtol=0, atol=1e-10 * np.abs(expected.scores[0]).max())
