"""Expressions to vectorised NumPy functions of jets, coordinates, time and normals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Kernel:
    """Values of several expressions at once, common subexpressions computed once.

    symbols: what has to be given, in the order of the compiled function; expressions: what it was compiled from.
    """

    symbols: tuple[sp.Symbol, ...]
    function: Callable[..., Any]
    expressions: tuple[sp.Expr, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_kernel, (self.expressions,)  # compiled anew where it arrives

    def __call__(self, values: Mapping[sp.Symbol, Array]) -> list[Array]:
        """Evaluate; ``values`` maps symbols to arrays that broadcast against each other."""
        results = self.function(*(values[symbol] for symbol in self.symbols))
        return [np.asarray(result, dtype=float) for result in results]


def compile_kernel(expressions: tuple[sp.Expr, ...]) -> Kernel:
    """Compile expressions; their symbols become the inputs."""
    symbols = sorted({s for e in expressions for s in e.free_symbols}, key=lambda s: s.name)
    function = sp.lambdify(symbols, list(expressions), modules=["scipy", "numpy"], cse=True)
    return Kernel(tuple(symbols), function, expressions)
