"""The status of an estimate: what code asks for does not depend on what people read."""

from __future__ import annotations

import json

import numpy as np

from bvsi.app.storage import status_of, status_record
from bvsi.infer import Lagged, Profile, Reason, Starts, Status
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, UnknownScale
from inference.cases import reaction_system


def test_a_note_adds_its_text_and_its_reason():
    status = Status(True, 3, "converged.")
    assert status.noted("") == status
    noted = status.noted("But look.").noted("No.", Reason.PLATEAU, failed=True)
    assert noted == Status(False, 3, "not converged. But look. No.", frozenset({Reason.PLATEAU}))


def test_a_status_survives_storage():
    reasons = frozenset({Reason.STALLED, Reason.SWAMPED})
    status = Status(False, 7, "stalled.", reasons, ("dominant", "instrumental"), "dominant")
    assert status_of(json.loads(json.dumps(status_record(status)))) == status


def test_a_fit_tells_which_starts_were_tried_and_which_was_kept():
    system = reaction_system(sigma=1e-2)
    plain = Profile().fit(residual_likelihood(system, IID(1e-2))).status
    assert plain.starts == (plain.start,) == ("dominant",)
    unknown = Profile().fit(residual_likelihood(system, UnknownScale()))
    assert unknown.status.starts[:2] == ("dominant", "instrumental")
    assert unknown.status.start in unknown.status.starts
    assert f"starts tried: dominant, instrumental; kept: {unknown.status.start}" in str(unknown)
    lagged = Lagged().fit(residual_likelihood(system, IID(1e-2))).status
    assert lagged.starts == ("least squares", "dominant")
    assert lagged.start == "dominant"
    given = Profile().fit(residual_likelihood(system, IID(1e-2)), start=np.array([0.1, -0.8])).status
    assert given.starts == ("given",)


def test_rules_decide_how_many_starts_are_tried():
    """No share of noise is small enough: the start with stronger weights is heard as well."""
    likelihood = residual_likelihood(reaction_system(sigma=1e-2), IID(1e-2))
    status = Profile(starts=Starts(noisy=-1.0)).fit(likelihood).status
    assert status.starts == ("dominant", "instrumental", "dominant, stronger")
    assert status.converged
