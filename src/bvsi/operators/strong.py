"""Strong forms: scalars and vectors that remember which derivatives stand outside.

A scalar is ``F = Σ_α D^α g_α``: expressions g_α of jets under outer derivatives D^α. ``div``, ``grad`` and
``laplacian`` keep their derivative outside, since that is the flux to integrate by parts; ``dx``, ``dy``, ``dz``
are carried out at once by the chain rule, and so is an outer derivative that gets multiplied by something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators.vocabulary import MultiIndex, Vocabulary, pretty

MAX_EXPONENT = 20
MAX_LOG_CONSTANT = 300.0


@dataclass(frozen=True)
class Scalar:
    """F = Σ_α D^α g_α; ``parts`` maps α to g_α."""

    parts: tuple[tuple[MultiIndex, sp.Expr], ...]

    @staticmethod
    def of(parts: dict[MultiIndex, sp.Expr]) -> Scalar:
        """Build from a mapping; parts that vanish are left out, the order is fixed."""
        return Scalar(tuple((index, g) for index, g in sorted(parts.items()) if g != 0))


@dataclass(frozen=True)
class Vector:
    """A vector of strong forms, one per coordinate."""

    components: tuple[Scalar, ...]


Strong = Scalar | Vector


@dataclass(frozen=True)
class StrongAlgebra:
    """The operations of the operator language over one vocabulary."""

    words: Vocabulary

    def plain(self, expression: sp.Expr) -> Scalar:
        """An expression without outer derivatives."""
        return Scalar.of({self.words.zero: expression})

    def evaluate(self, form: Scalar) -> sp.Expr:
        """Carry out the outer derivatives: Σ_α D^α g_α as one expression of jets."""
        total = sp.Integer(0)
        for index, g in form.parts:
            for axis, order in enumerate(index):
                for _ in range(order):
                    g = self.words.derivative(g, axis)
            total += g
        return total

    def add(self, left: Strong, right: Strong) -> Strong:
        """Left + right, both scalars or both vectors."""
        if isinstance(left, Vector) and isinstance(right, Vector):
            pairs = zip(left.components, right.components, strict=True)
            return Vector(tuple(self._add(a, b) for a, b in pairs))
        return self._add(_scalar(left, "+"), _scalar(right, "+"))

    def multiply(self, left: Strong, right: Strong) -> Strong:
        """Left · right; at most one of them a vector."""
        if isinstance(left, Vector) and isinstance(right, Vector):
            raise OperatorError("a vector times a vector: write dot(a, b) for their inner product.")
        if isinstance(left, Vector):
            left, right = right, left
        left = _scalar(left, "*")
        if isinstance(right, Vector):
            return Vector(tuple(self._multiply(left, c) for c in right.components))
        return self._multiply(left, right)

    def power(self, base: Strong, exponent: Strong) -> Scalar:
        """Base ** number."""
        n = self.evaluate(_scalar(exponent, "an exponent"))
        if not n.is_number or not n.is_real:
            raise OperatorError(
                f"exponent {pretty(n)}: only real numbers are allowed; write exp(...) for other powers."
            )
        return self.plain(_power(self.evaluate(_scalar(base, "**")), n))

    def function(self, f: Callable[[sp.Expr], sp.Expr], argument: Strong) -> Scalar:
        """A smooth function of a scalar."""
        return self.plain(f(self.evaluate(_scalar(argument, "a function"))))

    def directional(self, axis: int, argument: Strong) -> Scalar:
        """∂/∂x_axis, carried out."""
        value = self.evaluate(_scalar(argument, "a derivative"))
        return self.plain(self.words.derivative(value, axis))

    def grad(self, argument: Strong) -> Vector:
        """∇F, derivatives kept outside."""
        scalar = _scalar(argument, "grad")
        return Vector(tuple(self._shift(scalar, axis) for axis in range(self.words.dim)))

    def div(self, argument: Strong) -> Scalar:
        """∇·F, derivatives kept outside."""
        if not isinstance(argument, Vector):
            raise OperatorError("div needs a vector, such as div(u*grad(x)) or div(grad(u)).")
        total = Scalar(())
        for axis, component in enumerate(argument.components):
            total = self._add(total, self._shift(component, axis))
        return total

    def dot(self, left: Strong, right: Strong) -> Scalar:
        """Inner product of two vectors, carried out."""
        if not (isinstance(left, Vector) and isinstance(right, Vector)):
            raise OperatorError("dot needs two vectors, such as dot(grad(u), grad(u)).")
        pairs = zip(left.components, right.components, strict=True)
        return self.plain(sp.Add(*(self.evaluate(a) * self.evaluate(b) for a, b in pairs)))

    def laplacian(self, argument: Strong) -> Scalar:
        """∇·∇F."""
        return self.div(self.grad(argument))

    def _add(self, left: Scalar, right: Scalar) -> Scalar:
        parts = dict(left.parts)
        for index, g in right.parts:
            parts[index] = parts.get(index, sp.Integer(0)) + g
        return Scalar.of(parts)

    def _multiply(self, left: Scalar, right: Scalar) -> Scalar:
        for factor, form in ((left, right), (right, left)):
            value = self.evaluate(factor)
            if value.is_number:
                return Scalar.of({index: value * g for index, g in form.parts})
        return self.plain(self.evaluate(left) * self.evaluate(right))

    def _shift(self, form: Scalar, axis: int) -> Scalar:
        """D_axis put outside; a plain expression of the coordinates alone is differentiated at once."""
        parts: dict[MultiIndex, sp.Expr] = {}
        for index, g in form.parts:
            raised = tuple(order + (i == axis) for i, order in enumerate(index))
            if not self.words.jets(g):
                raised, g = index, self.words.derivative(g, axis)
            parts[raised] = parts.get(raised, sp.Integer(0)) + g
        return Scalar.of(parts)


def _power(base: sp.Expr, n: sp.Expr) -> sp.Expr:
    if base == 0 and n <= 0:
        raise OperatorError("zero cannot be raised to a power that is not positive.")
    # Nested powers multiply, (u**9)**9 is u**81, so the bound is on what the power comes to.
    total = n * (base.exp if isinstance(base, sp.Pow) and base.exp.is_number else 1)
    if base.is_number and base != 0 and abs(n * sp.log(abs(base)).evalf(8)) > MAX_LOG_CONSTANT:
        raise OperatorError("a constant in the operator is too large or too small for floating point.")
    if abs(total) > MAX_EXPONENT:
        raise OperatorError(f"a power of {total} is beyond {MAX_EXPONENT}; rescale the field or use exp(...).")
    return base**n


def _scalar(value: Strong, where: str) -> Scalar:
    if isinstance(value, Vector):
        raise OperatorError(f"a vector cannot stand in {where}; did you forget div(...) or dot(...)?")
    return value
