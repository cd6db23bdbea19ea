"""Pieces together are the experiment: every block and every time once, and each piece has all that it needs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bvsi.cluster.cutting import StencilRows, cuts
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, TemporalTests

TIMES = np.linspace(0, 1, 30)
STENCILS = {
    "Euler": BackwardEuler(),
    "Crank–Nicolson": CrankNicolson(),
    "BDF2": BDF2(),
    "tests": TemporalTests(),
    "dense": TemporalTests(3, 0.5),
}


@pytest.mark.parametrize("n", [1, 3, 7, 100])
@pytest.mark.parametrize("stencil", STENCILS.values(), ids=STENCILS)
def test_pieces_make_up_the_experiment(stencil, n):
    a, b = (matrix.toarray() for matrix in stencil.matrices(TIMES))
    found = cuts(*stencil.matrices(TIMES), n)
    used = (a != 0) | (b != 0)
    assert len(found) == min(n, len(a))
    assert_array_equal(np.concatenate([np.arange(*cut.blocks) for cut in found]), np.arange(len(a)))
    sizes = [cut.blocks[1] - cut.blocks[0] for cut in found]
    assert max(sizes) - min(sizes) <= 1
    has = np.stack([used[slice(*cut.blocks)].any(axis=0) for cut in found])
    several = np.flatnonzero(has.sum(axis=0) > 1)
    assert sorted(j for cut in found for j in cut.first) == several.tolist()
    for p, cut in enumerate(found):
        assert not has[p, : cut.frames[0]].any()
        assert not has[p, cut.frames[1] :].any()
        assert cut.shared == set(several) & set(np.flatnonzero(has[p]))
        assert cut.first <= cut.shared
        assert not has[:p, sorted(cut.first)].any()


@pytest.mark.parametrize("stencil", STENCILS.values(), ids=STENCILS)
def test_rows_of_a_piece_are_those_of_the_experiment(stencil):
    a, b = stencil.matrices(TIMES)
    for cut in cuts(a, b, 4):
        rows = StencilRows.of(a, b, cut).matrices(TIMES[slice(*cut.frames)])
        for whole, part in zip((a, b), rows, strict=True):
            assert_array_equal(part.toarray(), whole.toarray()[slice(*cut.blocks), slice(*cut.frames)])
