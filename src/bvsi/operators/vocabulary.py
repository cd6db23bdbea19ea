"""The names an operator may use, and the jet symbols that stand for fields and their derivatives.

A jet ``u_α`` is the symbol for ``∂^α u``, α a multi-index with one entry per coordinate. Expressions are plain
SymPy expressions of jets, coordinates, time and (on the boundary) the outward normal; the total derivative is

    D_i e = ∂e/∂x_i + Σ_jets ∂e/∂u_α · u_{α+e_i}.

SymPy is imported when the first symbol is made, not with this module.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from bvsi.common.naming import COORDINATE_NAMES, COORDINATES, Jet, MultiIndex, Sided, order
from bvsi.errors import OperatorError

if TYPE_CHECKING:
    import sympy as sp

    from bvsi.data import Data

TIME = "t"
# Derivatives that may stand on one field. Not measured; no element carries more.
MAX_ORDER = 6

#: Name of the test function in forms that are written weakly.
TEST = "test"
FACET_SIZE = "h"
#: Length h_E of a facet, and the penalty α/h_E that makes the interior-penalty biharmonic positive on the mesh.
PENALTY = "penalty"

#: Names that people give to noise in an equation.
_RANDOM = ("dW", "W", "noise", "eta", "xi")
_JET = "__"
_SIDES = {1: "p", -1: "m"}
_COVARIANCE = "covariance of "
_RATE = "'"


@dataclass(frozen=True)
class Vocabulary:
    """Names known to the operators of a library.

    Attributes
    ----------
    coordinates
        Spatial coordinates, ``("x", "y")`` in two dimensions.
    fields
        Measured fields; the residual is differentiated with respect to them.
    auxiliary
        Fields known without noise.
    system
        What the coordinates are, as in :class:`bvsi.data.Grid`.
    numbers
        Those of the auxiliary fields that are one number in an experiment, such as a temperature.
    """

    coordinates: tuple[str, ...]
    fields: tuple[str, ...]
    auxiliary: tuple[str, ...] = ()
    system: str = "cartesian"
    numbers: tuple[str, ...] = ()

    @staticmethod
    def of(data: Data) -> Vocabulary:
        """The names of some data."""
        known = tuple(data.auxiliary)
        numbers = tuple(name for name, v in data.auxiliary.items() if v.ndim == 1 and bool((v == v[0]).all()))
        return Vocabulary(data.geometry.names, data.names, known, data.geometry.coordinates, numbers)

    @cached_property
    def scales(self) -> dict[str, sp.Expr]:
        """h_i: length over the change of a coordinate, by name, of all coordinates of the system.

        The gradient of s is ∂_i s/h_i, the divergence of v is Σ_i ∂_i(v_i H/h_i)/H with H = Π_i h_i.
        """
        import sympy as sp

        names = COORDINATES[self.system]
        found: dict[str, sp.Expr] = dict.fromkeys(names, sp.Integer(1))
        r, theta = _symbol("r"), _symbol("theta")
        if self.system == "spherical":
            return {"r": sp.Integer(1), "theta": r, "phi": r * sp.sin(theta)}
        return {**found, "phi": r} if "phi" in names else found

    def __post_init__(self) -> None:
        for name in (*self.fields, *self.auxiliary):
            if _JET in name or name.endswith("_"):  # u_ and its u___x would be read as u and its derivative _x
                raise OperatorError(f"field name {name!r}: '__', and '_' at the end, are reserved; rename the field.")

    @property
    def dim(self) -> int:
        """Number of spatial coordinates."""
        return len(self.coordinates)

    @property
    def zero(self) -> MultiIndex:
        """The multi-index of no derivative."""
        return (0,) * self.dim

    def unit(self, axis: int) -> MultiIndex:
        """The multi-index of ∂/∂x_axis."""
        return tuple(int(i == axis) for i in range(self.dim))

    @cached_property
    def x(self) -> tuple[sp.Symbol, ...]:
        """Symbols of the coordinates."""
        return tuple(_symbol(name) for name in self.coordinates)

    @cached_property
    def n(self) -> tuple[sp.Symbol, ...]:
        """Symbols of the outward unit normal."""
        return tuple(_symbol(f"n_{name}") for name in self.coordinates)

    def jet(self, field: str, index: MultiIndex | None = None) -> sp.Symbol:
        """The symbol of ``∂^index field``; of the field itself where there is no index."""
        return _symbol(f"{field}{_JET}{'' if index is None else self.letters(index)}")

    def lagged(self, field: str, tau: float, *, rate: bool = False) -> sp.Symbol:
        """The symbol of u(t − τ), or of its rate of change."""
        return self.jet(f"{field}{_RATE if rate else ''}(t-{tau!r})")

    def covariance(self, field: str, a: MultiIndex | None = None, b: MultiIndex | None = None) -> sp.Symbol:
        """The symbol of Cov(∂^a u, ∂^b u) of the noise of a field at one node; its variance where both are left out."""
        letters = sorted(self.letters(index or self.zero) for index in (a, b))
        return _symbol(f"{_COVARIANCE}{field}{_JET}{_JET.join(letters)}")

    def covariance_of(self, symbol: sp.Symbol) -> tuple[str, MultiIndex, MultiIndex] | None:
        """Field and derivatives whose covariance a symbol is; None for any other symbol."""
        if not symbol.name.startswith(_COVARIANCE):
            return None
        field, *letters = symbol.name.removeprefix(_COVARIANCE).split(_JET)
        a, b = (tuple(one.count(name) for name in self.coordinates) for one in letters)
        return field, a, b

    def letters(self, index: MultiIndex) -> str:
        """A multi-index in letters: ``(2, 1)`` is ``xxy``."""
        return "".join(name * m for name, m in zip(self.coordinates, index, strict=True))

    def seen_from(self, expression: sp.Expr, side: int) -> sp.Expr:
        """The expression with every jet taken from one side of an interior facet."""
        return expression.xreplace({s: _symbol(f"{s.name}{_JET}{_SIDES[side]}") for s in self.jets(expression)})

    def decode(self, symbol: sp.Symbol) -> tuple[str, Jet] | None:
        """Field and derivative of a jet; None for a coordinate, the time, a normal or a covariance."""
        field, *rest = symbol.name.split(_JET)
        if not rest or field.startswith(_COVARIANCE):
            return None
        index = tuple(rest[0].count(name) for name in self.coordinates)
        return field, index if len(rest) == 1 else Sided(index, 1 if rest[1] == _SIDES[1] else -1)

    def jets(self, expression: sp.Expr) -> dict[sp.Symbol, tuple[str, Jet]]:
        """The jets in an expression, in a reproducible order."""
        found = {}
        for symbol in sorted(expression.free_symbols, key=lambda s: s.name):
            decoded = self.decode(symbol)
            if decoded is not None:
                found[symbol] = decoded
        return found

    def derivative(self, expression: sp.Expr, axis: int, *, held: sp.Symbol | None = None) -> sp.Expr:
        """D_axis of the expression, by the chain rule over its jets; the jet ``held`` is taken as constant."""
        import sympy as sp

        from bvsi.operators.bounds import MAX_SIZE, too_large

        if too_large(expression):
            raise OperatorError(
                f"the expression under a derivative has more than {MAX_SIZE} symbols; use fewer nested derivatives "
                "or split the operator."
            )
        terms = [sp.diff(expression, self.x[axis])]
        for symbol, (field, index) in self.jets(expression).items():
            if symbol != held:
                terms.append(self._jet_above(field, index, axis) * sp.diff(expression, symbol))
        total = sp.Add(*terms)
        if total.has(sp.DiracDelta):
            raise OperatorError(
                "the derivative of a jump (the sign in the derivative of an absolute value) is not a function; "
                "keep it as a flux inside div(...)."
            )
        return total

    def _jet_above(self, field: str, index: Jet, axis: int) -> sp.Symbol:
        if isinstance(index, Sided):
            raise OperatorError("a derivative of jump(...) or avg(...) across a facet; take the derivative inside.")
        if order(index) >= MAX_ORDER:
            raise OperatorError(f"more than {MAX_ORDER} derivatives of {field!r}; no element carries them, use fewer.")
        return self.jet(field, raised(index, axis))

    def symbol(self, name: str) -> sp.Symbol:
        """The symbol of a name in an operator text; an unknown name is refused with the nearest known one."""
        if name in self.fields or name in self.auxiliary:
            return self.jet(name)
        if name in self.coordinates:
            return self.x[self.coordinates.index(name)]
        if name == TIME:
            return _symbol(TIME)
        if name in COORDINATE_NAMES:
            raise OperatorError(f"coordinate {name!r} does not exist: the data have {', '.join(self.coordinates)}.")
        known = (*self.fields, *self.auxiliary, *self.coordinates, TIME)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        if name in _RANDOM:
            hint = " Noise in the equation itself is not estimated; an equation of the density, Fokker–Planck, can be."
        elif not near:
            hint = " A field that was not measured cannot stand in an equation: measure it, or eliminate it; a "
            hint += "number that is to be estimated goes into parameters."
        raise OperatorError(f"unknown name {name!r}; known are {', '.join(known)}.{hint}")


def lag_of(name: str) -> tuple[str, float, bool] | None:
    """Field, τ, and whether it is the rate, of the name of a field at an earlier time; None for any other name."""
    field, mark, rest = name.partition("(t-")
    return (field.removesuffix(_RATE), float(rest.removesuffix(")")), field.endswith(_RATE)) if mark else None


def _symbol(name: str) -> sp.Symbol:
    import sympy as sp

    return sp.Symbol(name, real=True)


def raised(index: MultiIndex, axis: int) -> MultiIndex:
    """α + e_axis."""
    return tuple(m + (i == axis) for i, m in enumerate(index))


def lowered(index: MultiIndex, axis: int) -> MultiIndex:
    """α − e_axis."""
    return tuple(m - (i == axis) for i, m in enumerate(index))


def pretty(expression: sp.Expr) -> str:
    """Text of an expression for people: the jet ``u__x`` reads ``u_x``."""
    return str(expression.xreplace({s: type(s)(_readable(s.name)) for s in expression.free_symbols}))


def _readable(name: str) -> str:
    """``u__x`` as u_x, and ``u__x__p``, seen from the + side of a facet, as u_x⁺."""
    field, *rest = name.split(_JET)
    if not rest:
        return name
    side = "" if len(rest) == 1 else {"p": "⁺", "m": "⁻"}[rest[1]]
    return f"{field}_{rest[0]}{side}" if rest[0] else f"{field}{side}"
