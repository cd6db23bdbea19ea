"""The study with methods made up for the test: resuming, broken files, failures, tables, figure."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from bvsi.app.plot.discovery_benchmark import discovery_benchmark
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.operators import Library
from bvsi.studies.benchmarks.discovery import report
from bvsi.studies.benchmarks.discovery.method import CoefficientEstimate
from bvsi.studies.benchmarks.discovery.store import FILE, Key, Run, Store
from bvsi.studies.benchmarks.discovery.study import Plan, run
from bvsi.studies.benchmarks.discovery.table import comma_separated, markdown, rows


@dataclass(frozen=True)
class Decay:
    """u_t = −2u; the noise is stated in the data, so that methods can use it."""

    name: str = "decay"
    truth: dict = field(default_factory=lambda: {"u": -2.0})
    candidates: dict = field(default_factory=lambda: {"u": ("u", "u**2")})

    def library(self) -> Library:
        return Library(self.candidates)

    def noisy(self, level: float, seed: int) -> Data:
        values = np.full((2, 3), level * (1 + seed))
        return Data.from_arrays({"u": values}, times=[0, 1], geometry=Grid(x=[0, 1, 2]))


@dataclass(frozen=True)
class Fake:
    """Finds −2(1 + s·level·(1 + seed)), or fails from some level on."""

    name: str = "bvsi"
    slope: float = 1.0
    fails_from: float = np.inf
    expresses: bool = True
    calls: list = field(default_factory=list, compare=False)

    @property
    def settings(self) -> dict:
        return {"slope": self.slope}

    def applies(self, case) -> bool:
        return self.expresses

    def estimate(self, case, data) -> CoefficientEstimate:
        noise = float(data.fields["u"][0, 0])
        self.calls.append((case.name, noise))
        if noise >= self.fails_from:
            raise RuntimeError("no solution")
        theta = -2 * (1 + self.slope * noise)
        intervals = {"u": (theta - 0.5, theta + 0.5)}
        return CoefficientEstimate(
            {"u": theta}, case.truth, 0.25, intervals, verdict="consistent" if noise < 0.2 else "misfit: x"
        )


def plan(*methods, levels=(0.0, 0.1), seeds=2) -> Plan:
    return Plan([Decay()], methods, levels, seeds)


def test_every_combination_is_run_once_and_noise_free_data_with_one_seed(tmp_path):
    fake = Fake()
    runs = run(plan(fake), Store(tmp_path))
    assert [(r.key.level, r.key.seed) for r in runs] == [(0.0, 0), (0.1, 0), (0.1, 1)]
    assert_allclose([r.e_inf for r in runs], [0, 0.1, 0.2], atol=1e-15)
    assert [r.tpr for r in runs] == [1, 1, 1]
    assert [dict(r.covered) for r in runs] == [{"u": True}] * 3


def test_a_finished_study_is_read_and_not_repeated(tmp_path):
    first = run(plan(Fake()), Store(tmp_path))
    again = Fake()
    assert run(plan(again), Store(tmp_path)) == first
    assert again.calls == []


def test_more_seeds_and_levels_run_only_what_is_missing(tmp_path):
    run(plan(Fake()), Store(tmp_path))
    more = Fake()
    run(plan(more, levels=(0.0, 0.1, 0.5), seeds=3), Store(tmp_path))
    assert_allclose([noise for _, noise in more.calls], [0.3, 0.5, 1.0, 1.5])


def test_a_line_cut_off_by_a_kill_is_done_again(tmp_path):
    """Cut anywhere, even before the end of the line alone; the file is whole afterwards."""
    first = run(plan(Fake()), Store(tmp_path))
    whole = (tmp_path / FILE).read_bytes()
    for cut in (1, 2, 40):
        (tmp_path / FILE).write_bytes(whole[:-cut])
        again = Fake()
        assert run(plan(again), Store(tmp_path)) == first
        assert_allclose([noise for _, noise in again.calls], [0.2])
        assert (tmp_path / FILE).read_bytes() == whole


def test_other_settings_start_anew_and_the_old_runs_stay(tmp_path):
    first = run(plan(Fake()), Store(tmp_path))
    other = Fake(slope=2.0)
    run(plan(other), Store(tmp_path))
    assert len(other.calls) == 3
    assert run(plan(Fake()), Store(tmp_path)) == first
    assert len((tmp_path / FILE).read_text(encoding="utf-8").splitlines()) == 6


def test_another_truth_starts_anew(tmp_path):
    run(plan(Fake()), Store(tmp_path))
    other = Fake()
    run(replace(plan(other), cases=[Decay(truth={"u": -3.0})]), Store(tmp_path))
    assert len(other.calls) == 3


def test_lines_hold_version_and_settings_in_full(tmp_path):
    run(plan(Fake()), Store(tmp_path))
    line = json.loads((tmp_path / FILE).read_text(encoding="utf-8").splitlines()[0])
    assert line["bvsi"]
    assert line["settings"]["method"] == {"slope": 1.0}


def test_a_strange_line_is_told_with_its_number(tmp_path):
    run(plan(Fake()), Store(tmp_path))
    with (tmp_path / FILE).open("a", encoding="utf-8") as file:
        file.write("{}\n")
    with pytest.raises(BvsiError, match="line 4"):
        Store(tmp_path)


def test_a_failure_is_a_result_and_the_study_goes_on(tmp_path):
    failing = Fake(fails_from=0.15)
    runs = run(plan(failing, Fake("PySINDy")), Store(tmp_path))
    failed = [r for r in runs if r.error is not None]
    assert [(r.key.method, r.key.seed, r.tpr, r.e_inf) for r in failed] == [("bvsi", 1, 0.0, 1.0)]
    assert failed[0].error == "RuntimeError: no solution"
    assert len(runs) == 6
    again = Fake(fails_from=0.15)
    assert run(plan(again, Fake("PySINDy")), Store(tmp_path)) == runs
    assert again.calls == []


def test_coefficients_that_are_not_finite_are_a_failure(tmp_path):
    (found,) = run(plan(Fake(slope=np.nan), levels=(0.0,)), Store(tmp_path))
    assert "not finite" in str(found.error)


def test_a_method_that_cannot_express_the_case_is_left_out(tmp_path):
    runs = run(plan(Fake(), Fake("PySINDy", expresses=False)), Store(tmp_path))
    assert {r.key.method for r in runs} == {"bvsi"}


def test_progress_ends_at_the_number_of_data_sets(tmp_path):
    seen = []
    run(plan(Fake()), Store(tmp_path), progress=lambda done, total, what: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("bad", [{"seeds": 0}, {"levels": ()}, {"levels": (-0.1,)}, {"levels": (np.nan,)}])
def test_bad_plans_are_refused(bad):
    with pytest.raises(BvsiError, match=r"seeds|level"):
        plan(Fake(), **bad)


def made(method: str, e_inf: float, **more) -> Run:
    return Run(Key("case", 0.1, 0, method, ""), **{"tpr": 1.0, "seconds": 2.0, **more}, e_inf=e_inf)


RUNS = [
    made("bvsi", 0.01, covered={"u": True, "v": True}, verdict="consistent"),
    made("bvsi", 0.02, covered={"u": True, "v": False}, verdict="misfit: 3"),
    made("bvsi", 1.0, tpr=0.0, error="BvsiError: no"),
    made("PySINDy", 0.2, tpr=0.5),
]


def test_a_row_has_means_medians_and_shares():
    (row,) = rows(RUNS)
    assert row.ours is not None
    assert row.peer is not None
    assert row.ours.tpr == pytest.approx(2 / 3)
    assert row.ours.e_inf == 0.02
    assert row.ours.coverage == 0.75
    assert row.ours.consistent == 0.5
    assert row.ours.failed == 1
    assert row.peer.coverage is None
    assert row.ratio == pytest.approx(10)


def test_the_markdown_table_has_a_cell_per_column_and_tells_failures():
    text = markdown(rows(RUNS))
    head, _, line = text.splitlines()[:3]
    assert head.count("|") == line.count("|")
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["case", "10%", "0.67", "0.50", "2.0e-02", "2.0e-01", "10", "0.75", "0.50", "2.0", "2.0"]
    assert "bvsi failed in 1 of 3 runs, BvsiError: no" in text


def test_without_the_peer_its_cells_are_dashes():
    line = markdown(rows(RUNS[:2])).splitlines()[2]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert [cells[i] for i in (3, 5, 6, 10)] == ["–"] * 4


def test_the_csv_file_holds_the_numbers_in_full():
    (row,) = csv.DictReader(io.StringIO(comma_separated(rows(RUNS))))
    assert float(row["bvsi_tpr"]) == pytest.approx(2 / 3, rel=1e-15)
    assert float(row["peer_e_inf"]) == 0.2
    assert row["peer_coverage"] == ""
    assert float(row["ratio"]) == pytest.approx(10)


def test_the_figure_shows_medians_and_means_by_level_and_method():
    fake = [
        {"case": "a", "level": level, "method": method, "e_inf": size * (1 + level) * (1 + seed), "tpr": 1 - seed / 2}
        for level in (0.0, 0.5)
        for method, size in (("bvsi", 1e-3), ("PySINDy", 1e-2))
        for seed in (0, 1, 2)
    ]
    alone = {"case": "b", "level": 0.5, "method": "bvsi", "e_inf": 0.1, "tpr": 1.0}
    axes = Figure(layout="constrained").subplots(2, 2)
    discovery_benchmark(axes, [*fake, alone])
    ours, peer = (container.lines[0] for container in axes[0, 0].containers)
    assert_allclose(ours.get_ydata(), [2e-3, 3e-3])
    assert_allclose(peer.get_ydata(), [2e-2, 3e-2])
    assert_allclose(axes[0, 1].lines[0].get_ydata(), [0.5, 0.5])
    assert_allclose(axes[1, 1].lines[0].get_xdata(), [1])
    assert [t.get_text() for t in axes[1, 0].get_xticklabels()] == ["0%", "50%"]
    assert axes[0, 0].get_yscale() == "log"
    assert ours.get_color() != peer.get_color()
    assert ours.get_marker() != peer.get_marker()
    axes[0, 0].figure.savefig("/dev/null", format="png")


def test_a_figure_of_the_wrong_size_is_refused():
    with pytest.raises(BvsiError, match="axes"):
        discovery_benchmark(Figure().subplots(2, 2), [{"case": "a", "level": 0, "method": "m", "e_inf": 1, "tpr": 1}])


def test_a_report_is_three_files(tmp_path):
    written = report.write(run(plan(Fake(), Fake("PySINDy", 3.0)), Store(tmp_path)), tmp_path)
    assert [path.name for path in written.files] == ["table.md", "table.csv", "figure.png"]
    assert all(path.stat().st_size for path in written.files)
    assert written.table == (tmp_path / "table.md").read_text(encoding="utf-8")
