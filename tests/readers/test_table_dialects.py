"""Tables as spreadsheets write them: decimal commas, Latin-1; and times that are not right."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bvsi.app.readers.read import contents, read, read_with_notes
from bvsi.app.readers.reading import Reading
from bvsi.data import Data, Grid
from bvsi.errors import DataError

T, X = np.linspace(0, 1, 5), np.linspace(0, 1, 6)
U = np.sin(3 * X + T[:, None])


def table(path, delimiter=",", decimal=".", extra="", encoding="utf-8", cell="{:.6f}"):
    rows = [delimiter.join(["time", "x", "u", *([extra] if extra else [])])]
    for t, frame in zip(T, U, strict=True):
        for x, u in zip(X, frame, strict=True):
            cells = [cell.format(v).replace(".", decimal) for v in (t, x, u)]
            rows.append(delimiter.join([*cells, *(["é"] if extra else [])]))
    path.write_bytes("\n".join(rows).encode(encoding))
    return path


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas_are_read_and_told(tmp_path, delimiter):
    data, notes = read_with_notes(table(tmp_path / "a.csv", delimiter, ","))
    np.testing.assert_allclose(data.grid_field("u"), U, atol=1e-6)
    assert any("decimal commas" in note for note in notes)


def test_points_and_commas_in_one_table_are_refused(tmp_path):
    path = table(tmp_path / "a.csv", ";", ",")
    lines = path.read_text().split("\n")
    lines[5] = lines[5].replace(",", ".")
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"line 6, column 'time'.*decimal point.*write one of them"):
        read(path)


def test_decimal_commas_between_commas_are_refused_with_the_remedy(tmp_path):
    with pytest.raises(DataError, match="decimal commas between commas"):
        read(table(tmp_path / "a.csv", ",", ","))


def test_latin_1_is_read_and_told(tmp_path):
    path = table(tmp_path / "a.csv", ";", extra="Größe", encoding="latin-1")
    data, notes = read_with_notes(path, Reading(fields=["u"]))
    np.testing.assert_allclose(data.grid_field("u"), U, atol=1e-6)
    assert any("Latin-1" in note for note in notes)
    assert "Größe" in [variable.name for variable in contents(path).variables]


def stored(path, times, u=U):
    xr.Dataset({"u": (("time", "x"), u)}, {"time": times, "x": X}).to_netcdf(path, engine="h5netcdf")
    return path


def test_time_that_runs_backwards_is_refused_with_the_remedy(tmp_path):
    words = r"times must be strictly increasing; it decreases from 1 to 0; turn it round"
    with pytest.raises(DataError, match=words):
        read(stored(tmp_path / "a.nc", T[::-1], U[::-1]))
    with pytest.raises(DataError, match=words):
        Data.from_xarray(xr.Dataset({"u": (("t", "x"), U)}, {"t": T[::-1], "x": X}), time="t")
    with pytest.raises(DataError, match=words):
        Data(T[::-1], {"u": U[::-1]}, Grid(x=X))


def test_times_that_are_none_are_named_with_the_remedy(tmp_path):
    times = np.where(np.arange(5) == 3, np.nan, T)
    with pytest.raises(
        DataError, match=r"times has 1 values that are not finite, first at index 3; drop these entries"
    ):
        Data(times, {"u": U}, Grid(x=X))
    dates = np.array(["2024-01-01", "2024-01-02", "NaT", "2024-01-04", "2024-01-05"], dtype="datetime64[ns]")
    with pytest.raises(DataError, match=r"1 entries without a date \(NaT\), first at index 2"):
        read(stored(tmp_path / "b.nc", dates))


def test_a_range_with_nan_is_refused(tmp_path):
    path = stored(tmp_path / "a.nc", T)
    with pytest.raises(DataError, match=r"select: the range of 'time' .* NaN is not a limit"):
        read(path, Reading(select={"t": (float("nan"), 0.5)}))


def test_fill_values_are_named_with_the_file_before_a_filter_spreads_them(tmp_path):
    spoilt = np.where(U > 0.9, 9.96921e36, U)
    with pytest.raises(DataError, match=r"a.nc: field 'u' holds the value 9.96921e\+36 .* times"):
        read(stored(tmp_path / "a.nc", T, spoilt))
