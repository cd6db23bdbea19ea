"""The best models on quadratic misfits: against looking at all of them, with protection, and without swamped ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.select import subsets
from bvsi.select.elimination import Protection
from bvsi.select.subsets import QuadraticMisfit, best_models, neighbours, swamped

FREE = Protection(frozenset(), ())
N = 400


def names(d: int) -> tuple[str, ...]:
    return tuple(f"f{i}" for i in range(d))


def random_misfit(d: int, seed: int, true: int = 3, *, mix: float = 0.3, known: bool = True) -> QuadraticMisfit:
    """Regression of y on d correlated columns, of which ``true`` make it up; noise has a share of the columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) @ (np.eye(d) + mix * rng.standard_normal((d, d))) * rng.uniform(0.1, 10, d)
    theta = np.zeros(d)
    theta[rng.choice(d, true, replace=False)] = rng.uniform(0.2, 1, true)
    y = X @ (theta / X.std(axis=0)) + rng.standard_normal(N)
    H = X.T @ X
    return QuadraticMisfit(H - 0.005 * np.diag(np.diag(H)), H, X.T @ y, float(y @ y), N, known)


def score(misfit: QuadraticMisfit, model: tuple[int, ...]) -> float:
    """J of one model, written out."""
    s = list(model)
    share = np.linalg.eigvals(np.linalg.solve(misfit.H[np.ix_(s, s)], misfit.H[np.ix_(s, s)] - misfit.A[np.ix_(s, s)]))
    if share.real.max() > 0.5:
        return np.inf
    Q = misfit.q - misfit.g[s] @ np.linalg.solve(misfit.A[np.ix_(s, s)], misfit.g[s])
    m = Q if misfit.known and misfit.n >= Q else misfit.n * (1 + np.log(Q / misfit.n))
    return float(m + len(s) * (np.log(misfit.n) + 2 * np.log(len(misfit.g))))


