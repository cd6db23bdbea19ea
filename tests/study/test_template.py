"""What ``bvsi init`` writes loads again, suggests sound operators, and shows every key there is."""

import json
import re
import tomllib

import numpy as np
import pytest

from bvsi import Data, Grid
from bvsi.app.readers import read
from bvsi.app.study import Settings, load_study, suggested_operators, validate
from bvsi.app.study.build import files_of, reading_of
from bvsi.app.study.candidates import densities_of
from bvsi.app.study.inspection import inspect
from bvsi.app.study.schema import SCHEMA_FILE, schema_text
from bvsi.app.study.template import study_text, template
from bvsi.operators import Library, Mixed, Vocabulary
from bvsi.spaces.spline_tests import MAX_DERIVATIVES
from study.study_cases import wave

AXES = ("x", "y", "z")


def uncommented(text):
    """With every setting in force."""
    return re.sub(r"(?m)^#(?=\w|\[)", "", text)


@pytest.mark.parametrize("fields", [("u",), ("c1", "c2"), ("a", "b", "c", "d", "e")])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_suggested_operators_have_weak_forms_and_differ(fields, dim):
    words = Vocabulary(AXES[:dim], fields)
    for splines, orders in ((True, (0, MAX_DERIVATIVES)), (False, (1, 1))):
        operators = suggested_operators(fields, AXES[:dim], splines=splines)
        assert set(operators) == set(fields)
        assert all(2 < len(texts) <= 14 and f"laplacian({field})" in texts for field, texts in operators.items())
        library = Library(operators)
        forms = library.weak(words, trial_order=orders[0], test_order=orders[1], biharmonic=Mixed())
        assert len(forms) == len(library)


def cloud(growth: float = 0.0, **periodic) -> Data:
    """A cloud that drifts and spreads, and may grow."""
    x, t = np.linspace(-5.0, 5.0, 60), np.linspace(0.0, 1.0, 12)
    width = 0.5 + 0.4 * t[:, None]
    u = np.exp(growth * t[:, None] - ((x - t[:, None]) / width) ** 2) / width
    u += 0.05 * np.random.default_rng(0).standard_normal(u.shape)
    return Data.from_arrays({"p": u}, times=t, geometry=Grid(x=x, **periodic))


def test_a_conserved_density_may_drift_in_a_potential():
    assert densities_of(cloud()) == ("p",)
    assert densities_of(cloud(growth=1.0)) == densities_of(cloud(periodic={"x": 10.2})) == ()
    operators = suggested_operators(("p",), ("x", "y"), densities=("p",))["p"]
    assert operators[3:6] == ["div(p*grad(x**2))", "div(p*grad(x*y))", "div(p*grad(y**2))"]
    assert len(operators) == len(set(operators)) == 14
    assert "div(p*grad(x**2))" not in suggested_operators(("p",), ("x", "y"))["p"]


def test_units_of_the_file_are_those_of_the_study(tmp_path):
    pytest.importorskip("pint")
    ds = cloud().to_xarray()
    for name, unit in (("p", "mg/L"), ("x", "mm"), ("time", "h")):
        ds[name].attrs["units"] = unit
    ds.to_netcdf(tmp_path / "cloud.nc", engine="h5netcdf")
    study = tmp_path / "study.toml"
    study.write_text(template(tmp_path / "cloud.nc", study_file=study), encoding="utf-8")
    assert load_study(study).settings.data.units == {"p": "mg/L", "t": "h", "x": "mm"}
    assert "units: p in mg/L, t in h, x in mm" in str(inspect(tmp_path / "cloud.nc"))
    ds["p"].attrs["units"] = "as measured"
    ds.to_netcdf(tmp_path / "cloud.nc", engine="h5netcdf")
    study.write_text(template(tmp_path / "cloud.nc", study_file=study), encoding="utf-8")
    assert load_study(study).settings.data.units is None


def test_the_text_loads_with_and_without_the_comments(tmp_path):
    operators = suggested_operators(("c", "d"), ("x",))
    text = study_text({"file": "a b.nc", "fields": ["c", "d"], "periodic": {"x": 1.5}}, operators, title='A "title"')
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    settings = load_study(path).settings
    assert settings.title == 'A "title"'
    assert {f: list(t) for f, t in settings.library.equations.items()} == operators
    assert settings.noise == type(settings.noise)()
    full = Settings.model_validate(tomllib.loads(uncommented(text)))  # examples have the right types
    assert "laplacian(c)" in full.posterior.priors
    assert len(full.quantity) == 1


def test_every_key_is_shown():
    text = uncommented(study_text({"file": "a.nc"}, {"u": ["u"]}))
    document = tomllib.loads(text)
    shown = {
        name: set(table[0] if isinstance(table, list) else table) for name, table in document.items() if name != "title"
    }
    assert set(document) == set(Settings.model_fields)
    for name, keys in shown.items():
        model = Settings.model_fields[name].annotation
        fields = model.model_fields if hasattr(model, "model_fields") else model.__args__[0].model_fields
        assert keys == set(fields)
        assert all(field.description for field in fields.values())


def test_a_file_gets_a_study_that_fits_it(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "studies").mkdir()
    file = tmp_path / "data" / "run.nc"
    wave(("u", "v")).to_xarray().to_netcdf(file, engine="h5netcdf")
    study_file = tmp_path / "studies" / "study.toml"
    study_file.write_text(template(file, study_file=study_file), encoding="utf-8")
    study = load_study(study_file)
    assert study.settings.data.file == "../data/run.nc"
    assert files_of(study)[0].resolve() == file
    validate(study)
    data = read(files_of(study)[0], reading_of(study))
    assert data.names == ("u", "v")
    validate(study, data)


def test_arrays_without_names_get_their_axes(tmp_path):
    data = wave()
    file = tmp_path / "run.npz"
    np.savez(file, u=data.fields["u"], x=data.geometry.axes["x"], t=data.times)
    (tmp_path / "study.toml").write_text(template(file, study_file=tmp_path / "study.toml"), encoding="utf-8")
    study = load_study(tmp_path / "study.toml")
    assert study.settings.data.dims == ("t", "x")


def test_the_shipped_schema_is_that_of_the_settings():
    """Write it again with ``python -m bvsi.app.study.schema``."""
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8")) == json.loads(schema_text())  # 0 and 0.0 alike
    assert study_text({"file": "a"}, {"u": ["u"]}).startswith(f"#:schema {SCHEMA_FILE.as_uri()}\n")


def test_the_schema_describes_every_key_and_forbids_others():
    schema = json.loads(schema_text())
    for name, table in schema["$defs"].items():
        assert table["additionalProperties"] is False, name
    noise = schema["$defs"]["NoiseSettings"]["properties"]
    assert "Standard deviation" in noise["sigma"]["description"]


def test_one_frame_is_taken_for_a_steady_problem(tmp_path):
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 20)
    u = np.sin(5 * x)[:, None] + x + 0.01 * rng.standard_normal((20, 20))
    data = Data.from_arrays({"u": u}, geometry=Grid(x=x, y=x))
    data.to_xarray().to_netcdf(tmp_path / "frame.nc")
    study = tmp_path / "study.toml"
    study.write_text(template(tmp_path / "frame.nc", study_file=study), encoding="utf-8")
    made = load_study(study)
    validate(made)
    assert made.settings.library.left == {"u": "laplacian(u)"}
    assert "laplacian(u)" not in made.settings.library.equations["u"]
