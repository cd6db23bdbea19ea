"""Texts of all targets, for ``bvsi export``: scripts for NumPy and JAX that need no bvsi, and a form for UFL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bvsi.app.exports import differences
from bvsi.app.exports.arrays import ARRAY_FUNCTIONS, FUNCTION_NAMES
from bvsi.app.exports.forms import parted
from bvsi.app.exports.simulators import pypde_program, to_dedalus, to_modelingtoolkit
from bvsi.app.exports.symbolic import to_sympy
from bvsi.app.exports.system import EquationSystem, Flux, system_of
from bvsi.app.exports.tables import to_dataframe
from bvsi.app.exports.texts import ATOM, Language, Text, heading, multiplied, number
from bvsi.app.report import equation_latex
from bvsi.errors import BvsiError
from bvsi.operators.vocabulary import TIME

if TYPE_CHECKING:
    from bvsi.discovery import Discovery

# NumPy's and JAX's own names, and what the imports of a script are.
_MODULES = {"numpy": ("np", "scipy.special"), "jax": ("jnp", "jax.scipy.special")}

_SCRIPT_NAMES = (
    "t",
    "d",
    "p",
    "np",
    "jnp",
    "erf",
    "axes",
    "cache",
    "known",
    "matrix",
    "moving",
    "names",
    "periods",
    "shape",
    "slope",
    "state",
    "values",
    "zero",
)


def array_program(found: Discovery, library: str) -> str:
    """A script with ``right_side(axes, periods, known)``, which makes ``rhs(t, values, p)``, for NumPy or JAX."""
    system = system_of(found, range(len(found.names))).evolving("export")
    (xp, special), axes = _MODULES[library], system.words.coordinates
    python = Language(
        lambda text, axis, m: f"d({text}, {axes.index(axis)}, {m})",
        functions={name: f"{xp}.{ARRAY_FUNCTIONS.get(name, name)}" for name in FUNCTION_NAMES} | {"erf": "erf"},
        reserved=frozenset((*_SCRIPT_NAMES, *axes)),
    )
    sides = [
        python.right_side(system, f, lambda c: Text(f"p[{c}]", ATOM) if isinstance(c, int) else number(c))
        for f in system.fields
    ]
    reads = [f"{python.name(f)} = state[0, {i}]" for i, f in enumerate(system.fields)]
    reads += [
        f"{python.name(k)} = known[{k!r}]"
        + (f"(t)  # {system.before[k][0]} at t - {system.before[k][1]!r}" if k in system.before else "")
        for k in system.known
        if k != TIME
    ]
    reads += [f"{axis} = {xp}.reshape(axes[{axis!r}], {_along(i, len(axes))})" for i, axis in enumerate(axes)]
    helper = Path(differences.__file__).read_text(encoding="utf-8").split("import numpy as np\n", 1)[1].strip()
    named = [f"{name} {found.units.get(name, '')}".split() for name in found.names]
    order = "\n".join(f"#   {i}  {' '.join(words)}" for i, words in enumerate(named))
    imports = "import numpy as np" if library == "numpy" else "import jax.numpy as jnp\nimport numpy as np"
    imports += f"\nfrom {special} import erf" if any("erf(" in side for side in sides) else ""
    inner = "\n            "
    return f'''{heading(found)}
from functools import cache

{imports}

# coefficients, in this order:
{order}
THETA = np.array({found.theta.tolist()!r})

{helper}


def right_side(axes={{}}, periods={{}}, known={{}}, fixed=False):
    """rhs(t, values, p=THETA) on nodes by axis ({", ".join(axes) or "none"}), with the periods of periodic axes.

    With fixed=True values at the ends of other axes stay as they are.
    """
    names = {list(axes)!r}
    shape = tuple(len(axes[name]) for name in names)
    moving = inner_nodes(shape, [name in periods or not fixed for name in names])

    @cache
    def matrix(axis, order):
        return derivative_matrix(axes[names[axis]], order, periods.get(names[axis]))

    def d(value, axis, order):
        return {xp}.moveaxis({xp}.tensordot(matrix(axis, order), value, axes=(1, axis)), 0, axis)

    def rhs(t, values, p=THETA):
        state = {xp}.reshape(values, ({system.time_order}, {len(system.fields)}, *shape))
        zero = {xp}.zeros(shape)
        {(chr(10) + 8 * " ").join(reads)}
        slope = {xp}.stack([
            {inner.join(f"{side} + zero," for side in sides)}
        ])
        return {xp}.reshape(moving * {xp}.concatenate([state[1:], slope[None]]), {xp}.shape(values))

    return rhs
'''


def _along(axis: int, dim: int) -> str:
    return f"({', '.join('-1' if i == axis else '1' for i in range(dim))},)"


def ufl_program(found: Discovery) -> str:
    """A Python function that makes the form of :func:`to_ufl`, for elements that carry one derivative."""
    system = system_of(found).evolving("to_ufl").cartesian("to_ufl")
    axes = system.words.coordinates
    python = Language(
        lambda text, axis, m: (text if text.isidentifier() else f"({text})") + f".dx({axes.index(axis)})" * m,
        functions={name: f"ufl.{name}" for name in (*FUNCTION_NAMES, "erf")} | {"log": "ufl.ln", "Abs": "abs"},
        reserved=frozenset(("ufl", "fields", "tests", "known", "place", *axes)),
    )
    rows = [_integral(flux, system, f, python) for f, fluxes in system.fluxes.items() for flux in fluxes]
    reads = [f"{python.name(f)} = fields[{f!r}]" for f in system.fields]
    reads += [f"{python.name(k)} = known[{k!r}]" for k in system.known]
    reads += [f"place = ufl.SpatialCoordinate(ufl.domain.extract_unique_domain(fields[{system.fields[0]!r}]))"]
    reads += [f"{axis} = place[{i}]" for i, axis in enumerate(axes)]
    return f'''{heading(found)}
import ufl


def right_side(fields, tests, known={{}}):
    """The right-hand side as a form; integrals over the boundary are left out (no flux)."""
    {(chr(10) + 4 * " ").join(reads)}
    return (
        {(chr(10) + 8 * " " + "+ ").join(rows)}
    )
'''


def _integral(flux: Flux, system: EquationSystem, field: str, python: Language) -> str:
    """(−1)^|β| c ∂^β v D^(α−β) g as text."""
    moved, kept = parted(flux, system, 1)
    value = python.target(system.words).outer(Flux(flux.coefficient, kept, flux.inner), system.words)
    test = Text(f"tests[{field!r}]" + "".join(f".dx({axis})" * m for axis, m in enumerate(moved)), ATOM)
    return f"({multiplied([number((-1) ** sum(moved) * flux.coefficient), value, test]).text}) * ufl.dx"


#: Texts by target: ``bvsi export --to``.
PROGRAMS: Mapping[str, Callable[[Discovery], str]] = {
    "sympy": lambda found: "\n".join(map(str, to_sympy(found))) + "\n",
    "latex": equation_latex,
    "numpy": lambda found: array_program(found, "numpy"),
    "jax": lambda found: array_program(found, "jax"),
    "pypde": pypde_program,
    "ufl": ufl_program,
    "dedalus": to_dedalus,
    "modelingtoolkit": to_modelingtoolkit,
    "csv": lambda found: str(to_dataframe(found).to_csv()),
}


def drawn_program(found: Discovery, target: str, draws: int, seed: int = 0) -> str:
    """The text of a target with draws of the posterior, one row each, in the order of the coefficients.

    Programs for NumPy and JAX end with an array ``DRAWS``, whose rows are values of p; that for ModelingToolkit with a
    matrix of its parameters; a table has the draws instead.
    """
    table = to_dataframe(found, draws=draws, rng=np.random.default_rng(seed))
    if target == "csv":
        return str(table.to_csv(index=False))
    rows = table.to_numpy().tolist()
    if target in _MODULES:
        written = ",\n".join(f"    {row!r}" for row in rows)
        return f"{PROGRAMS[target](found)}\n\nDRAWS = np.array([\n{written},\n])\n"
    if target == "modelingtoolkit":
        written = "\n".join(f"    {' '.join(map(repr, row))}" for row in rows)
        return f"{PROGRAMS[target](found)}draws = [\n{written}\n]\n"
    raise BvsiError(
        f"--draws: a text for {target} has one set of coefficients; in Python found.to_{target}(theta=draw), or export "
        "to numpy, jax, modelingtoolkit or csv."
    )
