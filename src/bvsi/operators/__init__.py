"""Candidate operators: text or SymPy → strong form → weak form → Jacobian → compiled kernel."""

from bvsi.operators.boundary import (
    Assembled,
    Biharmonic,
    BoundaryCondition,
    Conforming,
    Dirichlet,
    InteriorPenalty,
    Mixed,
    NoFlux,
    Unknown,
    ZeroNeumann,
)
from bvsi.operators.families import (
    energy_operator,
    free_energy_library,
    monomials,
    polynomials,
    shared_free_energy,
)
from bvsi.operators.library import Library
from bvsi.operators.parameters import Parameter
from bvsi.operators.vectors import isotropic
from bvsi.operators.vocabulary import Vocabulary
