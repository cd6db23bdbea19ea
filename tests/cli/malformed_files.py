"""Whole files of every format, and files that are damaged."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bvsi.app.readers import write_vtu
from cli.malformed import EQUATIONS, Case, study, taken
from readers import samples

# Each format: how the table [data] reads it, the files of the set, and the one that is damaged.
_ARRAYS = 'dims = ["x", "t"]\nperiodic = {x = 6.283185307179586}\n'
_IMAGES = 'dims = ["t", "y", "x"]\nspacing = {t = 0.1, x = 0.2}\nfields = {u = "image"}\n'
FORMATS: dict[str, tuple[str, str, str]] = {
    "nc": ('file = "line.nc"\n', "line.nc", "line.nc"),
    "classic": ('file = "classic.nc"\n', "classic.nc", "classic.nc"),
    "zarr": ('file = "line.zarr"\n', "line.zarr", "line.zarr/u/.zarray"),
    "zarr3": ('file = "plane.zarr"\n', "plane.zarr", "plane.zarr/u/zarr.json"),
    "zip": ('file = "line.zarr.zip"\n', "line.zarr.zip", "line.zarr.zip"),
    "h5": (f'file = "line.h5"\n{_ARRAYS}', "line.h5", "line.h5"),
    "npz": (f'file = "line.npz"\n{_ARRAYS}', "line.npz", "line.npz"),
    "mat": (f'file = "line.mat"\n{_ARRAYS}', "line.mat", "line.mat"),
    "mat73": (f'file = "line.73.mat"\n{_ARRAYS}', "line.73.mat", "line.73.mat"),
    "csv": ('file = "line.csv"\n', "line.csv", "line.csv"),
    "tif": (f'file = "line.tif"\n{_IMAGES}', "line.tif", "line.tif"),
    "vtu": ('file = "plane_*.vtu"\n', "plane_*.vtu", "plane_3.vtu"),
    "vtk": ('file = "plane_*.vtk"\nspacing = {time = 0.1}\n', "plane_*.vtk", "plane_0.vtk"),
    "xdmf": ('file = "plane.xdmf"\n', "plane.[xh]*", "plane.xdmf"),
    "xdmf h5": ('file = "plane.xdmf"\n', "plane.[xh]*", "plane.h5"),
    "msh": ('file = "mesh_*.msh"\nspacing = {time = 0.5}\n', "mesh_*.msh", "mesh_1.msh"),
    "mesh": ('file = "mesh.npz"\ndims = ["node", "t"]\nmesh = "only.msh"\n', "[mo]*.[nm]*", "only.msh"),
    "pvd": ('file = "made.pvd"\n', "made*", "made.pvd"),
    "pvd vtu": ('file = "made.pvd"\n', "made*", "made_0002.vtu"),
}


def whole_files(folder: Path) -> None:
    """All formats, each written by its own library, and good.nc."""
    for kind in samples.LINE_KINDS:
        samples.write_line(folder, kind)
    data = samples.line_data()
    for name, engine in (("good.nc", "h5netcdf"), ("classic.nc", "scipy")):
        data.to_xarray().to_netcdf(folder / name, engine=engine)
    for kind in (".zarr", ".vtu", ".vtk", ".xdmf"):
        samples.write_plane(folder, kind)
    samples.write_mesh(folder, ".msh")
    samples.write_mesh(folder, ".npz")
    write_vtu(samples.plane_data(), folder, "made")


def file_cases() -> Iterator[Case]:
    """Every format with every damage; the table of refusals has those of which the words differ."""
    for kind, (reading, names, victim) in FORMATS.items():
        for what, damage in _DAMAGES.items():
            yield Case(f"{kind}: {what}", partial(_damaged, damage, reading, names, victim))
    yield Case("nc: absent", study(f"[data]\n{FORMATS['nc'][0]}{EQUATIONS}"))
    for kind in ("nc", "npz", "csv", "tif", "pvd", "mat", "h5"):
        reading, names, victim = FORMATS[kind]
        for command in ("inspect", "init"):
            fill = partial(_damaged, _DAMAGES["cut at 30%"], reading, names, victim)
            yield Case(f"{kind}: {command}", fill, (command, victim))


def _damaged(
    damage: Callable[[bytes], bytes], reading: str, names: str, victim: str, folder: Path, whole: Path
) -> None:
    (folder / "study.toml").write_text(f"[data]\n{reading}{EQUATIONS}", encoding="utf-8")
    taken(whole, folder, names)
    path = folder / victim
    path.write_bytes(damage(path.read_bytes()))


def _noise(content: bytes, first: float, last: float) -> bytes:
    """The content with random bytes in a part of it."""
    begin, end = int(first * len(content)), int(last * len(content))
    noise = np.random.default_rng(zlib.crc32(content)).integers(0, 256, end - begin, dtype=np.uint8).tobytes()
    return content[:begin] + noise + content[end:]


_PAGE = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body>Not Found</body></html>\n"
_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"

_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut at 30%": lambda content: content[: len(content) * 3 // 10],
    "cut at 90%": lambda content: content[: len(content) * 9 // 10],
    "noise at the head": lambda content: _noise(content, 0.0, 0.1),
    "noise in the middle": lambda content: _noise(content, 0.3, 0.7),
    "zeros": lambda content: bytes(len(content)),
    "web page": lambda _: _PAGE,
    "pointer of git": lambda _: _POINTER,
}
