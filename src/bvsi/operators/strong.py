"""Strong forms: scalars and vectors that remember which derivatives stand outside.

A scalar is ``F = Σ_α D^α g_α``: expressions g_α of jets under outer derivatives D^α. ``div``, ``grad`` and
``laplacian`` keep their derivative outside, since that is the flux to integrate by parts; ``dx``, ``dy``, ``dz``
are carried out at once by the chain rule, unless all derivatives go onto test functions (splines), and so is an outer
derivative that gets multiplied by something.
Beside these a scalar may carry terms that are written weakly, ∫ ∂^α v g over cells, facets or the boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import sympy as sp

from bvsi.common.jets import MEASURES, Jet, MultiIndex, Sided, Where
from bvsi.errors import OperatorError
from bvsi.operators.bounds import apply, checked, is_constant
from bvsi.operators.bounds import power as bounded_power
from bvsi.operators.vocabulary import Vocabulary, lowered, raised


@dataclass(frozen=True)
class WeakTerm:
    """∫ ∂^test v · integrand over one measure."""

    where: Where
    test: Jet
    integrand: sp.Expr


def collected(terms: Iterable[WeakTerm]) -> tuple[WeakTerm, ...]:
    """Terms of the same measure and test derivative added up, in a fixed order; those that vanish left out."""
    found: dict[tuple[Where, Jet], sp.Expr] = {}
    for term in terms:
        found[term.where, term.test] = found.get((term.where, term.test), sp.Integer(0)) + term.integrand
    ordered = sorted(found.items(), key=lambda item: (MEASURES.index(item[0][0]), _sortable(item[0][1])))
    return tuple(WeakTerm(*key, g) for key, g in ordered if g != 0)


def _sortable(jet: Jet) -> tuple[tuple[int, ...], int]:
    return (jet.index, jet.side) if isinstance(jet, Sided) else (jet, 0)


@dataclass(frozen=True)
class Scalar:
    """F = Σ_α D^α g_α; ``parts`` maps α to g_α, ``written`` are terms given in weak form."""

    parts: tuple[tuple[MultiIndex, sp.Expr], ...]
    written: tuple[WeakTerm, ...] = ()

    @staticmethod
    def from_parts(parts: dict[MultiIndex, sp.Expr], written: tuple[WeakTerm, ...] = ()) -> Scalar:
        """Build from a mapping; parts that vanish are left out, the order is fixed."""
        return Scalar(tuple((index, g) for index, g in sorted(parts.items()) if g != 0), written)


@dataclass(frozen=True)
class Vector:
    """A vector of strong forms, one per coordinate."""

    components: tuple[Scalar, ...]


Strong = Scalar | Vector


def plain(expression: sp.Expr, words: Vocabulary) -> Scalar:
    """An expression without outer derivatives."""
    return Scalar.from_parts({words.zero: expression})


def evaluate(form: Scalar, words: Vocabulary) -> sp.Expr:
    """Carry out the outer derivatives: Σ_α D^α g_α as one expression of jets."""
    _need_strong(form)
    total = sp.Integer(0)
    for index, g in form.parts:
        for axis, order in enumerate(index):
            for _ in range(order):
                g = words.derivative(g, axis)
        total += g
    return total


def add(left: Strong, right: Strong) -> Strong:
    """Left + right, both scalars or both vectors."""
    if isinstance(left, Vector) and isinstance(right, Vector):
        pairs = zip(left.components, right.components, strict=True)
        return Vector(tuple(_add(a, b) for a, b in pairs))
    return _add(need_scalar(left, "+"), need_scalar(right, "+"))


def multiply(left: Strong, right: Strong, words: Vocabulary) -> Strong:
    """Left · right; at most one of them a vector."""
    if isinstance(left, Vector) and isinstance(right, Vector):
        raise OperatorError("a vector times a vector: write dot(a, b) for their inner product.")
    if isinstance(left, Vector):
        left, right = right, left
    left = need_scalar(left, "*")
    if isinstance(right, Vector):
        return Vector(tuple(_multiply(left, c, words) for c in right.components))
    return _multiply(left, right, words)


def power(base: Strong, exponent: Strong, words: Vocabulary) -> Scalar:
    """Base ** number."""
    n = evaluate(need_scalar(exponent, "an exponent"), words)
    value = evaluate(need_scalar(base, "**"), words)
    measured = any(field in words.fields for field, _ in words.jets(value).values())
    return plain(bounded_power(value, n, measured=measured), words)


def function(f: Callable[[sp.Expr], sp.Expr], argument: Strong, words: Vocabulary) -> Scalar:
    """A smooth function of a scalar."""
    return plain(apply(f, evaluate(need_scalar(argument, "a function"), words)), words)


def directional(axis: int, argument: Strong, words: Vocabulary, *, outside: bool = False) -> Scalar:
    """∂/∂x_axis, carried out or kept outside."""
    if outside:
        return _shift(need_scalar(argument, "a derivative"), axis, words)
    value = evaluate(need_scalar(argument, "a derivative"), words)
    return plain(words.derivative(value, axis), words)


def grad(argument: Strong, words: Vocabulary) -> Vector:
    """∇F, derivatives kept outside: (∇F)_i = ∂_i F/h_i, in the direction of each coordinate."""
    scalar = need_scalar(argument, "grad")
    slopes = (_shift(scalar, axis, words) for axis in range(words.dim))
    return Vector(tuple(_over(slope, h, words) for slope, h in zip(slopes, _lengths(words), strict=True)))


def div(argument: Strong, words: Vocabulary) -> Scalar:
    """∇·F, derivatives kept outside: Σ_i ∂_i(F_i H/h_i)/H = Σ_i ∂_i(F_i/h_i) + F_i/h_i ∂_i log H, H = Π h_i."""
    if not isinstance(argument, Vector):
        raise OperatorError("div needs a vector, such as div(u*grad(x)) or div(grad(u)).")
    total, volume = Scalar(()), sp.log(sp.Mul(*words.scales.values()))
    pairs = zip(argument.components, _lengths(words), strict=True)
    for axis, (component, h) in enumerate(pairs):
        part = _over(component, h, words)
        total = _add(total, _shift(part, axis, words))
        spread = sp.diff(volume, words.x[axis])
        if spread != 0:
            total = _add(total, _over(part, 1 / spread, words))
    return total


def _lengths(words: Vocabulary) -> tuple[sp.Expr, ...]:
    """h_i of the coordinates of the data; one for those of another name, as potentials may have."""
    return tuple(words.scales.get(name, sp.Integer(1)) for name in words.coordinates)


def _over(form: Scalar, h: sp.Expr, words: Vocabulary) -> Scalar:
    """F/h for an expression h of the coordinates, which goes inside: c D_i g = D_i(c g) − (D_i c) g."""
    if h == 1:
        return form
    _need_strong(form)
    total = Scalar(())
    for index, g in form.parts:
        axis = next((i for i, m in enumerate(index) if m), None)
        if axis is None:
            total = _add(total, plain(checked(g / h), words))
            continue
        inner = Scalar.from_parts({lowered(index, axis): g})
        total = _add(total, _shift(_over(inner, h, words), axis, words))
        slope = sp.diff(1 / h, words.x[axis])
        if slope != 0:
            total = _add(total, _over(inner, -1 / slope, words))
    return total


def dot(left: Strong, right: Strong, words: Vocabulary) -> Scalar:
    """Inner product of two vectors, carried out."""
    if not (isinstance(left, Vector) and isinstance(right, Vector)):
        raise OperatorError("dot needs two vectors, such as dot(grad(u), grad(u)).")
    pairs = zip(left.components, right.components, strict=True)
    return plain(checked(sp.Add(*(evaluate(a, words) * evaluate(b, words) for a, b in pairs))), words)


def laplacian(argument: Strong, words: Vocabulary) -> Scalar:
    """∇·∇F."""
    return div(grad(argument, words), words)


def _add(left: Scalar, right: Scalar) -> Scalar:
    parts = dict(left.parts)
    for index, g in right.parts:
        parts[index] = checked(parts.get(index, sp.Integer(0)) + g)
    return Scalar.from_parts(parts, collected((*left.written, *right.written)))


def _multiply(left: Scalar, right: Scalar, words: Vocabulary) -> Scalar:
    for factor, form in ((left, right), (right, left)):
        constant = _constant(factor, words)
        if constant is not None:
            written = [replace(term, integrand=checked(constant * term.integrand)) for term in form.written]
            return Scalar.from_parts({index: checked(constant * g) for index, g in form.parts}, collected(written))
    return plain(checked(evaluate(left, words) * evaluate(right, words)), words)


def _constant(form: Scalar, words: Vocabulary) -> sp.Expr | None:
    """The value of a form that is a constant; a derivative of a constant has been carried out and is none."""
    if form.written:
        return None
    if not form.parts:
        return sp.Integer(0)
    ((index, g), *others) = form.parts
    known = {words.jet(name) for name in words.numbers}
    return g if is_constant(g, known) and not others and index == words.zero else None


def _shift(form: Scalar, axis: int, words: Vocabulary) -> Scalar:
    """D_axis put outside; a plain expression of the coordinates alone is differentiated at once."""
    _need_strong(form)
    parts: dict[MultiIndex, sp.Expr] = {}
    for index, g in form.parts:
        if words.jets(g):
            index = raised(index, axis)
        else:
            g = words.derivative(g, axis)
        parts[index] = parts.get(index, sp.Integer(0)) + g
    return Scalar.from_parts(parts)


def _need_strong(form: Scalar) -> None:
    if form.written:
        raise OperatorError(
            "a term in weak form (cells(...), facets(...), boundary(...), or biharmonic(...) with the boundary "
            "terms of ZeroNeumann() or on an element that is not C1) can be added and multiplied by numbers only."
        )


def need_scalar(value: Strong, where: str) -> Scalar:
    """The value, which must not be a vector."""
    if isinstance(value, Vector):
        raise OperatorError(f"a vector cannot stand in {where}; did you forget div(...) or dot(...)?")
    return value
