"""Run the blocks of README.md as they are written, in an empty folder, one after the other; part of ``make docs``.

``python`` blocks have to print the ``text`` block that follows them, ``sh`` blocks have to succeed. Indented blocks are
installation, which CI has done.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Run all blocks; the first that fails, or prints something else, ends it."""
    page = Path(__file__).parents[1] / "README.md"
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    printed = ""
    with tempfile.TemporaryDirectory() as folder:
        for kind, text in blocks:
            if kind == "text":
                if printed.strip() != text.strip():
                    sys.stderr.write(f"README.md: the block prints\n{printed}\nnot\n{text}")
                    return 1
                continue
            command = [sys.executable, "-c", text] if kind == "python" else ["sh", "-ec", text]
            begin = time.perf_counter()
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            printed = done.stdout
            sys.stdout.write(f"README.md, {kind} block: {time.perf_counter() - begin:.0f} s\n")
            if done.returncode:
                sys.stderr.write(f"README.md: this block failed\n{text}\n{printed}{done.stderr}")
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
