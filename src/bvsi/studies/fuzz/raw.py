"""Changes of bytes that know nothing of a format: flips, cuts, copies, odd integers."""

from __future__ import annotations

from bvsi.studies.fuzz.odd import INTEGERS, Rng, chance, pick

_HEAD = 3000
"""Bytes in which most formats have their headers; half of all changes are made there."""


def changed_bytes(content: bytes, rng: Rng, other: bytes = b"") -> tuple[bytes, str]:
    """The content with one to four changes, and their names.

    Parameters
    ----------
    other
        Bytes of another file to splice in.
    """
    names = []
    for _ in range(int(rng.integers(1, 5))):
        change = pick(rng, _CHANGES)
        content = change(content, rng, other)
        names.append(change.__name__.strip("_"))
    return content, "+".join(names)


def _place(content: bytes, rng: Rng) -> int:
    """A position: half of them in the head, some at the tail."""
    size = len(content)
    if size == 0:
        return 0
    if chance(rng, 0.5):
        return int(rng.integers(min(size, _HEAD)))
    if chance(rng, 0.2):
        return size - 1 - int(rng.integers(min(size, 200)))
    return int(rng.integers(size))


def _flip(content: bytes, rng: Rng, other: bytes) -> bytes:
    del other
    found = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        if found:
            found[_place(content, rng)] ^= 1 << int(rng.integers(8))
    return bytes(found)


def _overwrite(content: bytes, rng: Rng, other: bytes) -> bytes:
    del other
    begin, count = _place(content, rng), int(rng.integers(1, 65))
    return content[:begin] + bytes(rng.bytes(count)) + content[begin + count :]


def _integer(content: bytes, rng: Rng, other: bytes) -> bytes:
    """An integer of 1, 2, 4 or 8 bytes at the end of its range, in either order."""
    del other
    size = pick(rng, (1, 2, 4, 8))
    value = int(pick(rng, INTEGERS) % 2 ** (8 * size))
    begin = _place(content, rng) & ~(size - 1)
    return content[:begin] + value.to_bytes(size, pick(rng, ("little", "big"))) + content[begin + size :]


def _cut(content: bytes, rng: Rng, other: bytes) -> bytes:
    del other
    return content[: _place(content, rng)]


def _without(content: bytes, rng: Rng, other: bytes) -> bytes:
    del other
    begin = _place(content, rng)
    return content[:begin] + content[begin + int(rng.integers(1, 257)) :]


def _twice(content: bytes, rng: Rng, other: bytes) -> bytes:
    del other
    begin, count = _place(content, rng), int(rng.integers(1, 1025))
    return content[: begin + count] + content[begin:]


def _splice(content: bytes, rng: Rng, other: bytes) -> bytes:
    begin, start, count = _place(content, rng), _place(other, rng), int(rng.integers(1, 1025))
    return content[:begin] + other[start : start + count] + content[begin + (count if chance(rng, 0.5) else 0) :]


def _fill(content: bytes, rng: Rng, other: bytes) -> bytes:
    del other
    begin, count = _place(content, rng), int(rng.integers(1, 257))
    return content[:begin] + pick(rng, (b"\x00", b"\xff", b" ", b"9")) * count + content[begin + count :]


def _tail(content: bytes, rng: Rng, other: bytes) -> bytes:
    """Something after the end."""
    return content + pick(rng, (b"\x00" * 100, b"\xff" * 7, other[:500], content[:500], b"\n"))


_CHANGES = (_flip, _flip, _overwrite, _integer, _integer, _cut, _without, _twice, _splice, _fill, _tail)
