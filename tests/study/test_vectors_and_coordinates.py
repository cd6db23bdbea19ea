"""Vectors, and polar, cylindrical and spherical coordinates, in files and in study files."""

import numpy as np
import pytest
import xarray as xr

from bvsi import Data, Discovery, Grid, discover
from bvsi.app.readers import read, suggest
from bvsi.app.study import StudyError, load_study, validate
from bvsi.app.study.build import library_of, reading_of
from bvsi.app.study.template import template
from bvsi.errors import DataError

TIMES = np.linspace(0, 1, 9)
R, PHI, THETA = np.linspace(1, 2, 18), 2 * np.pi * np.arange(20) / 20, np.linspace(0.5, 2.5, 17)


def waves(grid):
    """A field that moves along all axes."""
    phase = grid.points @ np.arange(1, grid.dim + 1)
    return Data(TIMES, {"u": np.sin(phase - 3 * TIMES[:, None])}, grid)


GRIDS = {
    "polar": Grid(r=R, phi=PHI, coordinates="polar", periodic={"phi": 2 * np.pi}),
    "radial": Grid(r=R, coordinates="spherical"),
    "cylindrical": Grid(r=R, z=R, coordinates="cylindrical"),
    "spherical": Grid(r=R, theta=THETA, phi=PHI[:9], coordinates="spherical"),
}


@pytest.mark.parametrize("name", GRIDS)
def test_coordinates_are_kept_in_files(name, tmp_path):
    data, path = waves(GRIDS[name]), tmp_path / "run.nc"
    stored = data.to_xarray()
    stored.transpose(*reversed(stored["u"].dims)).to_netcdf(path)
    for again in (read(path), Data.from_xarray(stored, time="time")):
        assert again.geometry.coordinates == data.geometry.coordinates
        assert again.geometry.names == data.geometry.names
        assert dict(again.geometry.periods) == dict(data.geometry.periods)
        np.testing.assert_allclose(again.fields["u"], data.fields["u"])


@pytest.mark.parametrize("suffix", ["nc", "npz"])
def test_axes_of_other_programs_are_recognised_and_told(suffix, tmp_path):
    data, path = waves(GRIDS["polar"]), tmp_path / f"run.{suffix}"
    u = data.fields["u"].reshape(len(TIMES), *GRIDS["polar"].shape)
    if suffix == "nc":
        dims = {"t": TIMES, "radius": R, "azimuth": PHI}
        xr.Dataset({"u": (tuple(dims), u)}, coords=dims).to_netcdf(path)
    else:
        np.savez(path, u=u, t=TIMES, r=R, phi=PHI)
    found = read(path, suggest(path))
    assert found.geometry.coordinates == "polar"
    assert found.geometry.periods["phi"] == pytest.approx(2 * np.pi)  # steps that make up a whole turn
    study = tmp_path / "study.toml"
    study.write_text(text := template(path, study_file=study), encoding="utf-8")
    assert "# NOTE: the axes r, phi are polar coordinates" in text
    assert '"dr(u)"' in text
    loaded = load_study(study)
    validate(loaded)
    validate(loaded, read(path, reading_of(loaded)))


@pytest.mark.parametrize(
    ("axes", "keys", "told", "wanted"),
    [
        ({"r": R}, "", '"polar" or "spherical"', None),
        ({"r": R}, 'coordinates = "polar"', "", "polar"),
        ({"r": R, "theta": PHI}, "", 'axes = { theta = "phi" }', None),
        ({"r": R, "theta": PHI}, 'axes = {theta = "phi"}', "", "polar"),
        ({"r": R, "theta": THETA}, 'coordinates = "spherical"', "", "spherical"),
        ({"x": R}, 'coordinates = "polar"', "'polar' does not have the axes x", None),
    ],
)
def test_what_names_leave_open_is_asked_for(axes, keys, told, wanted, tmp_path):
    dims = {"t": TIMES, **axes}
    values = np.random.default_rng(0).standard_normal([len(v) for v in dims.values()])
    xr.Dataset({"u": (tuple(dims), values)}, coords=dims).to_netcdf(tmp_path / "run.nc")
    study = tmp_path / "study.toml"
    study.write_text(f'[data]\nfile = "run.nc"\n{keys}\n[library.equations]\nu = ["laplacian(u)"]\n')
    reading = reading_of(load_study(study))
    if wanted is None:
        with pytest.raises(DataError, match=r"axes|coordinates") as error:
            read(tmp_path / "run.nc", reading)
        assert told in str(error.value)
    else:
        assert read(tmp_path / "run.nc", reading).geometry.coordinates == wanted


