"""Files that are whole, and hold what cannot be used."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import meshio
import numpy as np
import scipy.io
import tifffile
import xarray as xr

from cli.malformed import EQUATIONS, Case, study
from readers import samples

Fill = Callable[[Path, Path], None]


def content_cases() -> Iterator[Case]:
    """All of them."""
    for name, (arrays, more) in _arrays().items():
        yield Case(f"arrays: {name}", partial(_npz, arrays, more))
    for name, dataset in _datasets().items():
        yield Case(f"dataset: {name}", partial(_nc, dataset, ""))
    for name, more in _READINGS.items():
        yield Case(f"reading: {name}", study(f'[data]\nfile = "good.nc"\n{more}\n{EQUATIONS}', "good.nc"))
    for name, table in _TABLES.items():
        yield Case(f"table: {name}", partial(_bytes, "run.csv", table, 'file = "run.csv"'))
    for name, (file, text) in _TEXTS.items():
        yield Case(f"text: {name}", partial(_bytes, file, text.encode(), f'file = "{file}"'))
    for name, (fill, more) in _OTHERS.items():
        yield Case(name, partial(_with_study, fill, more))


def _with_study(write: Callable[[Path], object], more: str, folder: Path, _: Path) -> None:
    (folder / "study.toml").write_text(f"[data]\n{more}\n{EQUATIONS}", encoding="utf-8")
    write(folder)


def _bytes(name: str, content: bytes, more: str, folder: Path, whole: Path) -> None:
    _with_study(lambda place: (place / name).write_bytes(content), more, folder, whole)


def _npz(arrays: dict[str, Any], more: str, folder: Path, whole: Path) -> None:
    # allow_pickle: also what holds Python objects is written, and must not be read
    write: Callable[[Path], object] = lambda place: np.savez(place / "run.npz", allow_pickle=True, **arrays)  # noqa: E731
    _with_study(write, f'file = "run.npz"\ndims = ["x", "t"]\n{more}', folder, whole)


def _nc(dataset: xr.Dataset, more: str, folder: Path, whole: Path) -> None:
    engine: Any = "h5netcdf"
    _with_study(
        lambda place: dataset.to_netcdf(place / "run.nc", engine=engine), f'file = "run.nc"\n{more}', folder, whole
    )


def _arrays() -> dict[str, tuple[dict[str, Any], str]]:
    x, t, u = samples.line()
    good = {"x": x, "t": t, "u": u}

    def at(values: Any, index: Any, value: Any) -> Any:
        changed = np.array(values)
        changed[index] = value
        return changed

    changes: dict[str, tuple[dict[str, Any], str]] = {
        "NaN": ({"u": at(u, (3, 4), np.nan)}, ""),
        "infinity": ({"u": at(u, (3, 4), np.inf)}, ""),
        "infinity where NaN is allowed": ({"u": at(u, (3, 4), -np.inf)}, 'missing = "nan"'),
        "nothing was measured": ({"u": np.full_like(u, np.nan)}, 'missing = "nan"'),
        "huge values": ({"u": at(u, (3, 4), 1e300)}, ""),
        "complex": ({"u": u * (1 + 1j)}, ""),
        "texts": ({"u": u.astype(str)}, ""),
        "switches": ({"u": u > 0}, ""),
        "pickled objects": ({"u": u.astype(object)}, ""),
        "pickled times": ({"t": t.astype(object)}, ""),
        "one frame": ({"t": t[:1], "u": u[:, :1]}, ""),
        "no frame": ({"t": t[:0], "u": u[:, :0]}, ""),
        "one node": ({"x": x[:1], "u": u[:1]}, ""),
        "two nodes": ({"x": x[:2], "u": u[:2]}, ""),
        "times decrease": ({"t": t[::-1]}, ""),
        "times repeat": ({"t": at(t, 3, t[2])}, ""),
        "time is NaN": ({"t": at(t, 3, np.nan)}, ""),
        "places repeat": ({"x": at(x, 3, x[2])}, ""),
        "places are not sorted": ({"x": at(x, [3, 4], x[[4, 3]])}, ""),
        "place is NaN": ({"x": at(x, 0, np.nan)}, ""),
        "places are texts": ({"x": x.astype(str)}, ""),
        "times are complex": ({"t": t * 1j}, ""),
        "axes are swapped": ({"u": u.T}, ""),
        "coordinate of two axes": ({"x": np.stack([x, x])}, ""),
        "three axes": ({"u": u[None]}, ""),
        "nothing but zeros": ({"u": 0 * u}, ""),
        "known field with NaN": ({"k": at(x, 1, np.nan)}, 'auxiliary = ["k"]'),
    }
    return {name: (good | arrays, more) for name, (arrays, more) in changes.items()}


def _datasets() -> dict[str, xr.Dataset]:
    x, t, u = samples.line()

    def made(dims: tuple[str, ...], values: Any, **coordinates: Any) -> xr.Dataset:
        return xr.Dataset({"u": (dims, values)}, coords=coordinates)

    return {
        "no time": made(("x", "y"), u, x=x, y=t),
        "no coordinates": made(("x", "t"), u),
        "axes of other names": made(("breadth", "t"), u, breadth=x, t=t),
        "four axes of space": made(("t", "x", "y", "z", "w"), np.ones((3, 2, 2, 2, 2)), t=t[:3]),
        "time alone": made(("t",), t, t=t),
        "nothing": xr.Dataset(),
        "texts": made(("x", "t"), u.astype("S8"), x=x, t=t),
        "other fields": made(("x", "t"), u, x=x, t=t).rename(u="v"),
        "field called exp": made(("x", "t"), u, x=x, t=t).rename(u="exp"),
        "field with a hostile name": made(("x", "t"), u, x=x, t=t).rename(u="__import__('os').system('id')"),
        "field with a name of another script": made(("x", "t"), u, x=x, t=t).rename(u="плотность"),
    }


_READINGS = {
    "unknown field": 'fields = ["v"]',
    "field in quotes of its own": "fields = [\"'u'\"]",
    "field of another script": 'fields = {"ρ" = "u"}',
    "look-alike of a field": 'fields = ["ｕ"]',
    "field called x": 'fields = {x = "u"}',
    "field called __class__": 'fields = {__class__ = "u"}',
    "unknown time": 'time = "hour"',
    "unknown axis": 'axes = {breadth = "x"}',
    "dims of a file that has them": 'dims = ["x", "t"]',
    "unknown known field": 'auxiliary = ["k"]',
    "unknown coordinate": 'coordinates = {x = "xs"}',
    "coordinate of another length": 'coordinates = {x = "time"}',
    "unknown periodic axis": 'periodic = ["y"]',
    "period too short": "periodic = {x = 1.0}",
    "range without data": "select = {time = [10.0, 20.0]}",
    "range turned round": "select = {x = [2.0, 1.0]}",
    "range of one frame": "select = {time = [0.0, 0.05]}",
    "range of an unknown axis": "select = {q = [0.0, 1.0]}",
    "range of a periodic axis": "periodic = {x = 6.283185307179586}\nselect = {x = [0.0, 1.0]}",
    "memory for nothing": "max_memory = 1e-3",
    "absent mesh": 'mesh = "absent.msh"',
    "data as mesh": 'mesh = "good.nc"',
}

_TABLES = {
    "header only": b"time,x,u\n",
    "no header": b"0,0,1\n0,1,2\n1,0,3\n1,1,4\n",
    "ragged": b"time,x,u\n0,0,1\n0,1\n1,0,3\n1,1,4\n",
    "texts": b"time,x,u\n0,0,one\n0,1,two\n1,0,three\n1,1,four\n",
    "column twice": b"time,x,x,u\n0,0,0,1\n",
    "no positions": b"time,u\n0,1\n1,2\n",
    "no time": b"x,u\n0,1\n1,2\n",
    "row twice": b"time,x,u\n" + b"0,0,1\n0,1,2\n1,0,3\n1,1,4\n" * 2,
    "row missing": b"time,x,u\n0,0,1\n0,1,2\n1,0,3\n",
    "sensors that move": b"time,x,u\n" + b"".join(b"%d,%d,1\n" % (i, 10 * i) for i in range(20)),
    "one sensor": b"time,x,u\n0,0,1\n1,0,2\n2,0,3\n",
    "dates and numbers": b"time,x,u\n2024-01-01,0,1\n3,1,2\n",
    "UTF-16": "time,x,u\n0,0,1\n".encode("utf-16"),
    "escapes of a terminal": b"time,x,\x1b[31mu\n0,0,1\n0,1,\x1b[2J\n",
    "NaN": b"time,x,u\n0,0,1\n0,1,nan\n1,0,3\n1,1,4\n",
    "position NaN": b"time,x,u\n0,nan,1\n0,1,2\n1,nan,3\n1,1,4\n",
    "thousands of columns": b"time," + b",".join(b"column%d" % i for i in range(1500)) + b"\n",
    "escapes of a terminal in a cell": b"time,x,u\n0,0,1\n0,1,\x1b[2J\n1,0,3\n1,1,4\n",
    "very long line": b"time,x,u\n" + b"1" * 200_000 + b"\n",
    "quote that does not end": b'time,x,"u\n0,0,1\n0,1,2\n',
}

_LAUGHS = (
    '<?xml version="1.0"?>\n<!DOCTYPE z [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghijkl", "bcdefghijklm", strict=True))
    + "]>\n"
)
_ENTITY = '<?xml version="1.0"?>\n<!DOCTYPE z [<!ENTITY m SYSTEM "file:///etc/passwd">]>\n'
_PVD = '<VTKFile type="Collection"><Collection>{}</Collection></VTKFile>'
_TEXTS = {
    "entities that grow": ("run.pvd", _LAUGHS + _PVD.format('<DataSet timestep="0" file="&m;"/>')),
    "entities that grow in XDMF": ("run.xdmf", _LAUGHS + '<Xdmf Version="3.0"><Domain>&m;</Domain></Xdmf>'),
    "entities that grow in VTU": ("run.vtu", _LAUGHS + '<VTKFile type="UnstructuredGrid">&m;</VTKFile>'),
    "file of the system": ("run.pvd", _ENTITY + _PVD.format('<DataSet timestep="0" file="&m;"/>')),
    "file of the system by path": ("run.pvd", _PVD.format('<DataSet timestep="0" file="/etc/passwd"/>')),
    "device": ("run.pvd", _PVD.format('<DataSet timestep="0" file="/dev/zero"/>')),
    "collection of itself": ("run.pvd", _PVD.format('<DataSet timestep="0" file="run.pvd"/>')),
    "collection of an absent file": ("run.pvd", _PVD.format('<DataSet timestep="0" file="absent.vtu"/>')),
    "XDMF without grid": ("run.xdmf", '<Xdmf Version="3.0"><Domain/></Xdmf>'),
    "mesh without cells": ("run.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n1\n1 0 0 0\n$EndNodes\n"),
    "mesh with a huge count": ("run.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n999999999999\n1 0 0 0\n"),
    "VTK with a huge count": ("run.vtk", _VTK := "# vtk DataFile Version 4.2\nx\nASCII\nDATASET UNSTRUCTURED_GRID\n"
                              "POINTS 999999999999 double\n0 0 0\n"),
}  # fmt: skip


def _claims(folder: Path) -> None:
    """An archive whose header promises a million times what is there."""
    x, t, u = samples.line()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (32, 21 * 10**9)})
    with zipfile.ZipFile(folder / "run.npz", "w") as archive:
        for name, values in {"x": x, "t": t}.items():
            with archive.open(f"{name}.npy", "w") as stream:
                np.lib.format.write_array(stream, values)
        archive.writestr("u.npy", header.getvalue() + u.tobytes())


def _evil_header(folder: Path) -> None:
    """A header that would run a program if it were evaluated."""
    text = b"__import__('os').system('touch hacked')\n"
    with zipfile.ZipFile(folder / "run.npz", "w") as archive:
        archive.writestr("u.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)


def _series(change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> Callable[[Path], None]:
    """Frames on triangles, each changed in its own way."""

    def write(folder: Path) -> None:
        mesh = samples.triangles()
        points = np.concatenate([mesh.points, np.zeros((25, 1))], axis=1)
        for k in range(3):
            frame = {"points": points, "cells": [("triangle", mesh.cells)], "point_data": {"u": points[:, 0] + k}}
            meshio.vtu.write(folder / f"run_{k}.vtu", meshio.Mesh(**change(k, frame)))

    return write


def _linked(folder: Path) -> None:
    """Links to nowhere, to other files, and in circles."""
    with h5py.File(folder / "run.h5", "w") as file:
        file["a"] = h5py.SoftLink("/b")
        file["b"] = h5py.SoftLink("/a")
        file["u"] = h5py.ExternalLink("/etc/passwd", "/u")
        file.create_group("g")["again"] = file["/"]


def _endless_zarr(folder: Path) -> None:
    """Metadata of an array that no machine can hold, without a single value."""
    root = folder / "run.zarr"
    samples.save_zarr(root, {"u": np.ones((4, 4))}, zarr_format=2)
    meta = root / "u" / ".zarray"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"shape": [10**9, 10**9]}))
    for chunk in (root / "u").glob("[0-9]*"):
        chunk.unlink()


def _earlier(folder: Path) -> None:
    """Results of an earlier run, which stay as they are."""
    x, t, u = samples.line()
    np.savez(folder / "run.npz", x=x, t=t, u=u * np.nan)
    (folder / "result").mkdir()
    (folder / "result" / "report.html").write_text("earlier")


def _experiments(folder: Path) -> None:
    samples.line_data().to_xarray().to_netcdf(folder / "a.nc", engine="h5netcdf")
    samples.plane_data().to_xarray().to_netcdf(folder / "b.nc", engine="h5netcdf")


_VTUS = 'file = "run_*.vtu"\nspacing = {time = 1.0}'
_TIFF = 'file = "run.tif"\ndims = ["t", "y", "x"]\nspacing = {t = 1.0, x = 1.0, y = 1.0}\nfields = {u = "image"}'
_OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "archive that claims too much": (_claims, 'file = "run.npz"\ndims = ["x", "t"]'),
    "archive with a program as header": (_evil_header, 'file = "run.npz"\ndims = ["x", "t"]'),
    "links in circles": (_linked, 'file = "run.h5"\ndims = ["x", "t"]\nfields = ["u"]'),
    "array without end": (_endless_zarr, 'file = "run.zarr"\ndims = ["x", "t"]\nspacing = {x = 1.0, t = 1.0}'),
    "earlier results": (_earlier, 'file = "run.npz"\ndims = ["x", "t"]'),
    "experiments of different dimension": (_experiments, 'files = ["a.nc", "b.nc"]'),
    "mesh that moves": (_series(lambda k, f: f | {"points": f["points"] + 0.1 * k}), _VTUS),
    "frame without the field": (_series(lambda k, f: f | ({"point_data": {}} if k == 1 else {})), _VTUS),
    "frame with NaN": (
        _series(lambda k, f: f | {"point_data": {"u": f["point_data"]["u"] * (np.nan if k == 1 else 1.0)}}), _VTUS
    ),
    "mesh of several types": (
        _series(lambda _, f: f | {"cells": [*f["cells"], ("quad", np.array([[0, 1, 6, 5]]))]}), _VTUS
    ),
    "cells of points that are not there": (_series(lambda _, f: f | {"cells": [("triangle", [[0, 1, 99]])]}), _VTUS),
    "mesh that is flat": (_series(lambda _, f: f | {"points": f["points"] * [1.0, 0.0, 0.0]}), _VTUS),
    "image of one page": (lambda folder: tifffile.imwrite(folder / "run.tif", np.ones((8, 9))), _TIFF),
    "MATLAB texts only": (
        lambda folder: scipy.io.savemat(folder / "run.mat", {"u": "text", "s": {"a": "text"}}),
        'file = "run.mat"\ndims = ["x", "t"]',
    ),
}  # fmt: skip
