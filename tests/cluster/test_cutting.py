"""Pieces together are the experiment: every block and every time once, and each piece has all that it needs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.cluster.cutting import cuts, rows_of
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
    for p, cut in enumerate(found):
        assert not has[p, : cut.frames[0]].any()
        assert not has[p, cut.frames[1] :].any()
        assert has[p, [cut.frames[0], cut.frames[1] - 1]].all()


@pytest.mark.parametrize("stencil", STENCILS.values(), ids=STENCILS)
def test_rows_of_a_piece_are_those_of_the_experiment(stencil):
    a, b = stencil.matrices(TIMES)
    for cut in cuts(a, b, 4):
        rows = rows_of(stencil, TIMES, 1, cut).matrices(TIMES[slice(*cut.frames)])
        for whole, part in zip((a, b), rows, strict=True):
            assert_array_equal(part.toarray(), whole.toarray()[slice(*cut.blocks), slice(*cut.frames)])


@pytest.mark.parametrize("every", [2, 3, 5])
def test_every_so_many_frames_of_a_piece_are_those_of_the_experiment(every):
    whole = TemporalTests(3, 4.0)
    chosen = slice(whole.first(TIMES, every), None, every)
    a, b = (matrix.toarray() for matrix in whole.at(TIMES, chosen))
    for cut in cuts(*whole.matrices(TIMES), 3):
        own, times = rows_of(whole, TIMES, 1, cut), TIMES[slice(*cut.frames)]
        some = slice(own.first(times, every), None, every)
        place = np.flatnonzero(np.isin(TIMES[chosen], times[some]))
        assert len(place) == len(times[some])
        for full, part in zip((a, b), own.at(times, some), strict=True):
            assert_allclose(part.toarray(), full[slice(*cut.blocks), place], atol=1e-15)
            assert np.count_nonzero(full[slice(*cut.blocks)]) == part.nnz
