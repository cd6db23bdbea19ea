"""Sparse linear algebra on fixed patterns: products, Cholesky factors, selected inverses."""

from bvsi.linalg.cholesky import Supernodal, analyse, available_backends
from bvsi.linalg.factor import Analysis, Backend, Factor, ScaledCholesky
from bvsi.linalg.kronecker import Kronecker
from bvsi.linalg.machine import limited_cores, single_threaded_blas, usable_cores
from bvsi.linalg.ordering import minimum_degree, nested_dissection
from bvsi.linalg.pattern import Pattern, scatter
from bvsi.linalg.product import Congruence, Product, sampled_product
from bvsi.linalg.superlu import SuperLU

__all__ = [
    "Analysis",
    "Backend",
    "Congruence",
    "Factor",
    "Kronecker",
    "Pattern",
    "Product",
    "ScaledCholesky",
    "SuperLU",
    "Supernodal",
    "analyse",
    "available_backends",
    "limited_cores",
    "minimum_degree",
    "nested_dissection",
    "sampled_product",
    "scatter",
    "single_threaded_blas",
    "usable_cores",
]