def brute_force(misfit: QuadraticMisfit, allowed=lambda model: True) -> dict[int, tuple[float, tuple[int, ...]]]:
    d, best = len(misfit.g), {}
    for size in range(1, d + 1):
        scored = [(score(misfit, m), m) for m in itertools.combinations(range(d), size) if allowed(set(m))]
        if scored and np.isfinite(min(scored)[0]):
            best[size] = min(scored)
    return best


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("seed", range(3))
def test_few_operators_are_looked_at_in_all_combinations(seed, known):
    misfit = random_misfit(8, seed, known=known)
    ladder, expected = best_models(misfit, names(8), FREE).best, brute_force(misfit)
    assert set(ladder) == set(expected)
    for size, (J, model) in expected.items():
        assert ladder[size][1] == model
        assert_allclose(ladder[size][0], J, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_many_operators_are_climbed_to_the_same_choice(monkeypatch, seed):
    """Operators that are not too much alike: single ones, then adding, exchanging and dropping find the best model."""
    monkeypatch.setattr(subsets, "_EXHAUSTIVE", 10)
    misfit = random_misfit(10, seed, true=4, mix=0.1)
    ladder, expected = best_models(misfit, names(10), FREE), brute_force(misfit)
    assert ladder.chosen == min(expected.values())[1]


def test_what_is_kept_is_in_all_models_and_every_group_has_a_member():
    misfit = random_misfit(8, 5)
    protection = Protection.of(names(8), ["f1"], [["f2", "f3"], ["f1", "f7"]])
    ladder = best_models(misfit, names(8), protection).best
    expected = brute_force(misfit, lambda m: 1 in m and m & {2, 3})
    assert {size: model for size, (_, model) in ladder.items()} == {size: m for size, (_, m) in expected.items()}


@pytest.mark.parametrize("seed", range(3))
def test_protection_holds_where_models_are_climbed(monkeypatch, seed):
    monkeypatch.setattr(subsets, "_EXHAUSTIVE", 10)
    misfit = random_misfit(10, seed, mix=0.1)
    protection = Protection.of(names(10), ["f1"], [["f2", "f3"]])
    ladder = best_models(misfit, names(10), protection)
    assert all(1 in model and {2, 3} & set(model) for _, model in ladder.best.values())
    expected = brute_force(misfit, lambda m: 1 in m and m & {2, 3})
    assert ladder.chosen == min(expected.values())[1]


def test_groups_are_climbed_from_one_member_of_each(monkeypatch):
    """No model can be looked at exhaustively."""
    monkeypatch.setattr(subsets, "_EXHAUSTIVE", 0)
    misfit = random_misfit(10, 0, mix=0.1)
    ladder = best_models(misfit, names(10), Protection.of(names(10), [], [["f2", "f3"], ["f4", "f5"]]))
    assert ladder.best
    assert all({2, 3} & set(model) and {4, 5} & set(model) for _, model in ladder.best.values())
    assert ladder.chosen == min(brute_force(misfit, lambda m: m & {2, 3} and m & {4, 5}).values())[1]


def test_swamped_models_are_not_looked_at():
    """An operator that is mostly noise seems to explain all: A is near zero there, and g² / A large."""
    misfit = random_misfit(6, 1)
    A, g = misfit.A.copy(), misfit.g.copy()
    A[2] = A[:, 2] = 0.0
    A[2, 2], g[2] = 0.01 * misfit.H[2, 2], 0.2 * np.sqrt(misfit.q * misfit.H[2, 2])
    tempting = QuadraticMisfit(A, misfit.H, g, misfit.q, N)
    ladder = best_models(tempting, names(6), FREE)
    assert all(2 not in model for _, model in ladder.best.values())
    assert tempting.scores([(2,)])[0] == np.inf
    assert swamped(misfit.H[2:3, 2:3], A[2:3, 2:3])
    assert not swamped(misfit.H, misfit.A)


def test_operators_that_are_the_same_are_not_taken_together():
    misfit = random_misfit(5, 2)
    twice = [0, 1, 2, 3, 4, 0]
    doubled = QuadraticMisfit(
        misfit.A[np.ix_(twice, twice)], misfit.H[np.ix_(twice, twice)], misfit.g[twice], misfit.q, N
    )
    ladder = best_models(doubled, names(6), FREE)
    assert all(not {0, 5} <= set(model) for _, model in ladder.best.values())
    assert ladder.best


def test_scores_do_not_depend_on_units():
    misfit = random_misfit(6, 3)
    D = np.diag(10.0 ** np.arange(-6, 6, 2))
    rescaled = QuadraticMisfit(D @ misfit.A @ D, D @ misfit.H @ D, D @ misfit.g, misfit.q, N)
    models = list(itertools.combinations(range(6), 3))
    assert_allclose(rescaled.scores(models), misfit.scores(models), rtol=1e-9)
    theta, other = misfit.solve(models)[1], rescaled.solve(models)[1]
    assert_allclose(other * np.diag(D)[np.array(models)], theta, rtol=1e-6)


def test_coefficients_solve_the_equations_of_their_model():
    misfit = random_misfit(6, 4)
    J, theta = misfit.solve([(0, 2, 5)])
    s = [0, 2, 5]
    assert_allclose(theta[0], np.linalg.solve(misfit.A[np.ix_(s, s)], misfit.g[s]), rtol=1e-9)
    assert_allclose(J[0], score(misfit, (0, 2, 5)), rtol=1e-12)


def test_the_misfit_is_continuous_where_it_meets_the_noise():
    misfit = random_misfit(3, 0)
    below, at, above = misfit.misfit(np.array([N - 1e-6, N, N + 1e-6]))
    assert at == N
    assert below < at < above
    assert_allclose(above - at, at - below, rtol=1e-3)


def test_neighbours_differ_by_one_operator():
    protection = Protection.of(names(5), ["f0"], [["f1", "f2"]])
    fewer, more, exchanged = neighbours((0, 1, 3), names(5), protection)
    assert fewer == [(0, 1)]
    assert more == [(0, 1, 2, 3), (0, 1, 3, 4)]
    assert (0, 2, 3) in exchanged
    assert all(0 in model and {1, 2} & set(model) and len(model) == 3 for model in exchanged)
