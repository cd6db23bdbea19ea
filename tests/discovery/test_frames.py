"""Pictures of a fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bvsi.discovery import Discovery, discover
from discovery.exact_cases import BURGERS, ROTATION, burgers, noisy, rotation


@pytest.fixture(scope="module")
def found() -> Discovery:
    return discover(noisy(burgers(), 0.02), BURGERS)


def test_the_fit_is_nearer_to_the_truth_than_the_data(found: Discovery) -> None:
    assert found.frames is not None
    (one,) = found.frames.experiments
    truth = burgers().fields["u"]
    assert one.data["u"].shape == one.fit["u"].shape == truth.shape
    inner = slice(8, -8)  # towards the ends in time test functions vanish
    error, noise = (np.std((v - truth)[inner]) for v in (one.fit["u"], one.data["u"]))
    assert error < noise


def test_residuals_of_a_right_model_have_unit_variance(found: Discovery) -> None:
    assert found.frames is not None
    (one,) = found.frames.experiments
    residual = one.residual["u"]
    assert residual.shape == (len(one.residual_times), len(one.residual_points["u"]))
    assert np.all(np.diff(one.residual_times) > 0)
    squares = [np.mean(residual**2)]  # neighbours are alike: of one data set their mean is known to 0.2
    for seed in (1, 2, 3):
        other = discover(noisy(burgers(), 0.02, seed), BURGERS).frames
        assert other is not None
        squares.append(np.mean(other.experiments[0].residual["u"] ** 2))
    assert np.mean(squares) == pytest.approx(1.0, abs=0.25)


def test_a_missing_operator_shows_in_the_residuals() -> None:
    wrong = discover(noisy(burgers(), 0.02), BURGERS.subset(["u*dx(u)", "u"]))
    assert wrong.frames is not None
    assert np.mean(wrong.frames.experiments[0].residual["u"] ** 2) > 2.0


def test_pictures_are_kept_with_the_result(tmp_path: Path) -> None:
    found = discover(noisy(rotation(), 0.01), ROTATION)
    found.save(tmp_path / "found.nc")
    again = Discovery.load(tmp_path / "found.nc").frames
    assert found.frames is not None
    assert again is not None
    (one,), (other,) = found.frames.experiments, again.experiments
    assert one.shape == other.shape == (32,)
    for kind in ("data", "fit", "residual", "residual_points"):
        mine, kept = getattr(one, kind), getattr(other, kind)
        assert list(mine) == list(kept) == ["u", "v"]
        for name in mine:
            np.testing.assert_allclose(kept[name], mine[name], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(one.residual_times, other.residual_times)


def test_arviz_reads_the_file(tmp_path: Path, found: Discovery) -> None:
    arviz = pytest.importorskip("arviz")
    found.save(tmp_path / "found.nc")
    draws = arviz.from_netcdf(tmp_path / "found.nc")
    theta = draws["posterior"]["theta"]
    assert theta.dims == ("chain", "draw", "operator")
    np.testing.assert_allclose(theta.mean(("chain", "draw")), found.theta, atol=float(0.2 * found.sd.max()))
