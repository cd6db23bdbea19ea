"""Tables of Excel and Parquet, read as the CSV tables that they could be saved as."""

from __future__ import annotations

import csv
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import DataSource, needed
from bvsi.app.readers.table import open_table, table_contents
from bvsi.errors import DataError

_PACKAGE = "'bvsi[tables]'"


@contextmanager
def open_sheet(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The table of the first sheet, or of the whole Parquet file."""
    with as_csv(paths[0], reading) as (csv_file, notes), open_table((csv_file,), reading) as source:
        yield replace(source, path=paths[0], format=_kind(paths[0]), notes=(*notes, *source.notes))


def sheet_contents(paths: tuple[Path, ...], reading: Reading) -> DataSource:
    """The columns of such a table, without their values."""
    with as_csv(paths[0], reading) as (csv_file, notes):
        source = table_contents((csv_file,), reading)
        return replace(source, path=paths[0], format=_kind(paths[0]), notes=(*notes, *source.notes))


@contextmanager
def as_csv(path: Path, reading: Reading) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The table as a CSV file that lives as long, and notes; faults of the table name the file itself."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"{path.stem}.csv"
        rows, notes = (_parquet if _kind(path) == "Parquet" else _excel)(path, reading)
        with made.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerows(["" if value is None else value for value in row] for row in rows)
        try:
            yield made, notes
        except DataError as error:
            raise DataError(str(error).replace(str(made), str(path))) from None


def _kind(path: Path) -> str:
    return "Parquet" if path.name.lower().endswith((".parquet", ".pq")) else "Excel"


def _excel(path: Path, reading: Reading) -> tuple[Iterable[Iterable[Any]], tuple[str, ...]]:
    """Rows of the first sheet: values as they were last computed; formulas are not evaluated."""
    with zipfile.ZipFile(path) as archive:
        _check(path, sum(member.file_size for member in archive.infolist()), reading)
    openpyxl = needed("openpyxl", _PACKAGE)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    others = book.sheetnames[1:]
    notes = (f"of {len(others) + 1} sheets the first, {book.sheetnames[0]!r}, is read",) if others else ()
    rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if any(v is not None for v in row)]
    book.close()
    return rows, notes


def _parquet(path: Path, reading: Reading) -> tuple[Iterable[Iterable[Any]], tuple[str, ...]]:
    """Rows of the columns of numbers."""
    parquet = needed("pyarrow.parquet", _PACKAGE)
    types = needed("pyarrow.types", _PACKAGE)
    file = parquet.ParquetFile(path)
    about = file.metadata
    _check(path, sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups)), reading)
    _check(path, 8 * about.num_rows * about.num_columns, reading)
    plain = [
        f.name
        for f in file.schema_arrow
        if types.is_integer(f.type) or types.is_floating(f.type) or types.is_decimal(f.type)
    ]
    left = [f.name for f in file.schema_arrow if f.name not in plain]
    notes = tuple(f"column {name!r} holds no numbers and is not read" for name in left)
    table = file.read(columns=plain)
    columns = [column.to_pylist() for column in table.columns]
    return [plain, *zip(*columns, strict=True)], notes


def _check(path: Path, size: float, reading: Reading) -> None:
    """Refuse a table that takes more memory than is allowed, before it is unpacked."""
    if size > reading.largest_piece:
        raise DataError(
            f"{path}: it unpacks to {size / 1e9:.3g} GB, more than {reading.largest_piece / 1e9:.3g} GB; raise "
            "max_memory (--max-memory), or save it as NetCDF"
        )
