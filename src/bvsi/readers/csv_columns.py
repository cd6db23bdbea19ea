"""Columns of CSV files as numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import DataError

Floats = NDArray[np.float64]

_DELIMITERS = ",;\t"
# Characters of a header; a file without line breaks is not read into memory for it.
_LONGEST = 20_000


@dataclass(frozen=True)
class Header:
    """First line of a table: names of the columns, what separates them, and the lines above the numbers."""

    columns: tuple[str, ...]
    delimiter: str
    lines: int


def header_of(path: Path) -> Header:
    """Column names, from the first line that is not empty; a leading # is dropped."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for number, line in enumerate(iter(partial(stream.readline, _LONGEST + 1), ""), start=1):
            text = line.lstrip("# ").strip()
            if text:
                break
            if number > 100:
                raise DataError(f"{path}: no header within the first 100 lines; write the names of the columns there")
        else:
            raise DataError(f"{path}: the file is empty; it needs a header and one row per sensor and time")
    if len(line) > _LONGEST or not text.replace("\t", " ").isprintable():
        raise DataError(f"{path}: line {number} is no header of a table; write the names of the columns there")
    delimiter = max(_DELIMITERS, key=text.count)
    names = tuple(name.strip() for name in next(csv.reader([text], delimiter=delimiter)))
    if any(_is_number(name) for name in names):
        raise DataError(f"{path}: the first line has numbers; write the names of the columns there, such as time,x,u")
    double = [name for name in names if names.count(name) > 1]
    if double:
        raise DataError(f"{path}: column {double[0]!r} occurs twice; rename one of them")
    return Header(names, delimiter, number)


def rows_of(path: Path, header: Header) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for _ in range(header.lines):
            next(stream)
        reader = csv.reader(stream, delimiter=header.delimiter)
        for row in reader:
            if row and not (len(row) == 1 and not row[0].strip()) and not row[0].startswith("#"):
                yield reader.line_num + header.lines, row


def is_entry(text: str) -> bool:
    """Whether a cell holds a number, also NaN or infinity."""
    return _is_number(text) or text.strip().lower() in ("nan", "inf", "-inf", "-nan")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip().lower() not in ("nan", "inf", "infinity")


def numbers(path: Path, header: Header, names: Sequence[str], time: str) -> dict[str, Floats]:
    """Columns as numbers; empty cells are NaN, dates in the time column become seconds since the first."""
    places = [header.columns.index(name) for name in names]
    try:
        table = np.loadtxt(
            path, delimiter=header.delimiter, skiprows=header.lines, usecols=places, ndmin=2, encoding="utf-8-sig"
        )
        columns = dict(zip(names, table.T, strict=True))
    except ValueError:  # empty cells, dates or a damaged line: slower, and tells where
        columns = _cells(path, header, dict(zip(names, places, strict=True)), time)
    if not columns[time].size:
        raise DataError(f"{path}: the table has a header and no rows; add one row per sensor and time")
    return columns


def _cells(path: Path, header: Header, places: dict[str, int], time: str) -> dict[str, Floats]:
    """Columns cell by cell."""
    numbers: dict[str, list[float]] = {name: [] for name in places}
    dates: list[str] = []
    for line, row in rows_of(path, header):
        if len(row) != len(header.columns):
            raise DataError(
                f"{path}, line {line}: {len(row)} cells, the header has {len(header.columns)}; the file may be cut off"
            )
        for name, place in places.items():
            text = row[place].strip()
            if name == time and not _is_number(text):
                dates.append(text)
            elif text and not is_entry(text):
                raise DataError(f"{path}, line {line}, column {name!r}: {text[:40]!r} is not a number")
            else:
                numbers[name].append(float(text) if text else np.nan)
    if dates:
        numbers[time] = list(_seconds(path, dates, len(numbers[time])))
    return {name: np.array(values, dtype=np.float64) for name, values in numbers.items()}


def _seconds(path: Path, dates: list[str], others: int) -> Floats:
    """Seconds since the first of some dates."""
    try:
        if others:
            raise ValueError("some are numbers")
        moments = np.array(dates, dtype="datetime64[ns]")
        if np.isnat(moments).any():
            raise ValueError("an entry is empty")
    except ValueError as error:
        raise DataError(
            f"{path}: the times are neither numbers nor dates such as 2024-01-31T12:00 ({error})"
        ) from error
    return np.asarray((moments - moments.min()) / np.timedelta64(1, "s"), dtype=np.float64)
