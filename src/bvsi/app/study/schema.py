"""JSON schema of study files, for editors: completion, descriptions and red lines while one writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bvsi.app.study.settings import Settings

SCHEMA_FILE = Path(__file__).with_name("study.schema.json")
"""The schema as it is shipped."""


def json_schema() -> dict[str, Any]:
    """The schema that the settings give."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "bvsi-study", "title": "Study of bvsi"}
    return {**Settings.model_json_schema(), **head}


def schema_text() -> str:
    """What the shipped file holds; ``python -m bvsi.app.study.schema`` writes it again."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    from bvsi.app.files import write_whole

    write_whole(SCHEMA_FILE, schema_text())
