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
from bvsi.noise.models import StateCovariance
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from inference.cases import smooth_1d

LIBRARY = Library({"u": ["laplacian(u)", "v"], "v": ["u", "v"]}, boundary=NoFlux())
N, T = 5, 6


@pytest.fixture(scope="module")
def system():
    return assemble(smooth_1d(N, fields=("u", "v")), LIBRARY)


def with_entries(**entries: float):
    """The identity for both fields with other entries, by "row_column"."""
    matrix = sparse.lil_array(sparse.eye_array(2 * N))
    for place, value in entries.items():
        row, column = place[1:].split("_")
        matrix[int(row), int(column)] = value
    return matrix


def with_one(shape: tuple[int, ...], value: float):
    values = np.ones(shape)
    values[..., 2] = value
    return values


NO_SIZE = (0.0, -1.0, np.nan, np.inf)
"""What no standard deviation and no variance is."""

REFUSED = {
    r"sigma: standard deviations must be positive and finite": [
        *(lambda v=v: IID(v) for v in NO_SIZE),
        *(lambda v=v: PerTime(with_one((T,), v)) for v in NO_SIZE),
    ],
    r"sigma\['v'\]: standard deviations must be positive and finite": [
        *(lambda v=v: PerField({"u": 1.0, "v": v}) for v in NO_SIZE),
        *(lambda v=v: Diagonal({"u": np.ones(N), "v": with_one((N,), v)}) for v in NO_SIZE),
        *(lambda v=v: Diagonal({"u": np.ones(N), "v": with_one((T, N), v)}) for v in NO_SIZE),
    ],
    r"sigma: ": [*(lambda v=v: IID(v) for v in ("a lot", None, [0.1, 0.2], {"u": 0.1}, 1j))],
    r"sigma: a mapping by field is needed": [lambda: PerField(1.0), lambda: Diagonal(np.ones((T, N)))],
    r"sigma\['u'\]: one number is needed": [lambda: PerField({"u": np.ones(N), "v": 1.0})],
    r"field 'v' has none": [lambda: PerField({"u": 1.0}), lambda: Covariance({"u": sparse.eye_array(N)})],
    r"field 'u' has none": [lambda: Diagonal({"v": np.ones(N)})],
    rf"sigma: one per time is needed, {T}": [
        *(lambda shape=shape: PerTime(np.ones(shape)) for shape in ((T - 1,), (T + 1,), (T, N), (), (1, T)))
    ],
    rf"sigma\['u'\].*\({T}, {N}\)": [
        *(
            lambda shape=shape: Diagonal({"u": np.ones(shape), "v": np.ones(N)})
            for shape in ((N + 1,), (T,), (N, T), (T - 1, N), (), (1, T, N))
        )
    ],
    rf"matrix: shape \({2 * N}, {2 * N}\)": [lambda: Covariance(sparse.eye_array(N))],
    r"matrix\['v'\]: shape": [lambda: Covariance({"u": sparse.eye_array(N), "v": sparse.eye_array(2 * N)})],
    r"matrix: .*sparse": [lambda: Covariance(np.eye(2 * N))],
    r"matrix: .*symmetric": [lambda: Covariance(with_entries(_0_1=0.3))],
    r"matrix: entries must be finite and variances on the diagonal positive": [
        *(lambda v=v: Covariance(with_entries(_3_3=v)) for v in NO_SIZE),
        lambda: Covariance(with_entries(_0_1=np.nan, _1_0=np.nan)),
    ],
    r"matrix: .*positive definite": [lambda: Covariance(with_entries(_0_1=2.0, _1_0=2.0))],
    r"shape: an instance of a noise model is needed": [lambda: UnknownScale(1.0)],
    r"noise: an instance of a noise model is needed, such as IID\(": [
        *(lambda v=v: v for v in (1e-3, 1, np.float64(0.1), None, np.ones(N), {"u": 0.1, "v": 0.1}, IID, [0.1]))
    ],
    r"noise: .*not 'iid'": [lambda: "iid"],  # its letters are not counted
    r"noise: 0 models for 1 experiments": [lambda: ()],
}
"""Words of the message, by which the argument is named, and what is refused with them."""


@pytest.mark.parametrize("words, make", [(words, make) for words, several in REFUSED.items() for make in several])
def test_what_is_no_noise_is_refused(system, words, make):
    """When it is made, or at the latest when it is bound to the data."""
    with pytest.raises(NoiseError, match=words):
        residual_likelihood(system, make())


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


@pytest.mark.parametrize("n_u", [1, 3, 40])
def test_a_draw_is_the_same_however_the_times_are_cut(n_u):
    rng, T = np.random.default_rng(5), 100
    roots = (rng.uniform(1, 2, n_u), rng.uniform(3, 4, n_u))
    whole = StateCovariance(tuple(r**2 for r in roots), roots, rng.integers(0, 2, T))
    drawn = np.array(whole.draws(np.random.default_rng(1)))
    for start, end in ((0, 30), (30, 31), (31, 100)):
        part = whole.at(np.arange(n_u), np.arange(start, end))
        assert_allclose(part.draws(np.random.default_rng(1)), drawn[start:end])
    standard = drawn / np.stack(roots)[whole.label]
    assert abs(standard.std() - 1) < 5 / np.sqrt(2 * T * n_u)
    assert len(np.unique(standard)) == standard.size


@pytest.mark.parametrize("correlated", [False, True])
def test_draws_from_one_generator_have_the_covariance(correlated):
    covariance = np.array([[1.0, 0.5], [0.5, 2.0]]) if correlated else np.diag([1.0, 4.0])
    distinct = sparse.csr_array(covariance) if correlated else np.diag(covariance)
    root = sparse.csr_array(np.linalg.cholesky(covariance)) if correlated else np.sqrt(np.diag(covariance))
    state = StateCovariance((distinct,), (root,), np.zeros(20_000, dtype=np.int64))
    drawn = state.draw(np.random.default_rng(0))
    assert drawn.shape == (2, 20_000)
    assert_allclose(np.cov(drawn), covariance, atol=0.1)
