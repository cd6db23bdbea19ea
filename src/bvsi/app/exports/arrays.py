"""Right-hand sides as functions of arrays, for NumPy and for JAX.

du/dt = rhs(t, u, θ),      u of shape (m, fields, *nodes), or flat; rates u_t, … come after the fields where m > 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi.app.exports.differences import derivative_matrix, inner_nodes
from bvsi.app.exports.system import EquationSystem, Flux, Target, system_of
from bvsi.common.naming import MultiIndex, without_equation
from bvsi.data import Grid, Mesh
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.operators.vocabulary import TIME

if TYPE_CHECKING:
    from bvsi.discovery import Discovery

#: Functions of NumPy and JAX by their names in SymPy, where they differ; NumPy has no erf.
ARRAY_FUNCTIONS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "Abs": "abs"}
FUNCTION_NAMES = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "Abs", "sign")

RightSide = Callable[..., Any]


def to_numpy(
    found: Discovery, grid: Grid | Mesh | None = None, *, known: Mapping[str, Any] | None = None, fixed: bool = False
) -> RightSide:
    """``rhs(t, u, theta=None)``, the right-hand side on the nodes of a grid, as ``scipy.integrate.solve_ivp`` takes it.

    Derivatives are spectral along uniform periodic axes, else finite differences of fourth order, one-sided at the ends
    of an axis. Without a boundary condition there a simulation of diffusion is ill-posed: take ``fixed``, or impose
    yours on what the function gives.

    Parameters
    ----------
    grid
        The nodes, such as ``data.geometry``; of a series it is left out.
    known
        Fields that the equations read and do not give, by name: arrays on the nodes, or functions of time. A field at
        an earlier time, ``lag(u, 1.6)``, is one of them, ``u_before``: a function of t that gives u at t - 1.6.
    fixed
        Whether values at the ends of bounded axes stay as they are (Dirichlet): du/dt is zero there.

    Returns
    -------
    A function of time, state and coefficients (d,), by default the posterior mean; its value has the shape of the
    state. The fields of the state are in the order of ``found.fields``, their nodes in C order.
    """
    from scipy.special import erf

    return _right_side(found, grid, known or {}, np, erf, fixed=fixed)


def to_jax(
    found: Discovery, grid: Grid | Mesh | None = None, *, known: Mapping[str, Any] | None = None, fixed: bool = False
) -> RightSide:
    """The same as :func:`to_numpy` for JAX: it can be compiled, differentiated, and mapped over draws of θ.

    JAX computes in single precision unless ``jax.config.update("jax_enable_x64", True)`` was called before.
    """
    try:
        import jax.numpy as jnp
        from jax.scipy.special import erf
    except ImportError:
        raise MissingDependencyError("to_jax: JAX is not installed; run: pip install 'bvsi[export]'") from None
    return _right_side(found, grid, known or {}, jnp, erf, fixed=fixed)


def _right_side(
    found: Discovery, grid: Grid | Mesh | None, known: Mapping[str, Any], xp: Any, erf: Any, *, fixed: bool
) -> RightSide:
    system = system_of(found, range(len(found.names)), named=True).evolving("export")
    inside = {without_equation(name): found.names.index(name) for name in found.parameters}
    nodes = Grid() if grid is None else grid
    if (
        not isinstance(nodes, Grid)
        or nodes.names != system.words.coordinates
        or nodes.coordinates != system.words.system
    ):
        raise BvsiError(
            f"grid: nodes with the axes {', '.join(system.words.coordinates) or 'none'} are needed, such as "
            "data.geometry; a mesh has no axes, simulate on it with bvsi.simulate_found."
        )
    system.check_known({**known, **inside})
    moving = xp.asarray(inner_nodes(nodes.shape, [name in nodes.periods or not fixed for name in nodes.names]))
    places, matrices, mean = _places(nodes, xp), _matrices(system, nodes, xp), xp.asarray(found.theta)
    functions = _functions(xp, erf)

    def right_side(t: Any, u: Any, theta: Any = None) -> Any:
        state = xp.reshape(u, (system.time_order, len(system.fields), *nodes.shape))
        given = {name: value(t) if callable(value) else value for name, value in known.items()}
        values = {**places, TIME: t, **{name: xp.reshape(xp.asarray(v), nodes.shape) for name, v in given.items()}}
        values |= {field: state[0, i] for i, field in enumerate(system.fields)}
        c = mean if theta is None else xp.asarray(theta)
        values |= {name: c[place] for name, place in inside.items()}
        target = _target(values, matrices, functions, xp)

        def total(parts: Sequence[Flux]) -> Any:
            return sum((_times(part, c) * target.outer(part, system.words) for part in parts), xp.zeros(nodes.shape))

        slope = xp.stack([total(parts) for parts in system.fluxes.values()])
        return xp.reshape(moving * xp.concatenate([state[1:], slope[None]]), xp.shape(u))

    return right_side


def operator_values(system: EquationSystem, grid: Grid, states: Mapping[str, Any], times: Any) -> dict[str, Any]:
    """F_i on the nodes at many times at once, (d, T, *nodes) by field.

    Parameters
    ----------
    system
        With 0, 1, …, d − 1 for its coefficients: ``system_of(found, range(d))``.
    states
        Values by name, (T, *nodes), fields that are known among them.
    times
        (T,).
    """
    from scipy.special import erf

    functions = _functions(np, erf)
    t = np.reshape(times, (-1, *[1] * grid.dim))
    target = _target({**_places(grid, np), TIME: t, **states}, _matrices(system, grid, np), functions, np, first=1)
    d = 1 + max(flux.coefficient for parts in system.fluxes.values() for flux in parts)
    found = {field: np.zeros((d, len(t), *grid.shape)) for field in system.fields}
    for field, parts in system.fluxes.items():
        for flux in parts:
            found[field][flux.coefficient] += target.outer(flux, system.words)
    return found


def _times(flux: Flux, theta: Any) -> Any:
    """θ_i of a summand; what stands on the left side has a number."""
    return theta[flux.coefficient] if isinstance(flux.coefficient, int) else flux.coefficient


def _places(grid: Grid, xp: Any) -> dict[str, Any]:
    """Coordinates by name, in shapes that broadcast to that of the nodes."""
    shapes = np.eye(grid.dim, dtype=int) * (np.array(grid.shape, dtype=int) - 1) + 1
    return {
        name: xp.asarray(axis.reshape(shape)) for (name, axis), shape in zip(grid.axes.items(), shapes, strict=True)
    }


def _matrices(system: EquationSystem, grid: Grid, xp: Any) -> dict[tuple[int, int], Any]:
    """Derivative matrices by axis and order, of all derivatives that the equations take."""
    fluxes = [flux for parts in system.fluxes.values() for flux in parts]
    indices = [index for flux in fluxes for index in (flux.derivative, *system.inside(flux))]
    wanted = {(axis, m) for index in indices for axis, m in enumerate(index) if m}
    axes = list(grid.axes.items())
    made = {}
    for axis, m in sorted(wanted):
        name, nodes = axes[axis]
        made[axis, m] = xp.asarray(derivative_matrix(nodes, m, grid.periods.get(name)))
    return made


def _functions(xp: Any, erf: Any) -> dict[str, Any]:
    """Functions of arrays by name; splines, those of unknown functions, of NumPy alone."""
    from bvsi.operators.spline import spline_values  # imports SymPy

    plain = {name: getattr(xp, ARRAY_FUNCTIONS.get(name, name)) for name in FUNCTION_NAMES} | {"erf": erf}
    return {**plain, "spline": spline_values} if xp is np else plain  # JAX gets formulas


def _target(
    values: Mapping[str, Any], matrices: Mapping[tuple[int, int], Any], functions: Any, xp: Any, *, first: int = 0
) -> Target[Any]:
    """The table that evaluates expressions; ``first`` is the axis of the values at which those of space begin."""

    def derivative(value: Any, index: MultiIndex) -> Any:
        for axis, m in enumerate(index):
            if m:
                place = first + axis
                value = xp.moveaxis(xp.tensordot(matrices[axis, m], value, axes=(1, place)), 0, place)
        return value

    def product(parts: Sequence[Any]) -> Any:
        result = parts[0]
        for part in parts[1:]:
            result = result * part
        return result

    return Target(
        number=lambda value: value,
        name=values.__getitem__,
        add=sum,
        multiply=product,
        power=lambda base, exponent: base**exponent,
        derivative=derivative,
        functions=functions,
    )
