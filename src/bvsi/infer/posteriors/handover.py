"""Methods by which every posterior is handed to other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from bvsi.infer.posteriors.posterior import Posterior


class HandOver:
    """To xarray, to ArviZ, to a file."""

    def to_datatree(self: Posterior, *, size: int = 2000, rng: np.random.Generator | None = None) -> xr.DataTree:
        """Draws as :func:`bvsi.infer.posteriors.to_datatree` labels them."""
        from bvsi.infer.posteriors.export import to_datatree

        return to_datatree(self, size=size, rng=rng)

    def to_arviz(self: Posterior, *, size: int = 2000, rng: np.random.Generator | None = None) -> Any:
        """Draws as the installed ArviZ takes them, see :func:`bvsi.infer.posteriors.to_arviz`."""
        from bvsi.infer.posteriors.export import to_arviz

        return to_arviz(self, size=size, rng=rng)

    def save(self: Posterior, path: str | Path) -> None:
        """Write to a NetCDF file that :func:`bvsi.infer.posteriors.load_posterior` reads."""
        from bvsi.infer.posteriors.storage import save_posterior

        save_posterior(self, path)
