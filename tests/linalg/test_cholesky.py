from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError, MissingDependencyError, NotPositiveDefiniteError
from bvsi.linalg import Pattern, analyse, single_threaded_blas

from .matrices import STRUCTURES, band, box, definite_values, grid, pattern_of


def assert_factor_is_right(factor, pattern, values):
    A = pattern.matrix(values).toarray()
    n = len(A)
    inverse = np.linalg.inv(A)
    rng = np.random.default_rng(5)
    B = np.diag(A)[:, None] * rng.standard_normal((n, 3))
    whitened = factor.whiten(B)
    assert_allclose(factor.logdet(), np.linalg.slogdet(A)[1], rtol=1e-12, atol=1e-10)
    assert_allclose(A @ factor.solve(B), B, atol=1e-9 * np.abs(B).max(), rtol=1e-9)
    assert whitened.shape == B.shape
    assert whitened.flags.c_contiguous
    assert_allclose(A @ factor.whiten_transposed(whitened), B, atol=1e-9 * np.abs(B).max(), rtol=1e-9)
    assert_allclose(whitened.T @ whitened, B.T @ inverse @ B, rtol=1e-9, atol=1e-10)
    selected = factor.selected_inverse()
    expected = inverse[pattern.rows, pattern.indices]
    size = np.sqrt(np.diag(inverse))
    scale = size[pattern.rows] * size[pattern.indices]
    assert_allclose(selected / scale, expected / scale, atol=1e-11)


@pytest.mark.parametrize("name", STRUCTURES)
def test_against_dense_and_refactor(name):
    pattern = pattern_of(name)
    analysis = analyse(pattern, np.arange(pattern.shape[0]))
    assert analysis.pattern is pattern
    for seed in range(2):
        values = definite_values(pattern, seed)
        given = values.copy()
        factor = analysis.factor(values)
        assert_factor_is_right(factor, pattern, values)
        assert_array_equal(values, given)


@pytest.mark.parametrize(
    "A, points",
    [
        (box(2, 14, 13), grid(14, 13)),
        (box(1, 12, 12, periodic=True), grid(12, 12)),
        (sparse.kron(box(1, 9, 8), np.ones((2, 2))), np.repeat(grid(9, 8), 2, axis=0)),
        (box(1, 6, 6, 6), grid(6, 6, 6)),
    ],
    ids=["25-point", "periodic", "two fields", "3d"],
)
def test_against_dense_in_nested_dissection_order(A, points):
    pattern = Pattern.from_matrix(A)
    values = definite_values(pattern)
    assert_factor_is_right(analyse(pattern, points).factor(values), pattern, values)


@pytest.mark.parametrize("columns", [0, 1, 63, 64, 65, 200])
def test_any_number_of_right_hand_sides(columns):
    pattern = pattern_of("25-point")
    n = pattern.shape[0]
    factor = analyse(pattern, np.arange(pattern.shape[0])).factor(definite_values(pattern))
    B = np.random.default_rng(0).standard_normal((n, columns))
    given = B.copy()
    X, W = factor.solve(B), factor.whiten(B)
    assert X.shape == W.shape == (n, columns)
    for j in range(columns):
        assert_allclose(factor.solve(B[:, j]), X[:, j], rtol=1e-9, atol=1e-12 * np.abs(X).max())
        assert_allclose(factor.whiten(B[:, j]), W[:, j], rtol=1e-9, atol=1e-12 * np.abs(W).max())
    assert_allclose(factor.solve(np.asfortranarray(B)), X)
    assert_array_equal(B, given)


def test_right_hand_sides_are_checked():
    pattern = pattern_of("chain")
    factor = analyse(pattern, np.arange(pattern.shape[0])).factor(definite_values(pattern))
    with pytest.raises(BvsiError, match=r"shape \(60,\) or \(60, m\)"):
        factor.solve(np.ones(61))
    with pytest.raises(BvsiError, match="dense"):
        factor.whiten(sparse.eye_array(60))


