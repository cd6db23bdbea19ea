"""Docstrings of bvsi as reStructuredText: they are plain text, and Sphinx has to be told what is what.

name: description          →  definition list, where ``name`` is an argument or attribute
    continued, indented
(blank line, indented)     →  literal block: formulas and code
anything else              →  paragraph, with the characters that mean something to Sphinx made harmless
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import bvsi

_ITEM = re.compile(r"(?P<names>\*{0,2}\w+(?:, \w+)*): +(?P<text>\S.*)")
_MARKUP = re.compile(r"(``[^`]+``|:\w+:`[^`]+`)")
_ROLE = re.compile(r":(\w+):`~?(?:bvsi\.\w+\.)?(\w+)`")


def rendered(lines: Sequence[str], names: Iterable[str]) -> list[str]:
    """reStructuredText of a docstring (lines without common indentation); ``names``: arguments and attributes."""
    known = frozenset(names)
    return [line for block in _blocks(lines) for line in [*_block(block, known), ""]]


def names_of(thing: Any) -> set[str]:
    """Arguments of a function or class, and annotated attributes of a class."""
    names: set[str] = set()
    if dataclasses.is_dataclass(thing):
        names |= {field.name for field in dataclasses.fields(thing)}
    if inspect.isclass(thing):
        names |= {name for name, value in inspect.getmembers(thing) if isinstance(value, property)}
    with contextlib.suppress(TypeError, ValueError):
        names |= set(inspect.signature(thing).parameters)
    return names


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Paragraphs: runs of lines that are not blank."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def _block(block: Sequence[str], known: frozenset[str]) -> list[str]:
    if block[0].startswith(" "):
        return ["::", "", *(f"    {line}" for line in block)]
    plain: list[str] = []
    items: list[tuple[str, str]] = []
    for line in block:
        found = None if line.startswith(" ") else _ITEM.fullmatch(line)
        if found and set(found["names"].split(", ")) <= known:
            items.append((found["names"], found["text"]))
        elif items and line.startswith(" "):
            items[-1] = (items[-1][0], f"{items[-1][1]} {line.strip()}")
        elif items:  # a sentence after the list, or a line of it that was not indented
            items.append(("", line))
        else:
            plain.append(line.strip())
    result = [_harmless(line) for line in plain]
    if plain and items:
        result.append("")
    return result + [line for names, text in _split(items, known) for line in _definition(names, text)]


def _split(items: Sequence[tuple[str, str]], known: frozenset[str]) -> Iterator[tuple[str, str]]:
    """``a: …; b: …`` in one line is two items; lines without a name go on with the one before."""
    joined: list[tuple[str, str]] = []
    for names, text in items:
        if names or not joined:
            joined.append((names, text))
        else:
            joined[-1] = (joined[-1][0], f"{joined[-1][1]} {text}")
    for names, text in joined:
        here, start = names, 0
        for mark in re.finditer(r"[;.] (\w+(?:, \w+)*): ", text):
            if set(mark[1].split(", ")) <= known:
                yield here, text[start : mark.start()]
                here, start = mark[1], mark.end()
        yield here, text[start:]


def _definition(names: str, text: str) -> list[str]:
    return [", ".join(f"``{name}``" for name in names.split(", ")), f"    {_harmless(text)}"]


def _harmless(text: str) -> str:
    """Text in which nothing but ``literals`` and roles is markup; roles name what stands in ``bvsi`` itself."""
    pieces = _MARKUP.split(text)
    pieces[::2] = [re.sub(r"([\\*|`]|_(?!\w))", r"\\\1", piece) for piece in pieces[::2]]
    pieces[1::2] = [_ROLE.sub(_target, piece) for piece in pieces[1::2]]
    return "".join(pieces)


def _target(role: re.Match[str]) -> str:
    """A reference where the reference manual has the name, else the name as a literal."""
    kind, name = role.groups()
    return f":{kind}:`{name}`" if name in bvsi.__all__ or kind == "meth" else f"``{name}``"
