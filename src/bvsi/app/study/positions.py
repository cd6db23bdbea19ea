"""Line numbers of everything in a TOML text; ``tomllib`` gives values without them."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

from bvsi.app.study.errors import Place

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_STRINGS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}',
        r"'''.*?'{3,5}",
        r'"(?:[^"\\]|\\.)*+"',
        r"'[^']*'",
    )
)


def positions(text: str) -> dict[Place, int]:
    """Line of every table, key and element, by its place; ``text`` has to be valid TOML of moderate depth."""
    scanner = _Scanner(text)
    scanner.run()
    return scanner.lines


class _Scanner:
    """One pass over the text, ``at`` being the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Place, int] = {(): 1}
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._counts: dict[Place, int] = {}

    def run(self) -> None:
        """Statement after statement: table headers, and keys with values."""
        table: Place = ()
        self._skip(_GAP)
        while self.at < len(self.text):
            if self.text.startswith("[", self.at):
                table = self._header()
            else:
                self._pair(table)
            self._skip(_GAP)

    def _header(self) -> Place:
        """``[a.b]`` or ``[[a.b]]``: the place of the table that begins here."""
        begin = self.at
        several = self.text.startswith("[[", begin)
        self.at += 2 if several else 1
        key = self._key()
        self.at = self.text.index("]", self.at) + (2 if several else 1)
        place: Place = ()
        for part in key[:-1]:
            place = self._last((*place, part))
            self._note(place, begin)
        place = (*place, key[-1])
        if several:
            self._note(place, begin)
            count = self._counts.get(place, 0)
            self._counts[place] = count + 1
            place = (*place, count)
        else:
            place = self._last(place)
        self._note(place, begin)
        return place

    def _last(self, place: Place) -> Place:
        """The newest table, where the place is an array of tables."""
        count = self._counts.get(place, 0)
        return (*place, count - 1) if count else place

    def _pair(self, table: Place) -> None:
        """``a.b = value``."""
        begin = self.at
        key = self._key()
        for length in range(1, len(key) + 1):
            self._note((*table, *key[:length]), begin)
        self._skip(_SPACE)
        self.at += 1  # the equality sign
        self._skip(_SPACE)
        self._value((*table, *key))

    def _key(self) -> tuple[str, ...]:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            bare = _BARE.match(self.text, self.at)
            if bare:
                parts.append(bare.group())
                self.at = bare.end()
            else:
                begin = self.at
                self._string()
                parts.append(str(tomllib.loads(f"k = {self.text[begin : self.at]}")["k"]))
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return tuple(parts)
            self.at += 1

    def _value(self, place: Place) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self._string()
        elif first in "[{":
            self._items(place, "]" if first == "[" else "}")
        else:
            self._skip(_SCALAR)

    def _items(self, place: Place, closing: str) -> None:
        """The elements of an array, or the pairs of an inline table."""
        self.at += 1
        number = 0
        while True:
            self._skip(_GAP)
            if self.text[self.at] == ",":
                self.at += 1
            elif self.text[self.at] == closing:
                self.at += 1
                return
            elif closing == "}":
                self._pair(place)
            else:
                self._note((*place, number), self.at)
                self._value((*place, number))
                number += 1

    def _string(self) -> None:
        match = next(match for pattern in _STRINGS if (match := pattern.match(self.text, self.at)))
        self.at = match.end()

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _note(self, place: Place, at: int) -> None:
        self.lines.setdefault(place, bisect_right(self._starts, at))
