"""Is Numba usable here? Asked when a kernel is first wanted: importing ``bvsi.linalg`` stays cheap."""

from __future__ import annotations

from functools import cache


@cache
def numba_available() -> bool:
    """True if Numba imports and compiles (``NUMBA_DISABLE_JIT`` unset); otherwise SciPy does the work."""
    try:
        import numba
    except Exception:  # not only ImportError: Numba raises others when it does not fit the NumPy installed
        return False
    return not numba.config.DISABLE_JIT
