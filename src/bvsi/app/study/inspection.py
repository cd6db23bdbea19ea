"""What is in a data file: fields, resolution, noise, spectrum, and what follows for a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bvsi.app.readers import Contents, Reading, contents
from bvsi.app.study.candidates import densities_of, steady_sides, suggested_operators
from bvsi.app.study.first_look import first_look, stated_units
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid
from bvsi.discovery.method import choose_method, takes_high_orders
from bvsi.discovery.screening import check_worth
from bvsi.errors import BvsiError, DataError
from bvsi.noise.measurement import Measurement, measure
from bvsi.operators import Library
from bvsi.residual.widths import bandwidth

# Cycles per step beyond which the sampling may be too coarse; one half is its limit.
_FAST = 0.25
# Arrays or columns that are listed.
_MOST_LISTED = 200


@dataclass(frozen=True, eq=False)
class Inspection:
    """A look at a data file.

    Attributes
    ----------
    contents
        Variables with their shapes.
    reading
        With which the data were read, or would be.
    notes
        On that.
    data, measurement
        None where the file could not be read without more settings.
    obstacle
        Then why not.
    cycles
        Cycles by axis, highest frequency of the signal in cycles per step.
    operators
        Candidates by field.
    method
        Test functions that discovery would take, and why.
    left
        Left sides by field, of one frame, in which nothing moves.
    units
        Of fields, coordinates and ``t``, as far as the file states them.
    """

    contents: Contents
    reading: Reading
    notes: tuple[str, ...] = ()
    data: Data | None = None
    measurement: Measurement | None = None
    obstacle: str = ""
    cycles: Mapping[str, float] | None = None
    operators: Mapping[str, tuple[str, ...]] | None = None
    method: str = ""
    left: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        variables = [
            {"name": v.name, "dims": None if v.dims is None else list(v.dims), "shape": list(v.shape), "type": v.dtype}
            for v in self.contents.variables
        ]
        noise = None if self.measurement is None else dict(self.measurement.filtered)
        return {
            "file": str(self.contents.path),
            "format": self.contents.format,
            "variables": variables,
            "notes": [*self.contents.notes, *self.notes],
            "data": None if self.data is None else repr(self.data),
            "obstacle": self.obstacle,
            "noise": noise,
            "relative_noise": None if noise is None else self._relative(noise),
            "cycles_per_step": self.cycles,
            "operators": self.operators,
            "left": dict(self.left),
            "units": dict(self.units),
            "method": self.method,
        }

    def _relative(self, noise: Mapping[str, float]) -> dict[str, float]:
        assert self.data is not None
        return {f: s / _rms(self.data, f) for f, s in noise.items() if _rms(self.data, f) > 0}

    def __str__(self) -> str:
        rows = [f"{self.contents.path}: {self.contents.format}"]
        shown = self.contents.variables[:_MOST_LISTED]
        rows += [f"  {_one_line(v.name)}  {_one_line(_axes(v.dims, v.shape))}  {v.dtype}" for v in shown]
        rows += [f"  … and {len(self.contents.variables) - len(shown)} more"] if len(shown) == _MOST_LISTED else []
        rows += [f"  note: {_one_line(note)}" for note in dict.fromkeys((*self.contents.notes, *self.notes))]
        if self.data is None:
            return "\n".join([*rows, "The values cannot be read as they are."])
        units = ", ".join(f"{name} in {unit}" for name, unit in self.units.items())
        rows += [f"{self.data!r}"] + ([f"units: {units}"] if units else [])
        rows += [*self._noise_text(), *self._spectrum_text(), *self._advice()]
        return "\n".join(rows)

    def _noise_text(self) -> list[str]:
        assert self.measurement is not None
        if not self.measurement.filtered:
            return [f"noise: {self.measurement.summary}"]
        share = self._relative(self.measurement.filtered)
        told = ", ".join(f"{f} {100 * s:.2g}%" for f, s in share.items())
        return [f"noise: {self.measurement.summary}", f"  of the fields' size: {told}"]

    def _spectrum_text(self) -> list[str]:
        return [
            f"spectrum along {axis}: 99% of the signal below {f:.2g} cycles per step, {1 / f:.3g} steps a period"
            + ("; coarse; the check will show whether too coarse" if f > _FAST else "")
            for axis, f in (self.cycles or {}).items()
        ]

    def _advice(self) -> list[str]:
        rows = [f"test functions: {self.method}"] if self.method else []
        for name, operators in (self.operators or {}).items():
            rows.append(f"operators to begin with, {self.left.get(name, f'{name}_t')} = …: {', '.join(operators)}")
        return rows


def inspect(
    path: Path,
    reading: Reading | None = None,
    *,
    limits: Reading | None = None,
    progress: Progress = silent,
) -> Inspection:
    """Look at a file; what it does not state is suggested, within ``limits`` as in :func:`bvsi.app.readers.suggest`."""
    listed = contents(path, reading or limits)
    try:
        data, wanted, notes = first_look(path, reading, limits=limits, progress=progress)
    except BvsiError as error:
        return Inspection(listed, reading or Reading(), obstacle=str(error))
    high, dense = takes_high_orders(data), densities_of(data)
    operators = suggested_operators(data.names, data.geometry.names, splines=high, densities=dense)
    left: dict[str, str] = {}
    if data.n_times == 1:
        operators, left = steady_sides(operators)
    library = Library(operators, left=left or None)
    try:
        check_worth([data], library)
    except DataError as error:
        notes = (*notes, str(error))
    measurement = measure(data, None)
    try:
        method = choose_method([measurement], library).reason
    except BvsiError as error:
        method = str(error)
    cycles = None
    if isinstance(data.geometry, Grid):
        band = bandwidth(data, measurement.filtered)
        cycles = {axis: float(f) for axis, f in band.items() if not (left and axis == "time")}
    return Inspection(
        listed,
        wanted,
        notes,
        data,
        measurement,
        "",
        cycles,
        {field: tuple(texts) for field, texts in operators.items()},
        method,
        left,
        stated_units(listed, wanted, data),
    )


def _rms(data: Data, name: str) -> float:
    return float(np.sqrt(np.nanmean(np.square(data.observed(name)))))


def _one_line(text: str) -> str:
    """A text from a file, which must not put lines of its own into what is printed."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


def _axes(dims: tuple[str, ...] | None, shape: tuple[int, ...]) -> str:
    if dims is None:
        return " × ".join(map(str, shape)) or "number"
    return " × ".join(f"{d} {n}" for d, n in zip(dims, shape, strict=True)) or "number"
