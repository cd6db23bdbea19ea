"""Positive controls: programs that do what the judge has to see, one for every detector; and valid inputs, which pass.

They are run before every campaign, since a detector that sees nothing would make any program look good, and so would
inputs of which none is near a valid one.
"""

from __future__ import annotations

from dataclasses import dataclass

from bvsi.studies.fuzz.bases import BASES
from bvsi.studies.fuzz.inputs import Input, whole_input
from bvsi.studies.fuzz.trial import Trials


@dataclass(frozen=True)
class Control:
    """A program and the kind of finding that it must lead to; none for "".

    Parameters
    ----------
    timeout
        After which it is called a hang.
    """

    name: str
    python: str
    kind: str
    timeout: float = 20.0
    arguments: tuple[str, ...] = ("control",)


_MEMORY = "x = bytearray(2_200_000_000)"
_REFUSAL = "import sys; sys.stderr.write('error: no.\\n'); sys.exit(2)"
_TRACEBACK = "import sys; sys.stderr.write('Traceback (most recent call last):\\nValueError: x\\n'); sys.exit(2)"
_FAR = "import os; os.close(os.open('/tmp/bvsi-fuzz', os.O_CREAT | os.O_WRONLY)); os.unlink('/tmp/bvsi-fuzz')"
_BESIDE = "import h5py; h5py.File('../canary/new.h5', 'w').close()"
_NETWORK = "import socket; s = socket.socket(); s.settimeout(1); s.connect_ex(('127.0.0.1', 9)); s.close()"
_MODULE = "import sys; open('odd_module.py', 'w').write('x = 1'); sys.path.insert(0, '.'); import odd_module"

CONTROLS = (
    Control("one message", _REFUSAL, ""),
    Control("work done", "print('done')", ""),
    Control("traceback printed", _TRACEBACK, "traceback"),
    Control("exception that escapes", "raise KeyError('x')", "traceback"),
    Control("undocumented exit code", "raise SystemExit(3)", "exit code"),
    Control("segmentation fault", "import ctypes; ctypes.string_at(0)", "signal"),
    Control("abort", "import os; os.abort()", "signal"),
    Control("hang", "import time; time.sleep(60)", "hang", 1.0),
    Control("memory", _MEMORY, "memory"),
    Control("silent refusal", "raise SystemExit(2)", "message"),
    Control("nothing said", "pass", "message"),
    Control("no JSON", "print('{')", "message", arguments=("control", "--json")),
    Control("escape sequence", "print('\\x1b[2J')", "message"),
    Control("file beside", "open('../beside.txt', 'w').close()", "outside"),
    Control("file far away", _FAR, "outside"),
    Control("canary changed by a library in C", _BESIDE, "outside"),
    Control("canary removed", "import shutil; shutil.rmtree('../canary/quantities')", "outside"),
    Control("file left in the folder", "open('left.part', 'w').close()", "inside"),
    Control("program started", "import os; os.system('true')", "code"),
    Control("process started", "import subprocess; subprocess.run(['true'])", "code"),
    Control("signal to another process", "import os; os.kill(os.getppid(), 0)", "code"),
    Control("pickle read", "import pickle; pickle.loads(b'cposixpath\\njoin\\n.')", "code"),
    Control("payload run", "open('pwned-control', 'w').close()", "code"),
    Control("network", _NETWORK, "code"),
    Control("module from the folder", _MODULE, "code"),
    Control("secret read", "open('../canary/secret.txt').read()", "read"),
    Control("secret read by a library in C", "import h5py; h5py.File('../canary/secret.h5')['u'][()]", "read"),
    Control("secret copied", "open('copy', 'w').write(open('../canary/secret.txt').read())", "leak"),
    Control("secret printed", "print(open('../canary/secret.txt').read())", "leak"),
)
"""All of them."""


def blind(trials: Trials) -> tuple[str, ...]:
    """Names of controls that the judge did not see, or saw where nothing was."""
    missed = []
    for control in CONTROLS:
        trials.make(0)
        given = Input("control", control.arguments, control.name, ())
        kinds = {one.kind for one in trials.run(given, python=control.python, timeout=control.timeout)[1]}
        if (control.kind and control.kind not in kinds) or (not control.kind and kinds):
            missed.append(control.name)
    for base in BASES:
        trials.empty()
        outcome, found = trials.run(whole_input(base, trials.bases, trials.server.trial))
        if outcome.code or found:
            missed.append(f"{base.name} as it is ({outcome.err.strip()[:200]})")
    return tuple(missed)
