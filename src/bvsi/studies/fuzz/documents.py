"""Changes of texts that follow their structure: JSON, XML, TOML, tables and lists of numbers."""

from __future__ import annotations

import copy
import json
import re
from typing import Any
from xml.etree import ElementTree

from bvsi.studies.fuzz.odd import FLOATS, INTEGERS, NAMES, TEXTS, Rng, chance, odd_path, odd_value, pick

_LAUGHS = (
    '<!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + "]>"
)
_OUTER = '<!DOCTYPE l [<!ENTITY j SYSTEM "file://{}/secret.txt">]>'
_ENCODINGS = ("utf-16", "latin-1", "cp1252", "utf-7", "ebcdic", "x-unknown", "rot13", "hex", "zlib", "idna", "\x00")


def changed_json(content: bytes, rng: Rng) -> tuple[bytes, str]:
    """JSON with values swapped, left out, added, or with keys that stand twice."""
    try:
        document = json.loads(content)
    except ValueError:
        return content + b"}", "no JSON"
    names = []
    for _ in range(int(rng.integers(1, 4))):
        document, name = _changed_node(document, rng)
        names.append(name)
    text = json.dumps(document, ensure_ascii=chance(rng, 0.9))
    if chance(rng, 0.05):
        text = pick(
            rng, (f"{text}{text}", text[:-1], "[" * 100_000, f"\ufeff{text}", text.replace("{", '{"u": 1, "u": 2, ', 1))
        )
        names.append("text")
    return text.encode("utf-8", "surrogatepass"), "+".join(names)


def _changed_node(document: Any, rng: Rng) -> tuple[Any, str]:
    """The document with one change at a place that is drawn uniformly over all its values."""
    places = list(_places(document))
    if not places:
        return odd_value(rng), "whole"
    document = copy.deepcopy(document)
    *way, last = pick(rng, places)
    holder = document
    for key in way:
        holder = holder[key]
    act = int(rng.integers(10))
    value = holder[last]
    if act == 0:
        del holder[last]
    elif act == 1 and isinstance(holder, dict):
        holder[pick(rng, NAMES)] = holder.pop(last)
    elif act == 2 and isinstance(value, list):
        holder[last] = pick(rng, (value + value, value[:1], value[::-1], value * 1000 if len(value) < 9 else value))
    elif act == 3 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[last] = pick(rng, (-value, value + 1, value * 1000, str(value), [value], float(min(value, 1e300))))
    else:
        holder[last] = odd_value(rng)
    return document, f"value {act} of {last}"


