"""Files from somebody else: nothing in them is run, nothing outside is read, nothing unpacks without end."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from bvsi.app.files import load_netcdf
from bvsi.app.readers import Reading, contents, read, suggest
from bvsi.errors import DataError

T, X = np.linspace(0, 1, 5), np.linspace(0, 1, 7)
U = np.sin(6 * X + T[:, None])


class Program:
    """Pickled so that reading it again runs a program."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def zarray(shape: tuple[int, ...], dtype: str = "<f8", **changes) -> dict:
    plain = {"zarr_format": 2, "shape": list(shape), "chunks": list(shape), "dtype": dtype, "compressor": None}
    return {**plain, "fill_value": None, "order": "C", "filters": None, **changes}


def v3(shape: tuple[int, ...], dims: tuple[str, ...], codecs: list[dict], data_type: object = "float64") -> dict:
    grid = {"name": "regular", "configuration": {"chunk_shape": list(shape)}}
    keys = {"name": "default", "configuration": {"separator": "/"}}
    head = {"zarr_format": 3, "node_type": "array", "shape": list(shape), "data_type": data_type, "chunk_grid": grid}
    return {**head, "chunk_key_encoding": keys, "fill_value": 0, "codecs": codecs, "dimension_names": list(dims)}


def store(path: Path, extra: list[tuple[str, bytes]]) -> Path:
    """A Zarr store of version 2 with t, x and u, and further entries; a folder, or zipped by its name."""
    entries = [(".zgroup", json.dumps({"zarr_format": 2}).encode())]
    for name, values, dims in (("t", T, ["t"]), ("x", X, ["x"]), ("u", U, ["t", "x"])):
        entries.append((f"{name}/.zarray", json.dumps(zarray(values.shape)).encode()))
        entries.append((f"{name}/.zattrs", json.dumps({"_ARRAY_DIMENSIONS": dims}).encode()))
        entries.append((f"{name}/{'.'.join('0' * values.ndim)}", values.astype("<f8").tobytes()))
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in (*entries, *extra):
                archive.writestr(name, content)
        return path
    for name, content in (*entries, *extra):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def refused(path: Path, match: str, reading: Reading | None = None) -> None:
    """Every way to open the file is refused."""
    for look in (contents, suggest):
        with pytest.raises(DataError, match=match):
            look(path, reading)
    with pytest.raises(DataError, match=match):
        read(path, reading)


PLAIN = [{"name": "bytes", "configuration": {"endian": "little"}}]
PICKLED = [{"id": "vlen-utf8"}, {"id": "pickle"}]


@pytest.mark.parametrize("suffix", [".zarr", ".zarr.zip"])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("meta", [zarray((1,), "|O", filters=PICKLED), zarray((1,), filters=[{"id": "pickle"}])])
def test_a_harmless_record_does_not_hide_one_with_pickle(tmp_path, suffix, order, meta, monkeypatch):
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    records = [("evil/.zarray", meta), ("evil/zarr.json", v3((1,), ("evil",), PLAIN))]
    extra = [(name, json.dumps(record).encode()) for name, record in records[::order]]
    extra += [("evil/.zattrs", b'{"_ARRAY_DIMENSIONS": ["evil"]}')]
    extra += [("evil/0", pickle.dumps([Program(tmp_path / "pwned"), (1,)]))]
    refused(store(tmp_path / f"a{suffix}", extra), "pickle|both versions")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("suffix", [".zarr", ".zarr.zip"])
@pytest.mark.parametrize(
    ("meta", "match"),
    [
        (zarray((1,), "|O", filters=PICKLED), "pickle"),
        (zarray((1,), "|O", filters=[{"id": "vlen-utf8"}]), "type"),
        (zarray((1,), filters=[{"id": "my_codec"}]), "codec 'my_codec'"),
        (zarray((1,), compressor={"id": "json2"}), "codec 'json2'"),
        (zarray((1,), chunks=[10**10]), None),  # the array itself is small
        (zarray((10**10,), chunks=[10**10]), "GB at once"),
        (zarray((-1,)), "no proper shape"),
        (zarray((1,), chunks=["a"]), "no proper shape"),
        ([1], "not a table"),
    ],
)
def test_only_known_records_pass(tmp_path, suffix, meta, match):
    path = store(tmp_path / f"a{suffix}", [("evil/.zarray", json.dumps(meta).encode())])
    if match is None:
        contents(path)
    else:
        refused(path, match)


