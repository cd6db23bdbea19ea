"""Packs: whole, repeatable to the bit, and safe to open from strangers."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bvsi.app.files import netcdf_bytes
from bvsi.app.study import load_study, run_study
from bvsi.app.study.pack import MANIFEST, _manifest, pack, verify
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.noise import add_noise

STUDY = """
[data]
file = "run.nc"

[library.equations]
u = ["dx(dx(u))", "dx(u)", "u"]

[check]
enabled = false

[forecast]
enabled = false

[[quantity]]
name = "time scale"
expression = "1/[dx(dx(u))]"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, study and result: u_t = 0.3 u_xx − u_x."""
    folder = tmp_path_factory.mktemp("packed")
    x, t = np.arange(48) * 2 * np.pi / 48, np.linspace(0, 1, 31)[:, None]
    u = sum(np.exp(-0.3 * k**2 * t) * np.sin(k * (x - t)) / k for k in (1, 2, 3))
    clean = Data.from_arrays({"u": u}, times=t.ravel(), geometry=Grid(x=x, periodic="x"))
    data = add_noise(clean, 0.01, np.random.default_rng(0))
    (folder / "run.nc").write_bytes(netcdf_bytes(data.to_xarray()))
    (folder / "study.toml").write_text(STUDY)
    run_study(load_study(folder / "study.toml"))
    (folder / "run.bvsi.zip").write_bytes(pack(folder / "result"))
    return folder


def members(home: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(home / "run.bvsi.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(path: Path, content: dict[str, bytes] | list[tuple[str, bytes]]) -> Path:
    rows = content.items() if isinstance(content, dict) else content
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")  # of a name twice
        for name, value in rows:
            archive.writestr(name, value)
    return path


def digit_changed(content: bytes, place: int) -> bytes:
    """One digit of a text raised by one, or a byte of a binary file."""
    digits = [i for i, byte in enumerate(content) if chr(byte).isdigit()]
    at = digits[place % len(digits)]
    return content[:at] + bytes([48 + (content[at] - 48 + 1) % 10]) + content[at + 1 :]


def test_a_pack_is_made_of_the_result_and_nothing_else(home):
    assert pack(home / "result") == (home / "run.bvsi.zip").read_bytes()
    assert {*members(home)} == {
        MANIFEST, "result.nc", "report.html", "report.md", "equation.tex", "coefficients.csv", "summary.json",
        "settings.json", "timing.json", "study.toml", "quantities/time_scale.nc",
    }  # fmt: skip


def test_a_pack_is_repeated_to_the_bit(home):
    alone = verify(home / "run.bvsi.zip")
    assert alone.repeated == ""
    assert "--data run.nc" in alone.lines[-1]
    assert verify(home / "run.bvsi.zip", [home / "run.nc"]).repeated == "bit"


def test_a_changed_digit_in_any_file_is_found(home, tmp_path):
    whole = members(home)
    for name in whole:
        for place in (0, 3, -1):
            changed = {**whole, name: digit_changed(whole[name], place)}
            if changed[name] == whole[name]:
                continue
            with pytest.raises(BvsiError, match=r"was changed|no JSON"):
                verify(zipped(tmp_path / "changed.zip", changed))


def test_a_changed_byte_of_the_archive_is_found_or_changes_nothing(home, tmp_path):
    content = (home / "run.bvsi.zip").read_bytes()
    reference = verify(home / "run.bvsi.zip")
    rng, path = np.random.default_rng(0), tmp_path / "changed.zip"
    for at in rng.integers(0, len(content), 60):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x11]) + content[at + 1 :])
        try:
            found = verify(path)
        except BvsiError:
            continue
        assert found.digest == reference.digest
        assert found.found.equation == reference.found.equation


@pytest.mark.parametrize("name", ["summary.json", "coefficients.csv", "equation.tex"])
def test_tables_that_do_not_follow_are_found_beside_a_right_manifest(home, tmp_path, name):
    whole = members(home)
    del whole[MANIFEST]
    whole[name] = digit_changed(whole[name], 5)
    forged = {MANIFEST: _manifest(whole, ""), **whole}
    with pytest.raises(BvsiError, match=f"{name} is not what follows"):
        verify(zipped(tmp_path / "forged.zip", forged))


def test_a_forged_result_is_found_by_repeating_it(home, tmp_path):
    from dataclasses import replace

    from bvsi.app.report import equation_latex
    from bvsi.app.storage import to_bytes
    from bvsi.app.study.run import as_json
    from bvsi.app.study.summary import coefficients_csv, summary
    from bvsi.discovery import Discovery

    found = Discovery.load(home / "result" / "result.nc")
    other = replace(found, posterior=replace(found.posterior, mean=found.theta * 1.5))
    whole = members(home)
    del whole[MANIFEST]
    whole |= {"result.nc": to_bytes(other), "equation.tex": equation_latex(other).encode()}
    whole |= {"coefficients.csv": coefficients_csv(other).encode(), "summary.json": as_json(summary(other)).encode()}
    path = zipped(tmp_path / "forged.zip", {MANIFEST: _manifest(whole, ""), **whole})
    verify(path)
    with pytest.raises(BvsiError, match="run again, the result differs"):
        verify(path, [home / "run.nc"])


def test_other_data_are_refused(home, tmp_path):
    (tmp_path / "other.nc").write_bytes((home / "run.nc").read_bytes() + b" ")
    with pytest.raises(BvsiError, match="not the data of the result"):
        verify(home / "run.bvsi.zip", [tmp_path / "other.nc"])
    with pytest.raises(BvsiError, match="no such file"):
        verify(home / "run.bvsi.zip", [tmp_path / "absent.nc"])
    with pytest.raises(BvsiError, match="1 data files"):
        verify(home / "run.bvsi.zip", [home / "run.nc", home / "run.nc"])


def test_a_study_that_names_another_file_is_not_run(home, tmp_path):
    """A pack from a stranger must not make us read a file of ours."""
    whole = members(home)
    del whole[MANIFEST]
    whole["study.toml"] = whole["study.toml"].replace(b'file = "run.nc"', b'file = "run.nc"\nmesh = "/etc/passwd"')
    path = zipped(tmp_path / "mesh.zip", {MANIFEST: _manifest(whole, ""), **whole})
    with pytest.raises(BvsiError, match="mesh"):
        verify(path, [home / "run.nc"])


def test_archives_that_no_pack_is(home, tmp_path):
    whole, path = members(home), tmp_path / "odd.zip"
    odd = ["../evil", "/etc/evil", "quantities/../../evil.nc", "quantities\\x.nc", "other.txt", "quantities/"]
    for name in odd:
        with pytest.raises(BvsiError, match="does not write"):
            verify(zipped(path, {**whole, name: b"1"}))
    with pytest.raises(BvsiError, match="twice"):
        verify(zipped(path, [*whole.items(), ("result.nc", whole["result.nc"])]))
    with pytest.raises(BvsiError, match="missing"):
        verify(zipped(path, {name: value for name, value in whole.items() if name != "result.nc"}))
    with pytest.raises(BvsiError, match="200 files"):
        verify(zipped(path, {f"quantities/{i}.nc": b"" for i in range(300)}))
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(BvsiError, match="damaged"):
        verify(path)
    with pytest.raises(BvsiError, match="no such file"):
        verify(tmp_path / "none.zip")
    assert not list(tmp_path.rglob("*evil*"))


def test_sizes_are_known_before_anything_is_unpacked(home, tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("result.nc", "w") as stream:
        for _ in range(600):
            stream.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(BvsiError, match="500 MB"):
        verify(path)


def test_encrypted_members_are_refused(home, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("result.nc", b"1")
    content = bytearray(buffer.getvalue())
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    (tmp_path / "locked.zip").write_bytes(content)
    with pytest.raises(BvsiError, match="encrypted"):
        verify(tmp_path / "locked.zip")


def test_a_link_in_a_folder_is_not_packed(home, tmp_path):
    import shutil

    copy = tmp_path / "result"
    shutil.copytree(home / "result", copy, ignore=shutil.ignore_patterns(".bvsi"))
    pack(copy)
    (copy / "report.md").unlink()
    (copy / "report.md").symlink_to("/etc/passwd")
    with pytest.raises(BvsiError, match="link"):
        pack(copy)


def test_commands(home, tmp_path, command):
    out = tmp_path / "mine.bvsi.zip"
    code, told, _ = command("pack", home / "result", "--out", out)
    assert code == 0
    assert str(out) in told
    code, told, _ = command("verify", out, "--data", home / "run.nc", "--json")
    assert code == 0
    assert json.loads(told)["repeated"] == "bit"
    zipped(out, {**members(home), "study.toml": b"changed = 1"})
    code, _, err = command("verify", out)
    assert code == 2
    assert "study.toml was changed" in err
    assert command("pack", tmp_path / "nothing")[0] == 2
