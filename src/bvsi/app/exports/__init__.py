"""Equations out: a discovery for SymPy, NumPy, JAX, py-pde, UFL, Dedalus, ModelingToolkit and pandas."""

from bvsi.app.exports.arrays import to_jax, to_numpy
from bvsi.app.exports.forms import to_ufl
from bvsi.app.exports.simulators import to_dedalus, to_modelingtoolkit, to_pypde
from bvsi.app.exports.symbolic import to_sympy
from bvsi.app.exports.tables import to_dataframe

__all__ = [
    "to_dataframe",
    "to_dedalus",
    "to_jax",
    "to_modelingtoolkit",
    "to_numpy",
    "to_pypde",
    "to_sympy",
    "to_ufl",
]
