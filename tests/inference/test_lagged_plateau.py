"""The lagged covariance on a plateau: told where a given start leads there, and left by the start of its own."""

from __future__ import annotations

import pytest

from bvsi.infer import Lagged, LeastSquares
from inference.test_dominant import CANDIDATES, TRUTH, likelihood_of

NAMES = ["Q2, mixed", "Q2, interior penalty"]


@pytest.mark.parametrize("operators", [CANDIDATES, CANDIDATES[:1]], ids=["three operators", "one"])
@pytest.mark.parametrize("name", NAMES)
def test_from_least_squares_the_plateau_is_told(name, operators):
    likelihood = likelihood_of(name, operators)
    caught = Lagged().fit(likelihood, start=LeastSquares().fit(likelihood.system).theta)
    assert abs(caught.theta[0]) < 0.2 * abs(TRUTH)
    assert not caught.status.converged
    assert "plateau" in caught.status.message


@pytest.mark.parametrize("name", NAMES)
def test_with_one_operator_the_start_of_its_own_does_not_end_there(name):
    likelihood = likelihood_of(name, CANDIDATES[:1])
    free = Lagged().fit(likelihood)
    assert free.status.converged
    assert "plateau" not in free.status.message
    assert free.theta[0] == pytest.approx(TRUTH, rel=0.5)


@pytest.mark.parametrize("name", NAMES)
def test_where_errors_in_variables_draw_the_iteration_to_the_plateau_the_misfit_is_told(name):
    """Three operators: the fixed point is on the plateau, whatever the start, and the truth is none."""
    likelihood = likelihood_of(name)
    for fit in (Lagged().fit(likelihood), Lagged().fit(likelihood, start=[TRUTH, 0, 0])):
        assert abs(fit.theta[0]) < 0.2 * abs(TRUTH)
        assert fit.chi2 > 2
        assert "far from one" in fit.status.message


@pytest.mark.parametrize("name", NAMES)
def test_an_estimate_on_the_plateau_is_not_called_converged_without_a_start_either(name):
    assert not Lagged().fit(likelihood_of(name)).status.converged