@pytest.mark.parametrize("inner", ["pickle", "numcodecs.pickle"])
def test_codecs_inside_codecs_are_looked_at(tmp_path, inner):
    shard = {"chunk_shape": [1], "codecs": [*PLAIN, {"name": inner, "configuration": {}}], "index_codecs": PLAIN}
    meta = v3((1,), ("evil",), [{"name": "sharding_indexed", "configuration": shard}])
    (tmp_path / "a.zarr/evil").mkdir(parents=True)
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group"}))
    (tmp_path / "a.zarr/evil/zarr.json").write_text(json.dumps(meta))
    refused(tmp_path / "a.zarr", "pickle")


@pytest.mark.parametrize("name", ["u/.zarray", "../u", "/u", "a//b", "a/./b", "a\\b"])
def test_entries_of_a_zip_are_plain_and_there_once(tmp_path, name):
    with pytest.warns(UserWarning, match="Duplicate") if name == "u/.zarray" else _nothing():
        path = store(tmp_path / "a.zarr.zip", [(name, b"{}")])
    refused(path, "twice, or has no plain name")


class _nothing:  # noqa: N801  a context
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


def test_large_metadata_are_refused_unread(tmp_path):
    refused(store(tmp_path / "a.zarr.zip", [("v/.zattrs", b" " * 2_000_000)]), "too large")


def test_links_in_a_store_stay_in_its_folder(tmp_path):
    (tmp_path / "secret").write_bytes(U.tobytes())
    path = store(tmp_path / "in/a.zarr", [])
    (path / "u/0.0").unlink()
    (path / "u/0.0").symlink_to(tmp_path / "secret")
    refused(path, "outside its folder")
    assert np.array_equal(read(path, Reading(allow_outside=True)).fields["u"], U)


def secret(folder: Path) -> Path:
    """A file elsewhere, with values."""
    folder.mkdir()
    with h5py.File(folder / "secret.h5", "w") as file:
        file["u"] = U
    (folder / "secret.bin").write_bytes(U.tobytes())
    return folder


def external(file, place: str) -> None:
    file.create_dataset("u", U.shape, "f8", external=[(f"{place}.bin", 0, U.nbytes)])


def virtual(file, place: str) -> None:
    layout = h5py.VirtualLayout(U.shape, "f8")
    layout[...] = h5py.VirtualSource(f"{place}.h5", "u", U.shape)
    file.create_virtual_dataset("u", layout)


def linked(file, place: str) -> None:
    file["u"] = h5py.ExternalLink(f"{place}.h5", "u")


def grouped(file, place: str) -> None:
    file.create_group("deep/er")["u"] = h5py.ExternalLink(f"{place}.h5", "u")
    file["u"] = h5py.SoftLink("/deep/er/u")


WAYS = [external, virtual, linked, grouped]


