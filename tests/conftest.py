"""What tests of several packages need."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Every run has the same examples, so that a failure is due to the change at hand; HYPOTHESIS_PROFILE=search draws more.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config: pytest.Config) -> None:
    """Import ArviZ before the workers do: its first import of a day writes a file, and two at a time fail there."""
    if config.getoption("numprocesses", None):
        with warnings.catch_warnings(), contextlib.suppress(ImportError):
            warnings.simplefilter("ignore")
            import arviz  # noqa: F401


@pytest.fixture(scope="session")
def full_size(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of forward solves of full size, which takes seconds to fill: one for the workers of this run."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "full-size"


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
