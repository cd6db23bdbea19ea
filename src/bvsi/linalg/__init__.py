"""Sparse linear algebra on fixed patterns: products, Cholesky factors, selected inverses."""

from bvsi.linalg.cholesky import (
    Analysis,
    Backend,
    Cholmod,
    Factor,
    SuperLU,
    Supernodal,
    analyse,
    available_backends,
)
from bvsi.linalg.congruence import Congruence
from bvsi.linalg.kronecker import Kronecker
from bvsi.linalg.ordering import minimum_degree, nested_dissection
from bvsi.linalg.pattern import Pattern, scatter
from bvsi.linalg.product import Product, sampled_product
from bvsi.linalg.scaled_cholesky import ScaledCholesky
from bvsi.linalg.threads import limited_cores, single_threaded_blas, usable_cores

__all__ = [
    "Analysis",
    "Backend",
    "Cholmod",
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
