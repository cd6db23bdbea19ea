"""Steady problems: sources and operators on the left side, one frame, jumps, refusals; what is kept and shown."""

import numpy as np
import pytest

from bvsi import Data, Discovery, Galerkin, Library, Method, discover
from bvsi.errors import DataError, OperatorError
from bvsi.noise import add_noise
from bvsi.studies.steady import CASES, poisson, repeat, summary

CANDIDATES = ["laplacian(u)", "u", "u**2", "dx(u)", "1"]


def noisy(seed=3):
    rng = np.random.default_rng(seed)
    exact = poisson(rng)
    return add_noise(exact, 0.02 * float(np.std(exact.fields["u"])), rng)


@pytest.fixture(scope="module")
def found():
    return discover(noisy(), Library({"u": CANDIDATES}, left="f"))


def test_a_known_source_is_explained_from_one_frame(found):
    assert found.names == ("laplacian(u)", "u")
    assert found.verdict == "consistent"
    z = (found.theta - [-1.5, 30.0]) / found.sd
    assert np.abs(z).max() < 3
    assert found.equation.startswith("f = − 1.5")
    assert not any("time" in test.name for test in found.check.tests)
    assert {comparison.kind for comparison in found.check.comparisons} == {"space", "width"}


def test_which_operator_sets_the_scale_does_not_matter(found):
    """f = a ∇²u + b u and ∇²u = f/a − (b/a) u have the same misfit and the same error bars."""
    other = discover(noisy(), Library({"u": ["f", "u", "u**2", "dx(u)", "1"]}, left="laplacian(u)"), check=False)
    assert other.names == ("f", "u")
    assert other.chi2 == pytest.approx(found.chi2, rel=1e-6)
    a, b = found.theta
    np.testing.assert_allclose(other.theta, [1 / a, -b / a], rtol=1e-4)


def test_frames_are_experiments_of_their_own():
    frames = [add_noise(poisson(rng), 0.02, rng) for rng in map(np.random.default_rng, (3, 4))]
    both = Data(
        np.arange(2.0),
        {"u": np.concatenate([one.fields["u"] for one in frames])},
        frames[0].geometry,
        {"f": np.stack([one.auxiliary["f"] for one in frames])},
    )
    library = Library({"u": CANDIDATES[:2]}, left="f")
    joint = discover(both, library, check=False)
    apart = discover(frames, library, method=joint.method, check=False)
    assert np.all(np.abs(joint.theta - apart.theta) < 0.3 * joint.sd)
    assert np.all(np.abs(joint.theta - [-1.5, 30.0]) < 3 * joint.sd)


def test_elements_find_it_too():
    data = noisy().subsample(3)
    result = discover(data, Library({"u": ["laplacian(u)", "u", "1"]}, left="f"), method=Method(tests=Galerkin()))
    assert result.names == ("laplacian(u)", "u")


def test_the_left_side_is_kept_and_shown(found, tmp_path):
    found.save(tmp_path / "found.nc")
    again = Discovery.load(tmp_path / "found.nc")
    assert again.equation == found.equation
    assert again.left == {"u": "f"}
    assert repr(again.method) == repr(found.method)
    page = found.report(tmp_path / "found.html").read_text()
    assert "∂" not in page.split('aria-label="f =')[1].split("</div>")[0].split("laplacian")[0]


def test_one_frame_and_a_time_derivative_is_refused_with_the_remedy():
    with pytest.raises(DataError, match=r"one frame, and the equation a time derivative.*left='f'"):
        discover(noisy(), Library({"u": CANDIDATES}))


def test_candidates_that_are_the_left_side_are_refused():
    with pytest.raises(OperatorError, match="dx\\(dx\\(u\\)\\) and dy\\(dy\\(u\\)\\) make up the left side"):
        discover(noisy(), Library({"u": ["dx(dx(u))", "dy(dy(u))", "u"]}, left="laplacian(u)"))


def test_laplace_says_that_nothing_else_is_there():
    """∇²u = 0 explains a harmonic field as well as any candidate."""
    exact = poisson(np.random.default_rng(0))
    x, y = exact.geometry.points.T
    u = np.exp(2 * x) * np.cos(2 * y)
    data = Data(np.zeros(1), {"u": u[None]}, exact.geometry)
    with pytest.raises(DataError, match="laplacian\\(u\\) = 0 explains the data as well"):
        discover(
            add_noise(data, 0.02 * float(u.std()), np.random.default_rng(1)),
            Library({"u": ["u", "u**2", "dx(u)", "1"]}, left="laplacian(u)"),
        )


def test_materials_are_told_and_left_out():
    outcome = repeat("darcy", 0, seed=11)
    assert outcome.right
    assert outcome.verdict == "consistent"
    assert np.abs(outcome.z).max() < 3


def test_elasticity_has_one_coefficient_for_both_components():
    outcome = repeat("elasticity", 0, seed=11)
    assert outcome.right
    assert outcome.z[0] == pytest.approx(outcome.z[1])
    assert "right 1 of 1" in summary([outcome])


def test_the_flow_satisfies_navier_stokes():
    """u_t + (u·∇)u + ∇p − ν ∇²u and ∇·u vanish up to differences of second order."""
    data = CASES["navier-stokes"].draw(np.random.default_rng(0))
    u, v, p = (data.grid_field(name) for name in ("ux", "uy", "p"))
    h, dt, nu = data.geometry.axes["x"][1], data.times[1], CASES["navier-stokes"].truth["ux: laplacian(u)"]

    def slope(values, axis):
        return (np.roll(values, -1, axis) - np.roll(values, 1, axis)) / (2 * h)

    bend = sum(np.roll(u, s, axis) for axis in (1, 2) for s in (-1, 1)) - 4 * u
    rate = (u[2:] - u[:-2]) / (2 * dt)
    right = (u * slope(u, 1) + v * slope(u, 2) + slope(p, 1) - nu * bend / h**2)[1:-1]
    assert np.abs(slope(u, 1) + slope(v, 2)).max() < 0.02 * np.abs(slope(u, 2)).max()
    assert np.sqrt(np.mean((rate + right) ** 2)) < 0.05 * np.sqrt(np.mean(rate**2))
