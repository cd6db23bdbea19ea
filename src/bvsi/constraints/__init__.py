"""Linear constraints on coefficients by operator name, and quadratic programs over them."""

from bvsi.constraints.affine import Affine
from bvsi.constraints.interior import interior
from bvsi.constraints.linear import AnyConstraints, Constraints, LinearConstraints, as_linear
from bvsi.constraints.program import Program, project, solve_program

__all__ = [
    "Affine",
    "AnyConstraints",
    "Constraints",
    "LinearConstraints",
    "Program",
    "as_linear",
    "interior",
    "project",
    "solve_program",
]
