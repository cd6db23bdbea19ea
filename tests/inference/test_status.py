"""The status of an estimate: what code asks for does not hang on what people read."""

from __future__ import annotations

import json

from bvsi.infer import Reason, Status


def test_a_note_adds_its_text_and_its_reason():
    status = Status(True, 3, "converged.")
    assert status.noted("") == status
    noted = status.noted("But look.").noted("No.", Reason.PLATEAU, failed=True)
    assert noted == Status(False, 3, "converged. But look. No.", frozenset({Reason.PLATEAU}))


def test_a_status_survives_storage():
    status = Status(False, 7, "stalled.", frozenset({Reason.STALLED, Reason.SWAMPED}))
    assert Status.from_record(json.loads(json.dumps(status.to_record()))) == status
