"""The page on study files is what the settings say."""

from __future__ import annotations

from pathlib import Path

from bvsi.app.study.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "study.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run python -m bvsi.app.study.reference docs/study.md"
