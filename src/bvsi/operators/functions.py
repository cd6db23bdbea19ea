"""Unknown functions inside operators: k(x) in ``div(k*grad(u))``, D(u) in ``div(D*grad(u))``. ::

    k = Σ_m c_m B_m(x),     F(u; k) = Σ_m c_m F(u; B_m)          (F is linear in k)

An operator with an unknown function becomes one operator per coefficient c_m, named ``k_1``, ``k_2``, …: nothing else
needs to know. It has no coefficient of its own, the function has it. B_m are products of cubic B-splines, one for each
variable (:mod:`bvsi.operators.spline`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from bvsi.common.arrays import Array
from bvsi.common.naming import DERIVATIVES
from bvsi.data import Data, Grid
from bvsi.data._arrays import RESERVED_NAMES
from bvsi.errors import OperatorError
from bvsi.operators.syntax import Operator, Syntax, literal, read

if TYPE_CHECKING:
    from bvsi.operators.parameters import Parameter

# Intervals of a spline: at most so many of a function of one coordinate, and of each of several; of a field.
_MOST, _MOST_OF_SEVERAL, _MOST_OF_FIELD = 64, 7, 16
# Nodes, or frames, of an interval at least: sums over the nodes are then integrals of the splines and their slopes. A
# step in k(x) on 64 nodes is covered over 0.84, 0.91, 0.97, 0.99, 0.95 of the line with 4, 3.2, 2.5, 2, 1.6 nodes.
_NODES = 2.0
#: Nodes of a mesh, or sensors, up to which splines are evaluated between them, at the points of quadrature: steps in
#: k(x) through 150 sensors. Beyond, nodes resolve them, and a matrix for each spline would take too much memory.
FEW_NODES = 2000
# Nodes of an interval then. Bands of a step through 150 sensors cover 0.93 and 0.91 of the line with 0.5 and 1.0 (20
# and 4 draws of seed 2121021), with the quadrature and the stretched axis that splines so narrow need.
_FEW_NODES_EACH = 0.5
# Standard deviations of the noise in an interval of a field at least: integrands are without bias to second order.
_NOISES = 3.0
# Fewest intervals: what is left between a cubic polynomial and a function.
_FEWEST = 4
_DEGREE = 3  # of bvsi.operators.spline, which imports SymPy
# Places of steps in an interval, by their widths in intervals, and points of an interval that tell the nearest spline.
_PLACES, _STEP_WIDTHS, _FINE = (4, 2, 2), (0.0, 1.5, 3.0), 8
# Intervals from a step to where its sides are looked at.
_BESIDE = 2.0
#: How many times one side of a step is the other at most, and the factor to which ratios are rounded: splines that
#: stand for steps change little within it, and are made once for each.
MOST_RATIO, _ALIKE = 20.0, 1.2
# Points of a picture, of one variable and of each of several.
_DRAWN, _DRAWN_OF_SEVERAL = 201, 41


@dataclass(frozen=True)
class UnknownFunction:
    """A function of coordinates, the time, or fields, that an operator is linear in.

    Parameters
    ----------
    of
        Its variables.
    low, high
        Ends of the splines by variable; by default those of the data.
    intervals
        How many there are between them, by variable; by default as many as the data resolve.
    periodic
        Variables in which it is periodic, as the data are.
    """

    of: tuple[str, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    intervals: tuple[int, ...] = ()
    periodic: tuple[bool, ...] = ()

    def located(self, experiments: Sequence[Data], sigma: Mapping[str, float]) -> UnknownFunction:
        """The function with ends and intervals for some data, where these are not given.

        Parameters
        ----------
        sigma
            Standard deviation of the noise by field.
        """
        found = [_range(name, experiments, sigma, len(self.of)) for name in self.of]
        low, high, intervals, periodic = zip(*found, strict=True)
        return UnknownFunction(
            self.of, self.low or low, self.high or high, self.intervals or intervals, self.periodic or periodic
        )

    @property
    def counts(self) -> tuple[int, ...]:
        """Coefficients by variable."""
        return tuple(n + (0 if p else _DEGREE) for n, p in zip(self.intervals, self.periodic, strict=True))

    @property
    def size(self) -> int:
        """Coefficients."""
        return int(np.prod(self.counts))

    def labels(self, name: str) -> tuple[str, ...]:
        """Names of the coefficients of a function of this name."""
        return tuple(f"{name}_{m + 1}" for m in range(self.size))

    def axes(self) -> dict[str, Array]:
        """Values of the variables from end to end, for pictures."""
        number = _DRAWN if len(self.of) == 1 else _DRAWN_OF_SEVERAL
        return {name: np.linspace(a, b, number) for name, a, b in zip(self.of, self.low, self.high, strict=True)}

    def tree(self, coefficients: Sequence[float] | Array) -> ast.expr:
        """Σ_m c_m B_m as a text of the operator language."""
        c = np.asarray(coefficients, dtype=float).reshape(-1, self.counts[-1])
        last = len(self.of) - 1
        if not last:
            return _call(self, 0, c[0])
        before = np.eye(len(c))
        terms = []
        for row, own in zip(before, c, strict=True):
            if own.any():
                inner = UnknownFunction(
                    self.of[:-1], self.low[:-1], self.high[:-1], self.intervals[:-1], self.periodic[:-1]
                )
                terms.append(ast.BinOp(inner.tree(row), ast.Mult(), _call(self, last, own)))
        return reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), terms) if terms else ast.Constant(0.0)

    def design(self, points: Array) -> Array:
        """B_m at points (n, variables), (n, M)."""
        from bvsi.operators.spline import basis

        rows = np.ones((len(points), 1))
        for i, n in enumerate(self.intervals):
            own = basis(points[:, i], self.low[i], self.high[i], n + _DEGREE)
            if self.periodic[i]:
                own[:, :_DEGREE] += own[:, n:]
                own = own[:, :n]
            rows = (rows[:, :, None] * own[:, None, :]).reshape(len(points), -1)
        return rows

    @cached_property
    def steps(self) -> Array:
        """Places and widths of steps of a function of one variable, (J, 2), sharp ones and such as splines resolve."""
        h = (self.high[0] - self.low[0]) / self.intervals[0]
        rows = [
            (self.low[0] + h * place, width * h)
            for number, width in zip(_PLACES, _STEP_WIDTHS, strict=True)
            for place in np.arange(0.5, self.intervals[0] - 0.5 + 0.5 / number, 1 / number)
        ]
        return np.array(rows)

    def ratios(self, own: Array, steps: Array) -> Array:
        """What the function is behind steps over what it is before them, (J,).

        Parameters
        ----------
        own
            Its coefficients.
        """
        h = (self.high[0] - self.low[0]) / self.intervals[0]
        before, behind = (
            self.design(np.clip(steps[:, :1] + side * _BESIDE * h, self.low[0], self.high[0])) @ own for side in (-1, 1)
        )
        least = np.abs(own).max() / MOST_RATIO
        ratios = np.maximum(behind, least) / np.maximum(before, least)
        return np.asarray(_ALIKE ** np.round(np.log(ratios) / math.log(_ALIKE)))

    def stepped(self, points: Array, steps: Array) -> Array:
        """Steps by one, given by place and width (J, 2), at points (n, 1), (n, J)."""
        place, width = steps[:, 0], np.maximum(steps[:, 1], 1e-9 * (self.high[0] - self.low[0]))
        return np.asarray(np.clip((points - place) / width + 0.5, 0, 1))

    def nearest(self, steps: Array) -> Array:
        """Coefficients of splines that stand for steps, given by place, width and ratio (J, 3), (M, J).

        Where a flux k u_x is smooth, u_x goes as 1/k, and ∫ (s − k) u_x φ is zero for smooth φ if s is nearest to k in
        the mean square with the weight 1/k.
        """
        known = self._nearest
        new = [row for row in dict.fromkeys(map(tuple, steps[:, :3].tolist())) if row not in known]
        known.update(zip(new, self._splines(np.array(new)).T if new else (), strict=True))
        return np.stack([known[row] for row in map(tuple, steps[:, :3].tolist())], axis=1)

    @cached_property
    def _nearest(self) -> dict[tuple[float, ...], Array]:
        """Coefficients by place, width and ratio."""
        return {}

    def _splines(self, steps: Array) -> Array:
        n = _FINE * self.intervals[0]
        x = self.low[0] + (np.arange(n)[:, None] + 0.5) * (self.high[0] - self.low[0]) / n
        B, f = self.design(x), self.stepped(x, steps)
        weight = 1 / (1 + (steps[:, 2] - 1) * f)
        band = np.zeros((len(steps), _DEGREE + 1, self.size))
        for k in range(_DEGREE + 1):  # as far apart as splines overlap
            band[:, k, : self.size - k] = weight.T @ (B[:, : self.size - k] * B[:, k:])
        right = (weight * f).T @ B
        rows = [scipy.linalg.lapack.dpbsv(own, b, lower=1)[1] for own, b in zip(band, right, strict=True)]
        return np.stack(rows, axis=1)

    def roughness(self, order: int) -> Array:
        """K (M, M) with cᵀKc the sum of squared differences of an order along all variables, zero of a constant alone.

        Second differences do not see slopes, which then have the size that M of them add up to: K_2 + K_1/M²; third
        ones do not see curvature either: K_3 + K_2/M² + K_1/M⁴.
        """
        total: Array = np.zeros((1, 1))
        size = 1
        for count, periodic in zip(self.counts, self.periodic, strict=True):
            parts = (_differences(count, k, periodic) / count ** (2 * (order - k)) for k in range(1, order + 1))
            own = sum(parts, np.zeros((count, count)))
            total = np.asarray(np.kron(total, np.eye(count)) + np.kron(np.eye(size), own))
            size *= count
        return total


def _differences(count: int, order: int, periodic: bool) -> Array:
    D = np.eye(count)
    for _ in range(order):
        D = np.roll(D, -1, axis=0) - D if periodic else np.diff(D, axis=0)
    return np.asarray(D.T @ D)


def _call(function: UnknownFunction, i: int, coefficients: Array) -> ast.expr:
    """spline(x, low, high, c_1, …); of a periodic one the first coefficients come again."""
    c = [*coefficients, *(coefficients[:_DEGREE] if function.periodic[i] else ())]
    given = [ast.Name(function.of[i], ast.Load()), *map(literal, (function.low[i], function.high[i], *c))]
    return ast.Call(ast.Name("spline", ast.Load()), given, [])


def _range(
    name: str, experiments: Sequence[Data], sigma: Mapping[str, float], variables: int
) -> tuple[float, float, int, bool]:
    """Ends, intervals and whether it is periodic, of one variable."""
    data, most = experiments[0], _MOST if variables == 1 else _MOST_OF_SEVERAL
    if name in data.geometry.names:
        axis = data.geometry.names.index(name)
        x = [one.geometry.points[:, axis] for one in experiments]
        low, high = min(float(v.min()) for v in x), max(float(v.max()) for v in x)
        grid = data.geometry
        if isinstance(grid, Grid):
            nodes = float(min(one.geometry.shape[axis] for one in experiments if isinstance(one.geometry, Grid)))
            if name in grid.periods:
                return low, low + float(grid.periods[name]), _count(nodes / _NODES, most), True
            return low, high, _count(nodes / _NODES, most), False
        sides = np.ptp(grid.points, axis=0)
        along = float(sides[axis] / np.prod(sides) ** (1 / grid.dim) * grid.n_nodes ** (1 / grid.dim))
        return low, high, _count(along / (_FEW_NODES_EACH if grid.n_nodes <= FEW_NODES else _NODES), most), False
    if name == "t":
        low, high = min(one.times[0] for one in experiments), max(one.times[-1] for one in experiments)
        return float(low), float(high), _count(data.n_times / _NODES, most), False
    values = [one.fields[name] if name in one.fields else one.auxiliary.get(name) for one in experiments]
    if any(v is None for v in values):
        known = (*data.geometry.names, "t", *data.fields, *data.auxiliary)
        raise OperatorError(f"unknown: the data have no {name!r}; a function may be of {', '.join(known)}.")
    low, high = (
        min(float(np.min(v)) for v in values if v is not None),
        max(float(np.max(v)) for v in values if v is not None),
    )
    if not low < high:
        raise OperatorError(
            f"unknown: {name!r} has one value in the data, {low:g}; a function of it cannot be estimated."
        )
    room = (high - low) / (_NOISES * sigma[name]) if sigma.get(name) else np.inf
    return low, high, _count(room, min(most, _MOST_OF_FIELD)), False


def _count(intervals: float, most: int) -> int:
    return int(max(_FEWEST, min(most, intervals)))


def as_functions(
    given: Mapping[str, str | Sequence[str] | UnknownFunction] | None,
    operators: Sequence[Operator],
    taken: Sequence[str],
    parameters: Mapping[str, Parameter],
) -> dict[str, UnknownFunction]:
    """Unknown functions by name; ``"x"`` stands for ``UnknownFunction(("x",))``."""
    if not isinstance(given, Mapping | None):
        raise OperatorError(f"unknown: {given!r} is not a mapping of names to variables, such as {{'k': 'x'}}.")
    found: dict[str, UnknownFunction] = {}
    for name, one in (given or {}).items():
        if not isinstance(name, str) or not name.isidentifier() or name in (*taken, *parameters, *RESERVED_NAMES):
            raise OperatorError(f"unknown: {name!r} is reserved; choose another name.")
        listed = (one,) if isinstance(one, str) else one
        of = tuple(listed) if isinstance(listed, Sequence) else ()
        function = one if isinstance(one, UnknownFunction) else UnknownFunction(of)
        if not function.of or not all(isinstance(v, str) and v.isidentifier() for v in function.of):
            raise OperatorError(f"unknown: {name}: the names of its variables are needed, such as 'x', not {one!r}.")
        found[name] = function
    for operator in operators:
        inside = [name for name in found if name in operator.syntax.names]
        for name in inside:
            _check_linear(operator, name, alone=len(inside) == 1)
    for name in found:
        if not any(name in o.syntax.names for o in operators):
            raise OperatorError(f"unknown: {name!r} stands in no operator; leave it out.")
        both = [o.name for o in operators if name in o.syntax.names and o.free is not None]
        if both:
            raise OperatorError(
                f"unknown: {both[0]!r} has the function {name!r} and a parameter, which it would make up for; fix the "
                "parameter, or have them in operators of their own."
            )
    return found


def written_functions(text: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """A text with names for the functions written in it, ``div(unknown(k, of=x)*grad(u))``, and what these are of."""
    if "unknown" not in text:
        return text, {}
    found: dict[str, tuple[str, ...]] = {}

    def named(node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            return node.value
        raise OperatorError(f"operator {text!r}: unknown(...) is written as unknown(k, of=x), or of=(x, y).")

    class Names(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            if not (isinstance(node.func, ast.Name) and node.func.id == "unknown"):
                return node
            if len(node.args) != 1 or [k.arg for k in node.keywords] != ["of"]:
                named(node)  # which refuses it
            of = node.keywords[0].value
            name = named(node.args[0])
            found[name] = tuple(map(named, of.elts if isinstance(of, ast.Tuple) else [of]))
            return ast.Name(name, ast.Load())

    plain = ast.unparse(Names().visit(read(text).tree)).replace(" * ", "*").replace(" ** ", "**").replace(" / ", "/")
    return (plain, found) if found else (text, {})


def _check_linear(operator: Operator, name: str, *, alone: bool) -> None:
    if not alone or _degree(operator.syntax.tree, name) != 1:
        raise OperatorError(
            f"unknown: {operator.name!r} is not linear in {name!r} alone; write it once as a factor, {name}*u or "
            f"div({name}*grad(u)), and leave numbers in front of it to the function."
        )


def _degree(tree: ast.expr, name: str) -> int | None:
    """Degree in which a text is homogeneous in a name; None where it is not."""
    match tree:
        case ast.Name(id=one):
            return int(one == name)
        case ast.UnaryOp(operand=inner):
            return _degree(inner, name)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _degree(left, name), _degree(right, name)
            if a is None or b is None:
                return None
            if isinstance(op, ast.Mult):
                return a + b
            if isinstance(op, ast.Div | ast.Pow):
                return a if b == 0 and (isinstance(op, ast.Div) or a == 0) else None
            return a if a == b else None
        case ast.Call(func=ast.Name(id=function), args=arguments):
            degrees = [_degree(one, name) for one in arguments]
            if None in degrees:
                return None
            linear = function in DERIVATIVES or (function.startswith("d") and len(arguments) == 1)
            total = sum(d for d in degrees if d is not None)
            return total if linear or function in ("cells", "facets", "boundary") or total == 0 else None
        case _:
            return 0


def in_flux(syntax: Syntax, name: str) -> bool:
    """Whether a name stands inside of a derivative."""
    calls = [one for one in ast.walk(syntax.tree) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
    return any(name in {n.id for n in ast.walk(one) if isinstance(n, ast.Name)} for one in calls)


def expansion(
    operators: Sequence[Operator], functions: Mapping[str, UnknownFunction], equation: str, shared: frozenset[str]
) -> list[Operator]:
    """One operator for every coefficient of the functions in an equation.

    Parameters
    ----------
    shared
        Functions that stand in several equations, whose coefficients are then tied.
    """
    found = []
    for name, function in functions.items():
        mine = [o.syntax for o in operators if name in o.syntax.names]
        for label, row in zip(function.labels(name), np.eye(function.size), strict=True) if mine else ():
            tree = function.tree(row)
            parts = [syntax.put({name: tree}) for syntax in mine]
            whole = parts[0]
            for other in parts[1:]:
                whole = whole.part(ast.BinOp(whole.tree, ast.Add(), other.tree))
            tie = f"function: {label}" if name in shared else ""
            found.append(Operator(label, equation, whole.text, whole, tie=tie))
    return found
