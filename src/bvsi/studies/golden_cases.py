"""Small cases of every kind that bvsi is used for; each gives the figures by which its result is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
import skfem
from numpy.typing import NDArray

from bvsi.data import Data, Grid, Mesh
from bvsi.discovery import Discovery, Method, discover
from bvsi.infer import NUTS, SVGD, Fit, Lagged, LeastSquares, Profile
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, Covariance, PerTime, UnknownScale, add_noise
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, assemble
from bvsi.select import Backward, ResidualBIC, SelectionPath
from bvsi.spaces import P2, Q1, Q2, Galerkin, Lagrange
from bvsi.studies.problems import cahn_hilliard, fokker_planck
from bvsi.studies.problems.classics import CLASSICS, Classic

Array = NDArray[np.float64]
Figures = dict[str, Any]

_SIGMA = 1e-3
_COARSE = 4  # of 112 cells per side, of which every fourth node is taken


def of_fit(fit: Fit) -> Figures:
    """Coefficients and covariance of a fit."""
    figures: Figures = {"names": list(fit.names), "theta": fit.theta.tolist()}
    if fit.posterior is not None:
        figures |= {"covariance": fit.posterior.covariance.tolist(), "chi2": float(fit.chi2)}
    return figures


def of_path(path: SelectionPath) -> Figures:
    """Models of a path and their scores."""
    steps = [{"names": list(v.names), "changed": v.changed, "score": float(v.score)} for v in path.visited]
    return {"criterion": path.criterion, "steps": steps, "doubts": path.doubts}


def of_discovery(found: Discovery) -> Figures:
    """Coefficients, covariance, path and verdict."""
    figures: Figures = {
        "names": list(found.names),
        "theta": found.theta.tolist(),
        "covariance": found.posterior.covariance.tolist(),
        "chi2": float(found.chi2),
        "path": of_path(found.path),
        "verdict": found.verdict,
    }
    if found.check is not None:
        figures["comparisons"] = {c.name: float(c.p) for c in found.check.comparisons}
    return figures


@cache
def _fokker_planck() -> Data:
    return add_noise(fokker_planck.forward_solve(112, False).subsample(_COARSE), _SIGMA, np.random.default_rng(1))


def _true_model(element: Lagrange) -> Figures:
    """VSI, lagged and profile estimates of the paper's true model."""
    system = assemble(_fokker_planck(), fokker_planck.library(), discretisation=Galerkin(element))
    likelihood = residual_likelihood(system, IID(_SIGMA))
    return {
        "vsi": of_fit(LeastSquares().fit(system)),
        "lagged": of_fit(Lagged().fit(likelihood, prior=fokker_planck.PRIOR)),
        "profile": of_fit(Profile().fit(likelihood)),
    }


def _paper_selection() -> Figures:
    library = fokker_planck.library(fokker_planck.CANDIDATES)
    system = assemble(_fokker_planck(), library, discretisation=Galerkin(Q1), stencil=BackwardEuler())
    path = Backward(ResidualBIC(), patience=0).select(residual_likelihood(system, IID(_SIGMA)), keep=library.keep)
    assert path.best.fit is not None
    return {**of_fit(path.best.fit), "path": of_path(path)}


def _sweep(element: Lagrange) -> Figures:
    library = fokker_planck.library(fokker_planck.CANDIDATES)
    method = Method(tests=Galerkin(element), stencil=BackwardEuler())
    return of_discovery(discover(_fokker_planck(), library, method=method))


def _cahn_hilliard() -> Figures:
    case = cahn_hilliard.CahnHilliardCase(nx=12)
    library = cahn_hilliard.library(case.treatment)
    method = Method(tests=Galerkin(P2), stencil=case.stencil)
    data, noise = cahn_hilliard.observed(case), IID(case.sigma)
    return of_discovery(discover(data, library, noise=noise, method=method, check=False))


