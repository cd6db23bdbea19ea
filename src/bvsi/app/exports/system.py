"""The equations of a discovery in one form that every target takes.

    ∂_t^m u = Σ_i θ_i F_i,      F_i = Σ_α D^α g_iα(u, ∂u, x, t)

The g are SymPy expressions of jets, coordinates and time, made by the whitelist of :mod:`bvsi.operators.parse` from the
texts of the operators. Derivatives stay outside where they were written, so that fluxes stay fluxes. In polar,
cylindrical and spherical coordinates the factors of grad, div and laplacian are in the g.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bvsi.app.report.equation import split_name
from bvsi.common.naming import AXIS_NAMES, MultiIndex, Sided, without_equation
from bvsi.errors import BvsiError, OperatorError
from bvsi.operators import Vocabulary
from bvsi.operators.vocabulary import TIME, lag_of

if TYPE_CHECKING:
    import sympy as sp

    from bvsi.discovery import Discovery
    from bvsi.operators import Library
    from bvsi.operators.strong import Scalar
    from bvsi.operators.syntax import Syntax

T = TypeVar("T")


@dataclass(frozen=True)
class Flux:
    """One summand c D^α g of the right side.

    Attributes
    ----------
    coefficient
        θ_i, or −1 of what stands on the left side.
    derivative
        α.
    inner
        g.
    """

    coefficient: Any
    derivative: MultiIndex
    inner: sp.Expr


@dataclass(frozen=True)
class EquationSystem:
    """Equations with their coefficients.

    Attributes
    ----------
    words
        Names of coordinates and fields.
    fluxes
        Summands of the right side, by field with an equation.
    time_order
        m.
    density
        ρ u of left sides ∂_t^m(ρ u), by field; u where it is not listed.
    steady
        Whether no equation has a time derivative; F_0 stands on the right side with the sign −, and the left is zero.
    before
        Fields at earlier times, which are known fields: field and delay by name, such as ``u_before``.
    """

    words: Vocabulary
    fluxes: Mapping[str, tuple[Flux, ...]]
    time_order: int
    density: Mapping[str, sp.Expr]
    steady: bool
    before: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields with an equation."""
        return tuple(self.fluxes)

    @property
    def known(self) -> tuple[str, ...]:
        """Fields that the equations read and do not give, and the time where it is read; in order."""
        used = {s for parts in self.fluxes.values() for part in parts for s in part.inner.free_symbols}
        names = {self.words.decode(s)[0] if self.words.decode(s) else s.name for s in used}  # type: ignore[index]
        return tuple(sorted(names - {*self.fields, *self.words.coordinates}))

    def inside(self, flux: Flux) -> list[MultiIndex]:
        """Derivatives of fields inside g, zero among them."""
        indices = [index for _, index in self.words.jets(flux.inner).values()]
        return [index for index in indices if not isinstance(index, Sided)]

    def check_known(self, given: Mapping[str, Any]) -> None:
        """Refuse to continue without the fields that the equations read and do not give."""
        for name in self.known:
            if name not in given and name != TIME:
                field, tau = self.before.get(name, ("", 0.0))
                which = f" ({field} at t - {tau:g})" if field else ""
                raise BvsiError(f"known: the equations read {name!r}{which} and do not give it; give it by name.")

    def evolving(self, target: str) -> EquationSystem:
        """The same; refused where it is not an equation for the time derivative of its fields."""
        if self.steady:
            raise BvsiError(f"{target}: the equation is steady; only SymPy and LaTeX take it.")
        if self.density:
            raise BvsiError(f"{target}: the left side is dt(rho*u); divide by rho, or export it to SymPy.")
        return self

    def cartesian(self, target: str) -> EquationSystem:
        """The same; refused in coordinates that the target has by other names."""
        if self.words.system != "cartesian":
            raise BvsiError(f"{target}: {self.words.system} coordinates are exported to SymPy, NumPy and JAX only.")
        return self


