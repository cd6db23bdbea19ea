"""Posteriors of every kind, and what their tests share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from bvsi.infer.constraints import as_linear, project
from bvsi.infer.posteriors import (
    ChainPosterior,
    GaussianPosterior,
    NormalInverseGammaPosterior,
    ParticlePosterior,
    Posterior,
    TruncatedPosterior,
)

NAMES = ("u: laplacian(u)", "v: u*v − strange 'name'")
MEAN = np.array([1 / 3, -2.5e-7])
COVARIANCE = np.array([[1e-2, 2e-9], [2e-9, 4e-14]])


def installed_arviz() -> Any:
    """ArviZ, whose import warns of its next version; the test is skipped where it is absent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz")


def truncated(mean, covariance, *texts: str, noise: tuple[float, float] | None = None) -> TruncatedPosterior:
    """Operators a, b, c, … under inequalities; noise: (alpha, beta) of a normal-inverse-gamma base."""
    names = tuple("abcdefgh"[: len(mean)])
    mean, covariance = np.asarray(mean, dtype=float), np.asarray(covariance, dtype=float)
    constraints = as_linear(texts, names)
    base: GaussianPosterior | NormalInverseGammaPosterior = GaussianPosterior(names, mean, covariance)
    if noise is not None:
        base = NormalInverseGammaPosterior(names, mean, covariance, *noise)
    return TruncatedPosterior(base, constraints, project(mean, constraints, np.linalg.inv(covariance)))


def every_kind() -> dict[str, Posterior]:
    """One posterior of each kind, with awkward names, units and numbers."""
    rng = np.random.default_rng(0)
    draws = MEAN + rng.standard_normal((3, 40, 2)) @ np.linalg.cholesky(COVARIANCE).T
    gaussian = GaussianPosterior(NAMES, MEAN, COVARIANCE)
    student = NormalInverseGammaPosterior(NAMES, MEAN, COVARIANCE, 12.5, 1 / 7)
    plain = as_linear([f"[{NAMES[0]}] >= 0.3"], NAMES)
    bounds = plain.with_bounds(np.array([-np.inf, -1e-6]), np.array([np.inf, 0.0]), ("", "b"))
    free = as_linear(None, NAMES)
    diverging = np.zeros((3, 40), dtype=bool)
    diverging[1, 7] = True
    lp = -rng.random((3, 40))
    return {
        "gaussian": gaussian,
        "normal-inverse-gamma": student,
        "truncated gaussian": TruncatedPosterior(gaussian, bounds, MEAN),
        "truncated student": TruncatedPosterior(student, bounds, MEAN),
        "not truncated": TruncatedPosterior(gaussian, free, MEAN),
        "particles": ParticlePosterior(NAMES, draws[0], {"bandwidth": 1 / 3, "drift": np.nan}, ("«few» particles",)),
        "chains": ChainPosterior(NAMES, draws, lp, diverging, ("one divergence.", "short")),
        "bare chains": ChainPosterior(NAMES, draws),
    }
