"""What was written on this machine, and by nobody else: seals made with a key that stays here.

    seal(parts) = HMAC-SHA256(key, lengths and bytes of the parts)

A result folder may come from somebody else, and digests of settings and data can be computed by anyone. So whatever is
found in a folder and would be taken for a computation of our own carries a seal.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from functools import cache
from pathlib import Path

import platformdirs

_BYTES = 32


@cache
def _key() -> bytes:
    """The key of this user on this machine, made at first use; where none can be kept, one for this process only."""
    path = Path(platformdirs.user_state_dir("bvsi")) / "key"
    fresh = secrets.token_bytes(_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            kept = path.read_bytes()
            return kept if len(kept) == _BYTES else fresh
        with os.fdopen(handle, "wb") as stream:
            stream.write(fresh)
    except OSError:  # no home, or one that cannot be written: nothing from before is trusted then
        pass
    return fresh


def seal(*parts: str) -> str:
    """The seal of some texts."""
    sealed = hmac.new(_key(), digestmod=hashlib.sha256)
    for part in parts:
        encoded = part.encode(errors="surrogateescape")
        sealed.update(len(encoded).to_bytes(8, "little") + encoded)
    return sealed.hexdigest()


def is_sealed(found: object, *parts: str) -> bool:
    """Whether ``found`` is the seal of these texts."""
    return isinstance(found, str) and hmac.compare_digest(found.encode(errors="replace"), seal(*parts).encode())


def file_digest(path: Path) -> str:
    """SHA-256 of the bytes of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
