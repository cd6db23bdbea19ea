"""What tests of several packages need."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``bvsi`` with these arguments in this process; exit code, stdout, stderr."""
    from bvsi.app.cli.main import main

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bvsi", *map(str, arguments)])
        code: int | str | None = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        return int(code or 0), printed.out, printed.err

    return run
