"""Chunks of a Zarr store, looked at before they are unpacked.

Blosc trusts the lengths in the header of a chunk: version, flags, size of a value, then the bytes unpacked, of a block,
and packed, 4 bytes each. Where they are not those of the chunk, it reads beyond it, and the interpreter crashes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from zarr.storage import WrapperStore

from bvsi.errors import DataError

_HEADER = struct.Struct("<4BIII")


class CheckedStore(WrapperStore[Any]):
    """A store that refuses Blosc chunks whose header is wrong.

    Parameters
    ----------
    packed
        By path of an array whose chunks are packed by Blosc as a whole, the bytes that a chunk unpacks to.
    """

    def __init__(self, store: Any, packed: Mapping[str, int]) -> None:
        super().__init__(store)
        self.packed = packed

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The value of a key, as the store has it."""
        found = await super().get(key, prototype, byte_range)
        node = next((node for node in self.packed if _is_chunk(key, node)), None)
        if found is not None and byte_range is None and node is not None:
            check_blosc(key, found.to_bytes(), self.packed[node])
        return found


def _is_chunk(key: str, node: str) -> bool:
    name = key.removeprefix(f"{node}/" if node else "")
    return (name != key or not node) and not name.rpartition("/")[2].startswith((".z", "zarr.json"))


def check_blosc(key: str, chunk: bytes, unpacked: int) -> None:
    """Refuse a chunk whose header states other lengths than its own and that of its unpacked content."""
    whole = len(chunk) >= _HEADER.size
    *_, size, block, packed = _HEADER.unpack_from(chunk) if whole else (0, 0, 0)
    if not whole or packed != len(chunk) or size > max(unpacked, 1) or block > max(size, 1):
        raise DataError(f"chunk {key!r}: its header is wrong; the store is damaged")
