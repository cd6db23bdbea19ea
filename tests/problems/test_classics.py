"""Classic equations: the data solve them, the solver is exact where it should be, and the libraries hold the truth."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp
from scipy.special import erf

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.operators import Library
from bvsi.operators.operator import compile_kernel
from bvsi.operators.parse import strong_form
from bvsi.operators.strong import evaluate
from bvsi.operators.syntax import read
from bvsi.operators.vocabulary import Vocabulary
from bvsi.studies.problems.classics import (
    CLASSICS,
    Classic,
    burgers,
    fokker_planck_2d,
    kdv,
    porous_medium,
    public_cases,
)
from bvsi.studies.problems.classics import allen_cahn as ac
from bvsi.studies.problems.classics import cahn_hilliard_1d as ch
from bvsi.studies.problems.classics import kuramoto_sivashinsky as ks
from bvsi.studies.problems.classics import reaction_diffusion_2d as rd
from bvsi.studies.problems.classics import schroedinger as nls
from bvsi.studies.problems.classics.public import data_folder
from bvsi.studies.problems.classics.spectral import Box, SemiLinear, sampled

NAMES = (
    *("burgers", "kdv", "kuramoto_sivashinsky", "allen_cahn", "cahn_hilliard_1d", "schroedinger"),
    *("reaction_diffusion_2d", "fokker_planck_2d", "porous_medium"),
)
SMOOTH = tuple(name for name in NAMES if name != "porous_medium")
DIFFERENCE = np.array([3, -32, 168, -672, 0, 672, -168, 32, -3]) / 840
"""∂/∂t of eighth order at the middle of nine times."""
SPACING = {"allen_cahn": 0.005, "kuramoto_sivashinsky": 0.003125, "cahn_hilliard_1d": 0.00125}
"""Of these times, where fast modes settle: four derivatives show them, and how the solver's steps treat them."""


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("classics")))
        yield


def words_of(case: Classic) -> Vocabulary:
    return Vocabulary(
        ("x", "y") if "2d" in case.name or case.name == "porous_medium" else ("x",), tuple(case.candidates)
    )


def derivative(u, orders, periods):
    """∂^α of values on a periodic grid, by FFT."""
    for axis, (order, period) in enumerate(zip(orders, periods, strict=True)):
        if order:
            n = u.shape[axis]
            k = 2j * np.pi / period * np.fft.fftfreq(n, 1 / n)
            symbol = (k**order).reshape([-1 if i == axis else 1 for i in range(u.ndim)])
            u = np.fft.ifft(symbol * np.fft.fft(u, axis=axis), axis=axis).real
    return u


def right_hand_side(case: Classic, data: Data, time: int):
    """Σ θ_i F_i(u) of every field from the texts of the truth, carried out with spectral derivatives."""
    words, grid = words_of(case), data.geometry
    # The density of the Fokker–Planck case is zero on the boundary, and so periodic too.
    periods = [n * (axis[1] - axis[0]) for n, axis in zip(grid.shape, grid.axes.values(), strict=True)]
    places = dict(zip(words.x, np.meshgrid(*grid.axes.values(), indexing="ij"), strict=True))
    total = {field: np.zeros(grid.shape) for field in case.candidates}
    for name, theta in case.truth.items():
        field, text = name.split(": ") if ": " in name else (*case.candidates, name)
        expression = evaluate(strong_form(read(text), words).form, words)
        jets = words.jets(expression)
        values = {s: derivative(data.grid_field(f)[time], orders, periods) for s, (f, orders) in jets.items()}
        (value,) = compile_kernel((expression,))({**places, **values})
        total[field] += theta * value
    return total


