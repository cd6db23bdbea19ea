"""Groups of blocks on several threads: the same numbers to the last digit, the same errors, few factors at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info

from bvsi.errors import NotPositiveDefiniteError
from bvsi.likelihood import Block, ResidualLikelihood, covariance, residual_likelihood
from bvsi.likelihood.covariance import over_groups
from bvsi.linalg import Analysis, Factor, usable_cores
from bvsi.noise import IID, PerTime
from bvsi.operators import Library, NoFlux
from bvsi.residual import BackwardEuler, CrankNicolson, assemble
from inference.cases import smooth_1d

TIMES = np.cumsum(np.r_[0.0, 0.05 * 1.1 ** np.arange(12)])
LINEAR = Library({"u": ["laplacian(u)", "u"]}, boundary=NoFlux())
NONLINEAR = Library({"u": ["laplacian(u)", "u*dx(u)", "u"], "v": ["laplacian(v)", "u*v"]}, boundary=NoFlux())
THETA = np.array([0.02, -0.3, 0.4, 0.03, 0.2])
PATIENCE = 60.0
"""Seconds after which a test that waits for another thread fails; no test waits that long."""


@pytest.fixture(autouse=True)
def small_blocks_count(monkeypatch):
    monkeypatch.setattr(covariance, "_LEAST_ENTRIES", 0)


def use(monkeypatch, threads: int) -> None:
    monkeypatch.setattr(covariance, "usable_cores", lambda: threads)


def likelihood_of(stencil=None) -> ResidualLikelihood:
    data = smooth_1d(33, TIMES, fields=("u", "v"))
    system = assemble(data, NONLINEAR, stencil=stencil or CrankNicolson())
    return residual_likelihood(system, PerTime(np.linspace(0.01, 0.02, 13)), Block())


def all_numbers(likelihood: ResidualLikelihood) -> list[np.ndarray]:
    profile = likelihood.profile_equations(THETA, rng=np.random.default_rng(0))
    plain = likelihood.profile_equations(THETA, smoothing=0.5)
    normal, instrumental = likelihood.normal_equations(THETA), likelihood.instrumental_equations(THETA)
    numbers = [profile.S, profile.N, profile.scores[0], instrumental.A, instrumental.c]
    for equations in (profile.equations, plain.equations, normal):
        numbers += [equations.H, equations.g, equations.q_blocks[0], np.array(equations.logdet)]
    return [*numbers, likelihood.logdet_gradient(THETA)]


@pytest.mark.parametrize("stencil", [BackwardEuler(), CrankNicolson()], ids=lambda s: type(s).__name__)
def test_the_number_of_threads_does_not_show_in_any_digit(monkeypatch, stencil):
    likelihood = likelihood_of(stencil)
    use(monkeypatch, 1)
    expected = all_numbers(likelihood)
    for threads in (2, 5, 40):
        use(monkeypatch, threads)
        for found, one in zip(all_numbers(likelihood), expected, strict=True):
            assert_array_equal(found, one)


def test_results_come_in_the_order_of_the_groups(monkeypatch):
    use(monkeypatch, 4)
    (part,) = likelihood_of().parts
    done = [threading.Event() for _ in range(12)]

    def overtaken(one) -> int:
        """Every fourth group ends after the next one."""
        k = int(one.blocks[0])
        if k % 4 == 0:
            assert done[k + 1].wait(PATIENCE)
        done[k].set()
        return k

    assert list(over_groups(part, THETA, overtaken)) == list(range(12))


@dataclass
class Watched:
    """An analysis that notes what it factorises, and fails where told, at the first of these blocks last.

    later: set as soon as the last of them has failed; None where groups come one after the other.
    """

    inner: Analysis
    fails: tuple[int, ...] = ()
    later: threading.Event | None = None
    labels: list[str] = field(default_factory=list)

    def factor(self, values: np.ndarray, *, label: str) -> Factor:
        self.labels.append(label)
        k = int(label.rsplit(" ", 1)[1])
        if k in self.fails:
            if self.later is not None and k == self.fails[0]:
                assert self.later.wait(PATIENCE)
            elif self.later is not None:
                self.later.set()
            raise NotPositiveDefiniteError(label, label, k)
        return self.inner.factor(values, label=label)


def watched(fails: tuple[int, ...], later: threading.Event | None):
    (part,) = likelihood_of().parts
    analysis = Watched(part.covariance.analysis, fails, later)
    vars(part.covariance)["analysis"] = analysis
    return part, analysis


@pytest.mark.parametrize("threads", [1, 3])
def test_the_error_is_that_of_the_first_group_and_the_rest_is_left_undone(monkeypatch, threads):
    use(monkeypatch, threads)
    part, analysis = watched((2, 3), threading.Event() if threads > 1 else None)
    with pytest.raises(NotPositiveDefiniteError, match="experiment 0, block 2"):
        Block().normal_equations(part, THETA)
    assert len(analysis.labels) < 12


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_as_many_groups_are_under_way_as_there_are_threads(monkeypatch, threads):
    """None gets past the barrier before all threads have a group; one more at that time would be counted."""
    use(monkeypatch, threads)
    (part,) = likelihood_of().parts
    together, lock, counts, most = threading.Barrier(threads, timeout=PATIENCE), threading.Lock(), [0], [0]

    def work(one) -> None:
        with lock:
            counts[0] += 1
            most[0] = max(most[0], counts[0])
        together.wait()
        with lock:
            counts[0] -= 1
        together.wait()

    list(over_groups(part, THETA, work))
    assert most[0] == threads


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [1, 2])
def test_blas_is_limited_where_there_are_several_groups_only(monkeypatch, threads):
    use(monkeypatch, threads)
    before = blas_threads()
    (several,) = likelihood_of().parts
    system = assemble(smooth_1d(9, np.linspace(0, 1, 6)), LINEAR)
    (single,) = residual_likelihood(system, IID(0.1)).parts
    assert all(seen == {1} for seen in over_groups(several, THETA, lambda _: blas_threads()))
    assert list(over_groups(single, np.array([0.1, 0.2]), lambda _: (blas_threads(), threading.current_thread()))) == [
        (before, threading.main_thread())
    ]
    assert blas_threads() == before


def test_small_blocks_stay_on_the_thread_of_the_caller(monkeypatch):
    monkeypatch.setattr(covariance, "_LEAST_ENTRIES", 10**9)
    (part,) = likelihood_of().parts
    assert set(over_groups(part, THETA, lambda _: threading.current_thread())) == {threading.main_thread()}


def test_some_core_is_usable():
    assert usable_cores() >= 1
