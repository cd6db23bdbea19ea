"""Everything that a likelihood is asked for is the same on the cluster, to rounding."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from bvsi.cluster.place import Workers
from bvsi.common.progress import silent
from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.infer import Lagged, LeastSquares, Profile
from bvsi.likelihood import Isotropic, Stacked

from .cluster_cases import CASES

TOLERANCE = 1e-10
ASKED = {
    "normal": lambda likelihood, theta: likelihood.normal_equations(theta),
    "profile": lambda likelihood, theta: likelihood.profile_equations(theta),
    "sandwich": lambda likelihood, theta: likelihood.profile_equations(theta, rng=np.random.default_rng(1)),
    "path": lambda likelihood, theta: likelihood.profile_equations(theta, smoothing=0.5, rng=np.random.default_rng(2)),
    "instruments": lambda likelihood, theta: likelihood.instrumental_equations(theta),
    "noise share": lambda likelihood, theta: likelihood.noise_share(np.random.default_rng(3)),
    "density": lambda likelihood, theta: likelihood.density(theta, gradient=True),
    "log density": lambda likelihood, theta: likelihood.log_density(theta),
    "moments": lambda likelihood, theta: likelihood.moment_equations(theta, rng=np.random.default_rng(4), draws=2),
}
NEEDS_NOISE = ("profile", "sandwich", "path", "instruments", "noise share")


@pytest.fixture(scope="module")
def pairs(client):
    """Local and remote likelihood of a case, made once."""
    made = {}

    def pair(name):
        if name not in made:
            made[name] = (CASES[name].local(), CASES[name].on(client))
        return made[name]

    return pair


def same(found, expected) -> None:
    """Equal to rounding, whatever records they are."""
    if is_dataclass(expected):
        for one in fields(expected):
            same(getattr(found, one.name), getattr(expected, one.name))
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            same(found[key], value)
    elif expected is None:
        assert found is None
    else:
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.max(np.abs(expected), initial=1e-300))


def asked_of(case) -> list[str]:
    if isinstance(case.weighting, Isotropic):
        return [name for name in ASKED if name not in (*NEEDS_NOISE, "moments")]
    return [name for name in ASKED if name != "moments" or isinstance(case.weighting, Stacked)]


@pytest.mark.parametrize(("name", "what"), [(n, what) for n, case in CASES.items() for what in asked_of(case)])
def test_sums(pairs, name, what):
    local, remote = pairs(name)
    same(ASKED[what](remote, CASES[name].theta), ASKED[what](local, CASES[name].theta))


@pytest.mark.parametrize("name", CASES)
def test_sizes_and_names(pairs, name):
    local, remote = pairs(name)
    assert (remote.names, remote.n, remote.d, remote.rows) == (local.names, local.n, local.d, local.rows)
    assert remote.scale_known == local.scale_known
    assert remote.system.description == local.system.description
    same(remote.block_rows, local.block_rows)


@pytest.mark.parametrize("name", ["backward Euler", "fourth order", "missing values", "stacked"])
def test_fewer_operators(pairs, name):
    few = CASES[name].library.names[2::-2]
    local, remote = (likelihood.restrict(few) for likelihood in pairs(name))
    theta = CASES[name].theta[: len(few)]
    for what in ("normal", "sandwich"):
        same(ASKED[what](remote, theta), ASKED[what](local, theta))


def test_operators_tied_together(pairs):
    T = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 0], [0, -1, 0]])
    local, remote = (likelihood.combined(T, ("a", "b", "c")) for likelihood in pairs("backward Euler"))
    theta = np.array([0.01, 0.02, -0.01])
    same(remote.profile_equations(theta), local.profile_equations(theta))
    same(
        remote.restrict(["c", "a"]).normal_equations(theta[1:]), local.restrict(["c", "a"]).normal_equations(theta[1:])
    )


@pytest.mark.parametrize("name", ["backward Euler", "temporal tests", "two experiments", "missing values"])
@pytest.mark.parametrize("every", [2, 5, 9])
def test_some_blocks(pairs, name, every):
    """Also where a piece has none of them, and where its neighbours have blocks with the same times."""
    local, remote = pairs(name)
    chosen = [np.arange(1, len(rows), every) for rows in local.block_rows]
    for what in ("normal", "sandwich", "instruments", "noise share", "density"):
        same(
            ASKED[what](remote.some_blocks(chosen), CASES[name].theta),
            ASKED[what](local.some_blocks(chosen), CASES[name].theta),
        )


@pytest.mark.parametrize("estimator", [Profile(), Lagged(), LeastSquares()], ids=lambda e: type(e).__name__)
def test_fits(pairs, estimator):
    local, remote = (estimator.fit(likelihood) for likelihood in pairs("backward Euler"))
    same((remote.theta, remote.chi2, remote.chi2_blocks), (local.theta, local.chi2, local.chi2_blocks))
    assert remote.status == local.status
    if local.posterior is not None:
        same(remote.posterior.covariance, local.posterior.covariance)


def misfit_at(likelihood, scale):
    return likelihood.normal_equations(np.full(likelihood.d, scale)).q


def test_each(pairs):
    for name in ("backward Euler", "stacked"):
        local, remote = pairs(name)
        scales = [0.3, 0.01, 0.2]
        same(tuple(remote.each(misfit_at, scales)), tuple(local.each(misfit_at, scales)))
        few = ["u", "laplacian(u)"]
        same(tuple(remote.restrict(few).each(misfit_at, [0.1])), tuple(local.restrict(few).each(misfit_at, [0.1])))


def broken(likelihood, item):
    raise NotPositiveDefiniteError(f"covariance of {item}", "label", 3)


def test_errors_of_workers_arrive(pairs):
    local, remote = pairs("backward Euler")
    with pytest.raises(NotPositiveDefiniteError, match="covariance of 7") as caught:
        remote.each(broken, [7])
    assert (caught.value.label, caught.value.row) == ("label", 3)
    del local


def negative(value):
    if value < 0:
        raise BvsiError(f"value: {value} is negative; take another.")
    return value


def total(values):
    return sum(values)


def test_failures_that_are_handled_are_not_printed_by_workers(client):
    """Nor those of tasks that need what failed."""
    place = Workers.of(client, silent)
    wanted = place.calls(negative, [(1.0,), (-2.0,)])
    with pytest.raises(BvsiError, match=r"^value: -2\.0 is negative"):
        place.values(place.calls(total, [(wanted,)]))
    assert place.values(place.calls(total, [(wanted[:1],)])) == [1.0]
    assert "Compute Failed" not in str(client.get_worker_logs())


def test_residuals_are_elsewhere(pairs):
    with pytest.raises(BvsiError, match="on the workers"):
        _ = pairs("backward Euler")[1].parts
