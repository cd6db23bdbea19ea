"""Long tables of fixed sensors."""

import numpy as np
import pytest

from bvsi.app.readers import Reading, contents, read, read_with_notes, suggest
from bvsi.data import Grid, Mesh
from bvsi.errors import DataError
from readers.samples import save_table

T = np.array([0.0, 0.5, 2.0])


def scattered(dim=2, n=30):
    """Positions at random, and a field that is known everywhere."""
    points = np.random.default_rng(1).uniform(0, 1, (n, dim))
    names = "xyz"[:dim]
    time = np.repeat(T, n)
    columns = {"time": time, **{name: np.tile(points[:, i], T.size) for i, name in enumerate(names)}}
    return columns | {"u": field(*(columns[name] for name in names), time)}


def field(x, *rest):
    return np.sin(3 * x) + sum(rest)


def rows(columns, keep):
    return {name: values[keep] for name, values in columns.items()}


def test_a_column_that_numbers_the_sensors_is_no_field(tmp_path):
    columns = scattered()
    save_table(tmp_path / "a.csv", columns | {"station": np.tile(np.arange(30) + 100, T.size)})
    data = read(tmp_path / "a.csv")
    assert data.names == ("u",)
    named = read(tmp_path / "a.csv", Reading(fields=["u", "station"]))
    assert set(named.names) == {"u", "station"}


@pytest.mark.parametrize("name", ["id", ""])
@pytest.mark.parametrize("order", ["times", "sensors", "numbered and shuffled", "shuffled and numbered"])
def test_a_column_that_counts_the_rows_is_no_field(tmp_path, name, order):
    """As pandas writes its index, without a name."""
    columns = scattered()
    shuffled = np.random.default_rng(2).permutation(90)
    keep = {"times": np.arange(90), "sensors": np.arange(90).reshape(3, 30).T.ravel()}.get(order, shuffled)
    number = np.arange(90.0)[shuffled] if order == "numbered and shuffled" else np.arange(1.0, 91.0)
    path = tmp_path / "a.csv"
    save_table(path, {name: number} | rows(columns, keep))
    data, notes = read_with_notes(path)
    assert data.names == ("u",)
    told = f"column {name!r}" if name else "the column without a name"
    assert f"{told} counts the rows and is not a field" in notes
    save_table(path, {name: number} | rows(columns, keep) | {"temp [K]": rows(columns, keep)["u"]})
    assert read(path, suggest(path)).names == ("u", "temp")  # what init writes
    named = read(path, Reading(fields={"u": "u", "n": name}))
    assert set(named.names) == {"u", "n"}


def test_a_table_with_tabs_may_have_a_first_column_without_a_name(tmp_path):
    path, t = tmp_path / "a.csv", np.linspace(0, 1, 12)
    lines = [f"{i}\t{s}\t{np.cos(s)}\t{np.sin(s)}" for i, s in enumerate(t)]
    for header in ("\tt\ta\tb", "row\tt\ta\tb"):
        path.write_text("\n".join([header, *lines]))
        assert read(path).names == ("a", "b")
    path.write_text("\n".join(["#\tt\ta\tb", *(line.partition("\t")[2] for line in lines)]))
    assert read(path).names == ("a", "b")


def test_whole_numbers_that_do_not_count_the_rows_are_fields(tmp_path):
    columns = scattered()
    cells = np.arange(90.0)
    cells[7] = 90.0  # a gap
    save_table(tmp_path / "a.csv", columns | {"cells": cells})
    assert set(read(tmp_path / "a.csv").names) == {"u", "cells"}
    save_table(tmp_path / "a.csv", {name: columns[name] for name in ("time", "x", "y")} | {"n": np.arange(90.0)})
    assert read(tmp_path / "a.csv").names == ("n",)  # nothing else is there


