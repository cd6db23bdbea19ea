"""Which endings of a command are findings."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bvsi.studies.fuzz.client import FuzzOutcome
from bvsi.studies.fuzz.server import ESCAPED
from bvsi.studies.fuzz.watch import TOKEN

LARGEST = 2_000_000_000
"""Bytes of memory of a whole process."""
_CODES = (0, 2, 130)
"""The exit codes that are documented."""
_MARK = "pwned-"
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Finding:
    """Something that a command must not do.

    Attributes
    ----------
    kind
        Code (run from an input), outside and inside (files changed), leak and read (of files elsewhere), hang, signal,
        memory, traceback, exit code, message.
    detail
        In one line.
    signature
        What findings with the same cause share.
    """

    kind: str
    detail: str
    signature: str


@dataclass(frozen=True)
class Traces:
    """What the command left around it.

    Parameters
    ----------
    outside
        Changes beside its folder.
    inside
        Changes in it that it has no business to make.
    secrets
        Files that were read although nobody named them.
    leaked
        Files below the folder that hold text of them.
    elsewhere
        Whether the user named a folder for results anywhere, so that opening files there is no fault by itself.
    """

    outside: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
    elsewhere: bool = False


def judge(outcome: FuzzOutcome, traces: Traces, arguments: Sequence[str]) -> tuple[Finding, ...]:
    """All findings of one command, the gravest first."""
    ending = _ending(outcome)
    message = _message(outcome, arguments) if not ending else []
    return (*_code_run(outcome, traces), *_touched(outcome, traces, arguments), *ending, *message)


def _code_run(outcome: FuzzOutcome, traces: Traces) -> list[Finding]:
    acts = [f"{event}: {detail}" for kind, event, detail in outcome.acts if kind == "code"]
    acts += [f"import: {event} from {detail}" for kind, event, detail in outcome.acts if kind == "import"]
    marks = [told for told in (*traces.outside, *traces.inside) if _MARK in told]
    found = [Finding("code", f"a payload was run: {', '.join(marks)}", f"code {marks[0]}")] if marks else []
    if acts:
        found.append(Finding("code", "; ".join(acts)[:300], f"code {acts[0].split(':')[0]}"))
    return found


def _touched(outcome: FuzzOutcome, traces: Traces, arguments: Sequence[str]) -> list[Finding]:
    acts = [f"{event} {detail}" for kind, event, detail in outcome.acts if kind == "outside"]
    outside = [*(told for told in traces.outside if _MARK not in told), *(() if traces.elsewhere else acts)]
    inside = [told for told in traces.inside if _MARK not in told]
    found = []
    if outside:
        found.append(Finding("outside", "; ".join(outside)[:300], f"outside {_plain(outside[0])}"))
    if inside:
        found.append(Finding("inside", "; ".join(inside)[:300], f"inside {_plain(inside[0])}"))
    leaked = [*traces.leaked, *(["what it prints"] if TOKEN in outcome.out + outcome.err else [])]
    if leaked:
        found.append(Finding("leak", f"text of a file elsewhere stands in {', '.join(leaked)}", f"leak {leaked[0]}"))
    elif traces.secrets:
        words = f"{', '.join(traces.secrets)} elsewhere was read"
        found.append(Finding("read", words, f"read {arguments[0]} {' '.join(traces.secrets)}"))
    return found


def _ending(outcome: FuzzOutcome) -> list[Finding]:
    found = []
    if outcome.hung:
        words = f"no end after {outcome.seconds:.0f} s ({outcome.cpu:.0f} s of processor time)"
        found.append(Finding("hang", words, f"hang {_where(outcome.err, newest_first=True)}"))
    elif outcome.code < 0:
        words = f"ended by signal {-outcome.code}"
        found.append(Finding("signal", words, f"signal {-outcome.code} {_where(outcome.err, newest_first=True)}"))
    if outcome.peak > LARGEST:
        words = f"{outcome.peak / 1e9:.1f} GB of memory"
        found.append(Finding("memory", words, f"memory {_plain(outcome.err[-100:])}"))
    if _TRACEBACK in outcome.err or _TRACEBACK in outcome.out or ESCAPED in outcome.err:
        last = _last_line(outcome.err if _TRACEBACK in outcome.err else outcome.out)
        found.append(Finding("traceback", last[:300], f"traceback {_where(outcome.err)} {_plain(last.split(':')[0])}"))
    elif not found and outcome.code not in _CODES:
        found.append(Finding("exit code", f"exit code {outcome.code}", f"exit code {outcome.code}"))
    return found


def _message(outcome: FuzzOutcome, arguments: Sequence[str]) -> list[Finding]:
    """Exit code 2 has one message that begins with error: and no control characters; 0 says something; JSON is JSON."""
    faults = []
    if outcome.code == 2 and not outcome.err.startswith(("error: ", "Usage: ")):
        faults.append(("no message that begins with error:", outcome.err[:100]))
    if outcome.code == 2 and len(outcome.err.splitlines()) > 25:
        faults.append(("a message of more than 25 lines", outcome.err[:100]))
    if outcome.code == 0 and not outcome.out.strip() and "--quiet" not in arguments:
        faults.append(("done without a word", ""))
    if outcome.code == 0 and "--json" in arguments and not _is_json(outcome.out):
        faults.append(("no JSON object", outcome.out[:100]))
    odd = next((c for c in outcome.out + outcome.err if not (c.isprintable() or c in "\n\t")), None)
    if odd is not None:
        faults.append(("a control character is printed", repr(odd)))
    return [
        Finding("message", f"{what} {shown!r}".strip(), f"message {what} {_plain(shown[:40])}")
        for what, shown in faults
    ]


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _last_line(text: str) -> str:
    """The line that names the exception: the first one after the last frame that is not part of a frame."""
    after = text.rpartition('\n  File "')[2].splitlines()[1:] or text.splitlines()
    return next((line for line in after if line.strip() and not line.startswith(" ")), "")


def _where(text: str, *, newest_first: bool = False) -> str:
    """The innermost frame of a traceback, and the innermost of bvsi; faulthandler writes the newest first."""
    frames = re.findall(r'File "([^"]+)", line \d+,? in (\S+)', text)
    frames = frames[::-1] if newest_first else frames
    if not frames:
        return ""
    ours = [frame for frame in frames if "/bvsi/" in frame[0] and "/studies/" not in frame[0]]
    chosen = dict.fromkeys([frames[-1], *ours[-1:]])
    return " < ".join(f"{file.rpartition('/')[2]}:{name}" for file, name in chosen)


def _plain(text: str) -> str:
    """A text without what differs from input to input."""
    return re.sub(r"0x[0-9a-f]+|\d+|[0-9a-f]{12,}|/\S+/", "#", text)


def digest(signature: str) -> str:
    """A short name of a signature."""
    return hashlib.sha256(signature.encode("utf-8", "replace")).hexdigest()[:8]
