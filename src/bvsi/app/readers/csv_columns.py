"""Columns of CSV files as numbers."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import DataError

Floats = NDArray[np.float64]

_DELIMITERS = ",;\t"
# Characters of a header; a file without line breaks is not read into memory for it.
_LONGEST = 20_000
_BLOCK = 1_000_000
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Header:
    """First line of a table: names of the columns, what separates them, and the lines above the numbers.

    Parameters
    ----------
    encoding
        UTF-8, or Latin-1 where the file is not.
    commas
        Whether numbers have decimal commas, as in 1,5;2,3.
    """

    columns: tuple[str, ...]
    delimiter: str
    lines: int
    encoding: str = "utf-8-sig"
    commas: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What is unusual about the file, in words."""
        told = ("the table is not UTF-8 and was read as Latin-1",) if self.encoding != "utf-8-sig" else ()
        return (*told, *(("the numbers have decimal commas, 1,5 for 1.5",) if self.commas else ()))


def header_of(path: Path) -> Header:
    """Column names, from the first line that is not empty; a leading # is dropped."""
    encoding = _encoding(path)
    with path.open(encoding=encoding, newline="") as stream:
        for number, line in enumerate(iter(partial(stream.readline, _LONGEST + 1), ""), start=1):
            text = line.lstrip("# ").strip()
            if text:
                break
            if number > 100:
                raise DataError(f"{path}: no header within the first 100 lines; write the names of the columns there")
        else:
            raise DataError(f"{path}: the file is empty; it needs a header and one row per sensor and time")
    text = f"\t{text}" if line.startswith("\t") else text  # a first column without a name
    if len(line) > _LONGEST or not text.replace("\t", " ").isprintable():
        raise DataError(f"{path}: line {number} is not the header of a table; write the names of the columns there")
    delimiter = max(_DELIMITERS, key=text.count)
    names = tuple(name.strip() for name in next(csv.reader([text], delimiter=delimiter)))
    if any(_is_number(name) for name in names):
        raise DataError(
            f"{path}: the first line has numbers; write the names of the columns there, such as time,x,u, with one row "
            "per time and place. A matrix with positions in its first line and times in its first column: in Python, "
            'pandas.read_csv(file, index_col=0).stack().to_csv("long.csv"), with the names time,x,u in the first line'
        )
    double = [name for name in names if names.count(name) > 1]
    if double:
        raise DataError(f"{path}: column {double[0]!r} occurs twice; rename one of them")
    header = Header(names, delimiter, number, encoding)
    first = next(rows_of(path, header), (0, []))[1]
    return replace(header, commas=any(_COMMA.fullmatch(cell.strip()) for cell in first))


def _encoding(path: Path) -> str:
    """UTF-8, or Latin-1 where some bytes are not UTF-8; spreadsheets still write it."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    with path.open("rb") as stream:
        try:
            while block := stream.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "latin-1"
    return "utf-8-sig"


def rows_of(path: Path, header: Header) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row."""
    with path.open(encoding=header.encoding, newline="") as stream:
        for _ in range(header.lines):
            next(stream)
        reader = csv.reader(stream, delimiter=header.delimiter)
        for row in reader:
            if row and not (len(row) == 1 and not row[0].strip()) and not row[0].startswith("#"):
                yield reader.line_num + header.lines, row


def is_entry(text: str) -> bool:
    """Whether a cell holds a number, also NaN or infinity; with a decimal comma too."""
    text = text.replace(",", ".") if _COMMA.fullmatch(text.strip()) else text
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
    line, first = next(rows_of(path, header), (0, []))
    if any(cell.strip() for cell in first[len(header.columns) :]):
        raise _uneven(path, line, first, header)
    try:
        table = np.loadtxt(
            path, delimiter=header.delimiter, skiprows=header.lines, usecols=places, ndmin=2, encoding=header.encoding
        )
        columns = dict(zip(names, table.T, strict=True))
    except ValueError:  # empty cells, dates or a damaged line: slower, but finds the place of the error
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
            raise _uneven(path, line, row, header)
        for name, place in places.items():
            text = row[place].strip()
            if _COMMA.fullmatch(text):
                text = text.replace(",", ".")
            elif header.commas and "." in text and is_entry(text):
                raise DataError(
                    f"{path}, line {line}, column {name!r}: {text[:40]!r} has a decimal point, other numbers have "
                    "commas; write one of them everywhere"
                )
            if name == time and not _is_number(text):
                dates.append(text)
            elif text and not is_entry(text):
                raise DataError(
                    f"{path}, line {line}, column {name!r}: {text[:40]!r} is not a number; leave the cell empty where "
                    "nothing was measured, and write numbers as 1.5, or as 1,5 between semicolons"
                )
            else:
                numbers[name].append(float(text) if text else np.nan)
    if dates:
        numbers[time] = list(_seconds(path, dates, len(numbers[time])))
    return {name: np.array(values, dtype=np.float64) for name, values in numbers.items()}


def _uneven(path: Path, line: int, row: list[str], header: Header) -> DataError:
    return DataError(
        f"{path}, line {line}: {len(row)} cells, the header has {len(header.columns)}; the file may be cut off, or "
        "have decimal commas between commas: write decimal points, or semicolons between the cells"
    )


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
