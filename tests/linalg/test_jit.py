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


def run(folder):
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, env=environment, timeout=120)
    assert done.stdout.strip() == b"42.0", done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A module with a kernel, whose cache a run has filled; a run with a damaged one fills it again."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.py").write_text(MODULE)
    run(folder)
    return folder


@pytest.mark.parametrize("damage", ["data", "index", "both"])
def test_a_damaged_cache_is_made_anew(folder, damage):
    files = [
        path
        for path in (folder / "cache").rglob("own.twice*")
        if damage == "both" or path.suffix[-1] == {"data": "c", "index": "i"}[damage]
    ]
    assert files
    for path in files:
        path.write_bytes(b"\xef\xbf\xbd" + path.read_bytes()[:20])
    run(folder)
    assert all(len(path.read_bytes()) > 23 for path in files)


def test_without_a_place_for_the_cache_kernels_are_compiled_all_the_same(monkeypatch):
    from bvsi.linalg import blas

    def nowhere(function):
        raise RuntimeError(f"cannot cache function {function.__name__!r}: no locator available")

    def twice(x):
        return 2 * x

    monkeypatch.setattr(blas, "_Cache", nowhere)
    assert blas.kernel(twice)(21.0) == 42.0
