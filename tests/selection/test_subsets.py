"""The best models on quadratic misfits: against looking at all of them, with protection, and without swamped ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import RankError
from bvsi.infer.quadratic import Quadratic
from bvsi.select import ExtendedBIC, ProfileBIC
from bvsi.select.search import Effort, Models, Protection, best_models, best_without, near_models

FREE = Protection(frozenset(), ())
N = 400
EBIC = ExtendedBIC()


def names(d: int) -> tuple[str, ...]:
    return tuple(f"f{i}" for i in range(d))


def quadratic(A, H, g, q, known: bool = True) -> Quadratic:
    """Around zero."""
    return Quadratic(names(len(g)), np.zeros(len(g)), q, g, A, H, N, known)


def scores(misfit: Quadratic, models) -> np.ndarray:
    return EBIC.values(misfit.solve(models)[1], len(models[0]), misfit)


def random_misfit(d: int, seed: int, true: int = 3, *, mix: float = 0.3, known: bool = True) -> Quadratic:
    """Regression of y on d correlated columns, of which ``true`` make it up; noise has a share of the columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) @ (np.eye(d) + mix * rng.standard_normal((d, d))) * rng.uniform(0.1, 10, d)
    theta = np.zeros(d)
    theta[rng.choice(d, true, replace=False)] = rng.uniform(0.2, 1, true)
    y = X @ (theta / X.std(axis=0)) + rng.standard_normal(N)
    H = X.T @ X
    return quadratic(H - 0.005 * np.diag(np.diag(H)), H, X.T @ y, float(y @ y), known)


def score(misfit: Quadratic, model: tuple[int, ...]) -> float:
    """J of one model, written out."""
    s = list(model)
    share = np.linalg.eigvals(np.linalg.solve(misfit.H[np.ix_(s, s)], misfit.H[np.ix_(s, s)] - misfit.A[np.ix_(s, s)]))
    if share.real.max() > 0.5:
        return np.inf
    Q = misfit.q - misfit.g[s] @ np.linalg.solve(misfit.A[np.ix_(s, s)], misfit.g[s])
    m = Q if misfit.scale_known and misfit.n >= Q else misfit.n * (1 + np.log(Q / misfit.n))
    return float(m + len(s) * (np.log(misfit.n) + 2 * np.log(len(misfit.g))))


