"""Tables of Excel and Parquet, images of microscopes: pixel sizes, times, channels; nothing outside is read."""

from __future__ import annotations

import sys
import types
import zipfile
from collections import namedtuple
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
import tifffile

from bvsi.app.readers import Reading, contents, read, suggest
from bvsi.app.readers.microscopy import of_bioio, ome_metadata
from bvsi.app.readers.read import read_with_notes
from bvsi.errors import DataError, MissingDependencyError

IMAGES = np.random.default_rng(0).integers(0, 4000, (6, 2, 10, 14)).astype(np.uint16)
SCALES = {
    "PhysicalSizeX": 500.0,
    "PhysicalSizeXUnit": "nm",
    "PhysicalSizeY": 0.25,
    "PhysicalSizeYUnit": "µm",
    "TimeIncrement": 2.0,
    "TimeIncrementUnit": "min",
    "Channel": {"Name": ["GFP", "DAPI 2"]},
}


def written(path, images=IMAGES, axes="TCYX", **changes):
    tifffile.imwrite(path, images, metadata={"axes": axes, **SCALES, **changes})
    return path


def xml_of(path):
    with tifffile.TiffFile(path) as file:
        return file.ome_metadata


def test_ome_tiff_has_its_scales(tmp_path):
    path = written(tmp_path / "film.ome.tif")
    data = read(path, suggest(path))
    np.testing.assert_allclose(data.geometry.axes["x"], 0.5 * np.arange(14))
    np.testing.assert_allclose(data.geometry.axes["y"], 0.25 * np.arange(10))
    np.testing.assert_allclose(data.times, 120.0 * np.arange(6))
    assert data.names == ("GFP", "DAPI_2")
    np.testing.assert_array_equal(data.fields["DAPI_2"][3].reshape(14, 10), IMAGES[3, 1].T)


def test_ome_tiff_of_one_channel_and_depth(tmp_path):
    path = written(tmp_path / "film.ome.tiff", IMAGES[:, :1], Channel={"Name": "x"})
    assert [v.name for v in contents(path).variables] == ["image", "x", "y", "t"]
    deep = written(tmp_path / "deep.ome.tif", IMAGES, "TZYX", PhysicalSizeZ=2.0, Channel={"Name": "u"})
    data = read(deep, suggest(deep))
    assert data.geometry.shape == (14, 10, 2)
    np.testing.assert_array_equal(data.fields["u"][2].reshape(14, 10, 2), IMAGES[2].T)


def test_times_of_the_images(tmp_path):
    path = written(tmp_path / "a.ome.tif", IMAGES[:, 0], "TYX", Plane={"DeltaT": [0.0, 3, 6, 9, 12, 15]})
    text = xml_of(path)
    assert ome_metadata(path, text.replace("TimeIncrement", "Nothing"))[1]["t"] == pytest.approx(3.0)
    assert ome_metadata(path, text)[1]["t"] == 120.0


@pytest.mark.parametrize("name", ["../secret.tif", "/etc/passwd", "a/b.tif", "..\\secret.tif"])
def test_images_outside_of_the_folder_are_not_read(tmp_path, name):
    path = written(tmp_path / "a.ome.tif")
    text = xml_of(path).replace("<TiffData ", f'<TiffData><UUID FileName="{name}"/></TiffData><TiffData ')
    tifffile.imwrite(path, IMAGES, description=text.encode(), metadata=None)
    with pytest.raises(DataError, match="outside its folder"):
        read(path)


def test_entities_are_refused(tmp_path):
    bomb = '<!DOCTYPE a [<!ENTITY b "bb">]><OME>&b;</OME>'
    with pytest.raises(DataError, match="entities"):
        ome_metadata(tmp_path / "a.ome.tif", bomb)


Sizes = namedtuple("Sizes", "Z Y X")


class Microscope:
    """What readers of bioio have: lazy images, sizes, times, names."""

    def __init__(self, path):
        import dask.array as da
        import xarray as xr

        self.path = path
        lazy = da.from_array(IMAGES[:, :, None], chunks=(1, 1, 1, 10, 14))
        self.xarray_dask_data = xr.DataArray(lazy, dims=tuple("TCZYX"))
        self.physical_pixel_sizes, self.time_interval = Sizes(None, 0.25, 0.5), timedelta(seconds=7)
        self.channel_names, self.scenes = ["GFP", "GFP"], ("one", "two")


