"""An operator that the library lacks is named, also where others stand in for it and the misfit is that of noise."""

import numpy as np

from bvsi.check import Verdict
from bvsi.check.variations import plain_operators, with_plain_operators
from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.likelihood import Stacked
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.residual import TemporalTests
from bvsi.setup import Setup
from bvsi.spaces import SplineTests
from bvsi.studies.benchmarks.honesty.observing import white
from bvsi.studies.benchmarks.honesty.physics import PHYSICS, NodesAndFrames


def drawn(seed):
    rng = np.random.default_rng(seed)
    one = PHYSICS["fisher"].draw(rng, NodesAndFrames(96, 41))
    return white(0.02)(one.data, rng), one


def of_plain(found):
    return [test for test in found.check.tests if test.kind == "missing"]


def test_stand_ins_do_not_hide_what_is_missing():
    data, one = drawn(4)
    found = discover(data, one.library("dx(dx(u))"))
    (test,) = of_plain(found)
    assert found.check.verdict is Verdict.OPERATOR
    assert test.name == "dx(dx(u)), not in the library, explains residuals"
    assert test.p < 1e-6
    assert "dx(dx(u))" in found.check.reasons[0]


def test_of_the_true_equation_p_is_uniform():
    """Of 12 draws none is below 1e-3, and about half are below one half: Bonferroni makes them larger, not smaller."""
    p = []
    for seed in range(12):
        data, one = drawn([9, seed])
        (test,) = of_plain(discover(data, Library({"u": list(one.truth)}, keep="all")))
        p.append(test.p)
    assert min(p) > 1e-3
    assert 0.1 < np.mean(p) < 0.95


def lacking(library, derivatives):
    return {field: {o.name for o in own} for field, own in plain_operators(library, ("x",), derivatives).items()}


def test_nothing_is_tested_that_the_library_has():
    library = Library({"u": ["1", "u", "u**2", "u**3", "dx(u)", "dx( dx(u) )", "dx(u**2)", "dx(dx(u**2))"]})
    assert lacking(library, 2) == {"u": set()}
    assert lacking(Library({"u": ["u", "dx(dx(u))"]}), 2) == {
        "u": {"1", "u**2", "u**3", "dx(u)", "dx(u**2)", "dx(dx(u**2))"}
    }


def test_other_ways_to_write_an_operator_are_not_missing():
    """On a line ∇²u is ∂²u, and u ∂u is half of ∂u²; in a plane ∂²u/∂x² is something else."""
    line = Grid(x=np.arange(32) / 32, periodic="x")
    assert plain_beside(line, ["laplacian(u)", "u*dx(u)", "u"]) == {"1", "u**2", "u**3", "dx(u)", "dx(dx(u**2))"}
    plane = Grid(x=np.arange(16) / 16, y=np.arange(16) / 16, periodic=("x", "y"))
    assert {"dx(dx(u))", "dy(dy(u))"} < plain_beside(plane, ["laplacian(u)", "u*dx(u)", "u"])


def plain_beside(grid, candidates):
    data = Data(np.linspace(0, 1, 9), {"u": np.random.default_rng(0).random((9, grid.n_nodes))}, grid)
    setup = Setup((data,), (IID(0.1),), ({},), Library({"u": candidates}), SplineTests(2.0), TemporalTests(), Stacked())
    return {*with_plain_operators(setup, ["u"]).library.names} - {"u"}


def test_every_equation_has_its_own():
    found = lacking(Library({"u": ["u"], "v": ["v"]}), 1)
    assert found["u"] == {"1", "v", "u**2", "u*v", "v**2", "u**3", "dx(u)", "dx(u**2)"}
    assert found["v"] == {"1", "u", "u**2", "u*v", "v**2", "v**3", "dx(v)", "dx(v**2)"}


def test_parameters_are_not_mixed_with_candidates():
    t, x = np.linspace(0, 1, 31), np.arange(32) / 32
    u = 1.5 + np.exp(-t[:, None]) * np.sin(2 * np.pi * x)
    rng = np.random.default_rng(0)
    data = Data(t, {"u": u + 0.01 * rng.standard_normal(u.shape)}, Grid(x=x, periodic="x"))
    found = discover(data, Library({"u": ["u/(K + u)", "dx(dx(u))"]}, parameters={"K": (0.1, 10)}))
    assert not of_plain(found)


def line(u, t, x, seed=0):
    rng, sigma = np.random.default_rng(seed), 0.02 * float(np.sqrt(np.mean(u**2)))
    return Data(t, {"u": u + sigma * rng.standard_normal(u.shape)}, Grid(x=x, periodic="x"))


def test_what_the_usual_operators_would_find_is_told():
    """Without advection a wrong model is selected, of which no single operator more explains the misfit."""
    x, t = np.arange(96) * 2 * np.pi / 96, np.linspace(0, 6, 121)
    u = sum(
        a * np.exp(-0.1 * k * k * t[:, None]) * np.cos(k * (x - 0.5 * t[:, None]) + k)
        for k, a in enumerate((1, 0.6, 0.5), 1)
    )
    found = discover(line(u, t, x), Library({"u": ["laplacian(u)", "u", "u**2"]}))
    assert found.check.verdict is Verdict.OPERATOR
    assert "explains the data with laplacian(u) + dx(u)" in found.check.reasons[0]
    assert found.check.reasons[0].endswith("of which the library lacks dx(u)")


def test_an_equation_of_another_form_is_not_said_to_lack_an_operator_of_the_usual_ones():
    """u_tt = u_xx − 1.3 u has no first-order form, whatever the operators."""
    x, t = np.arange(64) * 2 * np.pi / 64, np.linspace(0, 6, 121)
    waves = ((k, np.sqrt(k * k + 1.3)) for k in (1, 2, 3))
    u = sum(np.cos(k * x) * np.cos(w * t[:, None]) + 0.7 * np.cos(k * x + 1) * np.sin(w * t[:, None]) for k, w in waves)
    found = discover(line(u, t, x), Library({"u": ["laplacian(u)", "u", "u**2"]}))
    assert found.check.verdict is Verdict.OPERATOR
    assert found.check.reasons[0].startswith("outside the library's form")
    assert "time_order=2" in found.check.reasons[0]