def test_a_series_has_no_count_of_its_rows(tmp_path):
    path, t = tmp_path / "a.csv", np.linspace(0, 1, 12)
    save_table(path, {"": np.arange(12.0), "t": t, "a": np.cos(t), "b": np.sin(t)})
    data, notes = read_with_notes(path)
    assert data.names == ("a", "b")
    assert "the column without a name counts the rows and is not a field" in notes
    save_table(path, {"id": np.arange(12.0), "t": t, "position": np.cos(t), "velocity": np.sin(t)})
    assert read(path, suggest(path)).names == ("position", "velocity")


def test_columns_that_count_places_and_frames_are_neither_coordinates_nor_fields(tmp_path):
    """As in the scratch assays of Jin et al.: `Column,Position,…,Time`; and frame numbers beside the time."""
    t, x = np.repeat([0.0, 12.0, 24.0], 5), np.tile([25.0, 75.0, 125.0, 175.0, 225.0], 3)
    columns = {"Column": np.tile(np.arange(1.0, 6), 3), "Position_um": x, "cells": x + t}
    path = tmp_path / "a.csv"
    save_table(path, columns | {"frame": np.repeat(np.arange(3.0), 5), "Time (h)": t})
    guess = suggest(path)
    assert (guess.time, dict(guess.axes)) == ("Time (h)", {"Position_um": "x"})
    data = read(path, guess)
    assert data.names == ("cells",)
    np.testing.assert_array_equal(data.geometry.axes["x"], x[:5])
    units = {variable.name: variable.unit for variable in contents(path).variables}
    assert (units["Position_um"], units["Time (h)"], units["cells"]) == ("um", "h", "")


def test_a_column_called_position_with_a_row_per_time_is_a_series(tmp_path):
    path, t = tmp_path / "a.csv", np.linspace(0, 1, 9)
    save_table(path, {"t": t, "position": np.cos(t), "velocity": -np.sin(t)})
    guess = suggest(path)
    assert not guess.axes
    assert read(path, guess).names == ("position", "velocity")


@pytest.mark.parametrize("dim, kind", [(2, "triangle"), (3, "tetra")])
def test_scattered_sensors_become_a_mesh(tmp_path, dim, kind):
    columns = scattered(dim)
    order = np.random.default_rng(2).permutation(90)
    save_table(tmp_path / "a.csv", rows(columns, order))
    data = read(tmp_path / "a.csv")
    assert isinstance(data.geometry, Mesh)
    assert data.geometry.cell_type == kind
    for j, t in enumerate(T):
        np.testing.assert_array_equal(data.fields["u"][j], field(*data.geometry.points.T, t))
    volume = np.abs(np.linalg.det(np.diff(data.geometry.points[data.geometry.cells], axis=1)))
    from scipy.spatial import ConvexHull

    factorial = 2 if dim == 2 else 6
    assert (
        0.85 < volume.sum() / factorial / ConvexHull(data.geometry.points).volume <= 1 + 1e-12
    )  # flat ones are left out


def test_one_dimension_gives_a_grid_that_need_not_be_uniform(tmp_path):
    columns = scattered(1)
    save_table(tmp_path / "a.csv", columns)
    data = read(tmp_path / "a.csv")
    assert isinstance(data.geometry, Grid)
    np.testing.assert_array_equal(data.geometry.axes["x"], np.sort(columns["x"][:30]))


def test_missing_rows(tmp_path):
    columns = rows(scattered(), np.delete(np.arange(90), [7, 44]))
    save_table(tmp_path / "a.csv", columns)
    with pytest.raises(DataError, match=r'2 rows are missing.*missing = "nan"'):
        read(tmp_path / "a.csv")
    data = read(tmp_path / "a.csv", Reading(missing="nan"))
    assert np.isnan(data.observed("u")).sum(axis=1).tolist() == [1, 1, 0]


def test_empty_cells_are_missing_values(tmp_path):
    columns = {name: values.tolist() for name, values in scattered().items()}
    columns["u"][5] = ""
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    assert np.isnan(read(tmp_path / "a.csv", Reading(missing="nan")).observed("u")).sum() == 1


def test_static_columns_are_static_known_fields(tmp_path):
    columns = scattered()
    save_table(tmp_path / "a.csv", columns | {"k": columns["x"] ** 2})
    data = read(tmp_path / "a.csv", Reading(auxiliary=["k"]))
    assert data.names == ("u",)
    np.testing.assert_array_equal(data.auxiliary["k"], data.geometry.points[:, 0] ** 2)


