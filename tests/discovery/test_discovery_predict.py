"""What follows from a discovery: linear maps exactly, functions by draws, the potential with its convention."""

from dataclasses import replace

import numpy as np
import xarray as xr
from numpy.testing import assert_allclose

from bvsi.infer.posteriors import GaussianPosterior
from discovery.discovery_cases import made

NAMES = ("laplacian(p)", "div(p*grad(x))", "div(p*grad(x**2))")
POSTERIOR = GaussianPosterior(NAMES, np.array([1.0, -5.0, 2.0]), np.diag([0.01, 0.04, 0.09]))
X = np.linspace(-1, 3, 9)


def found():
    return replace(made(), candidates=NAMES, posterior=POSTERIOR)


def test_the_potential_is_the_sum_of_its_parts_with_mean_zero():
    psi = found().potential({"x": X})
    expected = -5 * X + 2 * X**2
    assert_allclose(psi["mean"], expected - expected.mean(), atol=1e-12)
    centred = np.stack([X - X.mean(), X**2 - (X**2).mean()])
    assert_allclose(psi["variance"], np.einsum("in,i,in->n", centred, [0.04, 0.09], centred), atol=1e-12)


def test_a_function_of_the_coefficients_agrees_with_the_same_linear_map():
    row = xr.DataArray([[1.0, 0.0, 3.0]], dims=("q", "operator"), coords={"operator": list(NAMES)})
    exact = found().predict(row)

    def quantity(theta):
        return xr.DataArray([theta["laplacian(p)"] + 3 * theta["div(p*grad(x**2))"]], dims="q")

    drawn = found().predict(quantity, size=20_000, rng=np.random.default_rng(3))
    sd = float(np.sqrt(exact["variance"][0]))
    assert abs(float(drawn["mean"][0] - exact["mean"][0])) < 4 * sd / np.sqrt(20_000)
    assert_allclose(drawn["variance"], exact["variance"], rtol=0.05)
    assert_allclose(found().predict(quantity)["mean"], found().predict(quantity)["mean"])