def _places(document: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Ways to all values below a document."""
    pairs = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    found = []
    for key, value in pairs:
        found.append((*way, key))
        found += _places(value, (*way, key)) if len(way) < 12 else []
    return found


def changed_xml(content: bytes, rng: Rng, canary: str) -> tuple[bytes, str]:
    """XML with attributes, texts and elements changed; declarations, entities and encodings of its own."""
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return content, "no XML"
    names = [_changed_element(root, rng, canary) for _ in range(int(rng.integers(1, 4)))]
    text = ElementTree.tostring(root, encoding="unicode")
    head = '<?xml version="1.0"?>'
    if chance(rng, 0.06):
        head += pick(rng, (_LAUGHS, _OUTER.format(canary)))
        text = re.sub(r">\s*<", ">&j;<", text, count=1)
        names.append("entity")
    elif chance(rng, 0.06):
        head = f'<?xml version="1.0" encoding="{pick(rng, _ENCODINGS)}"?>'
        names.append("encoding")
    return (head + text).encode("utf-8", "surrogatepass"), "+".join(names)


def _changed_element(root: Any, rng: Rng, canary: str) -> str:
    elements = list(root.iter())
    chosen = pick(rng, elements)
    act = int(rng.integers(8))
    if act <= 2 and chosen.attrib:
        key = pick(rng, sorted(chosen.attrib))
        chosen.set(key, _odd_text(rng, canary))
        return f"attribute {key} of {chosen.tag}"
    if act == 3 and chosen.attrib:
        key = pick(rng, sorted(chosen.attrib))
        del chosen.attrib[key]
        return f"no attribute {key} of {chosen.tag}"
    if act == 4 and len(chosen):
        child = pick(rng, list(chosen))
        chosen.remove(child) if chance(rng, 0.5) else chosen.append(copy.deepcopy(child))
        return f"child of {chosen.tag}"
    if act == 5:
        chosen.tag = pick(rng, ("DataItem", "DataSet", "Grid", "Piece", "x", pick(rng, elements).tag))
        return "tag"
    if act == 6 and chosen.text and chosen.text.strip():
        chosen.text = changed_tokens(chosen.text, rng)
        return f"tokens of {chosen.tag}"
    chosen.text = _odd_text(rng, canary)
    return f"text of {chosen.tag}"


def _odd_text(rng: Rng, canary: str) -> str:
    """A text that XML can hold: no control characters but blanks."""
    kind = int(rng.integers(5))
    if kind == 0:
        path = odd_path(rng, canary)
        return _plain(path if chance(rng, 0.5) else f"{path}:/u")
    if kind == 1:
        return str(pick(rng, FLOATS))
    if kind == 2:
        return " ".join(str(pick(rng, INTEGERS)) for _ in range(int(rng.integers(1, 5))))
    if kind == 3:
        return pick(
            rng, ("HDF", "XML", "Binary", "ascii", "appended", "binary", "Float", "Int", "8", "Function", "Coordinates")
        )
    return _plain(pick(rng, TEXTS))


def _plain(text: str) -> str:
    return re.sub(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", "", text)


def changed_tokens(text: str, rng: Rng) -> str:
    """A text with some of its words swapped by odd ones, left out, or given twice."""
    parts = re.split(r"(\s+|,|;)", text)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(parts)))
        act = int(rng.integers(6))
        if act == 0:
            parts[place] = ""
        elif act == 1:
            parts[place] *= 2
        else:
            parts[place] = pick(rng, (str(pick(rng, INTEGERS)), str(pick(rng, FLOATS)), pick(rng, TEXTS)))
    return "".join(parts)


def changed_lines(content: bytes, rng: Rng) -> tuple[bytes, str]:
    """Lines of numbers (tables, meshes): words, lines, separators and encodings changed."""
    text = content.decode("latin-1")
    act = int(rng.integers(10))
    if act <= 4:
        head, tail = text[:400], text[400:]
        text = changed_tokens(head, rng) + tail if chance(rng, 0.5) else head + changed_tokens(tail or " ", rng)
        return text.encode("utf-8", "surrogatepass"), "tokens"
    lines = text.splitlines(keepends=True) or [""]
    place = int(rng.integers(len(lines)))
    if act == 5:
        del lines[place]
    elif act == 6:
        lines[place : place + 1] = [lines[place]] * int(pick(rng, (2, 3, 500)))
    elif act == 7:
        old, new = pick(
            rng, ((",", ";"), (",", "\t"), (".", ","), ("\n", "\r"), ("\n", "\r\n"), (" ", "\x00"), ('"', ""))
        )
        return text.replace(old, new).encode("utf-8"), "separator"
    elif act == 8:
        return text.encode(pick(rng, ("utf-16", "utf-8-sig", "utf-32", "cp500", "utf-7"))), "encoding"
    else:
        columns = int(pick(rng, (1, 3, 100, 2500)))
        lines = [line.rstrip("\r\n") + ",1.5" * columns + "\n" for line in lines[: 4000 // columns + 2]]
    return "".join(lines).encode("utf-8"), f"lines {act}"


_VALUE = re.compile(r'"(?:[^"\\\n]|\\.)*"|[-+]?\d[\w.+-]*|true|false|\[[^\[\]\n]*\]|\{[^{}\n]*\}')


def changed_toml(content: bytes, rng: Rng, more: tuple[str, ...], canary: str) -> tuple[bytes, str]:
    """A study with values swapped, lines left out or doubled, and keys added.

    Parameters
    ----------
    more
        Lines that are valid somewhere.
    """
    text = content.decode("utf-8")
    names = []
    for _ in range(int(rng.integers(1, 4))):
        lines = text.splitlines(keepends=True) or ["\n"]
        place, act = int(rng.integers(len(lines))), int(rng.integers(10))
        if act <= 4:
            spans = list(_VALUE.finditer(text))
            if spans:
                span = pick(rng, spans)
                text = text[: span.start()] + toml_value(rng, canary) + text[span.end() :]
        elif act == 5:
            text = "".join(lines[:place] + lines[place + 1 :])
        elif act == 6:
            text = "".join([*lines[:place], lines[place], *lines[place:]])
        elif act == 7:
            text += f"\n{pick(rng, more)}\n"
        elif act == 8:
            key = json.dumps(pick(rng, NAMES).encode("utf-8", "replace").decode())
            text = "".join(lines[:place]) + f"{key} = {toml_value(rng, canary)}\n" + "".join(lines[place:])
        else:
            section, _, key = pick(rng, more).partition("\n")
            text += f"\n{section}\n{key.split('=')[0]} = {toml_value(rng, canary)}\n"
        names.append(f"line {act}")
    return text.encode("utf-8", "surrogatepass"), "+".join(names)


def toml_value(rng: Rng, canary: str) -> str:
    """An odd value as TOML writes it; mostly valid TOML."""
    kind = int(rng.integers(8))
    if kind == 0:
        return pick(
            rng,
            ("nan", "inf", "-inf", "0", "-1", "1e400", "1e-300", "9" * 30, "0x7fffffffffffffff", "1_0", "+1", "0.5"),
        )
    if kind == 1:
        return pick(
            rng,
            ("true", "false", "1979-05-27T07:32:00Z", "07:32:00", "[]", "{}", "[[]]", '""', "''", "[1, 2]", "{x = 1}"),
        )
    if kind in (2, 3):
        return json.dumps(pick(rng, TEXTS).encode("utf-8", "replace").decode())
    if kind == 4:
        return json.dumps(odd_path(rng, canary))
    if kind == 5:
        return json.dumps(
            [pick(rng, NAMES).encode("utf-8", "replace").decode() for _ in range(int(rng.integers(1, 4)))]
        )
    if kind == 6:
        key, value = pick(rng, ("u", "x", "t", "lon", "mean")), pick(rng, ("1.0", "[0, 1, 5]", "nan", "-1", "[nan, 1]"))
        return f"{{{key} = {value}}}"
    return pick(rng, ('"""', "'''", "[" * 30, "u", "{x = ", '"\\u0000"', '"\\ud800"', "0o8", "1.e5", "\x00"))
