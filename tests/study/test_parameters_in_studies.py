"""Parameters inside operators, in study files."""

import pytest

from bvsi.app.study import load_study, validate
from bvsi.app.study.build import library_of
from bvsi.app.study.run import read_inputs
from bvsi.operators import Parameter
from study.study_cases import BASE, refused, wave, written

LIBRARY = BASE.replace('"u",\n', '"u",\n  "u/(K + u)",\n')


def test_bounds_and_start_are_read(tmp_path):
    wave().to_xarray().to_netcdf(tmp_path / "run.nc")
    study = load_study(written(tmp_path, "\n[library.parameters]\nK = [0.1, 10.0, 2]\n", base=LIBRARY))
    validate(study)
    assert library_of(study).parameters == {"K": Parameter(0.1, 10.0, 2)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("K = [10.0, 0.1]", "bounds"),
        ("K = [0.1, 10.0, 20.0]", "start"),
        ("K = [0.1]", "2"),
        ("u = [0.1, 10.0]", "another name"),
        ("K = [0.1, 10.0]\nq = [0.0, 1.0]", "no operator"),
    ],
)
def test_what_is_no_parameter_is_refused_with_its_place(tmp_path, text, why):
    error = refused(tmp_path, f"\n[library.parameters]\n{text}\n", base=LIBRARY)
    assert why in str(error)


def test_a_name_that_is_no_parameter_is_unknown_still(tmp_path):
    assert "unknown name 'K'" in str(refused(tmp_path, "", base=LIBRARY))


TWO = LIBRARY.replace('file = "run.nc"', 'files = ["run.nc", "run.nc"]')
KNOWN = "\n[data.known]\nT = [1.0, 2.0]\n[library]\nper_experiment = ['K']\n[library.parameters]\nK = [0.1, 10.0]\n"


def test_known_quantities_and_what_differs_by_experiment_are_read(tmp_path):
    wave().to_xarray().to_netcdf(tmp_path / "run.nc")
    more = f"{KNOWN}[posterior]\nconstraints = ['K_1 <= K_2']\n"
    inputs = read_inputs(load_study(written(tmp_path, more, base=TWO.replace("u/(K + u)", "exp(-K/T)*u"))))
    assert [one.auxiliary["T"][0] for one in inputs.data] == [1.0, 2.0]
    assert inputs.library.per_experiment == ("K",)


def test_what_differs_by_experiment_has_to_exist(tmp_path):
    assert "is no parameter, function or operator" in str(refused(tmp_path, KNOWN.replace("['K']", "['Q']"), base=TWO))
    assert "2 numbers for 1 exp" in str(refused(tmp_path, KNOWN, base=LIBRARY))
