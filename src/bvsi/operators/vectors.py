"""Vector fields: operators written once for all components, with one coefficient.

    vectors={"u": ("ux", "uy")}:    "laplacian(u)"  →  laplacian(ux) in the equation of ux, laplacian(uy) in that of uy

A text is computed component by component into texts of the operator language:

    grad(s)_i = ∂_i s      div(v) = ∂_j v_j     div(T)_i = ∂_j T_ij     advect(a, b) = a_j ∂_j b     dot(a, b) = a_j b_j
    outer(a, b)_ij = a_i b_j     symgrad(v)_ij = ½(∂_j v_i + ∂_i v_j)     laplacian, biharmonic, dx, dy, dz by component
    curl(v) = ∂_x v_y − ∂_y v_x and curl(s) = (∂_y s, −∂_x s) in the plane, ∇ × v in space

Operators made of these alone, with coefficients that are numbers or scalars, are invariant under rotations and
reflections.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bvsi.common.naming import COORDINATE_NAMES
from bvsi.errors import OperatorError
from bvsi.operators.syntax import Syntax

#: A scalar as a text; a vector as its components, a tensor as its rows.
Value: TypeAlias = "str | tuple[Value, ...]"

_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}

# Functions that act on every component by itself.
_BY_COMPONENT = ("laplacian", "biharmonic", "dt", *(f"d{axis}" for axis in COORDINATE_NAMES))


def check_vectors(vectors: object) -> dict[str, tuple[str, ...]]:
    """Components by name of the vector: two or three names of fields each."""
    if vectors is None:
        return {}
    if not isinstance(vectors, Mapping):
        raise OperatorError(f"vectors: {vectors!r} is not a mapping such as {{'u': ('ux', 'uy')}}.")
    made = {name: tuple(parts) for name, parts in vectors.items()}
    for name, parts in made.items():
        if len(parts) not in (2, 3) or not all(isinstance(part, str) and part.isidentifier() for part in parts):
            raise OperatorError(f"vectors: {name!r} needs the names of two or three components, not {parts!r}.")
        if name in parts or not str(name).isidentifier():
            raise OperatorError(f"vectors: {name!r} is reserved; choose another name.")
    if len({len(parts) for parts in made.values()}) > 1:
        raise OperatorError("vectors: all need as many components as there are axes.")
    return made


def components(syntax: Syntax, vectors: Mapping[str, tuple[str, ...]], rank: int) -> tuple[str, ...]:
    """Texts of a vector operator by component; of a scalar one (rank 0) its text alone."""
    try:
        value = _Components(vectors).of(syntax.tree)
    except OperatorError as error:
        raise OperatorError(f"operator {syntax.text!r}: {error}.") from None
    if _rank(value) != rank:
        kinds = {0: "a scalar", 1: "a vector", 2: "a tensor"}
        raise OperatorError(
            f"operator {syntax.text!r} is {kinds[_rank(value)]}, and its equation {kinds[rank]}; "
            "grad(...) makes a vector of a scalar, div(...) a scalar of a vector."
        )
    return (value,) if isinstance(value, str) else tuple(str(part) for part in value)


def _rank(value: Value) -> int:
    return 0 if isinstance(value, str) else 1 + _rank(value[0])


def _inner(text: str) -> str:
    """A text as a factor: in parentheses unless it is one name, number or call."""
    tree = ast.parse(text, mode="eval").body
    return text if isinstance(tree, ast.Name | ast.Constant | ast.Call) else f"({text})"


def _each(value: Value, act: Callable[[str], str]) -> Value:
    return act(value) if isinstance(value, str) else tuple(_each(part, act) for part in value)


@dataclass(frozen=True)
class _Components:
    """Values of the nodes of a tree."""

    vectors: Mapping[str, tuple[str, ...]]

    @property
    def axes(self) -> tuple[str, ...]:
        return COORDINATE_NAMES[: len(next(iter(self.vectors.values())))]

    def of(self, node: ast.expr) -> Value:
        """The value of a node."""
        if isinstance(node, ast.Name):
            return self.vectors.get(node.id, node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _each(self.of(node.operand), lambda text: f"-{_inner(text)}")
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node.func.id, [self.of(argument) for argument in node.args])
        return ast.unparse(node)

    def _binary(self, node: ast.BinOp) -> Value:
        left, right, sign = self.of(node.left), self.of(node.right), _SIGNS.get(type(node.op), "?")
        if sign in "+-":
            return _added(left, right, sign)
        if sign == "*" and isinstance(left, str):
            return _each(right, lambda text: f"{_inner(left)}*{_inner(text)}")
        if not isinstance(right, str) or (sign == "**" and not isinstance(left, str)):
            raise OperatorError("vectors are multiplied by dot(a, b) or outer(a, b)")
        return _each(left, lambda text: f"{_inner(text)}{sign}{_inner(right)}")

    def _call(self, name: str, arguments: Sequence[Value]) -> Value:
        if name in _BY_COMPONENT and len(arguments) == 1:
            return _each(arguments[0], lambda text: f"{name}({text})")
        of_one: dict[str, Callable[[Value], Value | None]] = {
            "grad": self._grad, "div": self._div, "curl": self._curl, "symgrad": self._symgrad,
        }  # fmt: skip
        of_two: dict[str, Callable[[Value, Value], Value | None]] = {
            "advect": self._advect, "outer": self._outer, "dot": self._dot,
        }  # fmt: skip
        if name in of_one or name in of_two:
            found = of_one[name](arguments[0]) if name in of_one and len(arguments) == 1 else None
            found = of_two[name](*arguments) if name in of_two and len(arguments) == 2 else found
            if found is None:
                raise OperatorError(f"{name} does not take this argument")
            return found
        if any(map(_rank, arguments)):
            raise OperatorError(f"{name} takes no vector")
        return f"{name}({', '.join(map(str, arguments))})"

    def _slope(self, value: str) -> tuple[str, ...]:
        """∂_j of a scalar, by j."""
        return tuple(f"d{axis}({value})" for axis in self.axes)

    def _grad(self, s: Value) -> Value | None:
        return self._slope(s) if isinstance(s, str) else None

    def _div(self, v: Value) -> Value | None:
        if isinstance(v, str):
            return None
        if _rank(v) == 2:
            return tuple(self._div(row) or "0" for row in v)
        return " + ".join(f"d{axis}({part})" for axis, part in zip(self.axes, v, strict=True))

    def _advect(self, a: Value, b: Value) -> Value | None:
        if isinstance(a, str):
            return None
        return _each(b, lambda s: " + ".join(f"{_inner(str(c))}*{d}" for c, d in zip(a, self._slope(s), strict=True)))

    def _outer(self, a: Value, b: Value) -> Value | None:
        if _rank(a) != 1 or _rank(b) != 1:
            return None
        return tuple(tuple(f"{_inner(str(x))}*{_inner(str(y))}" for y in b) for x in a)

    def _dot(self, a: Value, b: Value) -> Value | None:
        if _rank(a) != 1 or _rank(b) != 1:
            return None
        return " + ".join(f"{_inner(str(x))}*{_inner(str(y))}" for x, y in zip(a, b, strict=True))

    def _symgrad(self, v: Value) -> Value | None:
        if _rank(v) != 1:
            return None
        slopes = [self._slope(str(part)) for part in v]
        n = range(len(self.axes))
        return tuple(tuple(f"({slopes[i][j]} + {slopes[j][i]})/2" for j in n) for i in n)

    def _curl(self, v: Value) -> Value | None:
        if isinstance(v, str):
            return (f"dy({v})", f"-dx({v})") if len(self.axes) == 2 else None
        if _rank(v) != 1:
            return None
        if len(self.axes) == 2:
            return f"dx({v[1]}) - dy({v[0]})"
        x, y, z = v
        return (f"dy({z}) - dz({y})", f"dz({x}) - dx({z})", f"dx({y}) - dy({x})")


def _added(left: Value, right: Value, sign: str) -> Value:
    if isinstance(left, str) and isinstance(right, str):
        return f"{left} {sign} {right if sign == '+' else _inner(right)}"
    if isinstance(left, str) or isinstance(right, str):
        raise OperatorError("a scalar and a vector cannot be added")
    return tuple(_added(a, b, sign) for a, b in zip(left, right, strict=True))


def isotropic(vector: str, scalars: Sequence[str] = (), order: int = 2, *, galilean: bool = False) -> list[str]:
    """Texts of operators of a vector equation that are invariant under rotations and reflections. ::

        Library({"u": isotropic("u", ["p"])}, vectors={"u": ("ux", "uy")})

    With v the vector, q = v·v, and s each of the scalars, up to second order: v, q v, ∇²v, ∇(∇·v), ∇·(v ⊗ v), ∇q,
    ∇²(q v), ∇(∇·(q v)), ∇s, s v, ∇s², ∇²(s v); up to fourth order also ∇⁴v, ∇∇²(∇·v) and ∇∇²s. All derivatives stand
    outside, so that they go onto the test functions.

    Parameters
    ----------
    order
        Of the highest derivative, 2 or 4.
    galilean
        Only operators that are the same to an observer who moves: v enters by its derivatives, linearly. Advection
        itself, with the coefficient one, then stands on the left side: ``left="dt(u) + advect(u, u)"``, or of a flow
        without sources ``"dt(u) + div(outer(u, u))"``, which needs no derivative of the data.
    """
    if order not in (2, 4):
        raise OperatorError(f"order: 2 or 4 is needed; got {order!r}.")
    v, square = vector, f"dot({vector}, {vector})"
    still = [f"laplacian({v})", f"grad(div({v}))"]
    still += [f"biharmonic({v})", f"grad(laplacian(div({v})))"] if order == 4 else []
    moving = [v, f"{square}*{v}", f"div(outer({v}, {v}))", f"grad({square})"]
    moving += [f"laplacian({square}*{v})", f"grad(div({square}*{v}))"]
    for s in scalars:
        still += [f"grad({s})", f"grad({s}**2)", *([f"grad(laplacian({s}))"] if order == 4 else [])]
        moving += [f"{s}*{v}", f"laplacian({s}*{v})"]
    return still if galilean else [*still, *moving]
