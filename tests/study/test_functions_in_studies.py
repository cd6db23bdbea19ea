"""Unknown functions inside operators, in study files."""

import pytest

from bvsi.app.study import load_study, validate
from bvsi.app.study.memory import estimate_memory
from bvsi.app.study.run import read_inputs
from study.study_cases import BASE, refused, wave, written

LIBRARY = BASE.replace('"u",\n', '"u",\n  "div(k*grad(u))",\n')


def test_a_function_is_read_checked_and_estimated_for(tmp_path):
    wave().to_xarray().to_netcdf(tmp_path / "run.nc")
    study = load_study(written(tmp_path, "\n[library.unknown]\nk = 'x'\n", base=LIBRARY))
    validate(study)
    inputs = read_inputs(study)
    assert [*inputs.library.unknown] == ["k"]
    # one operator for every coefficient of its splines
    assert estimate_memory(inputs.data, inputs.library).operators > len(inputs.library.names) + 3


def test_a_function_may_be_written_in_its_operator(tmp_path):
    wave().to_xarray().to_netcdf(tmp_path / "run.nc")
    base = LIBRARY.replace("div(k*", "div(unknown(k, of=x)*")
    study = load_study(written(tmp_path, "", base=base))
    validate(study)
    library = read_inputs(study).library
    assert library.unknown["k"].of == ("x",)
    assert "div(k*grad(u))" in library.names


@pytest.mark.parametrize("text", ["unknown(k)", "unknown(k, of=q)", "unknown(k, of=x, at=3)"])
def test_a_function_that_is_badly_written_is_refused(tmp_path, text):
    assert "unknown" in str(refused(tmp_path, "", base=LIBRARY.replace("div(k*", f"div({text}*")))


@pytest.mark.parametrize(
    ("text", "why"), [("k = 'q'", "no 'q'"), ("u = 'x'", "another name"), ("k = 'x'\nq = 'x'", "q")]
)
def test_what_is_no_function_is_refused(tmp_path, text, why):
    assert why in str(refused(tmp_path, f"\n[library.unknown]\n{text}\n", base=LIBRARY))
