"""Docstrings become reStructuredText that says the same."""

import importlib.util
from pathlib import Path

import pytest

import bvsi

_PLACE = Path(__file__).parents[2] / "docs" / "plain_docstrings.py"
_SPEC = importlib.util.spec_from_file_location("plain_docstrings", _PLACE)
plain_docstrings = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(plain_docstrings)


def lines(text, names=()):
    return plain_docstrings.rendered(text.splitlines(), names)


def test_arguments_become_a_definition_list():
    assert lines("data: the data,\n    all of them.\nsigma: its noise.", ["data", "sigma"]) == [
        "``data``",
        "    the data, all of them.",
        "``sigma``",
        "    its noise.",
        "",
    ]


def test_two_arguments_in_one_line_are_two_items():
    assert lines("draws: how many; chains: of them.", ["draws", "chains"]) == [
        "``draws``",
        "    how many",
        "``chains``",
        "    of them.",
        "",
    ]


def test_words_that_are_no_arguments_stay_text():
    assert lines("Convention: its mean is zero.", ["data"]) == ["Convention: its mean is zero.", ""]


def test_indented_formulas_are_literal():
    assert lines("Solve it.\n\n    r = y − X θ\n") == ["Solve it.", "", "::", "", "        r = y − X θ", ""]


@pytest.mark.parametrize("text", ["|θ|", "a*b", "σ_", "a`b"])
def test_marks_that_mean_something_to_sphinx_are_escaped(text):
    (line, _) = lines(text)
    assert line.replace("\\", "") == text
    assert "\\" in line


def test_literals_and_roles_stay():
    text = "See ``a*b`` and :class:`~bvsi.operators.Library`, not :func:`to_dataset`."
    assert lines(text) == ["See ``a*b`` and :class:`Library`, not ``to_dataset``.", ""]


def test_arguments_of_the_facade_are_known():
    assert {"data", "library", "noise", "check"} <= plain_docstrings.names_of(bvsi.discover)
    assert {"times", "fields", "measured"} <= plain_docstrings.names_of(bvsi.Data)
