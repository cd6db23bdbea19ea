"""HTML and SVG by elements. Every text is escaped where it enters, so that nothing else has to think of it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

# Characters that no XML or HTML may hold, lone surrogates among them.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"meta", "input", "img", "br"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def printable(text: str) -> str:
    """A text that can be written as UTF-8 and shown: what cannot is replaced by U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)


def escaped(text: object) -> Markup:
    """A text as markup; markup as it is."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(printable(str(text))))


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """Texts and markup one after the other."""
    return Markup(between.join(escaped(part) for part in parts))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """``<tag attributes>children</tag>``.

    Parameters
    ----------
    children
        Texts, which are escaped, and markup.
    attributes
        ``None`` and ``False`` leave one out, ``True`` gives it without a value; underscores stand for hyphens, and one
        at the end is dropped: ``class_``, ``aria_label``.
    """
    head = tag + "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{head}>")
    return Markup(f"<{head}>{joined(children)}</{tag}>")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    key = name.rstrip("_").replace("_", "-")
    if value is True:
        return f' {key}=""'
    return f' {key}="{escaped(_short(value) if isinstance(value, float) else str(value))}"'


def _short(value: float) -> str:
    """A place in a figure, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def table(head: Sequence[object], rows: Iterable[Sequence[object]], *, caption: str = "", class_: str = "") -> Markup:
    """A table that scrolls sideways by itself where it is too wide; the first cell of a row is its heading."""
    top = element("tr", *(element("th", cell, scope="col") for cell in head))
    body = [element("tr", element("th", row[0], scope="row"), *(element("td", c) for c in row[1:])) for row in rows]
    label = element("caption", caption) if caption else ""
    inner = element("table", label, element("thead", top), element("tbody", *body), class_=class_ or None)
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption or "table")


def download(name: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A button that saves numbers as a CSV file, which is part of the page."""
    lines = [",".join(_field(cell) for cell in row) for row in (head, *rows)]
    data = quote("\r\n".join(lines) + "\r\n")
    return element("a", "Data (CSV)", download=name, href=f"data:text/csv;charset=utf-8,{data}", class_="download")


def _field(cell: object) -> str:
    """A cell of a CSV file; names may hold anything, and begin with no sign that spreadsheets take for a formula."""
    if isinstance(cell, float | int):
        return f"{cell:.10g}"
    text = printable(str(cell)).replace('"', '""')
    return f'"{text}"' if not text.startswith(("=", "+", "-", "@")) else f'" {text}"'


def details(summary: object, *children: object, open_: bool = False) -> Markup:
    """Something that opens on request."""
    return element("details", element("summary", summary), *children, open=open_)
