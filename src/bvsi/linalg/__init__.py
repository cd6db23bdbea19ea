"""Sparse linear algebra on fixed patterns: products, Cholesky factors, selected inverses."""

from bvsi.linalg.cholesky import Analysis, analyse, nested_dissection
from bvsi.linalg.factor import Factor, ScaledCholesky
from bvsi.linalg.kronecker import Kronecker
from bvsi.linalg.machine import limited_cores, single_threaded_blas, usable_cores
from bvsi.linalg.pattern import Congruence, Pattern, Product
