"""Classic equations with accurate noise-free data, for benchmarks, studies of coverage and tests.

``CLASSICS`` holds them by name, ``public_cases()`` those whose public data files are present. Data are made when asked
for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bvsi.studies.problems.classics import (
    allen_cahn,
    burgers,
    cahn_hilliard_1d,
    fokker_planck_2d,
    kdv,
    kuramoto_sivashinsky,
    porous_medium,
    reaction_diffusion_2d,
    schroedinger,
)
from bvsi.studies.problems.classics.case import Classic
from bvsi.studies.problems.classics.public import public_cases

__all__ = ["CLASSICS", "Classic", "public_cases"]

CLASSICS: Mapping[str, Classic] = MappingProxyType(
    {
        module.CASE.name: module.CASE
        for module in (
            burgers,
            kdv,
            kuramoto_sivashinsky,
            allen_cahn,
            cahn_hilliard_1d,
            schroedinger,
            reaction_diffusion_2d,
            fokker_planck_2d,
            porous_medium,
        )
    }
)
"""Case by name."""
