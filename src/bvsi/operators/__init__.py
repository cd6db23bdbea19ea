"""Candidate operators: text or SymPy → strong form → weak form → Jacobian → compiled kernel."""

from bvsi.operators.boundary import Assembled, BoundaryCondition, Dirichlet, NoFlux, Unknown, ZeroNeumann
from bvsi.operators.library import Library
from bvsi.operators.operator import MeasureForm, WeakOperator
from bvsi.operators.vocabulary import MultiIndex, Vocabulary

__all__ = [
    "Assembled",
    "BoundaryCondition",
    "Dirichlet",
    "Library",
    "MeasureForm",
    "MultiIndex",
    "NoFlux",
    "Unknown",
    "Vocabulary",
    "WeakOperator",
    "ZeroNeumann",
]
