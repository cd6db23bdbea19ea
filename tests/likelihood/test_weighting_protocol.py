"""What every weighting says of itself is true of its W, as a matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.likelihood import Block, Isotropic, Stacked, residual_likelihood
from bvsi.likelihood.products import SpaceTime
from bvsi.noise import IID
from inference.cases import reaction_system

TRUTH = np.array([0.1, -0.8])
WEIGHTINGS = [Isotropic(), Block(), Stacked(), Stacked(max_memory=0)]


def part_of(weighting):
    (part,) = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-2), weighting).parts
    return part


def columns(part):
    """The identity as residuals, (N, K, K N), rows k·N + i."""
    N, K = part.residuals.y.shape
    return np.eye(K * N).reshape(K, N, K * N).transpose(1, 0, 2)


def matrix(Z):
    """Residuals (N, K, m) as rows k·N + i."""
    return Z.transpose(1, 0, 2).reshape(-1, Z.shape[2])


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=repr)
def test_the_weights_are_those_of_the_normal_equations(weighting):
    part = part_of(weighting)
    WX = weighting.weights(part, TRUTH)(part.residuals.X)
    equations = weighting.normal_equations(part, TRUTH)
    assert_allclose(np.einsum("nki,nkj->ij", part.residuals.X, WX), equations.H, rtol=1e-7)


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=repr)
def test_blocks_are_coupled_where_it_says_so(weighting):
    part = part_of(weighting)
    N, K = part.residuals.y.shape
    W = matrix(weighting.weights(part, TRUTH)(columns(part)))
    blocks = np.abs(W).reshape(K, N, K, N).max(axis=(1, 3))
    apart = blocks[~np.eye(K, dtype=bool)]
    assert (apart.max() > 1e-6 * blocks.max()) == weighting.couples_blocks


@pytest.mark.parametrize("weighting", WEIGHTINGS[1:], ids=repr)
def test_an_exact_weighting_inverts_the_whole_covariance(weighting):
    part = part_of(weighting)
    covariance = matrix(SpaceTime(part, TRUTH).covariance(columns(part)))
    W = matrix(weighting.weights(part, TRUTH)(columns(part)))
    assert np.allclose(W @ covariance, np.eye(len(W)), atol=1e-5) == weighting.exact
    assert weighting.uses_noise


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=repr)
def test_weights_of_another_point_from_those_nearby(weighting):
    part, other = part_of(weighting), 1.01 * TRUTH
    near, r = weighting.weights(part, TRUTH), part.residuals.y
    exact = weighting.weights(part, other)(r[:, :, None])
    assert_allclose(weighting.reweighted(part, [other], near, r), exact, rtol=0, atol=1e-3 * np.abs(exact).max())


def test_estimates_of_noise_by_time():
    """Every block is a tile of its own for Block, and all blocks are one tile for Stacked."""
    structure = part_of(Block()).residuals.structure
    used = (abs(structure.a) + abs(structure.b)).toarray() > 0
    assert_allclose(Block().estimates(part_of(Block())), used.sum(axis=0))
    assert_allclose(Stacked().estimates(part_of(Stacked())), 1.0)
