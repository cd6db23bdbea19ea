"""Modules that the pages name are where the pages say."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_FILE = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`")
_RUN = re.compile(r"python -m (bvsi(?:\.[a-z_0-9]+)+)")


def test_modules_are_named():
    assert _FILE.findall((ROOT / "docs" / "theory.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_and_programs_exist(page):
    text = page.read_text(encoding="utf-8")
    missing = {name for name in _FILE.findall(text) if not any((ROOT / r / name).exists() for r in ("src/bvsi", "."))}
    missing |= {name for name in _RUN.findall(text) if importlib.util.find_spec(name) is None}
    assert not missing, f"{page.name} names what is not there: {', '.join(sorted(missing))}"