def system_of(found: Discovery, theta: Sequence[Any] | None = None, *, named: bool = False) -> EquationSystem:
    """The equations of a discovery.

    Parameters
    ----------
    theta
        Coefficients (d,) in the order of ``found.names``, such as a draw of the posterior, or symbols of the target; by
        default the posterior mean. Parameters inside operators have the numbers that it contains, else their estimates.
    named
        Whether parameters inside operators stay names, as known fields do.
    """
    from bvsi.operators.boundary import read_left
    from bvsi.operators.parameters import substituted
    from bvsi.operators.syntax import read

    words = found.words
    if words is None:
        raise BvsiError("export: this result was made by an earlier version, and does not name its coordinates.")
    _check_names(words, found.fields)
    values = list(found.theta.tolist() if theta is None else theta)
    if len(values) != len(found.names):
        raise BvsiError(f"theta: {len(found.names)} coefficients are needed, in the order of found.names.")
    inside = {name: mean for name, (mean, _) in found.inside.items()}
    kept: tuple[str, ...] = ()
    if named:  # but for delays
        kept = tuple(name for name in inside if not any(_delays(text, name) for text in found.texts.values()))
        inside = {name: value for name, value in inside.items() if name not in kept}
    for name, value in zip(found.names, values, strict=True):
        if name in found.parameters and isinstance(value, float) and inside:
            inside[without_equation(name)] = value
    parts: dict[str, list[Flux]] = {field: [] for field in found.fields}
    whole, written = _written_functions(found, values)
    for name, value in zip(found.names, values, strict=True):
        if name in found.parameters or name in written:
            continue
        field, text = split_name(name, found.fields)
        parts[field] += _fluxes(substituted(read(found.texts.get(name, text)), inside), value, words, kept)
    for field, syntax in whole:
        parts[field] += _fluxes(substituted(syntax, inside), 1.0, words, kept)
    lefts = {field: read_left(text, field) for field, text in found.left.items()}
    for field, left in lefts.items():
        parts[field] += [] if left.known is None else _fluxes(left.known.syntax, -1.0, words)
    density = {f: _strong(left.density.syntax, words) for f, left in lefts.items() if left.density is not None}
    return _with_past(
        EquationSystem(
            words,
            {field: tuple(own) for field, own in parts.items()},
            found.time_order,
            {field: form.parts[0][1] for field, form in density.items()},
            bool(lefts) and not any(left.evolves for left in lefts.values()),
        )
    )


def _delays(text: str, name: str) -> bool:
    """Whether a name is the delay of a field in a text."""
    calls = (node for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Call))
    lags = (node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "lag")
    return any(isinstance(node.args[-1], ast.Name) and node.args[-1].id == name for node in lags)


def _written_functions(found: Discovery, values: Sequence[Any]) -> tuple[list[tuple[str, Syntax]], set[str]]:
    """Operators with an unknown function at its coefficients, with their fields; and the names of these coefficients.

    Only where all are numbers: a program in which they stay coefficients has an operator for each of them.
    """
    from bvsi.operators.syntax import read

    made: list[tuple[str, Syntax]] = []
    used: set[str] = set()
    for one in found.functions:
        own = [values[i] for i in one.members(found.names)]
        if one.constant or not all(isinstance(value, float) for value in own):
            continue
        used |= {name for name in found.names if without_equation(name) in one.labels}
        for name in one.operators:
            field, text = split_name(name, found.fields)
            made.append((field, read(text).put({one.name: one.function.tree(own)})))
    return made, used


def _with_past(system: EquationSystem) -> EquationSystem:
    """The same with fields at earlier times as known fields that programs can name."""
    words = system.words
    jets = {s: jet for parts in system.fluxes.values() for f in parts for s, jet in words.jets(f.inner).items()}
    lags = sorted({(lag[0], lag[1]) for name, _ in jets.values() if (lag := lag_of(name)) is not None})
    if not lags:
        return system
    taken, names = {*words.fields, *words.auxiliary}, dict[tuple[str, float], str]()
    for one, tau in lags:
        name = f"{one}_before"
        while name in taken:
            name += "_"
        taken.add(name)
        names[one, tau] = name
    words = replace(words, auxiliary=(*words.auxiliary, *names.values()))
    known = {}
    for symbol, (name, index) in jets.items():
        lag = lag_of(name)
        if lag is not None and not isinstance(index, Sided):
            known[symbol] = words.jet(names[lag[0], lag[1]], index)
    fluxes = {
        field: tuple(replace(flux, inner=flux.inner.xreplace(known)) for flux in parts)
        for field, parts in system.fluxes.items()
    }
    return replace(system, words=words, fluxes=fluxes, before={name: lag for lag, name in names.items()})


