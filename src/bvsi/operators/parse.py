"""Syntax tree to strong form, by a whitelist: nothing in the text is ever evaluated as Python.

Grammar: numbers, names, ``+ - * / **``, parentheses, and calls of the functions listed in ``FUNCTION_NAMES``,
``DERIVATIVES`` and ``SPECIAL``. Each node is translated by hand and everything else is refused with its place in the
text.

``diff(f, u, v)``      ∂²f/∂u∂v of an expression of fields
``diff(F, K, 0.5)``    ∂F/∂K at K = 0.5 of an operator F with a parameter K in it
``lag(u, 0.5)``        u(t − 0.5), of a series or at every node; the delay is a number or a parameter
``spline(u, 0, 2, c)`` a cubic spline of u between 0 and 2 with numbers c, four or more (:mod:`bvsi.operators.spline`)
``recover(f)``         f at the nodes by lumped projection, M_lumped⁻¹ ∫ v f: a field that may be differentiated again
``cells(g)``           ∫ g over the cells, g linear in the test function ``test``: a form that is written weakly
``facets(g)``          Σ_E ∫ g over the facets between cells, with ``jump``, ``avg``, the facet's length ``h``, the
                       penalty α/h ``penalty``; [w] = w⁺·n⁺ + w⁻·n⁻ of a vector, s⁺n⁺ + s⁻n⁻ of a scalar
``boundary(g)``        ∮ g over the boundary; there ``jump(w)`` is w·n and ``avg(s)`` is s

SymPy expressions in the language of the texts, with the bounds of the texts.

Fields may be symbols (``u``) or applied functions (``u(x, y, t)``); ``Derivative`` of them is ``dx``, ``dy`` or ``dz``.
What has no counterpart in the language is printed by its own name and refused as any unknown name.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.printing.str import StrPrinter

from bvsi.common.naming import (
    CONSTANT_NAMES,
    COORDINATE_NAMES,
    DERIVATIVES,
    FUNCTION_NAMES,
    MEASURES,
    Sided,
    Where,
    squeeze,
)
from bvsi.errors import OperatorError
from bvsi.operators import strong
from bvsi.operators.bounds import checked, number, real_value, tidy
from bvsi.operators.spline import DEGREE, Table, spline
from bvsi.operators.strong import Scalar, Strong, Vector, WeakTerm, collected, evaluate, need_scalar, plain
from bvsi.operators.syntax import SPECIAL, Syntax, read, shortened
from bvsi.operators.vocabulary import FACET_SIZE, MAX_ORDER, PENALTY, TEST, Vocabulary

#: Functions that people write for integrals over space or time.
_TIME_DERIVATIVES = ("dt", "dtt", "ddt", "d_t")
_INTEGRALS = ("integral", "integrate", "int", "convolve", "conv", "mean", "sum", "fractional", "hilbert")

FUNCTIONS: dict[str, Callable[[sp.Expr], sp.Expr]] = {name: getattr(sp, name) for name in FUNCTION_NAMES}


@dataclass(frozen=True)
class Dialect:
    """What a text may use beyond the names of fields and coordinates.

    Parameters
    ----------
    definitions
        Name → what it stands for; definitions do not use each other.
    biharmonic
        Text for ∇⁴ of an argument; None where it stands for the Laplacian of the Laplacian as it is.
    outside
        Whether ``dx(...)`` keeps its derivative outside, as ``div`` does: where all of them go onto test functions.
    parameters
        Symbols of parameters by which an operator is differentiated.
    at
        Their values.
    """

    definitions: Mapping[str, Syntax] = field(default_factory=dict)
    biharmonic: Callable[[str], str] | None = None
    outside: bool = False
    parameters: Mapping[str, sp.Dummy] = field(default_factory=dict)
    at: Mapping[sp.Dummy, sp.Expr] = field(default_factory=dict)


@dataclass(frozen=True)
class Parsed:
    """A strong form, and the recovered fields that it reads: name → strong form of what is recovered."""

    form: Scalar
    recovered: Mapping[str, Scalar]


def strong_form(syntax: Syntax, words: Vocabulary, dialect: Dialect | None = None) -> Parsed:
    """Strong form of an operator such as ``"div(p*grad(x**2))"``."""
    translator = _Translator(syntax.text, words, dialect or Dialect())
    try:
        form = translator.translate(syntax.tree)
    except _PlacedError as error:
        raise OperatorError(str(error)) from None
    if not isinstance(form, Scalar):
        raise OperatorError(
            f"operator {syntax.text!r} is a vector; an operator of an equation is a scalar, such as div(...)."
        )
    return Parsed(form, translator.recovered)


class _PlacedError(OperatorError):
    """An error that already says where in the text it arose."""


class _Translator:
    """One method per kind of node; anything without a method is refused."""

    def __init__(self, text: str, words: Vocabulary, dialect: Dialect) -> None:
        self.text = text
        self.words = words
        self.dialect = dialect
        self.recovered: dict[str, Scalar] = {}

    def translate(self, node: ast.AST) -> Strong:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self._refuse(node, f"{type(node).__name__} is not part of the operator language")
        try:
            result: Strong = method(node)
        except _PlacedError:
            raise
        except OperatorError as error:
            raise self._refuse(node, str(error).rstrip(".")) from None
        return result

    def _refuse(self, node: ast.AST, reason: str) -> OperatorError:
        place = f" (column {node.col_offset + 1})" if hasattr(node, "col_offset") else ""
        return _PlacedError(f"operator {self.text!r}{place}: {reason}.")

    def _constant(self, node: ast.Constant) -> Strong:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise OperatorError(f"the constant {value!r} is not a real number")
        return plain(number(value), self.words)

    def _name(self, node: ast.Name) -> Strong:
        if node.id in CONSTANT_NAMES:
            return plain(getattr(sp, node.id), self.words)
        if node.id in self.dialect.parameters:
            return plain(self.dialect.parameters[node.id], self.words)
        if node.id in self.dialect.definitions:
            return self._nested(self.dialect.definitions[node.id], replace(self.dialect, definitions={}))
        if node.id in self._callable() and node.id not in (*self.words.fields, *self.words.auxiliary):
            raise OperatorError(f"{node.id} needs an argument: {node.id}(...)")
        return plain(self.words.symbol(node.id), self.words)

    def _nested(self, syntax: Syntax, dialect: Dialect) -> Strong:
        """Another text in the place of a name or call."""
        inner = self._inner(syntax.text, dialect)
        result = inner.translate(syntax.tree)
        self.recovered.update(inner.recovered)
        return result

    def _inner(self, text: str, dialect: Dialect) -> _Translator:
        return _Translator(text, self.words, dialect)

    def _callable(self) -> tuple[str, ...]:
        """Functions that may be called here."""
        return (*DERIVATIVES, *self._directions, *SPECIAL, *FUNCTIONS)

    @property
    def _directions(self) -> tuple[str, ...]:
        """Derivatives by coordinates other than x, y, z: ``dr``, ``dphi``."""
        return tuple(f"d{name}" for name in self.words.coordinates if f"d{name}" not in DERIVATIVES)

    def _unaryop(self, node: ast.UnaryOp) -> Strong:
        value = self.translate(node.operand)
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(node.op, ast.USub):
            return strong.multiply(plain(sp.Integer(-1), self.words), value, self.words)
        raise OperatorError(f"{type(node.op).__name__} is not part of the operator language")

    def _binop(self, node: ast.BinOp) -> Strong:
        left, right = self.translate(node.left), self.translate(node.right)
        minus_one = plain(sp.Integer(-1), self.words)
        match node.op:
            case ast.Add():
                return strong.add(left, right)
            case ast.Sub():
                return strong.add(left, strong.multiply(minus_one, right, self.words))
            case ast.Mult():
                return strong.multiply(left, right, self.words)
            case ast.Div():
                return strong.multiply(left, strong.power(right, minus_one, self.words), self.words)
            case ast.Pow():
                return strong.power(left, right, self.words)
        raise OperatorError(f"{type(node.op).__name__} is not part of the operator language; use + - * / **")

    def _call(self, node: ast.Call) -> Strong:
        if not isinstance(node.func, ast.Name):
            raise OperatorError("only named functions can be called")
        name = node.func.id
        known = self._callable()
        if name not in known and name in _INTEGRALS:
            raise OperatorError(
                f"{name}(...) is an integral, and operators are local; compute it from the data and give it as an "
                "auxiliary field"
            )
        if name not in known and name in _TIME_DERIVATIVES:
            raise OperatorError(
                f"{name}(...) is a derivative in time, which stands on the left side alone; write a damped equation "
                "u_tt = … − γ u_t as two of first order, with the velocity as a field of its own"
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}" if near else ""
            raise OperatorError(f"unknown function {name!r}{hint}; known are {', '.join(known)}")
        if name == "diff":
            return self._diff(node)
        if name == "spline":
            return self._spline(node)
        arity = 2 if name in ("dot", "lag") else 1
        if node.keywords or len(node.args) != arity:
            raise OperatorError(f"{name} takes {arity} argument{'s' if arity > 1 else ''}")
        if name in MEASURES:
            return self._weakly(name, node.args[0])
        if name == "lag":
            return self._lag(*node.args)
        if name == "recover":
            return self._recover(node.args[0])
        if name == "biharmonic" and self.dialect.biharmonic is not None:
            return self._nested(read(self.dialect.biharmonic(ast.unparse(node.args[0]))), self.dialect)
        return self._apply(name, list(map(self.translate, node.args)))

    def _diff(self, node: ast.Call) -> Strong:
        """diff(f, u, …): ∂f/∂u… with f an expression of fields."""
        if node.keywords or len(node.args) < 2:
            raise OperatorError("diff takes an expression and the fields to differentiate by: diff(c1**2*c2, c1)")
        if isinstance(node.args[-1], ast.Constant | ast.UnaryOp):
            return self._by_parameter(node)
        value = evaluate(need_scalar(self.translate(node.args[0]), "diff(...)"), self.words)
        for argument in node.args[1:]:
            if not isinstance(argument, ast.Name) or argument.id not in self.words.fields:
                raise OperatorError(f"diff differentiates by fields ({', '.join(self.words.fields)})")
            value = sp.diff(value, self.words.jet(argument.id))
        return plain(value, self.words)

    def _by_parameter(self, node: ast.Call) -> Strong:
        """diff(F, K, value): ∂F/∂K, derivatives by space kept where they are."""
        if len(node.args) != 3 or not isinstance(node.args[1], ast.Name) or node.args[1].id in self.words.fields:
            raise OperatorError("diff by a parameter takes the operator, the parameter and its value: diff(u**m, m, 2)")
        symbol, at = (
            sp.Dummy(node.args[1].id, real=True),
            evaluate(need_scalar(self.translate(node.args[2]), "diff"), self.words),
        )
        inner = self._inner(self.text, replace(self.dialect, parameters={node.args[1].id: symbol}, at={symbol: at}))
        form = need_scalar(inner.translate(node.args[0]), "diff(...)")
        if inner.recovered:
            raise OperatorError("recover(...) cannot be differentiated by a parameter; write its coefficient in front")

        def slope(g: sp.Expr) -> sp.Expr:
            return checked(sp.diff(g, symbol).xreplace({symbol: at}))

        written = [replace(term, integrand=slope(term.integrand)) for term in form.written]
        return Scalar.from_parts({index: slope(g) for index, g in form.parts}, collected(written))

    def _lag(self, field: ast.expr, delay: ast.expr) -> Strong:
        """u(t − τ); near a value τ_0 of a parameter u(t − τ_0) − (τ − τ_0) u'(t − τ_0)."""
        if not isinstance(field, ast.Name) or field.id not in self.words.fields:
            raise OperatorError(f"lag takes a field ({', '.join(self.words.fields)}) and a delay: lag(u, 0.5)")
        tau = evaluate(need_scalar(self.translate(delay), "lag(...)"), self.words)
        known = tau.xreplace(dict(self.dialect.at))
        if not known.is_number or real_value(known) <= 0:
            raise OperatorError("the delay of lag(...) is a positive number, or a parameter with positive bounds")
        value = real_value(known)
        past = self.words.lagged(field.id, value)
        if not tau.is_number:
            past -= (tau - known) * self.words.lagged(field.id, value, rate=True)
        return plain(past, self.words)

    def _spline(self, node: ast.Call) -> Strong:
        """spline(f, low, high, c_1, …, c_M) of an expression f, with numbers after it."""
        if node.keywords or len(node.args) < 4 + DEGREE:
            raise OperatorError(f"spline takes an expression, two ends and at least {1 + DEGREE} coefficients")
        f, *rest = (
            evaluate(need_scalar(self.translate(argument), "spline(...)"), self.words) for argument in node.args
        )
        numbers = [real_value(one) for one in rest]
        if not numbers[0] < numbers[1]:
            raise OperatorError("the ends of a spline increase: spline(u, 0, 2, ...)")
        return plain(spline(f, 0, Table(*numbers)), self.words)

    def _recover(self, argument: ast.AST) -> Strong:
        inner = need_scalar(self.translate(argument), "recover(...)")
        if inner.written or any(s.name.startswith("⟨") for _, g in inner.parts for s in g.free_symbols):
            raise OperatorError("recover(...) of a weak form or of another recover(...) is not possible")
        name = f"⟨{squeeze(ast.unparse(argument))}⟩"
        self.recovered[name] = inner
        return plain(self.words.jet(name), self.words)

    def _weakly(self, where: str, argument: ast.AST) -> Scalar:
        """A form over one measure, as terms by derivative of the test function."""
        measure = next(m for m in MEASURES if m == where)
        return _WeakTranslator(self.text, self.words, self.dialect, measure).form(argument)

    def _apply(self, name: str, arguments: list[Strong]) -> Strong:
        words = self.words
        if name in FUNCTIONS:
            return strong.function(FUNCTIONS[name], arguments[0], words)
        if name in ("dx", "dy", "dz", *self._directions):
            if name[1:] not in words.coordinates:
                there = (
                    f"have only the coordinates {', '.join(words.coordinates)}"
                    if words.coordinates
                    else "have no space"
                )
                raise OperatorError(f"{name}: the data {there}")
            axis = words.coordinates.index(name[1:])
            return strong.directional(axis, arguments[0], words, outside=self.dialect.outside)
        if name == "dot":
            left, right = arguments
            return strong.dot(left, right, words)
        if name == "biharmonic":
            return strong.laplacian(strong.laplacian(arguments[0], words), words)
        operation: Callable[[Strong, Vocabulary], Strong] = getattr(strong, name)
        return operation(arguments[0], words)


