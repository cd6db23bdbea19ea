"""The study of coverage with tiles."""

import numpy as np

from bvsi.infer import Profile
from bvsi.likelihood import Tiles, residual_likelihood
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.residual import TemporalTests, assemble
from bvsi.spaces import SplineTests
from bvsi.studies.problems.classics import burgers
from bvsi.studies.tiles import TilesCase, main, scores, summary

TIMES = TemporalTests(5, 4.0)


def test_scores_are_of_order_one_with_tiles_and_thinned_covariances():
    case = TilesCase(lambda: burgers.simulate(128, 81, 8.0), burgers.CASE.truth)
    whole, thin = scores(case, 1), scores(case, 1, thin=True)
    assert np.all(np.abs(whole[:-1]) < 4)
    assert 0.8 < whole[-1] < 1.2
    np.testing.assert_allclose(thin, whole, atol=0.05)


def test_the_command_prints_and_stores_coverage(tmp_path, capsys):
    assert main(["burgers", "--seeds", "1", "--seed", "3", "--thin", "--out", str(tmp_path / "found.json")]) == 0
    assert "95% intervals cover" in capsys.readouterr().out
    assert "burgers" in (tmp_path / "found.json").read_text()


def test_estimates_with_tiles_are_stationary_to_a_hundredth_of_a_standard_deviation():
    """S and N come with the steps, and the last one is taken with the equations at hand."""
    data = burgers.CASE.noisy(0.05, 0)
    system = assemble(data, Library({"u": list(burgers.CASE.truth)}), discretisation=SplineTests(6), stencil=TIMES)
    likelihood = residual_likelihood(system, IID(0.05 * float(np.std(data.fields["u"]))), Tiles(system.n / 4))
    assert likelihood.costly
    fit = Profile(tol=1e-7).fit(likelihood)
    at = likelihood.profile_equations(fit.theta, rng=np.random.default_rng(0))
    inverse = np.linalg.inv(at.equations.H - at.N)
    sd = np.sqrt(np.diag(inverse @ at.S @ inverse))
    assert np.all(np.abs(inverse @ at.equations.g) < 0.01 * sd)
    np.testing.assert_allclose(np.sqrt(np.diag(fit.quadratic.S)), np.sqrt(np.diag(at.S)), rtol=0.01)
    np.testing.assert_allclose(fit.equations.q, at.equations.q, rtol=1e-5)


def test_coverage_counts_intervals():
    found = summary(np.array([[0.0, 3.0, 1.0], [1.0, 1.0, 1.0]]))
    assert found["coverage"] == 0.75
    assert found["by coefficient"] == [1.0, 0.5]
    assert found["chi2"] == 1.0
