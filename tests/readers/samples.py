"""The same small data sets in every format, each written by the format's own library."""

import csv
import shutil
from contextlib import chdir

import h5py
import meshio
import numpy as np
import pandas as pd
import scipy.io
import tifffile
import zarr

from bvsi.app.readers import Reading
from bvsi.data import Data, Grid, Mesh

PERIOD = 2 * np.pi
STAMP = (
    b'<FieldData><DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">'
    b"%s"
    b"</DataArray></FieldData>"
)


def line():
    """1D, periodic: 32 points, 21 times."""
    x, t = np.arange(32) * PERIOD / 32, np.linspace(0, 2, 21)
    u = np.sin(x[:, None] - t) + 0.1 * np.cos(3 * x[:, None]) * t
    return x, t, u


def plane():
    """2D: 12 × 10 points, 7 times, not uniform in y; axes in the order y, t, x."""
    x, y, t = np.linspace(-1, 2, 12), np.linspace(0, 1, 10) ** 2, 0.1 * np.arange(7.0) + 3.0
    u = np.sin(x)[None, None] * (1 + y)[:, None, None] + (t**2)[:, None] * x
    return x, y, t, u


def line_data():
    x, t, u = line()
    return Data.from_arrays({"u": u}, times=t, geometry=Grid(x=x, periodic={"x": PERIOD}), dims=("x", "t"))


def plane_data():
    x, y, t, u = plane()
    return Data.from_arrays({"u": u}, times=t, geometry=Grid(x=x, y=y), dims=("y", "time", "x"))


