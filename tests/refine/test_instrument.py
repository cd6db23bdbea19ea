"""What an instrument makes of a field: kernels in space, exposures, and noise that is alike at neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sparse

from bvsi.data import Data, Grid, Mesh
from bvsi.discovery.refining import refine
from bvsi.errors import NoiseError
from bvsi.forward.ensemble import simulator
from bvsi.noise import IID, Blurred, Covariance, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.refine import ForwardModel, Measurements, RefineError, fit_forward
from bvsi.refine.expansion import Point, sums_at
from bvsi.refine.instrument import Correlated, exposure, observed_by

X = np.linspace(0.0, 1.0, 24)
TIMES = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
SIGMA = 0.01


def library(*names):
    return Library({"u": list(names or ("laplacian(u)", "u"))}, boundary=NoFlux())


def test_a_kernel_damps_waves_as_its_transform_says():
    """Gaussian: exp(−k²w²/2); box: sinc; both: their product. On a period, in the middle of a line, and on a mesh."""
    x, k, w, b = np.arange(64) / 64, 2 * np.pi * 3, 0.03, 0.08
    round_ = Grid(x=x, periodic={"x": 1.0})
    damped = np.exp(-0.5 * (k * w) ** 2) * np.sin(k * b / 2) / (k * b / 2)
    H, inside = observed_by(round_, round_, {"x": w}, {"x": b})
    assert inside.all()
    np.testing.assert_allclose(H @ np.cos(k * x), damped * np.cos(k * x), atol=1e-3)
    np.testing.assert_allclose(H @ np.ones(64), 1.0, atol=1e-12)
    line = Grid(x=x)
    H, inside = observed_by(line, line, {"x": w}, {"x": b})
    assert inside[(x > 0.13) & (x < 0.85)].all()
    assert not inside[(x < 0.07) | (x > 0.92)].any()
    np.testing.assert_allclose((H @ np.cos(k * x))[inside], damped * np.cos(k * x)[inside], atol=2e-3)


def test_kernels_of_a_grid_are_products_and_of_a_mesh_the_same():
    axis = np.linspace(0.0, 1.0, 16)
    grid = Grid(x=axis, y=axis)
    x, y = grid.points.T
    field = np.cos(3 * x) * np.sin(2 * y)
    H, inside = observed_by(grid, grid, {"x": 0.06}, {"y": 0.1})
    factor = np.exp(-0.5 * (3 * 0.06) ** 2) * np.sin(0.1) / 0.1
    np.testing.assert_allclose((H @ field)[inside], factor * field[inside], atol=1e-3)
    number = np.arange(16 * 16).reshape(16, 16)
    cells = np.stack([number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]], axis=-1).reshape(-1, 4)
    mesh = Mesh(grid.points, cells, "quad")
    K, within = observed_by(mesh, mesh, {"x": 0.06}, {"y": 0.1})
    assert np.all(within == inside)
    np.testing.assert_allclose((K @ field)[inside], (H @ field)[inside], atol=5e-4)


def test_an_exposure_is_a_mean_over_time():
    offsets, weights = exposure(0.2, TIMES[::2])
    np.testing.assert_allclose(weights @ np.exp(3 * offsets), np.sinh(0.3) / 0.3, rtol=1e-6)


def blurred_data(seed, blur, bins, truth, noise=SIGMA, names=()):
    """Solved on a fine line, seen by its own integral over kernel and exposure."""
    fine = np.linspace(0.0, 1.0, 185)
    u0 = 0.2 + 2 * np.exp(-(((fine - 0.4) / 0.06) ** 2)) + np.exp(-(((fine - 0.7) / 0.05) ** 2))
    inner = np.linspace(-0.5, 0.5, 9) * bins.get("time", 0.0)
    moments = np.unique(np.add.outer(TIMES, inner).ravel())
    start = Data(moments, {"u": np.tile(u0, (len(moments), 1))}, Grid(x=fine))
    u, _ = simulator(start, library(*names)).run(truth, {"u": u0}, moments)
    windows = [np.searchsorted(moments, t + inner - 1e-12) for t in TIMES]
    mean = np.stack(
        [np.trapezoid(u["u"][w], inner, axis=0) / np.ptp(inner) if np.ptp(inner) else u["u"][w[0]] for w in windows]
    )
    places = np.clip(np.add.outer(X, 0.002 * np.arange(-150, 151)), 0, 1)
    weights = np.exp(-0.5 * ((places - X[:, None]) / blur) ** 2)
    seen = np.stack([np.sum(np.interp(places, fine, own) * weights, axis=1) / weights.sum(axis=1) for own in mean])
    return Data(TIMES, {"u": seen + noise * np.random.default_rng(seed).standard_normal(seen.shape)}, Grid(x=X))


def test_blur_and_exposure_are_undone():
    """The mean of u² is not the square of the mean: where the field is narrow, a sink is seen too weak."""
    truth, blur, bins, names = np.array([0.003, -2.0]), 0.06, {"time": 0.08}, ("laplacian(u)", "u**2")
    z, ignored = [], []
    for seed in range(2):
        data = blurred_data(seed, blur, bins, truth, names=names)
        given = {"noise": IID(SIGMA), "structures": [names]}
        fit = refine(data, library(*names), blur={"x": blur}, bins=bins, **given).best
        assert fit.status.converged
        assert 0.6 < fit.chi2 < 1.5
        z.append((fit.posterior.mean - truth) / np.sqrt(fit.posterior.variance))
        plain = refine(data, library(*names), **given).best
        ignored.append((plain.posterior.mean - truth) / np.sqrt(plain.posterior.variance))
    assert np.abs(z).max() < 3.5
    assert np.sqrt(np.mean(np.square(z))) < 1.7
    assert np.abs(ignored).max(axis=1).min() > 3.5


def alike(width, n=24, floor=0.0):
    h = np.subtract.outer(np.arange(n), np.arange(n)) / (n - 1)
    return np.exp(-(h**2) / (4 * width**2)) + floor * np.eye(n)


def test_whitened_directions_are_those_of_the_noise():
    """Of draws of the noise the deviance is that of as many squares of normals as there are directions."""
    data = Data(TIMES, {"u": np.zeros((5, 24))}, Grid(x=X))
    one = Correlated.of(Blurred(IID(1.0), {"x": 0.05, "time": 0.1}), data, ("u",))
    rng = np.random.default_rng(0)
    root = scipy.linalg.cholesky(alike(0.05, floor=1e-10), lower=True)
    in_time = scipy.linalg.cholesky(alike(0.25, 5, 1e-10), lower=True)
    known = np.ones((5, 24), dtype=bool)
    sums = []
    for _ in range(200):
        draw = in_time @ rng.standard_normal((5, 24)) @ root.T
        Y = np.stack([one.solve(own[:, None], known[0])[:, 0] for own in draw])
        sums.append(np.sum(draw * (one.time @ Y)))
    count = one.count(known)
    assert count < 5 * 24
    assert np.mean(sums) == pytest.approx(count, abs=4 * np.sqrt(2 * count / 200))


def test_what_is_not_known_says_nothing_of_correlated_noise():
    """The precision of known values alone is that of their own covariance, for kernels and stated matrices alike."""
    data = Data(TIMES, {"u": np.zeros((5, 24))}, Grid(x=X))
    known = np.random.default_rng(1).random(24) < 0.8
    draws = np.random.default_rng(2).standard_normal((24, 3))
    matrix = alike(0.02, floor=0.1)
    stated = Correlated.of(Covariance({"u": sparse.csr_array(matrix)}), data, ("u",))
    unit = matrix / 1.1
    expected = np.linalg.solve(unit[known][:, known], draws[known])
    found = stated.solve(draws, known)
    np.testing.assert_allclose(found[known], expected, rtol=1e-8)
    assert not found[~known].any()
    kernels = Correlated.of(Blurred(IID(1.0), {"x": 0.02}), data, ("u",))  # narrow: all directions are kept
    assert kernels.rank == (120, 24)
    expected = np.linalg.solve(alike(0.02)[known][:, known], draws[known])
    np.testing.assert_allclose(kernels.solve(draws, known)[known], expected, rtol=1e-8)
    assert kernels.count(np.tile(known, (5, 1))) == 5 * known.sum()
    with pytest.raises(NoiseError, match="positive definite"):
        Correlated.of(Covariance({"u": sparse.csr_array(alike(0.02) - 0.5 * np.eye(24) + 1.0)}), data, ("u",))


@pytest.mark.parametrize("widths", [{"x": 0.06}, {"x": 0.06, "time": 0.08}])
def test_estimates_with_correlated_noise_have_the_spread_that_they_state(widths):
    """As white noise its error bars would be too small by the square root of its density at long waves."""
    truth, made = np.array([0.02, 0.8]), library()
    u0 = 1 + 0.5 * np.cos(np.pi * X) + 0.3 * np.cos(3 * np.pi * X)
    start = Data(TIMES, {"u": np.tile(u0, (5, 1))}, Grid(x=X))
    u, _ = simulator(start, made).run(truth, {"u": u0}, TIMES)
    noise = Blurred(IID(SIGMA), widths)
    root = scipy.linalg.cholesky(alike(widths["x"], floor=1e-9), lower=True)
    in_time = scipy.linalg.cholesky(alike(widths.get("time", 1e-3) / 0.4, 5, 1e-9), lower=True)
    z, wrong, chi2 = [], [], []
    for seed in range(5):
        draw = in_time @ np.random.default_rng(seed).standard_normal((5, 24)) @ root.T
        data = start.with_fields({"u": u["u"] + SIGMA * draw})
        for model, kept in ((noise, z), (IID(SIGMA), wrong)):
            fit = fit_forward(ForwardModel.of([Measurements.of(data, model, ("u",))], made, None))
            kept.append((fit.posterior.mean - truth) / np.sqrt(fit.posterior.variance))
            if kept is z:
                chi2.append(fit.chi2)
                assert fit.count < 120
    assert np.sqrt(np.mean(np.square(z))) < 1.6
    assert np.sqrt(np.mean(np.square(wrong))) > 1.2 * np.sqrt(np.mean(np.square(z)))
    assert 0.6 < np.mean(chi2) < 1.5


def test_sums_are_derivatives_of_the_deviance():
    """GᵀΣ⁻¹r is −½ ∂/∂(θ, z) of the deviance, with kernels, exposures and correlated noise together."""
    data = blurred_data(3, 0.05, {"time": 0.05}, np.array([0.02, 0.8]))
    noise = Blurred(IID(SIGMA), {"x": 0.04, "time": 0.06})
    one = Measurements.of(data, noise, ("u",), Grid(x=np.linspace(-0.3, 1.3, 60)), (), {"x": 0.05}, {"time": 0.05})
    model = ForwardModel.of([one], library(), None)
    theta, z = np.array([0.02, 0.8]), one.modes(one.smooth[0])
    point = Point(theta, (z,), (np.zeros((1, 3)),), 1.0, 4, (None,))
    slope = sums_at(model, point).slope[0]
    h, e = 1e-5, np.random.default_rng(0).standard_normal(len(z))
    for direction, expected in (((1.0, 0.0), slope[0]), ((0.0, 1.0), slope[1]), (None, slope[2:] @ e)):
        moved = [
            replace(point, theta=theta + s * h * np.array(direction))
            if direction is not None
            else replace(point, z=(z + s * h * e,))
            for s in (1, -1)
        ]
        up, down = (sums_at(model, own).deviance for own in moved)
        assert -0.25 * (up - down) / h == pytest.approx(expected, rel=1e-3)


def test_noise_alike_in_time_needs_all_values():
    keep = {"u": np.random.default_rng(0).random((5, 24)) < 0.8}
    data = replace(blurred_data(0, 0.05, {}, np.array([0.02, 0.8])), measured=keep)
    with pytest.raises(RefineError, match="alike in time needs data without gaps"):
        refine(data, library(), noise=Blurred(IID(SIGMA), {"time": 0.1}))


def test_the_level_of_correlated_noise_may_be_unknown():
    data = blurred_data(0, 0.05, {}, np.array([0.02, 0.8]))
    fit = refine(
        data, library(), noise=UnknownScale(Blurred(IID(1.0), {"x": 0.05})), structures=[["laplacian(u)", "u"]]
    ).best
    assert 0 < fit.level < 0.1**2
    assert fit.chi2 == pytest.approx(1.0, abs=0.05)


def test_noise_that_is_taken_for_independent_and_is_not_is_a_doubt():
    """Without it χ² is about one, and error bars are too small: a wrong answer that looks right."""
    made, u0 = library(), 1 + 0.5 * np.cos(np.pi * X)
    start = Data(TIMES, {"u": np.tile(u0, (5, 1))}, Grid(x=X))
    u, _ = simulator(start, made).run(np.array([0.02, 0.8]), {"u": u0}, TIMES)
    white = np.random.default_rng(0).standard_normal((5, 24))
    root = scipy.linalg.cholesky(alike(0.06, floor=1e-9), lower=True)
    for draw, model, doubted in (
        (white, IID(SIGMA), False),
        (white @ root.T, IID(SIGMA), True),
        (white @ root.T, Blurred(IID(SIGMA), {"x": 0.06}), False),
    ):
        data = start.with_fields({"u": u["u"] + SIGMA * draw})
        found = refine(data, made, noise=model, structures=[made.names])
        assert any("Residuals of neighbours" in doubt for doubt in found.doubts) == doubted
        assert found.best.p_value > 1e-3