def _small(name: str, **sizes: Any) -> Classic:
    """A classic equation on fewer nodes and times."""
    return replace(CLASSICS[name], make=lambda: CLASSICS[name].make(**sizes))


def _burgers() -> Classic:
    return _small("burgers", nodes=128, times=51)


def _classic(case: Classic, level: float, **options: Any) -> Figures:
    return of_discovery(discover(case.noisy(level, 3), case.library(), **options))


def _masked() -> Figures:
    """A tenth of the values missing at random."""
    case = _burgers()
    data = case.noisy(0.02, 3)
    values = np.array(data.fields["u"])
    values[np.random.default_rng(5).random(values.shape) < 0.1] = np.nan
    return of_discovery(
        discover(
            Data.from_arrays({"u": values}, times=data.times, geometry=data.geometry, missing="nan"), case.library()
        )
    )


def _experiments() -> Figures:
    case = _burgers()
    return of_discovery(discover([case.noisy(0.05, 3), case.noisy(0.02, 4)], case.library()))


def _stated_per_time() -> Figures:
    case = _burgers()
    clean = case.data()
    sigma = np.linspace(0.004, 0.02, len(clean.times))
    noise = sigma[:, None] * np.random.default_rng(6).standard_normal(clean.fields["u"].shape)
    return of_discovery(
        discover(clean.with_fields({"u": clean.fields["u"] + noise}), case.library(), noise=PerTime(sigma))
    )


def _stated_covariance() -> Figures:
    """Noise with correlated neighbours: a moving average of white noise, on a periodic axis."""
    case = _burgers()
    clean = case.data()
    white = 0.01 * np.random.default_rng(7).standard_normal(clean.fields["u"].shape)
    noise = white + 0.4 * np.roll(white, 1, axis=1)
    n = clean.geometry.n_nodes
    mean = sp.eye_array(n) + 0.4 * sp.csr_array(np.roll(np.eye(n), 1, axis=0))
    matrix = 1e-4 * (mean @ mean.T)
    return of_discovery(
        discover(clean.with_fields({"u": clean.fields["u"] + noise}), case.library(), noise=Covariance(matrix))
    )


def _triangles(method: Method | None = None) -> Figures:
    """u_t = 0.1 ∇²u + u_x on triangles: decaying waves, carried along."""
    mesh = skfem.MeshTri1.init_tensor(np.linspace(0, 1, 17), np.linspace(0, 1, 17))
    t = np.linspace(0, 0.3, 21)[:, None]
    x, y = mesh.p
    u = 1 + sum(
        np.exp(-0.1 * np.pi**2 * (k**2 + m**2) * t) * np.cos(np.pi * (k * (x + t) + phase)) * np.cos(np.pi * m * y)
        for k, m, phase in ((1, 1, 0.2), (2, 1, 0.5), (1, 2, 0.8), (2, 3, 0.1))
    )
    data = add_noise(Data(t[:, 0], {"u": u}, Mesh(mesh.p.T, mesh.t.T, "triangle")), 0.01, np.random.default_rng(8))
    return of_discovery(discover(data, Library({"u": ["laplacian(u)", "dx(u)", "dy(u)", "u"]}), method=method))


def _two_species(n: int = 48) -> tuple[Data, Library]:
    """Two fields that diffuse alike and decay into one another."""
    x, t = 2 * np.pi * np.arange(n) / n, np.linspace(0, 2, 41)[:, None]
    waves = ((1, 0.3, 1.0), (2, 1.1, 0.7), (3, 2.0, 0.5))
    decay = {k: np.exp(-0.05 * k**2 * t) for k, _, _ in waves}
    c1 = 2 * np.exp(-0.5 * t) + sum(a * np.exp(-0.5 * t) * decay[k] * np.cos(k * x + p) for k, p, a in waves)
    total = 4 + sum(a * decay[k] * (np.cos(k * x + p) + np.sin(k * x)) for k, p, a in waves)
    grid = Grid(x=x, periodic={"x": 2 * np.pi})
    data = Data.from_arrays({"c1": c1, "c2": total - c1}, times=t[:, 0], geometry=grid)
    terms = ["laplacian(c{i})", "c1", "c2", "dx(c{i})"]
    library = Library({f"c{i}": [term.format(i=i) for term in terms] for i in (1, 2)})
    return add_noise(data, 0.02, np.random.default_rng(9)), library


