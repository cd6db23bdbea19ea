"""Addresses of schedulers, and whether a scheduler is there.

A client of Dask waits forever where a server of another kind is silent, and takes its words for the length of a
message where it is not. So it is asked first: a server of Dask greets with the length of its handshake.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from bvsi.errors import BvsiError

START = "start one with `dask scheduler` and `dask worker tcp://host:8786`"
_FORM = re.compile(r"(?:(tcp|tls)://)?([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%]{2,64}\]):([0-9]{1,5})")
_LAST_PORT = 65535
_LONGEST_SHOWN = 80
_LENGTH = 8  # bytes of the length of a message, the lowest first
_LONGEST_HANDSHAKE = 1 << 20


@dataclass(frozen=True)
class Address:
    """Where a scheduler listens.

    Attributes
    ----------
    encrypted
        Whether by TLS, of which Dask's own settings have the certificates.
    """

    text: str
    host: str
    port: int
    encrypted: bool

    @staticmethod
    def parse(text: object) -> Address:
        """From ``tcp://host:8786``, ``tls://host:8786`` or ``host:8786``."""
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None or not 0 < int(found[3]) <= _LAST_PORT:
            shown = repr(text)
            shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
            raise BvsiError(f"scheduler: an address such as 'tcp://127.0.0.1:8786' is needed, not {shown}.")
        return Address(found[0], found[2].strip("[]"), int(found[3]), found[1] == "tls")

    def check_answer(self, timeout: float) -> None:
        """Refuse where nothing, or another server, answers; a greeting that is encrypted is left to Dask.

        Parameters
        ----------
        timeout
            Seconds.
        """
        try:
            with socket.create_connection((self.host, self.port), timeout=timeout) as connection:
                if not self.encrypted and not _greets(connection):
                    raise BvsiError(
                        f"scheduler: what answers at {self.text!r} is not a scheduler of Dask; check the port."
                    )
        except (OSError, UnicodeError) as error:
            raise self.silent(error) from None

    def silent(self, error: Exception) -> BvsiError:
        """The error where nothing answers, and why."""
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return BvsiError(f"scheduler: nothing answers at {self.text!r} ({reason}); {START}.")


def _greets(connection: socket.socket) -> bool:
    """Whether the length of a handshake comes in time."""
    heard = b""
    try:
        while len(heard) < _LENGTH:
            more = connection.recv(_LENGTH - len(heard))
            if not more:
                return False
            heard += more
    except TimeoutError:
        return False
    return 0 < int.from_bytes(heard, "little") <= _LONGEST_HANDSHAKE