def test_results_do_not_depend_on_the_numbering():
    A = box(2, 12, 12)
    pattern, points = Pattern.from_matrix(A), grid(12, 12)
    values = definite_values(pattern)
    n = pattern.shape[0]
    p = np.random.default_rng(3).permutation(n)
    M = sparse.csr_array(pattern.matrix(values)[p][:, p])
    renumbered = Pattern.from_matrix(M)
    one = analyse(pattern, points).factor(values)
    two = analyse(renumbered, points[p]).factor(renumbered.gather(M))
    b = np.random.default_rng(0).standard_normal(n)
    assert_allclose(two.logdet(), one.logdet(), rtol=1e-12)
    assert_allclose(two.solve(b[p]), one.solve(b)[p], rtol=1e-8)
    inverse_one = pattern.matrix(one.selected_inverse())[p][:, p].toarray()
    assert_allclose(renumbered.matrix(two.selected_inverse()).toarray(), inverse_one, rtol=1e-8)


@pytest.mark.parametrize("name", ["chain", "9-point", "dense", "disconnected", "one"])
def test_an_indefinite_matrix_is_refused_with_label_row_and_advice(name):
    pattern = pattern_of(name)
    analysis = analyse(pattern, np.arange(pattern.shape[0]))
    values = definite_values(pattern)
    culprit = pattern.shape[0] // 2
    values[pattern.locate(culprit, culprit)] *= -1.0
    with pytest.raises(NotPositiveDefiniteError, match=r"residual covariance is not positive definite.*diagonal") as e:
        analysis.factor(values, label="residual covariance")
    assert e.value.label == "residual covariance"
    assert e.value.row == culprit
    assert f"row {culprit}" in str(e.value)
    assert_factor_is_right(analysis.factor(definite_values(pattern)), pattern, definite_values(pattern))


def free_laplacian(pattern: Pattern) -> np.ndarray:
    """Graph Laplacian: rows sum to zero, so constants are in its kernel."""
    values = np.full(pattern.nnz, -1.0)
    diagonal = pattern.rows == pattern.indices
    values[diagonal] = np.diff(pattern.indptr) - 1.0
    return values


@pytest.mark.parametrize("scale", [1.0, 1e-30, np.pi])
@pytest.mark.parametrize("name", ["chain", "9-point", "25-point", "dense", "periodic", "3d"])
def test_a_singular_matrix_is_refused(name, scale):
    pattern = pattern_of(name)
    with pytest.raises(NotPositiveDefiniteError) as error:
        analyse(pattern, np.arange(pattern.shape[0])).factor(scale * free_laplacian(pattern))
    assert 0 <= error.value.row < pattern.shape[0]


@pytest.mark.parametrize("name", ["9-point", "25-point"])
def test_a_singular_matrix_that_rounds_to_positive_is_refused(name):
    pattern = pattern_of(name)
    analysis = analyse(pattern, np.arange(pattern.shape[0]))
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = pattern.matrix(rng.uniform(0.1, 10.0, pattern.nnz) * (pattern.rows < pattern.indices))
        weights = weights + weights.T
        laplacian = sparse.diags_array(weights.sum(axis=0)) - weights
        with pytest.raises(NotPositiveDefiniteError):
            analysis.factor(pattern.gather(laplacian))


def test_a_zero_row_is_refused():
    pattern = pattern_of("9-point")
    values = definite_values(pattern)
    values[(pattern.rows == 17) | (pattern.indices == 17)] = 0.0
    with pytest.raises(NotPositiveDefiniteError) as error:
        analyse(pattern, np.arange(pattern.shape[0])).factor(values)
    assert error.value.row == 17


