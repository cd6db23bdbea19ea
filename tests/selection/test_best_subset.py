"""Best-subset selection on exact solutions with noise: the truth, protection, several fields."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bvsi
from bvsi.errors import BvsiError
from bvsi.infer import Profile
from bvsi.infer.fit import OPEN
from bvsi.likelihood import Block, ResidualLikelihood, Stacked, residual_likelihood
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Library
from bvsi.residual import TemporalTests, assemble
from bvsi.select import BestSubset, ProfileBIC, Wald
from bvsi.spaces import SplineTests
from discovery.exact_cases import BURGERS, BURGERS_TRUTH, ROTATION, ROTATION_TRUTH, burgers, noisy, rotation

CASES = {"burgers": (burgers, BURGERS, BURGERS_TRUTH), "rotation": (rotation, ROTATION, ROTATION_TRUTH)}
SIGMA = 1e-2


@cache
def likelihood_of(
    name: str, sigma: float = SIGMA, seed: int = 0, *, known: bool = True, candidates: tuple[str, ...] = ()
) -> ResidualLikelihood:
    make, library, _ = CASES[name]
    system = assemble(
        noisy(make(), sigma, seed),
        Library({"u": list(candidates)}) if candidates else library,
        discretisation=SplineTests(gap=3),
        stencil=TemporalTests(5, 2.0),
        variance={f: np.array(sigma**2) for f in library.equations},
    )
    return residual_likelihood(system, IID(sigma) if known else UnknownScale(IID(sigma)), Stacked())


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", CASES)
def test_the_truth_is_selected(name, known):
    likelihood, truth = likelihood_of(name, known=known), CASES[name][2]
    path = BestSubset().select(likelihood)
    assert set(path.best.names) == set(truth)
    fit = Profile().fit(likelihood.restrict(path.best.names))
    errors = path.best.theta - np.array([truth[name] for name in path.best.names])
    assert_allclose(errors / np.sqrt(fit.posterior.variance), 0, atol=4)
    assert_allclose(path.best.theta, fit.theta, atol=0.05 * np.sqrt(fit.posterior.variance).min())
    assert path.best.fit is not None
    assert path.criterion == "extended BIC"


@pytest.mark.parametrize("sigma, seed", [(1e-3, 1), (2e-2, 2), (2e-2, 3)])
def test_the_truth_is_selected_whatever_the_noise(sigma, seed):
    assert set(BestSubset().select(likelihood_of("burgers", sigma, seed)).best.names) == set(BURGERS_TRUTH)


def test_what_is_kept_stays_and_is_found_to_be_zero():
    likelihood = likelihood_of("burgers")
    path = BestSubset().select(likelihood, keep=["u**3"])
    assert set(path.best.names) == {*BURGERS_TRUTH, "u**3"}
    assert all("u**3" in visited.names for visited in path.visited)
    free = BestSubset().select(likelihood)
    assert free.best.score < path.best.score


def test_one_of_every_group_stays():
    path = BestSubset().select(likelihood_of("burgers"), groups=[["u", "u**2"], ["laplacian(u)", "dx(u)"]])
    assert set(BURGERS_TRUTH) <= set(path.best.names)
    assert len(path.best.names) == 3
    for visited in path.visited:
        assert {"u", "u**2"} & set(visited.names)
        assert {"laplacian(u)", "dx(u)"} & set(visited.names)


def test_models_of_the_path_grow_and_the_chosen_one_has_the_lowest_score():
    path = BestSubset().select(likelihood_of("burgers"))
    sizes = [len(visited.names) for visited in path.visited]
    assert sizes == sorted(set(sizes))
    assert all(v.score > path.best.score for v in path.visited if v is not path.best)
    assert "no model near it is better" in str(path)


def test_the_order_of_the_candidates_does_not_matter():
    """The draws of noise are the same, so that the choice is, and coefficients up to where iterations end."""
    turned = tuple(reversed(BURGERS.names))
    plain, other = (BestSubset().select(likelihood_of("burgers", candidates=c)) for c in (BURGERS.names, turned))
    assert set(plain.best.names) == set(other.best.names)
    coefficients = dict(zip(other.best.names, other.best.theta, strict=True))
    assert_allclose(plain.best.theta, [coefficients[name] for name in plain.best.names], rtol=1e-3)


def test_a_rival_that_is_nearly_as_good_is_told():
    """u u_x and (1 + x/1000) u u_x cannot be distinguished at this noise."""
    rival = "u*dx(u)*(1+0.001*x)"
    path = BestSubset().select(likelihood_of("burgers", candidates=("laplacian(u)", "u*dx(u)", rival, "u")))
    assert not path.decided
    assert "u*dx(u)" in path.doubts
    assert min(path.margins.values()) < 2 * np.log(20)
    assert path.inclusion()[min(path.margins, key=path.margins.get)] < 0.95
    free = BestSubset().select(likelihood_of("burgers"))
    assert free.decided
    assert not free.left_open(OPEN)
    assert min(free.margins[name] for name in free.best.names) > 100


def test_settings_are_checked():
    for wrong in ({"rounds": 0}, {"draws": 0}):
        with pytest.raises(BvsiError, match="rounds and draws: at least 1"):
            BestSubset(**wrong)


@pytest.mark.parametrize("name", CASES)
def test_any_weighting_will_do(name):
    likelihood = likelihood_of(name)
    blocks = residual_likelihood(likelihood.system, likelihood.noise[0], Block())
    assert set(BestSubset().select(blocks).best.names) == set(CASES[name][2])


def test_the_criterion_is_an_argument():
    path = BestSubset(criterion=ProfileBIC()).select(likelihood_of("burgers"))
    assert set(path.best.names) >= set(BURGERS_TRUTH)
    assert path.criterion == "profile BIC"
    with pytest.raises(BvsiError, match=r"ExtendedBIC\(\) or ProfileBIC\(\)"):
        BestSubset(criterion=Wald())


def test_progress_is_reported():
    heard = []
    BestSubset().select(likelihood_of("burgers"), progress=lambda done, total, what: heard.append(what))
    assert any(what.startswith("selecting, 2 operators") for what in heard)


@pytest.mark.parametrize("frames", [5, 6])
def test_noise_of_the_true_operator_that_is_larger_than_of_the_time_terms_does_not_hide_it(frames):
    """Diffusion between walls in few frames: 3 of 12 were right when all first weights balanced the two."""
    x, t = np.linspace(0, 10, 101), np.linspace(0, 4, frames)
    modes = ((k, np.pi * k / 10, a) for k, a in ((1, 1.0), (2, 0.7), (3, 0.5)))
    decay = np.exp(-0.2 * t[:, None])
    u = decay * (1.5 + sum(a * np.exp(-0.3 * w**2 * t[:, None]) * np.cos(w * x) for _, w, a in modes))
    library = bvsi.Library({"u": ["laplacian(u)", "u", "u**2", "dx(u)"]})
    for seed in range(3):
        noise = 0.01 * np.random.default_rng(seed).standard_normal(u.shape)
        found = bvsi.discover(bvsi.Data(t, {"u": u + noise}, bvsi.Grid(x=x)), library)
        assert set(found.names) == {"laplacian(u)", "u"}
        assert np.all(np.abs(found.theta - [0.3, -0.2]) < 4 * found.sd)
