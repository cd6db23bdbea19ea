"""What the data say against a study is reported before anything is computed."""

import numpy as np
import pytest

from bvsi.app.study import StudyError, load_study, validate
from bvsi.data import Data, Grid
from study.study_cases import BASE, wave, written

OPEN = BASE.replace('fields = ["u"]\n', "")


def told(study, data=None):
    with pytest.raises(StudyError) as caught:
        validate(study, data)
    return str(caught.value)


def test_data_that_fit_pass(tmp_path):
    validate(load_study(written(tmp_path, "")), wave())


def test_names_are_checked_when_the_data_are_there(tmp_path):
    study = load_study(written(tmp_path, 'v = ["u*wind"]\n', base=OPEN))
    assert "line 12, library.equations.v: the data have no field 'v'" in told(study, wave())
    message = told(study, wave(("u", "v")))
    assert "line 12, library.equations.v[0]" in message
    assert "unknown name 'wind'" in message


def test_dimensions_are_checked_when_the_data_are_there(tmp_path):
    study = load_study(written(tmp_path, "", base=BASE.replace("u*dx(u)", "u*dy(u)")))
    assert "line 10, library.equations.u[1]" in told(study, wave())


def test_operators_without_weak_form_are_told(tmp_path):
    bad = load_study(written(tmp_path, "", base=BASE.replace("u*dx(u)", "dx(dx(dx(u)))**2")))
    assert "library.equations.u[1]: operator 'dx(dx(dx(u)))**2': no weak form" in told(bad, wave())
    third = BASE.replace("u*dx(u)", "dx(dx(dx(u)))")
    validate(load_study(written(tmp_path, "", base=third)), wave())
    elements = load_study(written(tmp_path, '[discretisation]\ntests = "elements"\n', base=third))
    assert "order 3" in told(elements, wave())


def test_noise_levels_cover_the_fields(tmp_path):
    study = load_study(written(tmp_path, "[noise]\nsigma = {u = 1.0}\n", base=OPEN))
    assert "the field 'v' has none" in told(study, wave(("u", "v")))


def test_priors_need_a_level_of_noise_where_the_fit_finds_it(tmp_path):
    text = '[posterior.priors]\nu = {distribution = "normal", mean = 0, variance = 1}\n'
    validate(load_study(written(tmp_path, text)), wave())
    assert "state noise.sigma" in told(load_study(written(tmp_path, text)), wave(frames=4))
    with pytest.raises(StudyError, match=r"state noise\.sigma"):
        load_study(written(tmp_path, text + "[noise]\nunknown = true\n"))
    with pytest.raises(StudyError, match=r"state noise\.sigma"):
        load_study(written(tmp_path, text + '[discretisation]\ntests = "elements"\n'))
    load_study(written(tmp_path, text + '[discretisation]\ntests = "elements"\n[noise]\nsigma = 1e-3\n'))


def test_experiments_have_the_same_fields(tmp_path):
    text = BASE.replace('file = "run.nc"', 'files = ["a.nc",\n "b.nc"]')
    study = load_study(written(tmp_path, "", base=text))
    validate(study, [wave(), wave(nodes=48)])
    assert "line 3, data: experiment 1 has the fields u, v" in told(study, [wave(), wave(("u", "v"))])


def test_files_have_to_exist(tmp_path):
    study = load_study(written(tmp_path, ""))
    assert "line 4, data.file: there is no file" in told(study)
    (tmp_path / "runs.nc").touch()
    assert "did you mean 'runs.nc'" in told(study)
    (tmp_path / "run.nc").touch()
    validate(study)
    pattern = load_study(written(tmp_path, "", base=BASE.replace("run.nc", "ru*.nc")))
    validate(pattern)


def test_on_a_grid_with_two_axes_the_other_coordinate_exists(tmp_path):
    x = np.linspace(0, 1, 20)
    t = np.linspace(0, 1, 12)
    plane = Data.from_arrays({"u": np.zeros((12, 20, 20)) + t[:, None, None]}, times=t, geometry=Grid(x=x, y=x))
    validate(load_study(written(tmp_path, "", base=BASE.replace("u*dx(u)", "y*dy(u)"))), plane)
