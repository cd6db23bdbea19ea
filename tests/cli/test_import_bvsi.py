"""``import bvsi`` is quick, and every public name is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bvsi

HEAVY = ("matplotlib", "numba", "sympy", "skfem", "xarray", "scipy", "pandas", "h5py", "typer", "rich")


def in_a_new_process(script: str) -> str:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_import_loads_nothing_heavy():
    loaded = in_a_new_process(f"import sys, bvsi; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert loaded == "[]"


def test_discover_loads_sympy_and_scikit_fem_only_when_it_runs():
    """Weak forms need SymPy, meshes need scikit-fem; a library of texts needs neither."""
    in_a_new_process(
        "import sys, bvsi\n"
        "bvsi.discover, bvsi.Data, bvsi.Library({'u': ['laplacian(u)', 'u*dx(u)']})\n"
        "assert not {'sympy', 'skfem'} & set(sys.modules)"
    )


def test_star_import_gives_exactly_the_public_names_and_no_matplotlib():
    """Nothing below plot imports matplotlib."""
    names = in_a_new_process(
        "before = set(dir())\nfrom bvsi import *\nnames = set(dir()) - before - {'before'}\n"
        "import sys, bvsi\nassert all(getattr(bvsi, name) is not None for name in bvsi.__all__)\n"
        "import bvsi.studies.problems.fokker_planck\nassert 'matplotlib' not in sys.modules\nprint(*names)"
    )
    assert set(names.split()) == set(bvsi.__all__)


def test_public_names_are_unique_and_listed():
    assert len(set(bvsi.__all__)) == len(bvsi.__all__) <= 70
    assert set(bvsi.__all__) <= set(dir(bvsi))
    for name in (
        "Data",
        "Library",
        "discover",
        "IID",
        "Profile",
        "Lagged",
        "Backward",
    ):
        assert name in bvsi.__all__


def test_every_class_is_the_one_of_its_module():
    from bvsi.infer import Profile
    from bvsi.noise import IID

    assert bvsi.Profile is Profile
    assert bvsi.IID is IID


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_that"):
        bvsi.nothing_like_that  # noqa: B018
