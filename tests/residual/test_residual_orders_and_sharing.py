"""Order of fields and numbering of nodes are bookkeeping; operators that differ by a number share their arrays."""

import numpy as np
import pytest
from fourth_order import periodic_box, random_data
from numpy.testing import assert_allclose
from residual_cases import box, permuted, simplices

from bvsi.data import Data
from bvsi.infer import Profile
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.operators import InteriorPenalty, Library, Mixed, NoFlux, Unknown, ZeroNeumann, free_energy_library
from bvsi.residual import CrankNicolson, assemble, discrete
from bvsi.residual.streamed import Streamed
from bvsi.spaces import H3, P2, Q2, Galerkin

SPACES = {
    "P2, interior penalty": (box(4, 2), P2, InteriorPenalty()),
    "triangle6, interior penalty": (simplices(2, 2, 2, seed=1), P2, InteriorPenalty()),
    "Q2, mixed": (box(4, 2), Q2, Mixed()),
    "H3": (periodic_box(5, 2), H3, None),
}
OPERATORS = {
    "c1": ["biharmonic(c1)", "laplacian(diff(c1**2*c2**2, c1))", "laplacian(c1)"],
    "c2": ["biharmonic(c2)", "laplacian(diff(c1**2*c2**2, c2))", "laplacian(c2)"],
}


def library(treatment, order=("c1", "c2")):
    return Library({f: OPERATORS[f] for f in order}, boundary=ZeroNeumann(), biharmonic=treatment)


def dense(sensitivity, time):
    return sensitivity.pattern.matrix(sensitivity.values(time)).toarray()


def assert_same_up_to(one, other, columns, rows, unknowns):
    """The other system has the operators, rows and unknowns of the first in the order given."""
    (a,), (b,) = one.experiments, other.experiments
    assert_allclose(b.y, a.y[rows], atol=1e-11 * np.abs(a.y).max())
    s, z = a.structure, b.structure
    assert_allclose(z.coordinates, s.coordinates[rows])
    M, other_M = (q.pattern.matrix(q.M).toarray() for q in (s, z))
    assert_allclose(other_M, M[rows][:, unknowns], atol=1e-14)
    for i, column in enumerate(columns):
        size = np.abs(a.X[:, :, column]).max()
        assert_allclose(b.X[:, :, i], a.X[rows][:, :, column], atol=1e-10 * size)
        for j in range(2):
            J = dense(a.J[column], j)
            assert_allclose(dense(b.J[i], j), J[rows][:, unknowns], atol=1e-11 * np.abs(J).max())


def swapped(n):
    return np.concatenate([np.arange(n, 2 * n), np.arange(n)])


@pytest.mark.parametrize("data_first", ["c1", "c2"])
@pytest.mark.parametrize("where", SPACES)
def test_the_order_of_equations_and_fields_is_a_permutation(where, data_first):
    geometry, element, treatment = SPACES[where]
    data = random_data(geometry, ("c1", "c2"))
    names = ("c1", "c2") if data_first == "c1" else ("c2", "c1")
    turned = Data(data.times, {f: data.fields[f] for f in names}, geometry)
    one = assemble(data, library(treatment), discretisation=Galerkin(element), stencil=CrankNicolson())
    other = assemble(
        turned, library(treatment, ("c2", "c1")), discretisation=Galerkin(element), stencil=CrankNicolson()
    )
    n = geometry.n_nodes
    unknowns = np.arange(2 * n) if data_first == "c1" else swapped(n)
    assert_same_up_to(one, other, [3, 4, 5, 0, 1, 2], swapped(n), unknowns)


def test_the_numbering_of_nodes_is_a_permutation():
    mesh = simplices(2, 2, 2, seed=1)
    number = np.random.default_rng(3).permutation(mesh.n_nodes)
    data = random_data(mesh, ("c1", "c2"))
    back = np.argsort(number)
    turned = Data(data.times, {f: v[:, back] for f, v in data.fields.items()}, permuted(mesh, number))
    both = [assemble(d, library(InteriorPenalty())) for d in (data, turned)]
    rows = np.concatenate([back, mesh.n_nodes + back])
    assert_same_up_to(*both, range(6), rows, rows)


@pytest.mark.parametrize("boundary", [NoFlux(), Unknown()], ids=lambda c: type(c).__name__)
def test_where_rows_are_left_out_the_numbering_is_a_permutation_of_the_others(boundary):
    mesh = simplices(4, 2, 2, seed=1)
    number = np.random.default_rng(3).permutation(mesh.n_nodes)
    data = random_data(mesh)
    turned = Data(data.times, {"c": data.fields["c"][:, np.argsort(number)]}, permuted(mesh, number))
    operators = Library({"c": ["biharmonic(c)", "laplacian(c**3)"]}, boundary=boundary)
    (a,), (b,) = (assemble(d, operators).experiments for d in (data, turned))
    assert 0 < a.structure.n_rows == b.structure.n_rows < mesh.n_nodes
    order = [np.lexsort(np.round(e.structure.coordinates, 9).T) for e in (a, b)]
    assert_allclose(b.X[order[1]], a.X[order[0]], atol=1e-10 * np.abs(a.X).max())


