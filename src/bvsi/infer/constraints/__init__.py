"""Linear constraints on coefficients by operator name, and quadratic programs over them."""

from bvsi.infer.constraints.feasibility import Affine
from bvsi.infer.constraints.linear import AnyConstraints, Constraints, LinearConstraints, as_linear
from bvsi.infer.constraints.program import interior, project, solve_program