def _ties() -> Figures:
    data, library = _two_species()
    first, second = (next(name for name in library.names if "laplacian" in name and f"c{i})" in name) for i in (1, 2))
    return of_discovery(discover(data, library, constraints=[f"{first} == {second}", f"{first} > 0"]))


def _sampler(estimator: SVGD | NUTS) -> Figures:
    """Mean of a posterior of particles or chains."""
    case = _burgers()
    library, method = Library({"u": list(case.truth)}), Method(estimator=estimator)
    found = discover(case.noisy(0.05, 3), library, method=method, check=False)
    return {
        "names": list(found.names),
        "theta": found.theta.tolist(),
        "covariance": found.posterior.covariance.tolist(),
    }


@dataclass(frozen=True)
class GoldenCase:
    """One case.

    Attributes
    ----------
    about
        What it stands for.
    """

    about: str
    run: Callable[[], Figures]


CASES: Mapping[str, GoldenCase] = MappingProxyType(
    {
        "fokker-planck-q1": GoldenCase("paper's data, true model, Q1: VSI, lagged, profile", lambda: _true_model(Q1)),
        "fokker-planck-q2": GoldenCase("the same on Q2", lambda: _true_model(Q2)),
        "fokker-planck-paper": GoldenCase("the paper's elimination by the residual BIC", _paper_selection),
        "fokker-planck-sweep-q1": GoldenCase("elements by default, with check, Q1", lambda: _sweep(Q1)),
        "fokker-planck-sweep-q2": GoldenCase("elements by default, with check, Q2", lambda: _sweep(Q2)),
        "cahn-hilliard": GoldenCase("thirty candidates, 12 × 12 P2", _cahn_hilliard),
        "burgers": GoldenCase("spline tests", lambda: _classic(_burgers(), 0.05)),
        "kdv": GoldenCase("third derivatives", lambda: _classic(_small("kdv", nodes=256, times=101, final=10), 0.05)),
        "ks": GoldenCase(
            "fourth derivatives", lambda: _classic(_small("kuramoto_sivashinsky", nodes=256, times=101, final=40), 0.05)
        ),
        "fokker-planck-splines": GoldenCase(
            "2D, spline tests", lambda: _classic(_small("fokker_planck_2d", nodes=32, times=31), 0.02)
        ),
        "schroedinger": GoldenCase("two fields", lambda: _classic(_small("schroedinger", nodes=128, times=101), 0.02)),
        "missing-values": GoldenCase("a tenth of the values missing", _masked),
        "experiments": GoldenCase("two experiments with their own noise", _experiments),
        "unknown-scale": GoldenCase("noise of unknown level", lambda: _classic(_burgers(), 0.05, noise=UnknownScale())),
        "per-time": GoldenCase("stated noise, one level per time", _stated_per_time),
        "covariance": GoldenCase("stated noise, correlated", _stated_covariance),
        "triangles": GoldenCase("elements on a mesh", lambda: _triangles(Method(tests=Galerkin()))),
        "triangles-splines": GoldenCase("spline tests on a mesh", _triangles),
        "ties": GoldenCase("two fields, an equality and an inequality", _ties),
        "svgd": GoldenCase("particles", lambda: _sampler(SVGD(particles=20))),
        "nuts": GoldenCase("Markov chains", lambda: _sampler(NUTS(draws=100, tune=100, chains=2))),
    }
)
"""Case by name."""