def test_the_estimate_does_not_depend_on_the_order_of_fields_or_the_numbering_of_nodes():
    """To rounding: sums in another order, started from another draw of noise."""
    mesh = simplices(2, 2, 2, seed=1)
    x, y = mesh.points.T
    times = np.linspace(0, 1, 5)
    rng = np.random.default_rng(0)
    decay = np.exp(-0.5 * times)[:, None]
    fields = {
        "c1": 0.5 + decay * np.cos(np.pi * x) * np.cos(2 * np.pi * y),
        "c2": 0.4 + decay**2 * np.cos(2 * np.pi * x) + 0.3 * decay * np.cos(np.pi * y),
    }
    sigma = 1e-3
    fields = {f: v + sigma * rng.standard_normal(v.shape) for f, v in fields.items()}
    number = rng.permutation(mesh.n_nodes)
    back = np.argsort(number)
    versions = {
        ("c1", "c2"): Data(times, fields, mesh),
        ("c2", "c1"): Data(times, {f: fields[f][:, back] for f in ("c2", "c1")}, permuted(mesh, number)),
    }
    found = []
    for order, data in versions.items():
        system = assemble(data, library(InteriorPenalty(), order))
        fit = Profile(tol=1e-9).fit(residual_likelihood(system, IID(sigma)))
        found.append({name: (fit.coefficient(name), fit.chi2) for name in fit.names})
    assert found[0].keys() == found[1].keys()
    for name, values in found[0].items():
        assert_allclose(found[1][name], values, rtol=1e-6)


def shared(one, other):
    """The same array, or the same operator of one source."""
    if isinstance(one, Streamed):
        return one.source is other.source and one.weights == other.weights
    return np.shares_memory(one.entries, other.entries)


@pytest.mark.parametrize("where", SPACES)
def test_operators_that_differ_by_a_number_share_their_sensitivities(where):
    geometry, element, treatment = SPACES[where]
    texts = [
        "laplacian(c**3)",
        "laplacian(diff(c**4, c))",
        "-2*laplacian(c**3)",
        "biharmonic(c)",
        "3*biharmonic(c)",
        "0.5*biharmonic(c)",
    ]
    factors, firsts = [1, 4, -2, 1, 3, 0.5], [0, 0, 0, 3, 3, 3]
    several = Library({"c": texts}, boundary=ZeroNeumann(), biharmonic=treatment)
    data = random_data(geometry)
    (together,) = assemble(data, several, discretisation=Galerkin(element)).experiments
    for i, (text, factor, first) in enumerate(zip(texts, factors, firsts, strict=True)):
        pairs = zip(together.J[i].terms, together.J[first].terms, strict=True)
        if factor in (-2, 3, 4):
            assert all(shared(mine, theirs) for mine, theirs in pairs)
        size = np.abs(together.X[:, :, i]).max()
        assert_allclose(together.X[:, :, i], factor * together.X[:, :, first], atol=1e-10 * size)
        single = Library({"c": [text]}, boundary=ZeroNeumann(), biharmonic=treatment)
        (alone,) = assemble(data, single, discretisation=Galerkin(element)).experiments
        assert_allclose(together.X[:, :, i], alone.X[:, :, 0], atol=1e-10 * np.abs(alone.X).max())
        for j in range(2):
            J = dense(alone.J[0], j)
            assert_allclose(dense(together.J[i], j), J, atol=1e-11 * np.abs(J).max())


def test_equations_share_what_they_have_in_common(monkeypatch):
    """∇²(c1 c2) stands in both equations of the dictionary, with factors of its own."""
    monkeypatch.setattr(discrete, "KEEP_BYTES", 0.0)
    data = random_data(box(4, 2), ("c1", "c2"))
    (residuals,) = assemble(data, free_energy_library(), discretisation=Galerkin(Q2)).experiments
    names = free_energy_library().names
    one = residuals.J[names.index("c1: laplacian(diff(c1**2*c2, c1))")]
    two = residuals.J[names.index("c2: laplacian(diff(c1*c2**2, c2))")]
    (mine,), (theirs,) = one.terms, two.terms
    assert mine.source is theirs.source
    operators = mine.source.operators
    assert operators[next(iter(mine.weights))].key == operators[next(iter(theirs.weights))].key
    assert mine.weights != theirs.weights
    evaluated = {operator.key for operator in operators}
    assert len(evaluated) == 6 + 6  # powers of one field from the second on, and products of two
