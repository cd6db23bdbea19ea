"""Numbers inside operators that are estimated: F_i(u; κ) keeps κ by name, and is linear in it near a value. ::

    θ F(u; κ) ≈ θ F(u; κ_0) + (κ − κ_0) θ_0 ∂F/∂κ(u; κ_0)

The operator at κ_0, and the last column, are operators with numbers in the place of names: nothing else needs to know.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from bvsi.data._arrays import RESERVED_NAMES
from bvsi.errors import OperatorError
from bvsi.operators.syntax import Operator, Syntax, literal

# Part of the standard deviation of the uniform law between the bounds from which on data are said to leave a parameter
# open; of log κ where the bounds are wide. Not measured.
_OPEN = 0.3
# Ratio of the bounds from which on starts are spaced by factors; not measured.
_WIDE = 4.0


@dataclass(frozen=True)
class Parameter:
    """A number κ inside operators, low ≤ κ ≤ high.

    Parameters
    ----------
    low, high
        Bounds; what is known of κ where the data say nothing.
    start
        Where the search begins, beside the starts between the bounds that it tries anyway.
    prior
        Mean and standard deviation of a Gaussian prior; by default none but the bounds.
    group
        Parameters of one group are looked for at the same values first: those that differ by experiment.
    """

    low: float
    high: float
    start: float | None = None
    prior: tuple[float, float] | None = None
    group: str = ""

    def __post_init__(self) -> None:
        if not (_number(self.low) and _number(self.high) and self.low < self.high):
            raise OperatorError(f"two finite bounds (low, high) are needed, not ({self.low!r}, {self.high!r}).")
        if self.start is not None and not (_number(self.start) and self.low <= self.start <= self.high):
            raise OperatorError(f"the start {self.start!r} is not between {self.low:g} and {self.high:g}.")
        if self.prior is not None:
            object.__setattr__(self, "prior", tuple(self.prior))
            if len(self.prior) != 2 or not all(map(_number, self.prior)) or not self.prior[1] > 0:
                raise OperatorError(f"the prior is (mean, standard deviation), not {self.prior!r}.")

    @property
    def first(self) -> float:
        """The start, or the middle of the bounds."""
        return self.between(1)[0] if self.start is None else self.start

    @property
    def wide(self) -> bool:
        """Whether the bounds are positive and far apart, so that κ is looked for by factors."""
        return self.low > 0 and self.high / self.low >= _WIDE

    def between(self, count: int) -> list[float]:
        """Values in the middles of ``count`` equal parts of the bounds; of log κ where these are wide."""
        middles = (np.arange(count) + 0.5) / count
        if self.wide:
            return [float(v) for v in self.low * (self.high / self.low) ** middles]
        return [float(v) for v in self.low + (self.high - self.low) * middles]

    @property
    def sd(self) -> float:
        """Standard deviation that is known beforehand: of the prior, or of the uniform law between the bounds."""
        return (self.high - self.low) / math.sqrt(12) if self.prior is None else self.prior[1]

    def hardly(self, value: float, sd: float) -> bool:
        """Whether an estimate with this standard deviation says hardly more than the bounds."""
        if self.wide and value > 0 and sd > _OPEN * value * math.log(self.high / self.low) / math.sqrt(12):
            return True
        return sd > _OPEN * (self.high - self.low) / math.sqrt(12)

    def within(self, low: float, high: float) -> Parameter:
        """The same with bounds that are no wider than these."""
        low, high = max(low, self.low), min(high, self.high)
        return replace(self, low=low, high=high, start=None if self.start is None else min(max(self.start, low), high))

    def moved(self, value: float, step: float) -> float:
        """value + step, by at most a factor e or a quarter of the bounds, and between them."""
        if self.wide:
            to = value * math.exp(float(np.clip(step / value, -1.0, 1.0)))
        else:
            to = value + float(np.clip(step, -0.25 * (self.high - self.low), 0.25 * (self.high - self.low)))
        return min(max(to, self.low), self.high)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def as_parameters(given: Mapping[str, object] | None, fields: Sequence[str]) -> dict[str, Parameter]:
    """Parameters by name; ``(low, high)`` stands for ``Parameter(low, high)``."""
    if not isinstance(given, Mapping | None):
        raise OperatorError(f"parameters: {given!r} is not a mapping of names to bounds, such as {{'K': (0.1, 10)}}.")
    found: dict[str, Parameter] = {}
    for name, one in (given or {}).items():
        if not isinstance(name, str) or not name.isidentifier() or name in (*fields, *RESERVED_NAMES):
            raise OperatorError(f"parameters: {name!r} is reserved; choose another name.")
        try:
            found[name] = one if isinstance(one, Parameter) else Parameter(*one)  # type: ignore[misc]
        except (TypeError, OperatorError) as error:
            why = error if isinstance(error, OperatorError) else f"bounds (low, high) are needed, not {one!r}."
            raise OperatorError(f"parameters: {name}: {why}") from None
    return found


def substituted(syntax: Syntax, values: Mapping[str, float]) -> Syntax:
    """The text with numbers in the place of names."""
    return syntax.put({name: literal(value) for name, value in values.items()})


def column(parts: Sequence[tuple[float, Syntax]], name: str, values: Mapping[str, float]) -> Syntax:
    """Σ_i θ_i ∂F_i/∂κ at values of all parameters, as a text: ``diff(θ_1*(F_1) + …, K, 0.5)``."""
    others = {other: value for other, value in values.items() if other != name}
    terms = [f"{float(theta)!r}*({ast.unparse(substituted(syntax, others).tree)})" for theta, syntax in parts]
    text = f"diff({' + '.join(terms)}, {name}, {float(values[name])!r})"
    return Syntax.of(text, ast.parse(text, mode="eval").body)


def carried(operator: Operator, values: Mapping[str, float]) -> Operator:
    """The operator at values of its parameters; itself where it has none of them."""
    free = operator.free or operator.syntax
    if not free.names & {*values}:
        return operator
    syntax = substituted(free, values)
    return Operator(operator.name, operator.equation, operator.source, syntax, tie=operator.tie, free=free)


def columns(
    operators: Iterable[Operator], values: Mapping[str, float], theta: Mapping[str, float], equation: str
) -> list[Operator]:
    """∂/∂κ of what stands in an equation, one operator for every parameter in it; its coefficient is κ − κ_0.

    Parameters
    ----------
    theta
        Coefficients by name; an operator without one does not count.
    """
    mine = [(theta[o.name], o.free) for o in operators if o.free is not None and theta.get(o.name)]
    found = []
    for name in values:
        parts = [(weight, free) for weight, free in mine if name in free.names]
        if parts:
            syntax = column(parts, name, values)
            found.append(Operator(name, equation, syntax.text, syntax, tie=f"parameter: {name}", free=syntax))
    return found


def grid(parameters: Mapping[str, Parameter], most: int) -> dict[tuple[int, ...], dict[str, float]]:
    """Values of all parameters together by place, at most so many: as many of each group, two at least."""
    groups = {one.group or name: one for name, one in reversed([*parameters.items()])}
    each = max(2, int(most ** (1 / len(groups)) + 1e-9))
    points = islice(product(*(enumerate(one.between(each)) for one in groups.values())), most)
    found = {}
    for point in points:
        values = dict(zip(groups, (value for _, value in point), strict=True))
        found[tuple(i for i, _ in point)] = {name: values[one.group or name] for name, one in parameters.items()}
    return found


def combinations(parameters: Mapping[str, Parameter], most: int) -> list[dict[str, float]]:
    """The values of a grid, and the starts that were given where they are not among them."""
    given, found = {name: one.first for name, one in parameters.items()}, [*grid(parameters, most).values()]
    known = any(np.allclose([*given.values()], [*one.values()], rtol=1e-9) for one in found)
    return found if known or all(one.start is None for one in parameters.values()) else [given, *found]
