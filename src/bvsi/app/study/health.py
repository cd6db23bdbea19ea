"""Whether this machine has what bvsi needs: versions, solvers, threads, what is missing and how to get it."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import Any

from bvsi.app.report import versions
from bvsi.errors import MissingDependencyError
from bvsi.linalg.blas import addresses
from bvsi.linalg.machine import usable_cores

_OPTIONAL = {
    "nutpie": ("NUTS()", "pip install 'bvsi[mcmc]'"),
    "arviz": ("found.to_arviz()", "pip install 'bvsi[arviz]'"),
    "sklearn": ("bvsi.BvsiRegressor", "pip install 'bvsi[sklearn]'"),
    "pint": ("discover(units=...)", "pip install 'bvsi[units]'"),
    "openpyxl": ("Excel tables", "pip install 'bvsi[tables]'"),
    "pyarrow": ("Parquet tables", "pip install 'bvsi[tables]'"),
    "bioio": ("ND2 and CZI images", "pip install 'bvsi[microscopy]'"),
    "pysindy": ("the peer in bvsi bench discovery and performance", "pip install 'bvsi[bench]'"),
    "distributed": ("bvsi run --scheduler and discover(client=...)", "pip install 'bvsi[cluster]'"),
}
# Cores whose OpenBLAS kernels are those of a machine that it did not recognise: many times slower.
_OLD_KERNELS = ("prescott", "core2", "generic", "nehalem")


@dataclass(frozen=True)
class Health:
    """What was found.

    Attributes
    ----------
    versions
        Versions by package.
    cores
        Cores that may be used.
    blas
        Libraries with their threads and kernels.
    missing
        Optional packages, what they are for and how to get them.
    warnings
        What is wrong, with the remedy.
    """

    versions: dict[str, str]
    cores: int
    blas: tuple[dict[str, str], ...]
    missing: dict[str, str]
    warnings: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return {**vars(self), "blas": list(self.blas), "warnings": list(self.warnings)}

    def __str__(self) -> str:
        rows = [f"{name:<12} {version}" for name, version in self.versions.items()]
        rows += [f"{'cores':<12} {self.cores}"]
        rows += [f"{'BLAS':<12} {', '.join(f'{k} {v}' for k, v in one.items())}" for one in self.blas]
        rows += [f"{'not here':<12} {name}: {told}" for name, told in self.missing.items()]
        rows += [f"{'warning':<12} {warning}" for warning in self.warnings]
        return "\n".join([*rows, "Nothing is wrong." if not self.warnings else "See the warnings above."])


def health() -> Health:
    """Look."""
    from threadpoolctl import threadpool_info

    libraries = [lib for lib in threadpool_info() if lib.get("user_api") == "blas"]
    blas = tuple(
        {key: str(lib[key]) for key in ("internal_api", "version", "architecture", "num_threads") if lib.get(key)}
        for lib in libraries
    )
    missing = {
        name: f"for {what}; {how}" for name, (what, how) in _OPTIONAL.items() if importlib.util.find_spec(name) is None
    }
    return Health(versions(), usable_cores(), blas, missing, tuple(_warnings(blas)))


def _warnings(blas: tuple[dict[str, str], ...]) -> list[str]:
    found = []
    try:
        addresses()
    except MissingDependencyError as error:
        found.append(str(error))
    for one in blas:
        if one.get("architecture", "").lower() in _OLD_KERNELS:
            found.append(
                f"BLAS uses kernels for {one['architecture']}; set OPENBLAS_CORETYPE to those of this machine, such as "
                "Haswell."
            )
    if os.environ.get("OMP_NUM_THREADS") is None and usable_cores() > 8:
        found.append("many cores: set OMP_NUM_THREADS=4, since small matrices do not gain from more.")
    return found