class _WeakTranslator(_Translator):
    """Inside cells(...), facets(...) or boundary(...): the test function, jumps and averages are known."""

    def __init__(self, text: str, words: Vocabulary, dialect: Dialect, where: Where) -> None:
        for name in (TEST, *((FACET_SIZE, PENALTY, "normal") if where != "cells" else ())):
            if name in (*words.fields, *words.auxiliary):
                raise OperatorError(f"in {where}(...) {name} has a meaning of its own; rename the field {name!r}")
        super().__init__(text, replace(words, auxiliary=(*words.auxiliary, TEST)), dialect)
        self.where = where
        self._outer = words

    def form(self, argument: ast.AST) -> Scalar:
        """Terms ∫ ∂^α v g from the expression, which has to be linear in the test function."""
        value = evaluate(need_scalar(self.translate(argument), f"{self.where}(...)"), self.words)
        jets = self.words.jets(value)
        if self.where == "facets" and any(not isinstance(jet, Sided) for _, jet in jets.values()):
            raise OperatorError("on facets a field has two values: write jump(...) or avg(...) of it")
        terms, rest = [], value
        for symbol, (name, jet) in jets.items():
            if name == TEST:
                terms.append(WeakTerm(self.where, jet, sp.diff(value, symbol)))
                rest = rest.xreplace({symbol: sp.Integer(0)})
        nonlinear = any(name == TEST for t in terms for name, _ in self.words.jets(t.integrand).values())
        if not terms or nonlinear or tidy(rest) != 0:
            raise OperatorError(f"what stands in {self.where}(...) has to be linear in the test function {TEST}")
        return Scalar((), collected(terms))

    def _callable(self) -> tuple[str, ...]:
        own = ("jump", "avg") if self.where != "cells" else ()
        return (*own, *(name for name in super()._callable() if name not in (*MEASURES, "recover", "biharmonic")))

    def _name(self, node: ast.Name) -> Strong:
        if self.where != "cells" and node.id in (FACET_SIZE, PENALTY):
            return plain(sp.Symbol(node.id, positive=True), self.words)
        if self.where != "cells" and node.id == "normal":
            return Vector(tuple(plain(n, self.words) for n in self.words.n))
        return super()._name(node)

    def _inner(self, text: str, dialect: Dialect) -> _Translator:
        return _WeakTranslator(text, self._outer, dialect, self.where)

    def _apply(self, name: str, arguments: list[Strong]) -> Strong:
        if name == "jump":
            return self._jump(arguments[0])
        if name == "avg":
            value = evaluate(need_scalar(arguments[0], "avg(...)"), self.words)
            seen = [self._seen(value, side) for side in self._sides]
            return plain(sp.Add(*seen) / len(seen), self.words)
        return super()._apply(name, arguments)

    @property
    def _sides(self) -> tuple[int, ...]:
        return (1, -1) if self.where == "facets" else (1,)

    def _seen(self, value: sp.Expr, side: int) -> sp.Expr:
        return self.words.seen_from(value, side) if self.where == "facets" else value

    def _jump(self, argument: Strong) -> Strong:
        """[w] = w⁺·n⁺ + w⁻·n⁻ of a vector, [s] = s⁺n⁺ + s⁻n⁻ of a scalar; n⁺ = n = −n⁻."""

        def difference(part: Scalar) -> sp.Expr:
            value = evaluate(part, self.words)
            return sp.Add(*(side * self._seen(value, side) for side in self._sides))

        n = self.words.n
        if isinstance(argument, Vector):
            pairs = zip(argument.components, n, strict=True)
            return plain(sp.Add(*(difference(c) * normal for c, normal in pairs)), self.words)
        return Vector(tuple(plain(difference(argument) * normal, self.words) for normal in n))


