"""The selected operators fitted again, to the first frames."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bvsi.common.naming import matches
from bvsi.common.progress import Progress
from bvsi.data import Data
from bvsi.discovery.facade import discover
from bvsi.discovery.result import Discovery
from bvsi.errors import BvsiError
from bvsi.infer.constraints import as_linear
from bvsi.infer.priors import GaussianPrior, Prior
from bvsi.operators import Library
from bvsi.predict.forecast import ForecastError


def all_kept(library: Library) -> Library:
    """The library with every operator kept, so that nothing is selected."""
    kept = copy.copy(library)
    kept.keep = kept.names
    return kept


def refitted(
    experiments: Sequence[Data],
    kept: list[int],
    chosen: Library,
    library: Library,
    options: dict[str, Any],
    progress: Progress,
) -> Discovery:
    """The chosen operators fitted to the first frames."""
    train = [one.select_times(slice(0, k)) for one, k in zip(experiments, kept, strict=True)]
    given = {key: value for key, value in options.items() if key not in ("check", "progress")}
    if given.get("noise") is not None:
        noise, n = given["noise"], len(kept)
        models = list(noise) if isinstance(noise, Sequence) else [noise] * n
        given["noise"] = [model.at(slice(0, k)) for model, k in zip(models, kept, strict=True)]
    if given.get("constraints") is not None and len(chosen.equations) == len(library.equations):
        given["constraints"] = as_linear(given["constraints"], library.names).restrict(chosen.names)
    if isinstance(given.get("prior"), Prior | GaussianPrior):
        given["prior"] = _prior_of(given["prior"], chosen.names)
    try:
        return discover(train, chosen, check=False, progress=progress, **given)
    except BvsiError as error:
        raise ForecastError(
            f"forecast: the equation cannot be fitted to the first {kept[0]} frames: {error}"
        ) from error


def _prior_of(prior: Prior | GaussianPrior, names: tuple[str, ...]) -> Prior | GaussianPrior:
    """The prior without the terms of operators that were not selected."""

    def has(key: str | tuple[str, ...]) -> bool:
        return all(matches(name, names) for name in ((key,) if isinstance(key, str) else key))

    if isinstance(prior, GaussianPrior):
        return replace(prior, terms={key: law for key, law in prior.terms.items() if has(key)})
    return replace(prior, terms={key: law for key, law in prior.terms.items() if has(key)})
