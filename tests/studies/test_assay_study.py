"""The study of scratch assays: an assay is fitted, and its table is made; the real ones are fitted where they are."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery.refining import refine
from bvsi.noise import from_counts
from bvsi.studies import assay

REAL = Path(__file__).parents[3] / "shared" / "data" / "jin2016" / "CellDensity_12.csv"


def test_an_assay_is_fitted_in_both_spaces():
    rng = np.random.default_rng([7, 0, 2])
    made = assay.trial(assay.assay(24.0, rng), rng)
    assert made.converged
    assert 0.6 < made.chi2 < 1.4
    for name in assay.QUANTITIES:
        low, high = made.forward[name]
        assert 0 < low < high
        assert low < 1.5 * made.truth[name]
        assert high > made.truth[name] / 1.5
    assert "| D |" in assay.table([made])


@pytest.mark.shared
@pytest.mark.skipif(not REAL.exists(), reason="needs ../shared/data")
def test_a_real_assay_has_diffusion_and_a_misfit_that_is_told():
    with REAL.open(encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream))
    times, x = (np.unique([float(row[key]) for row in rows]) for key in ("Time", "Position"))
    counts = [np.array([float(row[f"Num_Cells{k}"]) for row in rows]).reshape(len(times), len(x)) for k in (1, 2, 3)]
    data, noise = from_counts([Data(times, {"u": own}, Grid(x=x)) for own in counts])
    made = refine(data, assay.library(assay.FISHER, assay.FISHER), noise=noise)
    low, high = made.best.posterior.interval()[0]
    assert 50 < low < high < 1000
    assert made.best.chi2 == pytest.approx(2.2, abs=0.2)
    assert made.doubts
