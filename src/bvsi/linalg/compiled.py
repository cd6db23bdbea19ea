"""Is Numba usable here? Asked when a kernel is first wanted: importing ``bvsi.linalg`` stays cheap."""

from __future__ import annotations

from functools import cache

REMEDY = "pip install numba, leave NUMBA_DISABLE_JIT unset and let NUMBA_CACHE_DIR be a writable directory"


@cache
def numba_available() -> bool:
    """True if Numba imports, compiles and can keep a cache; otherwise SciPy does the work."""
    try:
        import numba

        # Decorating the kernel is the test of the cache: Numba refuses when it finds no place to write.
        import bvsi.linalg.product_kernel  # noqa: F401
    except Exception:  # not only ImportError: Numba raises others, also when it does not fit the NumPy installed
        return False
    return not numba.config.DISABLE_JIT