@pytest.mark.parametrize("mark, separator", [("# ", ","), ("", ";"), ("", "\t")])
def test_separators_and_marked_headers(tmp_path, mark, separator):
    columns = scattered(1)
    table = np.stack(list(columns.values()), axis=1)
    np.savetxt(tmp_path / "a.tsv", table, "%.17g", separator, header=mark + separator.join(columns), comments="")
    assert read(tmp_path / "a.tsv").fields["u"].shape == (3, 30)


def test_dates_and_names_of_sensors(tmp_path):
    lines = ["when,sensor,x,u"]
    for day in (1, 2, 3):
        lines += [f"2024-01-0{day}T12:00,s{i},{i},{day * i}" for i in range(4)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    data = read(tmp_path / "a.csv", Reading(time="when"))
    assert data.names == ("u",)
    np.testing.assert_array_equal(data.times, [0.0, 86400.0, 172800.0])
    np.testing.assert_array_equal(data.fields["u"], np.outer([1, 2, 3], np.arange(4)))


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "empty"),
        ("time,x,u\n", "no rows"),
        ("0,1,2\n1,2,3\n", "names of the columns"),
        ("time,x,x\n0,1,2\n", "'x' occurs twice"),
        ("when,x,u\n0,1,2\n", 'write time = "name"'),
        ("time,x\n0,1\n", "no columns of numbers"),
        ("time,x,u\n0,1,2\n0,2,zwei\n", "line 3, column 'u': 'zwei' is not a number"),
        ("time,x,u\n0,1,2\n0,2\n", "line 3: 2 cells, the header has 3"),
        ("time,x,u\n0,1,2\n0,1,2\n1,1,2\n1,2,2\n", "rows 1 and 2 have the same time and position"),
        ("time,x,u\n0,,2\n0,1,2\n", "times or positions are empty"),
        ("time,x,u\n0,1,1\n1,2,1\n2,3,1\n3,4,1\n", "the sensors move"),
        ("time,x,u\n0,1,1\nsoon,2,1\n", "neither numbers nor dates"),
        ("time,x,u\n0,1,1\n1,1,1\n", "one position"),
        ("time,x,y,u\n0,0,0,1\n0,1,1,1\n0,2,2,1\n1,0,0,1\n1,1,1,1\n1,2,2,1\n", "span no mesh"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, text, words):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=words):
        read(tmp_path / "a.csv")


def test_a_mesh_whose_nodes_are_not_the_sensors(tmp_path):
    import meshio

    from readers import samples

    path, reading = samples.write_mesh(tmp_path, ".csv")
    mesh = samples.triangles()
    points = np.concatenate([0.9 * mesh.points, np.zeros((25, 1))], axis=1)
    meshio.gmsh.write(reading.mesh, meshio.Mesh(points, [("triangle", mesh.cells)]), fmt_version="2.2", binary=False)
    with pytest.raises(DataError, match="no sensor of their own"):
        read(path, reading)


@pytest.mark.parametrize("label", ["text", "number"])
def test_units_in_names_and_names_of_sensors_are_understood(tmp_path, label):
    """Columns as loggers write them: `x [m]` is a place, and neither names nor numbers of sensors are fields."""
    rng = np.random.default_rng(0)
    points, times = rng.uniform(0, 1, (30, 2)), np.arange(4.0)
    lines = ["station,time [s],x [m],y [m],temp [K]"]
    for t in times:
        for i, (x, y) in enumerate(points.tolist()):
            lines.append(f"{f'S{i:02d}' if label == 'text' else 100 + i},{t},{x},{y},{np.sin(x + y + t)}")
    path = tmp_path / "logger.csv"
    path.write_text("\n".join(lines))
    data = read(path, suggest(path))
    assert data.names == ("temp",)
    assert data.n_nodes == 30
    assert data.fields["temp"] == pytest.approx(np.sin(data.geometry.points.sum(axis=1) + times[:, None]))