def brute_force(misfit: Quadratic, allowed=lambda model: True) -> dict[int, tuple[float, tuple[int, ...]]]:
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
    ladder, expected = best_models(misfit, EBIC, FREE), brute_force(misfit)
    assert set(ladder) == set(expected)
    for size, (J, model) in expected.items():
        assert ladder[size][1] == model
        assert_allclose(ladder[size][0], J, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_many_operators_are_climbed_to_the_same_choice(seed):
    """Operators that are not too much alike: single ones, then adding, exchanging and dropping find the best model."""
    misfit = random_misfit(10, seed, true=4, mix=0.1)
    ladder, expected = best_models(misfit, EBIC, FREE, effort=Effort(exhaustive=10)), brute_force(misfit)
    assert min(ladder.values())[1] == min(expected.values())[1]


def test_what_is_kept_is_in_all_models_and_every_group_has_a_member():
    misfit = random_misfit(8, 5)
    protection = Protection.of(names(8), ["f1"], [["f2", "f3"], ["f1", "f7"]])
    ladder = best_models(misfit, EBIC, protection)
    expected = brute_force(misfit, lambda m: 1 in m and m & {2, 3})
    assert {size: model for size, (_, model) in ladder.items()} == {size: m for size, (_, m) in expected.items()}


@pytest.mark.parametrize("seed", range(3))
def test_protection_holds_where_models_are_climbed(seed):
    misfit = random_misfit(10, seed, mix=0.1)
    protection = Protection.of(names(10), ["f1"], [["f2", "f3"]])
    ladder = best_models(misfit, EBIC, protection, effort=Effort(exhaustive=10))
    assert all(1 in model and {2, 3} & set(model) for _, model in ladder.values())
    expected = brute_force(misfit, lambda m: 1 in m and m & {2, 3})
    assert min(ladder.values())[1] == min(expected.values())[1]


def test_groups_are_climbed_from_one_member_of_each():
    """No model can be looked at exhaustively."""
    misfit = random_misfit(10, 0, mix=0.1)
    protection = Protection.of(names(10), [], [["f2", "f3"], ["f4", "f5"]])
    ladder = best_models(misfit, EBIC, protection, effort=Effort(exhaustive=0))
    assert ladder
    assert all({2, 3} & set(model) and {4, 5} & set(model) for _, model in ladder.values())
    assert min(ladder.values())[1] == min(brute_force(misfit, lambda m: m & {2, 3} and m & {4, 5}).values())[1]


def test_swamped_models_are_not_looked_at():
    """An operator that is mostly noise seems to explain all: A is near zero there, and g² / A large."""
    misfit = random_misfit(6, 1)
    A, g = misfit.A.copy(), misfit.g.copy()
    A[2] = A[:, 2] = 0.0
    A[2, 2], g[2] = 0.01 * misfit.H[2, 2], 0.2 * np.sqrt(misfit.q * misfit.H[2, 2])
    tempting = quadratic(A, misfit.H, g, misfit.q)
    ladder = best_models(tempting, EBIC, FREE)
    assert all(2 not in model for _, model in ladder.values())
    assert scores(tempting, [(2,)])[0] == np.inf
    assert quadratic(A[2:3, 2:3], misfit.H[2:3, 2:3], g[2:3], misfit.q).swamped
    assert not misfit.swamped


def test_operators_that_are_the_same_are_not_taken_together():
    misfit = random_misfit(5, 2)
    twice = [0, 1, 2, 3, 4, 0]
    doubled = quadratic(misfit.A[np.ix_(twice, twice)], misfit.H[np.ix_(twice, twice)], misfit.g[twice], misfit.q)
    ladder = best_models(doubled, EBIC, FREE)
    assert all(not {0, 5} <= set(model) for _, model in ladder.values())
    assert ladder


def test_scores_do_not_depend_on_units():
    misfit = random_misfit(6, 3)
    D = np.diag(10.0 ** np.arange(-6, 6, 2))
    rescaled = quadratic(D @ misfit.A @ D, D @ misfit.H @ D, D @ misfit.g, misfit.q)
    models = list(itertools.combinations(range(6), 3))
    assert_allclose(scores(rescaled, models), scores(misfit, models), rtol=1e-9)
    theta, other = misfit.solve(models)[0], rescaled.solve(models)[0]
    assert_allclose(other * np.diag(D)[np.array(models)], theta, rtol=1e-6)


def test_coefficients_solve_the_equations_of_their_model():
    misfit = random_misfit(6, 4)
    theta, _ = misfit.solve([(0, 2, 5)])
    s = [0, 2, 5]
    assert_allclose(theta[0], np.linalg.solve(misfit.A[np.ix_(s, s)], misfit.g[s]), rtol=1e-9)
    assert_allclose(scores(misfit, [(0, 2, 5)])[0], score(misfit, (0, 2, 5)), rtol=1e-12)


def test_the_misfit_is_continuous_where_it_meets_the_noise():
    misfit = random_misfit(3, 0)
    below, at, above = EBIC.values(np.array([N - 1e-6, N, N + 1e-6]), 0, misfit)
    assert at == N
    assert below < at < above
    assert_allclose(above - at, at - below, rtol=1e-3)


def test_neighbours_differ_by_one_operator():
    misfit = random_misfit(5, 0)
    models = Models(names(5), Protection.of(names(5), ["f0"], [["f1", "f2"]]))
    near = near_models((0, 1, 3), models, misfit, lambda Q, size: np.isfinite(Q))
    by_size = {size: sorted(model for model in near if len(model) == size) for size in (2, 3, 4)}
    assert by_size == {2: [(0, 1)], 3: [(0, 1, 2), (0, 1, 4), (0, 2, 3)], 4: [(0, 1, 2, 3), (0, 1, 3, 4)]}
    for model, Q in near.items():
        assert_allclose(Q, misfit.solve([model])[1][0], rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_misfits_of_all_neighbours_follow_from_one_factorisation(seed):
    """Around any point: Q_s + θ_i²/P_ii without an operator, a Schur complement with one more."""
    misfit = random_misfit(9, seed)
    at = np.random.default_rng(seed).standard_normal(9) / np.sqrt(np.diag(misfit.H))
    q = misfit.q - 2 * misfit.g @ at + at @ misfit.A @ at
    moved = Quadratic(misfit.names, at, q, misfit.g - misfit.A @ at, misfit.A, misfit.H, N)
    model = (0, 3, 4, 8)
    reduced = [tuple(j for j in model if j != i) for i in model]
    assert_allclose(moved.without_each(model), misfit.solve(reduced)[1], rtol=1e-9)
    for start in ((), model):
        added = [i for i in range(9) if i not in start]
        enlarged = [tuple(sorted((*start, i))) for i in added]
        assert_allclose(moved.with_each([start])[0][added], misfit.solve(enlarged)[1], rtol=1e-9)
        assert np.isinf(moved.with_each([start])[0][list(start)]).all()
    together = moved.with_each(reduced)
    assert_allclose(together, np.concatenate([moved.with_each([one]) for one in reduced]), rtol=1e-9)
    unusable = Quadratic(
        misfit.names, at, q, moved.g, misfit.A - 2 * misfit.A[0, 0] * np.eye(9)[:1].T @ np.eye(9)[:1], misfit.H, N
    )
    with_bad = unusable.with_each(reduced)  # one of them lacks the operator that is no good
    assert np.isinf(with_bad[[0 in one for one in reduced]]).all()
    assert np.isfinite(with_bad[[0 not in one for one in reduced]]).any()


def test_what_noise_swamps_is_left_out_before_it_is_worked_out():
    """Never a model that is usable: the bound of the closed formula is on the safe side."""
    refused = 0
    for seed in range(20):
        rng, misfit = np.random.default_rng(seed), random_misfit(7, seed)
        N_ = rng.standard_normal((7, 7)) * np.sqrt(np.diag(misfit.H)) * rng.uniform(0, 0.4)
        noisy = quadratic(misfit.H - N_.T @ N_, misfit.H, misfit.g, misfit.q)
        start = (1, 4)
        added = [i for i in range(7) if i not in start]
        exact = noisy.solve([tuple(sorted((*start, i))) for i in added])[1]
        closed = noisy.with_each([start])[0][added]
        assert np.isinf(exact[np.isinf(closed)]).all()
        both = np.isfinite(exact) & np.isfinite(closed)
        assert_allclose(closed[both], exact[both], rtol=1e-9)
        refused += int(np.isinf(closed).sum())
    assert refused > 10


def test_many_operators_take_closed_formulas(monkeypatch):
    """A library of 120: a model as good as the true one, and hardly any model is computed by itself."""
    misfit = random_misfit(120, 3, true=6, mix=0.01)
    solve, worked_out = Quadratic.solve, []

    def counted(self, models, *arguments):
        worked_out.append(len(models))
        return solve(self, models, *arguments)

    monkeypatch.setattr(Quadratic, "solve", counted)
    ladder = best_models(misfit, EBIC, FREE, ["forward", "backward"])
    assert sum(worked_out) < 120 * 20
    assert set(ladder) == set(range(1, 121))
    J, best = min(ladder.values())
    for model in near_models(best, Models(names(120), FREE), misfit, lambda Q, _: np.isfinite(Q)):
        assert score(misfit, model) >= J - 1e-6


@pytest.mark.parametrize("criterion", [ExtendedBIC(), ProfileBIC()], ids=lambda c: c.name)
def test_one_direction_alone_finds_clear_operators(criterion):
    """Columns that are nearly orthogonal: whatever the direction, and the criterion, the same model."""
    misfit = random_misfit(8, 2, true=3, mix=0.02)
    chosen = {
        min(best_models(misfit, criterion, FREE, [direction]).values())[1]
        for direction in ("exhaustive", "forward", "backward", "broad")
    }
    assert len(chosen) == 1


def hidden_triple(others):
    """y = f0 + f1 + f2, beside a fourth operator that is nearly y, so that alone, and in every pair, it is the best."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, 4 + others))
    y = X[:, 0] + X[:, 1] + X[:, 2]
    X[:, 3] = y + 0.4 * X[:, 3]
    H = X.T @ X * 100.0
    return quadratic(H, H, X.T @ y * 100.0, 100.0 * float(y @ y) + N)


def test_a_broad_search_finds_what_the_best_pair_hides():
    """The best pair has an operator that stands for the true ones; the true triple contains another pair."""
    misfit, few = hidden_triple(26), Effort(exhaustive=30 * 29 // 2)
    pairs = best_models(misfit, EBIC, FREE, ["exhaustive"], few)
    assert 3 in pairs[2][1]
    broad = best_models(misfit, EBIC, FREE, ["broad"], few)
    assert min(broad.values())[1] == (0, 1, 2)


@pytest.mark.parametrize("seed", range(4))
def test_a_broad_search_that_may_look_at_all_models_is_exhaustive(seed):
    """Up to the sizes at which the score has risen for some time."""
    misfit, all_of_them = random_misfit(7, seed), Effort(exhaustive=1000, patience=7)
    every = best_models(misfit, EBIC, FREE, ["exhaustive"], all_of_them)
    broad = best_models(misfit, EBIC, FREE, ["broad"], all_of_them)
    assert {size: broad[size] for size in every if size} == {size: one for size, one in every.items() if size}


@pytest.mark.parametrize("k", [0, 1, 3, 6])
def test_minima_do_not_depend_on_the_point_of_expansion(k):
    """Q is one function of θ, around zero and around any other point."""
    misfit, at = random_misfit(6, 4), np.array([0.1, -0.2, 0.3, 0.0, 0.05, 0.4])
    moved = Quadratic(
        misfit.names, at, misfit.q - 2 * misfit.g @ at + at @ misfit.A @ at, misfit.g - misfit.A @ at, misfit.A,
        misfit.H, N,
    )  # fmt: skip
    models = list(itertools.combinations(range(6), k))
    for one, other in zip(misfit.solve(models), moved.solve(models), strict=True):
        assert_allclose(other, one, rtol=1e-8, atol=1e-12)


def test_the_minimum_of_one_model_is_that_of_many():
    misfit = random_misfit(6, 5)
    theta, Q = misfit.solve([(0, 2, 5)])
    minimum = misfit.minimum(["f0", "f2", "f5"])
    assert_allclose(minimum.theta, theta[0], rtol=1e-12)
    assert_allclose(minimum.q, Q[0], rtol=1e-12)
    s = np.ix_([0, 2, 5], [0, 2, 5])
    assert_allclose(minimum.inverse, np.linalg.inv(misfit.A[s]), rtol=1e-8)


def test_operators_that_are_alike_are_named():
    misfit = random_misfit(3, 2)
    twice = np.ix_([0, 1, 0], [0, 1, 0])
    doubled = quadratic(misfit.A[twice], misfit.H[twice], misfit.g[[0, 1, 0]], misfit.q)
    with pytest.raises(RankError, match=r"f0.*f2"):
        doubled.minimum(["f0", "f2"])


@pytest.mark.parametrize("seed", range(6))
def test_the_best_model_without_an_operator_is_the_best_of_all_that_lack_it(seed):
    misfit = random_misfit(7, seed)
    every = [model for k in range(1, 8) for model in itertools.combinations(range(7), k)]
    found = {model: score(misfit, model) for model in every}
    best = min(found, key=found.__getitem__)
    for i in best:
        lacking = min(J for model, J in found.items() if i not in model)
        assert_allclose(min(best_without(i, best, misfit, EBIC, FREE, 7).values())[0], lacking, rtol=1e-9)


def test_the_best_model_without_an_operator_keeps_what_is_protected():
    misfit = random_misfit(6, 1)
    kept = Protection(frozenset({"f0"}), ())
    every = [model for k in range(1, 7) for model in itertools.combinations(range(6), k) if 0 in model]
    found = {model: score(misfit, model) for model in every}
    best = min(found, key=found.__getitem__)
    for i in set(best) - {0}:
        lacking = min(J for model, J in found.items() if i not in model)
        assert_allclose(min(best_without(i, best, misfit, EBIC, kept, 6).values())[0], lacking, rtol=1e-9)


def test_the_minimum_of_data_that_are_explained_to_the_last_digit():
    """Of one wave without noise nothing but rounding is left; that ended in a RecursionError."""
    H, g = np.diag([2.0, 1.0]) * N, np.array([2.0, 1.0]) * N
    exact = quadratic(H, H, g, 3.0 * N).minimum(names(2))
    assert_allclose(exact.theta, 1.0)
    assert 0 <= exact.q < 1e-9 * N


def test_scores_of_operators_without_noise_are_the_falls_of_the_misfit():
    misfit = random_misfit(7, 3)
    clean, model = quadratic(misfit.H, misfit.H, misfit.g, misfit.q), (1, 4)
    squares, power = clean.score_tests(model)
    for j in (0, 2, 3, 5, 6):
        larger = tuple(sorted((*model, j)))
        assert_allclose(squares[j], clean.solve([model])[1] - clean.solve([larger])[1], rtol=1e-9)
    assert np.all(squares[[1, 4]] == 0)
    assert np.all((power >= 0) & (power <= 1))


def test_scores_are_chi_square_however_noisy_an_operator_is():
    # two columns of size 1 and 0.3, seen with noise of size 0 and 1; the second is not there
    rng, squares, falls = np.random.default_rng(0), [], []
    for _ in range(300):
        x, z = rng.standard_normal(N), 0.3 * rng.standard_normal(N)
        X = np.stack([x, z + rng.standard_normal(N)], axis=1)
        y, H = x + rng.standard_normal(N), X.T @ X
        misfit = quadratic(H - np.diag([0.0, N]), H, X.T @ y, float(y @ y))
        squares.append(misfit.score_tests((0,))[0][1])
        A = misfit.A
        falls.append((misfit.g[1] - A[1, 0] * misfit.g[0] / A[0, 0]) ** 2 / max(A[1, 1] - A[0, 1] ** 2 / A[0, 0], 1.0))
    assert_allclose(np.mean(squares), 1.0, atol=0.25)
    assert np.mean(falls) > 5  # what a prediction by A = H - N makes of the same scores


def test_the_power_of_a_score_falls_with_noise_and_with_likeness_to_what_is_not_known():
    H = np.array([[1.0, 0.0, 0.8], [0.0, 1.0, 0.0], [0.8, 0.0, 1.0]]) * N

    def power(A, model=(0,), known=()):
        return quadratic(A, H, np.ones(3), 5.0 * N).score_tests(model, known)[1]

    assert_allclose(power(H)[1:], [1.0, 0.36])
    assert_allclose(power(H, known=(0,))[1:], [1.0, 1.0])
    noisy = H - np.diag([0, 0.9 * N, 0])
    assert_allclose(power(noisy)[1], 0.1)
    assert power(H - np.diag([0, 1.1 * N, 0]))[1] == 0


def test_scores_have_no_unit_where_the_noise_level_is_unknown():
    misfit = random_misfit(6, 1, known=False)
    other = quadratic(1e-6 * misfit.A, 1e-6 * misfit.H, 1e-6 * misfit.g, 1e-6 * misfit.q, known=False)
    for one, again in zip(misfit.score_tests((0, 2)), other.score_tests((0, 2)), strict=True):
        assert_allclose(one, again, rtol=1e-9)
