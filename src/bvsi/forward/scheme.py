"""θ-schemes in time with Newton's method and adaptive sub-steps.

M (w − u)/h = ϑ F(w, t + h) + (1 − ϑ) F(u, t)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.forward.semidiscrete import SemiDiscrete
from bvsi.linalg import Pattern, nested_dissection
from bvsi.residual.discrete import NotFiniteError

Array = NDArray[np.float64]

_CACHED_FACTORS = 4
_MAX_HALVINGS = 20


@dataclass(frozen=True)
class ThetaScheme:
    """How to step in time.

    implicitness: ϑ; 1 is backward Euler, ½ is Crank–Nicolson.
    substeps: steps between two output times.
    tol: where given, sub-steps are halved or doubled so that the local errors, from step doubling, add up to no more
        than tol · max|u| per output interval; ``substeps`` is then only where to begin.
    newton_tol, max_newton: Newton's method ends when an update is below newton_tol · max|u|.
    """

    implicitness: float = 1.0
    substeps: int = 1
    tol: float | None = None
    newton_tol: float = 1e-10
    max_newton: int = 12

    def __post_init__(self) -> None:
        if not 0.5 <= self.implicitness <= 1:
            raise BvsiError(
                f"implicitness: between 1/2 (Crank-Nicolson) and 1 (backward Euler), not {self.implicitness}."
            )
        for name in ("substeps", "max_newton"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise BvsiError(f"{name}: a whole number of at least 1, not {value!r}.")
        for name in ("tol", "newton_tol"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise BvsiError(f"{name}: a positive number, not {value!r}.")


class StepFailedError(BvsiError):
    """A step that has to be made smaller; the message says why."""


class Stepper:
    """Advances a semi-discrete system; keeps the factorisations that can be used again."""

    def __init__(self, system: SemiDiscrete, scheme: ThetaScheme) -> None:
        self.system = system
        self.scheme = scheme
        self._order = _elimination_order(system)
        self._factors: OrderedDict[float, Callable[[Array], Array]] = OrderedDict()
        self._level = 0  # sub-steps of an output interval are halved this many times

    def advance(self, u: Array, t: float, interval: float) -> Array:
        """State at t + interval."""
        begin = interval / self.scheme.substeps
        done = 0.0
        while done < interval * (1 - 1e-12):
            h = min(begin / 2**self._level, interval - done)
            try:
                u = self._attempt(u, t + done, h, h / interval)
            except (StepFailedError, NotFiniteError) as failure:
                self._level += 1
                if self._level > _MAX_HALVINGS:
                    raise BvsiError(
                        f"simulate: no solution at t = {t + done:g} even with a step of {h:.1e}; is the model stable? "
                        f"The last step failed because of this: {failure}"
                    ) from failure
                continue
            done += h
        return u

    def _attempt(self, u: Array, t: float, h: float, share: float) -> Array:
        """One step, whose error may be this share of the tolerance."""
        coarse = self._newton(u, t, h)
        if self.scheme.tol is None:
            return coarse
        middle = self._newton(u, t, h / 2)
        fine = self._newton(middle, t + h / 2, h / 2)
        order = 2 if self.scheme.implicitness == 0.5 else 1
        error = float(np.abs(fine - coarse).max()) / (2**order - 1) / (float(np.abs(fine).max()) or 1.0)
        tolerance = self.scheme.tol * share
        if error > tolerance:
            raise StepFailedError(f"its error is {error:.1e}, tol allows {tolerance:.1e}; a larger tol may do.")
        if error < tolerance / 2 ** (order + 2) and self._level > 0:
            self._level -= 1
        return fine

    def _newton(self, u: Array, t: float, h: float) -> Array:
        """Solve for w by Newton's method."""
        s, theta = self.system, self.scheme.implicitness
        known = s.M @ u / h + ((1 - theta) * s.F(u, t) if theta < 1 else 0.0)
        w = u.copy()
        for _ in range(self.scheme.max_newton):
            G = s.M @ w / h - theta * s.F(w, t + h) - known
            update = self._solver(w, t + h, h)(-G)
            if not np.all(np.isfinite(update)):
                raise StepFailedError("Newton's method runs away to infinity.")
            w[s.free] += update
            if s.linear or np.abs(update).max() <= self.scheme.newton_tol * (np.abs(w).max() or 1.0):
                return w
        raise StepFailedError(f"Newton's method does not converge in {self.scheme.max_newton} iterations.")

    def _solver(self, w: Array, t: float, h: float) -> Callable[[Array], Array]:
        """Solver of M/h − ϑJ(w); kept by step size where the system is linear."""
        if self.system.linear and h in self._factors:
            self._factors.move_to_end(h)
            return self._factors[h]
        matrix = (self.system.M / h - self.scheme.implicitness * self.system.J(w, t))[:, self.system.free]
        solver = _sparse_lu(matrix, self._order)
        if self.system.linear:
            self._factors[h] = solver
            while len(self._factors) > _CACHED_FACTORS:
                self._factors.popitem(last=False)
        return solver


def _elimination_order(system: SemiDiscrete) -> NDArray[np.int64]:
    """Fill-reducing order from the places of the unknowns, good for the symmetric pattern of the matrix."""
    pattern = system.layout.pattern
    square = pattern.matrix(np.ones(pattern.nnz))[:, system.free]
    return nested_dissection(Pattern.from_matrix(square + square.T), system.coordinates)


def _sparse_lu(matrix: Any, order: NDArray[np.int64]) -> Callable[[Array], Array]:
    permuted = sparse.csc_array(matrix[order][:, order])
    try:
        lu = scipy.sparse.linalg.splu(
            permuted, permc_spec="NATURAL", diag_pivot_thresh=1e-3, options={"SymmetricMode": True}
        )
    except RuntimeError:  # SuperLU's word for a matrix that is exactly singular
        raise StepFailedError("its matrix is singular, as where the step is a growth time of the model.") from None

    def solve(b: Array) -> Array:
        x = np.empty_like(b)
        x[order] = lu.solve(b[order])
        return x

    return solve
