"""bvsi: discover PDEs, with honest uncertainty, from noisy full-field data.

The public names below are imported when first used, so that ``import bvsi`` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bvsi._version import __version__

if TYPE_CHECKING:
    from bvsi.check import Check, Verdict
    from bvsi.data import Data, Grid, Mesh
    from bvsi.discovery import Discovery, Method, Paper, discover
    from bvsi.discovery.forecasting import forecast, simulate_found
    from bvsi.errors import BvsiError
    from bvsi.forward import ThetaScheme, simulate
    from bvsi.infer import (
        NUTS,
        SVGD,
        Fit,
        FrozenCovariance,
        Lagged,
        Lasso,
        LeastSquares,
        Maximum,
        MedianRBF,
        Profile,
        ProfileDensity,
        ResidualDensity,
        Ridge,
        column_prior,
    )
    from bvsi.infer.constraints import Constraints
    from bvsi.infer.posteriors import (
        ChainPosterior,
        GaussianPosterior,
        NormalInverseGammaPosterior,
        ParticlePosterior,
        TruncatedPosterior,
        compare,
        load_posterior,
        save_posterior,
        to_arviz,
        to_datatree,
    )
    from bvsi.infer.priors import (
        ColumnScale,
        Flat,
        GaussianPrior,
        HalfNormal,
        Horseshoe,
        InverseGammaPrior,
        JointNormal,
        Laplace,
        LogNormal,
        Normal,
        Prior,
        StudentT,
        Uniform,
    )
    from bvsi.likelihood import Block, Isotropic, Stacked, residual_likelihood
    from bvsi.noise import (
        IID,
        Covariance,
        Diagonal,
        PerField,
        PerTime,
        UnknownScale,
        add_noise,
        estimate_noise,
        find_outliers,
    )
    from bvsi.operators import (
        Assembled,
        Dirichlet,
        InteriorPenalty,
        Library,
        Mixed,
        NoFlux,
        Unknown,
        ZeroNeumann,
        free_energy_library,
        shared_free_energy,
    )
    from bvsi.predict import diffusion_potential_map, potential_map, predict_function, predict_linear
    from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, ResidualSystem, TemporalTests, assemble
    from bvsi.select import (
        Backward,
        BestSubset,
        ExactBIC,
        Exhaustive,
        Forward,
        FStatistic,
        ProfileBIC,
        ResidualBIC,
        SelectionPath,
        Sweep,
        Wald,
    )
    from bvsi.spaces import H3, P1, P2, Q1, Q2, Galerkin, Interpolation, LocalL2Projection, SplineTests

_HOME = {
    "infer.constraints": ("Constraints",),
    "data": ("Data", "Grid", "Mesh"),
    "check": ("Check", "Verdict"),
    "discovery": ("Discovery", "Method", "Paper", "discover"),
    "discovery.forecasting": ("forecast", "simulate_found"),
    "errors": ("BvsiError",),
    "infer": (
        "NUTS",
        "SVGD",
        "Fit",
        "FrozenCovariance",
        "Lagged",
        "Lasso",
        "LeastSquares",
        "Maximum",
        "MedianRBF",
        "Profile",
        "ProfileDensity",
        "ResidualDensity",
        "Ridge",
        "column_prior",
    ),
    "likelihood": ("Block", "Isotropic", "Stacked", "residual_likelihood"),
    "noise": (
        "IID",
        "Covariance",
        "Diagonal",
        "PerField",
        "PerTime",
        "UnknownScale",
        "add_noise",
        "estimate_noise",
        "find_outliers",
    ),
    "operators": (
        "Assembled",
        "Dirichlet",
        "InteriorPenalty",
        "Library",
        "Mixed",
        "NoFlux",
        "Unknown",
        "ZeroNeumann",
        "free_energy_library",
        "shared_free_energy",
    ),
    "infer.posteriors": (
        "ChainPosterior",
        "GaussianPosterior",
        "NormalInverseGammaPosterior",
        "ParticlePosterior",
        "TruncatedPosterior",
        "compare",
        "load_posterior",
        "save_posterior",
        "to_arviz",
        "to_datatree",
    ),
    "predict": ("diffusion_potential_map", "potential_map", "predict_function", "predict_linear"),
    "infer.priors": (
        "ColumnScale",
        "Flat",
        "GaussianPrior",
        "HalfNormal",
        "Horseshoe",
        "InverseGammaPrior",
        "JointNormal",
        "Laplace",
        "LogNormal",
        "Normal",
        "Prior",
        "StudentT",
        "Uniform",
    ),
    "residual": ("BDF2", "BackwardEuler", "CrankNicolson", "ResidualSystem", "TemporalTests", "assemble"),
    "forward": ("ThetaScheme", "simulate"),
    "select": (
        "Backward",
        "BestSubset",
        "ExactBIC",
        "Exhaustive",
        "FStatistic",
        "Forward",
        "ProfileBIC",
        "ResidualBIC",
        "SelectionPath",
        "Sweep",
        "Wald",
    ),
    "spaces": ("H3", "P1", "P2", "Q1", "Q2", "Galerkin", "Interpolation", "LocalL2Projection", "SplineTests"),
}
_MODULE_OF = {name: f"bvsi.{module}" for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bvsi' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
