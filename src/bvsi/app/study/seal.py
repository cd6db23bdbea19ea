"""What was written on this machine, and by nobody else: seals made with a key that stays here.

    seal(parts) = HMAC-SHA256(key, lengths and bytes of the parts)

A result folder may come from somebody else, and digests of settings and data can be computed by anyone. So whatever is
found in a folder and would be taken for a computation of our own carries a seal.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import cache
from pathlib import Path

import platformdirs

from bvsi.app.files import write_whole

_BYTES = 32


@cache
def _key() -> bytes:
    """The key of this user on this machine, made at first use; where none can be kept, one for this process only."""
    path = Path(platformdirs.user_state_dir("bvsi")) / "key"
    fresh = secrets.token_bytes(_BYTES)
    try:
        if not path.exists() or path.stat().st_size != _BYTES:  # also where a process died while it wrote the key
            write_whole(path, fresh, mode=0o600)
        return path.read_bytes()  # where two processes made one each, both take the one that stayed
    except OSError:  # no home, or one that cannot be written: nothing from before is trusted then
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
