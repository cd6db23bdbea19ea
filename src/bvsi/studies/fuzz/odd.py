"""Odd values: numbers at the ends of types, names that no program expects, texts that look like something else."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

Rng = np.random.Generator
Item = TypeVar("Item")

INTEGERS = (
    0, 1, -1, 2, 3, 7, 127, 128, -128, 255, 256, 32767, -32768, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**32 - 1,
    2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 3 * 10**8, 20_000, 10**18, 10**30, 10**400,
)  # fmt: skip
FLOATS = (
    float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-300, 5e-324, 1e300, -1e308, 9.96921e36, -9999.0, 0.1, 1e16,
)  # fmt: skip
NAMES = (
    "", " ", "_", "u_", "__", "_u", "u__x", "t", "x", "time", "node", "operator", "operator_", "mean", "lower",
    "variance",
    "pi", "lambda", "None", "self", "__class__", "größe", "данные", "Ｕ", "u\u0301", "\u202eu", "\x1b[2Ju",
    "u\nerror: all is well",
    "u\r", "u\x00", "u\ttab", "a b", "a_b", "a/b", "../u", "/u", "..", ".", "u" * 300, "u" * 5000, "0", "1u", "-u",
    "--help",
    "u;v", "'u'", '"u"', "<script>alert(1)</script>", "\\input{x}", "$(touch pwned-shell)", "`touch pwned-shell`",
    "%s%n{0}", "\udc80", "😀", "dx(u)", "laplacian", "zarr.json", "con", "real(u)", "__import__('os')",
)  # fmt: skip
TEXTS = (
    *NAMES, "nan", "inf", "-1", "1e999", "0x10", "1_000", "1,5", "true", "null", "[]", "{}", "utf-16", "latin-1",
    "base64", "pickle",
    "float64", ">f4", "|O", "<U10", "|V8", "<M8[ns]", "|b1", "complex128", "days since 0000-00-00",
    "seconds since yesterday",
    "days since 1970-01-01", "noleap", "file:///etc/passwd", "http://127.0.0.1:9/x", "/dev/zero", "/dev/stdin",
    "CON", "9" * 5000,
)  # fmt: skip
PATHS = (
    "../canary/secret.txt", "../canary/secret.h5", "../canary/", "../canary/notes.txt", "/dev/zero", "/dev/random",
    "/proc/self/environ",
    "/etc/passwd", "pipe", "folder", "absent", ".", "..", "../../..", "link", "", "\x00", "a" * 300, "file://secret",
    "http://127.0.0.1:9/",
    "~", "~/x", "*", "../canary/*", "-", "//", "...", "con",
)  # fmt: skip
"""Paths that a file may name; ``pipe``, ``folder`` and ``link`` are made beside it."""


def pick(rng: Rng, items: Sequence[Item]) -> Item:
    """One of them."""
    return items[int(rng.integers(len(items)))]


def chance(rng: Rng, share: float) -> bool:
    """True in a share of the cases."""
    return bool(rng.random() < share)


def odd_path(rng: Rng, canary: str) -> str:
    """A path that an input should not name.

    Parameters
    ----------
    canary
        Canary of the folder beside the trial.
    """
    path = pick(rng, PATHS)
    return path.replace("../canary", canary) if chance(rng, 0.5) else path


def odd_value(rng: Rng, depth: int = 0) -> Any:
    """A value as JSON has them, of any type."""
    kind = int(rng.integers(8 if depth < 3 else 6))
    if kind == 0:
        return pick(rng, INTEGERS)
    if kind == 1:
        return pick(rng, FLOATS)
    if kind in (2, 3):
        return pick(rng, TEXTS)
    if kind == 4:
        return pick(rng, (None, True, False, [], {}, [[]], {"": None}))
    if kind == 5:
        return pick(rng, ([1], [0, -1], [1e308] * 3, ["u"], [None], {"u": 1}, {"x": [0, 1]}, [[1, 2], [3]]))
    if kind == 6:
        return [odd_value(rng, depth + 1) for _ in range(int(rng.integers(4)))]
    return {pick(rng, NAMES): odd_value(rng, depth + 1) for _ in range(int(rng.integers(4)))}


class _Hostile:
    """Unpickled, it leaves a mark in the current folder."""

    def __init__(self, command: bool) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch pwned-system",)) if self.command else (open, ("pwned-open", "w"))


def payload(rng: Rng) -> bytes:
    """A pickle that runs code when it is read, as arrays of objects are stored."""
    hostile = _Hostile(chance(rng, 0.5))
    return pickle.dumps([hostile, (1,)] if chance(rng, 0.5) else hostile, protocol=pick(rng, (2, 4, 5)))
