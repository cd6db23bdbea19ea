"""Files that are whole or absent: composed in memory, written aside, brought to the disk, then renamed.

Libraries that write a file themselves fail in ways of their own where the disk is full; HDF5 even crashes the
interpreter. So they only compose here, and one function writes.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


def write_whole(path: Path, content: bytes | str, *, mode: int = 0o644) -> None:
    """Write a file; whatever happens, afterwards it is the old one (or none) or the new one.

    A link at ``path`` is replaced, never followed. Text is written as UTF-8. mode: its permissions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
    aside = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        aside.chmod(mode)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, so that a rename outlives a power cut; a no-op where that is unknown."""
    with suppress(OSError):  # Windows opens no folders, and some file systems do not sync them
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _Buffer(io.BytesIO):
    """Bytes that outlive the file that a library writes to them."""

    def close(self) -> None:
        pass


def netcdf_bytes(dataset: xr.Dataset, groups: Mapping[str, xr.Dataset] | None = None) -> bytes:
    """A dataset as the bytes of a NetCDF file; groups: further datasets by the name of their group."""
    buffer = _Buffer()
    dataset.to_netcdf(buffer, engine="h5netcdf")
    for name, group in (groups or {}).items():
        group.to_netcdf(buffer, mode="a", group=name, engine="h5netcdf")
    return buffer.getvalue()


def png_bytes(figure: Any, **options: Any) -> bytes:
    """A figure of matplotlib as the bytes of a PNG file; options: of ``savefig``."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", **options)
    return buffer.getvalue()
