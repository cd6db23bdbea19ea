"""Rivals of the selected model: their odds, and when a selection counts as decided."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.discovery import Discovery, Method, discover
from bvsi.infer import Profile
from bvsi.infer.quadratic import Quadratic, carried_over
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import BackwardEuler, assemble
from bvsi.select import ProfileBIC, Sweep
from bvsi.select.by_quadratic import around as expanded_at
from bvsi.select.search import ODDS, ODDS_OF_MORE, Protection, Rival, doubts, find_rivals, left_out
from bvsi.spaces import Q1, Galerkin
from inference.cases import reaction_diffusion
from selection.selection_cases import SPURIOUS, TRUE, reaction_likelihood

ALIKE = "u*(1+0.03*x)"
CLOSER = "u*(1+0.01*x)"
FREE = Protection(frozenset(), ())


def made(operators, sigma=1e-3, *, known=True, n=25, steps=40):
    """u_t = 0.1 u_xx − 0.8 u, with n · steps residuals."""
    data, _ = reaction_diffusion(n=n, steps=steps, sigma=sigma)
    library = Library({"u": list(operators)}, boundary=NoFlux())
    return residual_likelihood(assemble(data, library), IID(sigma) if known else UnknownScale())


def at(likelihood, selected, *, inflated=True):
    """Expansion of all operators at the fit of the selected ones."""
    whole, fit = Profile().fit(likelihood), Profile().fit(likelihood.restrict(selected))
    around = carried_over(whole.quadratic, expanded_at(likelihood, fit, np.random.default_rng(0)))
    if inflated:
        return around
    return dataclasses.replace(around, S_blocks=around.S)


def members(names, selected, rival):
    return tuple(n for n in names if (n in selected and n not in rival.lacks) or n in rival.adds)


@pytest.fixture(scope="module")
def alike():
    """Few residuals: one operator more costs little."""
    return made([*TRUE, "u**2", CLOSER], n=13, steps=16)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_the_odds_are_those_of_refitted_models(known):
    """J = Q + d log n, or n log(Q/n) + d log n, of every rival from a fit of its own."""
    likelihood = made([*TRUE, "u**2", CLOSER], known=known, n=13, steps=16)
    rivals = find_rivals(at(likelihood, TRUE, inflated=False), TRUE, FREE)

    def J(names):
        model = likelihood.restrict(names)
        return ProfileBIC().score(model, Profile().fit(model))

    base = J(TRUE)
    assert any(r.lacks and r.adds for r in rivals)
    assert all(r.lacks or r.odds < ODDS_OF_MORE for r in rivals)
    for rival in rivals:
        refitted = J(members(likelihood.names, TRUE, rival)) - base
        assert_allclose(2 * math.log(rival.odds), refitted, atol=0.15, err_msg=str(rival))


def test_no_rival_of_better_or_near_odds_is_missed(alike):
    """All models of these operators, fitted anew."""
    alike = alike.restrict([*TRUE, CLOSER])
    expansion = at(alike, TRUE, inflated=False)
    found = {members(alike.names, TRUE, r) for r in find_rivals(expansion, TRUE, FREE)}
    scores = {}
    for bits in range(1, 2 ** len(alike.names)):
        names = tuple(n for i, n in enumerate(alike.names) if bits >> i & 1)
        model = alike.restrict(names)
        scores[names] = ProfileBIC().score(model, Profile().fit(model))
    for names, score in scores.items():
        change = score - scores[TRUE]
        limit = 2 * math.log(ODDS_OF_MORE if set(TRUE) < set(names) else ODDS)
        if names != TRUE and abs(change - limit) > 0.3:
            assert (names in found) == (change < limit), (names, change)


def test_rivals_are_sorted_and_below_the_limit(alike):
    odds = [r.odds for r in find_rivals(at(alike, TRUE), TRUE, FREE)]
    assert odds == sorted(odds)
    assert all(0 < o < ODDS for o in odds)


def test_blocks_that_disagree_make_the_odds_smaller():
    """θ_R²/max(P, V)_R − θ_N²/max(P, V)_N for the exchange of one operator for another."""
    likelihood = made([*TRUE, ALIKE])
    plain = at(likelihood, TRUE, inflated=False)
    rough = dataclasses.replace(plain, S_blocks=50 * plain.S)
    changes = []
    for expansion in (plain, rough):
        odds = {(r.lacks, r.adds): r.odds for r in find_rivals(expansion, TRUE, FREE)}
        model = expansion.minimum(likelihood.names)
        z2 = model.theta**2 / np.maximum(np.diag(model.inverse), model.variance)
        changes.append(2 * math.log(odds[("u",), (ALIKE,)]))
        assert_allclose(changes[-1], z2[1] - z2[2], rtol=1e-6)
    assert 0 < changes[1] < 0.5 * changes[0]


def test_a_larger_model_has_odds_of_at_most_root_n_against_it():
    """J grows by log n less z² for one operator more."""
    likelihood = reaction_likelihood(1e-3)
    n = likelihood.system.n
    expansion = at(likelihood, TRUE)
    for rival in find_rivals(expansion, TRUE, FREE):
        if not rival.lacks:
            assert rival.odds <= n ** (len(rival.adds) / 2)
            model = expansion.minimum(members(likelihood.names, TRUE, rival))
            if len(rival.adds) == 1:
                i = members(likelihood.names, TRUE, rival).index(rival.adds[0])
                variance = max(model.variance[i], model.inverse[i, i])
                assert_allclose(2 * math.log(rival.odds), math.log(n) - model.theta[i] ** 2 / variance, atol=1e-8)


def test_a_clear_case_is_decided():
    likelihood = made([*TRUE, *SPURIOUS])
    path = Sweep().select(likelihood)
    assert set(path.best.names) == set(TRUE)
    assert find_rivals(at(likelihood, TRUE), TRUE, FREE) == ()
    assert path.doubts == ""
    assert path.decided
    assert "Nearly as good" not in str(path)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_of_two_nearly_collinear_operators_the_other_is_named(known):
    path = Sweep().select(made([*TRUE, ALIKE], known=known))
    (chosen,) = set(path.best.names) - {"laplacian(u)"}
    (other,) = {"u", ALIKE} - {chosen}
    assert not path.decided
    assert f"without {chosen}, with {other} (" in path.doubts
    assert str(path).endswith(path.doubts)


def test_noise_that_swamps_the_operators_is_told():
    likelihood = reaction_likelihood(0.1, n=9).restrict([*TRUE, "x*u", "u**2"])
    assert Profile().fit(likelihood).quadratic.swamped
    path = Sweep().select(likelihood)
    assert not path.decided
    assert "noise makes up" in path.doubts
    assert "less noise or more data" in path.doubts


def test_the_share_of_noise_grows_with_its_variance_and_vanishes_without():
    shares = []
    for sigma in (1e-5, 1e-4, 1e-3):
        likelihood = reaction_likelihood(sigma)
        shares.append(Profile().fit(likelihood).quadratic.noise_share)
    assert shares[0] < 1e-6
    assert_allclose(np.diff(np.log10(shares)), 2, atol=0.3)


def test_operators_to_keep_are_in_every_rival(alike):
    expansion = at(alike, TRUE)
    free = find_rivals(expansion, TRUE, FREE)
    kept = find_rivals(expansion, TRUE, Protection.of(alike.names, ["u"], ()))
    assert any("u" in r.lacks for r in free)
    assert kept == tuple(r for r in free if "u" not in r.lacks)


def test_every_group_has_a_member_in_every_rival(alike):
    expansion = at(alike, TRUE)
    free = find_rivals(expansion, TRUE, FREE)
    group = {"u", "u**2"}
    grouped = find_rivals(expansion, TRUE, Protection.of(alike.names, (), [sorted(group)]))
    assert len(grouped) < len(free)
    assert grouped == tuple(r for r in free if group & set(members(alike.names, TRUE, r)))


def test_no_rival_is_empty_or_the_selected_model(alike):
    expansion = at(alike, ("u",))
    for rival in find_rivals(expansion, ("u",), FREE):
        assert rival.lacks or rival.adds
        assert members(alike.names, ("u",), rival)


def test_a_model_that_lacks_a_needed_operator_loses_to_the_one_that_has_it(alike):
    (best, *_) = find_rivals(at(alike, ("u",)), ("u",), FREE)
    assert "laplacian(u)" in best.adds
    assert best.odds < 1e-6


def test_the_text_names_three_and_counts_the_rest():
    likelihood = reaction_likelihood(1e-3)  # few residuals: one operator more costs little
    expansion = at(likelihood, ("u",))
    rivals = find_rivals(expansion, ("u",), FREE)
    text = doubts(expansion, ("u",), FREE)
    assert len(rivals) > 3
    assert text.endswith(f"; and {len(rivals) - 3} more.")
    for rival in rivals[:3]:
        assert str(rival) in text
    assert str(Rival(("a",), ("b", "c"), 2.5)) == "without a, with b, with c (2.5 : 1)"


@pytest.mark.parametrize("operators", [[*TRUE, ALIKE], [*TRUE, *SPURIOUS]], ids=["alike", "clear"])
def test_doubts_are_in_the_diagnostics_of_a_discovery_and_in_its_file(tmp_path, operators):
    data, _ = reaction_diffusion(n=25, steps=40, sigma=1e-3)
    library = Library({"u": operators}, boundary=NoFlux())
    found = discover(
        data, library, noise=IID(1e-3), method=Method(tests=Galerkin(Q1), stencil=BackwardEuler()), check=False
    )
    found.save(tmp_path / "found.nc")
    again = Discovery.load(tmp_path / "found.nc")
    assert again.path.doubts == found.path.doubts
    assert again.path.decided == found.path.decided == (ALIKE not in operators)
    assert again.diagnostics == found.diagnostics
    assert str(again) == str(found)
    assert ("Nearly as good" in found.diagnostics) != found.path.decided
    assert found.path.doubts in found.diagnostics


@pytest.mark.parametrize("alike", [0.1, 0.6, 0.95])
def test_odds_of_an_operator_that_is_left_out_are_frequencies(alike):
    """It is there once for d times that it is not, as large as the one that it resembles, or as both together.

    Scores are drawn with the effect and without; whether the selected operators explain little or much is drawn too.
    """
    rng, names, found = np.random.default_rng(0), ("u", "dx(u)", "u**2"), []
    A = np.array([[1.0, 0.0, alike], [0.0, 1.0, 0.0], [alike, 0.0, 1.0]])
    left = 1 - alike**2  # of A_jj, u taken off
    for _ in range(6000):
        theta = np.array([*np.exp(rng.uniform(0, 3, 2)), 0.0])
        whole = float(theta @ A @ theta)
        usual = alike**2 * min(theta[0] ** 2, whole) + (1 - alike**2) * whole
        there = rng.random() < 1 / (1 + len(names))
        effect = math.sqrt(usual) * rng.standard_normal() if there else 0.0
        score = left * effect + math.sqrt(left) * rng.standard_normal()
        quadratic = Quadratic(names, theta, 1000.0, np.array([0.0, 0.0, score]), A, A, 1000)
        margin = left_out((0, 1), quadratic, FREE, {})["u**2"]
        if margin != 0:  # else it would not show, and nothing is said
            found.append((1 / (1 + math.exp(0.5 * margin)), there))
    stated, there = np.array(found).T
    for low, high in ((0.0, 0.05), (0.05, 0.2), (0.2, 0.6), (0.6, 1.0)):
        some = (stated >= low) & (stated < high)
        if some.sum() > 50:
            spread = math.sqrt(np.mean(stated[some] * (1 - stated[some])) / some.sum())
            assert abs(there[some].mean() - stated[some].mean()) < 4 * spread
    assert len(found) > 2000
    assert stated[there == 1].mean() > 2 * stated[there == 0].mean()
