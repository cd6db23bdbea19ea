"""Kernels that Numba compiles once and keeps on disk. A cache that is damaged or cannot be written costs time only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache


class _Cache(FunctionCache):
    """Numba's own cache: what it cannot read is compiled anew, what it cannot write is not kept."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # pickles of a file that was cut off fail in many ways
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


def kernel(function: Callable[..., Any]) -> Any:
    """A function compiled without Python objects and without its lock."""
    compiled = njit(cache=True, nogil=True)(function)
    if hasattr(compiled, "enable_caching"):  # not where compilation is switched off
        compiled._cache = _Cache(function)
    return compiled