@pytest.mark.parametrize("name", SMOOTH)
def test_the_data_solve_the_equation_with_the_true_coefficients(name):
    case, delta = CLASSICS[name], SPACING.get(name, 0.02)
    data = case.make(times=9, final=8 * delta)
    for field, expected in right_hand_side(case, data, 4).items():
        rate = np.tensordot(DIFFERENCE, data.grid_field(field), 1) / delta
        assert np.abs(expected).max() > 0.1
        assert_allclose(rate, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_the_porous_medium_equation_holds_inside_the_edge():
    """p² has degree four there: differences of fourth order are exact."""
    data = porous_medium.simulate(nodes=65, times=9, final=1.08)
    p, h = data.grid_field("p"), 0.125
    second = np.array([-1, 16, -30, 16, -1]) / (12 * h**2)
    square = p[4] ** 2
    laplacian = sum(
        c * (np.roll(square, i, 0) + np.roll(square, i, 1)) for c, i in zip(second, range(-2, 3), strict=True)
    )
    inside = np.hypot(*np.meshgrid(*data.geometry.axes.values())) < 1.7
    rate = np.tensordot(DIFFERENCE, p, 1) / 0.01
    assert inside.sum() > 500
    assert_allclose(rate[inside], laplacian[inside], atol=1e-9)


def test_barenblatt_keeps_its_mass_and_its_edge_goes_as_the_fourth_root_of_time():
    data = porous_medium.simulate(nodes=257, times=4)
    p = data.fields["p"]
    assert_allclose(p.sum(axis=1) / 32**2, 8 * np.pi * porous_medium.HEIGHT**2, rtol=1e-4)
    r = np.linalg.norm(data.geometry.points, axis=1)
    edge = [r[values > 0].max() for values in p]
    assert_allclose(edge, 2 * data.times**0.25, atol=1 / 32)


def test_the_density_has_the_moments_of_the_process():
    """m' = −A(m − c), S' = −AS − SA + 2D."""
    data = fokker_planck_2d.simulate(times=5)
    p, x, A = data.fields["p"] * (10 / 63) ** 2, data.geometry.points, fokker_planck_2d.STIFFNESS

    def rate(_, state):
        m, S = state[:2], state[2:].reshape(2, 2)
        dS = -A @ S - S @ A + 2 * fokker_planck_2d.DIFFUSION * np.eye(2)
        return np.concatenate([-A @ (m - fokker_planck_2d.CENTRE), dS.ravel()])

    start = np.concatenate([fokker_planck_2d.MEAN, fokker_planck_2d.COVARIANCE.ravel()])
    process = solve_ivp(rate, (0, 2), start, t_eval=data.times, rtol=1e-10, atol=1e-12).y.T
    means = p @ x
    covariances = np.einsum("tn,ni,nj->tij", p, x, x) - means[:, :, None] * means[:, None]
    assert_allclose(p.sum(axis=1), 1, atol=1e-8)
    assert_allclose(means, process[:, :2], atol=1e-7)
    assert_allclose(covariances.reshape(-1, 4), process[:, 2:], atol=1e-7)


def test_the_density_stays_in_the_domain_and_is_resolved():
    data = fokker_planck_2d.simulate()
    p = data.grid_field("p")
    edges = np.concatenate([p[:, [0, -1]].ravel(), p[:, :, [0, -1]].ravel()])
    assert edges.max() < 1e-9 * p.max(axis=(1, 2)).min()
    widths = [np.sqrt(np.linalg.eigvalsh(fokker_planck_2d.moments(t)[1])).min() for t in data.times]
    assert min(widths) > 2.8 * 10 / 63


@pytest.mark.parametrize("c", [0.6, 2.0])
def test_a_soliton_of_kdv_has_speed_c(c):
    x = kdv.BOX.axis(384)
    u = kdv.EQUATION.solve(kdv.soliton(x, c), kdv.BOX, np.array([0, 2.0]), 0.005)
    assert_allclose(u[-1], kdv.soliton(x - 2 * c, c), atol=1e-7)


def test_solitons_of_kdv_pass_through_each_other(monkeypatch):
    """The fast one comes out ahead by (2/√c₁) log((√c₁ + √c₂)/(√c₁ − √c₂)) of where it would be alone."""
    monkeypatch.setattr(kdv, "_STEP", 0.01)  # accurate to 1e-5
    data = kdv.simulate(nodes=3840, times=2)
    (c, start), (slow, _) = kdv.SOLITONS
    peak = data.geometry.axes["x"][np.argmax(data.fields["u"][-1])]
    ahead = 2 / np.sqrt(c) * np.log((np.sqrt(c) + np.sqrt(slow)) / (np.sqrt(c) - np.sqrt(slow)))
    assert_allclose(peak, start + 20 * c + ahead, atol=0.02)


def test_two_bound_solitons_of_schroedinger_breathe():
    """From 2 sech x: 4 e^{it/2} (cosh 3x + 3 e^{4it} cosh x) / (cosh 4x + 4 cosh 2x + 3 cos 4t)."""
    box, t = Box(-20.0, 40.0), np.array([0, 0.3, 0.6])
    x = box.axis(1024)
    psi = nls.EQUATION.solve(2 / np.cosh(x) + 0j, box, t, 0.002)
    tt = t[:, None]
    numerator = 4 * np.exp(0.5j * tt) * (np.cosh(3 * x) + 3 * np.exp(4j * tt) * np.cosh(x))
    assert_allclose(psi, numerator / (np.cosh(4 * x) + 4 * np.cosh(2 * x) + 3 * np.cos(4 * tt)), atol=2e-7)


def test_a_soliton_of_schroedinger_travels():
    x, (a, w, _) = nls.BOX.axis(512), nls.SOLITONS[0]
    start = nls.soliton(nls.BOX.images(x), a, w).sum(axis=0)
    psi = nls.EQUATION.solve(start, nls.BOX, np.array([0, 1.0]), 0.004)[-1]
    inside = np.abs(x - w) < 5  # farther out the images are seen
    exact = nls.soliton(x - w, a, w) * np.exp(1j * (w * w + 0.5 * (a * a - w * w)))
    assert_allclose(psi[inside], exact[inside], atol=2e-4 * a)
    assert_allclose(np.sum(np.abs(psi) ** 2), np.sum(np.abs(start) ** 2), rtol=1e-9)


def test_burgers_is_the_solution_of_cole_and_hopf():
    """u = ∫ (x − y)/t e^{−G/2ν} dy / ∫ e^{−G/2ν} dy,   G = ∫₀^y u₀ + (x − y)²/2t, on the whole line."""
    data = burgers.simulate(nodes=32, times=2, final=2.0)
    x, y, t = data.geometry.axes["x"][:, None], np.linspace(-14, 14, 20001), 2.0
    G = np.sqrt(np.pi) / 2 * (erf(y + 2) - erf(2)) + (x - y) ** 2 / (2 * t)
    weight = np.exp(-(G - G.min(axis=1, keepdims=True)) / (2 * burgers.VISCOSITY))
    exact = np.sum((x - y) / t * weight, axis=1) / weight.sum(axis=1)
    assert_allclose(data.fields["u"][-1], exact, atol=2e-8)


def test_plane_waves_of_the_reaction_rotate():
    """ψ = A e^{i(qx − ωt)}, A² = 1 − Dq², ω = βA²."""
    q = 2 * np.pi / rd.BOX.length
    (x, y), t = rd.BOX.points(16), np.array([0, 3.0])
    A = np.sqrt(1 - rd.DIFFUSION * 2 * q**2)
    start = A * np.exp(1j * q * (x - y))
    psi = rd.EQUATION.solve(start, rd.BOX, t, 0.01)[-1]
    assert_allclose(psi, start * np.exp(-1j * rd.ROTATION * A**2 * 3), atol=1e-8)


@pytest.mark.parametrize("module, k, energy", [(ch, ch.GRADIENT_ENERGY, 1.0), (ac, ac.DIFFUSION, ac.RATE)])
def test_the_free_energy_falls(module, k, energy):
    """∫ ¼ e (u² − 1)² + ½ k u_x²."""
    u = module.simulate(times=21).fields["u"]
    slope = np.stack([derivative(values, [1], [module.BOX.length]) for values in u])
    total = np.mean(energy * (u**2 - 1) ** 2 / 4 + k * slope**2 / 2, axis=1)
    assert (np.diff(total) < 0).all()
    assert total[-1] < 0.7 * total[0]


def test_cahn_hilliard_keeps_its_mean():
    u = ch.simulate(times=3).fields["u"]
    assert_allclose(u.mean(axis=1), u[0].mean(), atol=1e-12)
    assert np.ptp(u[-1]) > 1.8


def test_kuramoto_sivashinsky_begins_after_its_transient():
    """The mean square stands about 1.7, and its symmetric start is forgotten."""
    u = ks.simulate(times=9, final=8 * SPACING["kuramoto_sivashinsky"]).fields["u"]  # kept from the test above
    assert 1.2 < np.mean(u**2) < 2.3
    half = np.roll(u[0][::-1], 1 + 256)  # x → 16π − x
    assert np.abs(u[0] + half).max() > 1


@pytest.mark.parametrize("name", ["burgers", "schroedinger"])
def test_the_order_in_time_is_four(name):
    module = {"burgers": burgers, "schroedinger": nls}[name]
    (x,) = module.BOX.points(64)
    start = np.exp(-((x + 2) ** 2)) * (1 if name == "burgers" else 1 + 0.5j)
    ends = [module.EQUATION.solve(start, module.BOX, np.array([0, 1.0]), 0.05 / 2**i)[-1] for i in range(4)]
    d = np.array([np.linalg.norm(a - b) for a, b in pairwise(ends)])
    assert_allclose(np.log2(d[:-1] / d[1:]), 4, atol=0.35)


@pytest.mark.parametrize("dim", [1, 2])
def test_without_nonlinear_part_every_mode_is_exact(dim):
    """u_t = ∇²u + Σ a_i ∂_i u in one step: waves that decay and travel."""
    box = Box(1.0, 3.0, dim)
    q = 2 * np.pi / box.length
    speed = (0.7, -0.4)[:dim]
    linear = SemiLinear(
        lambda *k: sum(-(s**2) + 1j * a * s for s, a in zip(k, speed, strict=True)),
        lambda *k: 0 * sum(k),
        np.square,
        degree=2,
    )

    def wave(t):
        return np.exp(-dim * q**2 * t) * np.prod(
            np.broadcast_arrays(*(np.sin(q * (s + a * t)) for s, a in zip(box.points(12), speed, strict=True))), axis=0
        )

    found = linear.solve(wave(0), box, np.array([0, 0.1, 0.15]), 1.0)
    assert not np.iscomplexobj(found)
    assert_allclose(found, [wave(0), wave(0.1), wave(0.15)], atol=1e-14)


def test_a_solution_that_blows_up_is_told():
    """u_t = u² from 1 is infinite at t = 1."""
    equation = SemiLinear(lambda k: 0 * k, lambda k: 1 + 0 * k, np.square, degree=2)
    with pytest.raises(BvsiError, match="step"):
        equation.solve(np.ones(8), Box(0.0, 1.0), np.array([0, 3.0]), 0.01)


@pytest.mark.parametrize("nodes", [7, 20, 24, 48, 50, 96])
def test_other_nodes_see_the_same_function(nodes):
    box = Box(-1.0, 2.0, 2)

    def f(x, y):
        return np.stack([np.cos(3 * np.pi * x + 1) * np.sin(8 * np.pi * y), np.sin(5 * np.pi * x) + 0 * y])

    times = np.array([0, 1.0])
    data = sampled({"u": f(*box.points(48))}, times, box, nodes)
    assert data.geometry.periods == {"x": 2.0, "y": 2.0}
    assert_allclose(data.grid_field("u"), f(*box.points(nodes)), atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_the_library_holds_the_truth(name):
    case = CLASSICS[name]
    library = case.library()
    assert case.name == name
    assert set(case.truth) <= set(library.names)
    assert all(theta != 0 for theta in case.truth.values())
    assert all(11 <= len(terms) <= 14 for terms in case.candidates.values())


@pytest.mark.parametrize("name", NAMES)
def test_no_candidate_needs_a_derivative_of_the_data(name):
    case = CLASSICS[name]
    assert not any(o.on_data for o in case.library().weak(words_of(case), trial_order=0, test_order=4))
    (needs,) = Library({"u": ["u*dx(dx(u))"]}).weak(Vocabulary(("x",), ("u",)), trial_order=0, test_order=4)
    assert needs.on_data  # so it can fail


def test_the_registry_has_every_case_and_sizes_can_be_chosen():
    assert tuple(CLASSICS) == NAMES
    for case in CLASSICS.values():
        start = 1.0 if case.name == "porous_medium" else 0.0
        data = case.make(nodes=12, times=3, final=start + 0.02)
        assert data.geometry.shape == (12,) * len(words_of(case).coordinates)
        assert_allclose(data.times, start + np.array([0, 0.01, 0.02]))
        assert set(data.names) == set(case.candidates)


def small(make):
    return Classic("small", "", {"u": 1.0}, {"u": ("u",), "v": ("v",)}, make)


def test_data_are_made_once_and_noise_is_relative_to_the_mean_square():
    calls = []

    def make():
        calls.append(1)
        rng = np.random.default_rng(0)
        fields = {"u": 5 + rng.normal(size=(50, 100)), "v": 0.01 * rng.normal(size=(50, 100))}
        return Data.from_arrays(fields, times=np.arange(50.0), geometry=Grid(x=np.arange(100.0)))

    case = small(make)
    assert calls == []
    clean, noisy = case.data(), case.noisy(0.2, seed=3)
    assert len(calls) == 1
    for field in "uv":
        rms = np.sqrt(np.mean(clean.fields[field] ** 2))
        assert_allclose(np.std(noisy.fields[field] - clean.fields[field]), 0.2 * rms, rtol=0.04)
    assert_array_equal(noisy.fields["u"], case.noisy(0.2, seed=3).fields["u"])
    assert not np.array_equal(noisy.fields["u"], case.noisy(0.2, seed=4).fields["u"])
    assert_array_equal(case.noisy(0, seed=3).fields["v"], clean.fields["v"])


def test_public_data_are_found_by_variable_or_on_the_way_up(tmp_path, monkeypatch):
    folder, inner = tmp_path / "shared" / "data", tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    inner.mkdir(parents=True)
    (folder / "kdv.mat").touch()
    monkeypatch.delenv("BVSI_DATA", raising=False)
    monkeypatch.chdir(inner)
    assert data_folder() == folder
    assert list(public_cases()) == ["public_kdv"]
    monkeypatch.setenv("BVSI_DATA", str(inner))
    assert public_cases() == {}


PUBLIC = public_cases()


@pytest.mark.shared
@pytest.mark.skipif("public_burgers" not in PUBLIC, reason="needs burgers.mat in ../shared/data")
def test_the_public_burgers_data_are_ours():
    public, ours = PUBLIC["public_burgers"].data(), burgers.simulate()
    assert_allclose(public.times, ours.times, atol=1e-12)
    assert_allclose(public.geometry.axes["x"], ours.geometry.axes["x"], atol=1e-12)
    assert_allclose(public.fields["u"], ours.fields["u"], atol=5e-8)


@pytest.mark.shared
@pytest.mark.skipif(len(PUBLIC) < 3, reason="needs the files in ../shared/data")
@pytest.mark.parametrize(
    "name, shape, period", [("kdv", (201, 512), 60.0), ("kuramoto_sivashinsky", (251, 1024), 32 * np.pi)]
)
def test_public_data_are_periodic_and_have_the_truth_of_ours(name, shape, period):
    case = PUBLIC[f"public_{name}"]
    data = case.data()
    assert case.truth == CLASSICS[name].truth
    assert data.fields["u"].shape == shape
    assert_allclose(data.geometry.periods["x"], period, rtol=1e-4)
