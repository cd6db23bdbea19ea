"""Candidate operators: text or SymPy → strong form → weak form → Jacobian → compiled kernel."""

from bvsi.operators.biharmonic import Biharmonic, Conforming, InteriorPenalty, Mixed
from bvsi.operators.boundary import Assembled, BoundaryCondition, Dirichlet, NoFlux, Unknown, ZeroNeumann
from bvsi.operators.free_energy import energy_operator, free_energy_library, monomials, shared_free_energy
from bvsi.operators.library import Library
from bvsi.operators.operator import MeasureForm, WeakOperator
from bvsi.operators.vocabulary import Vocabulary

__all__ = [
    "Assembled",
    "Biharmonic",
    "BoundaryCondition",
    "Conforming",
    "Dirichlet",
    "InteriorPenalty",
    "Library",
    "MeasureForm",
    "Mixed",
    "NoFlux",
    "Unknown",
    "Vocabulary",
    "WeakOperator",
    "ZeroNeumann",
    "energy_operator",
    "free_energy_library",
    "monomials",
    "shared_free_energy",
]