@pytest.mark.parametrize("suffix", [".h5", ".nc", ".mat"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("relative", [True, False])
def test_hdf5_takes_nothing_from_outside(tmp_path, suffix, way, relative):
    place = secret(tmp_path / "elsewhere") / "secret"
    (tmp_path / "in").mkdir()
    path = tmp_path / f"in/a{suffix}"
    with h5py.File(path, "w") as file:
        file["t"], file["x"] = T, X
        way(file, os.path.relpath(place, path.parent) if relative and way is not external else str(place))
    refused(path, "outside its folder", Reading(dims=("t", "x")))


@pytest.mark.parametrize("way", [external, virtual])
def test_hdf5_takes_values_from_its_own_folder_and_by_permission_from_others(tmp_path, way, monkeypatch):
    secret(tmp_path / "in")
    monkeypatch.chdir(tmp_path / "in")
    for path, place in ((tmp_path / "in/a.h5", "secret"), (tmp_path / "b.h5", str(tmp_path / "in/secret"))):
        with h5py.File(path, "w") as file:
            file["t"], file["x"] = T, X
            way(file, place)
    wanted = Reading(dims=("t", "x"), allow_outside=True)
    assert np.array_equal(read("a.h5", Reading(dims=("t", "x"))).fields["u"], U)
    (tmp_path / "out").mkdir()
    (tmp_path / "b.h5").rename(tmp_path / "out/b.h5")
    assert np.array_equal(read(tmp_path / "out/b.h5", wanted).fields["u"], U)


def test_a_chain_of_files_is_followed_to_its_end(tmp_path):
    secret(tmp_path / "elsewhere")
    (tmp_path / "in").mkdir()
    with h5py.File(tmp_path / "in/b.h5", "w") as file:
        file["u"] = h5py.ExternalLink("../elsewhere/secret.h5", "u")
    with h5py.File(tmp_path / "in/a.h5", "w") as file:
        file["v"] = h5py.ExternalLink("b.h5", "u")
    refused(tmp_path / "in/a.h5", "outside its folder")


def test_results_take_nothing_from_outside(tmp_path):
    secret(tmp_path / "elsewhere")
    (tmp_path / "in").mkdir()
    with h5py.File(tmp_path / "in/result.nc", "w") as file:
        external(file, str(tmp_path / "elsewhere/secret"))
    with pytest.raises(DataError, match="outside its folder"):
        load_netcdf(tmp_path / "in/result.nc")


XDMF = """<Xdmf Version="3.0"><Domain><Grid Name="g" GridType="Collection" CollectionType="Temporal"><Grid Name="m">
<Geometry GeometryType="XY"><DataItem DataType="Float" Dimensions="3 2" Format="{form}">{place}</DataItem></Geometry>
<Topology TopologyType="Triangle" NumberOfElements="1"><DataItem DataType="Int" Dimensions="1 3" Format="XML">0 1 2
</DataItem></Topology><Time Value="0"/></Grid></Grid></Domain></Xdmf>"""


@pytest.mark.parametrize(("form", "end"), [("HDF", "secret.h5:/u"), ("Binary", "secret.bin")])
def test_xdmf_takes_nothing_from_outside(tmp_path, form, end):
    place = secret(tmp_path / "elsewhere")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.xdmf").write_text(XDMF.format(form=form, place=place / end))
    refused(tmp_path / "in/a.xdmf", "outside its folder")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_behind_xdmf_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.xdmf").write_text(XDMF.format(form="Binary", place="pipe"))
    refused(tmp_path / "a.xdmf", "not a file")


def test_a_collection_names_files_of_its_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "a.vtu").write_text("<VTKFile/>")
    entry = f'<DataSet timestep="0" file="{tmp_path}/a.vtu"/>'
    (tmp_path / "in/a.pvd").write_text(f"<VTKFile><Collection>{entry}</Collection></VTKFile>")
    refused(tmp_path / "in/a.pvd", "outside its folder")


def npz(path: Path, shape: tuple[int, ...], values: bytes = b"") -> Path:
    """An archive with t, x, and u whose header states this shape."""
    np.savez(path, t=T, x=X)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("u.npy", "w") as stream:
        np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": "<f8"})
        stream.write(values)
    return path


def test_headers_that_lie_are_refused(tmp_path):
    refused(npz(tmp_path / "a.npz", (10**6, 10**6)), "more values than there are")
    refused(npz(tmp_path / "b.npz", (-5, 7), U.tobytes()), "more values than there are")


def test_what_unpacks_beyond_the_limit_is_refused_unread(tmp_path):
    shape = (70_000, 1000)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"], file["x"] = np.arange(70_000.0), np.arange(1000.0)
        file.create_dataset("u", shape, "f8", chunks=shape, compression="gzip")
    with pytest.raises(DataError, match=r"1\.12 GB at once"):
        read(tmp_path / "a.h5", Reading(dims=("t", "x")))


def test_many_arrays_and_columns_are_refused_soon(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for k in range(3000):
            archive.writestr(f"a{k}.npy", b"")
    refused(tmp_path / "a.npz", "3000 arrays")
    columns = [f"c{k}" for k in range(2500)]
    rows = [",".join(map(str, range(2502))) for _ in range(12)]
    (tmp_path / "a.csv").write_text("\n".join([",".join(["t", "x", *columns]), *rows]))
    assert len(contents(tmp_path / "a.csv").variables) == 2502
    with pytest.raises(DataError, match="fields: more than 32"):
        suggest(tmp_path / "a.csv")


def test_coordinates_are_not_read_without_end(tmp_path):
    path = tmp_path / "a.nc"
    xr.Dataset({"u": (("t", "x"), U)}, {"t": T, "x": X}).to_netcdf(path, engine="h5netcdf")
    with h5py.File(path, "a") as file:
        file.create_dataset("y", (10**10,), "f8", chunks=(1000,)).make_scale("y")
    refused(path, "coordinate 'y' has 10000000000 entries")


@pytest.mark.parametrize("name", ["größe", "u\nnext: rm -rf", "данные", "x y", "1st", "lambda", "time", "u_", "_"])
def test_names_that_no_field_may_have_are_replaced_by_ones_that_operators_can_use(tmp_path, name):
    np.savez(tmp_path / "a.npz", **{"t": T, "x": X, name: U})
    (field,) = suggest(tmp_path / "a.npz").fields
    assert field.isascii()
    assert field.isidentifier()
    assert not field.endswith("_")
    assert tuple(read(tmp_path / "a.npz", suggest(tmp_path / "a.npz")).fields) == (field,)


def test_what_was_never_written_is_not_read_for_minutes(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"], file["x"] = np.arange(20_000.0), np.arange(1000.0)
        file.create_dataset("u", (20_000, 1000), "f8", chunks=(100, 1000))
    with pytest.raises(DataError, match="never written"):
        read(tmp_path / "a.h5", Reading(dims=("t", "x"), max_memory=1e8))


def test_a_result_that_would_take_gigabytes_is_refused(tmp_path):
    with h5py.File(tmp_path / "result.nc", "w") as file:
        file.create_dataset("mean", (2,), "f8", maxshape=(None,), chunks=(2**28,))
    with pytest.raises(DataError, match=r"take 2\.15 GB"):
        load_netcdf(tmp_path / "result.nc")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("place", "number"), [(12, 2**31 - 1), (12, 100), (4, 2**31 - 1), (8, 2**31 - 1)])
def test_a_chunk_whose_header_lies_does_not_crash_blosc(tmp_path, version, place, number):
    from numcodecs import Blosc
    from zarr.codecs import BloscCodec

    data = xr.Dataset({"u": (("t", "x"), U)}, {"t": T, "x": X})
    packed = {"compressors": (Blosc(cname="lz4"),) if version == 2 else (BloscCodec(cname="lz4"),)}
    data.to_zarr(tmp_path / "a.zarr", zarr_format=version, consolidated=False, encoding={"u": packed})
    assert np.array_equal(read(tmp_path / "a.zarr").fields["u"], U)
    (chunk,) = (p for p in (tmp_path / "a.zarr/u").rglob("*") if p.is_file() and "z" not in p.name)
    content = bytearray(chunk.read_bytes())
    content[place : place + 4] = number.to_bytes(4, "little")
    chunk.write_bytes(content)
    with pytest.raises(DataError, match="header is wrong"):
        read(tmp_path / "a.zarr")


def test_blosc_inside_shards_is_refused_since_its_headers_cannot_be_checked(tmp_path):
    import zarr
    from zarr.codecs import BloscCodec

    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    shards = tuple(2 * n for n in (5, 8))
    group.create_array("u", shape=U.shape, chunks=(5, 8), shards=shards, dtype="f8", compressors=BloscCodec())
    with pytest.raises(DataError, match="'blosc' inside shards; save it with zstd"):
        read(tmp_path / "a.zarr")


def test_names_with_lines_of_their_own_make_no_lines_of_a_message(tmp_path):
    """Found by the fuzzer: the message went on with what the file said."""
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["t"], file["u\nerror: all is well"] = T, np.ones((3, 4, 5))
    with pytest.raises(DataError, match="all is well") as error:
        read(tmp_path / "run.h5", Reading(dims=("t", "x")))
    assert "\n" not in str(error.value)
