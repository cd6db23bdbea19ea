"""Fields written for ParaView are read back the same."""

import meshio
import numpy as np
import pytest

from bvsi.app.readers import Reading, read, write_vtu
from bvsi.data import Data, Grid
from bvsi.errors import DataError
from readers import samples

X = np.array([0.0, 1.0, 3.0])
CUBE = Grid(x=X, y=np.linspace(0, 1, 4), z=np.linspace(2, 3, 3))


def cube_data():
    return Data.from_arrays({"u": np.random.default_rng(0).normal(size=(2, 36))}, times=[0.0, 1 / 3], geometry=CUBE)


@pytest.mark.parametrize("data", [samples.line_data(), samples.plane_data(), samples.mesh_data(), cube_data()])
def test_round_trip(tmp_path, data):
    extra = {"fit": 2 * data.fields["u"]}
    path = write_vtu(data, tmp_path / "out", "field", extra)
    assert path.name == "field.pvd"
    periods = dict(data.geometry.periods) if isinstance(data.geometry, Grid) else None
    samples.same(read(path, Reading(fields=list(data.names), periodic=periods)), data)
    np.testing.assert_array_equal(read(path, Reading(fields=["fit"])).fields["fit"], extra["fit"])
    assert len(list((tmp_path / "out").iterdir())) == data.n_times + 1


def test_hexahedra_have_positive_volume(tmp_path):
    write_vtu(cube_data(), tmp_path, "a")
    mesh = meshio.vtu.read(tmp_path / "a_0000.vtu")
    corners = mesh.points[mesh.cells_dict["hexahedron"]]
    edges = corners[:, [1, 3, 4]] - corners[:, :1]
    np.testing.assert_allclose(np.linalg.det(edges).sum(), 3.0)


def test_values_not_measured_stay_missing(tmp_path):
    x, t, u = samples.line()
    u = u.copy()
    u[2, 3] = np.nan
    data = Data.from_arrays({"u": u}, times=t, geometry=Grid(x=x), dims=("x", "t"), missing="nan", auxiliary={"k": x})
    path = write_vtu(data, tmp_path, "a")
    np.testing.assert_array_equal(read(path, Reading(fields=["u"], missing="nan")).observed("u"), u.T)
    np.testing.assert_array_equal(read(path, Reading(fields=["k"])).fields["k"], np.broadcast_to(x, (21, 32)))


def test_extra_of_wrong_shape(tmp_path):
    with pytest.raises(DataError, match="'fit' has shape"):
        write_vtu(samples.line_data(), tmp_path, "a", {"fit": np.ones(3)})
    with pytest.raises(DataError, match="is a field already"):
        write_vtu(samples.line_data(), tmp_path, "a", {"u": np.ones((21, 32))})
    assert not list(tmp_path.iterdir())


def test_meshes_that_move_are_refused(tmp_path):
    path = write_vtu(samples.mesh_data(), tmp_path, "a")
    mesh = meshio.vtu.read(tmp_path / "a_0002.vtu")
    mesh.points[7] += 0.01
    meshio.vtu.write(str(tmp_path / "a_0002.vtu"), mesh)
    with pytest.raises(DataError, match="must not move"):
        read(path)


def test_vectors_are_split(tmp_path):
    mesh = samples.triangles()
    points = np.concatenate([mesh.points, np.zeros((25, 1))], axis=1)
    velocity = np.random.default_rng(0).normal(size=(2, 25, 3))
    for k in range(2):
        frame = meshio.Mesh(points, [("triangle", mesh.cells)], {"v": velocity[k]}, {"c": [np.ones(32)]})
        meshio.vtu.write(str(tmp_path / f"a_{k}.vtu"), frame)
    data = read(tmp_path / "a_*.vtu", Reading(spacing={"time": 0.25}))
    assert data.names == ("v_x", "v_y")
    np.testing.assert_array_equal(data.fields["v_y"], velocity[:, :, 1])
    np.testing.assert_array_equal(data.times, [0, 0.25])


def test_series_count_and_unused_points(tmp_path):
    mesh = samples.triangles()
    points = np.concatenate([[[9.0, 9.0, 0.0]], np.pad(mesh.points, ((0, 0), (0, 1)))])
    for k in range(11):
        frame = meshio.Mesh(points, [("triangle", mesh.cells + 1)], {"u": np.full(26, float(k))})
        meshio.vtk.write(str(tmp_path / f"a_{k}.vtk"), frame)
    data = read(tmp_path / "a_*.vtk", Reading(spacing={"time": 1.0}))
    np.testing.assert_array_equal(data.fields["u"][:, 0], np.arange(11.0))  # a_10 comes after a_9
    np.testing.assert_array_equal(data.geometry.points, mesh.points)
