"""Equations in other languages: run where the target installs here, by their grammar elsewhere."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from bvsi.app.exports.scripts import PROGRAMS, drawn_program
from bvsi.data import Grid
from bvsi.discovery import Discovery
from bvsi.errors import BvsiError
from bvsi.operators import Library, Vocabulary
from exports.export_cases import LINE, X, discovery, lorenz, one_field

TEXTS = ["u*dx(u)", "dx(dx(u))", "dx(dx(dx(u)))", "biharmonic(u)", "u", "1", "dx(dx(u**3)) - 2*u", "exp(-u**2)/u"]
SPLINES = ["dx(spline(u, 1.5, 3.5, 1, 0.2, -1, 0.5, 2, 1)*dx(u))", "dx(spline(x, 0, 6.3, 1, 2, 2, 2, 1)*u)"]
U = 2 + np.sin(X)


def build_calls(program: str) -> tuple[ast.FunctionDef, list[str]]:
    """The function of a Dedalus program, and the texts of its equations."""
    (function,) = [node for node in ast.parse(program).body if isinstance(node, ast.FunctionDef)]
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    added = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "add_equation"]
    return function, [ast.literal_eval(call.args[0]) for call in added]


def evaluated(text: str, u: np.ndarray) -> np.ndarray:
    """A side of an equation of Dedalus on the line, with dt(u) = 0."""
    from bvsi.app.exports.differences import derivative_matrix

    D = derivative_matrix(X, 1, 2 * np.pi)
    return eval(text, {"u": u, "x": X, "np": np, "dx": lambda v: D @ v, "dt": lambda v: 0 * v})


@pytest.mark.parametrize("text", TEXTS + SPLINES)
def test_dedalus_equations_are_the_equation(text):
    found = one_field([text, "u**2"])
    _, (equation,) = build_calls(found.to_dedalus())
    left, right = equation.split(" = ")
    slope = evaluated(right, U) - evaluated(left, U)
    np.testing.assert_allclose(slope, found.to_numpy(LINE)(0.0, U), atol=1e-6)


def test_the_left_side_of_dedalus_is_linear():
    """Terms on the left side are treated implicitly, and have to be linear: f(a u) = a f(u)."""
    found = one_field(TEXTS)
    _, (equation,) = build_calls(found.to_dedalus())
    left, right = equation.split(" = ")
    np.testing.assert_allclose(evaluated(left, 3 * U), 3 * evaluated(left, U), rtol=1e-9, atol=1e-5)
    assert "dx(dx(dx(u)))" in left
    assert "dx(dx(u))" not in right


def test_dedalus_of_higher_order_in_time_and_of_series():
    _, equations = build_calls(one_field(["laplacian(u)"], time_order=2).to_dedalus())
    assert equations == ["dt(u) - u_t = 0", "dt(u_t) - (0.5*dx(dx(u))) = 0"]
    function, equations = build_calls(lorenz().to_dedalus())
    assert equations[0] == "dt(x_) - (-10.0*x_ + 10.0*y_) = 0"
    assert equations[1].endswith(" = -x_*z_")
    assert [argument.arg for argument in function.args.args] == ["dist", "coords", "bases", "known"]


def test_modelingtoolkit_series():
    text = lorenz().to_modelingtoolkit(theta=[1, 2, 3, 4, 5, 6, 7])
    assert "@variables x(t) y(t) z(t)" in text
    assert "p_3 = 3.0" in text
    assert "Dt(y(t)) ~ p_3*x(t) + p_4*y(t) + p_5*x(t)*z(t)," in text
    assert "@mtkbuild system = ODESystem(eqs, t)" in text


def test_modelingtoolkit_is_julia():
    """Brackets match, and an equation has names, numbers, signs and calls only."""
    text = one_field(TEXTS).to_modelingtoolkit()
    code = [line for line in text.splitlines() if not line.startswith("#")]
    for opening, closing in ("()", "[]"):
        assert "".join(code).count(opening) == "".join(code).count(closing)
    (equation,) = [line.strip() for line in code if "~" in line]
    assert re.fullmatch(r"Dt\(u\(t, x\)\) ~ [A-Za-z0-9_.+\-*/^(), ]+,", equation)
    assert "**" not in equation
    words = set(re.findall(r"[A-Za-z_]\w*", equation)) - {f"p_{i + 1}" for i in range(len(TEXTS))}
    assert words == {"Dt", "Dx", "u", "t", "x", "exp"}
    assert "Dt(Dt(u(t, x)))" in one_field(["laplacian(u)"], time_order=2).to_modelingtoolkit()


def test_a_field_with_the_name_of_something_else_gets_a_mark():
    found = one_field(["end**2"], field="end")
    assert "Dt(end_(t, x)) ~ p_1*end_(t, x)^2," in found.to_modelingtoolkit()
    assert 'dist.Field(name="np_"' in one_field(["np"], field="np").to_dedalus()


@pytest.mark.parametrize("target", PROGRAMS)
def test_every_target_has_a_text(target):
    found = one_field(["u*dx(u)", "dx(dx(u))"])
    text = PROGRAMS[target](found)
    assert text.endswith("\n")
    if target in ("numpy", "jax", "pypde", "ufl", "dedalus"):
        compile(text, target, "exec")


@pytest.mark.parametrize("field", ["u; import os", "u\nimport os", "lambda", "ü", ""])
def test_names_of_a_result_from_somebody_else_are_no_code(field):
    found = one_field(["u"])
    bad = replace(found, fields=(field,), words=Vocabulary(("x",), (field,)))
    for target in set(PROGRAMS) - {"latex", "csv"}:
        with pytest.raises(BvsiError):
            PROGRAMS[target](bad)


def test_line_breaks_in_names_stay_in_comments():
    found = one_field(["u"])
    evil = "u\nimport os\r\x0bimport os\u2028import os"
    posterior = replace(found.posterior, names=(evil,))
    bad = replace(found, posterior=posterior, candidates=(evil,), texts={evil: "u"})
    for target in ("numpy", "jax", "pypde", "ufl", "dedalus"):
        tree = ast.parse(PROGRAMS[target](bad))
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.Import) and n.names[0].name == "os"]
    assert not [line for line in PROGRAMS["modelingtoolkit"](bad).splitlines() if line.startswith("import")]


def test_an_older_result_is_refused():
    with pytest.raises(BvsiError, match="earlier version"):
        replace(one_field(["u"]), words=None).to_sympy()


def test_a_file_keeps_what_exports_need(tmp_path):
    library = Library({"a": ["laplacian(a)"], "b": ["phi"]}, definitions={"phi": "a*b"})
    found = discovery(library, dict.fromkeys(library.names, 1.0), Vocabulary(("x",), ("a", "b"), ("k",)))
    found.save(tmp_path / "found.nc")
    again = Discovery.load(tmp_path / "found.nc")
    assert again.words == found.words
    assert again.texts == {"a: laplacian(a)": "laplacian(a)", "b: phi": "a * b"}
    assert again.to_dedalus() == found.to_dedalus()


def test_tables():
    found = lorenz()
    table = found.to_dataframe()
    assert list(table.index) == list(found.names)
    assert table.loc["y: x*z", "equation"] == "y"
    np.testing.assert_allclose(table["upper"] - table["lower"], 2 * 1.959964 * found.sd, rtol=1e-6)
    draws = found.to_dataframe(draws=50, rng=np.random.default_rng(3))
    assert draws.shape == (50, 7)
    np.testing.assert_allclose(draws, found.posterior.sample(50, np.random.default_rng(3)))
    assert found.to_latex() == PROGRAMS["latex"](found)


def test_predict_takes_the_texts_of_the_command():
    found = one_field(["laplacian(u)", "u"])
    assert float(found.predict("2*[laplacian(u)]")["mean"]) == pytest.approx(1.0)
    inverse = found.predict("1/[laplacian(u)]", size=4000)
    assert float(inverse["mean"]) == pytest.approx(2.0, rel=1e-3)
    curve = found.predict("[laplacian(u)]*x", axes={"x": (0, 1, 11)})
    np.testing.assert_allclose(curve["mean"], 0.5 * np.linspace(0, 1, 11), atol=1e-12)
    with pytest.raises(BvsiError, match="bracket"):
        found.predict("[laplacian(u)", size=10)


def test_draws_go_where_they_are_used():
    found = one_field(["u*dx(u)", "dx(dx(u))"])
    drawn = found.posterior.sample(3, np.random.default_rng(5))
    space: dict = {}
    exec(compile(drawn_program(found, "numpy", 3, 5), "script", "exec"), space)
    np.testing.assert_array_equal(space["DRAWS"], drawn)
    rhs = space["right_side"]({"x": X}, {"x": 2 * np.pi})
    np.testing.assert_allclose(rhs(0.0, U, space["DRAWS"][1]), found.to_numpy(LINE)(0.0, U, drawn[1]), atol=1e-12)
    matrix = drawn_program(found, "modelingtoolkit", 3, 5).split("draws = [\n")[1].rstrip("]\n").splitlines()
    np.testing.assert_array_equal([list(map(float, row.split())) for row in matrix], drawn)
    assert drawn_program(found, "csv", 3, 5).splitlines()[0] == "u*dx(u),dx(dx(u))"
    with pytest.raises(BvsiError, match="to_pypde"):
        drawn_program(found, "pypde", 3)


def test_export_command(command, tmp_path):
    found = one_field(["u*dx(u)", "dx(dx(u))"])
    found.save(tmp_path / "result.nc")
    code, out, _ = command("export", tmp_path, "--to", "pypde")
    assert code == 0
    assert out.rstrip() == PROGRAMS["pypde"](found).rstrip()
    code, out, _ = command("export", tmp_path, "--to", "numpy", "--out", tmp_path / "rhs.py", "--json")
    assert code == 0
    assert json.loads(out)["file"] == str(tmp_path / "rhs.py")
    assert (tmp_path / "rhs.py").read_text() == PROGRAMS["numpy"](found)
    code, out, _ = command("export", tmp_path, "--to", "csv", "--draws", 4, "--seed", 1)
    assert code == 0
    assert len(out.split()) == 5
    code, _, err = command("export", tmp_path, "--to", "numpy", "--out", tmp_path / "rhs.py")
    assert code == 2
    assert "--force" in err


@pytest.mark.filterwarnings("ignore")  # of what py-pde imports
def test_pypde_is_the_equation():
    pde = pytest.importorskip("pde")
    found = one_field(["u*dx(u)", "dx(dx(u))", "cos(x)*u", "dx(dx(dx(u)))"])
    grid = pde.CartesianGrid([[0, 2 * np.pi]], 2048, periodic=True)
    x = grid.axes_coords[0]
    slope = found.to_pypde().evolution_rate(pde.ScalarField(grid, 2 + np.sin(x)))
    u, c = 2 + np.sin(x), np.cos(x)
    exact = 0.5 * u * c + np.sin(x) + 1.5 * c * u + 2 * c
    np.testing.assert_allclose(slope.data, exact, atol=1e-4)
    system = lorenz().to_pypde(theta=[-10.0, 10.0, 28.0, -1.0, -1.0, 0.0, 1.0])
    assert list(system.variables) == ["x_", "y_", "z_"]
    assert list(one_field(["laplacian(u)"], time_order=2).to_pypde().variables) == ["u", "u_t"]
    with pytest.raises(BvsiError, match="'k'"):
        one_field(["k*u"], auxiliary=["k"]).to_pypde()


@pytest.mark.filterwarnings("ignore")
def test_ufl_is_the_equation():
    ufl = pytest.importorskip("ufl")
    basix = pytest.importorskip("basix.ufl")
    mesh = ufl.Mesh(basix.element("Lagrange", "interval", 1, shape=(1,)))
    space = ufl.FunctionSpace(mesh, basix.element("Lagrange", "interval", 2))
    u, v = ufl.Coefficient(space), ufl.TestFunction(space)
    found = one_field(["u*dx(u)", "dx(dx(u))", "cos(x)*u", "div(u*grad(sin(x)))"])
    form = found.to_ufl({"u": u}, {"u": v})
    x = ufl.SpatialCoordinate(mesh)[0]
    by_hand = (
        0.5 * u * u.dx(0) * v + 1.0 * u.dx(0) * v.dx(0) + 1.5 * ufl.cos(x) * u * v + 2.0 * ufl.cos(x) * u * v.dx(0)
    ) * ufl.dx
    # values at a point: v = 2, v_x = 3, u = 1/2, u_x = −1, x = 0.3
    values = {u: lambda x, d=(): {(): 0.5, (0,): -1.0}[tuple(d)], v: lambda x, d=(): {(): 2.0, (0,): 3.0}[tuple(d)]}
    got, wanted = (sum(i.integrand()((0.3,), values) for i in one.integrals()) for one in (form, by_hand))
    assert got == pytest.approx(wanted)
    space_of: dict = {}
    exec(compile(PROGRAMS["ufl"](found), "script", "exec"), space_of)
    script = space_of["right_side"]({"u": u}, {"u": v})
    assert sum(i.integrand()((0.3,), values) for i in script.integrals()) == pytest.approx(wanted)
    with pytest.raises(BvsiError, match="C1"):
        one_field(["biharmonic(u)"]).to_ufl({"u": u}, {"u": v})
    one_field(["biharmonic(u)"]).to_ufl({"u": u}, {"u": v}, order=2)


def test_ufl_goes_through_the_form_compiler():
    ufl = pytest.importorskip("ufl")
    basix = pytest.importorskip("basix.ufl")
    compiler = pytest.importorskip("ffcx.compiler")
    options = pytest.importorskip("ffcx.options")
    mesh = ufl.Mesh(basix.element("Lagrange", "triangle", 1, shape=(2,)))
    space = ufl.FunctionSpace(mesh, basix.element("Lagrange", "triangle", 2))
    u, v = ufl.Coefficient(space), ufl.TestFunction(space)
    plane = Grid(x=[0.0, 1.0], y=[0.0, 1.0])
    found = one_field(["laplacian(u)", "div(u*grad(x**2*y))", "u**3"], plane)
    form = found.to_ufl({"u": u}, {"u": v})
    code = compiler.compile_ufl_objects([form], options=options.get_options())
    assert any("tabulate_tensor" in part for part in map(str, code))


def test_what_was_before_is_a_known_field():
    found = discovery(Library({"u": ["u", "u*lag(u, 1.6)"]}), {"u": 1.2, "u*lag(u, 1.6)": -1.1}, Vocabulary((), ("u",)))
    with pytest.raises(BvsiError, match=r"'u_before' \(u at t - 1.6\)"):
        found.to_numpy()
    slope = found.to_numpy(known={"u_before": lambda t: 2 * t})(0.5, np.array([3.0]))
    np.testing.assert_allclose(slope, 1.2 * 3 - 1.1 * 3 * 1.0)
    space: dict = {}
    exec(PROGRAMS["numpy"](found), space)
    np.testing.assert_allclose(space["right_side"](known={"u_before": lambda t: 2 * t})(0.5, np.array([3.0])), slope)
    (equation,) = found.to_sympy()
    assert "u(t - 1.6)" in str(equation.rhs)
    assert "u(t)*u(t - 1.6)" in found.to_modelingtoolkit()
    assert "@variables u(..)" in found.to_modelingtoolkit()
    with pytest.raises(BvsiError, match="looks back in time"):
        PROGRAMS["pypde"](found)
