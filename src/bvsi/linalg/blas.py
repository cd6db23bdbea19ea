"""Kernels that Numba compiles, and SciPy's own BLAS and LAPACK inside them.

Compiled kernels are kept on disk; a cache that is damaged or cannot be written costs time only. SciPy exports its
routines as C function pointers (``scipy.linalg.cython_blas``). Their addresses differ from process to process, so
kernels take them as an argument: a compiled kernel then holds no address, and Numba can keep it. Importing this module
imports Numba.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

from bvsi.common.arrays import Integers
from bvsi.errors import MissingDependencyError


class _Cache(FunctionCache):
    """Numba's own cache: what it cannot read is compiled again, what it cannot write is not kept."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # pickles of a file that was cut off fail in many ways
            with suppress(Exception):
                self.flush()  # to an index that cannot be read nothing could be added
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


def part(function: Callable[..., Any]) -> Any:
    """A function that only kernels call: compiled into each of them, and not callable from Python."""
    return njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def kernel(function: Callable[..., Any]) -> Any:
    """A function compiled without Python objects and without its lock."""
    compiled = njit(nogil=True)(function)
    with suppress(RuntimeError):  # there is no place that can be written to
        compiled._cache = _Cache(function)
    return compiled


_ROUTINES = (
    ("scipy.linalg.cython_lapack", "dpotrf"),
    ("scipy.linalg.cython_lapack", "dpotri"),
    ("scipy.linalg.cython_blas", "dtrsm"),
    ("scipy.linalg.cython_blas", "dsyrk"),
    ("scipy.linalg.cython_blas", "dsymm"),
    ("scipy.linalg.cython_blas", "dgemm"),
)
_POTRF, _POTRI, _TRSM, _SYRK, _SYMM, _GEMM = range(len(_ROUTINES))

# Fortran's character arguments.
LOWER = np.uint8(ord("L"))
LEFT = np.uint8(ord("L"))
RIGHT = np.uint8(ord("R"))
PLAIN = np.uint8(ord("N"))
TRANSPOSED = np.uint8(ord("T"))
_NON_UNIT = np.uint8(ord("N"))


@cache
def addresses() -> Integers:
    """Addresses of the routines, (6,), to pass to kernels; :class:`MissingDependencyError` where this SciPy has others.

    The wrappers below pass 32-bit integers. SciPy states the C signature of every routine it exports, and one
    whose integers are not plain ``int`` (an ILP64 build) must not be called with them.
    """
    if config.DISABLE_JIT:
        raise MissingDependencyError("Cholesky factors are compiled by Numba: leave NUMBA_DISABLE_JIT unset.")
    return np.array([_address(module, name) for module, name in _ROUTINES], dtype=np.int64)


def _address(module: str, name: str) -> int | None:
    """Address of one routine, refused if its C signature is not the one assumed here."""
    from importlib import import_module

    capsule = import_module(module).__pyx_capi__[name]
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype = ctypes.c_char_p
    python.PyCapsule_GetName.argtypes = [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = python.PyCapsule_GetName(capsule)
    if not has_32_bit_integers(signature.decode()):
        raise MissingDependencyError(
            "this build of SciPy exports BLAS with integers other than 32 bits: install SciPy from its wheels."
        )
    address: int | None = python.PyCapsule_GetPointer(capsule, signature)
    return address


def has_32_bit_integers(signature: str) -> bool:
    """True if every parameter of a C signature points to ``char``, plain ``int`` or SciPy's double ``d``."""
    match = re.fullmatch(r"void \((.*)\)", signature)
    if match is None or ctypes.sizeof(ctypes.c_int) != 4:
        return False
    parameters = [parameter.strip() for parameter in match.group(1).split(",")]
    return all(re.fullmatch(r"(char|int|double|__pyx_t_\w+_d) \*", parameter) for parameter in parameters)


@intrinsic
def _call_fortran(typing_context: Any, address: Any, arguments: Any) -> Any:  # noqa: ARG001
    """Call the void routine at ``address``: arrays by their data pointer, scalars by the address of a copy.

    The arguments come as one tuple, which keeps the arrays alive until the call is over.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        pointers = []
        for k, argument in enumerate(signature.args[1]):
            value = builder.extract_value(values[1], k)
            if isinstance(argument, types.Array):
                place = context.make_array(argument)(context, builder, value).data
            else:
                place = cgutils.alloca_once_value(builder, value)
            pointers.append(builder.bitcast(place, pointer))
        routine = ir.FunctionType(ir.VoidType(), [pointer] * len(pointers)).as_pointer()
        builder.call(builder.inttoptr(values[0], routine), pointers)
        return context.get_dummy_value()

    return types.void(address, arguments), generate


# The wrappers below keep the names and the order of the Fortran arguments. All matrices are stored by
# columns.


@part
def potrf(blas: Any, n: int, a: Any, lda: int, info: Any) -> None:
    """A = L Lᵀ in place, lower triangle; ``info[0]`` is 0, or the order of the first minor not positive."""
    _call_fortran(blas[_POTRF], (LOWER, np.int32(n), a, np.int32(lda), info))


@part
def potri(blas: Any, n: int, a: Any, lda: int, info: Any) -> None:
    """L → (L Lᵀ)⁻¹ in place, lower triangle."""
    _call_fortran(blas[_POTRI], (LOWER, np.int32(n), a, np.int32(lda), info))


@part
def trsm_right(blas: Any, trans: int, m: int, n: int, a: Any, lda: int, b: Any, ldb: int) -> None:
    """B ← B op(L)⁻¹ with L lower (n, n) and B (m, n)."""
    arguments = (RIGHT, LOWER, trans, _NON_UNIT, np.int32(m), np.int32(n), 1.0)
    _call_fortran(blas[_TRSM], (*arguments, a, np.int32(lda), b, np.int32(ldb)))


@part
def syrk(blas: Any, n: int, k: int, alpha: float, a: Any, lda: int, beta: float, c: Any, ldc: int) -> None:
    """C ← alpha A Aᵀ + beta C, lower triangle, with A (n, k)."""
    arguments = (LOWER, PLAIN, np.int32(n), np.int32(k), alpha)
    _call_fortran(blas[_SYRK], (*arguments, a, np.int32(lda), beta, c, np.int32(ldc)))


@part
def symm_left(
    blas: Any, m: int, n: int, alpha: float, a: Any, lda: int, b: Any, ldb: int, beta: float, c: Any, ldc: int
) -> None:
    """C ← alpha A B + beta C with A symmetric (m, m), lower triangle given, and B (m, n)."""
    arguments = (LEFT, LOWER, np.int32(m), np.int32(n), alpha)
    _call_fortran(blas[_SYMM], (*arguments, a, np.int32(lda), b, np.int32(ldb), beta, c, np.int32(ldc)))


@part
def gemm(
    blas: Any,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: float,
    a: Any,
    lda: int,
    b: Any,
    ldb: int,
    beta: float,
    c: Any,
    ldc: int,
) -> None:
    """C ← alpha op(A) op(B) + beta C with op(A) (m, k) and op(B) (k, n)."""
    arguments = (transa, transb, np.int32(m), np.int32(n), np.int32(k), alpha)
    _call_fortran(blas[_GEMM], (*arguments, a, np.int32(lda), b, np.int32(ldb), beta, c, np.int32(ldc)))
