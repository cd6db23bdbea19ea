"""Small valid inputs of every kind, made once: data files of all formats, a study, and its result."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.studies.fuzz.client import homes

PERIOD = 2 * np.pi
_NAMED = "[data]\nfile = {file!r}\n"
_ARRAYS = '[data]\nfile = {file!r}\ndims = ["t", "x"]\nperiodic = {{x = 6.283185307179586}}\n'
_IMAGES = (
    '[data]\nfile = {file!r}\ndims = ["t", "y", "x"]\nspacing = {{t = 0.04, x = 0.2, y = 0.2}}\n'
    'fields = {{u = "image"}}\n'
)
_FRAMES = "[data]\nfile = {file!r}\nspacing = {{time = 0.5}}\n"
_EQUATIONS = '[library.equations]\nu = ["u", "dx(u)", "laplacian(u)"]\n[forecast]\nenabled = false\n'

STUDY = """\
title = "base"
[data]
file = "run.nc"
time = "t"
periodic = {x = 6.283185307179586}
[library.equations]
u = ["u", "u**2", "dx(u)", "u*dx(u)", "laplacian(u)"]
[posterior]
constraints = ["laplacian(u) > 0"]
[forecast]
draws = 4
[[quantity]]
name = "D"
expression = "[laplacian(u)]"
[[quantity]]
name = "profile"
expression = "[laplacian(u)]*x + [dx(u)]*x**2"
axes = {x = [0, 1, 5]}
[output]
folder = "result"
seed = 0
"""


@dataclass(frozen=True)
class Base:
    """A valid input.

    Attributes
    ----------
    name
        Name of the kind.
    file
        What the command line names, perhaps a pattern.
    files
        Patterns of all that belongs to it.
    table
        The table [data] that reads it.
    structure
        How it is changed beyond its bytes.
    """

    name: str
    file: str
    files: tuple[str, ...]
    table: str = _NAMED
    structure: str = "bytes"

    def study(self) -> str:
        """A study that reads it."""
        return self.table.format(file=self.file).replace("'", '"') + _EQUATIONS


BASES = (
    Base("netcdf4", "run.nc", ("run.nc",), structure="hdf5"),
    Base("netcdf3", "classic.nc", ("classic.nc",), structure="netcdf3"),
    Base("zarr2", "two.zarr", ("two.zarr",), structure="zarr"),
    Base("zarr3", "three.zarr", ("three.zarr",), structure="zarr"),
    Base("zarr2 zip", "two.zarr.zip", ("two.zarr.zip",), structure="zip"),
    Base("zarr3 zip", "three.zarr.zip", ("three.zarr.zip",), structure="zip"),
    Base("hdf5", "run.h5", ("run.h5",), _ARRAYS, "hdf5"),
    Base("npz", "run.npz", ("run.npz",), _ARRAYS, "zip"),
    Base("mat5", "run.mat", ("run.mat",), _ARRAYS, "matlab"),
    Base("mat73", "new.mat", ("new.mat",), _ARRAYS, "hdf5"),
    Base("csv", "run.csv", ("run.csv",), _NAMED, "lines"),
    Base("vtu", "run_*.vtu", ("run_*.vtu",), _FRAMES, "xml"),
    Base("pvd", "all.pvd", ("all.pvd", "run_*.vtu"), structure="xml"),
    Base("vtk", "run_*.vtk", ("run_*.vtk",), _FRAMES, "lines"),
    Base("xdmf hdf", "heavy.xdmf", ("heavy.xdmf", "heavy.h5"), structure="xml"),
    Base("xdmf xml", "light.xdmf", ("light.xdmf",), structure="xml"),
    Base("gmsh", "run_*.msh", ("run_*.msh",), _FRAMES, "lines"),
    Base("tiff", "run.tif", ("run.tif",), _IMAGES, "tiff"),
)
"""All formats that are read."""


def heat(nodes: int, times: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Times, places and noisy values of u_t = -0.5 u_x + 0.3 u_xx on a circle."""
    x, t = np.arange(nodes) * PERIOD / nodes, np.linspace(0, 1, times)
    waves = ((1, 1, 0), (0.6, 2, 1), (0.4, 3, 2), (0.2, 4, 0.5))
    u = sum(a * np.exp(-0.3 * k * k * t[:, None]) * np.sin(k * (x - 0.5 * t[:, None]) + p) for a, k, p in waves)
    return t, x, u + 0.005 * np.random.default_rng(0).standard_normal((times, nodes))


def make_bases(folder: Path, *, result: bool = True) -> None:
    """Write all of them; nothing is done where they are there already.

    Parameters
    ----------
    result
        Whether the study is run, too.
    """
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for write in (_arrays, _stores, _table, _meshes, _images):
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries remark on their own formats
            write(folder)
    _home(folder / "home")
    _study(folder / "study")
    if result:
        _run(folder / "study", folder / "home")
    (folder / "complete").write_text("whole\n", encoding="utf-8")


def _dataset(nodes: int = 24, times: int = 21) -> Any:
    import xarray as xr

    t, x, u = heat(nodes, times)
    return xr.Dataset({"u": (("t", "x"), u)}, coords={"t": t, "x": x}, attrs={"title": "base"})


