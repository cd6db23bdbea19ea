"""Discoveries for simulation programs: py-pde, Dedalus (Python text), ModelingToolkit (Julia text)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bvsi.app.exports.arrays import ARRAY_FUNCTIONS, FUNCTION_NAMES
from bvsi.app.exports.system import EquationSystem, Flux, system_of
from bvsi.app.exports.texts import ATOM, Language, Text, heading, nested, number
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.operators.vocabulary import TIME

if TYPE_CHECKING:
    from bvsi.discovery import Discovery


def _by_two(text: str, axis: str, m: int) -> str:
    """Second derivatives as far as they go, whose differences reach less far than two first ones."""
    halves, rest = divmod(m, 2)
    return f"d_d{axis}(" * rest + f"d2_d{axis}2(" * halves + text + ")" * (halves + rest)


_AXES = frozenset("xyz")
_PLAIN = {name: name.lower() for name in FUNCTION_NAMES}
_PYPDE = Language(
    _by_two,
    functions=_PLAIN,
    # SymPy reads the texts of py-pde: its one-letter names, and the operators
    reserved=_AXES | frozenset("CEINOQS") | {TIME, "pi", "laplace", "gradient", "divergence", "dot", "inner", "outer"},
)
_DEDALUS = Language(
    nested("d{axis}"),
    functions={name: f"np.{ARRAY_FUNCTIONS.get(name, name)}" for name in FUNCTION_NAMES},
    reserved=_AXES | {TIME, "np", "d3", "dist", "coords", "bases", "known", "problem", "dt", "dx", "dy", "dz"},
)
_JULIA = """baremodule begin break catch const continue do else elseif end export false finally for function global if
import let local macro module quote return struct true try using while eqs parameters pi im t Dt Dx Dy Dz"""


def to_pypde(
    found: Discovery, *, theta: Sequence[float] | None = None, known: Mapping[str, Any] | None = None, **options: Any
) -> Any:
    """A ``pde.PDE`` of py-pde; fields that py-pde has other uses for, such as x, get ``_`` at the end.

    Parameters
    ----------
    theta
        Coefficients in the order of ``found.names``, such as a draw of the posterior; by default its mean.
    known
        Fields that the equations read and do not give, by name, on py-pde's grid.
    options
        For ``pde.PDE``, such as ``bc``: boundary conditions are yours to state.
    """
    try:
        import pde
    except ImportError:
        raise MissingDependencyError("to_pypde: py-pde is not installed; run: pip install 'bvsi[export]'") from None
    system, given = system_of(found, theta), known or {}
    system.check_known(given)
    return pde.PDE(_pypde_texts(system), consts={_PYPDE.name(k): value for k, value in given.items()}, **options)


def pypde_program(found: Discovery) -> str:
    """A script that makes the ``pde.PDE``."""
    system = system_of(found)
    known = "".join(f"\n# consts={{...}} needs {_PYPDE.name(name)}" for name in system.known if name != TIME)
    texts = json.dumps(_pypde_texts(system), indent=4)
    return (
        f"{heading(found)}\nimport pde\n{known}\n# state boundary conditions with bc=...\nequation = pde.PDE({texts})\n"
    )


def _pypde_texts(system: EquationSystem) -> dict[str, str]:
    """Right sides of u, u_t, … by name."""
    system.evolving("to_pypde").cartesian("to_pypde")
    if system.before:
        raise BvsiError(
            "to_pypde: the equation looks back in time, lag(...), and fields that py-pde is given stay as they are; "
            "export to NumPy, JAX or ModelingToolkit, or use bvsi.simulate_found."
        )
    found: dict[str, str] = {}
    for field in system.fields:
        chain = _chain(system, field, _PYPDE)
        found |= dict(zip(chain, [*chain[1:], _PYPDE.right_side(system, field)], strict=True))
    return found


def _chain(system: EquationSystem, field: str, language: Language) -> list[str]:
    """Names of u, u_t, …: rates are fields of their own where the equation is of higher order in time."""
    rates = [f"{field}_{TIME * k}" for k in range(1, system.time_order)]
    if {*rates} & {*system.words.fields, *system.words.auxiliary}:
        raise BvsiError(f"export: the rate of {field!r} would be called {rates[0]!r}, as a field is; rename that.")
    return [language.name(field), *rates]


def to_dedalus(found: Discovery, *, theta: Sequence[float] | None = None) -> str:
    """A Python function for Dedalus 3 that builds the initial value problem on given bases.

    Terms that are linear with constant coefficients stand on the left side, where Dedalus treats them implicitly.

    Parameters
    ----------
    theta
        Coefficients in the order of ``found.names``; by default the posterior mean.
    """
    system = system_of(found, theta).evolving("to_dedalus").cartesian("to_dedalus")
    axes, timed = system.words.coordinates, TIME in system.known
    variables = [name for field in system.fields for name in _chain(system, field, _DEDALUS)]
    lines = [f'{name} = dist.Field(name="{name}", bases=bases)' for name in variables]
    lines += [f"{_DEDALUS.name(name)} = known[{name!r}]" for name in system.known if name != TIME]
    for i, axis in enumerate(axes):
        lines += [
            f'{axis} = dist.Field(name="{axis}", bases=bases[{i}])',
            f'{axis}["g"] = dist.local_grid(bases[{i}])',
            f'd{axis} = lambda A: d3.Differentiate(A, coords["{axis}"])',
        ]
    lines += [f"{TIME} = dist.Field()"] if timed else []
    options = f"{f'time={TIME}, ' if timed else ''}namespace={{**globals(), **locals()}}"
    lines += [f"problem = d3.IVP([{', '.join(variables)}], {options})"]
    lines += [
        f'problem.add_equation("{text}")' for field in system.fields for text in _dedalus_equations(system, field)
    ]
    body = "\n    ".join([*lines, "return problem"])
    return f'''{heading(found)}
import dedalus.public as d3
import numpy as np


def build(dist, coords=None, bases=(), known={{}}):
    """The initial value problem; bases by axis ({", ".join(axes) or "none"})."""
    {body}
'''


def _dedalus_equations(system: EquationSystem, field: str) -> list[str]:
    """``dt(u) - (0.1*dx(dx(u))) = -1.0*u*dx(u)``, and one for each rate that is a field of its own."""
    chain = _chain(system, field, _DEDALUS)
    found = [f"dt({low}) - {high} = 0" for low, high in itertools.pairwise(chain)]
    linear, rest = _split(system, field)
    implicit = f" - ({_DEDALUS.right_side(system, field, fluxes=linear)})" if linear else ""
    return [*found, f"dt({chain[-1]}){implicit} = {_DEDALUS.right_side(system, field, fluxes=rest)}"]


def _split(system: EquationSystem, field: str) -> tuple[list[Flux], list[Flux]]:
    """Summands that are linear in the fields of the equations with constant coefficients, and all others.

    g = Σ_β (∂g/∂u_β) u_β + rest over the jets u_β whose ∂g/∂u_β is a number.
    """
    import sympy as sp

    linear: list[Flux] = []
    rest: list[Flux] = []
    for flux in system.fluxes[field]:
        own = [s for s, (name, _) in system.words.jets(flux.inner).items() if name in system.fields]
        slopes = {symbol: sp.diff(flux.inner, symbol) for symbol in own}
        constant = sp.Add(*(slope * symbol for symbol, slope in slopes.items() if slope.is_number))
        for part, among in ((constant, linear), (sp.expand(flux.inner - constant), rest)):
            if part != 0:
                among.append(Flux(flux.coefficient, flux.derivative, part))
    return linear, rest


def _unit(found: Discovery, i: int) -> str:
    """The unit of a coefficient as a comment; a result from somebody else may hold line breaks anywhere."""
    unit = " ".join(found.units.get(found.names[i], "").split())
    return f"  # {unit}" if unit else ""


def to_modelingtoolkit(found: Discovery, *, theta: Sequence[float] | None = None) -> str:
    """Julia for ModelingToolkit: an ODE system of a series, equations for a ``PDESystem`` otherwise.

    Coefficients are parameters p_1, p_2, … in the order of ``found.names``, so that a draw of the posterior needs no
    new equations.

    Parameters
    ----------
    theta
        Coefficients in the order of ``found.names``; by default the posterior mean.
    """
    values = [*map(float, found.theta if theta is None else theta)]
    system = system_of(found, range(len(values))).evolving("to_modelingtoolkit").cartesian("to_modelingtoolkit")
    axes, places = (TIME, *system.words.coordinates), [f"p_{i + 1}" for i in range(len(values))]

    def written(name: str) -> str:
        field, tau = system.before.get(name, (name, 0.0))
        return f"{field}({', '.join((f't - {tau!r}' if tau else TIME, *axes[1:]))})"

    julia = Language(
        nested("D{axis}"),
        power="^",
        functions=_PLAIN,
        reserved=frozenset((*_JULIA.split(), *axes, *places)),
        fields=written,
    )
    rows = []
    for field in system.fields:
        left = "Dt(" * system.time_order + julia.fields(julia.name(field)) + ")" * system.time_order
        right = julia.right_side(system, field, lambda c: Text(places[c], ATOM) if isinstance(c, int) else number(c))
        rows.append(f"{left} ~ {right},")
    names = [
        julia.name(name) for name in (*system.fields, *(k for k in system.known if k not in (TIME, *system.before)))
    ]
    series = len(axes) == 1
    plain = series and not system.before
    given = "using ModelingToolkit: t_nounits as t" if series else f"@parameters {' '.join(axes)}"
    unknowns = ", ".join(map(julia.fields, names))
    wanted = f"PDESystem(eqs, bcs, domains, [{', '.join(axes)}], [{unknowns}], parameters)"
    last = "@mtkbuild system = ODESystem(eqs, t)" if series else f"# with bcs and domains: @named system = {wanted}"
    newline, numbered = "\n    ", list(enumerate(zip(places, values, strict=True)))
    return f"""{heading(found)}
using ModelingToolkit
{given}

@parameters begin
    {newline.join(f"{place} = {value!r}{_unit(found, i)}" for i, (place, value) in numbered)}
end
@variables {" ".join(f"{name}({'t' if plain else '..'})" for name in names)}
{"; ".join(f"D{axis} = Differential({axis})" for axis in axes)}

eqs = [
    {newline.join(rows)}
]
parameters = [{", ".join(places)}]
{last}
"""
