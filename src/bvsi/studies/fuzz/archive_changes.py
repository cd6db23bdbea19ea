"""Changes of zip archives and Zarr folders: entries and metadata that lie about what is there."""

from __future__ import annotations

import ast
import json
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bvsi.studies.fuzz.documents import changed_json
from bvsi.studies.fuzz.odd import INTEGERS, NAMES, Rng, chance, odd_path, payload, pick
from bvsi.studies.fuzz.raw import changed_bytes

Entries = list[tuple[str, bytes]]

_METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
_DTYPES = (
    "|O", "<f4", ">f8", "<i8", "<U10", "|S5", "<M8[ns]", "|V8", "|b1", "<c16", "<f8'", "f16", "O8", "float", "",
    [["a", "<f8"]], [["a", "|O"]],
    "<U2147483647", "|S0", 3, None,
)  # fmt: skip
_CODECS: tuple[Any, ...] = (
    "pickle", "Pickle", "numcodecs.pickle", "PICKLE", "pick\u006ce", "json2", "msgpack2", "vlen-utf8", "vlen-bytes",
    "vlen-array", "categorize",
    "zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "lz4", "delta", "packbits", "base64", "fixedscaleoffset",
    "quantize", "astype", "crc32",
    "adler32", "shuffle", "n5_wrapper", "bytes", "transpose", "sharding_indexed", "crc32c", "cast_value",
    "numcodecs.zlib", "", None, 3,
)  # fmt: skip