def _arrays(folder: Path) -> None:
    import h5py  # type: ignore[import-untyped]
    import scipy.io

    dataset = _dataset()
    dataset.to_netcdf(folder / "run.nc", engine="h5netcdf")
    dataset.to_netcdf(folder / "classic.nc", engine="scipy")
    arrays = {name: dataset[name].values for name in ("t", "x", "u")}
    np.savez(folder / "run.npz", **arrays)
    axes = np.array([arrays["x"], arrays["t"], None], dtype=object)[None, :2]  # a cell
    inside = {"v": arrays["x"], "deeper": {"label": "text", "count": np.int16(3)}}
    scipy.io.savemat(folder / "run.mat", {**arrays, "note": "text", "axes": axes, "run": inside})
    content = (folder / "run.mat").read_bytes()
    (folder / "run.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + content[116:])  # without the date
    with h5py.File(folder / "run.h5", "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, chunks=values.shape, compression="gzip")
    with h5py.File(folder / "new.mat", "w", userblock_size=512) as file:
        for name, values in arrays.items():
            stored = file.create_dataset(name, data=np.atleast_2d(values).transpose())
            stored.attrs["MATLAB_class"] = np.bytes_("double")
        cell = file.create_dataset("axes", (2, 1), dtype=h5py.ref_dtype)
        cell.attrs["MATLAB_class"] = np.bytes_("cell")
        cell[0, 0], cell[1, 0] = file["x"].ref, file["t"].ref


def _stores(folder: Path) -> None:
    for name, version in (("two", 2), ("three", 3)):
        _dataset().to_zarr(folder / f"{name}.zarr", zarr_format=version, consolidated=False)
        root = folder / f"{name}.zarr"
        zipped(
            folder / f"{name}.zarr.zip",
            {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()},
        )


def zipped(path: Path, entries: dict[str, bytes]) -> None:
    """A zip file without times."""
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def _table(folder: Path) -> None:
    t, x, u = heat(16, 11)
    with (folder / "run.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["time", "x", "u"])
        writer.writerows([float(t[j]), float(x[i]), float(u[j, i])] for j in range(t.size) for i in range(x.size))


def _meshes(folder: Path) -> None:
    """Frames on a square of 5 × 5 nodes with triangles."""
    import meshio  # type: ignore[import-untyped]

    points = np.stack(np.meshgrid(*[np.linspace(0, 1, 5)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    inner = np.all((points > 0) & (points < 1), axis=1, keepdims=True)
    points = points + inner * np.random.default_rng(3).uniform(-0.05, 0.05, points.shape)
    corner = (np.arange(4)[:, None] * 5 + np.arange(4)).ravel()
    cells = np.concatenate(
        [np.stack([corner, corner + 5, corner + 1], 1), np.stack([corner + 5, corner + 6, corner + 1], 1)]
    )
    places, times = np.concatenate([points, np.zeros((25, 1))], axis=1), (0.0, 0.5, 1.0, 1.5)
    frames = [np.sin(points[:, 0] + time) * points[:, 1] for time in times]
    for k, values in enumerate(frames):
        mesh = meshio.Mesh(places, [("triangle", cells)], {"u": values})
        meshio.vtu.write(folder / f"run_{k}.vtu", mesh)
        meshio.vtk.write(folder / f"run_{k}.vtk", mesh, binary=k % 2 == 1)
        meshio.gmsh.write(folder / f"run_{k}.msh", mesh, fmt_version="2.2", binary=True)
    entries = "".join(f'<DataSet timestep="{time}" part="0" file="run_{k}.vtu"/>' for k, time in enumerate(times))
    head = '<?xml version="1.0"?><VTKFile type="Collection" version="0.1"><Collection>'
    (folder / "all.pvd").write_text(f"{head}{entries}</Collection></VTKFile>", encoding="utf-8")
    for name, kind in (("heavy", "HDF"), ("light", "XML")):
        with chdir(folder), meshio.xdmf.TimeSeriesWriter(f"{name}.xdmf", data_format=kind) as writer:
            writer.write_points_cells(places, [("triangle", cells)])
            for time, values in zip(times, frames, strict=True):
                writer.write_data(time, point_data={"u": values})


def _images(folder: Path) -> None:
    import tifffile

    values = np.random.default_rng(1).standard_normal((12, 9, 10)) * 0.01 + np.linspace(0, 1, 10)
    tifffile.imwrite(folder / "run.tif", values.astype(np.float32), photometric="minisblack")


def _home(folder: Path) -> None:
    """The home of a user, with a key for what was written on this machine that is no secret."""
    (folder / "bvsi").mkdir(parents=True)
    (folder / "bvsi/key").write_bytes(b"k" * 32)


def _study(folder: Path) -> None:
    folder.mkdir()
    _dataset(64, 41).to_netcdf(folder / "run.nc", engine="h5netcdf")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")


def _run(folder: Path, home: Path) -> None:
    """The result of the study, by a run whose clock stands still: the same bytes every time."""
    program = "import time; time.perf_counter = lambda: 0.0; from bvsi.app.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", program, "run", "study.toml", "--quiet"]
    environment = {
        **os.environ,
        **homes(home),
        "OMP_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(home.parents[1] / "cache"),
    }
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if ended.returncode:
        raise BvsiError(f"the study of the fuzzer does not run: {ended.stderr}")
