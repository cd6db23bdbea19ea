"""``bvsi bench honesty``: fields obey their equations, instruments do what they say, rates are counted right, files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.studies.benchmarks.honesty import observing
from bvsi.studies.benchmarks.honesty.cases import CASES
from bvsi.studies.benchmarks.honesty.physics import PHYSICS, NodesAndFrames, layer
from bvsi.studies.benchmarks.honesty.run import HonestyRun, rates


def line(u: np.ndarray) -> Data:
    return Data.from_arrays(
        {"u": u}, times=np.arange(len(u)), geometry=Grid(x=np.arange(u.shape[1]), periodic={"x": u.shape[1]})
    )


@pytest.mark.parametrize("name", ["waves", "burgers", "fisher", "chaos"])
def test_fields_on_a_line_obey_their_equation(name):
    drawn = PHYSICS[name].draw(np.random.default_rng(5), NodesAndFrames(96, 1201))
    u, times = np.asarray(drawn.data.fields["u"]), drawn.data.times
    length = drawn.data.geometry.periods["x"]
    k = 2j * np.pi / length * np.fft.fftfreq(96, 1 / 96)

    def dx(values):
        return np.fft.ifft(k * np.fft.fft(values, axis=1), axis=1).real

    rate = (u[2:] - u[:-2]) / (times[2] - times[0])
    told = sum(theta * eval(text, {"u": u, "dx": dx}) for text, theta in drawn.truth.items())
    assert_allclose(rate, told[1:-1], atol=3e-4 * np.abs(rate).max())


def test_the_layer_obeys_its_equations():
    drawn = layer(np.random.default_rng(5), NodesAndFrames(401, 801))
    a, b = (np.asarray(drawn.data.fields[name]) for name in "ab")
    times, h = drawn.data.times, 1 / 400
    for name, u in (("a", a), ("b", b)):
        rate = (u[2:, 1:-1] - u[:-2, 1:-1]) / (times[2] - times[0])
        bent = (u[1:-1, 2:] - 2 * u[1:-1, 1:-1] + u[1:-1, :-2]) / h**2
        told = drawn.truth[f"{name}: dx(dx({name}))"] * bent + drawn.truth[f"{name}: a*b**2"] * (a * b**2)[1:-1, 1:-1]
        assert_allclose(rate, told, atol=2e-3 * np.abs(rate).max())


@pytest.mark.parametrize("name", PHYSICS)
def test_coefficients_and_states_are_drawn_anew(name):
    one, same, other = (PHYSICS[name].draw(np.random.default_rng(seed), NodesAndFrames(24, 6)) for seed in (1, 1, 2))
    assert one.truth == same.truth != other.truth
    field = one.data.names[0]
    assert np.array_equal(one.data.fields[field], same.data.fields[field])
    assert set(one.truth) <= set(one.library().names)
    if PHYSICS[name].positive:
        assert min(np.min(u) for u in one.data.fields.values()) > -1e-6


def test_instruments():
    rng, flat = np.random.default_rng(0), line(np.full((200, 300), 2.0))
    blurred = observing.blurred(0.1, space=1.5)(flat, rng).fields["u"] - 2.0
    assert_allclose(blurred.std(), 0.2, rtol=0.02)
    assert_allclose(np.mean(blurred * np.roll(blurred, 3, axis=1)) / np.var(blurred), np.exp(-1), atol=0.03)
    assert abs(np.mean(blurred[1:] * blurred[:-1])) < 0.02 * np.var(blurred)
    counts = observing.counted(5)(flat, rng).fields["u"]
    assert_allclose([counts.mean(), counts.var()], [2.0, 2.0**2 / 5], rtol=0.02)
    assert_allclose(counts / 0.4, np.round(counts / 0.4), atol=1e-9)
    ramp = line(np.tile(np.linspace(0, 1, 300), (200, 1)))
    steps = observing.quantised(0.0)(ramp, rng).fields["u"]
    assert len(np.unique(steps)) == 201
    assert_allclose(np.std(steps - ramp.fields["u"]), 1 / 200 / np.sqrt(12), rtol=0.05)
    grown = observing.multiplied(0.1)(flat, rng).fields["u"]
    assert_allclose(grown.std(), np.hypot(0.2, 0.01), rtol=0.02)
    wild = observing.outlying(0.05)(ramp, rng).fields["u"] - ramp.fields["u"]
    assert_allclose(np.mean(np.abs(wild) > 0.1), 0.05, rtol=0.15)


def run(case: str, verdict: str, *, right: bool, z: float = 0.0, refused: bool = False) -> HonestyRun:
    names = () if refused else ("u",)
    return HonestyRun(case, "waves", 0, names, right, dict.fromkeys(names, z), verdict, refused, False, 1.0, 2.0)


def test_rates():
    found = rates(
        [
            run("clean", "consistent", right=True, z=1.0),
            run("clean", "consistent", right=True, z=3.0),
            run("clean", "consistent", right=False, z=5.0),
            run("9 frames", "under-resolved in time", right=True),
            run("9 frames", "missing operator", right=False),
            run("9 frames", "too few frames", right=False, refused=True),
        ]
    )
    assert_allclose(
        [found.right_consistent, found.right_alarm, found.wrong_alarm, found.wrong_consistent],
        [2 / 6, 1 / 6, 2 / 6, 1 / 6],
    )
    assert_allclose([found.coverage, found.named], [1 / 3, 1 / 2])
    assert found.verdicts == {"consistent": 3, "under-resolved in time": 1, "missing operator": 1, "refused": 1}


def test_the_command_writes_tables_and_goes_on_where_it_was(tmp_path, command):
    assert len(CASES) >= 30
    arguments = ("bench", "honesty", "--cases", "white 10%; 9 frames", "--repeats", 1, "--seed", 3, "--out", tmp_path)
    code, out, err = command(*arguments)
    assert code == 0, err
    assert "| white 10% " in out
    record = json.loads((tmp_path / "honesty.json").read_text())
    assert set(record["cases"]) == {"white 10%", "9 frames"}
    assert record["all"]["runs"] == 2
    assert (tmp_path / "honesty.png").read_bytes().startswith(b"\x89PNG")
    kept = (tmp_path / "honesty.jsonl").read_text()
    with (tmp_path / "honesty.jsonl").open("a") as file:
        file.write('{"case": "white 10%", "phys')  # killed while it wrote
    assert command(*arguments)[0] == 0
    assert (tmp_path / "honesty.jsonl").read_text() == kept


def test_unknown_cases_are_refused(tmp_path, command):
    code, _, err = command("bench", "honesty", "--cases", "whit 10%", "--out", tmp_path)
    assert code == 2
    assert "did you mean 'white 10%'?" in err
