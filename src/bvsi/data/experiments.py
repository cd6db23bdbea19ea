"""Several experiments of one system."""

from __future__ import annotations

from collections.abc import Sequence

from bvsi.data.data import Data
from bvsi.errors import DataError


def as_experiments(data: Data | Sequence[Data]) -> tuple[Data, ...]:
    """Tuple of experiments with the same fields, auxiliary fields and space dimension; one is allowed.

    Times, grids and meshes may differ between experiments.

    data: one experiment or a sequence of them.
    """
    experiments = (data,) if isinstance(data, Data) else tuple(data)
    if not experiments:
        raise DataError("data is empty; pass at least one experiment")
    for i, item in enumerate(experiments):
        if not isinstance(item, Data):
            raise DataError(f"data: experiment {i} is a {type(item).__name__}; make it with Data.from_arrays")
    first = experiments[0]
    for i, item in enumerate(experiments):
        if item.names != first.names:
            raise DataError(
                f"data: experiment {i} has the fields {', '.join(item.names)}, experiment 0 has "
                f"{', '.join(first.names)}; give all the same fields in the same order"
            )
        if set(item.auxiliary) != set(first.auxiliary):
            raise DataError(
                f"data: experiment {i} has the auxiliary fields {', '.join(item.auxiliary) or 'none'}, "
                f"experiment 0 has {', '.join(first.auxiliary) or 'none'}; give all the same ones"
            )
        if set(item.geometry.names) != set(first.geometry.names):
            raise DataError(
                f"data: experiment {i} has dimension {item.geometry.dim} ({', '.join(item.geometry.names)}), "
                f"experiment 0 has {first.geometry.dim} ({', '.join(first.geometry.names)}); "
                "give all the same space dimension and axes"
            )
    return experiments
