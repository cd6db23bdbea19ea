"""An open file of any format: named arrays whose values are read when asked for."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Mesh
from bvsi.errors import BvsiError, DataError, MissingDependencyError

Key = tuple[slice, ...]
Load = Callable[[Key], NDArray[Any]]


@dataclass(frozen=True)
class Array:
    """An array in a file.

    Attributes
    ----------
    name
        Its name in the file.
    dims
        Names of its axes; None where the file does not name them.
    shape
        Its shape.
    dtype
        Type of its values.
    load
        Values of a part, one slice (with a step, or without) per axis.
    attributes
        What the file says about it.
    chunks
        Shape of the blocks in which it is stored, where known.
    whole
        Whether it is unpacked as a whole, whatever part is asked for.
    """

    name: str
    dims: tuple[str, ...] | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Load
    attributes: Mapping[str, Any] = field(default_factory=dict)
    chunks: tuple[int, ...] | None = None
    whole: bool = False

    @property
    def unpacked(self) -> float:
        """Bytes in memory when the smallest part is read."""
        shape = self.shape if self.whole else self.chunks or ()
        return float(self.dtype.itemsize) * float(np.prod(shape, dtype=float))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return self.dtype.kind in "iufc"

    def values(self) -> NDArray[Any]:
        """All values."""
        return self.load((slice(None),) * self.ndim)


@dataclass(frozen=True)
class DataSource:
    """An open file.

    Attributes
    ----------
    path
        The file.
    format
        Name of its format.
    arrays
        What it holds, by name.
    attributes
        What it says about itself.
    notes
        What was left out or changed, and why.
    mesh
        The mesh whose nodes the dimension ``node`` numbers, where the file has one.
    frames
        How many times are best read at once, where the file states it.
    """

    path: Path
    format: str
    arrays: Mapping[str, Array]
    attributes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    mesh: Mesh | None = None
    frames: int | None = None


def in_memory(
    name: str, dims: tuple[str, ...] | None, values: NDArray[Any], attributes: Mapping[str, Any] | None = None
) -> Array:
    """Array whose values are in memory."""
    return Array(name, dims, values.shape, values.dtype, lambda key: np.asarray(values[key]), attributes or {})


@contextmanager
def readable(path: Path | str, what: str) -> Iterator[None]:
    """Turn every failure of a library on a damaged file into a DataError that names the file.

    Parameters
    ----------
    path
        The file.
    what
        Name of the format.
    """
    try:
        yield
    except (BvsiError, GeneratorExit):
        raise
    except MemoryError as error:
        raise DataError(
            f"{path}: {what} asks for more memory than there is, or than is allowed ({error or 'size unknown'}); the "
            "file may be damaged, else raise max_memory (--max-memory)"
        ) from error
    # Libraries raise anything on damaged files: OSError, KeyError, struct.error, zlib.error, AssertionError …
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        traceback.clear_frames(error.__traceback__)  # closes what was half opened now, not when it is collected
        raise DataError(
            f"{path}: cannot be read as {what} ({reason}); it may be damaged, incomplete or of another format"
        ) from error


def needed(module: str, package: str | None = None) -> Any:
    """An imported module; where it is absent, the error says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        name = package or module.split(".")[0]
        raise MissingDependencyError(f"this file needs the package {name}; install it: pip install {name}") from error


def texts(attributes: Mapping[Any, Any]) -> dict[str, str]:
    """Attributes as short texts."""
    return {str(name): str(value)[:200] for name, value in attributes.items()}
