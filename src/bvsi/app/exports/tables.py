"""Coefficients as a table of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi.app.report.equation import split_name

if TYPE_CHECKING:
    from bvsi.discovery import Discovery


def to_dataframe(
    found: Discovery, *, draws: int = 0, level: float = 0.95, rng: np.random.Generator | None = None
) -> Any:
    """Operators with coefficient, standard deviation, interval and P(in), one row each; or draws.

    With units there is a column of them.

    Parameters
    ----------
    draws
        Number of draws of the posterior; with it the table has one column per operator instead.
    level
        Probability of the intervals.
    rng
        For the draws, by default seed 0.
    """
    import pandas as pd

    names = list(found.names)
    if draws:
        rng = np.random.default_rng(0) if rng is None else rng
        return pd.DataFrame(found.posterior.sample(draws, rng), columns=names)
    low, high = np.asarray(found.posterior.interval(level)).T
    inclusion = found.inclusion()
    columns = {
        "equation": [split_name(name, found.fields)[0] for name in names],
        "operator": [split_name(name, found.fields)[1] for name in names],
        "coefficient": found.theta,
        "sd": found.sd,
        "lower": low,
        "upper": high,
        "inclusion": [inclusion[name] for name in names],
        **({"unit": [found.units[name] for name in names]} if found.units else {}),
    }
    return pd.DataFrame(columns, index=pd.Index(names, name="name"))
