"""Pieces together are the experiment: every block and every time once, and each piece has all that it needs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bvsi.cluster.cutting import Rows, cuts
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
    owned = [j + cut.frames[0] for cut in found for j in sorted(cut.owned)]
    assert sorted(owned) == np.flatnonzero(used.any(axis=0)).tolist()
    for cut in found:
        own = np.array(sorted(cut.owned), dtype=int) + cut.frames[0]
        everyone = np.flatnonzero(used[:, own].any(axis=1)) if len(own) else np.array([cut.blocks[0]])
        assert everyone.min() >= cut.blocks[0], "a time is owned by the first piece that has it"
        assert everyone.max() < cut.halo
        inside = used[cut.blocks[0] : cut.halo]
        assert not inside[:, : cut.frames[0]].any()
        assert not inside[:, cut.frames[1] :].any()


@pytest.mark.parametrize("stencil", STENCILS.values(), ids=STENCILS)
def test_rows_of_a_piece_are_those_of_the_experiment(stencil):
    a, b = stencil.matrices(TIMES)
    for cut in cuts(a, b, 4):
        rows = Rows.of(a, b, cut).matrices(TIMES[slice(*cut.frames)])
        for whole, part in zip((a, b), rows, strict=True):
            assert_array_equal(part.toarray(), whole.toarray()[cut.blocks[0] : cut.halo, cut.frames[0] : cut.frames[1]])
