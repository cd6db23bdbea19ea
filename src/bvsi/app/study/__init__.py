"""Studies: settings in a file, checked as a whole, and run from data to report.

Names are imported when first used, so that reading a study file does not load what only running it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bvsi.app.study.build import files_of, folder_of, library_of, options_of, quantities_of, reading_of, resolved
    from bvsi.app.study.candidates import suggested_operators
    from bvsi.app.study.checks import validate
    from bvsi.app.study.errors import StudyError, StudyProblem
    from bvsi.app.study.run import Finished, FollowUp, read_inputs, run_study
    from bvsi.app.study.schema import json_schema
    from bvsi.app.study.settings import Settings
    from bvsi.app.study.toml import Study, load_study

_HOME = {
    "build": ("files_of", "folder_of", "library_of", "options_of", "quantities_of", "reading_of", "resolved"),
    "candidates": ("suggested_operators",),
    "checks": ("validate",),
    "errors": ("StudyProblem", "StudyError"),
    "run": ("Finished", "FollowUp", "read_inputs", "run_study"),
    "schema": ("json_schema",),
    "settings": ("Settings",),
    "toml": ("Study", "load_study"),
}
_MODULE_OF = {name: f"bvsi.app.study.{module}" for module, names in _HOME.items() for name in names}

__all__ = [
    "Finished",
    "FollowUp",
    "Settings",
    "Study",
    "StudyError",
    "StudyProblem",
    "files_of",
    "folder_of",
    "json_schema",
    "library_of",
    "load_study",
    "options_of",
    "quantities_of",
    "read_inputs",
    "reading_of",
    "resolved",
    "run_study",
    "suggested_operators",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bvsi.app.study' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # the module of the same name would hide the function from the second import on
    return value
