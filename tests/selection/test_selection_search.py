"""Backward elimination, forward selection and exhaustive search."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError, OperatorError
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from bvsi.select import (
    Backward,
    Exhaustive,
    Forward,
    FStatistic,
    ProfileBIC,
    ResidualBIC,
    Wald,
)
from bvsi.studies.problems import fokker_planck
from inference.cases import reaction_diffusion
from selection.selection_cases import LIBRARY, SPURIOUS, TRUE, ids, made_path, reaction_likelihood

CRITERIA = [Wald(), ProfileBIC(), ResidualBIC(), FStatistic()]


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("criterion", CRITERIA, ids=ids)
def test_the_truth_is_found(criterion, known):
    path = Backward(criterion).select(reaction_likelihood(1e-4, known=known))
    assert set(path.best.names) == set(TRUE)


@pytest.mark.parametrize("criterion", [Wald(), ProfileBIC()], ids=ids)
@pytest.mark.parametrize("sigma", [1e-3, 1e-2])
@pytest.mark.parametrize("seed", [0, 1])
def test_profile_criteria_find_the_truth_at_larger_noise(criterion, sigma, seed):
    path = Backward(criterion).select(reaction_likelihood(sigma, seed))
    assert set(path.best.names) == set(TRUE)
    assert_allclose([path.best.fit.coefficient(name) for name in TRUE], [0.1, -0.8], rtol=0.2)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("criterion", CRITERIA, ids=ids)
def test_the_closed_form_takes_the_path_of_refitting_everything(criterion, known):
    likelihood = reaction_likelihood(1e-4, known=known)
    quick, full = (Backward(criterion, refit_all=every).select(likelihood) for every in (False, True))
    assert [v.names for v in quick.visited] == [v.names for v in full.visited]
    assert_allclose([v.score for v in quick.visited], [v.score for v in full.visited], rtol=1e-4, atol=1e-3)
    assert quick.best.names == full.best.names
    assert quick.fits < full.fits


@pytest.mark.parametrize("criterion", CRITERIA, ids=ids)
def test_the_closed_form_takes_the_path_of_refitting_everything_on_fokker_planck(density, criterion):
    likelihood = density(1e-3, 0)
    quick, full = (
        Backward(criterion, refit_all=every).select(likelihood, keep=["laplacian(p)"]) for every in (False, True)
    )
    assert [v.names for v in quick.visited] == [v.names for v in full.visited]
    assert_allclose([v.score for v in quick.visited], [v.score for v in full.visited], rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("criterion", [Wald(), ProfileBIC()], ids=ids)
@pytest.mark.parametrize("sigma, seed", [(1e-4, 1), (1e-3, 2), (1e-2, 3)])
def test_the_five_true_operators_of_fokker_planck_are_found(density, criterion, sigma, seed):
    path = Backward(criterion).select(density(sigma, seed), keep=["laplacian(p)"])
    assert set(path.best.names) == set(fokker_planck.TRUTH)


def test_every_step_removes_one_operator(likelihood):
    path = Backward(Wald()).select(likelihood)
    assert path.visited[0].names == likelihood.names
    assert path.visited[0].changed is None
    for before, after in zip(path.visited, path.visited[1:], strict=False):
        assert after.names == tuple(n for n in before.names if n != after.changed)
        assert set(after.candidates) == set(before.names)
        assert after.changed in after.refitted
        assert after.candidates[after.changed] == after.score
        assert after.score == min(after.candidates[n] for n in after.refitted)


def test_every_model_is_fitted_with_its_own_covariance(likelihood):
    for criterion in (ProfileBIC(), ResidualBIC()):
        for v in Backward(criterion).select(likelihood).visited:
            model = likelihood.restrict(v.names)
            assert_allclose(v.theta, criterion.fit(model, None).theta, rtol=1e-3, atol=1e-6)
            assert_allclose(v.score, criterion.score(model, v.fit), rtol=1e-10)
            assert_allclose(v.chi2, v.fit.chi2)


@pytest.mark.parametrize("criterion", CRITERIA, ids=ids)
@pytest.mark.parametrize("keep", [["dx(u)"], [" dx( u )", "x*u"], ("laplacian(u)",)])
def test_protected_operators_stay(likelihood, criterion, keep):
    path = Backward(criterion, patience=9).select(likelihood, keep=keep)
    kept = {"".join(name.split()) for name in keep}
    for v in path.visited:
        assert kept <= set(v.names)
    assert set(path.visited[-1].names) == kept  # patience lets it remove all others


def test_with_everything_protected_nothing_happens(likelihood):
    path = Backward().select(likelihood, keep=likelihood.names)
    assert len(path.visited) == 1
    assert path.best.names == likelihood.names
    assert "protected" in path.stopped


def test_an_unknown_name_to_keep_is_refused_with_the_nearest(likelihood):
    for search in (Backward(), Forward(), Exhaustive()):
        with pytest.raises(OperatorError, match=r"laplacian\(u\)"):
            search.select(likelihood, keep=["laplacien(u)"])


def test_an_unknown_name_in_a_group_is_refused(likelihood):
    with pytest.raises(OperatorError, match="sin"):
        Backward().select(likelihood, groups=[["u", "sin(u)"]])


def test_one_operator_of_every_group_stays(likelihood):
    path = Backward(patience=9).select(likelihood, groups=[SPURIOUS, ("u", "x*u")])
    for v in path.visited:
        assert set(v.names) & set(SPURIOUS)
        assert set(v.names) & {"u", "x*u"}
    assert len(path.visited[-1].names) == 1 + (path.visited[-1].names != ("x*u",))


@pytest.mark.parametrize("patience", [0, 1, 2])
def test_patience_is_how_far_to_go_on_after_the_rise(patience):
    likelihood = reaction_likelihood(1e-4, n=9)
    path = Backward(ProfileBIC(), patience=patience).select(likelihood)
    after = len(path.visited) - 1 - path.visited.index(path.best)
    assert after == min(patience + 1, len(path.best.names) - 1)
    assert path.best.score == min(v.score for v in path.visited)
    assert set(path.best.names) == set(TRUE)


def test_the_last_operator_stays():
    data, _ = reaction_diffusion(n=9, steps=8)
    system = assemble(data, Library({"u": ["dx(u)"]}, boundary=NoFlux()))
    path = Backward().select(residual_likelihood(system, IID(1e-3)))
    assert [v.names for v in path.visited] == [("dx(u)",)]


def test_progress_is_reported(likelihood):
    calls = []
    Backward(Wald()).select(likelihood, progress=lambda *a: calls.append(a))
    assert len(calls) >= 3
    assert all("selecting" in what for _, _, what in calls)


@pytest.mark.parametrize("criterion", [ProfileBIC(), ResidualBIC()], ids=ids)
def test_all_searches_agree_where_the_truth_is_clear(likelihood, criterion):
    few = likelihood.restrict([*TRUE, "dx(u)", "x*u"])
    paths = [search(criterion).select(few) for search in (Backward, Forward, Exhaustive)]
    for path in paths:
        assert set(path.best.names) == set(TRUE)
        assert_allclose(path.best.score, paths[0].best.score, atol=1e-3)
    assert len(paths[2].visited) == 2**4 - 1
    assert "all 15 models" in paths[2].stopped


def test_exhaustive_search_meets_every_model_once(likelihood):
    path = Exhaustive().select(likelihood, keep=["u", "x*u"])
    found = {frozenset(v.names) for v in path.visited}
    assert len(found) == len(path.visited) == 8
    assert all({"u", "x*u"} <= names for names in found)


def test_forward_selection_begins_with_what_is_kept(likelihood):
    path = Forward().select(likelihood.restrict([*TRUE, "dx(u)", "x*u"]), keep=["dx(u)"])
    assert path.visited[0].names == ("dx(u)",)
    assert set(path.best.names) == {"dx(u)", *TRUE}
    scores = [v.score for v in path.visited]
    assert scores == sorted(scores, reverse=True)
    assert path.stopped.startswith("stopped: adding")


def test_forward_selection_of_everything(likelihood):
    path = Forward().select(likelihood.restrict(TRUE))
    assert path.best is path.visited[-1]
    assert path.stopped == "stopped: all operators are in."


@pytest.mark.parametrize("criterion", [Wald(), FStatistic()], ids=ids)
@pytest.mark.parametrize("search", [Forward, Exhaustive])
def test_criteria_that_compare_neighbours_only_are_refused(likelihood, criterion, search):
    with pytest.raises(BvsiError, match="ProfileBIC"):
        search(criterion).select(likelihood)


def test_too_many_models_are_refused_at_once():
    data, _ = reaction_diffusion(n=5, steps=4)
    library = Library({"u": [f"x**{m}*u" for m in range(1, 14)]}, boundary=NoFlux())
    likelihood = residual_likelihood(assemble(data, library), IID(1e-3))
    with pytest.raises(BvsiError, match=r"2\^13.*Backward"):
        Exhaustive().select(likelihood)


def test_models_that_cannot_be_fitted_are_left_out_of_a_search():
    data, _ = reaction_diffusion(n=9, steps=10, sigma=1e-4)
    library = Library({"u": ["laplacian(u)", "u", "2*u"]}, boundary=NoFlux())
    path = Exhaustive().select(residual_likelihood(assemble(data, library), IID(1e-4)))
    assert len(path.visited) == 5  # those with both u and 2*u are not
    assert "7 models tried, 5 could be fitted" in path.stopped


def test_several_experiments_are_selected_from_together():
    data = [reaction_diffusion(n=9, steps=10, sigma=1e-3, seed=s)[0] for s in range(2)]
    path = Backward().select(residual_likelihood(assemble(data, LIBRARY), IID(1e-3)))
    assert set(path.best.names) == set(TRUE)


def test_a_path_prints_its_models_and_marks_the_selected_one():
    lines = str(made_path()).splitlines()
    assert "test criterion" in lines[0]
    assert len(lines) == 5
    assert [("selected" in line) for line in lines] == [False, False, True, False, False]
    assert [line.split()[0] for line in lines[1:4]] == ["3", "2", "1"]
    assert "(start)" in lines[1]
    assert "4.00" in lines[2]
    assert lines[-1] == "stopped: by hand."


def test_probabilities_are_weights_of_half_the_score():
    p = made_path().probabilities()
    weights = np.exp([-5, -2, -3.5])
    assert_allclose(p, weights / weights.sum(), rtol=1e-12)
    assert_allclose(p.sum(), 1)


def test_inclusion_sums_the_models_with_an_operator():
    path = made_path()
    p, inclusion = path.probabilities(), path.inclusion()
    assert list(inclusion) == ["a", "b", "c"]
    assert_allclose([inclusion[n] for n in "abc"], [1, p[0] + p[1], p[0]], rtol=1e-12)


def test_scores_far_apart_do_not_overflow():
    path = made_path()
    far = dataclasses.replace(path, visited=(path.visited[0], dataclasses.replace(path.visited[1], score=-1e6)))
    assert_allclose(far.probabilities(), [0, 1])


def test_a_path_is_immutable(likelihood):
    path = Backward(Wald()).select(likelihood)
    assert isinstance(path.visited, tuple)
    with pytest.raises(dataclasses.FrozenInstanceError):
        path.stopped = "else"
    with pytest.raises(dataclasses.FrozenInstanceError):
        path.visited[0].score = -1e9


def test_counts_of_fits():
    assert made_path().fits == 3
