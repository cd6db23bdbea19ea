"""Random linear constraints in any units, and a quadratic program solved by trying every working set."""

from __future__ import annotations

import itertools

import numpy as np

from bvsi.infer.constraints import LinearConstraints


def named(A, lower, upper) -> LinearConstraints:
    names = tuple(f"x{j}" for j in range(A.shape[1]))
    return LinearConstraints(names, A, lower, upper, tuple(f"row {i}" for i in range(len(A))))


def random_constraints(rng, d, m, units, equalities=0):
    """m rows around a point inside, the first of them equalities; the last is a bound; units (d,) of θ."""
    A = rng.standard_normal((m, d)) * (rng.random((m, d)) < 0.7)
    A[-1] = 0.0
    A[~A.any(axis=1), 0] = 1.0
    value = A @ rng.standard_normal(d)
    lower = value - rng.exponential(size=m)
    upper = value + rng.exponential(size=m)
    lower[rng.random(m) < 0.3] = -np.inf
    upper[np.isfinite(lower) & (rng.random(m) < 0.6)] = np.inf
    lower[:equalities] = upper[:equalities] = value[:equalities]
    return named(A / units, lower, upper)


def random_precision(rng, d, units):
    R = rng.standard_normal((d + 3, d))
    return R.T @ R / units[:, None] / units


def brute_force(P, g, constraints):
    """The lowest of the feasible stationary points over all choices of rows at their lower or upper bound."""
    scale = np.sqrt(np.diag(P))
    P, g, A = P / scale[:, None] / scale, g / scale, constraints.A / scale
    best, lowest = None, np.inf
    choices = [
        [lo] if lo == hi else [None, *(bound for bound in (lo, hi) if np.isfinite(bound))]
        for lo, hi in zip(constraints.lower, constraints.upper, strict=True)
    ]
    for choice in itertools.product(*choices):
        held = [i for i, bound in enumerate(choice) if bound is not None]
        if len(held) > len(g):
            continue
        E = A[held]
        K = np.block([[P, E.T], [E, np.zeros((len(held), len(held)))]])
        if held and np.linalg.matrix_rank(E) < len(held):
            continue
        x = np.linalg.solve(K, np.concatenate([g, [choice[i] for i in held]]))[: len(g)]
        value = 0.5 * x @ P @ x - g @ x
        slack = np.minimum(A @ x - constraints.lower, constraints.upper - A @ x)
        if (slack >= -1e-9).all() and value < lowest:
            best, lowest = x / scale, value
    return best
