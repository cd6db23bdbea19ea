"""The cache of compiled kernels: damaged or not to be written, it costs time only."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

SCRIPT = """
from bvsi.linalg.blas import kernel
import own
print(own.twice(21.0))
"""
MODULE = """
from bvsi.linalg.blas import kernel

@kernel
def twice(x):
    return 2 * x
"""


@pytest.mark.parametrize("damage", ["data", "index", "both"])
def test_a_damaged_cache_is_made_anew(tmp_path, damage):
    (tmp_path / "own.py").write_text(MODULE)
    cache = tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(cache)}

    def run():
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, env=environment, timeout=120)
        assert done.stdout.strip() == b"42.0", done.stderr

    run()
    files = [
        path
        for path in cache.rglob("own.twice*")
        if damage == "both" or path.suffix[-1] == {"data": "c", "index": "i"}[damage]
    ]
    assert files
    for path in files:
        path.write_bytes(b"\xef\xbf\xbd" + path.read_bytes()[:20])
    run()


def test_without_a_place_for_the_cache_kernels_are_compiled_all_the_same(monkeypatch):
    from bvsi.linalg import blas

    def nowhere(function):
        raise RuntimeError(f"cannot cache function {function.__name__!r}: no locator available")

    def twice(x):
        return 2 * x

    monkeypatch.setattr(blas, "_Cache", nowhere)
    assert blas.kernel(twice)(21.0) == 42.0
