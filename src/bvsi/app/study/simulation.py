"""The discovered equation solved from the first frame of the study's data: ``bvsi simulate``, ``bvsi refine``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi.app.files import netcdf_bytes, write_whole
from bvsi.app.readers import write_vtu
from bvsi.app.study.build import folder_of
from bvsi.app.study.checks import refine_faults
from bvsi.app.study.result_folder import RESULT, check_no_link
from bvsi.app.study.run import Inputs, read_inputs, refine_digest, refined
from bvsi.app.study.toml import Study
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.discovery import Discovery
from bvsi.discovery.forecasting import simulate_found
from bvsi.discovery.refined import Refined
from bvsi.errors import BvsiError

if TYPE_CHECKING:
    import xarray as xr

ENDINGS = (".nc", ".pvd")
# Where a result keeps what its fits by forward solves depend on.
_DIGEST = "refine digest"


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulations beside the data: error by field and time, relative to the size of the field."""

    times: tuple[float, ...]
    error: dict[str, tuple[float, ...]]
    draws: int
    failed: int

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return {"times": self.times, "error": self.error, "draws": self.draws, "failed": self.failed}

    @property
    def text(self) -> str:
        """In words."""
        rows = [
            f"{field}: off the data by {error[0]:.2g} of its size at the first frame, {error[-1]:.2g} at the last"
            for field, error in self.error.items()
        ]
        return "\n".join([f"{self.draws} simulations, {self.failed} broke off", *rows])


def simulate_study(
    study: Study, result: Path | None, *, draws: int, seed: int, out: Path, progress: Progress = silent
) -> Simulated:
    """Simulate at the times of the data, and write mean and band to a NetCDF file or, as ``.pvd``, to VTU files."""
    if out.suffix not in ENDINGS:
        raise BvsiError(f"--out {out}: the name has to end with {' or '.join(ENDINGS)}.")
    found, inputs = _result_of(study, result, progress)
    data = inputs.data[0]
    rng = np.random.default_rng(seed)
    made = simulate_found(found, inputs.library, data, data.times, draws=draws, rng=rng, progress=progress)
    _write(made, out)
    return _beside(made, data)


def refine_study(
    study: Study, result: Path | None, out: Path, *, budget: float, force: bool = False, progress: Progress = silent
) -> Discovery:
    """The result of a study with fits by forward solves, also in a file, which is written after every structure.

    Where the file is there already, and has fits of the same study, the others are added to them.

    Parameters
    ----------
    force
        Whether another file may be replaced; then nothing is taken from it.
    """
    found, inputs = _result_of(study, result, progress)
    if problems := [*refine_faults(study, inputs.library, inputs.data)]:
        raise study.error(problems)
    digest = refine_digest(inputs, f"{found.names} {found.theta.tolist()}")
    found = replace(found, settings={**found.settings, _DIGEST: digest})
    known = None
    if out.exists() and not force:
        before = Discovery.load(out)
        if before.refined is None or before.settings.get(_DIGEST) != digest:
            raise BvsiError(f"--out: {out} is of another study; choose another name, or write over it with --force.")
        known = before.refined
    progress(0, None, f"by the weak form: {found.equation}")

    def keep(made: Refined) -> None:
        replace(found, refined=made).save(out)

    made = refined(inputs, found, budget, progress, known=known, keep=keep)
    made.save(out)
    return made


def _result_of(study: Study, result: Path | None, progress: Progress) -> tuple[Discovery, Inputs]:
    """What was found, and the data that it was found from."""
    path = folder_of(study) / RESULT if result is None else result
    if result is None:
        check_no_link(path)
    if not path.is_file():
        raise BvsiError(f"{path}: no result here; make it with bvsi run {study.path}.")
    return Discovery.load(path), read_inputs(study, progress=progress)


def _write(made: xr.Dataset, out: Path) -> None:
    if out.suffix == ".nc":
        write_whole(out, netcdf_bytes(made))
    else:
        write_vtu(Data.from_xarray(made, time="time"), out.parent, out.stem)


def _beside(made: xr.Dataset, data: Data) -> Simulated:
    simulated = Data.from_xarray(made, time="time")
    error = {}
    for field in data.names:
        if field not in simulated.fields or simulated.n_nodes != data.n_nodes:
            continue
        seen = data.observed(field)
        size = float(np.sqrt(np.nanmean(seen**2))) or 1.0
        by_time = np.sqrt(np.nanmean((simulated.fields[field] - seen) ** 2, axis=1)) / size
        error[field] = tuple(map(float, by_time))
    return Simulated(tuple(map(float, data.times)), error, int(made.attrs["draws"]), int(made.attrs["failed"]))