def triangles(n=5):
    """The square with n × n nodes, some moved."""
    points = np.stack(np.meshgrid(*[np.linspace(0, 1, n)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    inner = ((points > 0) & (points < 1)).all(axis=1)
    points = points + inner[:, None] * np.random.default_rng(3).uniform(-0.05, 0.05, points.shape) * 4 / (n - 1)
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    lower, upper = [corner, corner + n, corner + 1], [corner + n, corner + n + 1, corner + 1]
    return Mesh(points, np.concatenate([np.stack(lower, 1), np.stack(upper, 1)]), "triangle")


def mesh_data():
    mesh, t = triangles(), np.array([0.0, 0.5, 1.0, 2.0])
    u = np.sin(mesh.points[:, 0] + t[:, None]) * mesh.points[:, 1]
    return Data.from_arrays({"u": u, "v": -2 * u}, times=t, geometry=mesh)


def save73(path, arrays):
    """A MATLAB file of version 7.3 as MATLAB writes it: axes reversed, vectors (1, n), complex as pairs."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            stored = np.atleast_2d(values)
            if np.iscomplexobj(stored):
                pairs = np.empty(stored.shape, dtype=[("real", "f8"), ("imag", "f8")])
                pairs["real"], pairs["imag"] = stored.real, stored.imag
                stored = pairs
            file.create_dataset(name, data=stored.transpose()).attrs["MATLAB_class"] = np.bytes_("double")


def save_zarr(path, arrays, **options):
    group = zarr.create_group(path, **options)
    for name, values in arrays.items():
        group.create_array(name, data=np.asarray(values))


def save_table(path, columns):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*(np.ravel(c).tolist() for c in columns.values()), strict=True))


def save_sheet(path, columns):
    """A table of Excel or Parquet."""
    table = pd.DataFrame(columns)
    table.to_excel(path, index=False) if path.suffix == ".xlsx" else table.to_parquet(path, index=False)


def save_hdf5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def write_line(folder, kind):
    """Write the 1D set in a format; returns its path and how to read it."""
    x, t, u = line()
    arrays, reading = {"x": x, "t": t, "u": u}, Reading(dims=["x", "t"], periodic={"x": PERIOD})
    path = folder / f"line{kind}"
    if kind in (".nc", ".zarr", ".zarr.zip"):
        ds = line_data().to_xarray()
        if kind == ".nc":
            ds.to_netcdf(path, engine="h5netcdf")
        elif kind == ".zarr":
            ds.to_zarr(path, zarr_format=2)
        else:
            ds.to_zarr(folder / "zipped", zarr_format=3, consolidated=False)
            shutil.make_archive(str(path).removesuffix(".zip"), "zip", folder / "zipped")
        return path, None
    if kind == ".npz":
        np.savez(path, **arrays)
    elif kind == ".h5":
        save_hdf5(path, arrays)
    elif kind == ".mat":
        scipy.io.savemat(path, arrays | {"note": "text", "u": u.astype(complex)})
    elif kind == ".73.mat":
        save73(path, arrays | {"u": u.astype(complex)})
    elif kind == ".csv":
        X, T = np.meshgrid(x, t, indexing="ij")
        save_table(path, {"time": T, "x": X, "u": u})
        return path, Reading(periodic={"x": PERIOD})
    elif kind in (".xlsx", ".parquet"):
        X, T = np.meshgrid(x, t, indexing="ij")
        save_sheet(path, {"time": T.ravel(), "x": X.ravel(), "u": u.ravel()})
        return path, Reading(periodic={"x": PERIOD})
    elif kind == ".tif":
        tifffile.imwrite(path, u.T[:, None], photometric="minisblack")  # pages (1, x)
        return path, Reading(
            dims=["t", "y", "x"], spacing={"t": 0.1, "x": PERIOD / 32}, fields={"u": "image"}, periodic={"x": PERIOD}
        )
    else:
        return _line_mesh(path, x, t, u)
    return path, reading


def _line_mesh(path, x, t, u):
    points = np.stack([x, 0 * x, 0 * x], axis=1)
    cells = [("line", np.stack([np.arange(31), np.arange(1, 32)], axis=1))]
    return _series(path, points, cells, t, {"u": u.T}), Reading(periodic={"x": PERIOD})


def _series(path, points, cells, t, fields):
    """Files of meshio: a pattern, a collection, or an XDMF series."""
    if path.suffix == ".xdmf":
        # meshio puts the numbers into a file beside the current folder, not beside the path
        with chdir(path.parent), meshio.xdmf.TimeSeriesWriter(path.name) as writer:
            writer.write_points_cells(points, cells[-1:])
            for k, time in enumerate(t):
                writer.write_data(time, point_data={n: f[k] for n, f in fields.items()})
        return path
    for k, time in enumerate(t):
        file = path.parent / f"{path.stem}_{k}{path.suffix}"
        meshio.Mesh(points, cells, {n: f[k] for n, f in fields.items()}).write(file)
        if path.suffix == ".vtu":  # as ParaView writes it; meshio leaves it out
            file.write_bytes(file.read_bytes().replace(b"<Piece", STAMP % repr(float(time)).encode() + b"<Piece"))
    return path.parent / f"{path.stem}_*{path.suffix}"


TABLES = (".csv", ".xlsx", ".parquet")
LINE_KINDS = (".nc", ".zarr", ".zarr.zip", ".npz", ".h5", ".mat", ".73.mat", *TABLES, ".tif", ".xdmf")


def write_plane(folder, kind):
    """Write the 2D set in a format; returns its path and how to read it."""
    x, y, t, u = plane()
    arrays, reading = (
        {"lon": x, "lat": y, "t": t, "temp": u},
        Reading(dims=["lat", "t", "lon"], axes={"lon": "x", "lat": "y"}, fields={"u": "temp"}),
    )
    path = folder / f"plane{kind}"
    if kind in (".nc", ".zarr"):
        ds = plane_data().to_xarray().transpose("y", "time", "x").isel(y=slice(None, None, -1))
        ds.to_netcdf(path, engine="h5netcdf") if kind == ".nc" else ds.to_zarr(path, zarr_format=3, consolidated=False)
        return path, None
    if kind == ".npz":
        np.savez_compressed(path, **arrays)
    elif kind == ".h5":
        save_hdf5(path, arrays)
    elif kind == ".raw.zarr":
        save_zarr(path, arrays)
    elif kind == ".mat":
        scipy.io.savemat(path, arrays)
    elif kind == ".73.mat":
        save73(path, arrays)
    elif kind == ".csv":
        Y, T, X = np.meshgrid(y, t, x, indexing="ij")
        order = np.random.default_rng(0).permutation(u.size)
        save_table(path, {n: np.ravel(c)[order] for n, c in {"lon": X, "lat": Y, "t": T, "temp": u}.items()})
        return path, Reading(axes={"lon": "x", "lat": "y"}, fields={"u": "temp"})
    else:
        Y, X = np.meshgrid(y, x, indexing="ij")
        corner = (np.arange(9)[:, None] * 12 + np.arange(11)).ravel()
        cells = [("quad", np.stack([corner, corner + 1, corner + 13, corner + 12], axis=1))]
        points = np.stack([X.ravel(), Y.ravel(), 0 * X.ravel()], axis=1)
        return _series(path, points, cells, t, {"u": u.transpose(1, 0, 2).reshape(7, -1)}), None
    return path, reading


PLANE_KINDS = (".nc", ".zarr", ".raw.zarr", ".npz", ".h5", ".mat", ".73.mat", ".csv", ".vtu", ".vtk", ".xdmf")


def write_mesh(folder, kind):
    """Write the set on triangles in a format; returns its path and how to read it."""
    data = mesh_data()
    mesh, path = data.geometry, folder / f"mesh{kind}"
    points = np.concatenate([mesh.points, np.zeros((25, 1))], axis=1)
    cells = [("line", np.array([[0, 1], [1, 2]])), ("triangle", mesh.cells)]
    gmsh = folder / "only.msh"
    if kind == ".nc":
        data.to_xarray().to_netcdf(path, engine="h5netcdf")
        return path, None
    if kind in (".npz", ".csv"):
        meshio.gmsh.write(gmsh, meshio.Mesh(points, cells[-1:]), fmt_version="4.1", binary=False)
        if kind == ".npz":
            np.savez(path, u=data.fields["u"].T, v=data.fields["v"].T, t=data.times)
            return path, Reading(dims=["node", "t"], mesh=gmsh)
        T, place = np.meshgrid(data.times, np.arange(25), indexing="ij")
        positions = {name: mesh.points[place, i] for i, name in enumerate("xy")}
        save_table(path, {"time": T, **positions, **data.fields})
        return path, Reading(mesh=gmsh)
    if kind == ".msh":
        for k in range(data.n_times):
            frame = meshio.Mesh(points, cells, {n: f[k] for n, f in data.fields.items()})
            meshio.gmsh.write(folder / f"mesh_{k}.msh", frame, fmt_version="2.2", binary=True)
        return folder / "mesh_*.msh", Reading(spacing={"time": 0.5}, select={"time": (0, 0.6)})
    return _series(path, points, cells, data.times, data.fields), None


MESH_KINDS = (".nc", ".npz", ".csv", ".vtu", ".xdmf", ".msh")


def same(a, b, rtol=0.0):
    """The two data sets agree, up to rounding where rtol is given."""
    assert a.names == b.names
    np.testing.assert_allclose(a.times, b.times, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(a.geometry.points, b.geometry.points, rtol=rtol, atol=rtol)
    assert type(a.geometry) is type(b.geometry)
    for name in a.names:
        np.testing.assert_allclose(a.fields[name], b.fields[name], rtol=rtol, atol=rtol)
    if isinstance(a.geometry, Grid):
        assert dict(a.geometry.periods) == dict(b.geometry.periods)
    else:
        np.testing.assert_array_equal(a.geometry.cells, b.geometry.cells)
