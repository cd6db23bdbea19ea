"""Names that fields may carry: one list, shared by the data and the operator layers."""

from __future__ import annotations

import keyword

from bvsi.errors import DataError

COORDINATE_NAMES: tuple[str, ...] = ("x", "y", "z")
"""Names of the space axes, in this order."""

_SYMBOLS = ("x", "y", "z", "t", "pi")
_OPERATORS = ("laplacian", "grad", "div", "dx", "dy", "dz", "dot", "biharmonic", "diff")
_FUNCTIONS = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "erf")
# Dimensions and coordinates of the xarray form; a variable of the same name would replace them.
_STORAGE = ("time", "node", "mesh_cells", "mesh_cell", "mesh_cell_node")

RESERVED_NAMES: frozenset[str] = frozenset((*_SYMBOLS, *_OPERATORS, *_FUNCTIONS, *_STORAGE))
"""Words with a meaning of their own in operator texts or in stored data: no field may be called so."""


def check_field_name(name: object, what: str = "field") -> str:
    """Return ``name`` if a field may be called so: an identifier that is not reserved, without ``__`` or a last ``_``.

    name: the proposed name.
    what: the noun for the error message, such as ``"auxiliary field"``.
    """
    if not isinstance(name, str):
        raise DataError(f"{what} name {name!r} is not a text; name it like 'u'")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise DataError(
            f"{what} name {name!r} is not an identifier; rename it: letters, digits and '_', "
            "not starting with a digit, no Python keyword"
        )
    if name.endswith("_") or "__" in name:
        raise DataError(
            f"{what} name {name!r} ends with '_' or holds '__', which mark derivatives inside operators; rename it"
        )
    if name in RESERVED_NAMES:
        raise DataError(f"{what} name {name!r} is reserved (coordinate, operator, function or storage name); rename it")
    return name
