from __future__ import annotations

from dataclasses import replace

import pytest

from bvsi.app.report import html_report
from bvsi.discovery import Discovery
from report.report_cases import found_burgers, found_by_hand, found_rotation, grid_frames, quantities


@pytest.fixture(scope="session")
def burgers() -> Discovery:
    return found_burgers()


@pytest.fixture(scope="session")
def rotation() -> Discovery:
    return replace(found_rotation(), frames=grid_frames())


@pytest.fixture(scope="session")
def by_hand() -> Discovery:
    return found_by_hand()


@pytest.fixture(scope="session")
def pages(burgers, rotation, by_hand, tmp_path_factory):
    """Paths of reports by name: everything in one dimension, grids in two, a mesh without a check."""
    folder = tmp_path_factory.mktemp("reports")
    made = {
        "burgers": html_report(
            burgers,
            title="Burgers from a ring",
            settings={"data": {"file": "ring.nc"}},
            quantities=quantities(burgers),
            timing={"read": 0.1},
            study_text="[data]\nfile = 'ring.nc'\n",
            notes=["a note"],
        ),
        "rotation": html_report(rotation, title="Two fields"),
        "by_hand": html_report(by_hand, title="By hand"),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}
