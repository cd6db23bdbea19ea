"""Likelihoods that the tests of selection share."""

from dataclasses import replace

import numpy as np
import pytest

from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, add_noise
from bvsi.residual import assemble
from bvsi.studies.problems import fokker_planck
from selection.selection_cases import reaction_likelihood


@pytest.fixture(scope="module")
def likelihood():
    return reaction_likelihood(1e-4)


@pytest.fixture(scope="module")
def density(tmp_path_factory):
    """Fokker–Planck on 12 × 12 cells, 30 steps, own discretisation, three operators that are not there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("cache")))
        clean = fokker_planck.forward_solve(12, accurate_time=False)
    clean = replace(clean, times=clean.times[:31], fields={"p": clean.fields["p"][:31]})
    library = fokker_planck.library(fokker_planck.CANDIDATES[:8])

    def make(sigma: float, seed: int):
        return residual_likelihood(assemble(add_noise(clean, sigma, np.random.default_rng(seed)), library), IID(sigma))

    return make
