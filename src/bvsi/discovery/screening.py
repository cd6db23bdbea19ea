"""What is refused: arguments of another kind, data in which nothing changes, an end point kept twice."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from bvsi.check import CheckLevels
from bvsi.data import Data, Grid
from bvsi.data._arrays import slabs
from bvsi.discovery.method import Method
from bvsi.errors import BvsiError, DataError, OperatorError
from bvsi.infer import Fit
from bvsi.likelihood import ResidualLikelihood
from bvsi.noise.level import observed
from bvsi.noise.measurement import Measurement
from bvsi.operators import Library
from bvsi.operators.syntax import Syntax

Array = NDArray[np.float64]

# Changes below this part of the largest value are rounding.
_ROUNDING = 1e-12
# Squares of smaller numbers are zero, of larger ones infinite; readers refuse the large ones too.
_SMALLEST, _LARGEST = 1e-100, 1e100
# Nodes of a periodic axis that show whether its end point is kept twice: five at the seam, five elsewhere.
_NODES = 10
# Standard deviations of a mean square by which that at the seam is beyond all others. Of 1800 right fields none was
# refused; with the end point twice, 32 nodes and 2% of noise 22 of 30 were, with copies of the noise all.
_BEYOND = 4.0
# Share of the values of two columns that differ where they are two columns; zeros at the edge do not.
_DIFFER = 0.5
# Part of the left side that is left of it where candidates are the same: rounding of sums over thousands of values.
_IDENTITY = 1e-9
# Standard deviations of the noise below zero that a positive field gets to: one value in 10⁹ does.
_BELOW = 6.0
# Level of the test for a trend.
_TREND = 1e-3
# Values that show whether two columns are one; of more data only some frames are used. Not measured.
_ENOUGH = 2_000_000


def check_arguments(data: object, library: object) -> None:
    """Refuse what is neither data nor a library, with what is needed."""
    if not isinstance(library, Library):
        raise BvsiError(
            f"library: a Library of candidate operators is needed, such as Library({{'u': ['laplacian(u)', 'u']}}), "
            f"not {type(library).__name__}."
        )
    several = data if isinstance(data, Sequence) else (data,)
    for one in several:
        if not isinstance(one, Data):
            raise BvsiError(
                "data: Data is needed, or several in a list; make it with Data.from_arrays or Data.from_xarray, or "
                f"read a file with bvsi.app.readers.read; got {type(one).__name__}."
            )


def check_choices(method: object, check: object, rng: object) -> None:
    """Refuse options of another kind, with what is needed."""
    if not isinstance(method, Method | None):
        raise BvsiError(f"method: Method(...) or Paper() is needed, not {method!r}.")
    if not isinstance(check, bool | CheckLevels):
        raise BvsiError(f"check: True, False or CheckLevels(...) is needed, not {check!r}.")
    check_rng(rng)


def check_rng(rng: object) -> None:
    """Refuse what draws no random numbers; a seed is none."""
    if not isinstance(rng, np.random.Generator | None):
        seed = rng if isinstance(rng, int) else 0
        raise BvsiError(f"rng: a generator is needed, such as numpy.random.default_rng({seed}), not {rng!r}.")


def check_inside(library: Library, relinearise: int | None, constraints: object) -> None:
    """Refuse what does not go with parameters or unknown functions inside operators."""
    if library.unknown and library.parameters and constraints:
        raise BvsiError(
            "constraints: not with unknown functions and parameters in one library; bound the parameters there, and "
            "say what is known of coefficients and functions with prior=."
        )
    what = "unknown functions" if library.unknown else "parameters inside operators" if library.parameters else ""
    if what and relinearise:
        raise BvsiError(f"relinearise: it does not go with {what}; leave it out.")
    if what and len(library.orders) > 1:
        raise BvsiError(f"time_order: with {what} it has to be given, 1 or 2.")


def check_measured(measured: Sequence[Measurement], library: Library) -> None:
    """Refuse ends that stand twice, which outliers would hide, and powers of negative fields."""
    for one in measured:
        check_ends(one.data)
    check_powers(measured, library)


def check_powers(measured: Sequence[Measurement], library: Library) -> None:
    """Refuse fractional powers of fields that are negative by more than their noise: u**n behaves oddly below zero."""
    for operator in library.operators:
        powers = _fractional(operator.free or operator.syntax, {*library.parameters})
        for field in sorted(powers & {*measured[0].data.fields}):
            for one in measured:
                low = min(float(one.data.fields[field][rows].min()) for rows in slabs(one.data.fields[field]))
                if low < -_BELOW * one.sigma.get(field, 0.0):
                    raise OperatorError(
                        f"operator {operator.name!r}: a fractional power of {field!r}, which is down to {low:.3g}, "
                        "more than its noise explains; write the power of its size, such as "
                        f"({field}**2)**0.75, or leave it out."
                    )


def _fractional(syntax: Syntax, parameters: set[str]) -> set[str]:
    """Names under powers that are not integers, or that are to be estimated."""
    found: set[str] = set()
    for node in ast.walk(syntax.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            used = {one.id for one in ast.walk(node.right) if isinstance(one, ast.Name)}
            number = node.right.value if isinstance(node.right, ast.Constant) else 0
            if used & parameters or (isinstance(number, float) and not number.is_integer()):
                products = isinstance(node.left, ast.Name) or _is_product(node.left)
                found |= {one.id for one in ast.walk(node.left) if isinstance(one, ast.Name)} if products else set()
    return found


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)


def check_worth(experiments: Sequence[Data], library: Library) -> None:
    """Refuse fields with an equation that are constant in all experiments, or beyond what can be squared.

    With a time derivative, those that are steady too.
    """
    for name in library.equations:
        known = [observed(data, name) for data in experiments if name in data.fields]
        if not known:
            continue  # reported where the operators are read
        low, high = np.inf, -np.inf
        for some in (u[rows] for u in known for rows in slabs(u)):  # NaN are ignored
            low = float(np.fmin(low, np.fmin.reduce(some, axis=None))) + 0.0
            high = float(np.fmax(high, np.fmax.reduce(some, axis=None)))
        largest = max(-low, high)
        if largest > 0 and not _SMALLEST < largest < _LARGEST:
            raise DataError(
                f"field {name!r} reaches {largest:.3g}, and squares of such numbers cannot be represented; change its "
                "unit, so that the values are of order one"
            )
        if high - low <= _ROUNDING * largest:
            raise DataError(
                f"field {name!r} is constant, {low:.6g} everywhere and always: there is nothing to discover; leave its "
                "equation out, or check that the right array was read"
            )
        if library.steady or max(float(_change(u)) for u in known) > _ROUNDING * largest:
            continue
        if all(len(u) == 1 for u in known):
            raise DataError(
                f"field {name!r} has one frame, and the equation a time derivative: give more frames, or say what a "
                f"steady equation has on its left side, Library(..., left='f') with a known source f or left="
                f"'laplacian({name})' with the operator that sets the scale"
            )
        raise DataError(
            f"field {name!r} is the same at all times: nothing changes in time, and there is nothing to discover; "
            "give frames between which it changes, or leave its equation out; of a steady equation, say what is on its "
            "left side, Library(..., left=...)"
        )


def _change(u: Array) -> float:
    """Largest range in time of any node.

    Parameters
    ----------
    u
        (T, n_nodes) with NaN, of which nodes without any value do not count.
    """
    low, high = np.full(u.shape[1:], np.inf), np.full(u.shape[1:], -np.inf)
    for rows in slabs(u):  # NaN are ignored
        low, high = np.fmin(low, np.fmin.reduce(u[rows])), np.fmax(high, np.fmax.reduce(u[rows]))
    return float(np.max(np.where(np.isfinite(low), high - low, 0.0)))


def check_ends(data: Data) -> None:
    """Refuse periodic axes whose last node is the first once more, as of ``linspace`` with its end point.

    Either the columns are identical, noise included; or the fields have a kink at the seam that is gone without the
    last column, and the last column is nearer to the first than to its neighbour.
    """
    grid = data.geometry
    if not isinstance(grid, Grid) or data.measured is not None:
        return
    for number, axis in enumerate(grid.names):
        if axis not in grid.periods or grid.shape[number] < _NODES:
            continue
        for name in data.fields:
            frames = data.grid_field(name)[:: -(-data.n_nodes * data.n_times // _ENOUGH)]
            columns = np.moveaxis(frames, number + 1, 0).reshape(grid.shape[number], -1)
            if _repeated(np.asarray(columns)):
                raise DataError(
                    f"axis {axis!r} is periodic, and the last column of field {name!r} is the first once more: the end "
                    f"point is kept twice; drop the last point of {axis!r} and the values there"
                )


def _repeated(u: Array) -> bool:
    """Whether the last of the columns u (n, m) repeats the first."""
    first, second, before, last = u[0], u[1], u[-2], u[-1]
    if np.array_equal(first, last):
        # fields that are even about the seam have equal columns as well, but then the next ones are equal too
        even = np.max(np.abs(second - before)) <= 1e-6 * np.max(np.abs(second - first))
        if np.mean(first != second) > _DIFFER and not even:
            return True
    square = [float(np.mean((a - b) ** 2)) for a, b in ((last, first), (first, second), (last, before))]
    if square[0] >= min(square[1:]):
        return False
    kinked, seam = _roughness(u), [0, 1, 2, -3, -2, -1]
    elsewhere = float(np.delete(kinked, seam).max()) * (1 + _BEYOND * np.sqrt(2 / u.shape[1]))
    if min(kinked[0], kinked[-1]) <= elsewhere:
        return False
    mended = _roughness(u[:-1])
    return bool(max(mended[i] for i in (0, 1, -1)) <= elsewhere)


def _roughness(u: Array) -> Array:
    """Mean square of each column minus its cubic prediction (4(u_−1 + u_1) − (u_−2 + u_2))/6, (n,); periodic."""
    n, mean = len(u), np.empty(len(u))
    for i in range(n):  # a column at a time stays in the cache
        near, far = (u[i - k] + u[(i + k) % n] for k in (1, 2))
        off = u[i] - (4 * near - far) / 6
        mean[i] = off @ off / len(off)
    return mean


def check_left(likelihood: ResidualLikelihood) -> None:
    """Refuse candidates that make up an operator on the left side by themselves, whatever the data are."""
    if all(part.residuals.left is None for part in likelihood.parts):
        return
    Z = np.concatenate([part.residuals.Z.reshape(-1, 1 + likelihood.system.d) for part in likelihood.parts])
    size = np.linalg.norm(Z, axis=0)
    if len(Z) <= Z.shape[1] or not size[0]:
        return
    X = Z[:, 1:] / np.where(size[1:] > 0, size[1:], 1.0)
    theta = np.linalg.lstsq(X, Z[:, 0], rcond=None)[0]
    if np.linalg.norm(Z[:, 0] - X @ theta) <= _IDENTITY * size[0]:
        used = [name for name, share in zip(likelihood.names, theta, strict=True) if abs(share) > _IDENTITY * size[0]]
        raise OperatorError(
            f"left: {' and '.join(used)} make up the left side by themselves, whatever the data are; leave one of them "
            "out of the candidates."
        )


def check_found(fit: Fit, library: Library, experiments: Sequence[Data]) -> None:
    """Refuse a model that explains the data no better than none, u_t = 0: θᵀ V⁻¹ θ < |s| (log n + 2 log d).

    The price of an operator is that of BIC, and what it takes to look for it among d (extended BIC), whatever the
    operators were selected with. Where noise rules the model its error bars mean little, and the data themselves are
    asked whether they change.

    Parameters
    ----------
    fit
        Fit of the selected operators, |s| of them, without constraints.
    library
        Its d candidates; where they make up a known source there is nothing to refuse, since it has no noise.
    """
    fields = tuple(library.equations)
    if fit.posterior is None or (library.steady and not any(o.syntax.names & {*fields} for o in library.known)):
        return
    noise_rules = not library.steady and fit.quadratic is not None and fit.quadratic.swamped
    moves = not noise_rules or any(_changes(observed(data, name)) for data in experiments for name in fields)
    sd = np.sqrt(fit.posterior.variance)
    z, R = fit.theta / sd, fit.posterior.covariance / np.outer(sd, sd)
    price = math.log(fit.equations.n) + 2 * math.log(len(library))
    if not moves or float(z @ np.linalg.lstsq(R, z, rcond=None)[0]) < len(z) * price:
        still = " and ".join(f"{library.left(field).written(field, library.time_order)} = 0" for field in fields)
        found = ", ".join(f"{v:.2g} ± {s:.1g} {n}" for n, v, s in zip(fit.names, fit.theta, sd, strict=True))
        seen, wanted = "nothing changes in time beyond the noise", "frames between which the fields change, "
        if library.steady:
            seen, wanted = "there is nothing beyond the noise", ""
        elif any(_changes(observed(data, name)) for data in experiments for name in fields):
            seen, wanted = "nothing found: the fields change, but not by any of the candidates", ""
        raise DataError(
            f"{seen}: {still} explains the data as well as the best of the candidates ({found}); give {wanted}less "
            "noise, or other candidates; an operator in keep= is estimated anyway"
        )


def _changes(u: Array) -> bool:
    """Whether the nodes of u (T, n_nodes) have a trend in time, a cubic one, beyond what is left without it (F test).

    Nodes with values that were not measured do not count.
    """
    whole = u[:, np.isfinite(u).all(axis=0)]
    order = min(3, len(u) // 3)
    if not order or not whole.size:
        return True
    basis = np.linalg.qr(np.vander(np.linspace(-1, 1, len(u)), order + 1, increasing=True))[0]
    energy = np.square(basis.T @ whole).sum(axis=1)
    rest = float(np.sum(np.square(whole)) - energy.sum())
    freedom = (order * whole.shape[1], (len(u) - order - 1) * whole.shape[1])
    ratio = (float(energy[1:].sum()) / freedom[0]) / max(rest / freedom[1], np.finfo(float).tiny)
    return float(fdtrc(*freedom, ratio)) < _TREND
