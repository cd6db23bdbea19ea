"""A worker that is killed in the middle of the work changes nothing."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
from numpy.testing import assert_allclose

from bvsi.cluster import cluster_likelihood

from .cluster_cases import CASES
from .conftest import started


class Killer:
    """A progress callback that kills one worker after some evaluations, while the next is under way."""

    def __init__(self, after: int) -> None:
        self.after, self.pids, self.seen = after, [], 0

    def __call__(self, done: float, total: float | None, what: str) -> None:
        self.seen += "evaluations" in what
        if self.pids and self.seen == self.after:
            threading.Timer(0.005, os.kill, (self.pids[1], signal.SIGKILL)).start()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_result_is_the_same():
    case, local = CASES["temporal tests"], CASES["temporal tests"].local()
    thetas = [case.theta * scale for scale in np.linspace(0.5, 2, 8)]
    killer = Killer(after=3)
    with started(3) as client:
        killer.pids = list(client.run(os.getpid).values())
        remote = cluster_likelihood(client, case.data, case.library, case.noise, stencil=case.stencil, progress=killer)
        found = [remote.profile_equations(theta, rng=np.random.default_rng(1)) for theta in thetas]
        for _ in range(100):  # the timer may be late
            if not alive(killer.pids[1]):
                break
            time.sleep(0.05)
        assert not alive(killer.pids[1])
        found.append(remote.profile_equations(thetas[0], rng=np.random.default_rng(1)))  # if it died after the others
    assert killer.seen == len(found)
    for one, theta in zip(found, [*thetas, thetas[0]], strict=True):
        expected = local.profile_equations(theta, rng=np.random.default_rng(1))
        for a, b in ((one.equations.H, expected.equations.H), (one.S, expected.S), (one.N, expected.N)):
            assert_allclose(a, b, rtol=0, atol=1e-10 * np.abs(b).max())
        assert_allclose(one.scores[0], expected.scores[0], rtol=0, atol=1e-10 * np.abs(expected.scores[0]).max())
