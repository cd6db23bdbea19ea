"""Changes of HDF5 files by their own library: attributes, types, shapes, names, links, storage elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from bvsi.studies.fuzz.documents import changed_json
from bvsi.studies.fuzz.odd import FLOATS, INTEGERS, NAMES, TEXTS, Rng, chance, odd_path, odd_value, payload, pick

_SPECIAL = (
    "_FillValue", "missing_value", "scale_factor", "add_offset", "units", "calendar", "coordinates", "CLASS", "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_Unsigned", "MATLAB_class",
    "DIMENSION_LABELS", "dtype",
    "valid_range", "grid_mapping", "bounds", "cell_methods", "dimensions", "MATLAB_empty",
)  # fmt: skip
"""Attributes that libraries obey."""


def change_hdf5(path: Path, rng: Rng, canary: str) -> str:
    """Make one to three changes in a file; returns their names."""
    names = []
    try:
        with h5py.File(path, "r+") as file:
            for _ in range(int(rng.integers(1, 4))):
                change = pick(rng, _CHANGES)
                names.append(change.__name__.strip("_"))
                change(file, rng, canary)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, OverflowError, AttributeError) as error:
        names.append(f"refused by h5py ({type(error).__name__})")  # as good as any other state of the file
    return "+".join(names)


def _objects(file: Any) -> list[Any]:
    found = [file]
    file.visititems(lambda _, item: found.append(item))
    return found


def _dataset(file: Any, rng: Rng) -> Any:
    return pick(rng, [item for item in _objects(file) if isinstance(item, h5py.Dataset)])


def _odd_attribute(rng: Rng) -> Any:
    """A value of an attribute, of any type that HDF5 has."""
    makers: tuple[Callable[[], Any], ...] = (
        lambda: pick(rng, TEXTS).replace("\x00", "").encode("utf-8", "replace").decode(),
        lambda: np.bytes_(pick(rng, TEXTS).encode("utf-8", "replace") or b" "),
        lambda: np.int64(pick(rng, INTEGERS) % 2**63),
        lambda: np.float64(pick(rng, FLOATS)),
        lambda: np.array(pick(rng, FLOATS), dtype=pick(rng, ("f2", "f4", "f8", ">f8", "c16"))),
        lambda: np.zeros(
            pick(rng, ((0,), (1,), (3,), (2, 2), (1000,))), dtype=pick(rng, ("u1", "i2", ">i4", "i8", "f8", "?"))
        ),
        lambda: h5py.Empty(pick(rng, ("f8", "S10", "i4"))),
        lambda: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        lambda: np.void(rng.bytes(8)),
        lambda: np.array(["a", "b"], dtype=h5py.string_dtype()),
        lambda: json.dumps(odd_value(rng)).replace("\\u0000", ""),
        lambda: np.array(3, dtype=h5py.enum_dtype({"A": 3}, basetype="i4")),
    )
    return pick(rng, makers)()


def _attribute(file: Any, rng: Rng, canary: str) -> None:
    del canary
    item = pick(rng, _objects(file))
    present = sorted(item.attrs)
    name = pick(rng, present) if present and chance(rng, 0.5) else pick(rng, (*_SPECIAL, *NAMES))
    value = _odd_attribute(rng)
    if isinstance(item.attrs.get(name), str) and item.attrs[name][:1] in ("{", "["):
        text = changed_json(item.attrs[name].encode(), rng)[0].decode("utf-8", "replace")
        value = text.replace("\x00", "")
    if name in item.attrs:
        del item.attrs[name]
    item.attrs[name] = value


def _no_attribute(file: Any, rng: Rng, canary: str) -> None:
    del canary
    item = pick(rng, _objects(file))
    if len(item.attrs):
        del item.attrs[pick(rng, sorted(item.attrs))]


def _retype(file: Any, rng: Rng, canary: str) -> None:
    """A dataset with the same name, and other values."""
    del canary
    old = _dataset(file, rng)
    name, shape, attributes = (
        old.name,
        old.shape or (),
        {k: v for k, v in old.attrs.items() if k not in ("DIMENSION_LIST", "REFERENCE_LIST")},
    )
    del file[name]
    kind = int(rng.integers(9))
    if kind <= 2:
        dtype = pick(
            rng,
            (
                "f2",
                ">f4",
                "i1",
                "u8",
                "i8",
                "c8",
                "?",
                "S5",
                "V3",
                h5py.string_dtype(),
                h5py.ref_dtype,
                h5py.vlen_dtype("f8"),
            ),
        )
        file.create_dataset(name, shape, dtype=dtype)
    elif kind == 3:
        size = pick(
            rng,
            (
                (0,),
                (),
                (1,),
                (2,),
                (10**7,),
                (3 * 10**8,),
                (20_000, 20_000),
                (3, 0),
                (1,) * 32,
                (2**40,),
                (2**31, 2**31),
                (2**62,),
            ),
        )
        file.create_dataset(
            name,
            size,
            dtype="f8",
            chunks=tuple(min(n, 64) or 1 for n in size) or None,
            maxshape=(None,) * len(size) or None,
        )
    elif kind == 4:
        file.create_dataset(name, data=np.full(shape, pick(rng, FLOATS)))
    elif kind == 5:
        file.create_dataset(name, shape, dtype=np.dtype([("real", "f8"), ("imag", pick(rng, ("f8", "S3")))]))
    elif kind == 6:
        file[name] = h5py.Empty("f8")
    elif kind == 7:
        file.create_dataset(name, data=np.void(payload(rng)))
    else:
        filters: tuple[dict[str, Any], ...] = ({"compression": "lzf"}, {"scaleoffset": 2}, {"fletcher32": True}, {})
        values = np.arange(float(np.prod(shape))).reshape(shape)
        file.create_dataset(name, data=values, chunks=True, **pick(rng, filters))
    for key, value in attributes.items():
        file[name].attrs[key] = value


def _values(file: Any, rng: Rng, canary: str) -> None:
    """Some values of a dataset, odd or out of order."""
    del canary
    dataset = _dataset(file, rng)
    values = dataset[()]
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or not values.size:
        return
    if chance(rng, 0.3):
        values = rng.permutation(values)
    else:
        values.flat[rng.integers(values.size, size=int(pick(rng, (1, 3, values.size))))] = pick(rng, FLOATS)
    dataset[...] = values


def _rename(file: Any, rng: Rng, canary: str) -> None:
    del canary
    old = _dataset(file, rng).name
    new = pick(rng, NAMES).replace("\x00", "").encode("utf-8", "replace").decode()
    file.move(old, new or "empty")


def _remove(file: Any, rng: Rng, canary: str) -> None:
    del canary
    del file[_dataset(file, rng).name]


def _add(file: Any, rng: Rng, canary: str) -> None:
    """Further arrays: of odd names, of the same shape, in deep groups."""
    del canary
    like = _dataset(file, rng)
    name = pick(rng, NAMES).replace("\x00", "").encode("utf-8", "replace").decode() or "more"
    name = "/".join([name] * int(pick(rng, (1, 2, 60)))) if len(name) < 40 else name
    file.create_dataset(name, data=np.zeros(like.shape if chance(rng, 0.7) else 3))


def _link(file: Any, rng: Rng, canary: str) -> None:
    """A link to nowhere, in a circle, or to another file."""
    name = pick(rng, ("u", "x", "t", "more", "g"))
    target = _dataset(file, rng).name
    if name in file:
        if target == f"/{name}":
            target = "/"
        file.move(name, "moved")
    links = [h5py.SoftLink("/absent"), h5py.SoftLink(f"/{name}"), h5py.ExternalLink(f"{canary}/secret.h5", "/secret")]
    links += [h5py.ExternalLink(odd_path(rng, canary).replace("\x00", "") or ".", "/u"), h5py.SoftLink("/")]
    file[name] = pick(rng, links) if chance(rng, 0.8) else file[target if target in file else "/"]


def _elsewhere(file: Any, rng: Rng, canary: str) -> None:
    """A dataset whose values are bytes of another file."""
    old = _dataset(file, rng)
    name, shape = old.name, old.shape or (1,)
    del file[name]
    place = pick(
        rng, (f"{canary}/secret.txt", "../canary/secret.txt", odd_path(rng, canary).replace("\x00", "") or ".")
    )
    if chance(rng, 0.5):
        file.create_dataset(name, shape, dtype=pick(rng, ("u1", "f8")), external=[(place, 0, h5py.h5f.UNLIMITED)])
    else:
        layout = h5py.VirtualLayout(shape=shape, dtype="f8")
        layout[...] = h5py.VirtualSource(place if chance(rng, 0.5) else f"{canary}/secret.h5", "secret", shape=shape)
        file.create_virtual_dataset(name, layout)


def _scale(file: Any, rng: Rng, canary: str) -> None:
    """Dimension scales that do not fit, or that belong to themselves."""
    del canary
    one, other = _dataset(file, rng), _dataset(file, rng)
    if chance(rng, 0.5):
        one.make_scale(pick(rng, NAMES).replace("\x00", "").encode("utf-8", "replace").decode())
    if other.dims:
        pick(rng, list(other.dims)).attach_scale(one)
        pick(rng, list(other.dims)).label = pick(rng, NAMES).replace("\x00", "").encode("utf-8", "replace").decode()


_CHANGES = (
    _attribute,
    _attribute,
    _attribute,
    _no_attribute,
    _retype,
    _retype,
    _values,
    _rename,
    _remove,
    _add,
    _link,
    _elsewhere,
    _scale,
)
