"""Advection, diffusion and logistic growth of bumps, sampled at any points.

    u_t = D ∇²u − v·∇u + r u − s u²,      u(0, x) = Σ_i a_i exp(−|x − c_i|²/2w²)

Two solvers: Fourier modes in a periodic box that is larger than the domain, evaluated at the points exactly, where the
domain's edge has no meaning for the field; and P2 elements on a mesh refined once more, with no diffusive flux through
the edge, where it has. Both have errors below 1e-4 of the field; times are those of the step of the data over eight.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.studies.problems.classics.spectral import Box, SemiLinear

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Rng = np.random.Generator

# Modes per side of the box: the bumps' spectrum ends at a quarter of them.
_MODES = {2: 96, 3: 64}
# Modes that are evaluated at points, relative to the largest one: four digits more than the solver has.
_SEEN = 1e-8
# Steps of the elements' solver between two frames, and iterations of its nonlinear term: two more change 1e-7.
_STEPS, _ITERATIONS = 8, 2


@dataclass(frozen=True)
class Transport:
    """Coefficients of the equation; ``v`` (dim,).

    Attributes
    ----------
    width
        w of the bumps.
    bumps
        How many.
    """

    D: float = 0.02
    v: tuple[float, ...] = (0.5, 0.2)
    r: float = 0.8
    s: float = 0.8
    width: float = 0.1
    bumps: int = 14

    @property
    def truth(self) -> dict[str, float]:
        """Coefficients by operator."""
        drift = {f"d{axis}(u)": -v for axis, v in zip("xyz", self.v, strict=False)}
        return {"laplacian(u)": self.D, **drift, "u": self.r, "u**2": -self.s}

    def start(self, low: Array, high: Array, rng: Rng) -> tuple[Array, Array]:
        """Centres (bumps, dim) and heights (bumps,) of bumps in a box."""
        return rng.uniform(low, high, (self.bumps, len(low))), rng.uniform(0.3, 1.0, self.bumps)

    def at_points(self, points: Array, times: Array, rng: Rng) -> Array:
        """Values (T, n) at points (n, dim), from Fourier modes in a box half as large again."""
        low, high = points.min(axis=0), points.max(axis=0)
        dim, size = points.shape[1], float((high - low).max())
        box = Box(0.0, 1.5 * size, dim)
        n, corner = _MODES[dim], low - 0.25 * size
        centres, heights = self.start(low - corner, high - corner, rng)
        field = np.zeros((n,) * dim)
        for (centre, height), shift in product(zip(centres, heights, strict=True), product((-1, 0, 1), repeat=dim)):
            parts = [(x - c - box.length * j) ** 2 for x, c, j in zip(box.points(n), centre, shift, strict=True)]
            field = field + height * np.exp(-sum(parts[1:], parts[0]) / (2 * self.width**2))

        def linear(*k: Array) -> Any:
            drift = sum(v * q for v, q in zip(self.v, k, strict=True))
            return -self.D * sum(q**2 for q in k) - 1j * drift + self.r

        equation = SemiLinear(
            linear,
            lambda *k: -self.s + 0 * sum(k),
            lambda u: u**2,
            degree=2,
        )
        values = equation.solve(field, box, times, float(np.diff(times).min()) / 2)
        return _fourier_at(values, box.length, points - corner)

    def on_mesh(self, points: Array, triangles: Integers, times: Array, rng: Rng) -> Array:
        """Values (T, n) at the nodes of a mesh of triangles, from P2 elements on a mesh twice as fine."""
        import scipy.sparse.linalg
        import skfem
        from skfem.helpers import dot, grad

        mesh = skfem.MeshTri(np.ascontiguousarray(points.T), np.ascontiguousarray(triangles.T)).refined()
        basis = skfem.Basis(mesh, skfem.ElementTriP2(), intorder=6)
        centres, heights = self.start(points.min(axis=0), points.max(axis=0), rng)
        x, nodes = basis.doflocs.T, basis.nodal_dofs[0, : len(points)]
        u = np.exp(-np.sum((x[:, None] - centres) ** 2, axis=2) / (2 * self.width**2)) @ heights
        mass = skfem.BilinearForm(lambda p, q, _: p * q).assemble(basis)

        def linear(p: Any, q: Any, _: Any) -> Any:
            drift = self.v[0] * p.grad[0] + self.v[1] * p.grad[1]
            return self.D * dot(grad(p), grad(q)) + (drift - self.r * p) * q

        stiffness = skfem.BilinearForm(linear).assemble(basis)
        square = skfem.LinearForm(lambda q, w: w["u"] ** 2 * q)
        h = float(np.diff(times).min()) / _STEPS
        factor = scipy.sparse.linalg.splu((mass + h / 2 * stiffness).tocsc())
        out = [u[nodes]]
        for begin, end in pairwise(times):
            for _ in range(round((end - begin) / h)):
                known, new = mass @ u - h / 2 * (stiffness @ u), u
                for _ in range(_ITERATIONS):
                    middle = basis.interpolate(0.5 * (u + new))
                    new = factor.solve(known - h * self.s * square.assemble(basis, u=middle))
                u = new
            out.append(u[nodes])
        return np.array(out)


def _fourier_at(values: Array, length: float, points: Array) -> Array:
    """Trigonometric interpolant of values (T, n, …) at points (m, dim), (T, m)."""
    n, dim = values.shape[1], values.ndim - 1
    modes = np.fft.fftn(values, axes=range(1, dim + 1)) / n**dim
    size, numbers = np.abs(modes).max(axis=0), np.fft.fftfreq(n, 1 / n)
    largest = [size.max(axis=tuple(b for b in range(dim) if b != a)) for a in range(dim)]
    seen = [np.flatnonzero(some > _SEEN * size.max()) for some in largest]
    modes = modes[np.ix_(np.arange(len(modes)), *seen)]
    waves = [np.exp(2j * np.pi / length * np.outer(x, numbers[some])) for x, some in zip(points.T, seen, strict=True)]
    letters = "abc"[:dim]
    inputs = ",".join(f"m{letter}" for letter in letters)
    return np.stack([np.einsum(f"{letters},{inputs}->m", one, *waves, optimize=True).real for one in modes])
