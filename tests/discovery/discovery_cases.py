"""Data of own making for the facade, and discoveries made by hand."""

from __future__ import annotations

import numpy as np

from bvsi.data import Data, Grid
from bvsi.discovery import Discovery
from bvsi.forward import ThetaScheme, simulate
from bvsi.infer import Status
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.select import SelectionPath, Visited
from bvsi.spaces import Q2, Galerkin

TRUTH = {"laplacian(u)": 0.02, "u": -0.5}
LIBRARY = Library({"u": ["laplacian(u)", "u", "dx(u)", "u**2", "u*dx(u)"]}, keep=["laplacian(u)"])

COUPLED_TRUTH = {"u: laplacian(u)": 0.02, "u: u": -0.5, "u: v": 0.3, "v: laplacian(v)": 0.03, "v: u": 0.4}
COUPLED = Library({"u": ["laplacian(u)", "u", "v", "dx(u)"], "v": ["laplacian(v)", "u", "v"]})

GRID = Grid(x=np.linspace(0, 1, 20, endpoint=False), periodic={"x": 1.0})
TIMES = np.linspace(0, 0.5, 17)


def clean(library: Library = LIBRARY, theta: dict[str, float] = TRUTH, phase: float = 0.0) -> Data:
    """Accurate in time (Crank–Nicolson, several steps per sample), Q2 in space, periodic."""
    x = GRID.axes["x"]
    waves = {
        "u": 1.5 + np.sin(2 * np.pi * x + phase) + 0.4 * np.cos(4 * np.pi * x),
        "v": 0.8 + np.cos(2 * np.pi * x) - 0.3 * np.sin(4 * np.pi * x + phase),
    }
    fields = {f: np.stack([waves[f], waves[f]]) for f in library.equations}
    initial = Data(times=TIMES[:2], fields=fields, geometry=GRID)
    return simulate(library, theta, initial, TIMES, scheme=ThetaScheme(0.5, 6), discretisation=Galerkin(Q2))


def noisy(data: Data, sigma: float, seed: int = 0) -> Data:
    return add_noise(data, sigma, np.random.default_rng(seed))


def made(kind: str = "gaussian") -> Discovery:
    """A discovery with awkward numbers: NaN-free, but long names, two fields, two experiments, tiny and huge values."""
    names = ("u: laplacian(u)", "v: div(v*grad(x**2))")
    candidates = (*names, "v: u*v − strange 'name'")
    mean, shape = np.array([1 / 3, -2.5e-17]), np.array([[1e-4, 1e-14], [1e-14, 4e-24]])
    posterior = GaussianPosterior(names, mean, shape)
    if kind == "nig":
        posterior = NormalInverseGammaPosterior(names, mean, shape, 12.5, 1 / 7)
    first = Visited(candidates, -1234.56789, np.array([0.1, 0.2, np.pi]), 1.01, None, {}, frozenset())
    second = Visited(
        names, -1240.1, mean, 1.02, candidates[2], {candidates[2]: -1240.1, names[0]: 1e300}, frozenset([candidates[2]])
    )
    return Discovery(
        fields=("u", "v"),
        candidates=candidates,
        posterior=posterior,
        chi2=1.02,
        chi2_blocks=(np.array([0.5, 9.0, 1.0]), np.array([1.0])),
        block_rows=(50, 40),
        score_sd=np.array([0.5, 1e-12]),
        status=Status(False, 30, "not converged in 30 iterations; «ask» for more."),
        path=SelectionPath((first, second), "Wald z² − log n", "stopped: removing it raises the criterion by 1."),
        settings={"noise": "IID(sigma=0.001)", "discretisation": "Q2 on 20 in [0, 1)"},
        seconds=1.25,
    )
