"""Candidate operators ∂^r(u^p): no derivative has to stand on the data, all can be moved to the test function."""

from __future__ import annotations

from collections.abc import Sequence


def derivative(text: str, order: int) -> str:
    """∂^r/∂x^r of a text: ``dx(dx(u**2))``."""
    return "dx(" * order + text + ")" * order


def powers(field: str, degrees: Sequence[int]) -> tuple[str, ...]:
    """∂^r(u^p) for r = 0, 1, … and p = 1 … degrees[r]; the first derivatives as u^{p−1} u_x, (u^p)_x divided by p."""
    return tuple(_term(field, p, r) for r, degree in enumerate(degrees) for p in range(1, degree + 1))


def _term(field: str, p: int, r: int) -> str:
    if r == 1:
        return f"dx({field})" if p == 1 else f"{_power(field, p - 1)}*dx({field})"
    return derivative(_power(field, p), r)


def _power(field: str, p: int) -> str:
    return field if p == 1 else f"{field}**{p}"