def test_files_of_bioio(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bioio_nd2", types.SimpleNamespace(Reader=Microscope))
    path = tmp_path / "film.nd2"
    path.write_bytes(b"nd2")
    data, _ = read_with_notes(path, suggest(path))
    np.testing.assert_allclose(data.times, 7.0 * np.arange(6))
    np.testing.assert_allclose(data.geometry.axes["y"], 0.25 * np.arange(10))
    assert data.names == ("GFP", "GFP_1")
    np.testing.assert_array_equal(data.fields["GFP_1"][5].reshape(14, 10), IMAGES[5, 1].T)
    assert "2 scenes" in contents(path).notes[0]


@pytest.mark.filterwarnings("ignore")
def test_the_real_reader_has_what_we_ask_for(tmp_path):
    bioio = pytest.importorskip("bioio_ome_tiff")
    path = written(tmp_path / "film.ome.tif", PhysicalSizeX=0.5, PhysicalSizeXUnit="µm")  # it takes all for micrometres
    source = of_bioio(path, bioio.Reader(path))
    np.testing.assert_array_equal(source.arrays["GFP"].values(), IMAGES[:, 0])
    np.testing.assert_allclose(source.arrays["x"].values(), 0.5 * np.arange(14))


@pytest.mark.filterwarnings("ignore")
def test_czi(tmp_path):
    pytest.importorskip("bioio_czi")
    from pylibCZIrw import czi

    path = tmp_path / "film.czi"
    with czi.create_czi(str(path)) as document:
        for time, image in enumerate(IMAGES[:, 0]):
            document.write(data=image[..., None], plane={"T": time, "C": 0, "Z": 0})
        document.write_metadata("film", scale_x=0.5e-6, scale_y=0.25e-6)
    data = read(path, suggest(path))
    np.testing.assert_array_equal(data.fields[data.names[0]][4].reshape(14, 10), IMAGES[4, 0].T)
    np.testing.assert_allclose(data.geometry.axes["x"], 0.5 * np.arange(14))


@pytest.mark.parametrize("suffix", [".xlsx", ".parquet"])
def test_series_in_tables(tmp_path, suffix):
    path, t = tmp_path / f"run{suffix}", np.linspace(0, 1, 15)
    table = pd.DataFrame({"t": t, "u": np.sin(t), "v": np.cos(t), "who": "me"})
    table.to_excel(path, index=False) if suffix == ".xlsx" else table.to_parquet(path)
    data = read(path, suggest(path))
    assert data.names == ("u", "v")
    np.testing.assert_allclose(data.fields["v"][:, 0], np.cos(t), rtol=1e-12)


def test_only_the_first_sheet_is_read_and_that_is_said(tmp_path):
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"t": [0.0, 1, 2, 3], "u": [1.0, 2, 4, 8]}).to_excel(book, sheet_name="run", index=False)
        pd.DataFrame({"a": [1]}).to_excel(book, sheet_name="notes")
    assert contents(path).notes == ("of 2 sheets the first, 'run', is read",)


def test_a_table_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/a.xml", "a")
        archive.filelist[0].file_size = 1_100_000_000  # what its table of contents says
    with pytest.raises(DataError, match=r"unpacks to 1\.1 GB"):
        read(path)


def test_faults_name_the_file_itself(tmp_path):
    path = tmp_path / "run.parquet"
    pd.DataFrame({"t": [0.0, 0.0, 1.0], "u": [1.0, 2.0, 3.0]}).to_parquet(path)
    with pytest.raises(DataError) as told:
        read(path, Reading(time="t"))
    assert str(path) in str(told.value)
    assert ".csv" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "module", "wanted"),
    [
        ("a.xlsx", "openpyxl", "tables"),
        ("a.parquet", "pyarrow.parquet", "tables"),
        ("a.czi", "bioio_czi", "microscopy"),
    ],
)
def test_the_package_to_install_is_named(tmp_path, monkeypatch, name, module, wanted):
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(MissingDependencyError, match=rf"bvsi\[{wanted}\]"):
        read(path)
