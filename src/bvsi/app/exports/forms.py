"""Equations as weak forms of UFL, for FEniCS and Firedrake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bvsi.app.exports.system import EquationSystem, Flux, Target, system_of
from bvsi.common.naming import MultiIndex
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.operators.vocabulary import TIME, lowered, raised

if TYPE_CHECKING:
    from bvsi.discovery import Discovery


def to_ufl(
    found: Discovery,
    fields: Mapping[str, Any],
    tests: Mapping[str, Any],
    *,
    theta: Sequence[Any] | None = None,
    known: Mapping[str, Any] | None = None,
    order: int = 1,
) -> Any:
    """The right-hand side as a form, Σ_i θ_i Σ_α (−1)^|β| ∫ ∂^β v D^(α−β) g_iα dx.

    With it a step of backward Euler is ``inner((u − u_0)/dt, v)*dx − found.to_ufl({"u": u}, {"v": v})``. Integrals over
    the boundary are left out: that is the natural condition, no flux.

    Parameters
    ----------
    fields, tests
        Functions and test functions by field, such as ``dict(zip(found.fields, ufl.split(u)))``.
    theta
        Coefficients in the order of ``found.names``, numbers or constants of UFL, whose values can be draws of the
        posterior; by default the posterior mean.
    known
        Fields that the equations read and do not give, and ``t`` where it is read.
    order
        Derivatives that the element carries: 1 of Lagrange elements, 2 of C1 elements, which ∇⁴ needs.
    """
    try:
        import ufl
    except ImportError:
        raise MissingDependencyError("to_ufl: UFL is not installed; run: pip install 'bvsi[export]'") from None
    system = system_of(found, theta).evolving("to_ufl").cartesian("to_ufl")
    if system.time_order != 1:
        raise BvsiError("to_ufl: the equation is of second order in time; write it as a system of first order.")
    missing = [f for f in system.fields if f not in fields or f not in tests]
    missing += [name for name in system.known if name not in (known or {})]
    if missing:
        raise BvsiError(f"to_ufl: {missing[0]!r} is missing; give functions and test functions of all fields by name.")
    target = _target(system, {**fields, **(known or {})})
    total = 0
    for field, fluxes in system.fluxes.items():
        for flux in fluxes:
            total += _integral(flux, target, system, tests[field], order) * ufl.dx
    return total


def parted(flux: Flux, system: EquationSystem, order: int) -> tuple[MultiIndex, MultiIndex]:
    """β, which goes onto the test function, and α − β: derivatives move until at most ``order`` stay."""
    moved: MultiIndex = (0,) * len(flux.derivative)
    kept, inner = flux.derivative, max(map(sum, system.inside(flux)), default=0)
    while sum(kept) and sum(moved) < order and (sum(kept) + inner > order or sum(moved) == 0):
        axis = next(i for i, m in enumerate(kept) if m)
        kept, moved = lowered(kept, axis), raised(moved, axis)
    if sum(kept) + inner > order:
        raise BvsiError(
            f"to_ufl: {sum(flux.derivative) + inner} derivatives are more than elements with {order} carry; take C1 "
            "elements and order=2, or write the equation as a system of lower order."
        )
    return moved, kept


def _integral(flux: Flux, target: Target[Any], system: EquationSystem, test: Any, order: int) -> Any:
    """(−1)^|β| c ∂^β v D^(α−β) g."""
    moved, kept = parted(flux, system, order)
    value = target.outer(Flux(flux.coefficient, kept, flux.inner), system.words)
    tested = target.derivative(test, moved) if any(moved) else test
    return (-1) ** sum(moved) * flux.coefficient * value * tested


def _target(system: EquationSystem, values: Mapping[str, Any]) -> Target[Any]:
    import ufl

    listed = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "erf", "sign")
    x = ufl.SpatialCoordinate(ufl.domain.extract_unique_domain(values[system.fields[0]]))
    places = {name: x[i] for i, name in enumerate(system.words.coordinates)}

    def derivative(value: Any, index: MultiIndex) -> Any:
        for axis, m in enumerate(index):
            for _ in range(m):
                value = value.dx(axis)
        return value

    def product(parts: Sequence[Any]) -> Any:
        result = parts[0]
        for part in parts[1:]:
            result = result * part
        return result

    def name(text: str) -> Any:
        return values[text] if text in values or text == TIME else places[text]

    return Target(
        number=lambda value: value,
        name=name,
        add=sum,
        multiply=product,
        power=lambda base, exponent: base**exponent,
        derivative=derivative,
        functions={f: getattr(ufl, f) for f in listed} | {"log": ufl.ln, "Abs": abs},
    )
