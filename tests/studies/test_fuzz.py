"""The fuzzer: inputs are the same every time, detectors see what they are for, and inputs run without failures."""

from pathlib import Path

import numpy as np
import pytest

from bvsi.studies.fuzz.bases import BASES, make_bases
from bvsi.studies.fuzz.command import main
from bvsi.studies.fuzz.controls import CONTROLS
from bvsi.studies.fuzz.inputs import Input, make_input, whole_input
from bvsi.studies.fuzz.raw import changed_bytes
from bvsi.studies.fuzz.tables import Campaign
from bvsi.studies.fuzz.trial import Trials
from bvsi.studies.fuzz.watch import differences, state_of


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Bases without a result, whose run would take longer than all tests here."""
    folder = tmp_path_factory.mktemp("fuzz")
    make_bases(folder / "base", result=False)
    return folder


@pytest.fixture(scope="module")
def trials(out):
    with Trials(out, seed=0) as made:
        yield made


def content(folder):
    """All below a folder, but for times of change."""
    return {name: state[:2] + state[3:] for name, state in state_of(folder).items()}


def test_an_input_is_the_same_every_time(out, tmp_path):
    files = []
    for number in range(40):
        folders = [tmp_path / f"{number}-{turn}" for turn in "ab"]
        for folder in folders:
            folder.mkdir()
        made = [make_input(5, number, out / "base", folder, Path("/nowhere/canary")) for folder in folders]
        assert made[0] == made[1]
        assert content(folders[0]) == content(folders[1])
        if made[0].family not in ("result", "expression"):  # there is no result here to be changed
            files.append((made[0].arguments, *content(folders[0]).items()))
    assert len(files) > 20
    assert len(set(files)) == len(files)


def test_other_seeds_give_other_bytes():
    whole = bytes(range(256)) * 20
    assert len({changed_bytes(whole, np.random.default_rng([0, k]))[0] for k in range(50)}) > 45


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_every_detector_sees_what_it_is_for(trials, control):
    trials.empty()
    given = Input("control", control.arguments, control.name, ())
    _, found = trials.run(given, python=control.python, timeout=control.timeout)
    kinds = {finding.kind for finding in found}
    assert control.kind in kinds if control.kind else not kinds


def test_canaries_are_whole_again_after_they_were_harmed(trials):
    before = content(trials.canary)
    trials.empty()
    given = Input("control", ("control",), "", ())
    _, found = trials.run(given, python="import shutil; shutil.rmtree('../canary'); open('../more', 'w').close()")
    assert {finding.kind for finding in found} >= {"outside"}
    assert content(trials.canary) == before
    assert not (trials.area / "more").exists()


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_files_that_were_not_changed_are_accepted(trials, base):
    trials.empty()
    outcome, found = trials.run(whole_input(base, trials.bases, trials.server.trial))
    assert outcome.code == 0, outcome.err
    assert not found


def test_inputs_run_and_are_told_in_a_table(trials, out):
    quick = [number for number in range(60) if trials.make(number).command != "run"]  # a discovery takes seconds
    records = [trials.record(number) for number in quick[:30]]
    assert not [finding for record in records for finding in record.findings if finding.kind == "internal"]
    assert len({record.family for record in records}) > 5
    done = Campaign(0, 10.0, len(CONTROLS), tuple(records))
    done.write(out)
    assert "30 inputs in 0.2 minutes, 180 a minute" in (out / "fuzz.md").read_text()
    assert (out / "fuzz.json").stat().st_size > 1000


def test_a_finding_is_saved_and_can_be_repeated(trials, out, capsys):
    made = trials.make(7)
    outcome, found = trials.run(made, python="raise KeyError('odd')")
    trials._save(7, made, outcome, found)
    folder = out / "findings" / "000007"
    assert "KeyError: 'odd'" in (folder / "stderr").read_text()
    assert (folder / "command").read_text().startswith("bvsi ")
    assert content(folder / "input").keys() == content(trials.server.trial).keys()
    assert found[0].signature == trials.run(trials.make(8), python="raise KeyError('odd')")[1][0].signature


def test_making_alone_may_be_allowed():
    before, after = {"a": ("file", 1), "b": ("file", 1)}, {"a": ("file", 2), "c": ("file", 1)}
    assert differences(before, after) == ("changed a", "removed b", "made c")
    assert differences(before, after, ("+*",)) == ("changed a", "removed b")
    assert differences(before, after, ("*",)) == ()


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "--repeat" in capsys.readouterr().out