STUDY = """[data]
file = "e.nc"
fields = ["ux", "uy"]
auxiliary = ["fx", "fy"]
[library]
vectors = {u = ["ux", "uy"], f = ["fx", "fy"]}
left = {u = "-f"}
[library.equations]
u = ["grad(div(u))", "laplacian(u)", "u"]
"""


def displacements():
    """Waves u with f = −(λ + μ) ∇(∇·u) − μ ∇²u, λ + μ = 2 and μ = 0.5."""
    x = np.linspace(0, 1, 24)
    grid, rng = Grid(x=x, y=x), np.random.default_rng(4)
    u, f = np.zeros((2, grid.n_nodes)), np.zeros((2, grid.n_nodes))
    for _ in range(4):
        k, size = rng.uniform(2, 8, 2), rng.standard_normal(2)
        wave = np.sin(grid.points @ k + rng.uniform(0, 6))
        u += size[:, None] * wave
        f += (2 * k * (k @ size) + 0.5 * (k @ k) * size)[:, None] * wave
    u += 0.02 * rng.standard_normal(u.shape)
    return Data(np.zeros(1), {"ux": u[:1], "uy": u[1:]}, grid, {"fx": f[0], "fy": f[1]})


def study_of(text, tmp_path):
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    return load_study(tmp_path / "study.toml")


def test_vectors_of_a_study_are_those_of_the_library(tmp_path):
    data, study = displacements(), study_of(STUDY, tmp_path)
    validate(study, data)
    library = library_of(study)
    assert library.ties == tuple(f"[ux: {t}] == [uy: {t}]" for t in ("grad(div(u))", "laplacian(u)", "u"))
    found = discover(data, library.subset(library.names[:2] + library.names[3:5]), check=False)
    found.save(tmp_path / "result.nc")
    again = Discovery.load(tmp_path / "result.nc")
    assert again.names == ("ux: grad(div(u))", "ux: laplacian(u)", "uy: grad(div(u))", "uy: laplacian(u)")
    assert (np.abs(again.theta - [2, 0.5, 2, 0.5]) < 4 * again.sd).all()
    assert again.theta[0] == again.theta[2]
    assert str(again) == str(found)


@pytest.mark.parametrize(
    ("old", "new", "line", "place", "told"),
    [
        ('"uy"], f', '"uz"], f', 6, "library.vectors.u", "'uz'"),
        ("{u = [", "{ux = [", 6, "library.vectors.ux", "choose another name"),
        ('["ux", "uy"], f', '["ux"], f', 6, "library.vectors.u", "two or three components"),
        ('"grad(div(u))"', '"div(u)"', 9, "library.equations.u[0]", "is a scalar"),
        ('"u"]', '"u*u"]', 9, "library.equations.u[2]", "dot(a, b)"),
        ('"-f"', '"div(f)"', 7, "library.left", "is a scalar"),
        ('"-f"}', '"-f"}\nkeep = ["curl(u)"]', 8, "library.keep[0]", "'curl(u)'"),
    ],
)
@pytest.mark.parametrize("with_data", [False, True])
def test_faults_of_vectors_name_the_key(old, new, line, place, told, with_data, tmp_path):
    assert old in STUDY
    (tmp_path / "e.nc").touch()
    with pytest.raises(StudyError) as error:
        validate(study_of(STUDY.replace(old, new, 1), tmp_path), displacements() if with_data else None)
    assert f"line {line}, {place}" in str(error.value)
    assert told in str(error.value)
