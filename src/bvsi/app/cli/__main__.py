"""``bvsi`` and ``python -m bvsi.app.cli``: what must hold before anything else of bvsi is imported."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line. Interrupted while modules are still being imported, it ends without a traceback."""
    signal.signal(signal.SIGINT, _leave)
    _open_streams()
    from bvsi.app.cli.main import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:
        _leave(signal.SIGINT, None)


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    os._exit(128 + number)


def _open_streams() -> None:
    """Streams that take every character, escaped where the encoding lacks it; closed ones are replaced."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller; a file that is opened next must not take its place
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115
            setattr(sys, name, stream)
        if mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