def change_zip(path: Path, rng: Rng, canary: str) -> str:
    """Make one to three changes of an archive; returns their names."""
    with zipfile.ZipFile(path) as archive:
        entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
    names = []
    for _ in range(int(rng.integers(1, 4))):
        act = int(rng.integers(10))
        place = int(rng.integers(len(entries))) if entries else 0
        if act <= 4 and entries:
            name, content = entries[place]
            content, told = changed_entry(name, content, rng)
            entries[place] = (name, content)
            names.append(f"{name}: {told}")
        else:
            names.append(_changed_entries(entries, place, rng, canary))
    method = pick(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(path, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that stand twice are meant
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    if chance(rng, 0.2):
        content, told = changed_bytes(path.read_bytes(), rng)
        path.write_bytes(content)
        names.append(told)
    return "+".join(names)


def _changed_entries(entries: Entries, place: int, rng: Rng, canary: str) -> str:
    """Entries left out, doubled, renamed, or added."""
    act = int(rng.integers(6))
    if act == 0 and entries:
        del entries[place]
    elif act == 1 and entries:
        name, content = entries[place]
        entries.insert(int(rng.integers(len(entries) + 1)), (name, changed_bytes(content, rng)[0]))
    elif act == 2 and entries:
        name, content = entries[place]
        new = pick(rng, (f"../{name}", f"/tmp/{name}", f"{canary}/{name}", name.upper(), *NAMES))
        entries[place] = (new.replace("\x00", "").encode("utf-8", "replace").decode(), content)
    elif act == 3:
        twin = _twin(rng)
        entries += twin if chance(rng, 0.5) else twin[::-1]
    elif act == 4:
        entries.append((f"{pick(rng, ('evil', 'u', 'x'))}.npy", _object_array(rng)))
    else:
        entries.append((pick(rng, NAMES).replace("\x00", "").encode("utf-8", "replace").decode() + "/zarr.json", b"{}"))
    return f"entries {act}"


def _twin(rng: Rng) -> Entries:
    """A node with metadata of both versions, one of which would unpickle its chunk."""
    name, codec = pick(rng, ("evil", "u", "x")), pick(rng, _CODECS)
    filters = [{"id": "vlen-utf8"}, {"id": codec}] if chance(rng, 0.5) else [{"id": codec}]
    two = {
        "zarr_format": 2,
        "shape": [1],
        "chunks": [1],
        "dtype": "|O",
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": filters,
    }
    codecs = (
        [{"name": "bytes", "configuration": {"endian": "little"}}]
        if chance(rng, 0.5)
        else [{"name": codec, "configuration": {}}]
    )
    three = {
        "zarr_format": 3, "node_type": "array", "shape": [1], "data_type": "float64", "fill_value": 1.5,
        "codecs": codecs, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "dimension_names": [name],
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    }  # fmt: skip
    texts = [(f"{name}/.zarray", json.dumps(two).encode()), (f"{name}/zarr.json", json.dumps(three).encode())]
    attributes = (f"{name}/.zattrs", json.dumps({"_ARRAY_DIMENSIONS": [name]}).encode())
    return [*texts[: int(rng.integers(1, 3))], attributes, (f"{name}/0", payload(rng)), (f"{name}/c/0", payload(rng))]


def changed_entry(name: str, content: bytes, rng: Rng) -> tuple[bytes, str]:
    """One file of an archive or store, changed as its kind suggests."""
    if name.endswith(".npy") and chance(rng, 0.8):
        return _changed_npy(content, rng)
    if name.rpartition("/")[2] in _METADATA:
        return _changed_codecs(content, rng) if chance(rng, 0.3) else changed_json(content, rng)
    return changed_bytes(content, rng)


def _changed_npy(content: bytes, rng: Rng) -> tuple[bytes, str]:
    """An array of NumPy whose header says something else."""
    act = int(rng.integers(6))
    if act == 0:
        return _object_array(rng), "objects"
    try:
        size = int.from_bytes(content[8:10], "little")
        header = ast.literal_eval(content[10 : 10 + size].decode("latin-1"))
    except (ValueError, SyntaxError):
        return changed_bytes(content, rng)[0], "bytes"
    if act <= 2:
        shape = [*header["shape"]] or [1]
        shape[int(rng.integers(len(shape)))] = pick(rng, (*INTEGERS, 1.5, "a", None, True))
        header["shape"] = (
            tuple(shape) if act == 1 else pick(rng, ((), (-1,), (0,), (2**40,), (2**31, 2**31), (1,) * 70, [2], 5))
        )
    elif act == 3:
        header["descr"] = pick(rng, _DTYPES)
    elif act == 4:
        header["fortran_order"] = pick(rng, (True, 1, None, "yes"))
    text = repr(header) if act < 5 else "__import__('os').system('touch pwned-header')"
    head = (text + "\n").encode("latin-1", "replace")
    version = pick(rng, (b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
    length = len(head).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + head + content[10 + size :], f"header {act}"


def _object_array(rng: Rng) -> bytes:
    """An array of objects as NumPy pickles it, with a payload for its values."""
    text = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + payload(rng)


def _changed_codecs(content: bytes, rng: Rng) -> tuple[bytes, str]:
    """Metadata of an array with other codecs, types and shapes."""
    try:
        meta = json.loads(content)
    except ValueError:
        return content, "no JSON"
    if not isinstance(meta, dict):
        return content, "no table"
    codec = pick(rng, _CODECS)
    old = {
        "id": codec,
        "protocol": 5,
        "dtype": pick(rng, _DTYPES),
        "labels": ["a"],
        "level": 9,
        "encoding": "utf-8",
        "configuration": {},
    }
    new = {
        "name": codec,
        "configuration": pick(
            rng, ({}, {"level": 99}, {"endian": "big"}, {"order": [5, 5]}, {"chunk_shape": [0]}, None, [])
        ),
    }
    key = pick(
        rng,
        (
            "filters",
            "compressor",
            "codecs",
            "dtype",
            "data_type",
            "shape",
            "chunks",
            "node_type",
            "storage_transformers",
        ),
    )
    meta[key] = {
        "filters": [old], "compressor": old, "codecs": [new, *(meta.get("codecs") or [])],
        "dtype": pick(rng, _DTYPES), "data_type": pick(rng, _DTYPES),
        "shape": [pick(rng, INTEGERS)] * int(rng.integers(4)), "chunks": [pick(rng, INTEGERS)] * 2,
        "node_type": "group", "storage_transformers": [new],
    }[key]  # fmt: skip
    return json.dumps(meta).encode(), f"codec {key}"


def change_zarr(folder: Path, rng: Rng, canary: str) -> str:
    """Make one to three changes of a store that is a folder."""
    names = []
    for _ in range(int(rng.integers(1, 4))):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        act = int(rng.integers(10))
        if not files:
            break
        path = pick(rng, files)
        if act <= 5:
            content, told = changed_entry(path.name, path.read_bytes(), rng)
            path.write_bytes(content)
            names.append(f"{path.name}: {told}")
        elif act == 6:
            path.unlink()
            names.append(f"no {path.name}")
        elif act == 7:
            for name, content in _twin(rng):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                if not (folder / name).is_dir():
                    (folder / name).write_bytes(content)
            names.append("twin")
        else:
            names.append(_linked(folder, path if act == 8 else path.parent, rng, canary))
    return "+".join(names)


def _linked(root: Path, path: Path, rng: Rng, canary: str) -> str:
    """A file or folder of the store as a link to elsewhere, in a circle, or to a folder outside."""
    if path == root:
        (root / "again").symlink_to(pick(rng, (".", "..", canary)))
        return "link again"
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to(
        pick(rng, (canary, f"{canary}/secret.txt", path.name, "..", odd_path(rng, canary).replace("\x00", "") or "."))[
            :255
        ]
    )
    return f"link {path.name}"


def changed_arrays(rng: Rng) -> dict[str, Any]:
    """Arrays of odd types and shapes, for files that are written again."""
    t, x = np.linspace(0, 1, 21), np.arange(24.0)
    u = np.sin(x + t[:, None])
    odd = (
        u.astype(complex), u > 0, u.astype("f2"), u[:0], u[0], np.float64(1), u[:, :, None, None],
        np.full_like(u, np.nan), (u * 100).astype("i1"),
        np.array([["a", "b"]]), u.astype(">f4"), np.zeros((1, 1)), np.zeros((0, 0)), u * 1e300, u.T, u.astype("u8"),
    )  # fmt: skip
    found: dict[str, Any] = {"t": t, "x": x, "u": u}
    found[pick(rng, ("t", "x", "u", "v"))] = pick(rng, odd)
    return found
