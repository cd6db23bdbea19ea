"""Few scattered sensors, with the true operators given: an answer with honest error bars, however few functions fit."""

import numpy as np
import pytest

from bvsi.studies.geometries import repeat

TRUTH = {"laplacian(u)", "dx(u)", "dy(u)", "u", "u**2"}


@pytest.mark.parametrize("number", [0, 13])
def test_150_sensors(number: int) -> None:
    """Of 0 only five functions of degree 4 fit into the domain; of 13 the first moments are mostly noise."""
    found = repeat("sensors-150", number, 902)
    assert set(found.names) == TRUTH, found.verdict
    assert np.abs(list(found.z.values())).max() < 3.5


def test_few_sensors_are_refused_with_the_number_needed() -> None:
    assert "nodes are needed" in (told := repeat("sensors-60", 0, 902).verdict) or "nodes in all" in told
