"""Priors in a study file: one table per distribution, with the parameters of :mod:`bvsi.infer.priors`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bvsi.app.study.types import Name, Number, Positive, Section


class NormalPrior(Section):
    """Gaussian with mean and variance."""

    distribution: Literal["normal"]
    mean: Number
    variance: Positive


class LogNormalPrior(Section):
    """Positive, with a Gaussian logarithm."""

    distribution: Literal["log-normal"]
    log_mean: Number
    log_variance: Positive


class HalfNormalPrior(Section):
    """Positive half of a Gaussian around zero."""

    distribution: Literal["half-normal"]
    scale: Positive


class UniformPrior(Section):
    """Even between two bounds."""

    distribution: Literal["uniform"]
    lower: Number
    upper: Number


class LaplacePrior(Section):
    """Two-sided exponential."""

    distribution: Literal["laplace"]
    location: Number
    scale: Positive


class StudentTPrior(Section):
    """Student's t with heavy tails."""

    distribution: Literal["student-t"]
    dof: Positive
    location: Number = 0.0
    scale: Positive = 1.0


class HorseshoePrior(Section):
    """Much mass at zero and heavy tails."""

    distribution: Literal["horseshoe"]
    scale: Positive
    smoothing: Positive = 1e-2


class FlatPrior(Section):
    """Nothing is known."""

    distribution: Literal["flat"]


class ColumnScalePrior(Section):
    """Weak, with the scale of the operator's column."""

    distribution: Literal["column-scale"]
    weight: Positive = 1e-10


class JointPrior(Section):
    """A joint Gaussian of several operators."""

    operators: tuple[Name, ...] = Field(description="Names of the operators")
    mean: tuple[Number, ...] = Field(description="Their means")
    covariance: tuple[tuple[Number, ...], ...] = Field(description="Their covariance, row by row")


AnyLaw = (
    NormalPrior
    | LogNormalPrior
    | HalfNormalPrior
    | UniformPrior
    | LaplacePrior
    | StudentTPrior
    | HorseshoePrior
    | FlatPrior
)
Law = Annotated[AnyLaw, Field(discriminator="distribution")]
DefaultLaw = Annotated[AnyLaw | ColumnScalePrior, Field(discriminator="distribution")]
