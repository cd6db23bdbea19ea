"""Noise that is no covariance of the data is refused, and the message names the argument."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.errors import NoiseError
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, Covariance, Diagonal, PerField, PerTime, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from inference.cases import smooth_1d

LIBRARY = Library({"u": ["laplacian(u)", "v"], "v": ["u", "v"]}, boundary=NoFlux())
N, T = 5, 6


@pytest.fixture(scope="module")
def system():
    return assemble(smooth_1d(N, fields=("u", "v")), LIBRARY)


def refuse(system, make, match: str) -> None:
    """Refused when made, or at the latest when bound to the data."""
    with pytest.raises(NoiseError, match=match):
        residual_likelihood(system, make())


BAD_NUMBERS = [0.0, -1.0, np.nan, np.inf]


@pytest.mark.parametrize("sigma", BAD_NUMBERS)
def test_sigma_of_iid(system, sigma):
    with pytest.raises(NoiseError, match="sigma"):
        IID(sigma)


@pytest.mark.parametrize("sigma", ["a lot", None, [0.1, 0.2], {"u": 0.1}, 1j])
def test_sigma_of_iid_that_is_no_number(system, sigma):
    refuse(system, lambda: IID(sigma), "sigma")


@pytest.mark.parametrize("sigma", BAD_NUMBERS)
def test_sigma_per_field(system, sigma):
    with pytest.raises(NoiseError, match=r"sigma\['v'\]"):
        PerField({"u": 1.0, "v": sigma})


def test_sigma_per_field_with_a_field_missing(system):
    refuse(system, lambda: PerField({"u": 1.0}), "'v'")


def test_sigma_per_field_as_one_number(system):
    refuse(system, lambda: PerField(1.0), "sigma")


def test_sigma_per_field_as_an_array(system):
    refuse(system, lambda: PerField({"u": np.ones(N), "v": 1.0}), r"sigma\['u'\]")


@pytest.mark.parametrize("sigma", BAD_NUMBERS)
def test_sigma_per_time(system, sigma):
    refuse(system, lambda: PerTime([1.0, 1.0, sigma, 1.0, 1.0, 1.0]), "sigma")


@pytest.mark.parametrize("shape", [(T - 1,), (T + 1,), (T, N), (), (1, T)])
def test_sigma_per_time_of_another_shape(system, shape):
    refuse(system, lambda: PerTime(np.ones(shape)), f"sigma: one per time is needed, {T}")


@pytest.mark.parametrize("sigma", BAD_NUMBERS)
@pytest.mark.parametrize("shape", [(N,), (T, N)])
def test_sigma_per_node(system, shape, sigma):
    values = np.ones(shape)
    values[..., 2] = sigma
    refuse(system, lambda: Diagonal({"u": np.ones(N), "v": values}), r"sigma\['v'\]")


@pytest.mark.parametrize("shape", [(N + 1,), (T,), (N, T), (T - 1, N), (), (1, T, N)])
def test_sigma_per_node_of_another_shape(system, shape):
    refuse(system, lambda: Diagonal({"u": np.ones(shape), "v": np.ones(N)}), rf"sigma\['u'\].*\({T}, {N}\)")


def test_sigma_per_node_with_a_field_missing(system):
    refuse(system, lambda: Diagonal({"v": np.ones(N)}), "'u'")


def test_sigma_per_node_without_field_names(system):
    refuse(system, lambda: Diagonal(np.ones((T, N))), "sigma")


def test_a_covariance_of_another_shape(system):
    refuse(system, lambda: Covariance(sparse.eye_array(N)), rf"matrix: shape \({2 * N}, {2 * N}\)")
    by_field = {"u": sparse.eye_array(N), "v": sparse.eye_array(2 * N)}
    refuse(system, lambda: Covariance(by_field), r"matrix\['v'\]: shape")


def test_a_covariance_with_a_field_missing(system):
    refuse(system, lambda: Covariance({"u": sparse.eye_array(N)}), "'v'")


def test_a_covariance_that_is_not_symmetric(system):
    matrix = sparse.lil_array(sparse.eye_array(2 * N))
    matrix[0, 1] = 0.3
    refuse(system, lambda: Covariance(matrix), "matrix: .*symmetric")


def test_a_covariance_that_is_dense(system):
    refuse(system, lambda: Covariance(np.eye(2 * N)), "matrix: .*sparse")


@pytest.mark.parametrize("value", BAD_NUMBERS)
def test_a_covariance_with_an_impossible_variance(system, value):
    variances = np.ones(2 * N)
    variances[3] = value
    refuse(system, lambda: Covariance(sparse.diags_array(variances)), "matrix")


def test_a_covariance_with_nan_off_the_diagonal(system):
    matrix = sparse.lil_array(sparse.eye_array(2 * N))
    matrix[0, 1] = matrix[1, 0] = np.nan
    refuse(system, lambda: Covariance(matrix), "matrix")


@pytest.mark.parametrize("noise", [1e-3, 1, np.float64(0.1)])
def test_a_number_instead_of_a_model(system, noise):
    with pytest.raises(NoiseError, match=r"noise: .*IID\("):
        residual_likelihood(system, noise)


@pytest.mark.parametrize("noise", ["iid", None, np.ones(N), {"u": 0.1, "v": 0.1}, IID, (), [0.1]])
def test_other_things_instead_of_a_model(system, noise):
    with pytest.raises(NoiseError, match="noise"):
        residual_likelihood(system, noise)


def test_a_word_instead_of_a_model_is_not_counted_by_letters(system):
    with pytest.raises(NoiseError, match="not 'iid'"):
        residual_likelihood(system, "iid")


def test_a_number_instead_of_a_shape(system):
    refuse(system, lambda: UnknownScale(1.0), "shape")


def test_an_unknown_scale_of_an_unknown_scale_is_the_same_shape(system):
    nested = residual_likelihood(system, UnknownScale(UnknownScale()))
    plain = residual_likelihood(system, UnknownScale())
    theta = [0.1, 0.2, 0.3, 0.4]
    assert_allclose(nested.log_density(theta), plain.log_density(theta), rtol=1e-14)


def test_known_and_unknown_scales_do_not_mix():
    system = assemble([smooth_1d(N, fields=("u", "v")), smooth_1d(N, fields=("u", "v"), seed=1)], LIBRARY)
    with pytest.raises(NoiseError, match="known for all experiments or for none"):
        residual_likelihood(system, [IID(1.0), UnknownScale()])


def test_every_known_model_says_so():
    assert all(model.scale_known for model in (IID, PerField, PerTime, Diagonal, Covariance))
    assert not UnknownScale().scale_known


def thinned(noise, n: int, frames, nodes):
    """Σ_u at some frames and nodes of two fields, from the model thinned, and from all of Σ_u."""
    data = smooth_1d(n, fields=("u", "v"))
    some = Data(
        data.times[frames],
        {f: values[frames][:, nodes] for f, values in data.fields.items()},
        Grid(x=data.geometry.axes["x"][nodes]),
    )
    whole, part = (assemble(one, LIBRARY).experiments[0].structure for one in (data, some))
    full, cut = noise.covariance(whole), noise.at(frames, nodes).covariance(part)
    kept = np.flatnonzero(np.tile(nodes, 2))
    expected = [dense(full, j)[np.ix_(kept, kept)] for j in np.arange(len(data.times))[frames]]
    return [dense(cut, j) for j in range(len(some.times))], expected


def dense(covariance, time: int):
    one = covariance.distinct[covariance.label[time]]
    return one.toarray() if sparse.issparse(one) else np.diag(one)


def a_covariance(n: int):
    return sparse.csr_array(sparse.diags_array([0.3, 1.0, 0.3], offsets=[-1, 0, 1], shape=(n, n)))


def models(n: int) -> list:
    values = np.random.default_rng(0).uniform(1, 2, (T, n))
    plain = [
        IID(0.1),
        PerField({"u": 0.1, "v": 0.2}),
        PerTime(values[:, 0]),
        Diagonal({"u": values[0], "v": values}),
        Diagonal({"u": values[:1], "v": values}),
        Covariance(a_covariance(2 * n)),
        Covariance({"u": a_covariance(n), "v": 2 * a_covariance(n)}),
    ]
    return [*plain, *(UnknownScale(one) for one in plain)]


@pytest.mark.parametrize("frames", [slice(None, None, 2), slice(0, 4), np.array([0, 1, 5])])
@pytest.mark.parametrize("number", range(len(models(9))))
def test_a_model_at_some_frames_and_nodes_has_the_covariance_of_these(number, frames):
    nodes = np.arange(9) % 2 == 0
    for found, expected in zip(*thinned(models(9)[number], 9, frames, nodes), strict=True):
        assert_allclose(found, expected, rtol=1e-14)


def test_all_nodes_stay_where_none_are_named():
    for one, other in zip(models(N), [m.at(slice(0, 3)) for m in models(N)], strict=True):
        assert type(other) is type(one)
    assert models(N)[2].at(slice(0, 3)).sigma.shape == (3,)
    assert models(N)[5].at(slice(0, 3)).matrix.shape == (2 * N, 2 * N)


@pytest.mark.parametrize("matrix", [np.eye(2 * N), a_covariance(2 * N + 1)])
def test_a_matrix_of_other_nodes_cannot_be_thinned(matrix):
    with pytest.raises(NoiseError, match=f"a row for each of {N} nodes"):
        Covariance(matrix).at(slice(None), np.ones(N, dtype=bool))
