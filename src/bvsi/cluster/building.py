"""Pieces made on the workers: pure functions of what is sent, so that Dask can repeat them when a worker dies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.cluster.piece import Piece
from bvsi.cluster.stored import StoredFrames
from bvsi.common.arrays import Array
from bvsi.data import Data
from bvsi.likelihood import CovariancePlan, ResidualLikelihood, Weighting
from bvsi.noise import Noise, StateCovariance
from bvsi.noise.correlation import gain_of_counts
from bvsi.operators import Library
from bvsi.residual import Stencil, Structure, assemble, discretise_library
from bvsi.residual.assembly import Discretisation, Discretised
from bvsi.residual.thinning import Thinning


@dataclass(frozen=True, eq=False)
class Recipe:
    """How all pieces of an experiment are made."""

    library: Library
    discretisation: Discretisation
    weighting: Weighting


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What one piece is made of.

    Attributes
    ----------
    source
        Its frames.
    stencil
        The rows of its blocks, or the whole stencil where it is not cut.
    noise, variance
        Noise and variance at its frames.
    thin
        How covariances of many data are thinned, None for all nodes and times.
    first
        Number of its first frame in the experiment.
    """

    source: Data | StoredFrames
    stencil: Stencil
    noise: Noise
    variance: Mapping[str, Array]
    thin: Thinning | None
    first: int
    label: str

    def data(self) -> Data:
        """The frames."""
        return self.source.data() if isinstance(self.source, StoredFrames) else self.source


@dataclass(frozen=True, eq=False)
class SharedParts:
    """What all pieces of an experiment share: weak operators, space, and the plan of the covariance of a block."""

    discretised: Discretised
    plan: CovariancePlan | None


def prepare(recipe: Recipe, ingredients: Ingredients) -> SharedParts:
    """Weak forms, space and symbolic factorisation, from a piece of one block."""
    data = ingredients.data()
    discretised = discretise_library(data, recipe.library, recipe.discretisation)
    if recipe.weighting.couples_blocks:
        return SharedParts(discretised, None)
    (residuals,) = _assembled(recipe, ingredients, data, discretised).experiments
    return SharedParts(discretised, recipe.weighting.plan(residuals.structure, ingredients.noise))


def build(recipe: Recipe, ingredients: Ingredients, prepared: SharedParts | None) -> Piece:
    """A piece, assembled from its frames."""
    discretised = None if prepared is None else prepared.discretised
    system = _assembled(recipe, ingredients, ingredients.data(), discretised)
    (residuals,) = system.experiments
    plan = _plan(recipe.weighting, residuals.structure, ingredients.noise, prepared)
    if plan is not None:
        plan = replace(plan, noise=replace(plan.noise, first=ingredients.first))
    return Piece(ResidualLikelihood(system, (ingredients.noise,), recipe.weighting, (plan,)), ingredients.label)


def _assembled(recipe: Recipe, ingredients: Ingredients, data: Data, discretised: Discretised | None) -> Any:
    return assemble(
        data,
        recipe.library,
        discretisation=recipe.discretisation,
        stencil=ingredients.stencil,
        variance=ingredients.variance,
        discretised=discretised,
        thin=ingredients.thin,
        gain=[gain_of_counts(ingredients.noise)],
    )


def _plan(
    weighting: Weighting, structure: Structure, noise: Noise, prepared: SharedParts | None
) -> CovariancePlan | None:
    """The plan of another piece where it fits, else a new one."""
    known = None if prepared is None else prepared.plan
    if known is None or not _same_pattern(known.structure, structure):
        return weighting.plan(structure, noise)
    state = noise.covariance(structure)
    if not (known.smear is None and state.diagonal) and not _same_covariances(known.noise, state):
        return weighting.plan(structure, noise)
    return replace(known, structure=structure, noise=state)


def _same_pattern(one: Structure, other: Structure) -> bool:
    p, q = one.pattern, other.pattern
    return p.shape == q.shape and np.array_equal(p.indptr, q.indptr) and np.array_equal(p.indices, q.indices)


def _same_covariances(one: StateCovariance, other: StateCovariance) -> bool:
    """Whether covariances that are not diagonal are the same, one by one."""
    if len(one.distinct) != len(other.distinct):
        return False
    pairs = list(zip(one.distinct, other.distinct, strict=True))
    return all(sparse.issparse(p) and sparse.issparse(q) and not (p != q).nnz for p, q in pairs)
