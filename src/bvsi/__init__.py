"""bvsi: discover PDEs, with honest uncertainty, from noisy full-field data.

The public names below are imported when first used, so that ``import bvsi`` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bvsi._version import __version__

if TYPE_CHECKING:
    from bvsi.app import datasets
    from bvsi.app.comparison import compare
    from bvsi.app.regressor import BvsiRegressor
    from bvsi.data import Data, Grid, Mesh
    from bvsi.data.scattered import mesh_through
    from bvsi.discovery import Discovery, Method, Paper, discover
    from bvsi.discovery.forecasting import forecast, simulate_found
    from bvsi.errors import BvsiError
    from bvsi.forward import ThetaScheme, simulate
    from bvsi.infer import NUTS, SVGD, Lagged, LeastSquares, Maximum, Profile
    from bvsi.infer.constraints import Constraints
    from bvsi.infer.priors import (
        ColumnScale,
        Flat,
        HalfNormal,
        Horseshoe,
        JointNormal,
        Laplace,
        LogNormal,
        Normal,
        Prior,
        StudentT,
        Uniform,
    )
    from bvsi.likelihood import Block, Isotropic, Stacked, Tiles, residual_likelihood
    from bvsi.noise import IID, Covariance, Diagonal, PerField, PerTime, UnknownScale, add_noise, estimate_noise
    from bvsi.operators import Dirichlet, InteriorPenalty, Library, Mixed, NoFlux, ZeroNeumann, free_energy_library
    from bvsi.operators import isotropic as isotropic
    from bvsi.operators import polynomials as polynomials
    from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, TemporalTests, assemble
    from bvsi.select import Backward, BestSubset, ProfileBIC, ResidualBIC, Sweep, Wald
    from bvsi.spaces import H3, P1, P2, Q1, Q2, Galerkin, SplineTests

# Names by the package that has them.
_HOME = {
    "infer.constraints": "Constraints",
    "data": "Data Grid Mesh",
    "data.scattered": "mesh_through",
    "discovery": "Discovery Method Paper discover",
    "discovery.forecasting": "forecast simulate_found",
    "errors": "BvsiError",
    "infer": "NUTS SVGD Lagged LeastSquares Maximum Profile",
    "likelihood": "Block Isotropic Stacked Tiles residual_likelihood",
    "noise": "IID Covariance Diagonal PerField PerTime UnknownScale add_noise estimate_noise",
    "operators": "Dirichlet InteriorPenalty Library Mixed NoFlux ZeroNeumann free_energy_library",
    "app.comparison": "compare",
    "infer.priors": "ColumnScale Flat HalfNormal Horseshoe JointNormal Laplace LogNormal Normal Prior StudentT Uniform",
    "residual": "BDF2 BackwardEuler CrankNicolson TemporalTests assemble",
    "forward": "ThetaScheme simulate",
    "select": "Backward BestSubset ProfileBIC ResidualBIC Sweep Wald",
    "spaces": "H3 P1 P2 Q1 Q2 Galerkin SplineTests",
}
# Packages whose further names are available after ``import bvsi`` alone, such as ``bvsi.select.Forward``.
_PACKAGES = ("check", "data", "infer", "likelihood", "noise", "operators", "predict", "residual", "select", "spaces")
# Also available, but no part of the method: lists of candidates, and names that may need packages that are
# not installed.
_MORE = {
    "BvsiRegressor": "bvsi.app.regressor",
    "polynomials": "bvsi.operators",
    "isotropic": "bvsi.operators",
}
_MODULE_OF = {name: f"bvsi.{module}" for module, names in _HOME.items() for name in names.split()}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"bvsi.{name}")
    if name == "datasets":
        return importlib.import_module("bvsi.app.datasets")
    home = _MODULE_OF.get(name) or _MORE.get(name)
    if home is None:
        raise AttributeError(f"module 'bvsi' has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(home), name)  # the next time it is simply there
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MORE, "datasets"])