def from_sympy(expression: sp.Expr) -> Syntax:
    """Syntax of a SymPy expression of fields, coordinates and derivatives."""
    try:
        for atom in expression.atoms(sp.Number, sp.NumberSymbol, sp.zoo, sp.I):
            real_value(atom)
        printed = read(_Printer().doprint(expression))
    except OperatorError as error:
        raise OperatorError(f"operator {shortened(str(expression))!r}: {error}") from None
    names = {symbol.name for symbol in expression.free_symbols}
    names |= {function.func.__name__ for function in expression.atoms(AppliedUndef)}
    return replace(printed, text=str(expression), names=frozenset(names))


class _Printer(StrPrinter):  # type: ignore[misc]  # SymPy has no types
    """SymPy's own texts, but for what the language writes otherwise."""

    def _print_Function(self, node: sp.Expr) -> str:
        name: str = node.func.__name__
        return name if isinstance(node, AppliedUndef) else f"{name}({self.stringify(node.args, ', ')})"

    def _print_Derivative(self, node: sp.Derivative) -> str:
        text = self._print(node.expr)
        for variable, order in node.variable_count:
            if str(variable) not in COORDINATE_NAMES:
                raise OperatorError(
                    f"derivative with respect to {str(variable)!r}: an operator stands on the right-hand side "
                    f"of the equation; derivatives are by {', '.join(COORDINATE_NAMES)}."
                )
            if not (order.is_Integer and order <= MAX_ORDER):
                raise OperatorError(f"a derivative of order {order}; write a number up to {MAX_ORDER}.")
            text = f"d{variable}(" * int(order) + text + ")" * int(order)
        return str(text)

    def _print_Float(self, node: sp.Float) -> str:
        return repr(float(node))  # all digits; SymPy writes fifteen

    def _print_NumberSymbol(self, node: sp.Expr) -> str:
        return repr(float(node))

    def _print_Exp1(self, node: sp.Expr) -> str:  # noqa: ARG002
        return "exp(1)"
