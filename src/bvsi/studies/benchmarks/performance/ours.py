"""Full discoveries by bvsi, from data to posterior: the paper's algorithm, and bvsi's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.discovery import Discovery, Method, discover
from bvsi.infer import Fit
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, ResidualSystem, assemble
from bvsi.select import Backward, ResidualBIC
from bvsi.spaces import Q1, Galerkin
from bvsi.studies.benchmarks.performance.literal import LiteralFit

Array = NDArray[np.float64]

SAME = 1e-6
"""Two results are the same where coefficients and covariances agree to this part of their size."""


@dataclass(frozen=True, eq=False)
class Found:
    """A model: names, theta (d,), covariance (d, d)."""

    names: tuple[str, ...]
    theta: Array
    covariance: Array

    @staticmethod
    def of(fit: Fit | None) -> Found:
        """A fit with a posterior."""
        assert fit is not None
        assert fit.posterior is not None
        return Found(fit.names, fit.theta, fit.posterior.covariance)


@dataclass(frozen=True, eq=False)
class Eliminated:
    """The model selected, the one with all operators, and how many models were fitted."""

    best: Found
    full: Found
    fits: int


def assembled(data: Data, library: Library) -> ResidualSystem:
    """Q1 elements and backward Euler, which is how the paper's data are made."""
    return assemble(data, library, discretisation=Galerkin(Q1), stencil=BackwardEuler())


def paper_algorithm(data: Data, library: Library, sigma: float, *, refit_all: bool) -> Eliminated:
    """Backward elimination by the residual BIC with lagged fits; without patience, as in the paper.

    Parameters
    ----------
    refit_all
        Every smaller model is fitted, else the contenders of the closed form only.
    """
    likelihood = residual_likelihood(assembled(data, library), IID(sigma))
    path = Backward(ResidualBIC(), refit_all=refit_all, patience=0).select(likelihood, keep=library.keep)
    return Eliminated(Found.of(path.best.fit), Found.of(path.visited[0].fit), path.fits)


def own_method(data: Data, library: Library, sigma: float) -> Discovery:
    """What ``discover`` does with the paper's discretisation and noise level: no check."""
    method = Method(tests=Galerkin(Q1), stencil=BackwardEuler())
    return discover(data, library, noise=IID(sigma), method=method, check=False)


@dataclass(frozen=True)
class Agreement:
    """Whether two results have the same operators, and the largest relative differences.

    Attributes
    ----------
    theta
        |Δθ_i|/(|θ_i| + sd_i).
    covariance
        |ΔV_ij|/√(V_ii V_jj); both infinite where the operators differ.
    """

    model: bool
    theta: float
    covariance: float

    @property
    def same(self) -> bool:
        """The same to rounding and the tolerance of the iteration."""
        return self.model and max(self.theta, self.covariance) <= SAME


def agreement(found: Found, reference: LiteralFit) -> Agreement:
    """Compare a result with that of the literal way."""
    if found.names != reference.names:
        return Agreement(False, np.inf, np.inf)
    sd = np.sqrt(np.diag(reference.covariance))
    theta = np.abs(found.theta - reference.theta) / (np.abs(reference.theta) + sd)
    covariance = np.abs(found.covariance - reference.covariance) / np.outer(sd, sd)
    return Agreement(True, float(theta.max()), float(covariance.max()))
