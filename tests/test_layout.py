"""Where files stand: tests below ``tests``, and nothing that looks like one below ``src``."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_nothing_below_src_is_collected(pytestconfig: pytest.Config):
    """pytest reads files of these names as tests, and a wheel would carry them."""
    patterns = pytestconfig.getini("python_files")
    assert patterns
    assert not [path for pattern in patterns for path in (ROOT / "src").rglob(pattern)]
    assert pytestconfig.getini("testpaths") == ["tests"]


def test_every_test_file_is_collected(pytestconfig: pytest.Config):
    """A file with tests and a name that pytest does not read would never fail."""
    collected = {path for pattern in pytestconfig.getini("python_files") for path in (ROOT / "tests").rglob(pattern)}
    for path in (ROOT / "tests").rglob("*.py"):
        assert path in collected or "\ndef test_" not in path.read_text(encoding="utf-8"), path