def test_very_different_scales_and_bad_conditioning_are_not_refused():
    pattern = Pattern.from_matrix(sparse.block_diag([band(30, 1), band(30, 1)]))
    values = definite_values(pattern)
    scale = np.repeat([1.0, 1e-12], 30)
    values *= scale[pattern.rows] * scale[pattern.indices]
    assert np.isfinite(analyse(pattern, np.arange(pattern.shape[0])).factor(values).logdet())
    chain = pattern_of("chain")
    nearly = free_laplacian(chain) + 1e-9 * (chain.rows == chain.indices)
    expected = np.linalg.slogdet(chain.matrix(nearly).toarray())[1]
    assert_allclose(analyse(chain, np.arange(chain.shape[0])).factor(nearly).logdet(), expected, rtol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    pattern = pattern_of("9-point")
    values = definite_values(pattern)
    values[100] = bad
    with pytest.raises(NotPositiveDefiniteError, match=r"noise: 1 entries are NaN or infinite, .* row") as error:
        analyse(pattern, np.arange(pattern.shape[0])).factor(values, label="noise")
    assert error.value.row == pattern.rows[100]
    with pytest.raises(BvsiError, match="values of noise must have shape"):
        analyse(pattern, np.arange(pattern.shape[0])).factor(values[1:], label="noise")


def test_patterns_that_cannot_be_factorised_are_named():
    for dense, message in [
        (np.ones((2, 3)), "square"),
        (np.zeros((0, 0)), "not empty"),
        (np.array([[1.0, 1.0], [0.0, 1.0]]), "symmetric"),
        (np.array([[1.0, 1.0], [1.0, 0.0]]), "row 1"),
    ]:
        with pytest.raises(BvsiError, match=message):
            analyse(Pattern.from_matrix(sparse.csr_array(dense)), np.arange(len(dense)))


def test_two_threads_may_share_an_analysis():
    pattern = Pattern.from_matrix(box(2, 30, 30))
    # Diagonally dominant, so that no dense algebra is needed to make it definite.
    sets = []
    for seed in range(4):
        A = pattern.matrix(np.random.default_rng(seed).uniform(-1, 1, pattern.nnz))
        sets.append(pattern.gather(A + A.T) + 60.0 * (pattern.rows == pattern.indices))
    analysis = analyse(pattern, grid(30, 30))
    B = np.random.default_rng(9).standard_normal((900, 70))

    def work(values):
        factor = analysis.factor(values)
        return factor.logdet(), factor.solve(B), factor.whiten(B)

    expected = [work(values) for values in sets]
    found: list = [None] * 4

    def run(start):
        for _ in range(3):
            for k in range(start, 4, 2):
                found[k] = work(sets[k])

    threads = [threading.Thread(target=run, args=(start,)) for start in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, two in zip(found, expected, strict=True):
        for a, b in zip(one, two, strict=True):
            assert_allclose(a, b, rtol=1e-12)


def test_a_scipy_with_64_bit_integers_is_not_called(monkeypatch):
    from bvsi.linalg import blas

    assert blas.has_32_bit_integers("void (char *, int *, __pyx_t_5scipy_6linalg_11cython_blas_d *, int *)")
    assert not blas.has_32_bit_integers("void (char *, int64_t *, __pyx_t_11cython_blas_d *)")
    assert not blas.has_32_bit_integers("void (char *, __pyx_t_blas_int *)")
    assert not blas.has_32_bit_integers("int (char *)")
    monkeypatch.setattr(blas, "has_32_bit_integers", lambda _: False)
    blas.addresses.cache_clear()
    pattern = pattern_of("chain")
    with pytest.raises(MissingDependencyError, match="wheels"):
        analyse(pattern, np.arange(pattern.shape[0])).factor(definite_values(pattern))


def test_import_is_light():
    code = "import sys, bvsi.linalg; sys.exit('numba' in sys.modules or 'llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_blas_threads_are_restored_after_overlapping_use():
    from threadpoolctl import threadpool_info

    def counts():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = counts()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with single_threaded_blas():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with single_threaded_blas():
        thread.start()
        inside.wait()
        with single_threaded_blas():
            assert set(counts()) == {1}
        assert set(counts()) == {1}
    assert counts() == before
    leave.set()
    thread.join()
    assert counts() == before
