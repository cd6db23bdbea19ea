"""The efficiency study: its bound, its one step, and what it writes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.studies.benchmarks import efficiency
from bvsi.studies.benchmarks.efficiency import TRUTH
from bvsi.studies.problems import fokker_planck

SIGMA = 1e-3


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("efficiency")))
        return fokker_planck.forward_solve(8, accurate_time=False)


def observation_bound(clean) -> np.ndarray:
    """From û_j = u_j(θ, u_0) + ε: ∂u_j/∂u_0 and ∂u_j/∂θ carried along in time, the initial state then eliminated."""
    (residuals,) = fokker_planck.residual_system(clean).experiments
    structure, u = residuals.structure, clean.fields["p"]
    M = structure.pattern.matrix(structure.M).toarray() / (clean.times[1] - clean.times[0])
    J = [structure.pattern.matrix(one.values(0)).toarray() for one in residuals.J]
    own = M - sum(t * j for t, j in zip(TRUTH, J, strict=True))
    start, slope = np.eye(len(M)), np.zeros((len(M), len(TRUTH)))
    rows = [np.concatenate([slope, start], axis=1)]
    for state in u[1:]:
        start = np.linalg.solve(own, M @ start)
        slope = np.linalg.solve(own, M @ slope + np.stack([j @ state for j in J], axis=1))
        rows.append(np.concatenate([slope, start], axis=1))
    A = np.concatenate(rows) / SIGMA
    information, d = A.T @ A, len(TRUTH)
    cross = information[:d, d:]
    left = information[:d, :d] - cross @ np.linalg.solve(information[d:, d:], cross.T)
    return np.sqrt(np.diag(np.linalg.inv(left)))


def test_the_bound_is_that_of_the_observations_with_unknown_initial_state(clean):
    whole = efficiency.factorised(clean, SIGMA)
    found = np.sqrt(np.diag(np.linalg.inv(whole.profile_equations()[0].H)))
    assert_allclose(found, observation_bound(clean), rtol=1e-5)


def test_noise_free_data_have_the_truth_as_their_step(clean):
    whole = efficiency.factorised(clean, SIGMA)
    found = efficiency.one_step(whole, fokker_planck.residual_system(clean))
    assert_allclose(found, TRUTH, rtol=1e-8)


def test_the_study_shows_stacked_estimates_at_the_bound_and_block_ones_above(clean, monkeypatch):
    monkeypatch.setattr(fokker_planck, "forward_solve", lambda *_, **__: clean)
    found = efficiency.study(8, SIGMA, seeds=10, fits=1)
    stacked, block = (np.sqrt(np.mean(found.ratio(e) ** 2)) for e in (found.step, found.block))
    assert abs(stacked - 1) < 0.35  # fifty numbers that are correlated among the five coefficients
    assert block > 1.3 * stacked
    assert abs(np.sqrt(np.mean((efficiency.spread(found.block) / found.sandwich) ** 2)) - 1) < 0.35
    assert np.all(found.sandwich > found.bound)
    assert np.all(found.inverse > found.sandwich)
    assert found.apart < 0.05
    written = json.loads(json.dumps(efficiency.summary(found, 8, SIGMA)))
    assert_allclose(written["stacked_ratio"], found.ratio(found.step))
    assert efficiency.table(found, 8, SIGMA).count("\n") == 13


@pytest.mark.parametrize("nx, sigma, seeds, fits", [(1, 1e-3, 2, 0), (8, 0.0, 2, 0), (8, 1e-3, 0, 0), (8, 1e-3, 2, 3)])
def test_settings_are_checked(nx, sigma, seeds, fits):
    with pytest.raises(BvsiError, match="is needed"):
        efficiency.study(nx, sigma, seeds, fits)
