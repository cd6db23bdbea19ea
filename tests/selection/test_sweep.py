"""Elimination on the quadratic model: sub-models, agreement with Backward, cost, and what is said about the check."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError, OperatorError
from bvsi.infer import Lagged, Profile
from bvsi.infer.quadratic import Quadratic, carried_over
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise import IID
from bvsi.residual import assemble
from bvsi.select import Backward, FStatistic, ProfileBIC, ResidualBIC, Sweep, Wald, by_quadratic
from bvsi.select.by_quadratic import _Sweeping
from bvsi.select.by_quadratic import around as expanded_at
from bvsi.select.criterion import minimum_of
from bvsi.select.search import Protection
from bvsi.studies.problems import fokker_planck
from inference.cases import reaction_diffusion
from selection.selection_cases import LIBRARY, SPURIOUS, TRUE, ids, reaction_likelihood

CRITERIA = [Wald(), ProfileBIC()]
SUBMODELS = [("laplacian(u)", "u"), ("laplacian(u)", "dx(u)", "u**2"), ("u", "x*u"), ("dx(u)",)]


@pytest.fixture
def evaluations(monkeypatch):
    """Numbers of operators of every profile evaluation."""
    calls = []
    original = ResidualLikelihood.profile_equations

    def counted(self, *args, **options):
        calls.append(len(self.names))
        return original(self, *args, **options)

    monkeypatch.setattr(ResidualLikelihood, "profile_equations", counted)
    return calls


def at(likelihood, fit, whole) -> Quadratic:
    """All operators around a fit."""
    return carried_over(whole, expanded_at(likelihood, fit, np.random.default_rng(0)))


def expansion(likelihood, theta=None) -> Quadratic:
    """Around the estimate of all operators, or any θ."""
    fit = Profile().fit(likelihood)
    if theta is None:
        return fit.quadratic
    return at(likelihood, dataclasses.replace(fit, theta=np.asarray(theta)), fit.quadratic)


def constrained(A, b, kept):
    """argmin θᵀAθ − 2bᵀθ with the other coefficients zero, by the KKT system, scaled."""
    scale = np.sqrt(np.diag(A))
    A, b = A / scale[:, None] / scale, b / scale
    dropped = [i for i in range(len(b)) if i not in kept]
    E = np.eye(len(b))[dropped]
    system = np.block([[A, E.T], [E, np.zeros((len(dropped), len(dropped)))]])
    return np.linalg.solve(system, np.concatenate([b, np.zeros(len(dropped))]))[: len(b)][kept] / scale[kept]


@pytest.mark.parametrize("names", SUBMODELS)
@pytest.mark.parametrize("start", [None, [0.09, -0.7, 0.02, 0.1, -0.05]], ids=["estimate", "elsewhere"])
def test_a_submodel_is_the_constrained_minimum_of_the_quadratic_model(likelihood, names, start):
    around = expansion(likelihood, start)
    A, g, theta = around.A, around.g, around.theta
    kept = [likelihood.names.index(n) for n in names]
    model = around.minimum(names)
    assert_allclose(model.theta, constrained(A, g + A @ theta, kept), rtol=1e-6)
    move = np.zeros(len(theta))
    move[kept] = model.theta
    move -= theta
    assert_allclose(model.q, around.q - 2 * g @ move + move @ A @ move, rtol=1e-10)
    P = np.linalg.inv(A[np.ix_(kept, kept)])
    variances = [np.diag(P @ S[np.ix_(kept, kept)] @ P) for S in (around.S, around.S_blocks)]
    assert_allclose(model.variance, np.maximum(*variances), rtol=1e-6)


@pytest.mark.parametrize("names", SUBMODELS)
def test_a_submodel_is_exact_where_the_weights_do_not_move(monkeypatch, names):
    """With W fixed and regressors not smoothed Q is quadratic: the sub-model is its fit, from any θ_e."""
    likelihood = reaction_likelihood(1e-4)
    fixed = np.array([0.1, -0.8, 0.0, 0.0, 0.0])
    original = ResidualLikelihood.profile_equations

    def frozen(self, theta, *, smoothing=1.0, rng=None, spread=True):
        everything = original(likelihood, fixed, smoothing=0.0, rng=rng)
        move = np.asarray(theta, dtype=float) - fixed
        no_noise = np.zeros_like(everything.N)
        return dataclasses.replace(everything, equations=everything.equations.moved(move), N=no_noise)

    monkeypatch.setattr(ResidualLikelihood, "profile_equations", frozen)
    fit = dataclasses.replace(Profile().fit(likelihood, start=fixed), theta=np.array([0.3, 0.1, -0.2, 0.4, 0.5]))
    model = at(likelihood, fit, fit.quadratic).minimum(names)
    W = original(likelihood, fixed, smoothing=0.0)
    kept = [likelihood.names.index(n) for n in names]
    expected = constrained(W.equations.H, W.equations.g + W.equations.H @ fixed, kept)
    assert_allclose(model.theta, expected, rtol=1e-6)
    move = np.zeros(5)
    move[kept] = expected
    assert_allclose(model.q, W.equations.moved(move - fixed).q, rtol=1e-8)
    assert model.n == likelihood.system.n


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_submodel_is_its_refit_where_the_noise_is_small(known):
    """What is dropped is small and the noise tiny, so that W hardly moves."""
    likelihood = reaction_likelihood(1e-5, known=known)
    smaller = likelihood.restrict([*TRUE, "dx(u)"])
    fit = Profile().fit(smaller)
    around, kept = expansion(likelihood), [likelihood.names.index(n) for n in smaller.names]
    model = around.minimum(smaller.names)
    refitted = minimum_of(smaller, fit)
    sd = np.sqrt(refitted.variance)
    assert_allclose(model.theta, refitted.theta, atol=0.02 * sd.min())
    assert_allclose(model.q, refitted.q, rtol=1e-4)
    assert_allclose(model.inverse, refitted.inverse, rtol=0.02)
    noise_model = np.diag(model.inverse @ around.S[np.ix_(kept, kept)] @ model.inverse)
    # the mean of σ² where it is unknown
    level = 1.0 if known else model.q / (model.n - len(kept) - 2)
    assert_allclose(noise_model * level, fit.posterior.variance, rtol=0.02)
    wider = level * (1.0 if known else model.n / model.q)
    assert_allclose(model.variance * wider, refitted.variance, rtol=0.2)  # scores of 10 blocks, at another residual


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("criterion", CRITERIA, ids=ids)
def test_with_all_operators_it_is_the_closed_form_at_the_fit(criterion, known):
    likelihood = reaction_likelihood(known=known)
    fit = criterion.fit(likelihood, None)
    model = fit.quadratic.minimum(likelihood.names)
    assert_allclose(model.theta, fit.theta, rtol=1e-6)
    n = likelihood.system.n
    change, removal = (one + math.log(n) for one in (criterion.change(model), criterion.removal(likelihood, fit)))
    # z² of a fit has the variance of its posterior, with q/(n − d − 2) where σ² is unknown
    wider = isinstance(criterion, Wald) and not known
    assert_allclose(change, removal * (n / (n - len(fit.theta) - 2) if wider else 1.0), rtol=0.02)


@pytest.mark.parametrize("start", [None, [0.09, -0.7, 0.02, 0.1, -0.05]], ids=["estimate", "elsewhere"])
def test_the_closed_form_of_a_removal_is_the_smaller_submodel(likelihood, start):
    around = expansion(likelihood, start)
    for names in (likelihood.names, ("laplacian(u)", "u", "x*u")):
        model = around.minimum(names)
        for i, name in enumerate(names):
            smaller = around.minimum([n for n in names if n != name])
            assert_allclose(model.growth[i], smaller.q - model.q, rtol=1e-5, atol=1e-6 * model.q)
            assert_allclose(np.delete(model.theta + model.removal_step(i), i), smaller.theta, rtol=1e-5)


def test_at_the_same_point_the_scores_of_the_blocks_are_carried_over_unchanged(likelihood):
    fit = Profile().fit(likelihood)
    around = at(likelihood, fit, fit.quadratic)
    for name in ("A", "S", "S_blocks"):
        scale = np.sqrt(np.diag(getattr(fit.quadratic, name)))
        a, b = (getattr(c, name) / scale[:, None] / scale for c in (around, fit.quadratic))
        assert_allclose(a, b, atol=1e-8)


def test_the_check_misses_no_operator_that_is_needed(density):
    """Drop each true operator in turn: the sweep at the refit returns it, though its scores have a mean there."""
    for likelihood, truth in ((reaction_likelihood(1e-3), TRUE), (density(1e-3, 0), tuple(fokker_planck.TRUTH))):
        search = _Sweeping(Sweep(), likelihood, Protection.of(likelihood.names, (), ()), np.random.default_rng(0))
        whole = search.whole().quadratic
        for missing in truth:
            fit = Wald().fit(likelihood.restrict([n for n in truth if n != missing]), None)
            assert missing in search.sweep(at(likelihood, fit, whole)).best.names


def test_where_noise_swamps_the_operators_the_curvature_is_that_of_the_regressors(likelihood):
    around = expansion(likelihood)
    swamped = around.A - 2 * np.diag(np.diag(around.A)) * np.array([0, 0, 1, 0, 0])
    other = dataclasses.replace(around, A=swamped)
    H = around.H
    assert_allclose(other.minimum(likelihood.names).inverse, np.linalg.inv(H), rtol=1e-4)
    assert_allclose(other.minimum(TRUE).inverse, around.minimum(TRUE).inverse, rtol=1e-12)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("criterion", CRITERIA, ids=ids)
@pytest.mark.parametrize("sigma, seed", [(1e-4, 0), (1e-3, 1), (1e-3, 2), (1e-2, 3)])
def test_it_selects_what_backward_selects(criterion, known, sigma, seed):
    likelihood = reaction_likelihood(sigma, seed, known=known)
    quick, slow = Sweep(criterion).select(likelihood), Backward(criterion).select(likelihood)
    assert quick.best.names == slow.best.names
    assert_allclose(quick.best.theta, slow.best.theta, rtol=1e-4)
    assert quick.best.fit.names == quick.best.names
    assert "settled after 1 refit." in quick.stopped
    if criterion.absolute:
        assert_allclose(quick.best.score, slow.best.score, rtol=1e-8)
        assert_allclose(quick.visited[0].score, slow.visited[0].score, rtol=1e-8)


@pytest.mark.parametrize("criterion", CRITERIA, ids=ids)
@pytest.mark.parametrize("sigma, seed", [(1e-4, 1), (1e-3, 2), (1e-2, 3)])
def test_the_five_true_operators_of_fokker_planck_are_found(density, criterion, sigma, seed):
    likelihood = density(sigma, seed)
    path = Sweep(criterion).select(likelihood, keep=["laplacian(p)"])
    assert set(path.best.names) == set(fokker_planck.TRUTH)
    assert_allclose(path.best.theta, criterion.fit(likelihood.restrict(path.best.names), None).theta, rtol=1e-3)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_scores_and_inclusion_mean_what_they_mean_for_backward(known):
    likelihood = reaction_likelihood(1e-3, known=known)
    for criterion in CRITERIA:
        quick, slow = (search(criterion).select(likelihood) for search in (Sweep, Backward))
        assert [v.names for v in quick.visited] == [v.names for v in slow.visited]
        a, b = ([v.score for v in path.visited[:4]] for path in (quick, slow))
        assert_allclose(a, b, atol=0.5)
        for name, probability in quick.inclusion().items():
            assert probability == pytest.approx(slow.inclusion()[name], abs=0.02)


def test_the_path_holds_two_fits_and_predictions(likelihood):
    for criterion in CRITERIA:
        path = Sweep(criterion).select(likelihood)
        first, best = path.visited[0], path.best
        assert first.names == likelihood.names
        assert [v for v in path.visited if v.fit is not None] == [first, best]
        assert [v for v in path.visited if not v.predicted] == [first, best]
        assert path.fits == 2
        assert best.refitted == {best.changed}
        for before, after in zip(path.visited, path.visited[1:], strict=False):
            assert after.names == tuple(n for n in before.names if n != after.changed)
            assert set(after.candidates) == set(before.names)
            assert after.candidates[after.changed] == after.score == min(after.candidates.values())
            assert len(after.theta) == len(after.names)
            assert after.chi2 > 0
        assert "selected" in str(path)


def test_patience_is_how_far_to_go_on_after_the_rise():
    likelihood = reaction_likelihood(1e-4, n=9).restrict([*TRUE, "dx(u)"])
    keep = ["dx(u)"]
    lengths = [len(Sweep(patience=p).select(likelihood, keep=keep).visited) for p in (0, 1, 2)]
    assert lengths == [2, 3, 3]


def test_it_takes_far_fewer_evaluations_than_backward(density, evaluations):
    likelihood = density(1e-3, 0)
    for criterion in CRITERIA:
        evaluations.clear()
        fit = criterion.fit(likelihood, None)
        whole = len(evaluations)
        evaluations.clear()
        Backward(criterion).select(likelihood, keep=["laplacian(p)"])
        backward = len(evaluations) - whole
        evaluations.clear()
        path = Sweep(criterion).select(likelihood, keep=["laplacian(p)"])
        sweep = evaluations[whole:]
        assert fit.names == likelihood.names
        assert path.fits == 2
        assert sweep.count(len(likelihood.names)) == 1  # the check
        assert len(sweep) <= backward / 3


@pytest.mark.parametrize("criterion", CRITERIA, ids=ids)
def test_protected_operators_stay(likelihood, criterion):
    path = Sweep(criterion, patience=9).select(likelihood, keep=[" dx( u )", "x*u"])
    assert all({"dx(u)", "x*u"} <= set(v.names) for v in path.visited)
    assert set(path.visited[-1].names) == {"dx(u)", "x*u"}
    assert set(path.best.names) == {*TRUE, "dx(u)", "x*u"}


def test_one_operator_of_every_group_stays(likelihood):
    path = Sweep(patience=9).select(likelihood, groups=[SPURIOUS, ("u", "x*u")])
    for v in path.visited:
        assert set(v.names) & set(SPURIOUS)
        assert set(v.names) & {"u", "x*u"}
    assert len(path.best.names) == 3


def test_with_nothing_to_remove_the_fit_of_all_operators_is_the_answer(likelihood, evaluations):
    everything = Sweep().select(likelihood, keep=likelihood.names)
    assert len(everything.visited) == 1
    assert "protected" in everything.stopped
    evaluations.clear()
    Wald().fit(likelihood.restrict(TRUE), None)
    whole = len(evaluations)
    path = Sweep().select(likelihood.restrict(TRUE))
    assert path.best is path.visited[0]
    assert path.best.fit.names == TRUE
    assert "after 0 refits" in path.stopped
    assert len(evaluations) == 2 * whole  # the fit is its own check


def test_unknown_names_are_refused_with_the_nearest(likelihood):
    with pytest.raises(OperatorError, match=r"laplacian\(u\)"):
        Sweep().select(likelihood, keep=["laplacien(u)"])
    with pytest.raises(OperatorError, match="sin"):
        Sweep().select(likelihood, groups=[["u", "sin(u)"]])


@pytest.mark.parametrize("criterion", [ResidualBIC(), FStatistic()], ids=ids)
def test_criteria_beyond_the_quadratic_model_are_refused(criterion):
    with pytest.raises(BvsiError, match=rf"criterion.*Backward\({ids(criterion)}"):
        Sweep(criterion)


@pytest.mark.parametrize(
    "wrong, message",
    [({"criterion": Wald}, "instance"), ({"rounds": 0}, "rounds"), ({"patience": -1}, "patience")],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(BvsiError, match=message):
        Sweep(**wrong)


def test_an_estimate_without_curvature_is_refused(likelihood):
    @dataclasses.dataclass(frozen=True)
    class Other(Wald):
        def fit(self, likelihood, start):
            return Lagged().fit(likelihood, start=start)

    with pytest.raises(BvsiError, match="Backward"):
        Sweep(Other()).select(likelihood)


@dataclasses.dataclass(frozen=True)
class Misled:
    """A criterion whose first predictions are wrong: it drops an operator that is needed until it has been refitted."""

    inner: Wald | ProfileBIC
    stubborn: bool = False

    @property
    def name(self):
        return self.inner.name

    @property
    def absolute(self):
        return self.inner.absolute

    def fit(self, likelihood, start):
        return self.inner.fit(likelihood, start)

    def score(self, likelihood, fit):
        return self.inner.score(likelihood, fit)

    def removal(self, likelihood, fit):
        return self.inner.removal(likelihood, fit)

    def change(self, model):
        change = self.inner.change(model)
        if len(model.theta) == 5 and (self.stubborn or model.q / model.n < 2):  # where all operators fit
            change[0] = -1e3
        return change


@pytest.mark.parametrize("inner", CRITERIA, ids=ids)
def test_the_check_brings_back_what_should_not_have_gone(inner, monkeypatch):
    """The first sweep drops the Laplacian; the sweep at the refit, with the true curvature there, returns it."""
    likelihood = reaction_likelihood(1e-3)
    original = by_quadratic.quadratic_of

    def spoiled(fit):
        around = original(fit)
        theta = around.theta.copy()
        theta[0] = 1e-9  # a library that is estimated badly
        return dataclasses.replace(around, theta=theta)

    monkeypatch.setattr(by_quadratic, "quadratic_of", spoiled)
    path = Sweep(inner).select(likelihood)
    assert set(TRUE) <= set(path.best.names)
    assert path.best.chi2 < 1.5
    assert path.best.fit.names == path.best.names
    assert "after 1 refit." not in path.stopped
    assert set(path.best.names) == set(TRUE) or "did not settle" in path.stopped


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("inner", CRITERIA, ids=ids)
def test_a_check_that_does_not_settle_keeps_the_best_of_those_fitted(inner, rounds):
    likelihood = reaction_likelihood(1e-3)
    path = Sweep(Misled(inner, stubborn=True), rounds=rounds).select(likelihood)
    fits = [v for v in path.visited if v.fit is not None]
    assert path.best in fits
    assert path.best.fit.names == path.best.names
    if "did not settle" in path.stopped:
        assert ("lowest criterion" if inner.absolute else "least to gain") in path.stopped
        if inner.absolute:
            assert path.best.score == min(v.score for v in fits)


def test_an_estimate_that_did_not_converge_is_gone_on_from_and_said():
    likelihood = reaction_likelihood(1e-3)
    path = Sweep(Wald(Profile(max_iterations=1))).select(likelihood)
    assert "whole library" in path.stopped
    assert "not converged" in path.stopped
    assert set(path.best.names) == set(TRUE)


def test_several_experiments_are_selected_from_together():
    data = [reaction_diffusion(n=9, steps=10, sigma=1e-3, seed=s)[0] for s in range(2)]
    path = Sweep().select(residual_likelihood(assemble(data, LIBRARY), IID(1e-3)))
    assert set(path.best.names) == set(TRUE)


def test_progress_is_reported(likelihood):
    calls = []
    Sweep().select(likelihood, progress=lambda *a: calls.append(a))
    assert len(calls) == 2
    assert all("selecting" in what for _, _, what in calls)
