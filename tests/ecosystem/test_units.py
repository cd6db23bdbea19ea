"""Units of coefficients: they follow from those of fields, coordinates and time; impossible sums are named."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import bvsi
from bvsi.app.exports.scripts import PROGRAMS
from bvsi.errors import BvsiError, MissingDependencyError, OperatorError
from exports.export_cases import one_field

pint = pytest.importorskip("pint")

from bvsi.app import units as module  # noqa: E402
from bvsi.app.units import coefficient_units, parse_unit, unit_latex, unit_text  # noqa: E402

UNITS = {"u": "mg/L", "x": "mm", "t": "h"}


def of(texts: list[str], units: dict[str, str] = UNITS, **options) -> dict[str, str]:
    return coefficient_units(bvsi.Library({"u": texts}, **options), units)


@pytest.fixture(scope="module")
def registry():
    """Another one than that of the package."""
    return pint.UnitRegistry()


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("laplacian(u)", "mm²/h"),
        ("u", "1/h"),
        ("u**2", "L/h/mg"),
        ("u*dx(u)", "L·mm/h/mg"),
        ("biharmonic(u)", "mm⁴/h"),
        ("1", "mg/L/h"),
        ("div(u*grad(x**2))", "1/h"),
        ("dot(grad(u), grad(u))", "L·mm²/h/mg"),
        ("exp(-x/x)*u", "1/h"),
        ("sqrt(u)*sqrt(u)", "1/h"),
        ("diff(u**3, u)/u", "1/h"),
        ("t*u", "1/h²"),
    ],
)
def test_units_follow_from_the_operator(text, unit, registry):
    found = of([text])[text]
    assert parse_unit(found or "1") == parse_unit(unit or "1")
    assert registry.Quantity(1, str(parse_unit(found))).check(registry.Unit(str(parse_unit(unit))).dimensionality)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("u + dx(u)", "the sum of 'u' and 'dx(u)' has mg/L and mg/L/mm"),
        ("u*(1 - u)", "the sum of '1' and 'u' has no unit and mg/L"),
        ("laplacian(u + u**2)", "the sum of 'u' and 'u ** 2'"),
        ("exp(u)", "exp of 'u' has mg/L"),
        ("u**x", "the power 'x' has mm"),
    ],
)
def test_impossible_sums_are_named(text, named):
    with pytest.raises(OperatorError) as refused:
        of(["u", text])
    assert repr(text) in str(refused.value)
    assert named in str(refused.value)


def test_one_dimension_in_two_units_is_no_sum():
    mixed = {"u": "m/s", "x": "mm", "y": "cm", "t": "s"}
    assert of(["dx(u)"], mixed) == {"dx(u)": "mm/s"}
    with pytest.raises(OperatorError, match="mm and cm, two units of one dimension"):
        of(["laplacian(u)"], mixed)
    assert of(["u + v"], {"u": "mg/L", "v": "g/m**3", "t": "h"}) == {"u + v": "1/h"}  # the same unit twice


def test_parameters_get_theirs_from_sums():
    found = of(["u/(K + u)", "u*exp(-a*x)"], parameters={"K": (0.1, 10), "a": (0.1, 1)})
    assert found == {"u/(K + u)": "mg/h/L", "u*exp(-a*x)": "1/h", "K": "mg/L", "a": "1/mm"}
    chained = of(["u/(K*b + u)", "u/(K + u)"], parameters={"K": (0.1, 10), "b": (0.1, 1)})
    assert chained["b"] == ""
    with pytest.raises(BvsiError, match="parameter 'K' does not follow"):
        of(["u**2/K"], parameters={"K": (0.1, 10)})
    assert of(["u**2/K"], UNITS | {"K": "mg/L"}, parameters={"K": (0.1, 10)})["u**2/K"] == "1/h"
    with pytest.raises(OperatorError, match=r"u\*\*n"):
        of(["u**n"], parameters={"n": (1, 3)})


def test_left_sides_and_orders():
    assert of(["laplacian(u)"], time_order=2) == {"laplacian(u)": "mm²/h²"}
    assert of(["u"], left="laplacian(u)") == {"u": "1/mm²"}
    with pytest.raises(OperatorError, match="left"):
        of(["u"], left="dt(u) + u")
    library = bvsi.Library({"v": ["laplacian(v)", "advect(v, v)"]}, vectors={"v": ("a", "b")})
    flow = coefficient_units(library, {"a": "m/s", "b": "m/s", "x": "m", "y": "m", "t": "s"})
    assert set(flow.values()) == {"m²/s", ""}


@pytest.mark.parametrize("text", ["9**9**9**9", "__import__", "foo", "m**1e9", "", "mm+m", "m(", "degC", 3])
def test_what_is_no_unit_is_refused(text):
    with pytest.raises(BvsiError, match="units"):
        of(["u"], {"u": text, "t": "h"})


def test_missing_units_are_named():
    with pytest.raises(BvsiError, match="'x' is missing"):
        of(["laplacian(u)"], {"u": "1", "t": "s"})
    with pytest.raises(BvsiError, match="'v' is missing"):
        of(["u*v"])


def test_texts_are_read_back():
    for text in ("mm²/h", "1/s", "L·mm/h/mg", "kg·m²/s²", "%"):
        assert unit_text(parse_unit(text)) == text
    assert parse_unit("mg / L") == parse_unit("mg*L**-1") == parse_unit("mg L^-1")
    assert unit_latex("mm²·s⁻¹") == r"\mathrm{mm^{2}\,s^{-1}}"
    assert unit_latex("}\\input{x}") == r"\mathrm{inputx}"


def burgers(length: float, time: float):
    """u = −2ν φ_x/φ of φ = 1 + e^(−νk²t) cos kx/2, ν = 0.1 m²/s, in units of ``length`` m and ``time`` s."""
    x, t, nu = np.linspace(0, 2 * np.pi, 40, endpoint=False), np.linspace(0, 8, 40), 0.1
    wave = np.exp(-nu * t)[:, None] / 2
    u = 2 * nu * wave * np.sin(x) / (1 + wave * np.cos(x))
    u = u + 0.002 * np.random.default_rng(5).standard_normal(u.shape)
    grid = bvsi.Grid(x=x / length, periodic={"x": 2 * np.pi / length})
    return bvsi.Data.from_arrays({"u": u / length * time}, times=t / time, geometry=grid)


LIBRARY = bvsi.Library({"u": ["u*dx(u)", "dx(dx(u))"]}, keep="all")


@pytest.fixture(scope="module")
def both():
    metres = bvsi.discover(burgers(1, 1), LIBRARY, units={"u": "m/s", "x": "m", "t": "s"}, check=False)
    small = bvsi.discover(burgers(1e-3, 3600), LIBRARY, units={"u": "mm/h", "x": "mm", "t": "h"}, check=False)
    return metres, small


def test_millimetres_and_hours_are_the_powers_of_metres_and_seconds(both):
    metres, small = both
    units = metres.units.values(), small.units.values()
    powers = [parse_unit(a or "1") / parse_unit(b or "1") for a, b in zip(*units, strict=True)]
    factors = [(1 * power).to("dimensionless").magnitude for power in powers]
    np.testing.assert_allclose(factors, [1, 3.6e9], rtol=1e-12)
    np.testing.assert_allclose(small.theta, metres.theta * factors, rtol=1e-7)  # iterations end where they end
    np.testing.assert_allclose(small.sd, metres.sd * factors, rtol=1e-5)


def test_units_in_print_report_and_exports(both, tmp_path):
    _, found = both
    assert found.units == {"u*dx(u)": "", "dx(dx(u))": "mm²/h"}
    assert "mm²/h dx(dx(u))" in found.equation
    assert found.table.splitlines()[-1].endswith("mm²/h")
    assert r"\mathrm{mm^{2}/h}" in found.to_latex()
    assert list(found.to_dataframe()["unit"]) == ["", "mm²/h"]
    for target in ("numpy", "jax", "pypde", "dedalus", "modelingtoolkit", "csv", "ufl"):
        assert "mm²/h" in PROGRAMS[target](found)
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<mtext>mm²/h</mtext>" in page
    found.save(tmp_path / "found.nc")
    again = bvsi.Discovery.load(tmp_path / "found.nc")
    assert again.equation == found.equation
    assert again.data_units == found.data_units == {"u": "mm/h", "x": "mm", "t": "h"}


def test_line_breaks_in_units_stay_in_comments():
    found = replace(one_field(["u"]), units={"u": "m\nimport os"})
    assert not [line for line in PROGRAMS["modelingtoolkit"](found).splitlines() if line.startswith("import")]
    assert not [line for line in PROGRAMS["numpy"](found).splitlines() if line.startswith("import os")]


def test_discover_refuses_before_it_computes():
    with pytest.raises(OperatorError, match=r"u \+ dx\(u\)"):
        bvsi.discover(burgers(1, 1), bvsi.Library({"u": ["u + dx(u)"]}), units={"u": "m/s", "x": "m", "t": "s"})
    with pytest.raises(BvsiError, match="texts by name"):
        bvsi.discover(burgers(1, 1), LIBRARY, units="m")


def test_units_from_the_attributes_of_xarray():
    import bvsi.app.accessors  # noqa: F401

    ds = burgers(1, 1).to_xarray()
    ds["u"].attrs["units"], ds["x"].attrs["units"], ds["time"].attrs["units"] = "m/s", "m", "s"
    found = ds.bvsi.discover(LIBRARY, time="time", units="attrs", check=False)
    assert found.units["dx(dx(u))"] == "m²/s"


def test_a_study_states_units(command, tmp_path):
    burgers(1e-3, 3600).to_xarray().to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    study = """[data]
file = "run.nc"
time = "time"
units = {u = "mm/h", x = "mm", t = "h"}
[library]
keep = "all"
[library.equations]
u = ["u*dx(u)", "dx(dx(u))"OPERATOR]
[check]
enabled = false
[forecast]
enabled = false
"""
    (tmp_path / "study.toml").write_text(study.replace("OPERATOR", ', "u + dx(u)"'))
    code, _, err = command("run", tmp_path / "study.toml", "-q")
    assert code == 2
    assert "u + dx(u)" in err
    assert "units" in err
    (tmp_path / "study.toml").write_text(study.replace("OPERATOR", ""))
    code, out, _ = command("run", tmp_path / "study.toml")
    assert code == 0
    assert "mm²/h" in out
    assert "unit" in (tmp_path / "result" / "coefficients.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "mm²/h" in (tmp_path / "result" / "summary.json").read_text(encoding="utf-8")


def test_the_package_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pint", None)
    module._registry.cache_clear()
    try:
        with pytest.raises(MissingDependencyError, match=r"bvsi\[units\]"):
            of(["u"])
    finally:
        module._registry.cache_clear()