def system_of_library(library: Library, words: Vocabulary) -> EquationSystem:
    """The equations of all operators of a library, with 0, 1, …, d − 1 for their coefficients."""
    from bvsi.operators.syntax import read

    texts = library.texts
    parts: dict[str, list[Flux]] = {field: [] for field in library.equations}
    for i, operator in enumerate(library.operators):
        parts[operator.equation] += _fluxes(read(texts[operator.name]), i, words)
    fluxes = {field: tuple(own) for field, own in parts.items()}
    return EquationSystem(words, fluxes, library.time_order, {}, library.steady)


def _check_names(words: Vocabulary, fields: Sequence[str]) -> None:
    """Refuse names that would be more than names in a program: a file may hold any text."""
    for name in (*fields, *words.fields, *words.auxiliary):
        if not (name.isascii() and name.isidentifier()) or iskeyword(name):
            raise BvsiError(f"export: the field {name!r} has a name that programs do not accept; rename it.")
    if not {*words.coordinates} <= {*AXIS_NAMES} or not {*fields} <= {*words.fields}:
        raise BvsiError("export: the names of coordinates and fields in this result do not fit together.")


def _fluxes(syntax: Syntax, coefficient: Any, words: Vocabulary, kept: Sequence[str] = ()) -> list[Flux]:
    from bvsi.operators.bounds import plain_powers

    return [Flux(coefficient, index, plain_powers(g)) for index, g in _strong(syntax, words, kept).parts]


def _strong(syntax: Syntax, words: Vocabulary, kept: Sequence[str] = ()) -> Scalar:
    """The strong form, with some parameters kept as symbols of their names."""
    import sympy as sp

    from bvsi.operators.parse import Dialect, strong_form

    symbols = {name: sp.Dummy(name, real=True) for name in kept}
    parsed = strong_form(syntax, words, Dialect(outside=True, parameters=symbols))
    if parsed.form.written or parsed.recovered:
        raise OperatorError(f"operator {syntax.text!r} is written for elements, and has no strong form to export.")
    return parsed.form


@dataclass(frozen=True)
class Target(Generic[T]):
    """What a target writes for the nodes of an expression.

    Attributes
    ----------
    number
        A float, or an int where it is one.
    name
        A field, a coordinate or the time t.
    derivative
        ∂^α of a value; not called with α = 0.
    functions
        By their names in SymPy; that of a spline takes the order of its derivative and its numbers as well, and is
        written in powers where there is none.
    """

    number: Callable[[float], T]
    name: Callable[[str], T]
    add: Callable[[Sequence[T]], T]
    multiply: Callable[[Sequence[T]], T]
    power: Callable[[T, T], T]
    derivative: Callable[[T, MultiIndex], T]
    functions: Mapping[str, Callable[..., T]]

    def walk(self, node: sp.Expr, words: Vocabulary) -> T:
        """The value of an expression of jets, coordinates and time."""
        from bvsi.operators.spline import Table, spline_formula  # imports SymPy

        if node.is_Symbol:
            return self._symbol(node, words)
        if node.is_Integer:
            return self.number(int(node))
        if node.is_Number or node.is_NumberSymbol:
            return self.number(float(node))
        if node.is_Add:
            return self.add([self.walk(part, words) for part in node.as_ordered_terms()])
        if node.is_Mul:
            return self.multiply([self.walk(part, words) for part in node.as_ordered_factors()])
        if node.is_Pow:
            return self.power(self.walk(node.base, words), self.walk(node.exp, words))
        if node.func.__name__ == "spline" and "spline" not in self.functions:
            return self.walk(spline_formula(node), words)
        function = self.functions.get(node.func.__name__)
        if function is None:
            raise OperatorError(f"{node.func.__name__}(...) has no counterpart in this target.")
        numbers = (one.values if isinstance(one, Table) else int(one) for one in node.args[1:])  # of a spline
        return function(self.walk(node.args[0], words), *numbers)

    def _symbol(self, symbol: sp.Symbol, words: Vocabulary) -> T:
        decoded = words.decode(symbol)
        if decoded is None:
            return self.name(symbol.name)
        field, index = decoded
        assert not isinstance(index, Sided)  # only inside facets(...), which is refused
        return self.derivative(self.name(field), index) if any(index) else self.name(field)

    def outer(self, flux: Flux, words: Vocabulary) -> T:
        """D^α g of a summand, without its coefficient."""
        inner = self.walk(flux.inner, words)
        return self.derivative(inner, flux.derivative) if any(flux.derivative) else inner
