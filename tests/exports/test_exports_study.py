"""The study of exports: what is found agrees with ``bvsi.simulate`` in every target that is installed."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.studies.exports import TARGETS, WANTED, cases, difference


@pytest.fixture(scope="module")
def lorenz():
    case = cases()["lorenz"]()
    found = case.found(0)
    return case, found, case.reference(found)


@pytest.mark.filterwarnings("ignore")  # of what py-pde and JAX import
@pytest.mark.parametrize("target", TARGETS)
def test_targets_agree_with_simulate(lorenz, target):
    pytest.importorskip(TARGETS[target][0])
    case, found, reference = lorenz
    assert reference.shape == (len(case.times), 3, 1)
    assert difference(case, found, target, reference) < WANTED


def test_another_equation_differs(lorenz):
    case, found, reference = lorenz
    assert difference(case, found, "numpy", reference * np.linspace(1, 1.01, len(case.times))[:, None, None]) > WANTED
