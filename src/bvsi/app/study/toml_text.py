"""Values as TOML text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 100


def toml_value(value: object) -> str:
    """A text, number, switch, list or (inline) table in one line; lists of texts that get too long in several."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_key(str(k))} = {toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        items = [toml_value(item) for item in value]
        line = f"[{', '.join(items)}]"
        several = len(line) > _WIDTH and all(isinstance(item, str) for item in value)
        return "[\n" + "".join(f"  {item},\n" for item in items) + "]" if several else line
    raise TypeError(f"no TOML for {type(value).__name__}")


def toml_key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    """JSON's escapes are TOML's as well, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
