"""One free energy for several equations, written as constraints."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.infer.constraints import as_linear
from bvsi.operators import free_energy_library, monomials, shared_free_energy
from bvsi.studies.problems.cahn_hilliard import TRUTH


def test_the_coefficients_of_one_energy_satisfy_them():
    names = free_energy_library(("c1", "c2"), 5).names
    linear = as_linear(shared_free_energy(("c1", "c2"), 5), names)
    truth = np.array([TRUTH.get(name, 0.0) for name in names])
    assert linear.satisfied(truth, tol=1e-12)
    wrong = truth.copy()
    wrong[names.index("c2: laplacian(diff(c1*c2, c2))")] *= 1.01
    assert not linear.satisfied(wrong, tol=1e-6)


@pytest.mark.parametrize("fields, degree", [(("c1", "c2"), 5), (("a", "b", "c"), 3)])
def test_each_monomial_has_one_coefficient(fields, degree):
    names = free_energy_library(fields, degree).names
    affine = as_linear(shared_free_energy(fields, degree), names).ties()
    assert affine is not None
    assert len(affine.free) == len(monomials(len(fields), degree)) + len(fields)  # and one ∇⁴ per equation
    for name, row in zip(names, affine.T, strict=True):  # a coefficient that follows others is of their monomial
        tied = {other for other, weight in zip(affine.free_names, row, strict=True) if weight} | {name}
        assert len(tied) == 1 or len({one.split("diff(")[1].rsplit(",", 1)[0] for one in tied}) == 1


def test_one_field_has_nothing_to_share():
    assert shared_free_energy(("c",), 4) == ()
