"""The same small data set in every input format, written by the format's own library, gives the same coefficients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pytest
import scipy.io
import tifffile
from numpy.testing import assert_allclose

from bvsi.app.readers import write_vtu
from bvsi.app.study import load_study, read_inputs
from bvsi.app.study.run import discovered
from bvsi.data import Data
from bvsi.discovery import Discovery, discover
from bvsi.operators import Library
from discovery.exact_cases import burgers, noisy
from readers import samples

LIBRARY = {"u": ["laplacian(u)", "u*dx(u)", "u", "dx(u)"]}
HEAT = {"u": ["laplacian(u)", "u", "1"]}
STEP = 2 * np.pi / 48
PERIOD = f"periodic = {{x = {2 * np.pi!r}}}"
Writer = Callable[[Path, Data], str]
"""Writes data into a folder; returns the keys of [data] with which a study reads them."""


def line() -> Data:
    """Noisy Burgers on a periodic line, 48 nodes and 41 times."""
    return noisy(burgers(), 0.01)


def plate() -> Data:
    """Two modes of the heat equation with κ = 0.1/π² on triangles, with noise, at 9 times."""
    mesh = samples.triangles(13)
    t, (x, y) = np.linspace(0, 0.8, 9)[:, None], mesh.points.T
    u = np.exp(-0.2 * t) * np.cos(np.pi * x) * np.cos(np.pi * y) + 0.5 * np.exp(-0.1 * t) * np.cos(np.pi * x)
    return Data(t[:, 0], {"u": u + 1e-3 * np.random.default_rng(2).standard_normal(u.shape)}, mesh)


def run(folder: Path, keys: str, library: dict[str, list[str]]) -> Discovery:
    """Through a study file, as ``bvsi run`` does."""
    equations = f"[library.equations]\nu = {library['u']!r}\n"
    path = folder / "study.toml"
    path.write_text(f"[data]\n{keys}\n{equations}[check]\nenabled = false\n", encoding="utf-8")
    return discovered(read_inputs(load_study(path)))


def assert_same(found: Discovery, expected: Discovery) -> None:
    assert found.names == expected.names
    assert_allclose(found.theta, expected.theta, rtol=1e-10)
    assert_allclose(found.sd, expected.sd, rtol=1e-8)


def arrays(data: Data) -> dict[str, Any]:
    """Axes in an order of their own: x, t."""
    return {"x": data.geometry.points[:, 0], "t": data.times, "u": data.fields["u"].T}


def netcdf(folder: Path, data: Data) -> str:
    data.to_xarray().to_netcdf(folder / "a.nc", engine="h5netcdf")
    return 'file = "a.nc"'


def classic(folder: Path, data: Data) -> str:
    data.to_xarray().transpose("x", "time").to_netcdf(folder / "a.nc", engine="scipy")
    return 'file = "a.nc"'


def zarr2(folder: Path, data: Data) -> str:
    data.to_xarray().to_zarr(folder / "a.zarr", zarr_format=2)
    return 'file = "a.zarr"'


def zarr3(folder: Path, data: Data) -> str:
    samples.save_zarr(folder / "a.zarr", arrays(data), zarr_format=3)
    return f'file = "a.zarr"\ndims = ["x", "t"]\n{PERIOD}'


def hdf5(folder: Path, data: Data) -> str:
    samples.save_hdf5(folder / "a.h5", arrays(data))
    return f'file = "a.h5"\ndims = ["x", "t"]\n{PERIOD}'


def npz(folder: Path, data: Data) -> str:
    np.savez(folder / "a.npz", **arrays(data))
    return f'file = "a.npz"\ndims = ["x", "t"]\n{PERIOD}'


def matlab5(folder: Path, data: Data) -> str:
    scipy.io.savemat(folder / "a.mat", arrays(data))
    return f'file = "a.mat"\ndims = ["x", "t"]\n{PERIOD}'


def matlab73(folder: Path, data: Data) -> str:
    samples.save73(folder / "a.mat", arrays(data))
    return f'file = "a.mat"\ndims = ["x", "t"]\n{PERIOD}'


def table(folder: Path, data: Data) -> str:
    """Rows in random order."""
    time, x = np.meshgrid(data.times, data.geometry.points[:, 0], indexing="ij")
    order = np.random.default_rng(0).permutation(x.size)
    columns = {"time": time, "x": x, "u": data.fields["u"]}
    samples.save_table(folder / "a.csv", {name: column.ravel()[order] for name, column in columns.items()})
    return f'file = "a.csv"\n{PERIOD}'


def images(folder: Path, data: Data) -> str:
    """Pages of one row, in double precision."""
    tifffile.imwrite(folder / "a.tif", data.fields["u"][:, None], photometric="minisblack")
    return image_keys("a.tif")


def image_keys(name: str) -> str:
    return (
        f'file = "{name}"\ndims = ["t", "y", "x"]\nspacing = {{t = 0.05, x = {STEP!r}}}\n'
        f'fields = {{u = "image"}}\n{PERIOD}'
    )


def cells(data: Data) -> tuple[Any, list[tuple[str, Any]]]:
    """Points in three dimensions, and cells."""
    points = np.zeros((data.n_nodes, 3))
    points[:, : data.geometry.points.shape[1]] = data.geometry.points
    if hasattr(data.geometry, "cells"):
        return points, [("triangle", data.geometry.cells)]
    nodes = np.arange(data.n_nodes)
    return points, [("line", np.stack([nodes[:-1], nodes[1:]], axis=1))]


def frames(folder: Path, data: Data, suffix: str, **options: Any) -> None:
    """One file per time, through meshio."""
    points, blocks = cells(data)
    for k, values in enumerate(data.fields["u"]):
        meshio.Mesh(points, blocks, {"u": values}).write(folder / f"a_{k}{suffix}", **options)


def vtu(folder: Path, data: Data) -> str:
    frames(folder, data, ".vtu")
    return f'file = "a_*.vtu"\nspacing = {{time = {float(data.times[1])!r}}}\n{periodic(data)}'


def vtk(folder: Path, data: Data) -> str:
    frames(folder, data, ".vtk")
    return f'file = "a_*.vtk"\nspacing = {{time = {float(data.times[1])!r}}}\n{periodic(data)}'


def collection(folder: Path, data: Data) -> str:
    write_vtu(data, folder, "a")
    return f'file = "a.pvd"\n{periodic(data)}'


def xdmf(folder: Path, data: Data) -> str:
    points, blocks = cells(data)
    # meshio puts the numbers into a file beside the current folder, not beside the path
    with chdir(folder), meshio.xdmf.TimeSeriesWriter("a.xdmf") as writer:
        writer.write_points_cells(points, blocks)
        for time, values in zip(data.times, data.fields["u"], strict=True):
            writer.write_data(time, point_data={"u": values})
    return f'file = "a.xdmf"\n{periodic(data)}'


def gmsh(folder: Path, data: Data) -> str:
    frames(folder, data, ".msh", file_format="gmsh", binary=True)
    return f'file = "a_*.msh"\nspacing = {{time = {float(data.times[1])!r}}}'


def periodic(data: Data) -> str:
    return "" if hasattr(data.geometry, "cells") else PERIOD


def with_mesh(folder: Path, data: Data) -> str:
    """Nodal values in an archive, the mesh from Gmsh beside it."""
    points, blocks = cells(data)
    meshio.gmsh.write(folder / "mesh.msh", meshio.Mesh(points, blocks), fmt_version="4.1", binary=False)
    np.savez(folder / "a.npz", u=data.fields["u"], t=data.times)
    return 'file = "a.npz"\ndims = ["t", "node"]\nmesh = "mesh.msh"'


def sensors(folder: Path, data: Data) -> str:
    """A table of the nodes, with the mesh."""
    keys = with_mesh(folder, data).splitlines()
    time, node = np.meshgrid(data.times, np.arange(data.n_nodes), indexing="ij")
    x, y = data.geometry.points[node].transpose(2, 0, 1)
    samples.save_table(folder / "a.csv", {"time": time, "x": x, "y": y, "u": data.fields["u"]})
    return f'file = "a.csv"\n{keys[-1]}'


ON_LINE = (netcdf, classic, zarr2, zarr3, hdf5, npz, matlab5, matlab73, table, images, vtu, vtk, collection, xdmf)
ON_MESH = (with_mesh, netcdf, sensors, vtu, vtk, collection, xdmf, gmsh)


@pytest.fixture(scope="module")
def on_line() -> Discovery:
    """From memory, without a file."""
    return discover(line(), Library(LIBRARY), check=False)


@pytest.fixture(scope="module")
def on_mesh() -> Discovery:
    """From memory, without a file."""
    return discover(plate(), Library(HEAT), check=False)


@pytest.mark.parametrize("write", ON_LINE, ids=lambda write: write.__name__)
def test_line(tmp_path: Path, on_line: Discovery, write: Writer) -> None:
    assert set(on_line.names) == {"laplacian(u)", "u*dx(u)"}
    assert_same(run(tmp_path, write(tmp_path, line()), LIBRARY), on_line)


@pytest.mark.parametrize("write", ON_MESH, ids=lambda write: write.__name__)
def test_mesh(tmp_path: Path, on_mesh: Discovery, write: Writer) -> None:
    assert_same(run(tmp_path, write(tmp_path, plate()), HEAT), on_mesh)


def test_images_in_single_precision(tmp_path: Path) -> None:
    """The numbers of the images are rounded; that is the only difference."""
    rounded = line().fields["u"].astype(np.float32)
    tifffile.imwrite(tmp_path / "a.tif", rounded[:, None], photometric="minisblack")
    expected = discover(line().with_fields({"u": rounded.astype(float)}), Library(LIBRARY), check=False)
    assert_same(run(tmp_path, image_keys("a.tif"), LIBRARY), expected)
