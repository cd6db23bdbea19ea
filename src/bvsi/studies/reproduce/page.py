"""A plain HTML page of tables and figures."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bvsi.app.files import write_whole

_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
img { max-width: 100%; background: #fff } table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { padding: .2rem .9rem; text-align: right } td:first-child, th:first-child { text-align: left }
th { border-bottom: 1px solid #888 } pre { overflow-x: auto; font-size: .85rem }
.equation { font-size: 1.1rem; white-space: pre-wrap } figcaption { color: #888 } figure { margin: 1.5rem 0 }
"""


def page(title: str, body: Sequence[str]) -> str:
    """A whole page from pieces of HTML."""
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    pieces = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>\n{pieces}\n</body></html>\n"
    )


def save_result(out: Path, result: Mapping[str, Any]) -> None:
    """Write result.json to a folder, which is made."""
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "result.json", json.dumps(result, indent=1))


def save_page(out: Path, title: str, body: Sequence[str]) -> Path:
    """Write index.html to a folder; returns its path."""
    index = out / "index.html"
    write_whole(index, page(title, body))
    return index


def text(words: str) -> str:
    """A paragraph."""
    return f"<p>{html.escape(words)}</p>"


def preformatted(words: str) -> str:
    """Text as it is printed."""
    return f"<pre>{html.escape(words)}</pre>"


def equation(words: str) -> str:
    """An equation, broken into lines where it is long."""
    return f'<pre class="equation">{html.escape(words)}</pre>'


def figure(image: Path, caption: str) -> str:
    """A picture, embedded, with a caption that also describes it."""
    data = base64.b64encode(image.read_bytes()).decode()
    words = html.escape(caption)
    source = f"data:image/png;base64,{data}"
    return f'<figure><img alt="{words}" src="{source}"><figcaption>{words}</figcaption></figure>'
