"""A worker that is killed in the middle of a fit changes nothing."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
from numpy.testing import assert_allclose

from bvsi.cluster import cluster_likelihood
from bvsi.inference import Profile

from .cluster_cases import CASES
from .conftest import started


class Killer:
    """A progress callback that kills one worker after some evaluations, while the next is under way."""

    def __init__(self, after: int) -> None:
        self.after, self.pids, self.seen = after, [], 0

    def __call__(self, done: float, total: float | None, what: str) -> None:
        self.seen += "evaluations" in what
        if self.seen == self.after:
            threading.Timer(0.005, os.kill, (self.pids[1], signal.SIGKILL)).start()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_result_is_the_same():
    case = CASES["temporal tests"]
    expected = Profile().fit(case.local())
    killer = Killer(after=4)
    with started(3) as client:
        killer.pids = list(client.run(os.getpid).values())
        remote = cluster_likelihood(client, case.data, case.library, case.noise, stencil=case.stencil, progress=killer)
        found = Profile().fit(remote)
        for _ in range(100):  # the timer may be late
            if not alive(killer.pids[1]):
                break
            time.sleep(0.05)
        assert not alive(killer.pids[1])
        again = remote.normal_equations(np.zeros(remote.d))  # also where it died after the last evaluation
    assert killer.seen > killer.after
    assert_allclose(found.theta, expected.theta, rtol=0, atol=1e-8 * np.abs(expected.theta).max())
    sd = np.sqrt(np.diag(expected.posterior.covariance))
    difference = (found.posterior.covariance - expected.posterior.covariance) / np.outer(sd, sd)
    assert np.abs(difference).max() < 1e-6
    assert_allclose(again.q, case.local().normal_equations(np.zeros(remote.d)).q, rtol=1e-10)
